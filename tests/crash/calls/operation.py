"""One operation whose calls are counted, and what a child that performs it has to say about each step of it."""

from __future__ import annotations

import os
import re
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from harness.journal import Journal
from harness.trial import Trial

from calls import python_calls, sqlite_calls
from calls.watch import Call, Watch
from perenne.errors import EngineError

T = TypeVar("T")


class Performance:
    """One child that performs an operation once under the watch, and perhaps once more without it.

    What each step answered goes into a journal that survives the child.
    """

    def __init__(self, trial: Trial, call: Call | None, deed: str) -> None:
        self.trial = trial
        self.answers = answers_of(trial)
        self.watch = Watch(trial.folder, call=call, deed=deed)
        self.round = 1
        python_calls.install(self.watch)
        sqlite_calls.install(self.watch)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """The calls meanwhile are those of the operation."""
        if self.round == 1:
            with self.watch.counting():
                yield
        else:
            yield

    def tried(self, step: str, work: Callable[[], T]) -> T | None:
        """What a step gives; None when it was refused. Either way it is said."""
        try:
            answer = work()
        except EngineError as error:
            families = [kind.__name__ for kind in type(error).__mro__[:-3]]
            self._say(step, error=families[0], families=families, said=str(error))
            return None
        except BaseException as error:
            self._say(step, foreign="".join(traceback.format_exception(error))[-3000:], error=type(error).__name__)
            return None
        self._say(step)
        return answer

    def _say(self, step: str, **said: Any) -> None:
        self.answers.write(round=self.round, step=step, **said)


@dataclass(frozen=True)
class Operation:
    """What is performed, where, and what is asked of it beyond what every operation is asked.

    make: the trial it is performed in, prepared once in this folder. judge: asked in the child between the rounds,
    when nothing of the engine is open, with the first round's answers; raises Violation. repeated: refusals that the
    second round may meet, since the first one did the same.
    """

    name: str
    make: Callable[[Path], Any]
    perform: Callable[[Any, Performance], object]
    judge: Callable[[Any, list[dict[str, Any]]], object] = lambda trial, answers: None
    repeated: frozenset[str] = frozenset()


def answers_of(trial: Trial) -> Journal:
    return Journal(trial.folder / "answers.jsonl")


def descriptors() -> Counter[str]:
    """What this process has open, by name; what comes and goes with each look is left out."""
    held = Path("/proc/self/fd")
    names = []
    for number in os.listdir(held):
        try:
            names.append(os.readlink(held / number))
        except OSError:
            continue  # the listing's own
    return Counter(re.sub(r"\[\d+\]", "", name) for name in names)
