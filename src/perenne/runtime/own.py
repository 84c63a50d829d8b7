"""What a handler may give to the verbs of its context, where the value must fit what the attempt is and did.

What does not live here: what any caller may give (`core.takes`).
"""

from __future__ import annotations

from collections.abc import Sequence

from perenne.core.job import Submission
from perenne.errors import InvalidInput


def check(job_id: str, children: Sequence[Submission]) -> None:
    """Refuse a child that the context of another job made.

    Raises: InvalidInput.
    """
    for wanted in children:
        if wanted.parent != job_id:
            raise InvalidInput(
                f"children: job {wanted.id} is none of job {job_id}; make it with this context's request",
                field="children",
            )


def check_progress(done: int, total: int | None, before: int) -> None:
    """Refuse a progress that goes back, or beyond its total.

    Raises: InvalidInput.
    """
    if not all(_is_count(number) for number in (done, total)):
        raise InvalidInput(f"progress: done {done!r} of {total!r}; give whole numbers from 0", field="done")
    if done < before or (total is not None and done > total):
        raise InvalidInput(
            f"progress: done {done} of {total}, it was {before}; it may only grow, up to the total", field="done"
        )


def _is_count(number: int | None) -> bool:
    return number is None or (type(number) is int and 0 <= number < 1 << 63)
