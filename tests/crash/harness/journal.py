"""What the bench's own processes saw, line by line, each synced before they go on.

A journal belongs to the test, not to the engine: a line says that something had happened before the line was written.
"""

from __future__ import annotations

import json
import os
from os import fsync  # the real one, also while a trace is recorded
from pathlib import Path
from typing import Any


class Journal:
    """Lines of JSON in one file; many processes may append to it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, **fields: Any) -> None:
        """Append one line and sync it; when this returns, no kill can take it back."""
        line = json.dumps(fields, default=str).encode() + b"\n"
        descriptor = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, line)
            fsync(descriptor)
        finally:
            os.close(descriptor)

    def read(self) -> list[dict[str, Any]]:
        """Every line, oldest first; a kill never leaves half of one, since each is one write."""
        if not self.path.exists():
            return []
        return [json.loads(line) for line in self.path.read_bytes().splitlines()]
