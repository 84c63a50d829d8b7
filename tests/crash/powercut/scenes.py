"""The scenes of a story: everything that the ledger promises, once each."""

from __future__ import annotations

from typing import Any

import msgspec

from perenne.core import events
from perenne.core.job import Durability, OnDependency, Submission
from perenne.core.publication import Published
from perenne.core.retry import Backoff
from perenne.core.states import JobState
from powercut.story import KINDS, SECOND, Story


def live(story: Story) -> None:
    """One round through everything that the ledger promises."""
    for priority in (0, 3, 0):
        story.submit(kind=story.luck.choice(KINDS), priority=priority, key=f"key {story.id()}")
    first = story.wanted(kind="mail", max_attempts=1)
    second = story.wanted(first.id, kind="picture", on_dependency=OnDependency.FAIL)
    third = story.wanted(first.id, second.id, kind="picture")
    story.submit_many([third, first, second])
    story.submit_together(4)
    token = story.claim()
    story.progress(token, 4)
    story.end(token, events.Returned(story.luck.randbytes(900)))
    story.turn({}, 3)
    _steer(story)
    _end_all(story)
    story.take_notices("listener")
    _relax(story)


def _steer(story: Story) -> None:
    """People's words: to queues, to waiting jobs, to running ones."""
    story.control("pause", "default")
    story.control("stop", None)
    waiting = story.submit(unique_key=f"active {story.id()}", due_at=story.now + 90 * SECOND)
    story.tell(waiting, events.Pause("later"))
    story.tell(waiting, events.Resume())
    story.tell(waiting, events.Cancel("not wanted"))
    story.tell(waiting, events.Requeue("wanted after all"))
    running = sorted(story.tokens)
    story.tell(running[0], events.Cancel())
    story.tell(running[1], events.Pause())
    story.control("resume", None)
    story.control("resume", "default")


def _relax(story: Story) -> None:
    """Relaxed submits may go with the power until the next durable answer, also one that had nothing to write."""
    wanted = [_submit_relaxed(story, queue="lane", key=f"key {story.id()}")]
    _reuse(story, wanted[0])
    wanted += [_submit_relaxed(story) for _ in range(3)]
    _reuse(story, wanted[0])  # the log is copied into the file, which syncs too, at one of the two at most
    for unwanted in wanted:
        story.tell(unwanted.id, events.Cancel("not wanted"))


def _reuse(story: Story, wanted: Submission) -> None:
    again = msgspec.structs.replace(wanted, id=story.id(), durability=Durability.DURABLE)
    found = story.ledger.submit(again, now=story.tick(), actor="person:test")  # the lane is full: nothing is touched
    assert (found.reused, found.durability) == (True, Durability.DURABLE)
    story.acknowledged("reuse")


def _submit_relaxed(story: Story, **wishes: Any) -> Submission:
    """What it stored is acknowledged by the next durable call, whatever that is."""
    wanted = story.wanted(durability=Durability.RELAXED, **wishes)
    story.received([wanted], [story.ledger.submit(wanted, now=story.tick(), actor="person:test")])
    story.seen()
    return wanted


def _end_all(story: Story) -> None:
    """Every way in which attempts end, a dead worker's among them."""
    cancelled, paused, last = sorted(story.tokens)
    story.turn({cancelled: events.Stopped("cancel"), paused: events.Snoozed(2.0)}, 1)
    story.end(story.tokens[last], events.Raised("no room", True, Backoff()))
    story.tell(paused, events.Resume())
    story.turn({}, 4)
    left = iter(sorted(story.tokens))
    story.end(story.tokens[next(left)], events.GaveUp("it cannot be read"))
    story.end(story.tokens[doubted := next(left)], events.Doubted("two results"))
    story.tell(doubted, events.Resolve(JobState.COMPLETED, "looked at by hand"))
    story.settle(story.tokens[interrupted := next(left)])
    for id in left:
        story.settle(story.tokens[id], Published.coherent(b'"found"'))
    if story.waits(interrupted):  # interrupted once more, it would keep the others waiting
        story.tell(interrupted, events.Cancel("not wanted"))
