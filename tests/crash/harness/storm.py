"""Random kills under load: a worker of four slots, a submitter and a steerer, of which one dies at a random instant.

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
    """Kills in one trial."""

    def __init__(self, trial: SampleTrial, seed: int) -> None:
        self.trial = trial
        self.luck = random.Random(seed)
        self.tally = Tally()
        self._asked_for = 0
        self._worker: Victim | None = None

    def rage(self, kills: int) -> Tally:
        """So many kills, after each the questions that always hold; then all is worked off and every question asked."""
        for _ in range(kills):
            self._kill_one()
            self.trial.ask_always()
        if self._worker is not None:
            self._worker.kill()
            self.trial.note_death()
        self.trial.finish()
        self.trial.ask_at_rest()
        return self.tally

    def _kill_one(self) -> None:
        self._worker = self._worker or self.trial.worker(slots=4, stay=True)
        self._asked_for += PER_KILL
        others = {
            "submitter": self.trial.submitter(upto=self._asked_for),
            "steerer": self.trial.steerer(self.luck.getrandbits(32)),
        }
        role = self.luck.choices(("worker", "submitter", "steerer"), (6, 2, 2))[0]
        victim = others.get(role, self._worker)
        victim.is_over(within_s=self.luck.uniform(0, _WORKER_S if role == "worker" else _OTHERS_S))
        if role != "worker" and victim.is_over():
            role, victim = "worker", self._worker
        oracles.require(victim.kill(), f"the {role} lives until it is killed", self.trial.said())
        self.tally.kills[role] += 1
        if role == "worker":
            self._worker = None
            self.trial.note_death()
        for name, other in others.items():
            code = other.end()
            oracles.require(code == 0 or other is victim, f"the {name} ends well", code, self.trial.said())


@contextmanager
def replayable(seed: int, test: str) -> Iterator[None]:
    """Say the seed, and beside a failure how to repeat it."""
    print(f"seed {seed}")
    try:
        yield
    except BaseException as error:
        error.add_note(f"repeat it: PERENNE_CRASH_SEED={seed} .venv/bin/pytest -m crash {test}")
        raise
