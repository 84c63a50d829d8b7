"""What an error says, in words, whatever it is: a handler or a lookup may raise anything, also what cannot be shown."""

from __future__ import annotations

from perenne.errors import EngineError


def said(error: BaseException) -> str:
    """Its name and what it says."""
    name = error.code if isinstance(error, EngineError) else type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:
        return f"{name}, which cannot say what happened"
