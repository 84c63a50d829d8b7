"""A decorated function: still a function, and a kind of its app; which engine its jobs go to."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perenne
from perenne import App, Backoff, Engine, Kind, nearest, testing
from perenne.errors import DuplicateJob, InvalidInput, NotAllowed, StoreMissing, TooLarge

app = App("tasks", queues={"default": 8, "slow": 8})
other = App("other")


@app.task()
def add(a: int, b: int = 3) -> int:
    """The sum."""
    return a + b


@app.task(kind="tasks.told", version=2, queue="slow", attempts=7, backoff=Backoff(2.0, 4.0), give_up_on=(ValueError,))
def told(context: Any, names: list[str]) -> dict[str, Any]:
    return {"job": context.job_id, "names": names}


@app.task
def chain(left: int) -> int:
    if left:
        chain.enqueue(left - 1)
    return left


@other.task()
def elsewhere() -> None: ...


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with perenne.open(testing.workspace(tmp_path / "w", app), app, access="work") as opened:
        yield opened


@pytest.fixture(autouse=True)
def no_workspace_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PERENNE_WORKSPACE", raising=False)


def test_the_function_is_still_a_function() -> None:
    """Called, it runs here and now; its name and its words are its own; no engine is needed."""
    assert (add(2), add(2, b=5)) == (5, 7)
    assert (add.__name__, add.__doc__, repr(add)) == ("add", "The sum.", "<task add@1: add(a: int, b: int = 3)>")


def test_the_options_are_those_of_a_kind() -> None:
    """Name, version, queue, attempts and the rest stand in the kind; what is not said is as for every kind."""
    assert (str(add.kind), add.kind.queue, add.kind.max_attempts) == ("add@1", "default", 3)
    assert (str(told.kind), told.kind.queue, told.kind.max_attempts) == ("tasks.told@2", "slow", 7)
    assert (told.kind.backoff, told.kind.give_up_on) == (Backoff(2.0, 4.0), (ValueError,))
    assert app.kind("add") is add.kind
    assert [str(kind) for kind in app.kinds] == ["add@1", "tasks.told@2", "chain@1"]


def test_a_call_becomes_a_job_and_its_return_the_result(engine: Engine) -> None:
    """`enqueue` and `delay` store the arguments, defaults too; the worker calls the function with them."""
    jobs = [add.enqueue(2), add.delay(a=4, b=5), told.enqueue(["Ada"])]
    assert engine.job(jobs[0].job_id).input == b'{"a":2,"b":3}'
    engine.work()
    results = [msgspec.json.decode(engine.job(job.job_id).result or b"") for job in jobs]
    assert results == [5, 9, {"job": jobs[2].job_id, "names": ["Ada"]}]


def test_a_job_may_be_submitted_by_its_name_with_json(engine: Engine) -> None:
    """Who has no Python at hand submits the same input as an object of JSON."""
    job = engine.submit("add", b'{"a":2}').job_id
    engine.work()
    assert engine.job(job).result == b"5"


@pytest.mark.parametrize(
    ("arguments", "named", "error", "why"),
    [
        (("two",), {}, InvalidInput, "int"),
        ((), {}, InvalidInput, "'a'"),
        ((1,), {"c": 2}, InvalidInput, "'c'"),
        ((object(),), {}, InvalidInput, "add@1"),
    ],
)
def test_arguments_that_do_not_fit_change_nothing(
    engine: Engine, arguments: Any, named: Any, error: Any, why: str
) -> None:
    """The argument is named, and no job is made."""
    with pytest.raises(error, match=why):
        add.enqueue(*arguments, **named)
    assert engine.jobs() == []


def test_too_large_a_call_is_refused(engine: Engine) -> None:
    """Size and limit are named before anything is written."""
    with pytest.raises(TooLarge, match="262144"):
        told.enqueue(["x" * 300_000])
    assert engine.jobs() == []


def test_wishes_go_with_one_call(engine: Engine) -> None:
    """`options` says a key or a priority for the next job, and changes the task for nobody else."""
    first = add.options(key="k", priority=5).enqueue(1)
    again = add.options(key="k").delay(1)
    assert (again.job_id, again.reused) == (first.job_id, True)
    assert engine.job(first.job_id).priority == 5
    with pytest.raises(DuplicateJob):
        add.options(key="k").enqueue(2)
    assert not add.enqueue(1).reused
    with pytest.raises(InvalidInput, match="colour"):
        add.options(colour="red").enqueue(1)


def test_a_coroutine_may_enqueue(engine: Engine) -> None:
    """`aenqueue` is awaited, and goes to the same engine; so do many at once."""

    async def many() -> list[str]:
        receipts = await asyncio.gather(*(add.aenqueue(n) for n in range(4)), told.options(key="x").aenqueue([]))
        return [receipt.job_id for receipt in receipts]

    assert sorted(asyncio.run(many())) == sorted(job.id for job in engine.jobs())


def test_a_handler_enqueues_where_it_runs(engine: Engine) -> None:
    """A task that is enqueued by a handler goes to the engine of its worker, whoever opened it in which thread."""
    chain.enqueue(2)
    worker = engine.worker(slots=2)
    thread = threading.Thread(target=worker.run, kwargs={"stay": False})
    thread.start()
    thread.join()
    assert sorted(job.result or b"" for job in engine.jobs()) == [b"0", b"1", b"2"]


def test_the_innermost_engine_of_the_app_is_taken(engine: Engine, tmp_path: Path) -> None:
    """Of two open ones the inner one is meant, one of another app never, and after the block the outer one again."""
    inner_root, other_root = (testing.workspace(tmp_path / one.name, one) for one in (app, other))
    with perenne.open(inner_root, app) as inner, perenne.open(other_root, other) as foreign:
        add.enqueue(1)
        elsewhere.enqueue()
        assert (len(inner.jobs()), len(foreign.jobs()), len(engine.jobs())) == (1, 1, 0)
    add.enqueue(1)
    assert len(engine.jobs()) == 1


def test_an_app_given_the_kind_takes_its_jobs(tmp_path: Path) -> None:
    """An engine of an app that was given a task's kind is an engine for that task."""
    joined = App("joined", [add.kind])
    with perenne.open(testing.workspace(tmp_path / "w", joined), joined) as opened:
        add.enqueue(1)
        assert len(opened.jobs()) == 1


