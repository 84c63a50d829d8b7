"""A workspace leaves as one file of lines and comes in whole, in a new one, or not at all."""

from __future__ import annotations

import hashlib
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perenne.core import events, job
from perenne.core.states import JobState
from perenne.errors import InvalidInput, StaleToken, StoreBusy, StoreExists, StoreFailed, TooLarge
from perenne.files.lock import Lock
from perenne.runtime import transfer
from perenne.store import disagreements, records
from perenne.store.notices import Notices
from perenne.store.sqlite import backup

EXPORT_POINTS = ["export.leftover_removed", "export.staged", "export.renamed", "export.folder_synced"]
TABLES = ["queue", "listener", "dependency", "notice"]
ACTOR = "person:test"


def export(place: Any, path: Path, **values: Any) -> transfer.Exported:
    return transfer.export(place.workspace, path, copies=backup, clock=place.clock(), **values)


def import_(place: Any, path: Path) -> transfer.Imported:
    return transfer.import_(path, place.workspace, place.driver, clock=place.clock(), actor=ACTOR)


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def sealed(found: list[dict[str, Any]]) -> bytes:
    """The lines as a file with a right digest, as a careful forger would write it."""
    text = b"".join(json.dumps(line).encode() + b"\n" for line in found[:-1])
    return text + json.dumps({**found[-1], "sha256": hashlib.sha256(text).hexdigest()}).encode() + b"\n"


def is_empty(place: Any) -> None:
    assert place.reader.jobs() == []
    assert place.reader.history() == []
    assert place.owners.epoch() == 1


@pytest.fixture
def exported(full: Any, tmp_path: Path) -> Path:
    """The export of a workspace with a job in every state."""
    path = tmp_path / "export.jsonl"
    export(full, path)
    return path


def test_records_are_the_rows() -> None:
    """An exported job, attempt and line of history have the fields of the ledger's, so that none can be forgotten."""
    assert records.Job.__struct_fields__ == job.Job.__struct_fields__
    assert [name.removesuffix("_id") for name in job.Attempt.__struct_fields__] == list(
        records.Attempt.__struct_fields__
    )
    assert [name.removesuffix("_id") for name in job.HistoryLine.__struct_fields__] == list(
        records.History.__struct_fields__
    )
    assert records.Counts.__struct_fields__ == tuple(kind.__name__.lower() for kind in records.ORDER[1:-1])


def test_export_is_one_private_file_that_checks_itself(full: Any, exported: Path) -> None:
    """The file has a header with contract and counts, a line a row, and a footer with the digest of all before it."""
    found = lines(exported)
    raw = exported.read_bytes().splitlines(keepends=True)
    assert stat.S_IMODE(exported.stat().st_mode) == 0o600
    assert found[0]["contract"] == "perenne.workspace.export.v1"
    assert (found[0]["workspace"], found[0]["app"], found[0]["epoch"]) == (full.workspace.id, "upkeep", 1)
    assert found[-1]["sha256"] == hashlib.sha256(b"".join(raw[:-1])).hexdigest()
    assert found[0]["counts"] == found[-1]["counts"]
    sorts = [line["record"] for line in found[1:-1]]
    assert {name: sorts.count(name) for name in found[0]["counts"]} == found[0]["counts"]
    assert found[0]["counts"]["job"] == len(JobState)
    assert {line["state"] for line in found if line["record"] == "job"} == set(JobState)


def test_export_leaves_nothing_beside_it(full: Any, tmp_path: Path) -> None:
    """An export writes its file and nothing else: no copy, no stage, no byte of the workspace but its own lock file."""
    full.close()
    before = set(os.listdir(full.workspace.own_folder))
    export(full, tmp_path / "export.jsonl")
    assert set(os.listdir(full.workspace.own_folder)) == before | {"export.lock"}
    assert sorted(os.listdir(tmp_path)) == ["export.jsonl", "full"]


