"""How much memory this process holds and held at most, as the kernel counts it; None where it does not say."""

from __future__ import annotations

import contextlib
from pathlib import Path

_STATUS = Path("/proc/self/status")
_RESET_PEAK = "5"  # proc(5), /proc/PID/clear_refs


def reset_peak() -> bool:
    """Let the peak begin anew; whether it did."""
    try:
        Path("/proc/self/clear_refs").write_text(_RESET_PEAK)
    except OSError:
        return False
    return True


def peak_bytes() -> int | None:
    """The most this process held since the last reset."""
    return _field("VmHWM")


def resident_bytes() -> int | None:
    """What it holds now."""
    return _field("VmRSS")


def offer_to_the_kernel() -> None:
    """When the machine runs out of memory, this process shall be ended before the one that started it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def _field(name: str) -> int | None:
    try:
        text = _STATUS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None
    for line in text.splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    return None
