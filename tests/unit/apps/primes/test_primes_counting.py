"""Both ways to count primes, against the tables of the prime counting function."""

from __future__ import annotations

import pytest

from perenne.apps.primes import counting

KNOWN = {0: 0, 1: 0, 2: 0, 3: 1, 4: 2, 5: 2, 10: 4, 25: 9, 26: 9, 100: 25, 1000: 168, 10_000: 1229}


@pytest.mark.parametrize("high", KNOWN)
def test_both_ways_count_what_the_tables_say(high: int) -> None:
    """Chunk by chunk and all at once, the number of primes below a bound is the known one."""
    assert counting.primes_below(high) == KNOWN[high]
    assert counting.primes_between(0, high) == KNOWN[high]


def test_chunks_add_up() -> None:
    """However a range is cut, each prime is counted once."""
    cuts = [0, 1, 2, 3, 7, 97, 98, 1000]
    assert sum(map(counting.primes_between, cuts, cuts[1:])) == KNOWN[1000]
