"""Fixtures of pytest for the tests of an application, there as soon as perenne is installed.

Public. Nothing of the engine is loaded before a test asks for it. What does not live here: what they do (`testing`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from perenne.app import App
    from perenne.runtime.engine import Engine
    from perenne.testing import Crash, FakeClock


def pytest_addoption(parser: pytest.Parser) -> None:
    """The setting that names the application."""
    parser.addini("perenne_app", "the application under test, as module:name")


@pytest.fixture
def perenne_app(request: pytest.FixtureRequest) -> App:
    """The application under test: what `perenne_app = "module:name"` names in pytest's settings.

    A test or a `conftest.py` that has another one gives a fixture of this name.
    """
    import importlib

    named = str(request.config.getini("perenne_app"))
    if not named:
        pytest.fail(
            'perenne_app: no application is named; write perenne_app = "module:name" under '
            "[tool.pytest.ini_options] in pyproject.toml, or a fixture of this name",
            pytrace=False,
        )
    module, _, name = named.partition(":")
    try:
        app: App = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        pytest.fail(f"perenne_app = {named!r}: {error}; give module:name of an App that imports", pytrace=False)
    return app


@pytest.fixture
def perenne_clock() -> FakeClock:
    """A clock that stands still until the test moves it; the engine and the drains of this test go by it."""
    from perenne.testing import FakeClock

    return FakeClock()


@pytest.fixture
def perenne_workspace(perenne_app: App, tmp_path: Path) -> Path:
    """The folder of a new workspace of the application, in which crash points may be armed."""
    from perenne import testing

    return testing.workspace(tmp_path / "workspace", perenne_app)


@pytest.fixture
def perenne_engine(perenne_app: App, perenne_workspace: Path, perenne_clock: FakeClock) -> Iterator[Engine]:
    """The engine of that workspace, open for work; tasks that are enqueued in the test go there."""
    import perenne

    with perenne.open(perenne_workspace, perenne_app, access="work", clock=perenne_clock) as engine:
        yield engine


@pytest.fixture
def perenne_drain(perenne_engine: Engine, perenne_clock: FakeClock) -> Callable[..., Any]:
    """`perenne_drain(slots=1)`: work until nothing is due, and let time jump to whatever waits for its time."""
    from perenne import testing

    return lambda slots=1: testing.drain(perenne_engine, slots=slots, clock=perenne_clock)


@pytest.fixture
def perenne_result(perenne_engine: Engine) -> Callable[..., Any]:
    """`perenne_result(receipt)`: the result of a job, or a failure that tells how it came to be no result."""
    from perenne import testing

    def result(job: Any) -> Any:
        __tracebackhide__ = True
        return testing.result(perenne_engine, job)

    return result


@pytest.fixture
def perenne_disturb(perenne_app: App, tmp_path: Path) -> Callable[..., dict[str, int]]:
    """`perenne_disturb(submit)`: a pause, a stop, a cancel and a kill at each boundary; see `disturbing.disturb`."""
    from perenne import disturbing

    def disturb(submit: Callable[[Engine], Any], **wishes: Any) -> dict[str, int]:
        __tracebackhide__ = True
        return disturbing.disturb(tmp_path / "disturbed", perenne_app, submit, **wishes)

    return disturb


@pytest.fixture
def perenne_crash(perenne_app: App, perenne_workspace: Path, perenne_clock: FakeClock) -> Callable[..., Crash]:
    """`perenne_crash(point, work=None)`: a process works in the workspace and is killed there; see `testing.crash`."""
    from perenne import testing

    def crash(point: str, work: Callable[[Engine], object] | None = None, *, limit_s: float = 60.0) -> Crash:
        __tracebackhide__ = True
        return testing.crash(perenne_workspace, perenne_app, point, work, clock=perenne_clock, limit_s=limit_s)

    return crash
