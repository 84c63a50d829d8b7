"""The application of the scenarios about resources: jobs that take the one I/O slot, one that takes more than said."""

from __future__ import annotations

import threading

from perenne import App, Context, Estimate, Kind

MIB = 1 << 20
ONE_SLOT = Estimate(io_slots=1)
# One item is said to take 1 MiB, and takes 40.
TOO_LITTLE = Estimate(memory_bytes=64 * MIB, memory_per_item_bytes=MIB, max_batch=4)


class Floor:
    """How many hold the slot now in this process, and the most that ever did."""

    now = most = 0
    lock = threading.Lock()


def take(context: Context, number: int) -> int:
    with Floor.lock:
        Floor.now += 1
        Floor.most = max(Floor.most, Floor.now)
    threading.Event().wait(0.05)  # reason: a second one that was let in would be here meanwhile
    with Floor.lock:
        Floor.now -= 1
    return number


def greedy(context: Context, number: int) -> int:
    held = [b"\1" * (40 * MIB) for _ in range(context.batch)]
    return len(held)


APP = App(
    "governed",
    [
        Kind("take", 1, take, int, estimate=ONE_SLOT),
        Kind("greedy", 1, greedy, int, estimate=TOO_LITTLE, isolation="process"),
    ],
)
