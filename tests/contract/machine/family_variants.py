"""Ledgers that are wrong on purpose about children and joins; `variants` has the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from machine.variants import instead, planted
from perenne.core import events
from perenne.core.job import Job, OnDependency, Receipt, Submission
from perenne.store import dependants, intake, writes
from perenne.store.ledger import Ledger

CONTINUE = OnDependency.CONTINUE


@planted("Children are taken from whoever was once an attempt of their parent.")
def child_of_a_stale_attempt(patch: pytest.MonkeyPatch) -> None:
    sound = Ledger.submit_many

    def submit(self: Ledger, batch: Sequence[Submission], *, token: Any = None, **values: Any) -> list[Receipt]:
        return sound(self, batch, **values)

    patch.setattr(Ledger, "submit_many", submit)


@planted("A child does not say who submitted it.")
def parent_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    sound = intake._row
    patch.setattr(
        intake, "_row", lambda wanted, *rest: tuple(None if v == wanted.parent else v for v in sound(wanted, *rest))
    )


@planted("A child that has ended is not found by the next attempt of its parent, which is refused.")
def ended_child_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    sound = intake._reuse

    def reuse(tx: Any, wanted: Submission) -> Receipt | None:
        found = sound(tx, wanted)
        ended = found is not None and found.state in ("COMPLETED", "FAILED", "CANCELLED", "DEAD")
        return None if wanted.parent is not None and ended else found

    patch.setattr(intake, "_reuse", reuse)


@planted("A join is released by the first member that ends badly.")
def join_released_early(patch: pytest.MonkeyPatch) -> None:
    sound = dependants._meet_end

    def meet(tx: Any, place: int, ended: Job, actor: str, now: int) -> Job | None:
        met = sound(tx, place, ended, actor, now)
        waiting = writes.read(tx, place)
        if dependants.goes_on_after(waiting.on_dependency, ended.state) and waiting.state == "BLOCKED":
            writes.step(tx, waiting, events.Release("dependencies_ended"), actor, now)
        return met

    patch.setattr(dependants, "_meet_end", meet)


@planted("The last end of a member releases its join, and so does the next one after a person's word.")
def join_released_twice(patch: pytest.MonkeyPatch) -> None:
    instead(patch, "dependants_of_job", ("select job, waived", "select job, 0"))


@planted("A join waits for members that had ended badly before it was submitted.")
def join_waits_for_ever(patch: pytest.MonkeyPatch) -> None:
    instead(patch, "insert_dependency", ("values (:job, :needs, :waived)", "values (:job, :needs, 0 * :waived)"))


@planted("A member that ended badly counts as ended, and again when it ends after its requeue.")
def member_counts_twice(patch: pytest.MonkeyPatch) -> None:
    instead(patch, "waive_dependency", ("set waived = 1", "set waived = 0"))


@planted("A join does not wait again for a member that a person has started again.")
def join_leaves_the_requeued(patch: pytest.MonkeyPatch) -> None:
    sound = dependants.wait_again

    def again(tx: Any, reopened: Job, *, actor: str, now: int) -> None:
        for place, _ in tx.all("dependants_of_job", needs=reopened.seq):
            if writes.read(tx, place).on_dependency is CONTINUE:
                return
        sound(tx, reopened, actor=actor, now=now)

    patch.setattr(dependants, "wait_again", again)