def test_round_trip(full: Any, exported: Path, make: Callable[..., Any]) -> None:
    """Everything comes back with its ids, places, times and bytes, but for what had been running."""
    fresh = make("fresh")
    counts = import_(fresh, exported).adopted
    assert counts is not None
    assert (counts.workspace, counts.epoch, counts.interrupted) == (full.workspace.id, 1, 1)
    for table in TABLES:
        assert fresh.rows(f"select * from {table} order by 1, 2") == full.rows(f"select * from {table} order by 1, 2")
    ran = {job.id for job in full.reader.jobs() if job.state is JobState.RUNNING}
    before = {job.id: job for job in full.reader.jobs()}
    after = {job.id: job for job in fresh.reader.jobs()}
    assert before.keys() == after.keys()
    assert {id for id in before if before[id] != after[id]} == ran
    for id in before.keys() - ran:
        assert fresh.reader.attempts(id) == full.reader.attempts(id)
    revision = full.reader.revision()
    assert fresh.reader.history(limit=revision) == full.reader.history()
    assert fresh.driver.read(disagreements.find) == []
    assert fresh.rows("pragma foreign_key_check") == []


def test_import_twice_is_export_again(full: Any, exported: Path, make: Callable[..., Any], tmp_path: Path) -> None:
    """An import, exported again and imported a second time, gives the same jobs, attempts and lines."""
    first, second = make("first"), make("second")
    import_(first, exported)
    export(first, tmp_path / "again.jsonl")
    import_(second, tmp_path / "again.jsonl")
    assert second.reader.jobs() == first.reader.jobs()
    assert second.reader.history(limit=first.reader.revision()) == first.reader.history()
    assert (first.owners.epoch(), second.owners.epoch()) == (2, 3)


def test_nothing_runs_after_an_import(full: Any, exported: Path, make: Callable[..., Any]) -> None:
    """A job that ran when it was exported is back in the queue, its attempt interrupted and counted, with a line."""
    fresh = make("fresh")
    import_(fresh, exported)
    assert JobState.RUNNING not in fresh.reader.counts()
    id = next(job.id for job in full.reader.jobs() if job.state is JobState.RUNNING)
    imported, attempts = fresh.reader.job(id), fresh.reader.attempts(id)
    assert (imported.state, imported.attempt, imported.interruptions) == (JobState.QUEUED, None, 1)
    assert [(one.outcome, one.spent, one.ended_at) for one in attempts] == [("interrupted", True, fresh.now)]
    lines_after = fresh.reader.history(after=full.reader.revision())
    assert [(line.subject, line.verb, line.actor) for line in lines_after] == [
        (f"job:{id}", "requeue_interrupted", ACTOR),
        ("workspace", "import", ACTOR),
    ]
    assert fresh.rows("select count(*) from owner where left_at is null") == [(0,)]


@pytest.mark.parametrize("asked", ["cancel", "nothing left"])
def test_running_job_that_would_end_unseen_waits_for_a_person(
    place: Any, make: Callable[..., Any], tmp_path: Path, asked: str
) -> None:
    """A running job that was asked to cancel, or has no attempt left, is not ended without a look: a person decides."""
    id = place.submit(max_attempts=1 if asked == "nothing left" else 3)
    place.claim()
    if asked == "cancel":
        place.ledger.tell(id, events.Cancel(), now=place.tick(), actor=ACTOR)
    export(place, tmp_path / "export.jsonl")
    fresh = make("fresh")
    import_(fresh, tmp_path / "export.jsonl")
    assert fresh.reader.job(id).state is JobState.RECOVERY_REQUIRED
    assert "nobody could look" in str(fresh.reader.job(id).diagnostic)


def test_token_of_the_old_place_is_worth_nothing(place: Any, make: Callable[..., Any], tmp_path: Path) -> None:
    """The worker that still holds the job in the old workspace can write nothing in the new one: epoch and attempt."""
    place.submit()
    token = place.claim()
    export(place, tmp_path / "export.jsonl")
    fresh = make("fresh")
    import_(fresh, tmp_path / "export.jsonl")
    assert fresh.owners.epoch() == token.epoch + 1
    with pytest.raises(StaleToken):
        fresh.end(token, events.Returned())
    with pytest.raises(StaleToken):
        fresh.ledger.progress(token, 1, 2, None, now=fresh.tick())
    place.end(token, events.Returned())


