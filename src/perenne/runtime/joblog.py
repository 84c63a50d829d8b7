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
        self.dropped = 0
        self.failed: str | None = None

    def write(self, level: str, message: str, **fields: Any) -> bool:
        """One line: level, message and fields that JSON can hold (others as their repr); whether it stands."""
        head = {"at": self._clock.now(), "attempt": self._number}
        encoded = _encode(head, {"level": level, "message": message, **fields})
        with self._lock:
            if len(encoded) > self._left_bytes:
                self.dropped += 1
                return False
            self._left_bytes -= len(encoded)
            return self._append(encoded)

    def _append(self, encoded: bytes) -> bool:
        path = self._workspace.log_of(self._name)
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            try:
                return os.write(descriptor, encoded) == len(encoded)
            finally:
                os.close(descriptor)
        except OSError as error:
            # A full disk must not cost the job; the first reason is kept for whoever asks.
            self.failed = self.failed or f"{path}: {error.strerror}"
            return False


def encoded(**said: Any) -> bytes:
    """What is said, as one JSON object that can be read back, whatever the values are."""
    return _encode({}, said)


def _encode(head: dict[str, Any], said: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(head | said, enc_hook=repr) + b"\n"
    except Exception:
        # Half a character, a number too large, a value whose repr fails: each value by itself, as ASCII shows it.
        return msgspec.json.encode(head | {_shown(name): _shown(value) for name, value in said.items()}) + b"\n"


def _shown(value: object) -> str:
    try:
        return (value if isinstance(value, str) else repr(value)).encode("ascii", "backslashreplace").decode()
    except Exception as error:
        return f"{type(value).__name__} that cannot be shown: {type(error).__name__}"
