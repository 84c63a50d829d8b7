"""One worker: a loop that records what ended, claims for its free slots, passes wishes on, and sleeps until woken.

Each turn of the loop is one transaction: all that ended, and the next claims. What does not live here: what an attempt
does (`executor`), the threads (`slots`), what a dead owner left (`recovery`), how a worker ends (`drain`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence

from perenne import nearest
from perenne.core.job import Job
from perenne.errors import EngineError, StaleToken
from perenne.runtime import asking
from perenne.runtime.completion import Completion, Recorded
from perenne.runtime.drain import GRACE_S, Drain, die, signals
from perenne.runtime.ends import Ends
from perenne.runtime.executor import Executor
from perenne.runtime.found import Found
from perenne.runtime.joblog import JobLog
from perenne.runtime.luck import Luck
from perenne.runtime.recovery import Recovery
from perenne.runtime.report import Report as Report
from perenne.runtime.sequences import Sequences
from perenne.runtime.slots import LOOP_STEP, NO_PLACES, Running, Slots
from perenne.runtime.standstill import PASSING, Standstill
from perenne.runtime.teller import Teller
from perenne.runtime.tidier import Tidier
from perenne.runtime.turns import Taken, Turns
from perenne.runtime.wake import Bell
from perenne.runtime.watch import Watch
from perenne.runtime.wishes import Wishes
from perenne.store.ledger import Claim
from perenne.store.owners import Owner
from perenne.store.reader import Reader

LONGEST_SLEEP_S = 60.0  # the wall clock may step under a sleeper, and who submits may die before it rings
PATIENCE_S = 0.5  # before a busy store or a full disk is tried again


class Worker:
    """One worker process's loop over one workspace."""

    def __init__(
        self,
        executor: Executor,
        recovery: Recovery,
        reader: Reader,
        owner: Owner,
        ends: Ends,
        luck: Luck,
        log: JobLog,
        ring: Callable[[], None],
        slots: int,
        coroutines: int,
        *,
        near: nearest.Open,
        completion: Completion,
        tidier: Tidier,
    ) -> None:
        """Args: near: where a handler's tasks go when they are enqueued. completion: runs an attempt."""
        self._executor, self._recovery, self._reader, self._owner = executor, recovery, reader, owner
        self._ledger, self._clock, self._ends, self._log = executor.ledger, executor.clock, ends, log
        self._ring, self._actor, self._near, self._tidier = ring, f"worker:{owner.id}", near, tidier
        self._bell: Bell | None = None
        lock, awaited = executor.workspace.lock_of(owner.id), any(kind.awaits for kind in executor.app.kinds)
        loop = (coroutines if awaited else 0, lambda make: make(completion, log, lock))
        self._slots = Slots(completion.perform, slots, self._clock, *loop)
        self._claim_more = False
        self._drain = Drain(self._clock)
        executor.watchdog.drain = self.stop
        self._watches: dict[str, Watch] = {}
        self._fault: BaseException | None = None
        self._turns = Turns(executor, owner.id, ends, luck)
        self._standstill = Standstill(log)
        self._found = Found(executor.app, executor.ledger, reader, executor.clock, log, self._actor)
        self._due_at: int | None = None
        self._sequences, self._waits_for = Sequences(self._slots), ""
        self.report = Report()
        self.failed = False

    def run(self, *, stay: bool) -> Report:
        """Recover, then work: until nothing is due (stay: until told to stop).

        Raises: StorageError: the store failed; what still runs is left to recovery.
        """
        self.failed = True  # until it is known that nothing was left behind
        self._bell = Bell(self._executor.workspace.wake_folder)
        with self._bell, signals(self.stop, self._bell.fileno()), nearest.within(self._near):
            if not self._join():
                self.failed, self.report.drained = False, True
                return self.report
            self._ring()  # the others shall watch over us from now on
            self.report.on_begin()
            self._teller = Teller(self._ends)
            try:
                self._executor.begin(stay=stay)
                self._slots.start()
                with self._tidier:
                    self._loop(stay)
            except BaseException as fault:
                self._fault = fault
                self._drain.press(self._wishes())
            finally:
                if not self._slots.close(GRACE_S):
                    die()  # its locks must not be free while a handler goes on
                self._executor.close()
                self._teller.close(GRACE_S)
                for watch in self._watches.values():
                    watch.close()
        if self._fault is not None:
            raise self._fault
        with contextlib.suppress(*PASSING):  # then whoever finds its lock free says it
            self._recovery.owners.leave(self._owner.id, now=self._clock.now())
        self.failed = False
        return self.report

    @property
    def bell_name(self) -> str | None:
        """What to leave out when its own news are told."""
        return None if self._bell is None else self._bell.path.name

    def _join(self) -> bool:
        """Enter this worker, however long the store makes it wait; false when it was told to end meanwhile."""
        assert self._bell is not None
        while not self._drain.asked:
            try:
                self._recovery.owners.join(self._owner, now=self._clock.now())
                return True
            except PASSING as error:
                self._standstill.say(str(error))
            self._bell.wait(PATIENCE_S)
        return False

    def stop(self) -> None:
        """Drain: running attempts end at their next boundary and go back to the queue. Twice: stop their tools too."""
        self._drain.asked += 1
        if self._bell is not None:
            self._bell.ring()

    def _loop(self, stay: bool) -> None:
        look, arrived = True, False
        while True:
            looked = not look or self._look_around(arrived)
            arrived = arrived or looked
            asking.pass_limits(self._slots, self._clock.monotonic())
            self._sequences.let_end_the_asked()
            store_waits = not looked or not self._turn()
            if self._slots.fault is not None:
                raise self._slots.fault
            left = stay or self._waits_for in ("room", "pressure")
            if not self._slots.held and not store_waits and (not left or self._drain.begun):
                return
            look = self._sleep(store_waits) or not looked

    def _look_around(self, arrived: bool) -> bool:
        """What others left, found or want; false when the store must be asked again."""
        if self._drain.asked:
            self._begin_drain()  # whether the store answers or not
        try:
            self._meet_others()
            if not arrived:
                self._recovery.sweep()
                self._executor.governor.offer(self._owner.id)
                self._found.release()
            self._pass_wishes()
        except PASSING as error:
            return self._wait_for(error)
        return True

    def _wait_for(self, error: EngineError) -> bool:
        """Say what we wait for, unless the time of patience is over; false, for it must be tried again."""
        self._standstill.say(str(error))
        if self._drain.hard:
            raise error  # what ended is not recorded: whoever recovers looks at what is published
        return False

    def _sleep(self, store_waits: bool) -> bool:
        """Wait for a ring, an end, a death or a time; true when there may be more than ends to look at.

        A slot writes to its pipe only while we sleep, and looks whether we do after it put its end where we look.
        """
        assert self._bell is not None
        self._slots.listener_sleeps = True
        most_s = 0.0 if (self._slots.any_ended or self._claim_more) and not store_waits else self._patience(store_waits)
        ready = self._bell.wait(most_s, [self._slots, *self._watches.values()])
        self._slots.listener_sleeps = False
        return self._drain.begun or (ready != [self._slots] and (bool(ready) or most_s != 0.0))

    def _turn(self) -> bool:
        """Record what ended and claim what there is room for; false when the store must be tried again."""
        try:
            self._go_on(self._turns.recall())
            ended = self._not_recorded(self._slots.take_ended())
            places = NO_PLACES if self._drain.begun else self._slots.places
            wanted = any(place.room > 0 for place in places)
            self._executor.governor.running = self._sequences.threads
            waiting = self._sequences.waiting
            taken = self._turns.take(ended, places, company=self._slots.company, waiting=waiting)
        except PASSING as error:
            return self._wait_for(error)
        if taken is not None:
            self._standstill.note(self._ledger.refusal("claim") if wanted and not taken.turn.claims else None)
            self._go_on(taken)
        return True

    def _go_on(self, taken: Taken | None) -> None:
        if taken is not None:
            turn = taken.turn
            self._due_at, self._waits_for = turn.due_at, turn.waits_for
            self._tell(taken.ticket, taken.ended, turn.ended, turn.rejected)
            self._start(turn.claims)
            self._sequences.go_on(turn.resumed)
            if turn.unasked:
                self._claim_more = self._executor.governor.needed = True
                self._waits_for = "room"

    def _not_recorded(self, ended: list[Running]) -> list[Running]:
        """Those that are not in the ledger yet; of the others it is told."""
        for one in ended:
            if isinstance(one.ended, Recorded):
                self._tell(one.ended.ticket, [one], [one.ended.jobs])
        return [one for one in ended if not isinstance(one.ended, Recorded)]

    def _tell(
        self, ticket: int, ended: list[Running], answers: list[list[Job] | StaleToken], rejected: Sequence[Job] = ()
    ) -> None:
        if not ended and not rejected:
            self._ends.close(ticket)
            return
        jobs = [job for job in rejected if job.is_final]
        freed = any(one.claim.grant is not None for one in ended)
        for one, answer in zip(ended, answers, strict=True):
            if self._sequences.rest(one, answer):
                continue
            self._slots.forget(one)
            if isinstance(answer, StaleToken):
                self._log.write("warning", "stale_report_dropped", error=str(answer))
                continue
            self.report.ended += 1
            jobs += [job for job in answer if job.is_final]
        self._teller.tell(ticket, jobs)
        if freed and self._watches and not jobs:
            self._ring()  # other workers may wait for what was given back

    def _start(self, claims: list[Claim]) -> None:
        awaiting = [self._executor.app.runner(claim.job.kind, claim.job.version).awaits for claim in claims]
        for claim, awaits in zip(claims, awaiting, strict=True):
            self._slots.put(claim, awaits=awaits)
        self._claim_more = sum(awaiting) == LOOP_STEP
        if any(claim.job.runs_alone for claim in claims):
            self._ring()  # others held back for this job; what waits behind it is theirs

    def _meet_others(self) -> None:
        """Settle what dead owners left, and wait for the end of those that live."""
        settled, living = self._recovery.settle_dead(self._owner.id)
        self.report.settle(settled)
        known = {owner.id: owner for owner in living}
        self._executor.governor.others = [owner.pid for owner in living]
        for gone in set(self._watches) - set(known):
            self._watches.pop(gone).close()
        for new in set(known) - set(self._watches):
            self._watches[new] = Watch(known[new], self._executor.workspace.lock_of(new))

    def _pass_wishes(self) -> None:
        """Tell each running attempt what is asked of it now."""
        if self._reader.controls().stopped:
            self._begin_drain()
        asking.pass_on(self._slots, self._reader, draining=self._drain.begun)
        self._drain.go_on(self._wishes())

    def _begin_drain(self) -> None:
        self._drain.begin()
        self.report.drained = True
        for one in self._wishes():
            one.ask("suspend")
        self._drain.go_on(self._wishes())

    def _wishes(self) -> list[Wishes]:
        return asking.of_all(self._slots)

    def _patience(self, store_waits: bool) -> float:
        """How long to sleep at most: until a limit, a due time, the next step of a drain, or another try."""
        now = self._clock.monotonic()
        held = list(self._slots.held.values())
        lefts = [one.left_s(now) for one in held if not one.wishes.asked("limit")]
        waits = [LONGEST_SLEEP_S, *(left_s for left_s in lefts if left_s is not None)]
        waits += [PATIENCE_S] if store_waits or self._standstill.no_room else []
        again_s = self._executor.governor.patience_s(self._waits_for)
        waits += [again_s] if again_s is not None and self._slots.has_room else []
        step_s = self._drain.next_step_s()
        waits += [] if step_s is None else [step_s]
        if self._due_at is not None and not self._standstill.no_room and not self._drain.begun and self._slots.has_room:
            waits.append((self._due_at - self._clock.now()) / 1e6)
        return max(min(waits), 0.0)
