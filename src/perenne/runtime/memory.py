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


def used_bytes() -> tuple[int | None, int | None]:
    """The most this process held since the last reset, and what it holds now."""
    try:
        text = _STATUS.read_text(encoding="ascii", errors="replace")
    except OSError:
        return None, None
    fields = dict(line.split(":", 1) for line in text.splitlines() if line.startswith("Vm"))
    return _bytes(fields.get("VmHWM")), _bytes(fields.get("VmRSS"))


def offer_to_the_kernel() -> None:
    """When the machine runs out of memory, this process shall be ended before the one that started it."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("500")


def _bytes(field: str | None) -> int | None:
    return None if field is None else int(field.split()[0]) * 1024