def test_work_goes_on_in_the_new_place(full: Any, exported: Path, make: Callable[..., Any]) -> None:
    """After an import jobs are claimed in their old order, controls hold, and new places follow the old ones."""
    fresh = make("fresh")
    import_(fresh, exported)
    claimed = fresh.claim("data.running")
    assert claimed.number == 2
    fresh.end(claimed, events.Returned())
    assert fresh.reader.job(claimed.job_id).state is JobState.COMPLETED
    new = fresh.submit()
    assert fresh.reader.job(new).seq == max(job.seq for job in full.reader.jobs()) + 1
    assert len(Notices(fresh.driver).pending("listener", 10)) == len(Notices(full.driver).pending("listener", 10)) + 1


def test_controls_travel(place: Any, make: Callable[..., Any], tmp_path: Path) -> None:
    """Pauses and stops of the workspace and of its queues, and their bounds, stand in the new place as in the old."""
    place.ledger.add_queue("slow", 7)
    place.ledger.control("pause", None, now=place.tick(), actor=ACTOR)
    place.ledger.control("stop", "slow", now=place.tick(), actor=ACTOR)
    export(place, tmp_path / "export.jsonl")
    fresh = make("fresh")
    import_(fresh, tmp_path / "export.jsonl")
    assert fresh.reader.controls() == place.reader.controls()
    assert fresh.reader.queues() == place.reader.queues()
    assert [line.verb for line in fresh.reader.history()] == ["pause", "stop", "import"]


def test_odd_texts_and_bytes_travel(place: Any, make: Callable[..., Any], tmp_path: Path) -> None:
    """Words that mean something in JSON, other scripts, line breaks and bytes that are no text come back unchanged."""
    for key in ("null", "true", "1", 'q"uo\\te', "línea\n二", "\N{PILE OF POO}", "a\u2028b"):
        id = place.submit(key=key, unique_key=key)
        place.end(place.claim(), events.Returned(bytes(range(256))))
        assert place.reader.job(id).result == bytes(range(256))
    export(place, tmp_path / "export.jsonl")
    fresh = make("fresh")
    import_(fresh, tmp_path / "export.jsonl")
    assert fresh.reader.jobs() == place.reader.jobs()


def test_largest_input_travels(place: Any, make: Callable[..., Any], tmp_path: Path) -> None:
    """A job with the largest input and result that a ledger takes fits in a line."""
    place.complete()
    place.rows("update job set input = zeroblob(262144), result = zeroblob(262144)")
    export(place, tmp_path / "export.jsonl")
    fresh = make("fresh")
    import_(fresh, tmp_path / "export.jsonl")
    assert len(fresh.reader.jobs()[0].input) == 262144


def test_ledger_that_holds_what_it_cannot_is_not_exported(place: Any, tmp_path: Path) -> None:
    """A row that no ledger of ours would hold stops the export with its finding; no file is left."""
    place.complete()
    place.rows("update job set input = zeroblob(262145)")
    with pytest.raises(StoreFailed, match=r"a job that cannot be exported: input: 262145 bytes, the limit is 262144"):
        export(place, tmp_path / "export.jsonl")
    assert os.listdir(tmp_path) == ["workspace"]


def test_purged_workspace_travels(place: Any, make: Callable[..., Any], tmp_path: Path) -> None:
    """Lines about jobs that were purged with their history kept travel without their job."""
    from perenne.store.retention import Retention, Rule

    place.complete()
    place.submit()
    list(Retention(place.driver).purge(Rule(keep=0, history="kept"), now=place.tick(), actor=ACTOR))
    export(place, tmp_path / "export.jsonl")
    fresh = make("fresh")
    import_(fresh, tmp_path / "export.jsonl")
    assert fresh.reader.jobs() == place.reader.jobs()
    assert fresh.reader.history()[:-1] == place.reader.history()


def test_same_file_again_changes_nothing(exported: Path, make: Callable[..., Any]) -> None:
    """Importing the file that was imported here before says so and changes nothing; so a killed command is repeated."""
    fresh = make("fresh")
    first = import_(fresh, exported)
    revision = fresh.reader.revision()
    again = import_(fresh, exported)
    assert (again.reused, again.adopted, again.sha256) == (True, None, first.sha256)
    assert not first.reused
    assert fresh.reader.revision() == revision


