"""The door used once, as an application would; type-checked by `make check` and never run.

Each public name of `perenne` has a use here, so that a change of its shape is seen by the type checker first.
"""

from __future__ import annotations

from perenne import errors


def what_a_refusal_tells(refusal: errors.RefusedError) -> tuple[str, str]:
    return refusal.code, str(refusal)