def test_without_an_engine_the_way_out_is_said() -> None:
    """With none open and no workspace named, the error says both ways."""
    with pytest.raises(NotAllowed, match=r"perenne\.open.*PERENNE_WORKSPACE"):
        add.enqueue(1)


def test_the_environment_names_the_workspace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With none open, the job goes to the folder that the environment names, from any thread, and must be there."""
    root = testing.workspace(tmp_path / "w", app)
    monkeypatch.setenv("PERENNE_WORKSPACE", str(root))
    threads = [threading.Thread(target=add.enqueue, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with perenne.open(root, app, access="read") as looking:
        assert len(looking.jobs()) == 4
    monkeypatch.setenv("PERENNE_WORKSPACE", str(tmp_path / "nowhere"))
    with pytest.raises(StoreMissing, match="nowhere"):
        add.enqueue(1)


def test_the_workspace_that_a_worker_makes_here_is_the_apps_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With nothing said it is the folder below this one that is named like the app, or the one that pyproject names."""
    monkeypatch.chdir(tmp_path)
    for root, counted in ((tmp_path / "tasks", 1), (tmp_path / "named", 2)):
        testing.workspace(root, app)
        testing.workspace(root.with_name(f"{root.name}-of-another"), other)
        if root.name == "named":
            (tmp_path / "pyproject.toml").write_text('[tool.perenne]\nworkspace = "named"\n')
        for _ in range(counted):
            add.enqueue(1)
        with perenne.open(root, app, access="read") as looking:
            assert len(looking.jobs()) == counted


def test_leaving_an_engine_twice_is_leaving_it_once(engine: Engine) -> None:
    """What was not entered is not left, and the others stay."""
    nearest.enter(engine)
    nearest.leave(engine)
    nearest.leave("nothing")  # type: ignore[arg-type]
    add.enqueue(1)
    assert len(engine.jobs()) == 1


def test_one_name_and_version_is_given_once() -> None:
    """A task or a kind whose name and version is taken is refused by name; another version is welcome."""
    growing = App("growing", [Kind("a", 1, print, int)])

    def a(n: int) -> None: ...

    with pytest.raises(InvalidInput, match="a@1 is given twice"):
        growing.task()(a)
    growing.task(version=2)(a)
    assert growing.kind("a").version == 2
    with pytest.raises(InvalidInput, match="given twice"):
        App("twice", [add.kind, add.kind])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"color": "red"}, "color is no option; known: kind, attempts, version"),
        ({"handler": print}, "handler is no option"),
        ({"queue": "nowhere"}, "nowhere"),
        ({"attempts": 0}, "max_attempts"),
        ({"version": 0}, "version"),
        ({"kind": " "}, "kind"),
    ],
)
def test_a_wrong_option_is_refused_at_decoration(options: dict[str, Any], why: str) -> None:
    """The option is named, and the app has no new kind."""
    empty = App("empty")

    def job(n: int) -> None: ...

    with pytest.raises(InvalidInput, match=why):
        empty.task(**options)(job)
    assert list(empty.kinds) == []


def test_an_app_takes_kinds_and_no_other_things() -> None:
    """A task in the list of kinds is refused with the attribute that was meant."""
    with pytest.raises(InvalidInput, match=r"\.kind"):
        App("wrong", [add])  # type: ignore[list-item]
    with pytest.raises(InvalidInput, match="no function"):
        app.task("add")  # type: ignore[call-overload]
