"""What is published under an identity: nothing, exactly what should be, or something else (L:P-3, L:P-4).

Looks and compares only. Damage is an answer here, never an exception.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import apsw
import msgspec

from perenne.apps.evidence import catalogue, places, rows
from perenne.apps.evidence.findings import Observation
from perenne.apps.evidence.identities import Identity
from perenne.errors import EngineError

ARTEFACT_LIMIT_BYTES = 16 << 20
ORIGINAL_LIMIT_BYTES = 64 << 20

_FINDING_LIMIT_CHARACTERS = 500

Check = Callable[[bytes], tuple[Observation, ...]]


class Found(msgspec.Struct, frozen=True):
    """The answer of a lookup; `finding` is one sentence, empty unless the state is incoherent."""

    state: Literal["absent", "coherent", "incoherent"]
    finding: str = ""


class Incoherent(Exception):
    """The sentence that says what is not as it was published."""


def lookup(root: Path, identity: Identity, source_evidence_id: str, tool_id_prefix: str, check: Check) -> Found:
    """Whether this identity is published in `root`, and whether all of it is what it was.

    Args:
        tool_id_prefix: the tool id, or the part of it before `@version`.
        check: reads the artefact's bytes as what this identity publishes and gives its observations; it raises when
            they are anything else.

    Returns: absent; coherent (the original re-hashed, rows, artefact and observations all verified); or incoherent
        with a finding, which begins with `cannot tell` when the catalogue cannot be read.
    """
    try:
        with catalogue.reading(root) as connection:
            if not stands(connection, identity):
                return Found("absent")
            examine(root, connection, identity, source_evidence_id, tool_id_prefix, check)
    except Incoherent as finding:
        return Found("incoherent", _sentence(str(finding)))
    except Exception as error:  # a damaged file may make any layer below raise anything
        return Found("incoherent", _sentence(f"cannot tell: {str(error) or type(error).__name__}"))
    return Found("coherent")


def stands(connection: apsw.Connection, identity: Identity) -> bool:
    """Whether any row names this identity."""
    return (
        rows.extraction(connection, identity.extraction_id) is not None
        or rows.evidence(connection, identity.derivative_id) is not None
    )


def examine(
    root: Path,
    connection: apsw.Connection,
    identity: Identity,
    source_evidence_id: str,
    tool_id_prefix: str,
    check: Check,
) -> None:
    """Raises Incoherent with the first thing that is not as this identity publishes it."""
    _examine_extraction(connection, identity, source_evidence_id, tool_id_prefix)
    original = rows.evidence(connection, source_evidence_id)
    if original is None:
        raise Incoherent(f"the original {source_evidence_id} has no row in {places.CATALOGUE}")
    examine_file(root, original, ORIGINAL_LIMIT_BYTES)
    derivative = _examine_derivative(connection, identity)
    artefact = examine_file(root, derivative, ARTEFACT_LIMIT_BYTES)
    try:
        promised = check(artefact)
    except Exception as error:
        raise Incoherent(
            f"the artefact {derivative.relative_path} is not what this identity publishes: "
            f"{str(error) or type(error).__name__}"
        ) from error
    _examine_observations(connection, identity, source_evidence_id, promised)


def examine_file(root: Path, evidence: rows.Evidence, limit_bytes: int) -> bytes:
    """The bytes of a piece of evidence, when size and SHA-256 are those of its row; else Incoherent.

    Raises: StoreFailed: the machine could not read it, so that nothing is known about the file.
    """
    try:
        content = places.read_below(root, evidence.relative_path, limit_bytes=limit_bytes)
    except EngineError as error:
        if error.facts.get("passing"):
            raise
        raise Incoherent(f"the file of evidence {evidence.id} does not verify: {error}") from error
    if len(content) != evidence.size_bytes:
        raise Incoherent(
            f"the file {evidence.relative_path} has {len(content)} bytes, its row says {evidence.size_bytes!r}"
        )
    digest = places.sha256_of(content)
    if digest != evidence.sha256:
        raise Incoherent(f"the file {evidence.relative_path} has SHA-256 {digest}, its row says {evidence.sha256!r}")
    return content


def _examine_extraction(
    connection: apsw.Connection, identity: Identity, source_evidence_id: str, tool_id_prefix: str
) -> None:
    found = rows.extraction(connection, identity.extraction_id)
    if found is None:
        raise Incoherent(
            f"the derivative {identity.derivative_id} has a row, but its extraction {identity.extraction_id} has none"
        )
    name = f"extraction {identity.extraction_id}"
    _expect(f"{name}: source_kind", found.source_kind, "evidence")
    _expect(f"{name}: source_id", found.source_id, source_evidence_id)
    _expect(f"{name}: evidence_id", found.evidence_id, identity.derivative_id)
    _expect(f"{name}: created_at", found.created_at, identity.requested_at)
    if not _is_tool(found.tool_id, tool_id_prefix):
        raise Incoherent(f"{name}: tool_id is {found.tool_id!r}, expected {tool_id_prefix!r}")


def _is_tool(found: object, prefix: str) -> bool:
    bare = prefix.removesuffix("@")
    return isinstance(found, str) and (found == prefix or (found.startswith(f"{bare}@") and len(found) > len(bare) + 1))


def _examine_derivative(connection: apsw.Connection, identity: Identity) -> rows.Evidence:
    found = rows.evidence(connection, identity.derivative_id)
    if found is None:
        raise Incoherent(f"the derivative {identity.derivative_id} has no row in {places.CATALOGUE}")
    name = f"derivative {identity.derivative_id}"
    _expect(f"{name}: type", found.type, "text")
    _expect(f"{name}: status", found.status, "active")
    _expect(f"{name}: integrity_status", found.integrity_status, rows.INTEGRITY_VALID)
    _expect(f"{name}: collected_at", found.collected_at, identity.requested_at)
    _expect(f"{name}: imported_at", found.imported_at, identity.requested_at)
    _expect(f"{name}: file name", str(found.relative_path).rpartition("/")[2], f"{identity.derivative_id}.json")
    return found


def _examine_observations(
    connection: apsw.Connection, identity: Identity, source_evidence_id: str, promised: tuple[Observation, ...]
) -> None:
    recorded = rows.observations(connection, identity.extraction_id)
    for row in recorded:
        name = f"observation {row.id}"
        _expect(f"{name}: evidence_id", row.evidence_id, source_evidence_id)
        _expect(f"{name}: observed_at", row.observed_at, identity.requested_at)
        _expect(f"{name}: integrated_at", row.integrated_at, identity.requested_at)
        if not row.untouched and row.reviews == 0:
            raise Incoherent(f"{name} was changed without a review in the journal")
    missing = Counter(promised) - Counter(row.observation for row in recorded)
    surplus = Counter(row.observation for row in recorded) - Counter(promised)
    if missing or surplus:
        raise Incoherent(
            f"the observations of extraction {identity.extraction_id} are not those of its artefact: "
            f"{missing.total()} missing, {surplus.total()} added or changed"
        )


def _expect(name: str, found: Any, expected: Any) -> None:
    if type(found) is not type(expected) or found != expected:
        raise Incoherent(f"{name} is {found!r}, expected {expected!r}")


def _sentence(text: str) -> str:
    return " ".join(text.split())[:_FINDING_LIMIT_CHARACTERS]
