"""Writes an investigation as the reference program leaves it, with a job store of version 1, 2 or 3.

From the description of its tables in our specification, not from its code. Originals and catalogue are made by
Evidence, whose layout is the same; no ledger and no `workspace.toml` stand there.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import apsw

from perenne.apps.evidence import investigation, originals
from perenne.apps.evidence.findings import Source
from perenne.apps.evidence.identities import Identity
from perenne.apps.evidence.mail_headers import analyser, artefact
from perenne.apps.evidence.publication import publish
from perenne.apps.evidence.requests import MAIL_HEADERS

ID = "82000000-0000-4000-8000-000000000001"
AT = "2026-09-26T21:00:00Z"
LATER = "2026-09-26T21:00:05Z"
STORE = ".labfy/runtime/jobs.sqlite"

_V1 = """
create table metadata (key text primary key, value text not null);
create table controls (
    singleton integer primary key check (singleton = 1), paused integer not null, stop_requested integer not null,
    updated_at text not null
);
create table jobs (
    job_id text primary key, request_id text not null unique, source_evidence_id text not null,
    derivative_evidence_id text not null unique, capability_id text not null, adapter_id text not null,
    adapter_version text not null, source_sha256 text not null, source_size integer not null,
    requested_at text not null, parameters_json text not null, state text not null,
    cancel_requested integer not null default 0, max_attempts integer not null,
    attempt_count integer not null default 0, owner_token text, heartbeat_at text, result_status text,
    diagnostic text, dependency_job_id text references jobs (job_id), revision integer not null default 1
);
create table attempts (
    attempt_id text primary key, job_id text not null references jobs (job_id), rank integer not null,
    owner_token text not null, started_at text not null, heartbeat_at text not null, finished_at text,
    state text not null, diagnostic text, reconciliation text, unique (job_id, rank)
);
create table transitions (
    transition_id integer primary key autoincrement, job_id text not null references jobs (job_id), from_state text,
    to_state text not null, reason text not null, created_at text not null
);
create index jobs_claim on jobs (state, requested_at, job_id);
"""
_V2 = """
create table plans (
    plan_id text primary key, idempotency_key text not null unique, intent_hash text not null,
    input_revision text not null, profile_id text not null, created_at text not null,
    state text not null default 'APPROVED', max_analyses integer not null, max_attempts_total integer not null,
    max_source_bytes integer not null, max_active_ms integer not null, reserved_analyses integer not null,
    reserved_attempts integer not null, reserved_source_bytes integer not null,
    consumed_attempts integer not null default 0, consumed_active_ms integer not null default 0
);
create table plan_jobs (
    plan_id text not null references plans (plan_id), rank integer not null,
    job_id text not null unique references jobs (job_id), primary key (plan_id, rank)
);
"""
_V3 = """
alter table attempts add column reserved_active_ms integer not null default 0;
alter table attempts add column elapsed_active_ms integer;
alter table attempts add column budget_finalized integer not null default 0;
create unique index one_active on jobs (source_evidence_id, capability_id)
    where state in ('QUEUED', 'RUNNING', 'RETRY_WAIT');
