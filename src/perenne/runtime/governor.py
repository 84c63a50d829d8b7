"""The governor of one worker: what it asks of the machine, and when.

It looks only for an app that has estimates, or a ledger that holds some; a kind without an estimate costs nothing. What
does not live here: the verdicts (`core.verdicts`), and the rows (`store.admission`, `store.accounts`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Collection, Iterable
from pathlib import Path

from perenne.core import pressure, resources
from perenne.core.job import Token
from perenne.core.kind import Kind
from perenne.core.pressure import Pressure
from perenne.core.resources import Policy, Reservation
from perenne.core.verdicts import Situation
from perenne.errors import DiskLow, StoreBusy
from perenne.runtime.clock import Clock
from perenne.runtime.machine import SAMPLE_S, Sampler
from perenne.store.accounts import Accounts, Next

HELD_FRAMES = 2  # attempts of a worker that wait in their threads


class Governor:
    """Looks at the machine for every verdict of this worker; its zones are those of this process."""

    def __init__(
        self, kinds: Iterable[Kind], policy: Policy, accounts: Accounts, clock: Clock, root: Path = Path("/")
    ) -> None:
        """Args: root: where `proc` and `sys` lie."""
        kinds = tuple(kinds)
        self.policy, self.accounts, self._clock = policy, accounts, clock
        self.needed = any(kind.estimate is not None for kind in kinds)
        self.others: Collection[int] = ()
        self.running = 0
        self._lanes = frozenset((kind.name, kind.version) for kind in kinds)
        self._pressure = Pressure()
        self._sampler = Sampler(clock.monotonic, self._ours, root)
        self._lock = threading.Lock()
        self.held_frames = threading.Semaphore(HELD_FRAMES)

    def situation(self) -> Situation | None:
        """What the machine says now, by a look that is younger than a second; None when nobody needs it."""
        return self.look() if self.needed else None

    def look(self) -> Situation:
        """What the machine says now. Each look counts once, whoever asks for it."""
        with self._lock:  # handlers ask, too
            machine = self._sampler.look()
            self._pressure = pressure.observe(self._pressure, machine, self.policy, self.running)
            capacity = resources.capacity(machine, self.policy)
            return Situation(machine=machine, policy=self.policy, capacity=capacity, pressure=self._pressure)

    def offer(self, owner: str) -> None:
        """Let the other workers know what this one could give away."""
        if self.needed:
            self.accounts.offer(owner, self.look().capacity)

    def sequences_of(self, token: Token) -> AttemptSequences:
        """What asks for the sequences of one attempt."""
        return AttemptSequences(self, token)

    def next_of(self, token: Token) -> Next:
        """What all questions about the next sequence of an attempt have in common."""
        return Next(token, self.look(), self._lanes, self._clock.now())

    def patience_s(self, waits_for: str) -> float | None:
        """After how long to ask again although nobody rang; None: whatever is waited for rings."""
        return SAMPLE_S if waits_for == "pressure" else None

    def _ours(self) -> Collection[int]:
        return {os.getpid(), *self.others}


class AttemptSequences:
    """Asks for the sequences of one attempt, from its own thread. A store that is busy never takes anything away."""

    def __init__(self, governor: Governor, token: Token) -> None:
        self._governor, self._token, self._waits = governor, token, False

    def may_go_on(self) -> bool:
        """Whether it would get exactly what it holds; nothing is written."""
        try:
            return self._governor.accounts.may_go_on(self._governor.next_of(self._token))
        except StoreBusy:
            return True

    def give_way(self) -> bool:
        """Give back what it holds and wait in its thread; false when too many do already, and it goes on."""
        if not self._governor.held_frames.acquire(blocking=False):
            return False
        self._waits = True
        try:
            return self._governor.accounts.give_back(self._governor.next_of(self._token))
        except (StoreBusy, DiskLow):
            self.stay()
            return False

    def take_up(self) -> Reservation | None:
        """What it is granted now, written; None while it must wait."""
        try:
            return self._governor.accounts.take_up(self._governor.next_of(self._token))
        except (StoreBusy, DiskLow):
            return None

    def stay(self) -> None:
        """It waits in its thread no more."""
        if self._waits:
            self._waits = False
            self._governor.held_frames.release()
