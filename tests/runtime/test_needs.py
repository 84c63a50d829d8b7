"""What a handler sees of the jobs that its own waited for, in a thread, in a process, and as a coroutine."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # a child imports the app by this name, too

import family_app
import msgspec
import pytest

import perenne
from perenne import Context, Engine, JobState, Kind, errors, testing
from perenne.core import limits

S = JobState
Trial = Any
MakeKind = Callable[..., Kind]
WAYS = ("thread", "process", "coroutine")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    root = testing.workspace(tmp_path / "work", family_app.app)
    with perenne.open(root, family_app.app, access="work", clock=testing.FakeClock()) as opened:
        yield opened


def leaves(engine: Engine, *words: str) -> list[str]:
    return [engine.submit("leaf.ornot", word).job_id for word in words]


def seen(engine: Engine, job_id: str) -> dict[str, Any]:
    job = engine.job(job_id)
    assert job.state is S.COMPLETED, job.diagnostic
    answer: dict[str, Any] = json.loads(job.result or b"")
    return answer


@pytest.mark.parametrize("way", WAYS)
def test_results_come_in_the_order_of_submission(engine: Engine, way: str) -> None:
    """More of them than fit one message, each once, however the dependencies were listed."""
    words = [f"word {number}" for number in range(30)]
    ids = leaves(engine, *words)
    job = engine.submit(f"join.{way}", None, depends_on=[*reversed(ids), ids[0]])
    engine.work()
    assert seen(engine, job.job_id)["results"] == words
    assert seen(engine, job.job_id)["ids"] == ids


@pytest.mark.parametrize("way", WAYS)
def test_a_join_sees_what_came_of_each(engine: Engine, way: str) -> None:
    """COMPLETED with its result, FAILED and CANCELLED with the reason and without one."""
    ids = leaves(engine, "good", "bad", "late")
    engine.cancel(ids[2], "not wanted any more")
    job = engine.submit(f"join.{way}", None, depends_on=ids, on_dependency="continue")
    engine.work()
    assert seen(engine, job.job_id)["results"] == ["good"]
    assert seen(engine, job.job_id)["needs"] == [
        ["COMPLETED", False, "leaf.ornot", "good", None],
        ["FAILED", True, "leaf.ornot", None, "it is bad"],
        ["CANCELLED", True, "leaf.ornot", None, "not wanted any more"],
    ]


@pytest.mark.parametrize("way", WAYS)
def test_what_a_person_went_on_without_has_no_result(engine: Engine, way: str) -> None:
    """A dependency that was released by hand is there, unfinished and waived."""
    (needed,) = leaves(engine, "later")
    engine.pause(needed)
    job = engine.submit(f"join.{way}", None, depends_on=[needed])
    engine.release(job.job_id, "it can go without")
    engine.work()
    assert seen(engine, job.job_id)["results"] == []
    assert seen(engine, job.job_id)["needs"] == [["PAUSED", True, "leaf.ornot", None, None]]


@pytest.mark.parametrize("way", WAYS)
def test_a_job_that_waited_for_nobody_sees_nothing(engine: Engine, way: str) -> None:
    """No dependencies, no results."""
    job = engine.submit(f"join.{way}", None)
    engine.work()
    assert seen(engine, job.job_id) == {"results": [], "needs": [], "ids": []}


def test_a_stale_attempt_sees_nothing(trial: Trial, make_kind: MakeKind) -> None:
    """Under a token that is not current nothing is read."""
    met: list[BaseException] = []

    def handler(context: Context, input: object) -> None:
        context._token = msgspec.structs.replace(context._token, attempt="0" * 32)
        with pytest.raises(errors.StaleToken) as stale:
            context.needs()
        met.append(stale.value)

    trial.run(make_kind(handler))
    assert len(met) == 1


def test_results_are_bounded(trial: Trial, make_kind: MakeKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """Past the bound they are refused by number, limit and next step; the largest results fit below it."""
    sizes: list[int] = []

    def handler(context: Context, needs: bool) -> str | None:
        if not needs:
            return "x" * (limits.RESULT_BYTES - 2)
        sizes.append(sum(len(result) for result in context.results()))
        return None

    kind = make_kind(handler, max_attempts=1)
    with trial.open(kind) as engine:
        ids = [engine.submit(kind, False).job_id for _ in range(14)]
        engine.submit(kind, True, depends_on=ids)
        engine.work()
        monkeypatch.setattr(limits, "NEEDS_BYTES", 14 * limits.RESULT_BYTES - 1)
        refused = engine.submit(kind, True, depends_on=ids).job_id
        engine.work()
        assert "needs: 3670016 bytes, the limit is 3670015" in (engine.job(refused).diagnostic or "")
    assert sizes == [14 * (limits.RESULT_BYTES - 2)]


@pytest.mark.parametrize("way", WAYS)
def test_files_of_dependencies_are_input(engine: Engine, way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All that each of them keeps, more than fits one message, and what keeps nothing gives nothing."""
    monkeypatch.setattr("perenne.store.turns.ARTEFACTS_AT_ONCE", 2)
    words = {"one": ["a", "", "c", "d", "e"], "two": ["a"], "none": []}
    ids = {name: engine.submit("keeper", some).job_id for name, some in words.items()}
    job = engine.submit(f"reader.{way}", [], depends_on=list(ids.values()))
    engine.work()
    wanted = {f"word {number} of {ids[name]}": word for name in words for number, word in enumerate(words[name])}
    assert seen(engine, job.job_id) == wanted


@pytest.mark.parametrize("way", WAYS)
def test_files_of_others_are_no_input(engine: Engine, way: str) -> None:
    """Only what it waited for: a job that finished all the same is refused by its id."""
    needed, other = (engine.submit("keeper", ["secret"]).job_id for _ in range(2))
    engine.work()
    job = engine.submit(f"reader.{way}", [other], depends_on=[needed])
    engine.work()
    refused = engine.job(job.job_id)
    assert refused.state is S.FAILED
    assert f"job_id: '{other}' is none of the jobs that job {job.job_id} waited for" in (refused.diagnostic or "")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("harm", "said"), [("changed", "are damaged"), ("gone", "no such file")])
def test_damaged_files_of_dependencies_are_refused(engine: Engine, way: str, harm: str, said: str) -> None:
    """Bytes that are not those of the row are never handed to a handler, though their number is right."""
    needed = engine.submit("keeper", ["right"]).job_id
    engine.work()
    (kept,) = engine.artefacts(needed)
    path = engine.workspace.artefacts_folder / kept.digest[:2] / kept.digest
    path.unlink()
    if harm == "changed":
        path.write_bytes(b"wrong")
    job = engine.submit(f"reader.{way}", [], depends_on=[needed])
    engine.work()
    assert engine.job(job.job_id).state is S.FAILED
    assert said in (engine.job(job.job_id).diagnostic or "").lower()


def test_a_stale_attempt_sees_no_files(trial: Trial, make_kind: MakeKind) -> None:
    """The right to look is that of the attempt."""

    def late(context: Context, input: object) -> str:
        context.needs()
        context._token = msgspec.structs.replace(context._token, number=9)
        with pytest.raises(errors.StaleToken):
            context.artefacts_of(*context.needs())
        return "seen"

    kind = make_kind(late)
    with trial.open(kind) as engine:
        first = engine.submit(kind, None)
        engine.cancel(first.job_id)
        job = engine.submit(kind, None, depends_on=[first.job_id], on_dependency="continue")
        testing.drain(engine, clock=trial.clock)
        assert engine.job(job.job_id).result == b'"seen"', engine.job(job.job_id).diagnostic
