"""The artefact of a mail analysis, contract labfy.eml_analysis.derivative.v1: building it and reading it back.

Not here: the analysis, and where the file is put. Source of the fields: L:L-3, L:P-3.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from perenne.apps.evidence.derivatives import (
    SourceRow,
    decoded,
    encoded,
    in_doubt,
    must_agree,
    must_agree_with_request,
    refuse_bad_identity,
    source_row,
)
from perenne.apps.evidence.findings import Derivative, Observation, Source
from perenne.apps.evidence.mail_headers.analyser import ANALYSER_ID, ANALYSER_VERSION, MAX_OBSERVATIONS, refuse_too_many
from perenne.apps.evidence.places import MAIL_DERIVATIVES

CONTRACT = "labfy.eml_analysis.derivative.v1"
MAX_SOURCE_BYTES = 4 * 1024 * 1024

_Text = Annotated[str, msgspec.Meta(min_length=1)]


class _Analyser(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    version: str


class _Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    scope: str
    max_source_bytes: int
    max_observations: int


class _Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    type: _Text
    value_raw: _Text
    value_normalized: _Text
    role: _Text
    source_header: _Text
    occurrence: Annotated[int, msgspec.Meta(ge=1)]
    provenance_kind: _Text


class _Artefact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    contract: str
    request_id: str
    created_at: str
    source: SourceRow
    analyzer: _Analyser
    parameters: _Parameters
    observations: Annotated[tuple[_Row, ...], msgspec.Meta(max_length=MAX_OBSERVATIONS)]


_ANALYSER = _Analyser(ANALYSER_ID, ANALYSER_VERSION)
_PARAMETERS = _Parameters("headers-only", MAX_SOURCE_BYTES, MAX_OBSERVATIONS)


def build(*, request_id: str, source: Source, requested_at: str, observations: Sequence[Observation]) -> Derivative:
    """The derivative of one mail analysis; the same arguments always give the same bytes.

    Args:
        requested_at: the instant of the request, 20 characters, UTC.
    Raises:
        InvalidInput: an id, digest or instant of a wrong form.
        TooLarge: a source over 4 MiB, more than 256 observations, or an artefact over 1 MiB.
    """
    refuse_too_many(len(observations))
    refuse_bad_identity(request_id, source, requested_at, max_source_bytes=MAX_SOURCE_BYTES)
    rows = tuple(_Row(**msgspec.structs.asdict(observation)) for observation in observations)
    artefact = _Artefact(CONTRACT, request_id, requested_at, source_row(source), _ANALYSER, _PARAMETERS, rows)
    return _derivative(encoded(artefact), tuple(observations))


def reread(content: bytes, *, request_id: str, source: Source, requested_at: str) -> Derivative:
    """The derivative that a published artefact stands for, after comparing it with its request.

    Raises:
        RecoveryRequired: the artefact is damaged, or does not belong to this request, source or analyser.
    """
    artefact = decoded(content, _Artefact)
    must_agree_with_request(artefact, CONTRACT, request_id=request_id, source=source, requested_at=requested_at)
    must_agree("analyzer", artefact.analyzer, _ANALYSER)
    must_agree("parameters", artefact.parameters, _PARAMETERS)
    observations = tuple(Observation(**msgspec.structs.asdict(row)) for row in artefact.observations)
    _refuse_repeats(observations)
    return _derivative(content, observations)


def check(content: bytes, *, request_id: str, source: Source, requested_at: str) -> tuple[Observation, ...]:
    """The observations of a published artefact; raises like `reread`."""
    return reread(content, request_id=request_id, source=source, requested_at=requested_at).observations


def _derivative(content: bytes, observations: tuple[Observation, ...]) -> Derivative:
    description = f"{len(observations)} proposals read from the header of a mail; they prove neither sender nor origin."
    return Derivative(content, MAIL_DERIVATIVES, ANALYSER_ID, description, observations)


def _refuse_repeats(observations: tuple[Observation, ...]) -> None:
    keys = {
        (o.type, o.value_normalized, o.role, o.source_header, o.occurrence, o.provenance_kind) for o in observations
    }
    if len(keys) != len(observations):
        raise in_doubt(f"{len(observations) - len(keys)} of its {len(observations)} observations stand twice")
