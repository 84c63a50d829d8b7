"""What an attempt was granted, what it really used, and what becomes of it between two sequences.

What does not live here: who is granted what (`governor`), the checkpoint of a break (`saving`).
"""

from __future__ import annotations

from perenne.core.resources import Reservation
from perenne.errors import InvalidInput, Unwound
from perenne.runtime import disturbance
from perenne.runtime.asks import Sequenced
from perenne.runtime.wishes import Wishes

SAMPLE_S = 1.0  # as the governor looks at the machine
UNGOVERNED = Reservation(batch=1)


class Breaks:
    """The sequences of one attempt; one without a grant is of a kind without an estimate, and always goes on."""

    def __init__(
        self, wishes: Wishes, grant: Reservation | None, sequenced: Sequenced | None, *, keeps_frame: bool
    ) -> None:
        self.grant, self.sequenced = grant or UNGOVERNED, sequenced
        self.broke = False
        self.used: tuple[int, int | None] | None = None
        self.peak_bytes: int | None = None  # of the child, as the kernel counted it
        self._wishes, self._keeps_frame = wishes, keeps_frame

    def measured(self, items: object, peak_bytes: object) -> None:
        """Note what the sequence took.

        Raises: InvalidInput.
        """
        for field, value in (("items", items), ("peak_bytes", peak_bytes)):
            whole = type(value) is int and 0 <= value < 1 << 63
            if not whole and not (value is None and field == "peak_bytes"):
                raise InvalidInput(f"measured: {field}: {value!r}; give a whole number from 0", field=field)
        self.used = (items, peak_bytes)  # type: ignore[assignment]  # checked above

    def meet(self) -> None:
        """Raises: Unwound: the handler went on although its frame was unwound."""
        if self.broke:
            raise Unwound("sequence")

    def ask(self) -> None:
        """Return once the next sequence may begin here.

        Raises: Unwound: it begins in a new frame. Cancelled.
        """
        if self.sequenced is None or (self.sequenced.may_go_on() and not disturbance.gives_way()):
            return
        if not self._keeps_frame:
            self.broke = True
            self.meet()
        if self.sequenced.give_way():
            try:
                self.grant = self._granted(self.sequenced)
            finally:
                self.sequenced.stay()

    def _granted(self, sequenced: Sequenced) -> Reservation:
        """Wait in this thread for the next sequence, for the frame cannot be unwound."""
        while (grant := sequenced.take_up()) is None:
            self._wishes.meet()
            self._wishes.wait(SAMPLE_S)
        return grant