def test_workspace_with_a_history_takes_no_import(exported: Path, make: Callable[..., Any]) -> None:
    """A workspace that knows a job, or only a control, is refused with the reason, and not changed."""
    busy, paused = make("busy"), make("paused")
    busy.submit()
    paused.ledger.control("pause", None, now=paused.tick(), actor=ACTOR)
    for taken in (busy, paused):
        revision = taken.reader.revision()
        with pytest.raises(StoreExists, match="would run in both"):
            import_(taken, exported)
        assert taken.reader.revision() == revision


def test_export_of_another_app_is_refused(exported: Path, make: Callable[..., Any]) -> None:
    """An export of another application is refused by the names of both."""
    fresh = make("fresh")
    found = lines(exported)
    found[0]["app"] = "other"
    exported.write_bytes(sealed(found))
    with pytest.raises(InvalidInput, match=r"line 1: app: it is an export of 'other', .*'upkeep'"):
        import_(fresh, exported)
    is_empty(fresh)


def test_every_cut_is_refused(exported: Path, make: Callable[..., Any], tmp_path: Path) -> None:
    """A file that was cut after any line, or inside any, is refused naming the line; nothing is imported."""
    fresh = make("fresh")
    whole = exported.read_bytes()
    ends = [place for place, byte in enumerate(whole) if byte == 10]
    cut = tmp_path / "cut.jsonl"
    for number, end in enumerate(ends):
        cut.write_bytes(whole[:end])
        with pytest.raises(InvalidInput, match=rf"line {number + 1}: it has no end: the file was cut here"):
            import_(fresh, cut)
        if end != ends[-1]:
            cut.write_bytes(whole[: end + 1])
            with pytest.raises(InvalidInput, match=rf"line {number + 1}: .*no footer.*cut after it"):
                import_(fresh, cut)
    cut.write_bytes(b"")
    with pytest.raises(InvalidInput, match="it is empty"):
        import_(fresh, cut)
    is_empty(fresh)
    assert import_(fresh, exported).adopted


def test_every_missing_double_or_moved_line_is_refused(
    exported: Path, make: Callable[..., Any], tmp_path: Path
) -> None:
    """A line that is missing, stands twice or was moved is found, also under a right digest; nothing is imported."""
    fresh = make("fresh")
    found = lines(exported)
    forged = tmp_path / "forged.jsonl"
    for number in range(len(found)):
        for other in (
            found[:number] + found[number + 1 :],
            [*found[:number], found[number], *found[number:]],
            [found[number], *found[:number], *found[number + 1 :]] if number else [*found[1:], found[0]],
        ):
            forged.write_bytes(b"".join(json.dumps(line).encode() + b"\n" for line in other))
            with pytest.raises(InvalidInput, match=r"line \d+: "):
                import_(fresh, forged)
            if other[-1]["record"] == "footer":
                forged.write_bytes(sealed(other))
                with pytest.raises(InvalidInput, match=r"line \d+: "):
                    import_(fresh, forged)
    is_empty(fresh)


def test_every_edited_byte_is_found(exported: Path, make: Callable[..., Any], tmp_path: Path) -> None:
    """Whatever byte is changed, the file is refused; here one in every line, and every one of a whole line."""
    fresh = make("fresh")
    whole = exported.read_bytes()
    ends = [place for place, byte in enumerate(whole) if byte == 10]
    edited = tmp_path / "edited.jsonl"
    for place in [end - 3 for end in ends] + list(range(ends[3] + 1, ends[3] + 120)):
        edited.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(InvalidInput, match=r"line \d+: "):
            import_(fresh, edited)
    is_empty(fresh)


def bad_values(value: object) -> list[Any]:
    if isinstance(value, bool):
        return [1, None, "yes"]
    if isinstance(value, int):
        return [-(1 << 62) - 1, 1 << 70, 1.5, str(value), None]
    if isinstance(value, str):
        return ["a\0b", 7, None]
    return [[], {}, -1, "a\0b"]


OPTIONAL = {
    "key", "unique_key", "result", "diagnostic", "progress_message", "progress_total", "active_limit_ms", "left_at",
    "number", "job", "from_state", "to_state", "reason",
}  # fmt: skip


