"""One kind: counts the primes below a bound, a chunk at a time, with a checkpoint after each chunk.

Each attempt says in the job's log with which chunk it goes on, so that it can be seen that no chunk is counted twice.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from perenne import Context, Kind
from perenne.apps.primes import counting

GOES_ON = "goes_on"  # what an attempt says in the log of its job

Positive = Annotated[int, Meta(ge=1, le=10**12)]


class Bound(msgspec.Struct, frozen=True):
    """Count below `chunk * chunks`, so many numbers a chunk."""

    chunk: Positive
    chunks: Positive


class Counted(msgspec.Struct, frozen=True):
    """How many chunks are counted, and how many primes were in them."""

    chunks: int
    primes: int


def count(context: Context, bound: Bound) -> int:
    """The number of primes below the bound."""
    counted: Counted = context.state or Counted(0, 0)
    context.log(GOES_ON, chunk=counted.chunks)
    while counted.chunks < bound.chunks:
        context.boundary()
        low = counted.chunks * bound.chunk
        found = counting.primes_between(low, low + bound.chunk)
        counted = Counted(counted.chunks + 1, counted.primes + found)
        context.progress(counted.chunks, bound.chunks)
        context.checkpoint(counted)
    return counted.primes


def undisturbed(bound: Bound) -> int:
    """The same number as one process without an engine computes it, in another way."""
    return counting.primes_below(bound.chunk * bound.chunks)


KIND = Kind("primes.count", 1, count, Bound, state_type=Counted)
