"""A disk that keeps only what was synced, for scenarios of a power cut.

It is modelled strictly: content lasts once its file was synced, a name once its folder was.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perenne.files import atomic


class StrictDisk:
    """What a write protocol did to a folder, call by call, and every state a power cut after each call can leave."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: list[tuple[str, ...]] = []
        self._names: dict[int, str] = {}
        for name in ("open", "write", "replace"):
            monkeypatch.setattr(atomic.os, name, self._noting(name, getattr(os, name)))
        monkeypatch.setattr(atomic.os, "fsync", self._syncing(os.fsync))

    def _noting(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*values: Any, **named: Any) -> Any:
            answer = real(*values, **named)
            if name == "open":
                self._names[answer] = os.fspath(values[0])
                self.calls.append(("create" if values[1] & os.O_CREAT else "look", os.fspath(values[0])))
            elif name == "write":
                self.calls.append(("write", self._names[values[0]], bytes(values[1]).decode()))
            else:
                self.calls.append(("rename", os.fspath(values[0]), os.fspath(values[1])))
            return answer

        return call

    def _syncing(self, real: Callable[[int], None]) -> Callable[[int], None]:
        def fsync(descriptor: int) -> None:
            real(descriptor)
            self.calls.append(("sync", self._names[descriptor]))

        return fsync

    def contents(self, path: Path, old: str) -> Iterator[tuple[int, set[str | None]]]:
        """For a power cut after each number of calls, all that `path` can hold when the disk wakes up."""
        for done in range(len(self.calls) + 1):
            yield done, set(self._after(self.calls[:done], path, old))

    def _after(self, calls: list[tuple[str, ...]], path: Path, old: str) -> Iterator[str | None]:
        # A rename may have reached the disk or not until its folder was synced; so may each byte until its file was.
        renames = [place for place, call in enumerate(calls) if call[0] == "rename" and call[2] == str(path)]
        synced_folder = [place for place, call in enumerate(calls) if call == ("sync", str(path.parent))]
        for renamed in (False, True):
            lasting = any(sync > rename for rename in renames for sync in synced_folder)
            if (renamed and not renames) or (lasting and not renamed):
                continue
            yield from self._held(calls, calls[renames[-1]][1]) if renamed else iter([old])

    def _held(self, calls: list[tuple[str, ...]], staged: str) -> Iterator[str]:
        writes = [(place, call[2]) for place, call in enumerate(calls) if call[:2] == ("write", staged)]
        syncs = [place for place, call in enumerate(calls) if call == ("sync", staged)]
        text = "".join(written for _, written in writes)
        if writes and syncs and max(syncs) > writes[-1][0]:
            yield text
        else:
            yield from {text[:kept] for kept in (0, len(text) // 2, len(text))}
