"""One ledger under trial beside its model: finding the job or token that is meant, doing a deed to both, comparing.

What does not live here: what can be tried (`acts`), and the choice of it.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from machine import deeds, looks
from machine.deeds import Deed, agree
from machine.draws import Drawn
from machine.jobs import SECOND, Job
from machine.model import SAID_WHILE, Token
from machine.runs import Ending, Runs
from machine.site import NOW, QUEUES, Site
from perenne.core.job import Submission


class Disagreement(AssertionError):
    """The ledger did what the model forbids."""


class Trial:
    """Two workers on one ledger, a model beside it."""

    def __init__(self) -> None:
        self.site = Site()
        self.model = Runs(QUEUES)
        self.now = NOW
        self.made = 0
        self.tokens: list[Token] = []  # every right that was ever given
        self.wanted: list[Submission] = []  # every request that was ever made
        self.kept: tuple[Path, Runs] | None = None
        self.done: deque[str] = deque(maxlen=8)
        self._past = hashlib.blake2b()

    def note(self, *labels: str) -> None:
        self.done += labels
        self._past.update(repr(labels).encode())

    def compare(self) -> None:
        rows = looks.found(self.site)
        wrong = looks.differences(rows, looks.expected(self.model)) or looks.illegal(rows)
        if wrong:
            raise self.disagreement(wrong)

    def disagreement(self, wrong: Sequence[str]) -> Disagreement:
        return Disagreement("\n  ".join([*wrong, "done last:", *self.done]))

    # One deed

    def tick(self) -> int:
        self.now += SECOND
        return self.now

    def new_id(self) -> str:
        self.made += 1
        return f"00000000-0000-4000-8000-{self.made:012d}"

    def do(self, deed: Deed) -> None:
        """Do it to both."""
        self.note(deed.label)
        self.judge(deed, deed.ask_ledger(self.site.one))

    def judge(self, deed: Deed, answer: Any) -> None:
        expected = deed.ask_model(self.model)
        if not agree(answer, expected):
            raise self.disagreement([f"the ledger answers {answer}", f"the model says {expected}"])
        self.keep_tokens()

    def keep_tokens(self) -> None:
        known = set(self.tokens)
        current = [self.model.token_of(job) for job in self.model.running()]
        self.tokens += [token for token in current if token not in known]

    def deed_of(self, drawn: Drawn) -> Deed | None:
        """What was drawn, for the jobs that there are; None when there is none."""
        what, *values = drawn
        deed: Deed | None = getattr(self, f"_{what}")(*values)
        return deed

    def _submit(self, wish: dict[str, Any], needs: Sequence[int], wait_s: int) -> Deed:
        self.wanted.append(self.wish(wish, needs, wait_s))
        return deeds.submit(self.wanted[-1], self.tick())

    def _submit_two(self, one: dict[str, Any], two: dict[str, Any]) -> Deed:
        first = self.wish(one)
        return deeds.submit_many([needing(self.wish(two), first.id), first], self.tick())

    def _submit_children(self, number: int, one: dict[str, Any], two: dict[str, Any], shape: str) -> Deed | None:
        token = self.current(number)
        return self.children_of(token, one, two, shape) if token else None

    def children_of(self, token: Token, one: dict[str, Any], two: dict[str, Any], shape: str) -> Deed:
        """Children under a few names, so that an attempt finds what one before it has submitted."""
        first, second = self._child(token, "first", one), self._child(token, "second", two)
        join = needing(self._child(token, "join", one), first.id, second.id)
        batch = {"one": [first], "two": [second, first], "join": [join, second, first]}[shape]
        return deeds.submit_children(token, batch, self.tick())

    def _child(self, token: Token, name: str, wish: dict[str, Any]) -> Submission:
        digits = hashlib.blake2b(f"{token[0]} {name}".encode(), digest_size=6).hexdigest()
        return Submission(id=f"00000000-0000-4000-9000-{digits}", version=1, parent=token[0], **wish)

    def _claim(self, kinds: Sequence[str], owner: str) -> Deed:
        return deeds.claim(kinds, self.new_id(), owner, self.tick())

    def _tell(self, number: int, word: str, job_id: str | None = None) -> Deed | None:
        fit = [job_id] if job_id else [job.id for job in self.fitting(word)] or list(self.model.jobs)
        return deeds.tell(fit[number % len(fit)], word, "because", self.tick()) if fit else None

    def _end(self, number: int, said: Ending) -> Deed | None:
        token = self.current(number)
        return deeds.end(token, said, self.tick()) if token else None

    def _settle(self, number: int, published: str) -> Deed | None:
        token = self.current(number)
        return deeds.settle(token, published, b'"found"', self.tick()) if token else None

    def _turn(self, number: int, said: Ending, kinds: Sequence[str], owner: str, company: bool) -> Deed:
        """Some that run and one that is late, perhaps; and two claims."""
        given = [self.model.token_of(job) for job in self.model.running()][: number % 3]
        given += self.tokens[number % len(self.tokens) :][:1] if self.tokens and number % 2 else []
        endings = [(token, said) for token in dict.fromkeys(given)]
        return deeds.turn(endings, kinds, [self.new_id(), self.new_id()], owner, self.tick(), company)

    # What is meant by a number

    def wish(self, wish: dict[str, Any], needs: Sequence[int] = (), wait_s: int = 0) -> Submission:
        """A request that waits for jobs, the newest first."""
        known = list(self.model.jobs)
        return Submission(
            id=self.new_id(),
            version=1,
            due_at=self.now + wait_s * SECOND if wait_s else 0,
            dependencies=tuple(dict.fromkeys(known[-1 - number % len(known)] for number in needs if known)),
            **wish,
        )

    def fitting(self, word: str) -> list[Job]:
        """The jobs that this word fits now."""
        return [job for job in self.model.jobs.values() if job.state in SAID_WHILE[word]]

    def current(self, number: int) -> Token | None:
        """The token of a job that runs."""
        running = self.model.running()
        return self.model.token_of(running[number % len(running)]) if running else None

    def late(self, number: int) -> Token:
        """A token of before; of a job that another attempt runs now, if there is one."""
        late = [token for token in self.tokens if self._has_a_successor(token)] or self.tokens
        return late[-1 - number % len(late)]

    def _has_a_successor(self, token: Token) -> bool:
        job = self.model.jobs.get(token[0])
        return job is not None and job.attempt is not None and self.model.token_of(job) != token


def needing(wanted: Submission, *ids: str) -> Submission:
    return msgspec.structs.replace(wanted, dependencies=ids)
