"""Random kills under load: workers, a submitter and a steerer, of which one dies at a random instant.

The seed draws who dies, when, and what is asked; how the processes interleave is the machine's own luck.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from harness import oracles
from harness.processes import Victim
from harness.sample_trial import SampleTrial

PER_KILL = 8
_WORKER_S, _OTHERS_S = 0.12, 0.015


@dataclass
class Tally:
    """How many processes died, by role."""

    kills: dict[str, int] = field(default_factory=lambda: {"worker": 0, "submitter": 0, "steerer": 0})

    @property
    def total(self) -> int:
        return sum(self.kills.values())


class Storm:
    """Kills in one trial, with so many workers of so many slots."""

    def __init__(self, trial: SampleTrial, seed: int, *, workers: int = 1, slots: int = 4) -> None:
        self.trial = trial
        self.luck = random.Random(seed)
        self.tally = Tally()
        self._asked_for = 0
        self._wanted, self._slots = workers, slots
        self._workers: list[Victim] = []

    def rage(self, kills: int) -> Tally:
        """So many kills, after each the questions that always hold; then all is worked off and every question asked."""
        for _ in range(kills):
            self._kill_one()
            self.trial.ask_always()
        for worker in self._workers:
            worker.kill()
        self.trial.note_death()
        self.trial.finish()
        self.trial.ask_at_rest()
        return self.tally

    def _kill_one(self) -> None:
        while len(self._workers) < self._wanted:
            self._workers.append(self.trial.worker(slots=self._slots, stay=True))
        self._asked_for += PER_KILL
        others = {
            "submitter": self.trial.submitter(upto=self._asked_for),
            "steerer": self.trial.steerer(self.luck.getrandbits(32)),
        }
        role = self.luck.choices(("worker", "submitter", "steerer"), (6, 2, 2))[0]
        if role == "worker" or not self._kill(role, others[role], _OTHERS_S):
            self._kill_worker()
        for name, other in others.items():
            code = other.end()
            oracles.require(code == 0 or other.was_killed, f"the {name} ends well", code, self.trial.said())

    def _kill_worker(self) -> None:
        worker = self._workers.pop(self.luck.randrange(len(self._workers)))
        killed = self._kill("worker", worker, _WORKER_S)
        oracles.require(killed, "a worker lives until it is killed", self.trial.said())
        if not self._workers:
            self.trial.note_death()

    def _kill(self, role: str, victim: Victim, within_s: float) -> bool:
        """Kill at a random instant; false when the victim had ended by itself before."""
        victim.is_over(within_s=self.luck.uniform(0, within_s))
        killed = victim.kill()
        self.tally.kills[role] += killed
        return killed


@contextmanager
def replayable(seed: int, test: str) -> Iterator[None]:
    """Say the seed, and beside a failure how to repeat it."""
    print(f"seed {seed}")
    try:
        yield
    except BaseException as error:
        error.add_note(f"repeat it: PERENNE_CRASH_SEED={seed} .venv/bin/pytest -m crash {test}")
        raise