def test_every_field_is_checked_under_a_right_digest(exported: Path, make: Callable[..., Any], tmp_path: Path) -> None:
    """Each field of each sort of line with a value out of its bounds or type is refused by line and field."""
    fresh = make("fresh")
    found = lines(exported)
    forged = tmp_path / "forged.jsonl"
    first = {line["record"]: number for number, line in reversed(list(enumerate(found)))}
    tried = 0
    for sort, number in first.items():
        for field, value in found[number].items():
            for bad in bad_values(value):
                if bad is None and field in OPTIONAL:
                    continue
                line = {**found[number], field: bad}
                other = [*found[:number], line, *found[number + 1 :]]
                forged.write_bytes(
                    sealed(other) if sort != "footer" else b"".join(json.dumps(one).encode() + b"\n" for one in other)
                )
                with pytest.raises(InvalidInput, match=r"line \d+: "):
                    import_(fresh, forged)
                tried += 1
    assert tried > 200
    is_empty(fresh)


def edit(found: list[dict[str, Any]], sort: str, which: int = 0, **values: Any) -> None:
    number = [place for place, line in enumerate(found) if line["record"] == sort][which]
    found[number] = {**found[number], **values}


def of_state(found: list[dict[str, Any]], state: str) -> int:
    return [line["state"] for line in found if line["record"] == "job"].index(state)


LIES: dict[str, tuple[Callable[[list[dict[str, Any]]], None], str]] = {
    "unknown field": (lambda f: edit(f, "job", extra=1), "unknown field `extra`"),
    "other contract": (lambda f: edit(f, "header", contract="perenne.workspace.export.v2"), r"v2.*\$.contract"),
    "bigger header": (lambda f: edit(f, "header", counts={**f[0]["counts"], "job": 12}), "the header says 12 of job"),
    "bigger footer": (lambda f: edit(f, "footer", counts={**f[0]["counts"], "job": 12}), "the footer says 12 of job"),
    "input too large": (lambda f: edit(f, "job", input="A" * 349_528), "input: 262146 bytes, the limit is 262144"),
    "diagnostic too large": (lambda f: edit(f, "job", diagnostic="é" * 1025), "diagnostic: 2050 bytes"),
    "kind too large": (lambda f: edit(f, "job", kind="é" * 101), "kind: 202 bytes"),
    "spent too high": (lambda f: edit(f, "job", spent=4), "spent: 4, the limit is max_attempts, 3"),
    "too many attempts": (lambda f: edit(f, "job", max_attempts=101), r"<= 100.*\$.max_attempts"),
    "finished but waiting": (lambda f: edit(f, "job", finished_at=1), "finished_at: 1, although the state is QUEUED"),
    "final but unfinished": (
        lambda f: edit(f, "job", of_state(f, "COMPLETED"), finished_at=None),
        "finished_at: None, although the state is COMPLETED",
    ),
    "idle with an attempt": (lambda f: edit(f, "job", attempt="ab"), "attempt: 'ab', although the state is QUEUED"),
    "progress beyond its total": (lambda f: edit(f, "job", progress_done=2, progress_total=1), "progress_done: 2"),
    "publication that is no id": (lambda f: edit(f, "job", publications='{"a":"b"}'), "publications: "),
    "publications that are no object": (lambda f: edit(f, "job", publications="[]"), "publications: "),
    "unknown state": (lambda f: edit(f, "job", state="DONE"), r"'DONE'.*\$.state"),
    "unknown queue": (lambda f: edit(f, "job", queue="other"), "queue: 'other' is no queue of this file"),
    "folder as an owner": (lambda f: edit(f, "owner", id="../../etc"), r"\$.id"),
    "folder as a job": (lambda f: edit(f, "job", id="../../../../etc/passwd-passwd-passwd"), r"\$.id"),
    "ended without outcome": (lambda f: edit(f, "attempt", outcome=None), "although the outcome is None"),
    "unknown owner": (
        lambda f: edit(f, "attempt", owner="33333333-3333-4333-8333-333333333333"),
        "its job or owner is not in the file",
    ),
    "id twice": (lambda f: edit(f, "job", 1, id=f[4]["id"]), "stands twice"),
    "key twice": (lambda f: edit(f, "job", 1, key=f[4]["key"]), "stands twice"),
    "active key twice": (lambda f: edit(f, "job", 1, unique_key=f[4]["unique_key"]), "stands twice"),
    "place twice": (lambda f: edit(f, "job", 1, seq=f[4]["seq"]), "seq: 1 stands after 1"),
    "need that is later": (
        lambda f: edit(f, "dependency", job=f[4]["id"], needs=f[5]["id"]),
        "what is needed was not submitted before",
    ),
    "need of itself": (lambda f: edit(f, "dependency", needs=f[5]["id"]), "was not submitted before"),
    "line about nobody": (lambda f: edit(f, "history", job="33333333-3333-4333-8333-333333333333"), "not in the file"),
    "line of birth that is another": (
        lambda f: edit(f, "history", from_state="QUEUED"),
        "line 0 of the history is not the one of its birth",
    ),
    "two lines of birth": (lambda f: edit(f, "history", -1, from_state=None), "is born twice"),
    "line after the notices": (
        lambda f: f.insert(-1, f.pop([line["record"] for line in f].index("notice") - 1)),
        "a history stands after a notice; the order of the file was changed",
    ),
    "notice to nobody": (lambda f: edit(f, "notice", listener="other"), "its job or listener is not in the file"),
    "queue that counts wrongly": (
        lambda f: edit(f, "queue", unfinished=5),
        "queue default: it says 5 unfinished jobs, there are 7",
    ),
    "need that is not missing": (
        lambda f: edit(f, "job", of_state(f, "BLOCKED"), unmet=0),
        "it says 0 dependencies are missing, there are 1",
    ),
    "attempt of another number": (
        lambda f: edit(f, "job", of_state(f, "RUNNING"), number=7),
        "it is RUNNING, but its attempt 7 is not open",
    ),
    "attempt of another id": (lambda f: edit(f, "job", of_state(f, "RUNNING"), attempt="ff"), "is not open"),
    "open attempt of an idle job": (
        lambda f: edit(f, "attempt", ended_at=None, outcome=None),
        "it is RETRY_WAIT, but its attempt 1 is open",
    ),
}  # fmt: skip


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_found_under_a_right_digest(exported: Path, make: Callable[..., Any], lie: str) -> None:
    """A file whose facts contradict each other is refused by line and finding, although its digest is right."""
    fresh = make("fresh")
    found = lines(exported)
    assert found[4]["record"] == "job"
    tell, finding = LIES[lie]
    tell(found)
    exported.write_bytes(sealed(found))
    with pytest.raises((InvalidInput, TooLarge), match=rf"line \d+: .*{finding}.*nothing was imported") as refused:
        import_(fresh, exported)
    assert refused.value.line > 0
    is_empty(fresh)