"""


def named(word: str) -> str:
    """A UUID that a word always gives."""
    return str(uuid.uuid5(uuid.UUID(ID), word))


@dataclass
class Reference:
    """One such investigation; `write` writes the store once its jobs are told."""

    root: Path
    version: int = 3
    paused: bool = False
    jobs: list[dict[str, Any]] = field(default_factory=list)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    transitions: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        investigation.create(self.root, title="SPECIMEN", specimen=True, investigation_id=ID)

    @property
    def store(self) -> Path:
        return self.root / STORE

    def mail(self, word: str) -> originals.Imported:
        """An original of its own."""
        path = self.root.parent / f"{word}.eml"
        path.write_bytes(f"From: {word}@example.test\r\nTo: b@example.test\r\n\r\n{word}\r\n".encode())
        return originals.import_files(self.root, [path], imported_at=AT)[0]

    def job(self, word: str, state: str, *, tried: Iterable[str] = (), of: str | None = None, **more: Any) -> str:
        """A job of this name about a mail of its own, or `of` another's, with attempts in these states; its id."""
        mail, tried = self.mail(of or word), list(tried)
        id = named(word)
        row = {
            "job_id": id,
            "request_id": named(f"{word} request"),
            "source_evidence_id": mail.evidence_id,
            "derivative_evidence_id": named(f"{word} derivative"),
            "capability_id": MAIL_HEADERS,
            "adapter_id": "labfy.adapter.eml.native",
            "adapter_version": "1",
            "source_sha256": mail.sha256,
            "source_size": mail.size_bytes,
            "requested_at": AT,
            "parameters_json": '{"mode":"headers"}',
            "state": state,
            "max_attempts": 3,
            "attempt_count": len(tried),
        }
        self.jobs.append(row | more)
        for rank, how in enumerate(tried, 1):
            self._attempt(word, rank, how)
        if not tried and state not in ("QUEUED", "RUNNING"):
            self.transitions.append(_moved(id, "QUEUED", state, "said"))
        if tried and tried[-1] not in ("RUNNING", "INTERRUPTED"):
            self.transitions.append(_moved(id, "RUNNING", state, "finished"))
        return id

    def _attempt(self, word: str, rank: int, state: str) -> None:
        running = state == "RUNNING"
        self.attempts.append(
            {
                "attempt_id": named(f"{word} attempt {rank}"),
                "job_id": named(word),
                "rank": rank,
                "owner_token": named(f"{word} owner {rank}"),
                "started_at": AT,
                "heartbeat_at": AT,
                "finished_at": None if running else LATER,
                "state": state,
            }
        )
        self.transitions.append(_moved(named(word), "QUEUED", "RUNNING", "claimed"))
        if state == "INTERRUPTED":
            self.transitions.append(_moved(named(word), "RUNNING", "QUEUED", "interrupted_before_publish"))

    def publish(self, word: str) -> None:
        """What the job of this name publishes, as its program does before it acknowledges."""
        mail = self.mail(word)
        source = Source(mail.evidence_id, mail.sha256, mail.size_bytes)
        identity = Identity(named(f"{word} request"), named(f"{word} derivative"), AT)
        found = analyser.analyse((self.root / mail.relative_path).read_bytes())
        made = artefact.build(request_id=identity.extraction_id, source=source, requested_at=AT, observations=found)
        publish(self.root, identity, source, made)

    def write(self, *, owner: str = ID, says: str | None = None) -> Path:
        """The store; owner, says: the investigation and the version that it names."""
        with apsw.Connection(str(self.store)) as file:
            file.execute(_V1 + (_V2 if self.version >= 2 else ""))
            for key, value in (("schema_version", says or str(self.version)), ("investigation_id", owner)):
                file.execute("insert into metadata values (?, ?)", (key, value))
            file.execute("insert into metadata values ('revision', '0')")
            file.execute("insert into controls values (1, ?, 0, '1970-01-01T00:00:00Z')", (self.paused,))
            for table in ("jobs", "attempts", "transitions"):
                for row in getattr(self, table):
                    places = ", ".join(f":{name}" for name in row)
                    file.execute(f"insert into {table} ({', '.join(row)}) values ({places})", row)
            if self.version >= 2 and self.jobs:
                self._write_plan(file)
            if self.version >= 3:
                file.execute(_V3)
        file.close()
        self.store.chmod(0o600)
        return self.store

    def _write_plan(self, file: apsw.Connection) -> None:
        plan = (named("plan"), named("plan key"), "hash", "7", "SPECIMEN_SMALL", AT, "ACTIVE", 2, 3, 8 << 20, 30_000)
        file.execute(f"insert into plans values ({', '.join('?' * 16)})", (*plan, 1, 1, 100, 1, 10_000))
        file.execute("insert into plan_jobs values (?, 1, ?)", (named("plan"), self.jobs[0]["job_id"]))


def seasoned(root: Path, version: int) -> Reference:
    """An investigation with a job in every state that the reference program knows, its worker killed."""
    made = Reference(root, version)
    made.job("done", "COMPLETED", tried=["INTERRUPTED", "COMPLETED"], result_status="published")
    made.publish("done")
    made.job("published", "RUNNING", tried=["RUNNING"])
    made.publish("published")
    first = made.job("interrupted", "RUNNING", tried=["RUNNING"])
    made.job("unwanted", "RUNNING", tried=["RUNNING"], cancel_requested=1)
    made.job("exhausted", "RUNNING", tried=["RUNNING"], max_attempts=1)
    made.job("waiting", "QUEUED", dependency_job_id=first)
    failed = made.job("failed", "FAILED", tried=["FAILED"], result_status="failed", diagnostic="é" * 1500)
    made.job("stuck", "QUEUED", dependency_job_id=failed)
    made.job("cancelled", "CANCELLED", diagnostic="cancel_requested", result_status="cancelled")
    made.job("doubted", "RECOVERY_REQUIRED", tried=["RECOVERY_REQUIRED"], result_status="blocked")
    made.job("limited", "BLOCKED", tried=["BLOCKED"], result_status="limit_reached", diagnostic="active_time_limit")
    made.job("limited again", "QUEUED", of="limited")
    made.job("retried", "RETRY_WAIT", tried=["FAILED"])
    made.job("strange", "PONDERING")
    made.write()
    return made


def _moved(id: str, before: str, after: str, reason: str) -> dict[str, Any]:
    return {"job_id": id, "from_state": before, "to_state": after, "reason": reason, "created_at": LATER}
