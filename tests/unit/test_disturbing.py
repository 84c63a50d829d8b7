"""Every handler that is shipped gives the same result however it is disturbed; and one that does not is found out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

import perenne
from perenne import App, AsyncContext, Context, Estimate, Kind
from perenne.apps.loads import app as loads
from perenne.apps.primes import app as primes
from perenne.disturbing import disturb

SUM = sum(range(6))


class Added(msgspec.Struct):
    """How far a sum is."""

    at: int = 0
    total: int = 0


def add(context: Context, input: object) -> int:
    state = context.state or Added()
    for at in range(state.at, 6):
        context.boundary()
        state = Added(at + 1, state.total + at)
        context.checkpoint(state)
    return state.total


async def add_in_turns(context: AsyncContext, input: object) -> int:
    state = context.state or Added()
    for at in range(state.at, 6):
        await context.boundary()
        state = Added(at + 1, state.total + at)
        await context.checkpoint(state)
    return state.total


def add_in_sequences(context: Context, input: object) -> int:
    state = context.state or Added()
    for at in range(state.at, 6):
        state = Added(at + 1, state.total + at)
        context.sequence_break(state)
    return state.total


def save_too_early(context: Context, input: object) -> int:
    """Wrong: what is saved says that more was added than was."""
    state = context.state or Added()
    for at in range(state.at, 6):
        context.checkpoint(Added(at + 1, state.total))
        context.boundary()
        state = Added(at + 1, state.total + at)
    return state.total


APP = App(
    "sums",
    [
        Kind("sum.add", 1, add, Any, state_type=Added),
        Kind("sum.turns", 1, add_in_turns, Any, state_type=Added),
        Kind("sum.sequences", 1, add_in_sequences, Any, state_type=Added, estimate=Estimate(io_slots=1)),
        Kind("sum.early", 1, save_too_early, Any, state_type=Added),
    ],
)


def submit(kind: str) -> Any:
    return lambda engine: engine.submit(kind, None)


@pytest.mark.parametrize("kind", ["sum.add", "sum.turns"])
def test_a_sum_is_the_same_however_it_is_disturbed(tmp_path: Path, kind: str) -> None:
    """At each of its boundaries it may be paused, stopped, cancelled and requeued, or killed."""
    visited = disturb(tmp_path, APP, submit(kind), ways=["pause", "suspend", "cancel"])
    assert visited == {"pause": 7, "suspend": 7, "cancel": 7}
    assert disturb(tmp_path / "killed", APP, submit(kind), ways=["kill"], most=3) == {"kill": 3}


def test_a_break_is_forced(tmp_path: Path) -> None:
    """A kind with an estimate gives way at each of its sequence breaks, and goes on from its state."""
    made = lambda root: _calm(root, APP)  # noqa: E731
    visited = disturb(tmp_path, APP, submit("sum.sequences"), ways=["break", "pause"], make=made)
    assert visited == {"break": 7, "pause": 7}


def test_a_handler_that_saves_too_early_is_found(tmp_path: Path) -> None:
    """The failure names the way, the boundary and both results."""
    with pytest.raises(AssertionError, match=rf"pause at boundary \d of 7: .* undisturbed .*{SUM}"):
        disturb(tmp_path, APP, submit("sum.early"), ways=["pause"])


def test_the_demonstration_of_resources(tmp_path: Path) -> None:
    """`loads.hold` in a thread: the same digest, with a break forced at each of its sequences, too."""
    (kind,) = loads.kinds
    app = App("loads", [Kind(**{**vars(kind), "isolation": "thread"})])  # a hook of this process reaches no child
    load = {"seed": 1, "pieces": 6, "piece_bytes": 4096}
    ways = ["pause", "suspend", "cancel", "break"]
    made = lambda root: _calm(root, app)  # noqa: E731
    visited = disturb(tmp_path, app, lambda engine: engine.submit(kind.name, load), ways=ways, make=made)
    assert all(visited[way] >= 2 for way in ways)


def test_the_demonstration_of_checkpoints(tmp_path: Path) -> None:
    """`primes.count`: the same number."""
    bound = {"chunk": 50, "chunks": 4}
    visited = disturb(tmp_path, primes, lambda engine: engine.submit("primes.count", bound), most=3)
    assert all(visited.values())


def _calm(root: Path, app: App) -> Path:
    """A workspace whose governor minds no load of others."""
    perenne.create(root, app, name="calm", specimen=True)
    manifest = root / "workspace.toml"
    rule = "\n[governor]\nmemory_kept_bytes = 0\nmemory_emergency_bytes = 0\nload_ratio = 1000\n"
    manifest.write_text(manifest.read_text() + rule + "cpu_percent = 0\nmemory_percent = 0\nio_percent = 0\n")
    return root