def test_half_characters_and_nesting_are_refused(exported: Path, make: Callable[..., Any]) -> None:
    """Text that UTF-8 cannot hold, JSON that is too deep, and a line without end are refused by line."""
    fresh = make("fresh")
    first = exported.read_bytes().splitlines(keepends=True)[0]
    for bad, finding in (
        (b'{"record":"queue","name":"\\ud800","capacity":1,"unfinished":0,"paused":false,"stopped":false}\n', ""),
        (b'{"record":"queue","name":"\xff","capacity":1,"unfinished":0,"paused":false,"stopped":false}\n', ""),
        (b"[" * 100_000 + b"\n", ""),
        (b"x" * (2 << 20) + b"\n", "longer than 1048576 bytes"),
        (b"\n", ""),
    ):
        exported.write_bytes(first + bad)
        with pytest.raises((InvalidInput, TooLarge), match=f"line 2: .*{finding}"):
            import_(fresh, exported)
    is_empty(fresh)


def test_only_regular_files_are_imported(make: Callable[..., Any], tmp_path: Path) -> None:
    """A name that is no regular file is refused at once; a pipe is not waited for."""
    fresh = make("fresh")
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, tmp_path / "missing"):
        with pytest.raises(InvalidInput, match="regular file"):
            import_(fresh, path)
    is_empty(fresh)


def test_existing_file_is_never_overwritten(place: Any, tmp_path: Path) -> None:
    """An export to a name that something has is refused before anything is copied."""
    path = tmp_path / "export.jsonl"
    path.write_text("mine")
    with pytest.raises(StoreExists):
        export(place, path)
    assert path.read_text() == "mine"


def test_one_export_at_a_time(place: Any, tmp_path: Path) -> None:
    """While one export runs a second one is refused; nothing of the first is removed."""
    lock = Lock.take(place.workspace.own_folder / "export.lock")
    assert lock
    with lock, pytest.raises(StoreBusy, match="another one runs"):
        export(place, tmp_path / "export.jsonl")
    export(place, tmp_path / "export.jsonl")


