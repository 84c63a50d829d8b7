"""The values that analysers hand to the catalogue: observations, and the derivative that holds them.

Plain values; no engine, no database, no files.
"""

from __future__ import annotations

import msgspec


class Observation(msgspec.Struct, frozen=True):
    """One proposal read from a piece of evidence (L:A-4)."""

    type: str
    value_raw: str
    value_normalized: str
    role: str
    source_header: str
    occurrence: int
    provenance_kind: str


class Source(msgspec.Struct, frozen=True):
    """The piece of evidence an analysis reads: its id, lower-case SHA-256 and size in bytes."""

    evidence_id: str
    sha256: str
    size_bytes: int


class Derivative(msgspec.Struct, frozen=True):
    """What one analysis produced, ready to be published.

    `content` is the artefact file (UTF-8 JSON), `folder` its place below the workspace, `tool_id` what stands in
    `extractions.tool_id`, `description` the bounded summary of the evidence row.
    """

    content: bytes
    folder: str
    tool_id: str
    description: str
    observations: tuple[Observation, ...] = ()
