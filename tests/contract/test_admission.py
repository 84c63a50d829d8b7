"""E-G2, E-G7: reservations are rows, written with the claim and freed with the end; a refused class is parked."""

from __future__ import annotations

from typing import Any

import pytest

from perenne.core import events
from perenne.core.estimate import Estimate
from perenne.core.job import Job
from perenne.core.pressure import Pressure
from perenne.core.publication import Published
from perenne.core.resources import Capacity, Machine, Policy, Reservation, capacity
from perenne.core.states import JobState
from perenne.core.verdicts import Situation
from perenne.errors import InvalidInput
from perenne.store import parking, reservations
from perenne.store.ledger import Claim, Ending, Lane, Turn
from perenne.store.owners import Owner

GIB, MIB = 1 << 30, 1 << 20
OWNER = "82000000-0000-4000-8000-0000000000aa"
LANE = Lane("test.work", 1)


def situation(total_gib: int = 8, **policy: Any) -> Situation:
    """A machine of 8 GiB and 8 CPUs of which 6 GiB and 6 threads are given away, and nobody else uses it."""
    seen = Machine(at_s=1.0, cpus=8, total_bytes=total_gib * GIB, available_bytes=total_gib * GIB, own_bytes=1 << 60)
    rules = Policy(**policy)
    return Situation(machine=seen, policy=rules, capacity=capacity(seen, rules), pressure=Pressure())


HERE = situation()


def needing(gib: int, **more: Any) -> dict[str, Any]:
    return {"estimate": Estimate(memory_bytes=gib * GIB, **more).bounded().encode()}


class Desk:
    """A room whose worker asks with a situation, and what the rows say afterwards."""

    def __init__(self, room: Any) -> None:
        self.room, self.attempts = room, iter(f"{number:032x}" for number in range(1, 10_000))

    def turn(self, *endings: Ending, room: int = 8, here: Situation | None = HERE, **more: Any) -> Turn:
        wanted = [next(self.attempts) for _ in range(room)]
        rest = {"owner": OWNER, "now": self.room.now, "actor": f"worker:{OWNER}", "company": True, "situation": here}
        turned: Turn = self.room.ledger.turn(endings, [LANE, Lane("test.other", 1)], wanted, **rest | more)
        return turned

    def held(self) -> list[reservations.Held]:
        return self.room.driver.read(reservations.all)  # type: ignore[no-any-return]

    def parked(self) -> list[parking.Refused]:
        return self.room.driver.read(parking.all)  # type: ignore[no-any-return]

    def ids(self, turn: Turn) -> list[str]:
        return [claim.job.id for claim in turn.claims]


@pytest.fixture
def desk(room: Any) -> Desk:
    return Desk(room)


def done(claim: Claim, answer: events.Answer | None = None) -> Ending:
    ended = events.Ended(answer=answer or events.Returned(), published=Published.absent())
    return Ending(claim.token, ended, 0.5)


def test_a_claim_writes_what_it_granted(desk: Desk) -> None:
    """The reservation stands with the attempt, and the claim says what it is."""
    desk.room.submit(**needing(1, max_batch=4, threads=2))
    (claim,) = desk.turn().claims
    assert claim.grant == Reservation(batch=4, memory_bytes=GIB, threads=2)
    (held,) = desk.held()
    assert (held.attempt, held.reservation, held.waits_for) == (claim.token.attempt, claim.grant, None)


def test_a_job_without_an_estimate_has_no_reservation(desk: Desk) -> None:
    """Whoever says nothing is asked for nothing, and runs beside whoever holds everything."""
    desk.room.submit(**needing(6))
    plain = desk.room.submit().job_id
    turn = desk.turn()
    assert plain in desk.ids(turn)
    assert [claim.grant is None for claim in turn.claims] == [False, True]
    assert len(desk.held()) == 1


def test_what_does_not_fit_waits_and_blocks_nothing(desk: Desk) -> None:
    """A refused class is parked with its sentence; what comes behind it begins, and it does once there is room."""
    first = desk.room.submit(**needing(4)).job_id
    large = desk.room.submit(**needing(5)).job_id
    small = desk.room.submit(**needing(1)).job_id
    turn = desk.turn()
    assert desk.ids(turn) == [first, small]
    assert turn.waits_for == "room"
    (refused,) = desk.parked()
    assert refused.sentence == "its smallest batch, 1, needs 5,120 MiB of memory, 2,048 MiB are free"
    again = desk.turn(*map(done, turn.claims))
    assert desk.ids(again) == [large]
    assert desk.parked() == []


def test_a_refused_class_is_asked_once(desk: Desk) -> None:
    """However many jobs of a class wait, a claim looks at one of them."""
    desk.room.ledger.add_queue("wide", 100_000)
    desk.room.submit(**needing(4))
    desk.turn()
    desk.room.submit_many([desk.room.wanted(queue="wide", **needing(5)) for _ in range(2)])
    desk.turn()
    few = desk.room.house.steps(lambda: desk.turn())
    desk.room.submit_many([desk.room.wanted(queue="wide", **needing(5)) for _ in range(2_000)])
    many = desk.room.house.steps(lambda: desk.turn())
    assert desk.parked()
    assert many < few * 1.5


ENDS: dict[str, events.Answer] = {
    "returned": events.Returned(),
    "gave up": events.GaveUp("it cannot work"),
    "snoozed": events.Snoozed(5.0),
    "doubted": events.Doubted("two results"),
    "suspended": events.Stopped("suspend"),
    "paused": events.Stopped("pause"),
    "quota": events.Stopped("quota"),
    "missing": events.Missing("no tool"),
}


