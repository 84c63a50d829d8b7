"""The rule of retention that stands in the manifest of a workspace: read, checked, and said in words.

What does not live here: which jobs a rule means (`store.retention`), and who carries it out (`tidier`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perenne.core import takes
from perenne.core.states import JobState
from perenne.errors import InvalidInput
from perenne.files.workspace import Workspace
from perenne.store import retention
from perenne.store.retention import Rule

DAY_S = 86_400
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
        raise InvalidInput(f"{workspace.manifest}: retention.{error}", **error.facts) from None
    return rule


def words(rule: Rule) -> str:
    """What the rule removes, for people."""
    bounds = []
    if rule.older_than_s is not None:
        bounds.append(f"ended more than {rule.older_than_s / DAY_S:g} days ago")
    if rule.keep is not None:
        bounds.append(f"are not among the newest {rule.keep}")
    return f"jobs that {' and '.join(bounds)} ({', '.join(rule.states)}); their history is {rule.history}"


def _rule(table: Mapping[str, Any]) -> Rule:
    for name in table:
        if name not in FIELDS:
            raise InvalidInput(f"{name}: no such field; known are {', '.join(FIELDS)}", field=name, value=table[name])
    if not {"older_than_days", "keep"} & table.keys():
        raise InvalidInput(
            "older_than_days: neither it nor keep is given; give an age, a number of jobs to keep, or both",
            field="older_than_days",
        )
    takes.check(**table)
    chosen = {name: table[name] for name in ("keep",) if name in table}
    if "older_than_days" in table:
        chosen["older_than_s"] = table["older_than_days"] * DAY_S
    if "states" in table:
        chosen["states"] = tuple(JobState(state) for state in table["states"])
    return Rule(**chosen, history="kept" if table.get("keep_history") else "pruned")
