"""Rows become values by position; so the order of columns, of queries and of fields is one order."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from perenne import sqlite
from perenne.core.job import Attempt, HistoryLine, Job, OnDependency, Outcome, Queue
from perenne.core.states import JobState
from perenne.store import rows
from perenne.store.sqlite import driver

OF_JOB = [
    name
    for name, text in driver.queries().items()
    if re.search(r"(select|returning)\n    seq, id, kind, version, queue", text)
]
# The place of a line of history that only the database needs.
NOT_IN_JOB = {"born"}


def columns_of(path: Path, table: str) -> list[str]:
    reader = sqlite.open(path, mode="read")
    try:
        return [row[1] for row in reader.execute(f"pragma table_info({table})")]
    finally:
        reader.close()


def selected(query: str) -> list[str]:
    """The columns that a query answers with: its last list before `from`, or after `returning`."""
    text = driver.queries()[query]
    listed = re.search(r"returning(.*)$", text, re.DOTALL) or re.search(r"^select\s(.*?)\nfrom", text, re.DOTALL)
    assert listed is not None, query
    return [name.strip() for name in listed[1].split(",")]


def test_a_job_has_the_columns_of_its_table(ledger_path: Path) -> None:
    """The fields of a job are the columns of its table, in their order."""
    assert [name for name in columns_of(ledger_path, "job") if name not in NOT_IN_JOB] == list(Job.__struct_fields__)


def test_an_attempt_has_the_columns_of_its_table(ledger_path: Path) -> None:
    """The fields of an attempt are the columns of its table; the job is named by its id."""
    fields = {"job" if name == "job_id" else name for name in Attempt.__struct_fields__}
    assert set(columns_of(ledger_path, "attempt")) == fields


def test_every_query_that_gives_jobs_gives_every_field() -> None:
    """Each answers with every field of a job, in the order of the fields."""
    assert len(OF_JOB) >= 5
    assert {query: selected(query) for query in OF_JOB} == {query: list(Job.__struct_fields__) for query in OF_JOB}


@pytest.mark.parametrize(
    ("query", "struct"),
    [
        ("attempts_of_job", Attempt),
        ("open_attempts", Attempt),
        ("list_history", HistoryLine),
        ("read_queue", Queue),
        ("list_queues", Queue),
    ],
)
def test_every_other_query_gives_its_fields(query: str, struct: Any) -> None:
    """Attempts, lines and queues are answered field by field, in the order of the fields."""
    names = [name.rpartition(".")[2] for name in selected(query)]
    expected = ["id" if name == "job_id" else name for name in struct.__struct_fields__]
    assert names == expected


def test_words_and_flags_become_values() -> None:
    """States, outcomes, policies and flags are read as what they mean, not as what stands in the file."""
    fields: dict[str, Any] = {
        **dict.fromkeys(Job.__struct_fields__, 0),
        "state": "RUNNING",
        "on_dependency": "fail",
        "cancel_asked": 1,
        "pause_asked": 0,
    }
    job = rows.job(tuple(fields.values()))
    assert (job.state, job.on_dependency) == (JobState.RUNNING, OnDependency.FAIL)
    assert isinstance(job.state, JobState)
    assert (job.cancel_asked, job.pause_asked) == (True, False)
    values: dict[str, Any] = {**dict.fromkeys(Attempt.__struct_fields__, 0), "outcome": "snoozed", "spent": 1}
    attempt = rows.attempt(tuple(values.values()))
    assert (attempt.outcome, attempt.spent) == (Outcome.SNOOZED, True)
    assert rows.attempt(tuple({**values, "outcome": None}.values())).outcome is None
    assert rows.queue(("default", 5, 2, 1, 0)) == Queue("default", 5, 2, paused=True, stopped=False)


@pytest.mark.parametrize("wrong", [JobState.__members__, Job.__struct_fields__[:-1], (*Job.__struct_fields__, "more")])
def test_a_row_of_another_shape_is_a_fault(wrong: Any) -> None:
    """A row with a column too few or too many, or an unknown word, is refused, never shifted."""
    with pytest.raises((ValueError, TypeError, IndexError, KeyError)):
        rows.job(tuple(wrong))
