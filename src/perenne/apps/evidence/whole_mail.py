"""What `evidence.mail@1` publishes: the analysis of one message and the requests for those nested in it.

Here: from bytes to the derivative, and reading it back. Not here: the job (`jobs`), the analyser (`mail`).
"""

from __future__ import annotations

import hashlib

import msgspec

from perenne.apps.evidence.derivatives import (
    SourceRow,
    in_doubt,
    must_agree,
    must_agree_with_request,
    refuse_bad_identity,
    source_row,
)
from perenne.apps.evidence.findings import Derivative, Observation, Source
from perenne.apps.evidence.identities import derive
from perenne.apps.evidence.lookup import ARTEFACT_LIMIT_BYTES, ORIGINAL_LIMIT_BYTES
from perenne.apps.evidence.mail import Analysis, Limits, analyse
from perenne.apps.evidence.mail.artefact import ANALYSER_ID, ANALYSER_VERSION
from perenne.apps.evidence.mail.charsets import text_of
from perenne.apps.evidence.mail.parts import decoded_bytes
from perenne.apps.evidence.places import MAIL_DERIVATIVES
from perenne.apps.evidence.requests import Step, WholeMailInput
from perenne.errors import InvalidInput, TooLarge

CONTRACT = "perenne.evidence.mail.derivative.v1"
TOOL = ANALYSER_ID
TOOL_ID = f"{TOOL}@{ANALYSER_VERSION}"
NESTED_MOST = 16

# A nested message has a job of its own, so nothing is entered. The second bounds are for what says too much to publish.
_WIDE = Limits(nested_messages=0, text_bytes=1 << 20)
_NARROW = Limits(
    nested_messages=0,
    header_block_bytes=64 << 10,
    fields=500,
    parts=500,
    addresses=1_000,
    text_bytes=64 << 10,
    links=500,
    link_bytes=2_000,
    defects=500,
)


class Nested(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A message within this one: how to reach it, and the request under which its own analysis is published."""

    step: Step
    request_id: str


class Document(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The artefact: `analysis` is that of the bytes that `steps` lead to from the source; offsets count in them."""

    contract: str
    request_id: str
    created_at: str
    source: SourceRow
    steps: tuple[Step, ...]
    nested: tuple[Nested, ...]
    analysis: Analysis


def message_of(content: bytes, steps: tuple[Step, ...]) -> bytes:
    """The bytes of the message that `steps` lead to, none meaning the file itself.

    Raises: InvalidInput: a step leads to other bytes than it says.
    """
    for step in steps:
        content = decoded_bytes(content, step.offset, step.length, step.coding)
        found = hashlib.sha256(content).hexdigest()
        if found != step.sha256:
            raise InvalidInput(
                f"steps: part {step.path} gives bytes with SHA-256 {found}, not {step.sha256}; submit the whole mail "
                f"again",
                field="steps",
                value=step.path,
            )
    return content


def read(content: bytes, given: WholeMailInput) -> Analysis:
    """The analysis of a message, within the bounds of what can be published."""
    message = message_of(content, given.steps)
    found = analyse(message, _WIDE, trusted=given.trusted)
    if len(msgspec.json.encode(found)) <= ARTEFACT_LIMIT_BYTES - (1 << 20):
        return found
    return analyse(message, _NARROW, trusted=given.trusted)


def nested_in(analysis: Analysis, request_id: str, depth: int) -> tuple[Nested, ...]:
    """The messages directly within one that lies `depth` steps below the file; deeper than 16 none is entered."""
    if depth >= NESTED_MOST:
        return ()
    return tuple(
        Nested(
            Step(part.path, part.offset, part.length, part.coding, part.sha256),
            derive(request_id, f"message:{part.path}"),
        )
        for part in analysis.messages[0].parts
        if part.type in ("message/rfc822", "message/global") and part.sha256 is not None and part.size_bytes
    )


def build(
    *, request_id: str, source: Source, requested_at: str, steps: tuple[Step, ...], analysis: Analysis
) -> Derivative:
    """The derivative of one message; the same arguments always give the same bytes.

    Raises:
        InvalidInput: an id, digest or instant of a wrong form.
        TooLarge: a source over 64 MiB, or an artefact over 16 MiB.
    """
    refuse_bad_identity(request_id, source, requested_at, max_source_bytes=ORIGINAL_LIMIT_BYTES)
    nested = nested_in(analysis, request_id, len(steps))
    content = msgspec.json.encode(
        Document(CONTRACT, request_id, requested_at, source_row(source), steps, nested, analysis)
    )
    if len(content) > ARTEFACT_LIMIT_BYTES:
        raise TooLarge(
            f"the artefact would have {len(content)} bytes, the limit is {ARTEFACT_LIMIT_BYTES}; "
            f"look at this mail with `perenne evidence mail`",
            size_bytes=len(content),
            limit_bytes=ARTEFACT_LIMIT_BYTES,
        )
    observations = _observations(analysis)
    description = f"{len(observations)} proposals read from a mail; they prove neither sender nor origin."
    return Derivative(content, MAIL_DERIVATIVES, TOOL_ID, description, observations)


def check(
    content: bytes, *, request_id: str, source: Source, requested_at: str, steps: tuple[Step, ...]
) -> tuple[Observation, ...]:
    """The observations of a published artefact, after comparing it with its request.

    Raises:
        RecoveryRequired: the artefact is damaged, or does not belong to this request, source or message.
    """
    try:
        found = msgspec.json.decode(content, type=Document)
    except msgspec.MsgspecError as error:
        raise in_doubt(str(error)) from error
    if msgspec.json.encode(found) != content:
        raise in_doubt("it is not written as this analyser writes")
    must_agree_with_request(found, CONTRACT, request_id=request_id, source=source, requested_at=requested_at)
    must_agree("steps", found.steps, steps)
    return _observations(found.analysis)


def _observations(analysis: Analysis) -> tuple[Observation, ...]:
    return tuple(
        Observation(
            one.type,
            text_of(one.raw),
            one.value,
            one.role,
            one.header,
            one.occurrence,
            "body" if one.header == "body" else "header",
        )
        for message in analysis.messages
        for one in message.observations
    )
