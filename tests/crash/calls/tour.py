"""A tour through the calls of an operation: which case each call gets, what came of it, and how to repeat one.

The seed draws which of the fitting faults a call gets, and which calls a bounded tour visits.
"""

from __future__ import annotations

import gc
import random
import shutil
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from harness import processes

from calls import cases
from calls.deeds import faults_of, is_durable
from calls.operation import Operation
from calls.watch import AFTER, BEFORE, Call


class Case(NamedTuple):
    """A deed at a call."""

    call: Call
    deed: str


@dataclass
class Tally:
    """What came of the cases of one operation; `wrong` holds a sentence and a command for each broken promise."""

    calls: int = 0
    cases: int = 0  # that all of its calls would make; a bounded tour visits fewer
    kills: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    answers: Counter[str] = field(default_factory=Counter)
    not_met: int = 0
    wrong: list[str] = field(default_factory=list)

    def figures(self) -> dict[str, Any]:
        return {
            "calls": self.calls,
            "cases": self.cases,
            "killed": dict(sorted(self.kills.items())),
            "faults": dict(sorted(self.faults.items())),
            "answers": dict(sorted(self.answers.items())),
            "not_met": self.not_met,
            "wrong": self.wrong,
        }


def cases_of(calls: list[Call], seed: str) -> list[Case]:
    """A kill before each call and after each that leaves something, and one of its faults at each that can fail.

    In the order of their lots: a call that comes only now and then changes nothing for the others.
    """
    drawn: list[Case] = []
    for call in calls:
        luck = random.Random(f"{seed} {call}")
        drawn.append(Case(call, BEFORE))
        if is_durable(call):
            drawn.append(Case(call, AFTER))
        if fitting := faults_of(call):
            drawn.append(Case(call, luck.choice(fitting)))
    return sorted(drawn, key=lambda case: _lot(seed, case))


def _lot(seed: str, case: Case) -> int:
    return zlib.crc32(f"{seed} {case.call} {case.deed}".encode())


def tour(
    operation: Operation, folder: Path, seed: int, *, most: int | None = None, part: tuple[int, int] = (0, 1)
) -> Tally:
    """All cases of an operation, or `most` of them by the seed; part: the how-many-th of how many shares."""
    prepared = operation.make(folder / "prepared")
    calls = cases.calls_of(operation, prepared, folder / "recorded")
    lots = f"{seed} {operation.name}"
    chosen = cases_of(calls, lots)
    tally = Tally(calls=len(calls), cases=len(chosen))
    gc.freeze()  # what stands here is copied by no child that only looks at it
    for case in [case for case in chosen[:most] if _lot(lots, case) % part[1] == part[0]]:
        _note(tally, case, lambda case=case: cases.ask(operation, prepared, folder / "case", *case), operation.name)
        shutil.rmtree(folder / "case", ignore_errors=True)
    return tally


def _note(tally: Tally, case: Case, ask: Callable[[], str], name: str) -> None:
    try:
        answer = ask()
    except AssertionError as broken:
        processes.kill_all()
        processes.kill_descendants()
        tally.wrong.append(f"{name}, {case.call}, {case.deed}: {str(broken)[:1500]}\n    {replay_command(name, case)}")
        return
    if answer == cases.NOT_MET:
        tally.not_met += 1
    elif case.deed in cases.KILLS:
        tally.kills[case.deed] += 1
    else:
        tally.faults[case.deed] += 1
        tally.answers[answer] += 1


def replay_command(name: str, case: Case) -> str:
    words = (name, case.call.name, str(case.call.number), case.deed)
    return "python tests/crash/calls/record.py --replay " + " ".join(f"'{word}'" for word in words)


def together(tallies: Iterator[Tally] | list[Tally]) -> Tally:
    """The sum of some shares of one tour."""
    total = Tally()
    for tally in tallies:
        total.calls, total.cases = tally.calls, tally.cases
        total.kills += tally.kills
        total.faults += tally.faults
        total.answers += tally.answers
        total.not_met += tally.not_met
        total.wrong += tally.wrong
    return total
