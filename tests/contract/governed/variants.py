"""Wrong governors, each by one fault: the machine must find every one of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import pytest
from machine.variants import instead, without

from perenne.core import verdicts
from perenne.core.pressure import Zone
from perenne.core.resources import NOTHING
from perenne.core.verdicts import Verdict
from perenne.store import admission, reservations

Plant = Callable[[pytest.MonkeyPatch], None]


class Variant(NamedTuple):
    """One way of being wrong."""

    name: str
    sentence: str
    plant: Plant


VARIANTS: list[Variant] = []


def planted(sentence: str) -> Callable[[Plant], Plant]:
    def enter(plant: Plant) -> Plant:
        VARIANTS.append(Variant(plant.__name__, sentence, plant))
        return plant

    return enter


def judged(patch: pytest.MonkeyPatch, wrong: Callable[[Verdict, dict[str, Any]], Verdict]) -> None:
    """Let the walk get another verdict; `wrong` gets the sound one, and what was known."""
    sound = verdicts.judge

    def judge(needs: Any, situation: Any, live: Any, **more: Any) -> Verdict:
        known = {"needs": needs.bounded(), "situation": situation, "live": live, **more}
        return wrong(sound(needs, situation, live, **more), known)

    patch.setattr(verdicts, "judge", judge)


@planted("The end of an attempt frees what younger jobs hold, too.")
def released_twice(patch: pytest.MonkeyPatch) -> None:
    instead(patch, "free_reservation", ("where job = :job", "where job >= :job"))


@planted("An end that a recovery writes frees nothing.")
def kept_by_the_dead(patch: pytest.MonkeyPatch) -> None:
    instead(
        patch,
        "free_reservation",
        (
            "where job = :job",
            "where job = :job and 'interrupted' <> (select outcome from attempt where attempt.job = :job "
            "order by number desc limit 1)",
        ),
    )


@planted("The reservation is granted in the claim and not written with it.")
def reservation_outside_the_claim(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(admission.Admission, "reserve", lambda self, tx, job, attempt, now: self.grants.get(job.seq))


@planted("What is granted in one claim is not counted for the next of the same claim.")
def own_grants_forgotten(patch: pytest.MonkeyPatch) -> None:
    sound = admission.Asking._admit

    def admit(self: Any, one: Any, grant: Any, chosen: Any) -> None:
        sound(self, one, grant, chosen)
        self._live.pop()

    patch.setattr(admission.Asking, "_admit", admit)


@planted("Only the reservations of the asking worker's own claim are seen.")
def others_not_seen(patch: pytest.MonkeyPatch) -> None:
    sound = admission.Asking.__init__

    def init(self: Any, *values: Any) -> None:
        sound(self, *values)
        self._live = self._live[:1]

    patch.setattr(admission.Asking, "__init__", init)


@planted("What can never run waits like everything else.")
def rejection_taken_for_wait(patch: pytest.MonkeyPatch) -> None:
    judged(patch, lambda sound, _: Verdict("wait", sound.sentence, None, "room") if sound.answer == "reject" else sound)


@planted("What finds no room now is rejected for ever.")
def wait_taken_for_rejection(patch: pytest.MonkeyPatch) -> None:
    judged(patch, lambda sound, _: Verdict("reject", sound.sentence) if sound.waits_for == "room" else sound)


@planted("No room is kept for a large job, however long it waits.")
def large_jobs_starve(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verdicts, "least", lambda needs: NOTHING)


@planted("Nobody is told that a class waits, so nobody looks again.")
def wake_up_lost(patch: pytest.MonkeyPatch) -> None:
    sound = admission.Asking._wait

    def wait(self: Any, one: Any, verdict: Verdict) -> None:
        sound(self, one, verdict)
        self._admission.waits_for = ""

    patch.setattr(admission.Asking, "_wait", wait)


@planted("The first that must wait keeps everybody behind it waiting.")
def head_of_the_line(patch: pytest.MonkeyPatch) -> None:
    sound = admission.Asking._ask

    def ask(self: Any, one: Any) -> Verdict:
        if self._admission.waits_for:
            return Verdict("wait", "it is not the first", None, "room")
        return sound(self, one)

    patch.setattr(admission.Asking, "_ask", ask)


@planted("A sequence break gives nothing back.")
def break_keeps(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(reservations, "give_back", lambda *values: True)


@planted("A job that goes on after a break holds its next sequence on no row.")
def next_sequence_unwritten(patch: pytest.MonkeyPatch) -> None:
    without(patch, "reserve", "on conflict (job) do update", *_UPDATE)
    instead(
        patch,
        "reserve",
        ("values (:job", "values (:job"),
        (":io_slots, :now)", ":io_slots, :now) on conflict do nothing"),
    )


_UPDATE = (
    """
set
    attempt = excluded.attempt,
    batch = excluded.batch,
    memory_bytes = excluded.memory_bytes,
    gpu_memory_bytes = excluded.gpu_memory_bytes,
    threads = excluded.threads,
    gpu_slots = excluded.gpu_slots,
    io_slots = excluded.io_slots,
    sequence = sequence + 1,
    at = excluded.at,
    waits_for = null""",
)


@planted("In the red zone work is added as in the green one.")
def red_is_green(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(verdicts, "_pressed", lambda *values: "")


@planted("Pressure keeps out the first job, too, while nothing of ours runs.")
def first_kept_out(patch: pytest.MonkeyPatch) -> None:
    def wrong(sound: Verdict, known: dict[str, Any]) -> Verdict:
        red = known["situation"].pressure.zone is Zone.RED
        return Verdict("wait", "red", None, "pressure") if red and sound.grant is not None else sound

    judged(patch, wrong)


@planted("A batch below the least is granted where the least does not fit.")
def batch_below_the_least(patch: pytest.MonkeyPatch) -> None:
    def wrong(sound: Verdict, known: dict[str, Any]) -> Verdict:
        if sound.grant is None or known["needs"].min_batch == 1:
            return sound
        return msgspec.structs.replace(sound, grant=msgspec.structs.replace(sound.grant, batch=1))

    judged(patch, wrong)


@planted("Threads are given away as often as they are asked for.")
def threads_not_counted(patch: pytest.MonkeyPatch) -> None:
    def wrong(sound: Verdict, known: dict[str, Any]) -> Verdict:
        if sound.grant is None:
            return sound
        grant = msgspec.structs.replace(sound.grant, threads=known["needs"].threads)
        return msgspec.structs.replace(sound, grant=grant)

    judged(patch, wrong)