def test_export_sees_one_moment_while_work_goes_on(place: Any, tmp_path: Path) -> None:
    """What is written while an export runs is not in it, in no table."""
    for _ in range(200):
        place.complete()
    before = [job.id for job in place.reader.jobs()]
    seen: list[int] = []

    def work_goes_on(done: int, total: int) -> None:
        seen.append(done)
        place.complete()

    export(place, tmp_path / "export.jsonl", progress=work_goes_on)
    assert len(seen) > 5
    found = lines(tmp_path / "export.jsonl")
    assert [line["id"] for line in found if line["record"] == "job"] == before
    assert len([line for line in found if line["record"] == "history"]) == 3 * len(before)
    assert len(place.reader.jobs()) == len(before) + len(seen)


@pytest.mark.parametrize("point", EXPORT_POINTS)
def test_export_killed_at_each_point(
    full: Any, make: Callable[..., Any], tmp_path: Path, trouble: Any, point: str
) -> None:
    """Killed at any point, the file is absent or whole, and the next export removes what was left in the workspace."""
    path = tmp_path / "export.jsonl"
    full.close()
    (full.workspace.own_folder / "export-0.sqlite").write_bytes(b"left by a killed one")
    assert trouble.dies_at(point, lambda: export(full, path))
    assert path.exists() == (point in ("export.renamed", "export.folder_synced"))
    if path.exists():
        import_(make("fresh"), path)
        path.unlink()
    full = make("full", again=True)
    export(full, path)
    assert not list(full.workspace.own_folder.glob("export-*"))
    assert import_(make("other"), path).adopted


def test_export_killed_in_the_middle_of_its_lines(full: Any, tmp_path: Path, trouble: Any) -> None:
    """Killed while it writes, an export leaves no file; the next one removes the copy that it read from."""
    full.close()

    def killed() -> None:
        transfer._write = lambda *given: os.kill(os.getpid(), 9)  # type: ignore[assignment]
        export(full, tmp_path / "export.jsonl")

    assert trouble.dies(killed)
    assert not (tmp_path / "export.jsonl").exists()
    assert len(list(full.workspace.own_folder.glob("export-*.sqlite"))) == 1
    export(full, tmp_path / "export.jsonl")
    assert not list(full.workspace.own_folder.glob("export-*.sqlite"))


@pytest.mark.parametrize("point", ["import.written", "import.committed"])
def test_import_killed_at_each_point(exported: Path, make: Callable[..., Any], trouble: Any, point: str) -> None:
    """Killed before the commit nothing is there, after it all is; the command repeated ends in the same place."""
    fresh = make("fresh")
    fresh.close()
    assert trouble.dies_at(point, lambda: import_(make("fresh", again=True), exported))
    fresh = make("fresh", again=True)
    assert len(fresh.reader.jobs()) == (0 if point == "import.written" else len(JobState))
    again = import_(fresh, exported)
    assert again.reused == (point == "import.committed")
    assert len(fresh.reader.jobs()) == len(JobState)
    assert [line.verb for line in fresh.reader.history()].count("import") == 1


def test_failing_import_leaves_nothing(exported: Path, make: Callable[..., Any], trouble: Any) -> None:
    """An error before the commit undoes all of it; the same engine imports afterwards."""
    fresh = make("fresh")
    with trouble.fails_at("import.written"), pytest.raises(RuntimeError, match="injected"):
        import_(fresh, exported)
    is_empty(fresh)
    assert import_(fresh, exported).adopted


def test_memory_does_not_grow_with_the_workspace(place: Any, make: Callable[..., Any], tmp_path: Path) -> None:
    """An export and an import of 60 MB of input take far less memory than that."""
    import tracemalloc

    place.fill(300, input="randomblob(200000)")
    fresh = make("fresh")
    tracemalloc.start()
    try:
        exported = export(place, tmp_path / "export.jsonl")
        import_(fresh, tmp_path / "export.jsonl")
        _, most_bytes = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert exported.size_bytes > 60_000_000
    assert most_bytes < 40_000_000
    assert fresh.reader.counts() == place.reader.counts()
    assert msgspec.json.encode(exported.counts)
