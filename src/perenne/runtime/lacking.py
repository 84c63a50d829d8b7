"""What an attempt needs and this machine does not have: a tool, a level of confinement.

Asked before a handler runs, and again for the jobs that wait for it. What follows is decided in `core.decide`.
"""

from __future__ import annotations

from perenne.core import events
from perenne.core.kind import Kind
from perenne.errors import ConfinementMissing
from perenne.runtime import confine

REASONS = frozenset({"tool_missing", "confinement_missing"})


def of(kind: Kind) -> events.Missing | None:
    """What is missing for this kind; None when it can run. May raise what the kind's own question raises."""
    try:
        if kind.confinement != "none":
            confine.in_force(confine.Confinement(level=kind.confinement, required=True))
        sentence = kind.missing() if kind.missing else None
    except ConfinementMissing as error:
        return confinement(error)
    return events.Missing(sentence) if sentence else None


def confinement(error: ConfinementMissing) -> events.Missing:
    """The answer of an attempt whose tool was not run, because it could not be confined."""
    return events.Missing(str(error), "confinement_missing")
