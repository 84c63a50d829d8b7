"""What a caller may give, said once for each name: a question to the value, and the words when the answer is no.

What does not live here: the meaning of a value, and questions that only the ledger can answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from datetime import datetime
from typing import Any, Literal, NamedTuple, get_args

from perenne.core import limits
from perenne.core.estimate import Estimate
from perenne.core.job import Submission
from perenne.core.states import FINAL, JobState
from perenne.errors import InvalidInput

Isolation = Literal["thread", "process"]
Confinement = Literal["none", "offline", "stage"]  # of outside programs; each gives all that the ones before it give

# Below it no interpreter starts; above it no machine has so much.
MEMORY_LIMIT_BYTES = range(128 << 20, 1 << 48)
SLOTS_MOST = 1024
KEEP_MOST = 1 << 31
AGE_MOST_S = 1e9
AGE_MOST_DAYS = 11_574  # the same
ROWS_MOST = (1 << 63) - 1
VERSION_MOST = 1_000_000_000
RESOLVED = (JobState.COMPLETED, JobState.QUEUED, JobState.FAILED)


class Wanted(NamedTuple):
    """What one name takes; `words` follow its name and value in the sentence of the error."""

    holds: Callable[[Any], bool]
    words: str


def check(about: str = "", /, **values: object) -> None:
    """Refuse the first value that its name does not take.

    Args: about: what the sentence begins with, such as `kind mail@1: `.
    Raises: InvalidInput: one sentence with field, value, limit and next step.
    """
    for field, value in values.items():
        if not _WANTED[field].holds(value):
            raise refusal(field, value, about)


def refusal(field: str, value: object, about: str = "") -> InvalidInput:
    """The error that says what this name takes instead."""
    try:
        shown = limits.clip(repr(value), limits.NAME_BYTES)
    except Exception:  # a number of too many digits, or whatever a stranger's class does
        shown = f"a value of the type {type(value).__name__}"
    return InvalidInput(f"{about}{field}: {shown}{_WANTED[field].words}", field=field, value=value)


def _whole(low: int, high: int) -> Wanted:
    words = f", the limit is {low} to {high}; give a whole number in it"
    return Wanted(lambda value: type(value) is int and low <= value <= high, words)


def _seconds(low: float = 0.0, high: float = limits.WAIT_MOST_S) -> Wanted:
    """A number that compares with both bounds, as NaN does not."""
    words = f", the limit is {low:g} to {high:.0f} seconds; give a number in it"
    return Wanted(lambda value: _is_number(value) and low <= value <= high, words)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _one(kind: Any, words: str) -> Wanted:
    return Wanted(lambda value: isinstance(value, kind), f"; give {words}")


def _some(holds: Callable[[Any], bool], words: str) -> Wanted:
    """Several of them, in anything that has an order or a size and is no text."""
    return Wanted(
        lambda value: (
            isinstance(value, Sequence | Set) and not isinstance(value, str | bytes) and all(map(holds, value))
        ),
        f"; give {words}",
    )


def _like(*names: str, words: str) -> Wanted:
    """Whatever answers by these names: the class itself lives on a floor above."""
    return Wanted(lambda value: all(hasattr(value, name) for name in names), f"; give {words}")


def _or_none(wanted: Wanted, words: str = "") -> Wanted:
    return Wanted(lambda value: value is None or wanted.holds(value), wanted.words + words)


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_name(value: object) -> bool:
    return limits.is_visible(value) and str(value).isprintable() and len(str(value).encode()) <= limits.NAME_BYTES


def _is_place(value: object) -> bool:
    """A path; a name that is no UTF-8 is one, too."""
    return (isinstance(value, str) or hasattr(value, "__fspath__")) and str(value) != "" and "\0" not in str(value)


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


_STATE = Wanted(lambda value: value in tuple(JobState), f"; give one of {', '.join(JobState)}")
_FUNCTION = Wanted(callable, "; give a function")
_NAME = Wanted(_is_name, f"; give a printable text of at most {limits.NAME_BYTES} bytes")
_FLAG = _one(bool, "True or False")
_ERRORS = Wanted(
    lambda value: isinstance(value, tuple) and all(map(_is_error, value)),
    "; give a tuple of classes that derive from Exception",
)
_PLACE = _whole(0, ROWS_MOST)
_LEFT_OUT = ", or leave it out"

_WANTED: dict[str, Wanted] = {
    # a request and its wishes
    "kind": _like("name", "version", words="a kind, or its name as text"),
    "batch": _some(lambda one: isinstance(one, Submission) and one.parent is None, "a list of what `request` answered"),
    "children": _some(lambda one: isinstance(one, Submission), "a list of what this context's `request` answered"),
    "patience_s": _seconds(),
    "job_id": _or_none(_NAME, _LEFT_OUT),
    "key": _one(str | None, "a text, or leave it out"),
    "unique_key": _one(str | None, "a text, or leave it out"),
    "queue": _or_none(_NAME, _LEFT_OUT),
    "priority": _whole(limits.PRIORITY[0], limits.PRIORITY[-1]),
    "not_before": _one(datetime | None, "a datetime with its time zone, or leave it out"),
    "depends_on": _some(_is_text, "a list of ids of jobs"),
    "on_dependency": _one(str, "block, fail or continue"),
    "durability": _one(str, "durable or relaxed"),
    "max_attempts": _or_none(_whole(limits.ATTEMPTS[0], limits.ATTEMPTS[-1]), _LEFT_OUT),
    "ids": _one(Mapping | None, "an id for each name of a publication, or leave it out"),
    "requested_at": _or_none(_whole(0, limits.DUE_MOST_US), _LEFT_OUT),
    # looking, listening, waiting
    "state": _or_none(_STATE, _LEFT_OUT),
    "after": _PLACE,
    "limit": _PLACE,
    "listener": _FUNCTION,
    "receive": _FUNCTION,
    # What is left of a time may be less than nothing.
    "timeout_s": Wanted(
        lambda value: value is None or (_is_number(value) and value <= limits.WAIT_MOST_S),
        f", the limit is {limits.WAIT_MOST_S:.0f} seconds; give a number of them, or None for no limit",
    ),
    # steering, working
    "to": Wanted(lambda value: value in RESOLVED, f"; give one of {', '.join(RESOLVED)}"),
    "from_start": _FLAG,
    "slots": _whole(1, SLOTS_MOST),
    "coroutines": _whole(1, limits.COROUTINES_MOST),
    "stay": _FLAG,
    # a rule of retention
    "older_than_s": _or_none(_seconds(0.0, AGE_MOST_S), _LEFT_OUT),
    "keep": _or_none(_whole(0, KEEP_MOST), _LEFT_OUT),
    "states": _some(lambda one: one in tuple(FINAL), f"some states of finished jobs: {', '.join(sorted(FINAL))}"),
    "history": Wanted(lambda value: value in ("pruned", "kept"), "; give pruned or kept"),
    # the same in a manifest
    "older_than_days": Wanted(
        lambda value: _is_number(value) and 0 <= value <= AGE_MOST_DAYS,
        f", the limit is 0 to {AGE_MOST_DAYS} days; give a number in it",
    ),
    "keep_history": _one(bool, "true or false"),
    # a workspace
    "root": Wanted(_is_place, "; give the path of a folder"),
    "app": _like("kinds", "queues", words="the App whose workspace it is"),
    "clock": _like("now", "monotonic", words="a Clock"),
    "specimen": _FLAG,
    "allow_filesystems": _some(lambda one: isinstance(one, str) and one != "", "a list of names such as 'nfs4'"),
    # an app
    "kinds": _some(lambda one: True, "a list of kinds"),
    "queues": _one(Mapping, "the bound of each queue by its name"),
    "one_worker": _FLAG,
    "commands": _or_none(_NAME, _LEFT_OUT),
    "doctor": _or_none(_FUNCTION, _LEFT_OUT),
    # a kind
    "name": _NAME,
    "version": _whole(1, VERSION_MOST),
    "handler": _FUNCTION,
    "publications": _some(_is_name, "a tuple of names"),
    "lookup": _or_none(_FUNCTION, _LEFT_OUT),
    "adopt": _or_none(_FUNCTION, _LEFT_OUT),
    "discard": _or_none(_FUNCTION, _LEFT_OUT),
    "missing": _or_none(_FUNCTION, _LEFT_OUT),
    "backoff": _like("delay_s", words="a Backoff"),
    "retry_on": _ERRORS,
    "give_up_on": _ERRORS,
    "active_limit_s": _or_none(_seconds(0.001), ", or None for no limit"),
    "wall_limit_s": _or_none(_seconds(0.001), ", or None for no limit"),
    "interruptions": _or_none(_whole(limits.ATTEMPTS[0], limits.ATTEMPTS[-1]), ", or None: each spends an attempt"),
    "confinement": Wanted(
        lambda value: value in get_args(Confinement), f"; give one of {', '.join(get_args(Confinement))}"
    ),
    "isolation": Wanted(lambda value: value in get_args(Isolation), f"; give one of {', '.join(get_args(Isolation))}"),
    "memory_limit_bytes": _or_none(_whole(MEMORY_LIMIT_BYTES[0], MEMORY_LIMIT_BYTES[-1]), ", or None for no limit"),
    "migrates": _some(lambda one: type(one) is int and one > 0, "a tuple of versions"),
    "migrate": _or_none(_FUNCTION, _LEFT_OUT),
    "autosave_s": _or_none(_seconds(0.001), ", or None: only when the handler saves"),
    "keep_frame": _FLAG,
    "estimate": _or_none(
        Wanted(
            lambda value: isinstance(value, Estimate) or callable(value),
            "; give an Estimate, or a function of the input",
        ),
    ),
    "base_s": _seconds(),
    "cap_s": _seconds(),
}
