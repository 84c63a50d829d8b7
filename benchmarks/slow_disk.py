"""A VFS of SQLite whose every sync takes 2 ms longer: a plain disk in place of a fast one."""

from __future__ import annotations

import time

import apsw

NAME = "perenne-slow"
SYNC_S = 0.002


class SlowDisk(apsw.VFS):
    """Registered under `NAME` as long as it lives; `fast` lifts the delay, for warming up."""

    def __init__(self) -> None:
        self.fast = False
        super().__init__(NAME, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _SlowFile(self, name, flags)


class _SlowFile(apsw.VFSFile):
    def __init__(self, disk: SlowDisk, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._disk = disk
        super().__init__("", name, flags)

    def xSync(self, flags: int) -> None:
        if not self._disk.fast:
            time.sleep(SYNC_S)  # the slowness is the point
        super().xSync(flags)
