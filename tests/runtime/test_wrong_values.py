"""Wrong Python values at the door: one sentence that names field and value and says what to give; nothing changes."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

import perenne
from perenne import App, Backoff, Engine, JobState, Kind, testing
from perenne.errors import InvalidInput

NAN, INF = float("nan"), float("inf")
WORK = Kind("test.work", 1, lambda context, input: input, Any)
APP = App("trial", [WORK])

# What is given for which field; each is tried on its own.
WISHES: dict[str, list[Any]] = {
    "job_id": ["", 5, b"x"],
    "key": ["", 5, b"key", ["key"]],
    "unique_key": ["", 5, object()],
    "queue": ["", 5, "no\nqueue", "absent"],
    "priority": [1.5, 1.0, True, "1", None, NAN, 1001, 10**5000, []],
    "not_before": ["2030-01-01", 5, NAN, datetime(2030, 1, 1), datetime.max],
    "depends_on": [None, 5, "00000000-0000-4000-8000-000000000001", [5], [None], {"a": 1}, b"ab"],
    "on_dependency": [None, "BLOCK", 5, ["block"]],
    "max_attempts": ["3", 1.5, 2.0, True, 0, 101, NAN],
    "ids": [5, "ids", [], {"letter": 5}, {5: 5}],
    "requested_at": [NAN, "now", -1, 1.5, True, 10**30],
    "patience_s": [NAN, -1, "2", None, INF, True, [], 1e300],
    "durability": [None, "DURABLE", 5, ["durable"]],
    "no_such_wish": [1],
}
VERBS: dict[str, list[Callable[[Engine, str], Any]]] = {
    "kind": [lambda engine, job, kind=kind: engine.submit(kind, 1) for kind in (None, 5, b"test.work", [], Kind)],
    "batch": [
        lambda engine, job, batch=batch: engine.submit_many(batch)
        for batch in ([1], None, 5, "batch", [None], {"a": 1}, (object(),))
    ],
    "patience_s": [lambda engine, job: engine.submit_many([], patience_s=NAN)],
    "reason": [
        *(lambda engine, job, reason=reason: engine.cancel(job, reason) for reason in (5, None, b"why", "", " ")),
        lambda engine, job: engine.release(job, 5),
    ],
    "to": [
        lambda engine, job, to=to: engine.resolve(job, to, "why")
        for to in ("FOO", None, 5, [], "completed", JobState.RUNNING)
    ],
    "queue": [
        *(lambda engine, job, queue=queue: engine.pause(queue=queue) for queue in ("", 5, b"default", "absent", [])),
        lambda engine, job: engine.resume(job, queue="default"),
        lambda engine, job: engine.stop(queue=5),
    ],
    "state": [lambda engine, job, state=state: engine.jobs(state=state) for state in ("FOO", 5, "queued", [])],
    "after": [
        *(lambda engine, job, after=after: engine.jobs(after=after) for after in ("x", None, -1, 1.5, True, 1 << 63)),
        lambda engine, job: engine.history(after="x"),
    ],
    "limit": [
        *(lambda engine, job, limit=limit: engine.jobs(limit=limit) for limit in ("x", None, -1, NAN, 1 << 63)),
        lambda engine, job: engine.history(limit=-1),
        lambda engine, job: engine.deliver("known", print, limit=-1),
    ],
    "job_id": [lambda engine, job: engine.history(job_id=5), lambda engine, job: engine.attempts([])],
    "listener": [lambda engine, job, listener=listener: engine.on_end(listener) for listener in (None, 5, "print")],
    "name": [
        *(lambda engine, job, name=name: engine.listen(name) for name in ("", " ", 5, None, b"x", "a\0", "x" * 201)),
        lambda engine, job: engine.deliver("", print),
    ],
    "receive": [lambda engine, job: engine.deliver("known", None)],
    "timeout_s": [lambda engine, job, given=given: engine.wait(job, given) for given in (NAN, INF, "2", True, [])],
    "slots": [lambda engine, job, slots=slots: engine.work(slots=slots) for slots in ("2", 1.5, True, None, 0, 1025)],
    "stay": [lambda engine, job: engine.work(stay="no")],
}
KINDS: dict[str, list[Any]] = {
    "name": [5, None, b"x", "two\nlines"],
    "version": ["1", 1.5, None, True, -1, NAN],
    "handler": [None, "print", 5],
    "queue": [5, ""],
    "publications": ["letter", 5, [5], None],
    "lookup": [5, "look"],
    "adopt": [5],
    "discard": [5],
    "missing": ["no tool"],
    "max_attempts": ["3", 1.5, 2.0, True, None, NAN],
    "backoff": [None, 5, 2.0],
    "retry_on": [OSError, [OSError], (int,), ("OSError",), None],
    "give_up_on": [OSError, (5,), (KeyboardInterrupt,)],
    "active_limit_s": ["5", NAN, True, []],
    "wall_limit_s": ["5", NAN, 0, True],
    "interruptions": ["3", 1.5, True, 0],
    "isolation": [None, "container", ["thread"]],
    "memory_limit_bytes": ["1 GiB", 2.0**30, 1 << 20],
}
APPS: dict[str, list[Any]] = {
    "kinds": [None, 5, WORK, "kinds"],
    "queues": [None, [], "default"],
    "one_worker": ["yes", None],
    "commands": [5, ""],
}
PLACES: list[tuple[str, Callable[[Path], Any]]] = [
    ("root", lambda root: perenne.open(None, APP)),
    ("root", lambda root: perenne.open("", APP)),
    ("root", lambda root: perenne.open("a\0b", APP)),
    ("root", lambda root: perenne.open(b"folder", APP)),
    ("root", lambda root: perenne.create(5, APP, name="x")),
    ("app", lambda root: perenne.open(root, None)),
    ("app", lambda root: perenne.create(root / "new", "trial", name="x")),
    ("access", lambda root: perenne.open(root, APP, access="admin")),
    ("access", lambda root: perenne.open(root, APP, access=None)),
    ("clock", lambda root: perenne.open(root, APP, clock=None)),
    ("name", lambda root: perenne.create(root / "new", APP, name=5)),
    ("id", lambda root: perenne.create(root / "new", APP, name="x", id=5)),
    ("specimen", lambda root: perenne.create(root / "new", APP, name="x", specimen="yes")),
    ("base_s", lambda root: Backoff("1")),
    ("cap_s", lambda root: Backoff(1.0, None)),
]


def each(table: dict[str, list[Any]]) -> list[Any]:
    """One parameter for each field and value."""
    return [
        pytest.param(field, value, id=f"{field}-{place}")
        for field, values in table.items()
        for place, value in enumerate(values)
    ]


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """An engine for work with one job that waits and one that is in doubt; whoever changes anything fails."""
    root = testing.workspace(tmp_path_factory.mktemp("wrong"), APP)
    with perenne.open(root, APP, access="work", clock=testing.FakeClock()) as engine:
        engine.listen("known")
        yield engine


@pytest.fixture(scope="module")
def job(engine: Engine) -> str:
    return engine.submit(WORK, 1).job_id


def refused(field: str, call: Callable[[], Any]) -> None:
    """The call raises InvalidInput in one sentence that names the field."""
    with pytest.raises(InvalidInput) as raised:
        call()
    said = str(raised.value)
    assert field in said
    assert "\n" not in said
    assert len(said) < 1000
    assert raised.value.__cause__ is None


def state_of(engine: Engine) -> Any:
    """Everything that a refused call could have changed."""
    lines = [(line.seq, line.verb) for line in engine.history()]
    return engine.revision(), engine.jobs(), engine.queues(), engine.controls(), lines, len(engine._ends._listeners)


@pytest.mark.parametrize(("wish", "value"), each(WISHES))
def test_a_wrong_wish_is_refused(engine: Engine, job: str, wish: str, value: Any) -> None:
    """A wish of the wrong type or beyond its bounds is refused at submit, and nothing is stored."""
    before = state_of(engine)
    refused(wish, lambda: engine.submit(WORK, 1, **{wish: value}))
    assert state_of(engine) == before


@pytest.mark.parametrize(("field", "call"), each(VERBS))
def test_a_wrong_argument_is_refused(engine: Engine, job: str, field: str, call: Callable[[Engine, str], Any]) -> None:
    """A verb that is given what it does not take is refused by the name of the argument, and nothing changes."""
    before = state_of(engine)
    refused(field, lambda: call(engine, job))
    assert state_of(engine) == before


@pytest.mark.parametrize(("field", "value"), each(KINDS))
def test_a_wrong_kind_is_refused(field: str, value: Any) -> None:
    """A kind with a field that cannot be meant is refused when it is made."""
    right: dict[str, Any] = {"name": "test.work", "version": 1, "handler": print, "input_type": Any}
    refused("kind" if field == "name" else field, lambda: Kind(**{**right, field: value}))


@pytest.mark.parametrize(("field", "value"), each(APPS))
def test_a_wrong_app_is_refused(field: str, value: Any) -> None:
    """An app with a field that cannot be meant is refused when it is made."""
    refused(field, lambda: App("trial", **{field: value}))


@pytest.mark.parametrize(("field", "call"), [pytest.param(*one, id=f"{one[0]}-{n}") for n, one in enumerate(PLACES)])
def test_a_wrong_place_is_refused(tmp_path: Path, field: str, call: Callable[[Path], Any]) -> None:
    """A workspace is neither made nor opened with what cannot be meant, and no file appears or changes."""
    root = testing.workspace(tmp_path / "work", APP)
    before = bytes_below(tmp_path)
    refused(field, lambda: call(root))
    assert bytes_below(tmp_path) == before


def bytes_below(folder: Path) -> dict[str, str]:
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.rglob("*")) if path.is_file()
    }


def test_right_values_of_any_sort_are_taken(engine: Engine) -> None:
    """What is meant is taken as it is spelled: a state as text, ids as a set, whole seconds, a time that is over."""
    first = engine.submit("test.work", 1).job_id
    second = engine.submit(WORK, 1, depends_on={first}, on_dependency="fail", priority=-1000, patience_s=1).job_id
    assert {job.id for job in engine.jobs(state="BLOCKED", limit=10**9)} == {second}
    assert engine.wait(first, -1).state is JobState.QUEUED
    assert engine.deliver("known", print, limit=0) == 0
    assert [job.state for job in map(engine.cancel, (second, first))] == [JobState.CANCELLED] * 2
