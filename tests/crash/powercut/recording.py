"""What was written and acknowledged while a story was performed, and the moments at which the power may go."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from powercut.disk import Disk
from powercut.questions import Facts

LEDGER = "ledger.sqlite"


@dataclass(frozen=True)
class Moment:
    """A power cut: after this operation, with so much acknowledged."""

    operation: int
    acknowledged: int


@dataclass(frozen=True)
class Recording:
    """What was written, and what was acknowledged when.

    operations: as `disk.Disk.play` takes them, ("ack", number) where a call returned, and ("seen",) where one returned
    that promised nothing. acknowledged: by that number, from 0 for nothing: what the call was, and its facts.
    """

    story: str
    seed: int
    planted: str
    operations: list[tuple[Any, ...]]
    acknowledged: list[tuple[str, Facts]]
    migrations: list[str]
    sqlite: str

    def label(self, moment: Moment) -> str:
        """The call under way; after the last one, that one."""
        return self.acknowledged[min(moment.acknowledged + 1, len(self.acknowledged) - 1)][0]


def load(path: Path) -> Recording:
    """The recording that our own recorder wrote."""
    return Recording(**pickle.loads(path.read_bytes()))


def moments(recording: Recording) -> Iterator[tuple[Moment, Disk]]:
    """Every moment, with the disk as it is then; the disk changes as one goes on."""
    present, acknowledged = Disk(), 0
    for at, operation in enumerate(recording.operations):
        if operation[0] == "ack":
            acknowledged = operation[1]
        elif operation[0] != "seen":
            present.play(operation)
        yield Moment(at, acknowledged), present
