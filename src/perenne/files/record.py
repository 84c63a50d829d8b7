"""A checkpoint as one record of bytes, and back: whose it is, the state of the work, its exact size and its checksum.

Reading is bounded and trusts nothing. What does not live here: where records are kept (`checkpoint`, the store), and
what a state means (`core.kind`).
"""

from __future__ import annotations

import hashlib
import struct
from typing import Annotated

import msgspec
from msgspec import Meta

from perenne.errors import CheckpointCorrupt, CheckpointUnsupported
from perenne.files import foreign

STATE_BYTES = 64 << 20  # of the state in it
RECORD_BYTES = STATE_BYTES + 4096
MAGIC = b"PERENCHK"
FORMAT = 1
_HEAD = struct.Struct(">8sIQ")  # magic, format, bytes of the whole record
_SUM_BYTES = hashlib.sha256().digest_size
_MOST = 1 << 62

Count = Annotated[int, Meta(ge=0, le=_MOST)]
Number = Annotated[int, Meta(ge=1, le=_MOST)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]


class Checkpoint(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """What an attempt knew when it saved: the job goes on from here.

    version: of the kind that wrote `state`. attempt, number: which attempt; generation: its how-many-th save.
    sequences: breaks of the job so far. done, total: progress. state: as the kind encodes it, at most 64 MiB.
    """

    job: Name
    kind: Name
    version: Number
    attempt: Name
    number: Number
    generation: Number
    sequences: Count
    done: Count
    total: Count | None
    state: bytes


_ENCODE = msgspec.msgpack.Encoder().encode
_DECODE = msgspec.msgpack.Decoder(Checkpoint).decode


def encode(checkpoint: Checkpoint) -> bytes:
    """The record: head, body, and the SHA-256 of both."""
    return encode_with_digest(checkpoint)[0]


def encode_with_digest(checkpoint: Checkpoint) -> tuple[bytes, str]:
    """The record, and the SHA-256 of all its bytes in hexadecimal: a large state is read once for both sums."""
    body = _ENCODE(checkpoint)
    head = _HEAD.pack(MAGIC, FORMAT, _HEAD.size + len(body) + _SUM_BYTES)
    found = hashlib.sha256(head)
    found.update(body)
    checksum = found.digest()
    found.update(checksum)
    return b"".join((head, body, checksum)), found.hexdigest()


def decode(data: bytes) -> Checkpoint:
    """The checkpoint of a record; no other bytes are one.

    Raises: CheckpointUnsupported: of a format, or a program, that is not read here. CheckpointCorrupt: anything else.
    """
    if data.startswith(foreign.RECORD_MAGIC):
        raise CheckpointUnsupported(f"it is a task record of {foreign.PROGRAM}, whose files this program does not read")
    if len(data) < _HEAD.size + _SUM_BYTES:
        raise CheckpointCorrupt(f"it has {len(data)} bytes, and a record has {_HEAD.size + _SUM_BYTES} at least")
    magic, version, size = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise CheckpointCorrupt(f"it begins with {magic!r}, which no checkpoint does")
    if version != FORMAT:
        raise CheckpointUnsupported(f"it has format {version}, and this program reads {FORMAT}", value=version)
    if size != len(data):
        raise CheckpointCorrupt(f"it has {len(data)} bytes, and says that it has {size}")
    view = memoryview(data)
    if hashlib.sha256(view[:-_SUM_BYTES]).digest() != data[-_SUM_BYTES:]:
        raise CheckpointCorrupt("its checksum is not that of its bytes")
    try:
        found = _DECODE(view[_HEAD.size : -_SUM_BYTES])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CheckpointCorrupt(f"its values are none of a checkpoint: {error}") from None
    if found.total is not None and found.done > found.total:
        raise CheckpointCorrupt(f"it has done {found.done} of {found.total}")
    if len(found.state) > STATE_BYTES:
        raise CheckpointCorrupt(f"its state has {len(found.state)} bytes, the limit is {STATE_BYTES}")
    return found
