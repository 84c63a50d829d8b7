"""The machine, looked at: what it offers to confine outside programs with. Reads only."""

from __future__ import annotations

from collections.abc import Iterator

from perenne.app import App
from perenne.runtime import confine
from perenne.runtime.findings import Finding, bad, ok, some, warn


def confinement(app: App | None) -> Iterator[Finding]:
    """Which confinement is in force for tools here, and whether the kinds of the app get what they require."""
    here = confine.offer()
    sentence = f"tools can be confined at level {here.level!r} ({here.by})"
    offered = confine.LEVELS[: confine.LEVELS.index(here.level) + 1]
    waiting = [str(kind) for kind in app.kinds if kind.confinement not in offered] if app is not None else []
    if waiting:
        sentence = f"{sentence}, because {here.why}; jobs of {some(waiting)} require more and wait"
        yield bad("confinement", sentence, "use a machine that offers it")
    elif here.why:
        yield warn("confinement", f"{sentence}, because {here.why}", "let only trusted files reach a tool here")
    else:
        yield ok("confinement", sentence)
