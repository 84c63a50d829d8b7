"""The log of one attempt: lines of JSON in the job's file, bounded, never a reason to fail.

What does not live here: the history (that is the ledger's), and anything that decides.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import msgspec

from perenne.files.workspace import Workspace
from perenne.runtime.clock import Clock

ATTEMPT_BYTES = 1 << 20


class JobLog:
    """Appends to `logs/<job>.jsonl`, at most 1 MiB an attempt; what comes after is counted, not kept."""

    def __init__(self, workspace: Workspace, name: str, number: int, clock: Clock) -> None:
        self._workspace, self._name, self._number, self._clock = workspace, name, number, clock
        self._left_bytes = ATTEMPT_BYTES
        self._lock = threading.Lock()
        self.failed: str | None = None

    def write(self, level: str, message: str, **fields: Any) -> None:
        """One line: level, message and fields that JSON can hold (others as their repr)."""
        line = {"at": self._clock.now(), "attempt": self._number, "level": level, "message": message, **fields}
        encoded = msgspec.json.encode(line, enc_hook=repr) + b"\n"
        with self._lock:
            if len(encoded) > self._left_bytes:
                return
            self._left_bytes -= len(encoded)
            self._append(encoded)

    def _append(self, encoded: bytes) -> None:
        path = self._workspace.log_of(self._name)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                os.write(descriptor, encoded)
            finally:
                os.close(descriptor)
        except OSError as error:
            # A full disk must not cost the job; the first reason is kept for whoever asks.
            self.failed = self.failed or f"{path}: {error.strerror}"
