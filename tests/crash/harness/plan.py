"""What the submitter of a trial will ask for: a list fixed by its seed, with which all that is found is compared."""

from __future__ import annotations

import random
import uuid
from dataclasses import dataclass

from harness.sample_app import Task

_SPACE = uuid.UUID("7d0d3a1e-0000-4000-8000-000000000000")
_KINDS = ("sample.file", "sample.row", "sample.plain", "sample.tool", "sample.broken")
_WEIGHTS = (4, 4, 4, 2, 1)


@dataclass(frozen=True)
class Request:
    """One submit: everything that the engine is told, and nothing that it could invent."""

    number: int
    job_id: str
    kind: str
    task: Task
    depends_on: tuple[str, ...] = ()
    on_dependency: str = "block"
    priority: int = 0

    @property
    def key(self) -> str:
        return f"request-{self.number}"


def planned(seed: int, count: int, *, first: int = 0, boundaries: int = 4) -> list[Request]:
    """So many requests from number `first` on; each may wait for earlier ones."""
    luck = random.Random(seed)
    requests: list[Request] = []
    for number in range(first, first + count):
        kind = luck.choices(_KINDS, _WEIGHTS)[0]
        failures = luck.choice((0, 0, 0, 0, 1, 2))
        earlier = luck.sample(requests[-8:], k=min(luck.choice((0, 0, 0, 1, 2)), len(requests[-8:])))
        requests.append(
            Request(
                number=number,
                job_id=str(uuid.uuid5(_SPACE, f"{seed}:{number}")),
                kind=kind,
                task=Task(number, failures, luck.randrange(boundaries + 1)),
                depends_on=tuple(request.job_id for request in earlier),
                on_dependency=luck.choice(("block", "fail")),
                priority=luck.choice((0, 0, 5)),
            )
        )
    return requests


def one_of_each(boundaries: int = 1) -> list[Request]:
    """A short plan that visits every kind, a retry, and both policies of dependencies."""
    wanted = [
        ("sample.file", Task(0, 0, boundaries), (), "block"),
        ("sample.row", Task(1, 0, boundaries), (), "block"),
        ("sample.tool", Task(2, 1, boundaries), (), "block"),
        ("sample.plain", Task(3, 1, boundaries), (), "block"),
        ("sample.broken", Task(4, 0, boundaries), (), "block"),
        ("sample.file", Task(5, 0, boundaries), (0, 1), "block"),
        ("sample.row", Task(6, 0, boundaries), (4,), "fail"),
        ("sample.plain", Task(7, 0, boundaries), (6, 5), "fail"),
        ("sample.file", Task(8, 1, boundaries), (4,), "block"),
    ]
    ids = [str(uuid.uuid5(_SPACE, f"each:{number}")) for number in range(len(wanted))]
    return [
        Request(number, ids[number], kind, task, tuple(ids[place] for place in needs), policy)
        for number, (kind, task, needs, policy) in enumerate(wanted)
    ]


def in_children() -> list[Request]:
    """Jobs that run in processes of their own; one of them crashes first."""
    failures = (0, 1, 0)
    ids = [str(uuid.uuid5(_SPACE, f"child:{number}")) for number in range(len(failures))]
    return [Request(number, ids[number], "sample.child", Task(number, failures[number], 1)) for number in range(3)]


def walkers(kind: str = "sample.walk") -> list[Request]:
    """Jobs that save where they are; one of them fails half-way."""
    ids = [str(uuid.uuid5(_SPACE, f"{kind}:{number}")) for number in range(2)]
    return [Request(number, ids[number], kind, Task(number, number)) for number in range(2)]


def keepers(kind: str = "sample.keep") -> list[Request]:
    """Jobs that keep files; one of them fails half-way."""
    ids = [str(uuid.uuid5(_SPACE, f"{kind}:{number}")) for number in range(2)]
    return [Request(number, ids[number], kind, Task(number, number)) for number in range(2)]


def writers(seed: int, count: int) -> list[Request]:
    """Jobs whose first attempt writes until its worker dies."""
    ids = [str(uuid.uuid5(_SPACE, f"writer:{seed}:{number}")) for number in range(count)]
    return [Request(number, ids[number], "sample.writer", Task(number, 1)) for number in range(count)]


def outliving(late_s: int) -> list[Request]:
    """A job whose child outlives its worker and publishes so many seconds late, unless it is ended."""
    return [Request(0, str(uuid.uuid5(_SPACE, "outliving")), "sample.outlive", Task(0, 1, late_s))]
