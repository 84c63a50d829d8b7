"""The memory of jobs: every change of a job's row passes here, each in one transaction.

The pattern is always the same: begin, read the row, ask `decide`, write guarded, log, commit. The rule exists once, in
Python; the SQL only refuses what is stale. A call that raises has changed nothing. Time, luck and ids are arguments.

What does not live here: how a request becomes a row (`intake`), how a change is carried out (`moves`), questions of the
windows (`reader`), clocks, handlers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import TypeVar

import msgspec

from perenne.core import events, limits
from perenne.core.artefact import Artefact
from perenne.core.dependencies import ordered
from perenne.core.job import Durability, Job, Need, Receipt, Submission, Token
from perenne.core.verdicts import Situation
from perenne.crashpoints import crash_point
from perenne.errors import EngineError
from perenne.store import claims, controls, intake, proof, telling, turns, writes
from perenne.store.accounts import Accounts
from perenne.store.admission import Admission
from perenne.store.artefacts import Artefacts
from perenne.store.checkpoints import Checkpoints
from perenne.store.claims import Claim as Claim
from perenne.store.claims import Lane as Lane
from perenne.store.claims import Place as Place
from perenne.store.driver import Driver, Growth, Transaction
from perenne.store.turns import Ending as Ending
from perenne.store.turns import Turn as Turn

T = TypeVar("T")

_HEARD = ("submit", "control")
_QUIET = ("claim", "acknowledge", "recover", "progress")


class Ledger:
    """All jobs of one workspace."""

    def __init__(self, driver: Driver, wake: Callable[[], None] | None = None) -> None:
        """Args: wake: tells who sleeps to look again; called after what may give them work, once for a whole group."""
        self._driver, self._wake = driver, wake
        self.checkpoints, self.artefacts = Checkpoints(driver), Artefacts(driver)
        self._committed = {protocol: partial(_committed, protocol, None) for protocol in _QUIET}
        self._committed |= {protocol: partial(_committed, protocol, wake) for protocol in _HEARD}

    def submit(self, wanted: Submission, *, now: int, actor: str) -> Receipt:
        """Store a job, as durably as it asks for, or find the one this request already made.

        Raises:
            QueueFull, DuplicateJob, JobNotFound (a dependency), DependencyCycle, InvalidInput, TooLarge.
            DiskLow: the disk is below its floor. StoreBusy: also while a reader lets the store grow without end.
        """
        intake.check(wanted)
        self._refuse_growth()
        return self._write(
            "submit",
            lambda tx: intake.find_or_insert(tx, wanted, now, actor),
            proof.stored,
            durable=wanted.durability is Durability.DURABLE,
        )

    def submit_many(
        self, batch: Sequence[Submission], *, now: int, actor: str, token: Token | None = None
    ) -> list[Receipt]:
        """Store a batch in one transaction, all or none; its members may wait for each other, in any order.

        Args: token: of the running attempt that submits them as children of its job.
        Raises: as `submit`, naming the member; DependencyCycle names the path. StaleToken: the attempt has lost its
        right. Nothing was written then.
        """
        by_id = intake.check_batch(batch)
        order = [by_id[id] for id in ordered({wanted.id: wanted.dependencies for wanted in batch})]
        self._refuse_growth()

        def work(tx: Transaction) -> dict[str, Receipt]:
            if token is not None:
                turns.held(tx, token)
            return intake.enter_all(tx, order, now, actor)

        answers = self._write(
            "submit",
            work,
            lambda tx, receipts: proof.stored(tx, *receipts.values()),
            durable=intake.durability(order) is Durability.DURABLE,
        )
        return [answers[wanted.id] for wanted in batch]

    @property
    def accounts(self) -> Accounts:
        return Accounts(self._driver, self._wake)

    def refusal(self, growth: Growth) -> EngineError | None:
        """Why no job is submitted or claimed now, for the disk or the store has no room; None when there is room."""
        return self._driver.refusal(growth)

    def _refuse_growth(self) -> None:
        refusal = self._driver.refusal("submit")
        if refusal is not None:
            raise refusal

    def claim(
        self, lanes: Sequence[Lane], *, owner: str, attempt: str, now: int, situation: Situation | None = None
    ) -> Claim | None:
        """The best due job of these kinds in any open queue, now RUNNING under a new attempt.

        None if there is none, or while `refusal("claim")` says why nothing is claimed.
        Args: situation: as `turn`.
        """
        if self._driver.refusal("claim") is not None:
            return None

        def work(tx: Transaction) -> list[Claim]:
            asked = None if situation is None else Admission(situation, owner, f"worker:{owner}")
            return claims.claim(tx, lanes, owner, [attempt], now, company=False, admission=asked)

        given = self._write("claim", work, proof.claimed)
        return given[0] if given else None

    def end(self, token: Token, ended: events.Ended, *, now: int, luck: float, actor: str) -> list[Job]:
        """Record how the attempt of this token ended; the job as it stands afterwards, then whoever ended with it.

        Raises: StaleToken: nothing was written.
        """
        return self._write(
            "acknowledge",
            lambda tx: turns.end(tx, Ending(token, ended, luck), now, actor),
            lambda tx, _: proof.ended(tx, token),
        )

    def turn(
        self,
        endings: Sequence[Ending],
        lanes: Sequence[Lane],
        attempts: Sequence[str],
        *,
        owner: str,
        now: int,
        actor: str,
        company: bool = False,
        ahead: int = 0,
        made: list[Turn] | None = None,
        situation: Situation | None = None,
        waiting: Collection[str] = (),
    ) -> Turn:
        """Record every attempt that ended and claim as many jobs as there are new attempt ids, in one transaction.

        Args: company: whether attempts that have not ended run in the owner's process; then no job is given that must
            run alone, nor any that waits behind one. made: holds what was done, also when nobody knows whether it
            stands (OutcomeUnknown); `stands` finds out. ahead: for how many of the ids there is no slot yet.
            situation: of the machine; without it no job with an estimate begins. waiting: attempts of this owner that
            broke their sequence, also in this turn.
        Guarantees: a stale ending is answered as such and never harms the others. Nothing is claimed while
            `refusal("claim")` says why.
        """
        if attempts and self._driver.refusal("claim") is not None:
            attempts = ()

        def work(tx: Transaction) -> Turn:
            ended = [turns.end_or_stale(tx, ending, now, actor) for ending in endings]
            if endings:
                crash_point("acknowledge.written")
            asked = Admission(situation, owner, actor, waiting)
            claim = partial(claims.claim, company=company, ahead=ahead, admission=asked)
            claimed = claim(tx, lanes, owner, attempts, now) if attempts else []
            if attempts:
                crash_point("claim.written")
            got = asked.resumed, asked.rejected, asked.waits_for, asked.unasked
            turn = Turn(ended, claimed, claims.next_due(tx), *got)
            if made is not None:
                made[:] = [turn]
            return turn

        turn = self._driver.write(work, recheck=lambda tx, turn: turns.stands(tx, endings, turn))
        if endings:
            crash_point("acknowledge.committed")
        if attempts:
            crash_point("claim.committed")
        return turn

    def stands(self, endings: Sequence[Ending], turn: Turn) -> bool:
        """Whether a turn of which nobody knew was made; if it was not, it never will be.

        Raises: as `turn`, while the store does not answer yet.
        """
        return self._driver.write(lambda tx: turns.stands(tx, endings, turn), recheck=lambda tx, answer: True)

    def settle(self, token: Token, found: events.Interrupted, *, now: int, actor: str) -> list[Job]:
        """Record what recovery found about the attempt of a dead owner; answers as `end`.

        Raises: StaleToken: someone settled it before; nothing was written.
        """
        return self._write(
            "recover",
            lambda tx: turns.settle(tx, token, found, 0, now, 0.0, actor),
            lambda tx, _: proof.ended(tx, token),
        )

    def tell(self, job_id: str, event: events.Event, *, now: int, actor: str) -> list[Job]:
        """Carry out what a person or the engine says about a job: cancel, pause, resume, release …; answers as `end`.

        Raises: JobNotFound, NotAllowed, AlreadyFinished, QueueFull (requeue), InvalidInput (no reason).
        """
        return self._say(f"job:{job_id}", lambda tx: telling.tell(tx, job_id, event, now, actor), now, actor)

    def control(self, verb: controls.Verb, queue: str | None, *, now: int, actor: str) -> None:
        """Pause, resume or stop a queue, or the whole workspace (None); `resume` clears both pause and stop.

        Raises: InvalidInput: no such queue.
        """
        if queue is not None:
            limits.check_text("queue", queue, limits.NAME_BYTES)
        self._say(controls.subject_of(queue), lambda tx: controls.steer(tx, verb, queue, now, actor), now, actor)

    def add_queue(self, name: str, capacity: int) -> None:
        """A queue with its bound, unless it is there already.

        Raises: InvalidInput, TooLarge.
        """
        limits.check_text("queue", name, limits.NAME_BYTES)
        limits.check_capacity(capacity)
        self._write(
            "control",
            lambda tx: tx.run("insert_queue", name=name, capacity=capacity),
            lambda tx, _: tx.one("read_queue", name=name) is not None,
        )

    def check(self, token: Token) -> tuple[bool, bool]:
        """Whether cancel and pause are asked of this attempt.

        Raises: StaleToken.
        """
        return self._driver.read(lambda tx: turns.held(tx, token))

    def needs(self, token: Token, after: int) -> list[Need]:
        """What the job of this token waited for, after place `after`, as fits one message. Raises: StaleToken."""
        return self._driver.read(lambda tx: turns.needs(tx, token, after))

    def artefacts_of(self, token: Token, needed: str, after: str) -> list[Artefact]:
        """What a job keeps that the one of this token waited for, from the one after the name `after`; as `needs`."""
        return self._driver.read(lambda tx: turns.artefacts_of(tx, token, needed, after))

    def progress(self, token: Token, done: int, total: int | None, message: str | None, *, now: int) -> None:
        """Keep the progress of a running attempt.

        Raises: StaleToken: nothing was written.
        """

        def work(tx: Transaction) -> None:
            values = {"done": done, "total": total, "message": message, "now": now}
            if not tx.run("set_progress", **values, **msgspec.structs.asdict(token)):
                raise writes.stale(token.job_id, token, turns.find(tx, token.job_id))

        self._write("progress", work, lambda tx, _: proof.progressed(tx, token, (done, total, message)))

    def _say(self, subject: str, work: Callable[[Transaction], T], now: int, actor: str) -> T:
        """A word of a person or of the engine; each that changed something left a line that proves it."""
        lines: list[int] = []

        def said(tx: Transaction) -> T:
            before = proof.lines(tx)
            answer = work(tx)
            lines[:] = before, proof.lines(tx)
            return answer

        def stands(tx: Transaction, answer: T) -> bool:
            return lines[0] == lines[1] or proof.said(tx, subject, actor, now, lines[0])

        return self._write("control", said, stands)

    def _write(
        self,
        protocol: str,
        work: Callable[[Transaction], T],
        recheck: Callable[[Transaction, T], bool] | None = None,
        *,
        durable: bool = True,
    ) -> T:
        """One transaction between two crash points."""

        def pointed(tx: Transaction) -> T:
            answer = work(tx)
            crash_point(f"{protocol}.written")
            return answer

        return self._driver.write(pointed, recheck=recheck, durable=durable, then=self._committed[protocol])


def _committed(protocol: str, wake: Callable[[], None] | None) -> None:
    crash_point(f"{protocol}.committed")
    if wake is not None:
        wake()
