"""Removes what is final and old, in bounded steps: jobs with their attempts, dependencies, notices and history.

What lives here: the rule, which jobs it means, and one step. What does not: the files of a job and the pauses between
steps (`runtime.pruner`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Literal

import msgspec

from perenne.core import takes
from perenne.core.states import FINAL, JobState
from perenne.crashpoints import crash_point
from perenne.errors import InvalidInput
from perenne.store.artefacts import Artefacts
from perenne.store.driver import Driver, Transaction
from perenne.store.owners import Owners
from perenne.store.rows import listed

STEP_JOBS = 256
STEP_ROWS = 4096  # some 50 ms on a slow disk; one job may have more, and is then a step of its own
_LAST = (1 << 63) - 1

Place = tuple[int, int]  # when a job ended, and its place of submission


class Rule(msgspec.Struct, frozen=True, kw_only=True):
    """Which finished jobs go: those in `states` that ended longer ago than the age and are not among the newest `keep`.

    history: `pruned` goes with its job; `kept` stays, its subject naming the job that is gone.
    """

    older_than_s: float | None = None
    keep: int | None = None
    states: tuple[JobState, ...] = tuple(sorted(FINAL))
    history: Literal["pruned", "kept"] = "pruned"


class Removed(msgspec.Struct, frozen=True):
    """How many rows went."""

    jobs: int = 0
    attempts: int = 0
    dependencies: int = 0
    notices: int = 0
    history: int = 0
    owners: int = 0

    def __add__(self, other: Removed) -> Removed:
        pairs = zip(msgspec.structs.astuple(self), msgspec.structs.astuple(other), strict=True)
        return Removed(*(one + two for one, two in pairs))


def check(rule: Rule, step: int = STEP_JOBS) -> None:
    """Refuse a rule that says nothing, or that names a job that is not final.

    Raises: InvalidInput: names field, value and limit.
    """
    takes.check(**msgspec.structs.asdict(rule))
    if rule.older_than_s is None and rule.keep is None:
        raise InvalidInput(
            "older_than_s: neither it nor keep is given; give an age in seconds, a number of jobs to keep, or both",
            field="older_than_s",
        )
    if not rule.states:
        raise takes.refusal("states", rule.states)
    if not 1 <= step <= STEP_ROWS:
        raise InvalidInput(f"step: {step}, the limit is 1 to {STEP_ROWS}; give a number in it", field="step")


class Retention:
    """Removes jobs of one ledger."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self.owners, self.artefacts = Owners(driver), Artefacts(driver)

    def purge(
        self, rule: Rule, *, now: int, actor: str, step: int = STEP_JOBS
    ) -> Iterator[tuple[Removed, tuple[str, ...]]]:
        """Remove what the rule means, step by step: for each step, durable by then, what went and the ids of its jobs.

        A step that met only jobs that must stay is answered too, with nothing.

        A job stays while any job that stays names it as a dependency or its parent has not ended, and the newest job of
        all stays, so that no place is given twice. Ages are counted from `now`. The removal leaves one line of history:
        each step replaces it by the sum up to then.
        Args: step: at most so many jobs a transaction, which removes at most 4096 rows, or one job.
        Raises: InvalidInput, before anything is removed; StorageError.
        Guarantees: stopped or killed between or inside steps, each job is there whole or gone whole.
        """
        check(rule, step)
        return self._passes(_Purge(rule, now, actor), step)

    def _passes(self, purge: _Purge, step: int) -> Iterator[tuple[Removed, tuple[str, ...]]]:
        """Newest end first, for a job mostly ends after what it waited for; again while a pass set another one free."""
        edge = self._driver.read(purge.find_edge)
        again = edge is not None
        while again:
            before_pass = purge.removed.jobs
            yield from self._one_pass(purge, edge, step)
            again = purge.removed.jobs > before_pass

    def _one_pass(self, purge: _Purge, place: Place | None, step: int) -> Iterator[tuple[Removed, tuple[str, ...]]]:
        while place is not None:
            # Chosen beside other writers and checked again under the lock, which is so held for a moment only.
            jobs, place = self._driver.read(partial(purge.choose, before=place, step=step))
            if jobs:
                removed, ids, line = self._driver.write(partial(purge.remove, jobs=jobs), recheck=_gone)
                crash_point("purge.committed")
                purge.note(removed, line)
                yield removed, ids
            else:
                yield Removed(), ()


