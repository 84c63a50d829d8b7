"""What is promised about unguessable bytes."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from perenne.runtime.luck import CHUNK_BYTES, CHUNKS, SYSTEM


@pytest.mark.parametrize("count", [1, 10, CHUNK_BYTES, CHUNK_BYTES + 1, 1000])
def test_as_many_bytes_as_asked_for(count: int) -> None:
    """So many bytes come, however many are kept in store."""
    assert {len(SYSTEM.bytes(count)) for _ in range(2 * CHUNKS)} == {count}


def test_no_bytes_are_given_twice() -> None:
    """Eight threads that take past the store's end never hear the same bytes."""
    with ThreadPoolExecutor(8) as pool:
        taken = [
            luck
            for some in pool.map(lambda _: [SYSTEM.bytes(16) for _ in range(5 * CHUNKS)], range(8))
            for luck in some
        ]
    assert len(set(taken)) == len(taken)


def test_a_forked_child_gives_other_bytes() -> None:
    """What the parent had in store is forgotten in a child, so the two never give the same id."""
    SYSTEM.bytes(16)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(writing, b"".join(SYSTEM.bytes(16) for _ in range(CHUNKS)))
        os._exit(0)
    ours = {SYSTEM.bytes(16) for _ in range(CHUNKS)}
    os.waitpid(child, 0)
    told = os.read(reading, 16 * CHUNKS)
    os.close(reading)
    os.close(writing)
    assert not ours & {told[start : start + 16] for start in range(0, len(told), 16)}
