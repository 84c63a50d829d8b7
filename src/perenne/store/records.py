"""The records of an exported workspace, one a line: their fields and bounds, and nothing that is not bounded.

A record refuses what no ledger of ours would hold. What does not live here: files (`runtime.transfer`), reading records
from a ledger (`dump`) and putting them into one (`adoption`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec
from msgspec import Meta

from perenne.core import estimate, limits
from perenne.core.job import OnDependency, Outcome
from perenne.core.states import FINAL, JobState
from perenne.errors import InvalidInput, TooLarge

CONTRACT: Literal["perenne.workspace.export.v1"] = "perenne.workspace.export.v1"
LINE_BYTES = 1 << 20

_MOST = 1 << 62  # so that the next number is still one
_UUID = r"\A[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\Z"

Count = Annotated[int, Meta(ge=0, le=_MOST)]
Number = Annotated[int, Meta(ge=1, le=_MOST)]
Rank = Annotated[int, Meta(ge=-_MOST, le=_MOST)]
Priority = Annotated[int, Meta(ge=limits.PRIORITY[0], le=limits.PRIORITY[-1])]
Attempts = Annotated[int, Meta(ge=limits.ATTEMPTS[0], le=limits.ATTEMPTS[-1])]
Instant = Annotated[int, Meta(ge=0, le=limits.DUE_MOST_US)]  # UTC microseconds
Uuid = Annotated[str, Meta(pattern=_UUID)]
Digest = Annotated[str, Meta(pattern=r"\A[0-9a-f]{64}\Z")]
Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_BYTES, pattern=r"\A[^\x00]+\Z")]
Key = Annotated[str, Meta(min_length=1, max_length=limits.KEY_BYTES, pattern=r"\A[^\x00]+\Z")]
Text = Annotated[str, Meta(pattern=r"\A[^\x00]*\Z")]  # bounded by its line


class Record(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="record", tag=str.lower):
    """The root of all records; `record` in the line says which one it is."""

    sizes: ClassVar[dict[str, int]] = {}  # in bytes of UTF-8

    def __post_init__(self) -> None:
        """Raises: ValueError, which a decoder answers with the place of the field."""
        for field, limit_bytes in self.sizes.items():
            value = getattr(self, field)
            data = value.encode() if isinstance(value, str) else value
            if data is not None and len(data) > limit_bytes:
                raise ValueError(f"{field}: {len(data)} bytes, the limit is {limit_bytes}")
        finding = self._finding()
        if finding:
            raise ValueError(finding)

    def _finding(self) -> str | None:
        """What no ledger of ours would hold, although each field for itself would do."""
        return None


class Counts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How many records of each sort the file holds."""

    queue: Count = 0
    owner: Count = 0
    listener: Count = 0
    job: Count = 0
    attempt: Count = 0
    dependency: Count = 0
    history: Count = 0
    notice: Count = 0


class Header(Record, frozen=True, kw_only=True):
    """The first line: what this file is, and how much of it there is."""

    contract: Literal["perenne.workspace.export.v1"] = CONTRACT
    workspace: Uuid
    name: Text
    app: Name
    epoch: Number
    schema: Number
    paused: bool
    stopped: bool
    exported_at: Instant
    counts: Counts


class Queue(Record, frozen=True):
    name: Name
    capacity: Number
    unfinished: Count
    paused: bool
    stopped: bool

    sizes = {"name": limits.NAME_BYTES}


class Owner(Record, frozen=True):
    id: Uuid
    pid: Count
    boot_id: Text
    started: Text
    joined_at: Instant
    left_at: Instant | None


class Listener(Record, frozen=True):
    name: Name
    since: Instant