@pytest.mark.parametrize("answer", ENDS.values(), ids=ENDS)
def test_every_end_frees_in_its_transaction(desk: Desk, answer: events.Answer) -> None:
    """Whatever an attempt ends with, in the same turn what it held is given to the next."""
    desk.room.submit(**needing(6))
    (first,) = desk.turn().claims
    desk.room.submit(kind="test.other", priority=-1, **needing(6))
    if answer == events.Stopped("pause"):
        desk.room.tell(first.job.id, events.Pause())
    turn = desk.turn(done(first, answer), room=1)
    assert [one.attempt for one in desk.held()] == [claim.token.attempt for claim in turn.claims]
    assert len(turn.claims) == 1
    assert turn.claims[0].token.attempt != first.token.attempt


def test_recovery_frees_what_the_dead_held(desk: Desk) -> None:
    """An attempt whose owner died gives its reservation back with its settlement; twice is once."""
    desk.room.submit(**needing(6))
    (claim,) = desk.turn().claims
    found = events.Interrupted(Published.absent())
    desk.room.ledger.settle(claim.token, found, now=desk.room.now, actor="recovery")
    assert desk.held() == []
    again = desk.turn(done(claim))
    assert not isinstance(again.ended[0], list)
    assert len(desk.held()) == 1


def test_what_no_machine_can_run_fails_with_the_sentence(desk: Desk) -> None:
    """An impossible job is rejected: FAILED, with the numbers; the queue does not hold it for ever."""
    ids = [desk.room.submit(**needing(7)).job_id for _ in range(3)]
    turn = desk.turn()
    assert [job.id for job in turn.rejected] == ids
    job: Job = desk.room.reader.job(ids[0])
    assert (job.state, job.reason) == (JobState.FAILED, "rejected")
    assert job.diagnostic is not None
    assert "7,168 MiB of memory, this machine gives at most 6,144 MiB" in job.diagnostic


def test_what_another_worker_can_run_stays_queued(desk: Desk) -> None:
    """A worker in a small control group rejects nothing that a worker with more can run, and says who could."""
    more = Capacity(memory_bytes=9 * GIB, gpu_memory_bytes=None, threads=1, gpu_slots=0, io_slots=1)
    other = "82000000-0000-4000-8000-0000000000bb"
    desk.room.owners.join(Owner(other, 2, "boot", "start"), now=desk.room.now)
    desk.room.driver.write(lambda tx: reservations.offer(tx, other, more))
    large = desk.room.submit(**needing(7)).job_id
    turn = desk.turn()
    assert (turn.rejected, turn.waits_for) == ([], "other")
    assert desk.room.reader.job(large).state is JobState.QUEUED
    assert desk.parked()[0].sentence.endswith(f"worker {other} could run it")
    desk.room.owners.leave(other, now=desk.room.now)
    assert [job.id for job in desk.turn().rejected] == [large]


def test_room_is_kept_for_who_waited_long(desk: Desk) -> None:
    """Small jobs overtake a large one for half a minute; then what is given back is kept until it fits."""
    desk.room.submit_many([desk.room.wanted(**needing(2)) for _ in range(2)])
    first, second = desk.turn().claims
    large = desk.room.submit(**needing(6)).job_id
    desk.room.submit_many([desk.room.wanted(**needing(2)) for _ in range(5)])
    (third,) = desk.turn().claims
    desk.room.later(31)
    assert desk.ids(desk.turn(done(first))) == []
    assert desk.ids(desk.turn(done(second))) == []
    assert desk.ids(desk.turn(done(third))) == [large]


def test_without_a_look_at_the_machine_nobody_is_admitted(desk: Desk) -> None:
    """A turn that did not look says so, and claims only what asks for nothing."""
    desk.room.submit(**needing(1))
    plain = desk.room.submit().job_id
    turn = desk.turn(here=None)
    assert (desk.ids(turn), turn.unasked) == ([plain], True)
    assert desk.turn(here=None, room=0).unasked is False


def test_a_break_gives_back_and_goes_on(desk: Desk) -> None:
    """After a sequence break the job stays RUNNING and holds nothing; who waits with a better place goes first."""
    worse = desk.room.submit(priority=-1, **needing(6)).job_id
    (claim,) = desk.turn().claims
    better = desk.room.submit(**needing(6)).job_id
    broke = done(claim, events.Broke())
    turn = desk.turn(broke, waiting=[claim.token.attempt])
    assert desk.ids(turn) == [better]
    assert turn.resumed == {}
    waits = next(one for one in desk.held() if one.job_id == worse)
    assert waits.waits_for == "it needs 1 threads, 0 are free" or "MiB of memory" in str(waits.waits_for)
    assert waits.reservation.memory_bytes == 0
    assert desk.room.reader.job(worse).state is JobState.RUNNING
    turn = desk.turn(done(turn.claims[0]), waiting=[claim.token.attempt])
    assert turn.resumed == {claim.token.attempt: claim.grant}
    (held,) = desk.held()
    assert (held.job_id, held.sequence) == (worse, 2)
    assert len(desk.room.reader.attempts(worse)) == 1


def test_a_stale_break_changes_nothing(desk: Desk) -> None:
    """A break under a token that has lost its right is dropped."""
    desk.room.submit(**needing(6))
    (claim,) = desk.turn().claims
    desk.turn(done(claim), room=0)
    turn = desk.turn(done(claim, events.Broke()), waiting=[claim.token.attempt], room=0)
    assert not isinstance(turn.ended[0], list)
    assert desk.held() == []


def test_a_reader_of_estimates_refuses_what_is_none(desk: Desk) -> None:
    """A submission whose estimate cannot be read changes nothing."""
    with pytest.raises(InvalidInput, match="estimate"):
        desk.room.submit(estimate="[1,2")
    assert desk.room.reader.jobs() == []
