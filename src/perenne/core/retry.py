"""How long to wait before the next attempt, as a value."""

from __future__ import annotations

import msgspec

from perenne.core import limits, takes
from perenne.errors import InvalidInput


class Backoff(msgspec.Struct, frozen=True):
    """Exponential with full jitter: after the n-th failure a random part of `base_s * 2 ** (n - 1)`, at most `cap_s`.

    Source: M. Brooker, "Exponential Backoff And Jitter", 2015; the full-jitter form.
    """

    base_s: float = 1.0
    cap_s: float = 300.0

    def __post_init__(self) -> None:
        takes.check("backoff: ", base_s=self.base_s, cap_s=self.cap_s)
        if not 0 < self.base_s <= self.cap_s <= limits.WAIT_MOST_S:
            raise InvalidInput(
                f"backoff: base_s {self.base_s} must be above 0 and at most cap_s {self.cap_s}, "
                f"and that at most {limits.WAIT_MOST_S:.0f} s; give two such numbers",
                field="backoff",
                limit=limits.WAIT_MOST_S,
            )

    def delay_s(self, failures: int, luck: float) -> float:
        """Seconds to wait after so many failures (from 1); luck is in [0, 1)."""
        return luck * min(self.cap_s, self.base_s * 2.0 ** min(failures - 1, 60))