class Job(Record, frozen=True):
    """Field by field the columns of a job; a test keeps them equal."""

    seq: Number
    id: Uuid
    kind: Name
    version: Number
    queue: Name
    state: JobState
    reason: Text
    priority: Priority
    rank: Rank
    submitted_at: Instant
    due_at: Instant
    key: Key | None
    unique_key: Key | None
    input: bytes
    publications: Text
    requested_at: Instant
    unmet: Count
    max_attempts: Attempts
    spent: Count
    number: Count
    failures: Count
    interruptions: Count
    attempt: Name | None
    cancel_asked: bool
    pause_asked: bool
    active_ms: Count
    active_limit_ms: Count | None
    progress_done: Count
    progress_total: Count | None
    progress_message: Text | None
    result: bytes | None
    diagnostic: Text | None
    updated_at: Instant
    finished_at: Instant | None
    revision: Number
    max_interruptions: Attempts | None = None  # in exports of before it was kept
    parent: Uuid | None = None  # the same
    estimate: Text | None = None
    on_dependency: OnDependency = OnDependency.BLOCK

    sizes = {
        "kind": limits.NAME_BYTES,
        "queue": limits.NAME_BYTES,
        "key": limits.KEY_BYTES,
        "unique_key": limits.KEY_BYTES,
        "input": limits.INPUT_BYTES,
        "result": limits.RESULT_BYTES,
        "diagnostic": limits.DIAGNOSTIC_BYTES,
    }

    def _finding(self) -> str | None:
        if self.spent > self.max_attempts:
            return f"spent: {self.spent}, the limit is max_attempts, {self.max_attempts}"
        if (self.attempt is not None) != (self.state is JobState.RUNNING):
            return f"attempt: {self.attempt!r}, although the state is {self.state}"
        if (self.finished_at is not None) != (self.state in FINAL):
            return f"finished_at: {self.finished_at}, although the state is {self.state}"
        if self.progress_total is not None and self.progress_done > self.progress_total:
            return f"progress_done: {self.progress_done}, the limit is progress_total, {self.progress_total}"
        return _bad_publications(self.publications) or _bad_estimate(self.estimate)


class Attempt(Record, frozen=True):
    id: Name
    job: Uuid
    number: Number
    epoch: Number
    owner: Uuid
    claimed_at: Instant
    ended_at: Instant | None
    outcome: Outcome | None
    reason: Text | None
    spent: bool
    active_ms: Count
    diagnostic: Text | None

    sizes = {"diagnostic": limits.DIAGNOSTIC_BYTES}

    def _finding(self) -> str | None:
        if (self.ended_at is None) != (self.outcome is None):
            return f"ended_at: {self.ended_at}, although the outcome is {self.outcome}"
        return None


class Dependency(Record, frozen=True):
    job: Uuid
    needs: Uuid
    waived: bool


class History(Record, frozen=True):
    seq: Number
    job: Uuid | None
    subject: Text
    verb: Text
    from_state: JobState | None
    to_state: JobState | None
    reason: Text
    actor: Text
    at: Instant
    number: Count | None


class Notice(Record, frozen=True):
    id: Text
    listener: Name
    job: Uuid
    state: JobState
    at: Instant


class Footer(Record, frozen=True):
    """The last line: the digest of every byte before it, and how many records there were."""

    sha256: Digest
    counts: Counts


Line = Header | Queue | Owner | Listener | Job | Attempt | Dependency | History | Notice | Footer
ORDER: tuple[type[Record], ...] = (Header, Queue, Owner, Listener, Job, Attempt, Dependency, History, Notice, Footer)

_DECODER = msgspec.json.Decoder(Line)


def encode(record: Record) -> bytes:
    """The line of a record, with its end.

    Raises: TooLarge: the line is longer than any reader takes.
    """
    line = msgspec.json.encode(record) + b"\n"
    limits.check_size(f"line of a {type(record).__name__.lower()}", len(line), LINE_BYTES, "it cannot be exported")
    return line


def decode(line: bytes) -> Line:
    """The record of one line.

    Raises: InvalidInput, TooLarge: the sentence says which field is wrong, and how.
    """
    if len(line) >= LINE_BYTES and not line.endswith(b"\n"):
        raise TooLarge(f"it is longer than {LINE_BYTES} bytes", limit=LINE_BYTES)
    if not line.endswith(b"\n"):
        raise InvalidInput("it has no end: the file was cut here")
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(str(error)) from None


def of_mapping(given: Mapping[str, object]) -> Line:
    """The record that a mapping of the same fields says.

    Raises: InvalidInput: the sentence says which field is wrong, and how.
    """
    try:
        found: Line = msgspec.convert(given, Line)
        return found
    except (msgspec.ValidationError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput(str(error)) from None


def _bad_estimate(text: str | None) -> str | None:
    try:
        if text is not None:
            estimate.read(text)
    except InvalidInput as error:
        return str(error)
    return None


def _bad_publications(text: str) -> str | None:
    try:
        msgspec.json.decode(text, type=dict[str, Uuid])
    except (msgspec.DecodeError, RecursionError) as error:
        return f"publications: {error}"
    return None
