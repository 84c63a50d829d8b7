"""Every act that can be tried on a ledger and its model: alone, in the middle of another deed, cut off by death."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import msgspec

from machine import deeds, draws, looks
from machine.deeds import Deed, agree
from machine.draws import Drawn
from machine.jobs import SECOND
from machine.runs import Ending, Runs
from machine.site import Killed
from machine.trial import Trial, needing

_LETS_GO_ON = {
    "BLOCKED": ("release",),
    "PAUSED": ("resume",),
    "PAUSED_QUOTA": ("resume",),
    "RECOVERY_REQUIRED": ("resolve_completed", "resolve_queued", "resolve_failed"),
    "FAILED": ("requeue",),
    "CANCELLED": ("requeue",),
    "DEAD": ("requeue",),
}

_PLAIN = {"kind": "mail", "queue": "wide", "input": b"1"}


class Acts(Trial):
    """A trial in which something happens; an act that finds nothing to act on does nothing."""

    def live(self, acts: int) -> None:
        """Some acts by luck; what luck brings follows from everything that was done before, and from nothing else."""
        luck = Random(self._past.digest())
        for _ in range(acts):
            act = luck.choice(draws.OFTEN)
            getattr(self, act)(*draws.ACTS[act](luck.choice))
            self.compare()

    # Acts of one worker or person alone

    def submit(self, wish: dict[str, Any], needs: Sequence[int], wait_s: int) -> None:
        self.do(self._submit(wish, needs, wait_s))

    def submit_again(self, number: int, other_input: bool) -> None:
        """The answer was lost, or somebody takes a known key for something else."""
        known = [one for one in self.wanted if all(id in self.model.jobs for id in one.dependencies)]
        if known:
            wanted = known[-1 - number % len(known)]
            changes: dict[str, Any] = {"id": self.new_id()} if wanted.key and number % 2 else {}
            changes |= {"input": b"other"} if other_input else {}
            self.do(deeds.submit(msgspec.structs.replace(wanted, **changes), self.tick()))

    def submit_many(self, one: dict[str, Any], two: dict[str, Any], three: dict[str, Any], shape: str) -> None:
        first, second, third = self.wish(one), self.wish(two), self.wish(three)
        batch = {
            "chain": [needing(first, second.id), needing(second, third.id), third],
            "tree": [needing(first, second.id, third.id), second, third],
            "circle": [needing(first, second.id), needing(second, third.id), needing(third, first.id)],
            "twice": [first, second, needing(first)],
        }[shape]
        self.do(deeds.submit_many(batch, self.tick()))

    def submit_children(self, number: int, one: dict[str, Any], two: dict[str, Any], shape: str) -> None:
        self.perhaps(self._submit_children(number, one, two, shape))

    def claim(self, kinds: Sequence[str], owner: str, opened: bool, most: int) -> None:
        if opened:
            self.open_lanes()
        for _ in range(most):
            self.do(self._claim(kinds, owner))

    def open_lanes(self) -> None:
        closed = [name for name, queue in self.model.queues.items() if queue.paused or queue.stopped]
        for name in closed + [None] * (self.model.paused or self.model.stopped):
            self.do(deeds.control("resume", name, self.tick()))

    def end(self, number: int, said: Ending, asked: str | None) -> None:
        self.ask(number, asked)
        self.perhaps(self._end(number, said))

    def owner_died(self, number: int, published: str, asked: str | None) -> None:
        self.ask(number, asked)
        self.perhaps(self._settle(number, published))

    def perhaps(self, deed: Deed | None) -> None:
        if deed is not None:
            self.do(deed)

    def ask(self, number: int, word: str | None) -> None:
        token = self.current(number)
        if word is not None and token is not None:
            self.say(token[0], word)

    def say(self, job_id: str, word: str, reason: str = "because") -> None:
        self.do(deeds.tell(job_id, word, reason, self.tick()))

    def write_late(self, number: int, said: Ending, how: str, what: str) -> None:
        """With a token of before, or with the one that holds but for one of its parts."""
        if not self.tokens:
            return
        token = self.current(number)
        if how == "old" or token is None:
            token = self.late(number)
        else:
            id, attempt, count, epoch = token
            wrong = {"attempt": (id, self.new_id(), count, epoch), "number": (id, attempt, count + 1, epoch)}
            token = wrong.get(how, (id, attempt, count, epoch + 1))
        self.do(
            {
                "check": lambda: deeds.check(token),
                "children": lambda: self.children_of(token, _PLAIN, _PLAIN, "one"),
                "report": lambda: deeds.report(token, (number, 64, "on its way"), self.tick()),
                "settle": lambda: deeds.settle(token, said.published, None, self.tick()),
                "end": lambda: deeds.end(token, said, self.tick()),
            }[what]()
        )

    def turn(self, number: int, said: Ending, kinds: Sequence[str], owner: str, company: bool) -> None:
        self.do(self._turn(number, said, kinds, owner, company))

    def tell(self, number: int, word: str, reason: str, to_whom_it_fits: bool) -> None:
        jobs = (self.fitting(word) if to_whom_it_fits else []) or list(self.model.jobs.values())
        if jobs:
            self.say(jobs[-1 - number % len(jobs)].id, word, reason)

    def help(self, number: int) -> None:
        """A person says the word that lets a held job go on."""
        held = [job for job in self.model.jobs.values() if job.state in _LETS_GO_ON]
        if held:
            job = held[number % len(held)]
            words = _LETS_GO_ON[job.state]
            self.say(job.id, words[number % len(words)])

    def control(self, verb: str, queue: str | None) -> None:
        self.do(deeds.control(verb, queue, self.tick()))

    def listen(self, listener: str, most: int) -> None:
        """A listener comes, or takes what it was told."""
        self.note(f"{listener} listens")
        if listener not in self.model.listeners:
            self.site.one.notices.register(listener, now=self.tick())
            self.model.register(listener)
            return
        pending = self.site.one.notices.pending(listener, most)
        expected = [row for row in self.model.notices if row[0] == listener]
        if len(pending) != min(most, len(expected)):
            raise self.disagreement([f"{len(pending)} notices for {listener}, {len(expected)} ends"])
        for notice in pending:
            self.site.two.notices.acknowledge(notice)
            self.model.notices.remove((listener, notice.job_id, str(notice.state)))

    # The world around

    def world(self, what: str, seconds: int) -> None:
        self.note(f"the world: {what} {seconds}")
        if what == "clock":
            self.now += seconds * SECOND
        elif what == "reopen":
            self.reopen()
        elif what == "epoch":
            self.raise_epoch(self.model.epoch + 1)
        elif what == "backup" or self.kept is None:
            self.kept = self.site.backup(), self.model.copy()
        else:
            self.restore(*self.kept)

    def reopen(self) -> None:
        self.site.close()
        self.site.open()

    def raise_epoch(self, to: int) -> None:
        self.model.raise_epoch(to)
        self.site.raise_epoch(to)
        self.keep_tokens()

    def restore(self, folder: Path, model: Runs) -> None:
        """What was acknowledged since is gone, but whoever worked then still holds its token."""
        self.site.restore(folder)
        highest = max([self.model.epoch, *(token[3] for token in self.tokens)])
        self.model = model.copy()
        self.raise_epoch(highest + 1)

    # In the middle of a deed

    def meanwhile(self, pair: tuple[Drawn, Drawn], after: int, opened: bool, same: bool) -> None:
        """Another worker does something after so many queries: the outcome is that of one order or of the other."""
        if opened:
            self.open_lanes()
        one, two = pair
        first = self.deed_of(one)
        if same and first is not None and two[0] == "tell":
            two = (*two, first.about)
        second = self.deed_of(two)
        if first is not None and second is not None:
            self.note(f"after {after} queries of the next: {second.label}", first.label)
            self._both(first, second, after)

    def _both(self, first: Deed, second: Deed, after: int) -> None:
        others: list[Any] = []
        watched = self.site.one.driver
        watched.let(lambda: others.append(second.ask_ledger(self.site.two)), after)
        answer = first.ask_ledger(self.site.one)
        if watched.still_to_come():
            others.append(second.ask_ledger(self.site.two))
        orders = [[(first, answer), (second, others[0])], [(second, others[0]), (first, answer)]]
        if deeds.is_refused(others[0], "StoreBusy"):
            orders = [[(first, answer)]]
        self.model = self._in_some_order(orders)
        self.keep_tokens()

    def _in_some_order(self, orders: list[list[tuple[Deed, Any]]]) -> Runs:
        """The model after the first order that explains the answers and the file."""
        rows = looks.found(self.site)
        for order in orders:
            model = self.model.copy()
            explained = all(agree(answer, deed.ask_model(model)) for deed, answer in order)
            if explained and not looks.differences(rows, looks.expected(model)):
                return model
        answers = [f"{deed.label} → {answer}" for deed, answer in orders[0]]
        raise self.disagreement(["no order of these explains what stands there:", *answers])

    def killed(self, drawn: Drawn, after: int) -> None:
        """The process dies in the middle: nothing of the deed stands, or all of it."""
        deed = self.deed_of(drawn)
        if deed is None:
            return
        self.note(f"killed after {after} queries: {deed.label}")
        watched = self.site.one.driver
        watched.let(_die, after)
        try:
            answer = deed.ask_ledger(self.site.one)
        except Killed:
            self.reopen()
        else:
            watched.still_to_come()
            self.judge(deed, answer)


def _die() -> None:
    raise Killed
