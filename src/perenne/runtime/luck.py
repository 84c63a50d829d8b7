"""The source of luck as one value, so that a test can hold it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from dataclasses import dataclass

CHUNK_BYTES = 16
CHUNKS = 64


@dataclass(frozen=True)
class Luck:
    """`fraction` is uniform in [0, 1); `bytes` gives so many unguessable bytes."""

    fraction: Callable[[], float]
    bytes: Callable[[int], bytes]


class _Store:
    """Unguessable bytes in store, so that the kernel is asked seldom; each is given once, and to one thread."""

    def __init__(self) -> None:
        self._chunks: list[bytes] = []
        os.register_at_fork(after_in_child=self._chunks.clear)  # else a child would give what its parent gives

    def take(self, count: int) -> bytes:
        if count > CHUNK_BYTES:
            return os.urandom(count)
        try:
            return self._chunks.pop()[:count]
        except IndexError:
            fresh = os.urandom(CHUNK_BYTES * CHUNKS)
            self._chunks += [fresh[start : start + CHUNK_BYTES] for start in range(0, len(fresh), CHUNK_BYTES)]
            return os.urandom(count)


SYSTEM = Luck(random.random, _Store().take)
