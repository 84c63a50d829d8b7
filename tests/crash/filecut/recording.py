"""A recorded story, the moments at which the power may go, and the wrong orders that are made of a right one."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from powercut.disk import Disk

from perenne.files.checkpoint import Files

Operation = tuple[Any, ...]
LEDGER = ".perenne/ledger.sqlite"


class Moment(NamedTuple):
    """A power cut after this operation, with so much acknowledged."""

    operation: int
    acknowledged: int


class Recording(NamedTuple):
    """operations: as `Disk.play` takes them, and ("ack", number). acknowledged: by that number, the step of each walk
    that was saved; walk 0 stands there once all were submitted. ids: of the jobs, in the order of the plan.
    """

    seed: int
    operations: list[Operation]
    acknowledged: list[dict[int, int]]
    ids: list[str]

    @property
    def folders(self) -> list[str]:
        return [name for verb, name, *_ in self.operations if verb in ("adopt_folder", "folder")]


def load(path: Path) -> Recording:
    """The recording that our own recorder wrote."""
    return Recording(**pickle.loads(path.read_bytes()))


def moments(recording: Recording) -> Iterator[tuple[Moment, Disk]]:
    """Every moment once all is submitted, with the disk as it is then; the disk changes as one goes on."""
    present, acknowledged = Disk(), 0
    for at, operation in enumerate(recording.operations):
        if operation[0] == "ack":
            acknowledged = operation[1]
        else:
            present.play(operation)
        if acknowledged:
            yield Moment(at, acknowledged), present


def _stages(name: str) -> bool:
    return name.endswith(".next")


def without_sync_of_the_stage(operations: list[Operation]) -> list[Operation]:
    """The stage file is not synced before the ledger names it."""
    return [one for one in operations if not (one[0] == "sync" and _stages(one[1]))]


def without_sync_of_its_name(operations: list[Operation]) -> list[Operation]:
    """The folder is not synced between staging and the commit."""
    kept: list[Operation] = []
    staged = False
    for one in operations:
        staged = staged or (one[0] == "create" and _stages(one[1]))
        if staged and one[0] == "sync_folder":
            staged = False
            continue
        kept.append(one)
    return kept


def renamed_before_the_commit(operations: list[Operation]) -> list[Operation]:
    """The lasting name is given, durably, before the ledger names the file."""
    kept: list[Operation] = []
    for at, one in enumerate(operations):
        if one[0] == "rename" and _stages(one[1]):
            # The next sync of the folder belongs to it; both go behind the sync of the stage's own name.
            behind = max(place for place, other in enumerate(kept) if other[0] == "sync_folder") + 1
            kept[behind:behind] = [one, operations[at + 1]]
        elif not (one[0] == "sync_folder" and operations[at - 1][0] == "rename" and _stages(operations[at - 1][1])):
            kept.append(one)
    return kept


def without_the_last_sync(operations: list[Operation]) -> list[Operation]:
    """The folder is not synced after the rename."""
    return [
        one
        for before, one in zip([("",), *operations], operations, strict=False)
        if not (one[0] == "sync_folder" and before[0] == "rename" and _stages(before[1]))
    ]


def use_one_stage_name() -> None:
    """From now on, in this process, each save of a job has the same stage name, which the next one uses again."""
    Files.staged = lambda self, attempt, number, generation: self.folder / f"{self.job_id}.next"  # type: ignore[method-assign]


WRONG: dict[str, Callable[[list[Operation]], list[Operation]]] = {
    "the stage is not synced": without_sync_of_the_stage,
    "its name is not synced": without_sync_of_its_name,
    "renamed before the commit": renamed_before_the_commit,
    "one stage name, no last sync": without_the_last_sync,
}
# Without the last sync alone nothing is lost, for the stage name of each save is its own: so this one is wrong twice.
ONE_STAGE_NAME = "one stage name, no last sync"
