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
from perenne.core.kind import Kind
from perenne.core.pressure import Pressure
from perenne.core.resources import Policy
from perenne.core.verdicts import Situation
from perenne.runtime.clock import Clock
from perenne.runtime.machine import SAMPLE_S, Sampler
from perenne.store.accounts import Accounts


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

    def may_go_on(self, attempt: str) -> bool:
        """Whether a running attempt that asks for its next sequence gets exactly what it holds; nothing is written."""
        return self.accounts.may_go_on(attempt, self.look(), self._lanes, self._clock.now())

    def patience_s(self, waits_for: str) -> float | None:
        """After how long to ask again although nobody rang; None: whatever is waited for rings."""
        return SAMPLE_S if waits_for == "pressure" else None

    def _ours(self) -> Collection[int]:
        return {os.getpid(), *self.others}
