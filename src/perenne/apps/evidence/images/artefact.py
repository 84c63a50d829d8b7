"""The artefact of a picture analysis, contract labfy.exiftool.metadata.derivative.v1: building it, reading it back.

Not here: running the tool, and where the file is put. Source of the fields: L:F-4, L:P-3.
"""

from __future__ import annotations

import base64
import binascii
import hashlib

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
from perenne.apps.evidence.images import metadata
from perenne.apps.evidence.images.exiftool import MAX_SOURCE_BYTES, Reading
from perenne.apps.evidence.images.metadata import Tag
from perenne.apps.evidence.places import IMAGE_DERIVATIVES
from perenne.errors import TooLarge, ToolFailed

CONTRACT = "labfy.exiftool.metadata.derivative.v1"
CAPABILITY = "labfy.capability.exif_metadata.v1"
# An answer up to this size always fits into the artefact; a larger one, up to the runner's 1 MiB, fits or is refused.
ALWAYS_FITS_BYTES = 256 * 1024


class _Adapter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    id: str
    version: str
    tool_id: str
    tool_version: str
    capability_id: str
    output_contract: str


class _Parameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    mode: str
    groups: str
    numeric_values: bool


class _Stdout(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    encoding: str
    sha256: str
    data: str
    retained_bytes: int
    observed_bytes: int
    complete: bool


class _Execution(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    state: str
    stdout: _Stdout


class _Artefact(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    contract: str
    request_id: str
    created_at: str
    source: SourceRow
    adapter: _Adapter
    parameters: _Parameters
    execution: _Execution
    metadata: tuple[Tag, ...]


_PARAMETERS = _Parameters("read_only_json", "G1", True)


def build(*, request_id: str, source: Source, requested_at: str, reading: Reading) -> Derivative:
    """The derivative of one picture analysis; the same arguments always give the same bytes.

    Args:
        requested_at: the instant of the request, 20 characters, UTC.
    Raises:
        InvalidInput: an id, digest or instant of a wrong form.
        ToolFailed: the answer cannot be read, or comes from another version than the one that was probed.
        TooLarge: a source over 16 MiB, more than 2048 tags, or an artefact over 1 MiB.
    """
    refuse_bad_identity(request_id, source, requested_at, max_source_bytes=MAX_SOURCE_BYTES)
    tags = metadata.tags_of(reading.stdout)
    if (answered := _version_in(tags)) not in (None, reading.tool_version):
        raise ToolFailed(f"ExifTool {reading.tool_version} was probed, but {answered} answered; run the analysis again")
    artefact = _Artefact(
        CONTRACT,
        request_id,
        requested_at,
        source_row(source),
        _adapter(reading.tool_version),
        _PARAMETERS,
        _Execution("exited", _stdout_of(reading.stdout)),
        tags,
    )
    return _derivative(encoded(artefact), artefact)


def reread(content: bytes, *, request_id: str, source: Source, requested_at: str) -> Derivative:
    """The derivative that a published artefact stands for, after comparing it with its request.

    The tags are read once more from the kept answer of the tool and must be those of the artefact.

    Raises:
        RecoveryRequired: the artefact is damaged, or does not belong to this request, source or adapter.
    """
    artefact = decoded(content, _Artefact)
    must_agree_with_request(artefact, CONTRACT, request_id=request_id, source=source, requested_at=requested_at)
    must_agree("adapter", artefact.adapter, _adapter(artefact.adapter.tool_version))
    must_agree("parameters", artefact.parameters, _PARAMETERS)
    must_agree("execution.state", artefact.execution.state, "exited")
    stdout = _kept_answer(artefact.execution.stdout)
    tags = _tags_again(stdout)
    # A finding travels into diagnostics and exports, so it never quotes what the tool said about the picture.
    if artefact.execution.stdout != _stdout_of(stdout):
        raise in_doubt("its execution.stdout has another digest or size than the answer kept in it")
    if artefact.metadata != tags:
        raise in_doubt("its metadata are not those of the answer kept in it")
    must_agree(
        "adapter.tool_version", artefact.adapter.tool_version, _version_in(tags) or artefact.adapter.tool_version
    )
    return _derivative(content, artefact)


def check(content: bytes, *, request_id: str, source: Source, requested_at: str) -> tuple[Observation, ...]:
    """The observations of a published artefact: always none (L:2.22); raises like `reread`."""
    return reread(content, request_id=request_id, source=source, requested_at=requested_at).observations


def _derivative(content: bytes, artefact: _Artefact) -> Derivative:
    tool_id = f"exiftool@{artefact.adapter.tool_version}"
    return Derivative(content, IMAGE_DERIVATIVES, tool_id, metadata.summary_of(artefact.metadata))


def _adapter(tool_version: str) -> _Adapter:
    return _Adapter("labfy.adapter.exiftool", "1", "exiftool", tool_version, CAPABILITY, "labfy.local_tool_result.v1")


def _stdout_of(stdout: bytes) -> _Stdout:
    data = base64.b64encode(stdout).decode("ascii")
    return _Stdout("base64", hashlib.sha256(stdout).hexdigest(), data, len(stdout), len(stdout), True)


def _kept_answer(stdout: _Stdout) -> bytes:
    try:
        return base64.b64decode(stdout.data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise in_doubt(f"its execution.stdout.data is no base64: {error}") from error


def _tags_again(stdout: bytes) -> tuple[Tag, ...]:
    try:
        return metadata.tags_of(stdout)
    except (ToolFailed, TooLarge) as error:
        raise in_doubt(str(error)) from error


def _version_in(tags: tuple[Tag, ...]) -> str | None:
    return next((tag.value for tag in tags if (tag.group, tag.tag) == ("ExifTool", "ExifToolVersion")), None)
