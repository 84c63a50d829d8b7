"""The last line against a fault of ours: it costs only the facts of its own step, and fails every check of quality.

Here: the one place that catches. Not here: faults of a mail, which every reader meets without an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from perenne.apps.evidence.mail.notes import Notes

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")

# What a wrong line of Python raises. Lack of memory and a wish to stop pass through.
_OUR_FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)


def guarded(
    notes: Notes,
    path: str,
    otherwise: _Result,
    read: Callable[_Given, _Result],
    *args: _Given.args,
    **kwargs: _Given.kwargs,
) -> _Result:
    """What `read` gives; when it fails by a fault of ours, `otherwise` and the defect `internal_error` at `path`."""
    try:
        return read(*args, **kwargs)
    except _OUR_FAULTS:
        notes.defect("internal_error", path, 0, 0)
        return otherwise
