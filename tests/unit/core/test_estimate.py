"""An estimate is checked once, and says the same for ever."""

from __future__ import annotations

from typing import Any

import pytest

from perenne.core import estimate
from perenne.core.estimate import Estimate
from perenne.errors import InvalidInput

MIB = 1 << 20


@pytest.mark.parametrize(
    ("given", "field", "limit"),
    [
        ({"min_batch": 0}, "min_batch", "1 to 1000000"),
        ({"min_batch": 4, "max_batch": 3}, "max_batch", "at least min_batch, 4"),
        ({"threads": 0}, "threads", "1 to 4096"),
        ({"threads": 1.5}, "threads", "1 to 4096"),
        ({"threads": True}, "threads", "1 to 4096"),
        ({"memory_bytes": -1}, "memory_bytes", "0 to 9223372036854775807"),
        ({"memory_per_item_bytes": 1 << 62, "max_batch": 4}, "memory_per_item_bytes", "9223372036854775807 bytes"),
        ({"gpu_memory_per_item_bytes": 1 << 62, "max_batch": 4}, "gpu_memory_per_item_bytes", "9223372036854775807"),
        ({"gpu_memory_bytes": 1}, "gpu_slots", "at least 1 with GPU memory"),
        ({"work_class": "huge"}, "work_class", "general, import, cpu, gpu, io, mixed"),
        ({"items": -1}, "items", "0 to"),
        ({"io_slots": 5_000}, "io_slots", "0 to 1024"),
        ({"memory_bytes": b"1" * 5_000}, "memory_bytes", "0 to"),
    ],
)
def test_invalid_estimates_name_field_value_and_limit(given: dict[str, Any], field: str, limit: str) -> None:
    """What no governor could keep is refused as it is made, in one sentence."""
    with pytest.raises(InvalidInput) as refused:
        Estimate(**given)
    assert refused.value.facts["field"] == field
    assert f"estimate: {field}: " in str(refused.value)
    assert limit in str(refused.value)
    assert len(str(refused.value)) < 400


def test_cost_is_fixed_plus_items() -> None:
    """A batch costs what is needed once and what each item needs."""
    needs = Estimate(memory_bytes=10 * MIB, memory_per_item_bytes=3 * MIB, max_batch=8)
    assert needs.memory_of(5) == 25 * MIB
    assert needs.gpu_memory_of(5) == 0


def test_equal_demands_are_of_one_class() -> None:
    """Items beyond the largest batch make no difference; fewer bound both batches, and never below one."""
    needs = Estimate(min_batch=4, max_batch=8)
    many = Estimate(min_batch=4, max_batch=8, items=1000)
    few = Estimate(min_batch=4, max_batch=8, items=2)
    none = Estimate(min_batch=4, max_batch=8, items=0)
    assert many.bounded().encode() == needs.encode()
    assert (few.bounded().min_batch, few.bounded().max_batch) == (2, 2)
    assert (none.bounded().min_batch, none.bounded().max_batch) == (1, 1)


def test_a_text_reads_back_equal() -> None:
    """What is kept with a job is the estimate that it was submitted with."""
    needs = Estimate(memory_bytes=1, gpu_slots=1, gpu_memory_bytes=2, threads=3, io_slots=1, work_class="io", items=9)
    assert estimate.read(needs.encode()) == needs


def test_a_broken_text_is_refused() -> None:
    """A text that no estimate gave is no estimate, whatever it holds."""
    for text in ("", "[", "[0,0,0,0,0]", '["x"]', "{}"):
        with pytest.raises(InvalidInput):
            estimate.read(text)
