"""Who waits for whom, who submitted whom, and who ran when, as one consistent view of a bounded part of the ledger.

What does not live here: how it is drawn (`surfaces`).
"""

from __future__ import annotations

from typing import Literal

import msgspec

from perenne.store.driver import Driver, Row, Transaction
from perenne.store.intake import not_found
from perenne.store.rows import listed

NODES = 200
NODES_MOST = 2_000
ATTEMPTS = 4_000


class Node(msgspec.Struct, frozen=True):
    """One job. no: its number in this picture, from 1 in the order of submission. parent: the job that submitted it.

    Instants are UTC microseconds.
    """

    no: int
    id: str
    kind: str
    version: int
    state: str
    reason: str
    parent: str | None
    on_dependency: str
    waits_for: int
    submitted_at: int
    finished_at: int | None


class Edge(msgspec.Struct, frozen=True):
    """A job waits, or waited, for another one, both by their number; waived: it goes on without its completion."""

    job: int
    needs: int
    waived: bool


class Span(msgspec.Struct, frozen=True):
    """One attempt of a job, that of the number `no`; ended_at, outcome: None while it runs."""

    no: int
    number: int
    owner: str
    claimed_at: int
    ended_at: int | None
    outcome: str | None


class Graph(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs and what ties them. seen_at: when the newest line of history was written. truncated: jobs were left out."""

    contract: Literal["perenne.graph.v1"] = "perenne.graph.v1"
    seen_at: int
    truncated: bool
    nodes: list[Node]
    edges: list[Edge]


class Timeline(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs and their attempts, in the order in which these began. seen_at, truncated: as in `Graph`."""

    contract: Literal["perenne.timeline.v1"] = "perenne.timeline.v1"
    seen_at: int
    truncated: bool
    nodes: list[Node]
    attempts: list[Span]


def graph(driver: Driver, job_id: str | None, limit: int = NODES) -> Graph:
    """The jobs that hang together with one, nearest first; or without one, the unfinished and those that ended last.

    Raises: JobNotFound.
    """

    def work(tx: Transaction) -> Graph:
        nodes, numbers, truncated = _nodes(tx, job_id, limit)
        found = tx.all("graph_edges", places=listed(numbers))
        edges = [Edge(numbers[job], numbers[needs], bool(waived)) for job, needs, waived in found]
        return Graph(seen_at=_seen_at(tx), truncated=truncated, nodes=nodes, edges=edges)

    return driver.read(work)


def timeline(driver: Driver, job_id: str | None, limit: int = NODES) -> Timeline:
    """When the same jobs ran.

    Raises: JobNotFound.
    """

    def work(tx: Transaction) -> Timeline:
        nodes, numbers, truncated = _nodes(tx, job_id, limit)
        found = tx.all("graph_attempts", places=listed(numbers), limit=ATTEMPTS + 1)
        spans = [Span(numbers[job], *rest) for job, *rest in found[:ATTEMPTS]]
        truncated = truncated or len(found) > ATTEMPTS
        return Timeline(seen_at=_seen_at(tx), truncated=truncated, nodes=nodes, attempts=spans)

    return driver.read(work)


def _nodes(tx: Transaction, job_id: str | None, limit: int) -> tuple[list[Node], dict[int, int], bool]:
    """The jobs, their numbers by their places, and whether some were left out."""
    places, truncated = _around(tx, job_id, limit) if job_id is not None else _all(tx, limit)
    rows = tx.all("graph_nodes", places=listed(places))
    nodes = [Node(number, *row[1:]) for number, row in enumerate(rows, 1)]
    return nodes, {row[0]: number for number, row in enumerate(rows, 1)}, truncated


def _all(tx: Transaction, limit: int) -> tuple[list[int], bool]:
    found = [row[0] for row in tx.all("graph_start", limit=limit + 1)]
    return found[:limit], len(found) > limit


def _around(tx: Transaction, job_id: str, limit: int) -> tuple[list[int], bool]:
    row = tx.one("job_by_id", id=job_id)
    if row is None:
        raise not_found(job_id)
    known, ring = {row[0]: None}, [row[0]]
    while ring:
        # One more than all that may be known: whether something is left out is then known, too.
        beside = _places(tx.all("graph_neighbours", places=listed(ring), limit=len(known) + limit + 1))
        ring = [place for place in beside if place not in known]
        if len(known) + len(ring) > limit:
            return [*known, *ring][:limit], True
        known |= dict.fromkeys(ring)
    return list(known), False


def _places(rows: list[Row]) -> list[int]:
    return [row[0] for row in rows]


def _seen_at(tx: Transaction) -> int:
    row = tx.one("overview_store")
    assert row is not None
    return int(row[4])
