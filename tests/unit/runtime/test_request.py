"""A request says what it wishes by name; an unknown wish, or one out of bounds, is refused and nothing is stored."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

import perenne
from perenne import App, Engine, Kind, errors, testing

APP = App("test", [Kind("test.handle", 1, lambda context, input: None, str)])


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    with perenne.open(testing.workspace(tmp_path / "work", APP), APP, access="work") as opened:
        yield opened


def test_a_relaxed_job_is_wished_for_by_name(engine: Engine) -> None:
    """`durability="relaxed"` is answered as such, alone and in a batch, and the job runs like any other."""
    alone = engine.submit("test.handle", "a", durability="relaxed")
    batch = engine.submit_many([engine.request("test.handle", "b", durability="relaxed") for _ in range(2)])
    assert [receipt.durability for receipt in (alone, *batch)] == ["relaxed"] * 3
    assert engine.submit("test.handle", "c").durability == "durable"
    assert engine.work().ended == 4


@pytest.mark.parametrize(
    ("wishes", "sentence"),
    [
        ({"durability": "sloppy"}, "durability: 'sloppy'; give one of durable, relaxed"),
        ({"durability": None}, "durability: None; give durable or relaxed"),
        ({"durability": ["relaxed"]}, r"durability: \['relaxed'\]; give durable or relaxed"),
        ({"on_dependency": "wait"}, "on_dependency: 'wait'; give one of block, fail, continue"),
        ({"durable": True}, "durable: no such wish; known: job_id, .*, durability"),
    ],
)
def test_a_bad_wish_is_refused_by_its_field(engine: Engine, wishes: dict[str, object], sentence: str) -> None:
    """One sentence names the field, the value and what may stand there; nothing is stored."""
    with pytest.raises(errors.InvalidInput, match=f"^{sentence}$") as refused:
        engine.submit("test.handle", "a", **wishes)
    assert refused.value.field == next(iter(wishes))
    assert engine.jobs() == []
