"""What the artefacts of all analysers share: the identity they carry, their bytes, and reading them back strictly.

Not here: what stands in an artefact of one kind (`mail/artefact.py`, `images/artefact.py`).
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec

from perenne.apps.evidence import strict_json
from perenne.apps.evidence.findings import Source
from perenne.apps.evidence.identities import check_instant, check_sha256, check_uuid
from perenne.errors import InvalidInput, RecoveryRequired, TooLarge

MAX_ARTEFACT_BYTES = 1024 * 1024

_MAX_DEPTH = 16

Artefact = TypeVar("Artefact", bound=msgspec.Struct)


class SourceRow(Source, frozen=True, forbid_unknown_fields=True):
    """The source as it stands in an artefact; any other field is refused."""


def source_row(source: Source) -> SourceRow:
    """The same source, ready to be written."""
    return SourceRow(source.evidence_id, source.sha256, source.size_bytes)


def refuse_bad_identity(request_id: str, source: Source, requested_at: str, *, max_source_bytes: int) -> None:
    """Check what an artefact is published under (L:P-5, L:Q-1).

    Raises:
        InvalidInput: an id, the digest or the instant has a wrong form.
        TooLarge: the source is larger than this analysis may publish.
    """
    check_uuid("request_id", request_id)
    check_uuid("source.evidence_id", source.evidence_id)
    check_sha256("source.sha256", source.sha256)
    check_instant("requested_at", requested_at)
    if source.size_bytes < 1:
        raise InvalidInput(
            f"source.size_bytes is {source.size_bytes}, an original has at least 1", field="source.size_bytes"
        )
    if source.size_bytes > max_source_bytes:
        raise TooLarge(
            f"the source has {source.size_bytes} bytes, this analysis publishes up to {max_source_bytes}; "
            f"analyse this file with another tool",
            size_bytes=source.size_bytes,
            limit_bytes=max_source_bytes,
        )


def encoded(artefact: msgspec.Struct) -> bytes:
    """The bytes of an artefact: compact UTF-8 JSON, fields in declared order, one line end; always the same.

    Raises:
        TooLarge: over 1 MiB.
    """
    content = msgspec.json.encode(artefact) + b"\n"
    if len(content) > MAX_ARTEFACT_BYTES:
        raise TooLarge(
            f"the artefact would have {len(content)} bytes, the limit is {MAX_ARTEFACT_BYTES}; "
            f"this source says more than the contract can hold, analyse it with another tool",
            size_bytes=len(content),
            limit_bytes=MAX_ARTEFACT_BYTES,
        )
    return content


def decoded(content: bytes, kind: type[Artefact]) -> Artefact:
    """An artefact read back, every field typed and no other field present.

    Raises:
        RecoveryRequired: too large, no strict JSON, or not of this form.
    """
    if len(content) > MAX_ARTEFACT_BYTES:
        raise in_doubt(f"it has {len(content)} bytes, the limit is {MAX_ARTEFACT_BYTES}")
    try:
        return msgspec.convert(strict_json.read(content, max_depth=_MAX_DEPTH), kind)
    except (InvalidInput, msgspec.ValidationError) as error:
        raise in_doubt(str(error)) from error


def must_agree(field: str, found: Any, expected: Any) -> None:
    """Raises: RecoveryRequired: the artefact says something else than the request it is published under."""
    if found != expected:
        raise in_doubt(f"its {field} is {str(found)[:200]!r}, the request says {str(expected)[:200]!r}", field=field)


def must_agree_with_request(
    artefact: Any, contract: str, *, request_id: str, source: Source, requested_at: str
) -> None:
    """Compare what every artefact carries (L:P-3).

    Raises:
        RecoveryRequired: one of them differs.
    """
    must_agree("contract", artefact.contract, contract)
    must_agree("request_id", artefact.request_id, request_id)
    must_agree("created_at", artefact.created_at, requested_at)
    must_agree("source.evidence_id", artefact.source.evidence_id, source.evidence_id)
    must_agree("source.sha256", artefact.source.sha256, source.sha256)
    must_agree("source.size_bytes", artefact.source.size_bytes, source.size_bytes)


def in_doubt(finding: str, **facts: object) -> RecoveryRequired:
    """The error to raise for an artefact that is not what it should be."""
    return RecoveryRequired(
        f"the published artefact does not agree with its request: {finding}; compare both and resolve the job",
        finding=finding,
        **facts,
    )
