"""The notebook of one analysis: defects and bounds in the order in which they were met.

Not here: who notices what. A note never removes another fact.
"""

from __future__ import annotations

from perenne.apps.evidence.mail.defects import DefectKind, LimitName
from perenne.apps.evidence.mail.limits import Limits
from perenne.apps.evidence.mail.notices import Defect, LimitHit


class Notes:
    """The defects and the limits hit of one analysis, in the order in which they were met."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.space = ""
        self.defects: list[Defect] = []
        self._hits: dict[LimitName, LimitHit] = {}

    def defect(self, kind: DefectKind, path: str, offset: int, length: int) -> None:
        """Note a defect at its place in the present space."""
        if len(self.defects) < self.limits.defects:
            self.defects.append(Defect(kind, self.space, path, offset, length))
        else:
            self.hit("defects", path)

    def hit(self, name: LimitName, path: str) -> None:
        """Note that a bound left something out; the first place is kept."""
        if name not in self._hits:
            self._hits[name] = LimitHit(name, getattr(self.limits, name), path)

    @property
    def hits(self) -> tuple[LimitHit, ...]:
        """The bounds that left something out, by name."""
        return tuple(self._hits[name] for name in sorted(self._hits))
