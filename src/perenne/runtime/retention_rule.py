"""The rule of retention that stands in the manifest of a workspace: read, checked, and said in words.

What does not live here: which jobs a rule means (`store.retention`), and who carries it out (`tidier`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perenne.core.states import FINAL, JobState
from perenne.errors import InvalidInput
from perenne.files.workspace import Workspace
from perenne.store import retention
from perenne.store.retention import Rule

DAY_S = 86_400
MOST_DAYS = int(retention.MOST_AGE_S) // DAY_S
FIELDS = ("older_than_days", "keep", "states", "keep_history")


def of(workspace: Workspace) -> Rule | None:
    """The rule in the table `[retention]` of the manifest; None where there is none: every job is kept.

    Raises: InvalidInput: names the manifest, the field, its value and what may stand there.
    """
    if workspace.retention is None:
        return None
    try:
        rule = _rule(workspace.retention)
        retention.check(rule)
    except InvalidInput as error:
        said = str(error).replace("older_than_s", "older_than_days")
        raise InvalidInput(f"{workspace.manifest}: retention.{said}", **error.facts) from None
    return rule


def words(rule: Rule) -> str:
    """What the rule removes, for people."""
    bounds = []
    if rule.older_than_s is not None:
        bounds.append(f"ended more than {rule.older_than_s / DAY_S:g} days ago")
    if rule.keep is not None:
        bounds.append(f"are not among the newest {rule.keep}")
    return f"jobs that {' and '.join(bounds)} ({', '.join(rule.states)}); their history is {rule.history}"


def _rule(table: Mapping[str, object]) -> Rule:
    for name in table:
        if name not in FIELDS:
            raise _refused(name, table[name], f"no such field; known are {', '.join(FIELDS)}")
    chosen: dict[str, Any] = {}
    if "older_than_days" in table:
        days = _number(table, "older_than_days", int | float)
        if not 0 <= days <= MOST_DAYS:  # never true of what is no number
            raise _refused("older_than_days", days, f"the limit is 0 to {MOST_DAYS} days; give a number in it")
        chosen["older_than_s"] = days * DAY_S
    if "keep" in table:
        chosen["keep"] = _number(table, "keep", int)
    if "states" in table:
        chosen["states"] = _states(table["states"])
    if "keep_history" in table:
        chosen["history"] = "kept" if _flag(table["keep_history"]) else "pruned"
    return Rule(**chosen)


def _number(table: Mapping[str, object], name: str, kind: Any) -> Any:
    value = table[name]
    if isinstance(value, bool) or not isinstance(value, kind):
        raise _refused(name, value, "give a number" if kind is not int else "give a whole number")
    return value


def _states(value: object) -> tuple[JobState, ...]:
    try:
        if not isinstance(value, list):
            raise ValueError
        return tuple(JobState(state) for state in value)
    except ValueError:
        finals = ", ".join(sorted(FINAL))
        raise _refused("states", value, f"give a list of some of {finals}") from None


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise _refused("keep_history", value, "give true or false")
    return value


def _refused(name: str, value: object, sentence: str) -> InvalidInput:
    return InvalidInput(f"{name}: {value!r}; {sentence}", field=name, value=value)