class _Purge:
    """One purge under way."""

    def __init__(self, rule: Rule, now: int, actor: str) -> None:
        self._rule, self._now, self._actor = rule, now, actor
        self._states = listed(rule.states)
        self._edge: Place = (0, 0)
        self._line: int | None = None
        self.removed = Removed()

    def find_edge(self, tx: Transaction) -> Place | None:
        """The place before which jobs may go; None when none may."""
        age_s, keep = self._rule.older_than_s, self._rule.keep
        edge = (_LAST, _LAST) if age_s is None else (self._now - int(age_s * 1e6), _LAST)
        if keep is not None:
            row = tx.one("purge_edge", states=self._states, keep=keep)
            if row is None:
                return None
            edge = min(edge, (row[0], row[1] + 1))
        self._edge = edge
        return edge

    def choose(self, tx: Transaction, *, before: Place, step: int) -> tuple[list[int], Place | None]:
        """The next jobs that may go, and where to look on; None when nothing is left to look at."""
        at, seq = before
        found = tx.all("purge_candidates", states=self._states, before_at=at, before_seq=seq, limit=step)
        if not found:
            return [], None
        chosen, all_fit = self._fit(tx, [seq for _, seq in found])
        places = {seq: (at, seq) for at, seq in found}
        return [seq for seq, _ in chosen], places[found[-1][1] if all_fit else chosen[-1][0]]

    def remove(self, tx: Transaction, *, jobs: list[int]) -> tuple[Removed, tuple[str, ...], int | None]:
        """Remove those of the jobs that still may go; what went, whose, and the line of history that says so."""
        chosen, _ = self._fit(tx, jobs)
        if not chosen:
            return Removed(), (), self._line
        revision = tx.one("last_revision")
        assert revision is not None
        removed = _delete(tx, [seq for seq, _ in chosen], self._rule.history)
        # After the newest line as it was, also when that one is gone now: the revision only grows.
        line = revision[0] + 1
        reason = self._sentence(self.removed + removed)
        tx.run("insert_line_at", seq=line, verb="purge", reason=reason, actor=self._actor, now=self._now)
        if self._line is not None:
            tx.run("delete_line", seq=self._line)
        crash_point("purge.written")
        return removed, tuple(id for _, id in chosen), line

    def note(self, removed: Removed, line: int | None) -> None:
        """After the commit: a step that failed leaves the sum as it was."""
        self.removed, self._line = self.removed + removed, line

    def _fit(self, tx: Transaction, jobs: list[int]) -> tuple[list[tuple[int, str]], bool]:
        """Those of the jobs that may go, by place and id, as far as one transaction may take; whether all fitted."""
        chosen: list[tuple[int, str]] = []
        left_rows = STEP_ROWS
        at, seq = self._edge
        values = {"states": self._states, "before_at": at, "before_seq": seq}
        for place, id, size_rows, is_named in tx.all("purge_sizes", jobs=listed(jobs), **values):
            if chosen and size_rows > left_rows:
                return chosen, False
            going = listed([seq for seq, _ in chosen])
            if not is_named or tx.one("named_by_others", needs=place, jobs=going) is None:
                chosen.append((place, id))
                left_rows -= size_rows
        return chosen, True

    def _sentence(self, removed: Removed) -> str:
        rule = self._rule
        age = [] if rule.older_than_s is None else [f"ended more than {rule.older_than_s:g} s ago"]
        keep = [] if rule.keep is None else [f"not among the newest {rule.keep}"]
        return (
            f"removed {removed.jobs} jobs, {removed.attempts} attempts, {removed.dependencies} dependencies, "
            f"{removed.notices} notices, {removed.history} lines of history ({', '.join(rule.states)}; "
            f"{' and '.join(age + keep)}; history {rule.history})"
        )


def _delete(tx: Transaction, jobs: list[int], history: str) -> Removed:
    """What belongs to the jobs first, the jobs last; lines of history that stay are no more counted as removed."""
    named = listed(jobs)
    verb = "delete" if history == "pruned" else "detach"
    lines = tx.run(f"{verb}_births_of", jobs=named) + tx.run(f"{verb}_history_of", jobs=named)
    tx.run("delete_checkpoints_of", jobs=named)
    tx.run("shrink_artefacts_by", jobs=named)
    tx.run("delete_artefacts_of", jobs=named)
    return Removed(
        notices=tx.run("delete_notices_of", jobs=named),
        attempts=tx.run("delete_attempts_of", jobs=named),
        dependencies=tx.run("delete_dependencies_of", jobs=named),
        jobs=tx.run("delete_jobs", jobs=named),
        history=lines if history == "pruned" else 0,
    )


def _gone(tx: Transaction, answer: tuple[Removed, tuple[str, ...], int | None]) -> bool:
    """Whether a step stands whose commit failed half-way."""
    _, ids, _ = answer
    return len(tx.all("unknown_jobs", ids=listed(ids))) == len(ids)
