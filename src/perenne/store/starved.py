"""How long a thread was ready to run and did not get a processor: time that is not its own fault.

What does not live here: who is granted that time (`sqlite.block`).
"""

from __future__ import annotations

import os


def starved_s(thread: int) -> float:
    """Seconds so far in which this thread waited for a processor; 0.0 where the system does not tell.

    Args: thread: its native id. Source: Linux, Documentation/scheduler/sched-stats.rst, `/proc/<pid>/schedstat`.
    """
    try:
        descriptor = os.open(f"/proc/self/task/{thread}/schedstat", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return 0.0
    try:
        return int(os.read(descriptor, 200).split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0
    finally:
        os.close(descriptor)
