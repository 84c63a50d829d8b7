"""`context.submit` and its kin, for handlers in threads, in processes and as coroutines."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # a child imports the app by this name, too

import family_app
import msgspec
import pytest

import perenne
from perenne import Context, Engine, Job, JobState, Kind, errors, testing

S = JobState
Trial = Any
MakeKind = Callable[..., Kind]
WAYS = ("thread", "process", "coroutine")


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    root = testing.workspace(tmp_path / "work", family_app.app)
    with perenne.open(root, family_app.app, access="work", clock=testing.FakeClock()) as opened:
        yield opened


def run(engine: Engine, way: str, *orders: dict[str, Any], **more: Any) -> tuple[Job, list[Job]]:
    """The parent after its handler submitted these, and its children in the order of submission."""
    id = engine.submit(f"parent.{way}", {"orders": list(orders), **more}, max_attempts=1).job_id
    engine.work()
    return engine.job(id), [job for job in engine.jobs() if job.parent == id]


@pytest.mark.parametrize("way", WAYS)
def test_a_handler_submits_children(engine: Engine, way: str) -> None:
    """They run, name their parent, and keep every wish."""
    at = datetime(2030, 1, 1, tzinfo=UTC)
    wishes = {"priority": 7, "key": f"mine-{way}", "unique_key": f"only-{way}", "max_attempts": 2}
    parent, (first, second) = run(engine, way, {"name": "a", **wishes}, {"name": "b"}, not_before=at)
    assert (parent.state, first.state, second.state) == (S.COMPLETED, S.QUEUED, S.QUEUED)
    assert (first.priority, first.key, first.unique_key, first.max_attempts) == (7, f"mine-{way}", f"only-{way}", 2)
    assert first.due_at == second.due_at == int(at.timestamp() * 1_000_000)
    assert (parent.result or b"").decode().count("false") == 2


@pytest.mark.parametrize("way", WAYS)
def test_the_next_attempt_finds_what_the_first_one_submitted(engine: Engine, way: str) -> None:
    """A handler that fails behind its submits and is repeated submits nothing twice, with and without names."""
    id = engine.submit(f"parent.{way}", {"orders": [{"name": "a"}, {}], "fails": True}, max_attempts=2).job_id
    testing.drain(engine, clock=engine._clock)
    parent = engine.job(id)
    assert (parent.state, parent.number) == (S.COMPLETED, 2)
    assert (parent.result or b"").decode().count("true") == 2
    assert len([job for job in engine.jobs() if job.parent == id]) == 2


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_holds_a_join_over_children_that_are_not_there_yet(engine: Engine, way: str) -> None:
    """All of them in one transaction; the join runs last, once, and after both."""
    parent, children = run(engine, way, {"name": "a"}, {"name": "b"}, join="last")
    assert parent.state is S.COMPLETED
    assert [child.state for child in children] == [S.COMPLETED] * 3
    (join,) = [child for child in children if child.input == b'"last"']
    ended = [line.job_id for line in engine.history() if line.verb == "complete"]
    assert ended[-1] == join.id


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("order", "error"),
    [
        ({"kind": "nobody"}, "unknown_kind"),
        ({"input": 5}, "invalid_input: input of leaf@1: "),
        ({"job_id": "x"}, "invalid_input: job_id"),
        ({"name": "two\nlines"}, "invalid_input: name"),
        ({"name": ""}, "invalid_input: name"),
        ({"colour": "red"}, "invalid_input: colour"),
        ({"depends_on": ["x"]}, "job_not_found: dependencies"),
        ({"queue": "nowhere"}, "invalid_input: queue"),
        ({"patience_s": -1}, "invalid_input: patience_s"),
    ],
)
def test_bad_input_gets_one_sentence(engine: Engine, way: str, order: dict[str, Any], error: str) -> None:
    """The same error wherever the handler runs, and nothing is stored."""
    parent, children = run(engine, way, order)
    assert children == []
    family, sentence = (parent.diagnostic or "").split(": ", 1)
    assert f"{family}: {re.sub('^job [0-9a-f-]+: ', '', sentence)}".startswith(error)


@pytest.mark.parametrize("way", WAYS)
def test_a_task_enqueues_as_its_job(engine: Engine, way: str) -> None:
    """`.enqueue()` inside a handler makes a child under its token; the same call again is the same child."""
    parent, children = run(engine, way, enqueues=2)
    assert (parent.state, len(children)) == (S.COMPLETED, 1)
    assert children[0].kind == "leaf_task"


def test_an_attempt_that_lost_its_right_submits_nothing(trial: Trial, make_kind: MakeKind) -> None:
    """It gets `StaleToken`, its next boundary ends it, and no child is there; also past its time limit."""
    met: list[BaseException] = []

    def handler(context: Context, input: object) -> None:
        if input == "wall":
            context._wishes.ask("wall")
        else:
            context._token = msgspec.structs.replace(context._token, attempt="0" * 32)
        for verb in (lambda: context.submit(kind, None), context.boundary):
            try:
                verb()
            except BaseException as error:
                met.append(error)

    kind = make_kind(handler, max_attempts=1, wall_limit_s=60)
    for input in ("stale", "wall"):
        with trial.open(kind) as engine:
            job = engine.submit(kind, input)
            engine.work()
            assert [one.id for one in engine.jobs() if one.parent] == [], job
    assert [type(error) for error in met] == [errors.StaleToken, errors.Unwound] * 2


def test_requests_of_others_are_refused(trial: Trial, make_kind: MakeKind) -> None:
    """A context takes what it made, and an engine takes no child that passes by its parent's token."""
    refused: list[str] = []

    def handler(context: Context, input: object) -> None:
        mine, theirs = context.request(kind, 1), near.request(kind, 2)
        for verb, batch in ((context.submit_many, [theirs]), (near.submit_many, [mine]), (context.submit_many, [3])):
            try:
                verb(batch)  # type: ignore[operator]
            except errors.InvalidInput as error:
                refused.append(str(error))

    kind = make_kind(handler)
    with trial.open(kind) as near:
        near.submit(kind, None)
        near.work()
        assert len(near.jobs()) == 1
    assert [sentence.split(":")[0] for sentence in refused] == ["children", "batch", "children"]
