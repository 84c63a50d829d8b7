"""A kind that runs in a child is found again by its name, or refused with the reason before any job of it is stored."""

from __future__ import annotations

import functools
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import perenne
from perenne import App, Kind, testing
from perenne.errors import InvalidInput
from perenne.runtime import importable


class Callee:
    def method(self, context: Any, input: Any) -> None: ...

    def __call__(self, context: Any, input: Any) -> None: ...


async def coroutine(context: Any, input: Any) -> None: ...


def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
    return functools.wraps(function)(lambda *given: function(*given))


def local() -> Callable[..., Any]:
    def handler(context: Any, input: Any) -> None: ...

    return handler


@decorated
def wrapped(context: Any, input: Any) -> None: ...


HIDDEN = wrapped
wrapped = None  # type: ignore[assignment]


def kind_of(handler: Callable[..., Any], input_type: Any = Any, **fields: Any) -> Kind:
    return Kind("test.work", 1, handler, input_type, isolation="process", **fields)


@pytest.mark.parametrize(
    ("handler", "why"),
    [
        (lambda context, input: None, "is made inside a function"),
        (local(), "is made inside a function"),
        (functools.partial(math.pow, 2), "is no plain function"),
        (Callee(), "is no plain function"),
        (Callee().method, "is not its handler but"),
        (HIDDEN, "is not its handler but None"),
    ],
)
def test_what_a_child_could_not_import_is_refused(handler: Callable[..., Any], why: str) -> None:
    """The refusal names the kind, the reason, and what to do."""
    with pytest.raises(InvalidInput) as refused:
        importable.reference(kind_of(handler))
    assert "kind test.work@1: isolation='process' needs a handler that a child can import" in str(refused.value)
    assert why in str(refused.value)
    assert str(refused.value).endswith("define a function at the top of a module")


def test_an_input_type_without_a_name_is_refused() -> None:
    """The types that a child needs must be found by their names, too."""
    kind = kind_of(math.pow, msgspec.defstruct("Nameless", [("x", int)]))
    with pytest.raises(InvalidInput, match="its input type, retry_on or give_up_on cannot be found by name"):
        importable.reference(kind)


def test_a_thread_needs_no_name() -> None:
    """Kinds that run in threads are not asked for anything."""
    importable.check([Kind("test.work", 1, lambda context, input: None, Any)])


def test_a_submit_and_a_worker_refuse_it(tmp_path: Path) -> None:
    """What could never run is not stored, and a worker does not start with it."""
    kind = kind_of(lambda context, input: None)
    app = App("trial", [kind])
    with perenne.open(testing.workspace(tmp_path / "work", app), app, access="work") as engine:
        for refused in (lambda: engine.submit(kind, None), engine.worker, engine.work):
            with pytest.raises(InvalidInput, match="is made inside a function"):
                refused()
        assert engine.jobs() == []


PROGRAM = """
import sys
import perenne
from perenne import App, Kind, testing

class Weird(Exception): ...

def handler(context, input):
    return [__name__, input]

kind = Kind("main.work", 1, handler, list[int], isolation="process", give_up_on=(Weird,))

if __name__ == "__main__":
    app = App("main", [kind])
    with perenne.open(testing.workspace(sys.argv[1], app), app, access="work") as engine:
        job = engine.submit(kind, [1, 2]).job_id
        engine.work()
        print(engine.job(job).result)
"""


@pytest.mark.parametrize(
    ("start", "says"),
    [(["-m", "program"], b'["program",[1,2]]'), (["program.py"], b"stands in the program that was started")],
)
def test_a_program_that_is_a_module_finds_itself(tmp_path: Path, start: list[str], says: bytes) -> None:
    """`python -m` tells under which name the program can be imported; a script has none, and is refused."""
    (tmp_path / "program.py").write_text(PROGRAM)
    command = [sys.executable, *start, str(tmp_path / "work")]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert says in ended.stdout + ended.stderr
