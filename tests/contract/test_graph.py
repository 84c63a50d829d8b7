"""The part of a ledger that hangs together with one job: by dependencies, parents and children, within a bound."""

from __future__ import annotations

from typing import Any

import pytest

from perenne.core import identity
from perenne.core.states import JobState
from perenne.errors import JobNotFound
from perenne.store import graph

S = JobState


@pytest.fixture
def family(room: Any) -> dict[str, str]:
    """A need, a parent that waits for it, two children of which one waits for the other, and a stranger."""
    need = room.submit(kind="test.need").job_id
    room.bring(need, S.COMPLETED)
    token = room.running(dependencies=(need,))
    first, second = (identity.child_id(token.job_id, name) for name in ("first", "second"))
    children = [
        room.wanted(id=first, parent=token.job_id, kind="test.child"),
        room.wanted(id=second, parent=token.job_id, kind="test.child", dependencies=(first,)),
    ]
    room.ledger.submit_many(children, now=room.now, actor=f"job:{token.job_id}", token=token)
    stranger = room.submit(kind="test.other").job_id
    return {"need": need, "parent": token.job_id, "first": first, "second": second, "stranger": stranger}


@pytest.mark.parametrize("start", ["need", "parent", "first", "second"])
def test_all_that_hangs_together_is_found_from_each(room: Any, family: dict[str, str], start: str) -> None:
    """From wherever one looks, the same jobs, in the order of submission, and every tie between them."""
    found = graph.graph(room.driver, family[start])
    assert [node.id for node in found.nodes] == [family[name] for name in ("need", "parent", "first", "second")]
    assert [node.no for node in found.nodes] == [1, 2, 3, 4]
    assert [(edge.job, edge.needs, edge.waived) for edge in found.edges] == [(2, 1, False), (4, 3, False)]
    assert [node.parent for node in found.nodes] == [None, None, family["parent"], family["parent"]]
    assert not found.truncated


def test_a_stranger_stands_alone(room: Any, family: dict[str, str]) -> None:
    """A job without ties is a picture of its own; without a job all of them are shown."""
    assert [node.id for node in graph.graph(room.driver, family["stranger"]).nodes] == [family["stranger"]]
    assert len(graph.graph(room.driver, None).nodes) == 5


@pytest.mark.parametrize("limit", [1, 2, 3, 4, 5])
def test_a_picture_is_bounded_and_says_so(room: Any, family: dict[str, str], limit: int) -> None:
    """At most as many jobs as asked for, the job itself among them; whether some are left out is told exactly."""
    found = graph.graph(room.driver, family["parent"], limit)
    assert len(found.nodes) == min(limit, 4)
    assert family["parent"] in [node.id for node in found.nodes]
    assert found.truncated == (limit < 4)
    whole = graph.graph(room.driver, None, limit)
    assert (len(whole.nodes), whole.truncated) == (min(limit, 5), limit < 5)


def test_a_wide_fan_is_cut_at_the_bound(room: Any) -> None:
    """A job that many wait for gives no more than what was asked for."""
    room.ledger.add_queue("wide", 1_000)
    need = room.submit().job_id
    room.submit_many([room.wanted(queue="wide", dependencies=(need,)) for _ in range(500)])
    found = graph.graph(room.driver, need, 100)
    assert (len(found.nodes), found.truncated) == (100, True)
    assert len(graph.graph(room.driver, need, 501).nodes) == 501


def test_attempts_stand_in_the_order_of_their_beginning(room: Any, family: dict[str, str]) -> None:
    """Each with its job's number; one that runs has neither end nor outcome."""
    found = graph.timeline(room.driver, family["second"])
    assert [(span.no, span.number, span.outcome) for span in found.attempts] == [(1, 1, "completed"), (2, 1, None)]
    assert found.attempts[1].ended_at is None
    assert found.seen_at == room.now


def test_nobody_is_not_found(room: Any) -> None:
    """A picture around a job that is not here is refused by its name."""
    for look in (graph.graph, graph.timeline):
        with pytest.raises(JobNotFound, match="no job 01998d3b-0000"):
            look(room.driver, "01998d3b-0000-7000-8000-ffffffffffff")


def test_ties_are_found_by_indexes(room: Any) -> None:
    """No query of a picture walks over all jobs."""
    for query, values in {
        "graph_start": {"limit": 5},
        "graph_neighbours": {"places": "[1]", "limit": 5},
        "graph_nodes": {"places": "[1]"},
        "graph_edges": {"places": "[1]"},
        "graph_attempts": {"places": "[1]", "limit": 5},
    }.items():
        steps = room.house.plan(query, **values)
        walked = [step for step in steps if step.startswith("SCAN") and "INDEX" not in step and "json_each" not in step]
        assert [step for step in walked if "subquery" not in step and "SCAN (" not in step] == [], (query, steps)
