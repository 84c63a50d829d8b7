"""A graph is released one by one: what an end costs does not grow with the graph around it."""

from __future__ import annotations

from typing import Any

import pytest

from perenne.core import events
from perenne.core.job import OnDependency
from perenne.core.publication import Published
from perenne.store.ledger import Ending, Lane

LANE = Lane("test.link", 1)


def chain(room: Any, jobs: int) -> None:
    """Each job waits for the one before."""
    batch = [room.wanted(queue="wide", kind="test.link")]
    for _ in range(jobs - 1):
        batch.append(room.wanted(queue="wide", kind="test.link", dependencies=(batch[-1].id,)))
    room.submit_many(batch)


def join(room: Any, jobs: int) -> None:
    """One job waits for all others."""
    members = [room.wanted(queue="wide", kind="test.link") for _ in range(jobs - 1)]
    needs = tuple(one.id for one in members)
    last = room.wanted(queue="wide", kind="test.link", dependencies=needs, on_dependency=OnDependency.CONTINUE)
    room.submit_many([*members, last])


@pytest.mark.parametrize("shape", [chain, join])
@pytest.mark.parametrize("answer", [events.Returned(), events.GaveUp("no")], ids=["well", "badly"])
def test_an_end_costs_the_same_in_a_large_graph(room: Any, shape: Any, answer: events.Answer) -> None:
    """Ending one job, and claiming the next, takes about as many instructions among 3,000 jobs as among 30."""
    room.ledger.add_queue("wide", 100_000)
    steps = []
    for jobs in (30, 3_000):
        shape(room, jobs)
        token = room.claim(LANE).token
        ended = Ending(token, events.Ended(answer=answer, published=Published.absent()), 0.5)

        def turn(ended: Ending = ended) -> None:
            room.ledger.turn([ended], [], [], owner=room.OWNER, now=room.now, actor="worker:test")

        steps.append(room.house.steps(turn))
        for job in room.reader.jobs(limit=100_000):
            if not job.is_final:
                room.tell(job.id, events.Cancel())
    few, many = steps
    assert many <= few * 1.3 + 50, steps
