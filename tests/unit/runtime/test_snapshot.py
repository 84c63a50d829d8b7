"""The snapshot's document: what it holds and leaves out, its bounds, and a reader that believes nothing."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perenne
from perenne import App, Engine, JobState, Kind
from perenne.errors import InvalidInput, TooLarge
from perenne.runtime import snapshot
from perenne.store import overview
from perenne.store.overview import Truncated, Wanted
from perenne.testing import FakeClock

SCHEMA = json.loads((Path(__file__).parents[3] / "docs/schema/perenne.jobs.snapshot.v1.json").read_text())


def double(context: Any, number: int) -> int:
    if number < 0:
        raise ValueError("x" * 3000)
    return 2 * number


APP = App("snap", [Kind("snap.double", 1, double, int, max_attempts=1)])


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    perenne.create(tmp_path / "w", APP, name="Snap")
    with perenne.open(tmp_path / "w", APP, access="work", clock=FakeClock()) as opened:
        yield opened


@pytest.fixture
def document(engine: Engine) -> dict[str, Any]:
    """A snapshot with a job in three states, as plain values."""
    for number in (1, -1):
        engine.submit("snap.double", number)
    engine.work()
    engine.pause(engine.submit("snap.double", 2).job_id)
    found: dict[str, Any] = json.loads(snapshot.encode(engine.view.snapshot()))
    return found


def test_it_says_how_the_work_stands(document: dict[str, Any]) -> None:
    """Counts, queues, controls and each job, the unfinished ones first; nothing of input or result."""
    assert document["counts"] == {"COMPLETED": 1, "FAILED": 1, "PAUSED": 1}
    assert document["jobs"][0]["state"] == "PAUSED"
    assert document["queues"][0]["unfinished"] == 1
    assert document["truncated"] == {"unfinished": 0, "finished": 0}
    assert all("input" not in job and "result" not in job for job in document["jobs"])
    failed = next(job for job in document["jobs"] if job["state"] == "FAILED")
    assert (failed["number"], failed["spent"], failed["failures"]) == (1, 1, 1)
    assert len(failed["diagnostic"]) == overview.DIAGNOSTIC_LETTERS


def test_the_reader_takes_what_the_writer_wrote(document: dict[str, Any]) -> None:
    """Written and read back, it is the same."""
    encoded = json.dumps(document).encode()
    assert msgspec.to_builtins(snapshot.decode(encoded)) == document


def _without(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name in document:
        yield f"{name} is missing", {key: value for key, value in document.items() if key != name}
    for name in document["jobs"][0]:
        job = {key: value for key, value in document["jobs"][0].items() if key != name}
        yield f"{name} of a job is missing", {**document, "jobs": [job, *document["jobs"][1:]]}


def _changed(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    wrong: dict[str, Any] = {
        "contract": "perenne.jobs.snapshot.v2",
        "workspace": "x",
        "epoch": 0,
        "revision": -1,
        "changed_at": 1.5,
        "name": "",
        "paused": 1,
        "counts": {"RUNS": 1},
        "queues": [{}],
        "workers": [{"id": "x"}],
        "truncated": {"unfinished": 1, "finished": 0},
        "surprise": 1,
    }
    for name, value in wrong.items():
        yield name, {**document, name: value}
    jobs = document["jobs"]
    for name, value in {
        "id": "X" * 36,
        "state": "DONE",
        "priority": 1001,
        "spent": 101,
        "max_attempts": 0,
        "version": 0,
        "cancel_asked": 1,
        "kind": "k" * 201,
        "progress_message": "m" * 121,
        "diagnostic": "d" * 241,
        "surprise": 1,
    }.items():
        yield f"{name} of a job", {**document, "jobs": [{**jobs[0], name: value}, *jobs[1:]]}
    yield "twice", {**document, "jobs": [jobs[0], *jobs]}
    yield "one is hidden", {**document, "jobs": jobs[1:]}


def test_the_reader_believes_nothing(document: dict[str, Any]) -> None:
    """A field that is missing, unknown, of another type, out of its bounds or at odds with the others is refused."""
    for what, broken in [*_without(document), *_changed(document)]:
        with pytest.raises(InvalidInput, match="snapshot: "):
            pytest.fail(f"{what}: {snapshot.decode(json.dumps(broken).encode())}")
    for text in (b"", b"[]", b"{", b"null", b"\xff", b'{"contract":' * 2000):
        with pytest.raises(InvalidInput):
            snapshot.decode(text)
    with pytest.raises(TooLarge):
        snapshot.decode(b" " * (snapshot.MOST_BYTES + 1))


def test_the_schema_has_every_bound(document: dict[str, Any]) -> None:
    """The published schema closes each object, requires each field of a job, and bounds each text and list."""
    job, whole = SCHEMA["$defs"]["JobLine"], SCHEMA["$defs"]["Snapshot"]
    for shape, value in ((job, document["jobs"][0]), (whole, document)):
        assert shape["additionalProperties"] is False
        assert set(shape["properties"]) == set(shape["required"]) == set(value)
    assert whole["properties"]["jobs"]["maxItems"] == 3000
    texts = [field for field in job["properties"].values() if field.get("type") == "string"]
    assert texts
    assert all("maxLength" in field or "pattern" in field for field in texts)


def test_what_does_not_fit_is_left_out_and_counted(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Above its bound finished jobs go first; how many went is told, and the reader still agrees."""
    for number in range(60):
        engine.submit("snap.double", number)
    engine.work()
    for number in range(20):
        engine.submit("snap.double", number)
    whole = engine.view.snapshot()
    monkeypatch.setattr(snapshot, "MOST_BYTES", len(snapshot.encode(whole)) // 2)
    encoded = snapshot.encode(whole)
    assert len(encoded) <= snapshot.MOST_BYTES
    read = snapshot.decode(encoded)
    assert read.truncated.finished > 0
    assert read.truncated.unfinished == 0
    assert len(read.jobs) + read.truncated.finished == 80


def test_a_view_has_its_limits(engine: Engine) -> None:
    """At most so many unfinished and so many finished jobs, the newest of these first; the rest is counted."""
    ids = [engine.submit("snap.double", number).job_id for number in range(10)]
    for id in ids[:6]:
        engine.cancel(id)
    found = overview.look(engine._driver, Wanted(unfinished=3, finished=2))
    assert [job.state for job in found.jobs] == [JobState.QUEUED] * 3 + [JobState.CANCELLED] * 2
    assert found.truncated == Truncated(unfinished=1, finished=4)
    chosen = overview.look(engine._driver, Wanted(states=frozenset({"CANCELLED"})))
    assert [job.id for job in chosen.jobs] == list(reversed(ids[:6]))
    assert chosen.truncated == Truncated(unfinished=4, finished=0)


def test_looking_again_is_looking_anew(engine: Engine) -> None:
    """Counts that follow the history and lines that are kept are those of a first look, through every verb."""
    before = None
    steps: list[Callable[[], object]] = [
        lambda: [engine.submit("snap.double", number) for number in (1, 2, -1)],
        lambda: engine.pause(engine.jobs()[0].id),
        lambda: engine.work(),
        lambda: engine.resume(engine.jobs()[0].id),
        lambda: engine.cancel(engine.jobs()[0].id),
        lambda: engine.requeue(engine.jobs()[2].id, "again"),
        lambda: engine.work(),
    ]
    for step in steps:
        step()
        view, before = overview.look_again(engine._driver, before)
        assert view.counts == engine.counts()
        assert view == overview.look(engine._driver)


def test_looking_walks_over_no_finished_job(engine: Engine) -> None:
    """Each part of a look finds its jobs by an index, however many have ended."""
    from perenne.store.sqlite.driver import queries

    connection = engine._driver._driver._reading._connect()  # type: ignore[attr-defined]
    try:
        for name in ("unfinished_places", "finished_places"):
            plan = [row[-1] for row in connection.execute(f"explain query plan {queries()[name]}", {"limit": 5})]
            assert plan
            assert not [line for line in plan if line.startswith("SCAN job") and "INDEX" not in line], plan
    finally:
        connection.close()
