"""Rows to values and back, in one place. Column order is the order of the structs' fields."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from perenne.core.job import Attempt, HistoryLine, Job, Need, OnDependency, Outcome, Queue
from perenne.core.states import JobState
from perenne.store.driver import Row

_JOB = Job.__struct_fields__
_STATE, _ON_DEPENDENCY = _JOB.index("state"), _JOB.index("on_dependency")
_CANCEL, _PAUSE = _JOB.index("cancel_asked"), _JOB.index("pause_asked")
_OUTCOME, _SPENT = Attempt.__struct_fields__.index("outcome"), Attempt.__struct_fields__.index("spent")

# A look-up in a dict takes a tenth of the time of a call of the enumeration, and every move reads a row.
_STATES = {str(state): state for state in JobState}
_POLICIES = {str(policy): policy for policy in OnDependency}


def listed(values: Iterable[int | str]) -> str:
    """Many values as one parameter of a statement, which reads them with json_each."""
    return msgspec.json.encode(list(values)).decode()


def job(row: Row) -> Job:
    values = list(row)
    values[_STATE] = _STATES[row[_STATE]]
    values[_ON_DEPENDENCY] = _POLICIES[row[_ON_DEPENDENCY]]
    values[_CANCEL], values[_PAUSE] = bool(row[_CANCEL]), bool(row[_PAUSE])
    return Job(*values)


def attempt(row: Row) -> Attempt:
    values = list(row)
    values[_OUTCOME] = Outcome(row[_OUTCOME]) if row[_OUTCOME] else None
    values[_SPENT] = bool(row[_SPENT])
    return Attempt(*values)


def need(row: Row) -> Need:
    seq, id, kind, version, state, waived, result, diagnostic = row
    return Need(seq, id, kind, version, _STATES[state], bool(waived), result, diagnostic)


def history_line(row: Row) -> HistoryLine:
    return HistoryLine(*row)


def queue(row: Row) -> Queue:
    name, capacity, unfinished, paused, stopped = row
    return Queue(name, capacity, unfinished, bool(paused), bool(stopped))
