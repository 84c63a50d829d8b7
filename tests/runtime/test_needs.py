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
