"""A kind that keeps files from a process of its own."""

from __future__ import annotations

import io
from typing import Any

from perenne import Context, Kind

BYTES = b"made by a job" * 1000


def in_a_child(context: Context, input: object) -> str:
    """Keeps bytes and a stream."""
    context.artefact("bytes", BYTES)
    return context.artefact("stream", io.BytesIO(BYTES[1:]), "text/plain").digest


CHILD = Kind("trial.child", 1, in_a_child, Any, isolation="process")
