"""The record of a checkpoint: what was encoded comes back, and no other bytes are one."""

from __future__ import annotations

import contextlib
import hashlib
import struct
from random import Random
from typing import Any

import msgspec
import pytest

from perenne.core import limits
from perenne.errors import CheckpointCorrupt, CheckpointUnsupported
from perenne.files import record
from perenne.files.record import Checkpoint

ONE = Checkpoint("01990c5e", "walk", 2, "a" * 32, 3, 4, 5, 6, 7, b"state")


def sealed(head: tuple[Any, ...], body: bytes) -> bytes:
    """A record with a checksum that fits, whatever it says."""
    data = struct.pack(">8sIQ", *head) + body
    return data + hashlib.sha256(data).digest()


def of_values(*values: object) -> bytes:
    body = msgspec.msgpack.encode(values)
    return sealed((record.MAGIC, record.FORMAT, 20 + len(body) + 32), body)


@pytest.mark.parametrize("state", [b"", b"\0", bytes(range(256)), bytes(1 << 20)])
@pytest.mark.parametrize("total", [None, 6, 1 << 62])
def test_what_was_encoded_comes_back(state: bytes, total: int | None) -> None:
    """E-C1: every field of a checkpoint is in its record, and the same checkpoint gives the same bytes."""
    one = msgspec.structs.replace(ONE, state=state, total=total)
    assert record.decode(record.encode(one)) == one
    assert record.encode(one) == record.encode(msgspec.structs.replace(one))
    data, digest = record.encode_with_digest(one)
    assert (data, digest) == (record.encode(one), hashlib.sha256(data).hexdigest())


def test_every_shorter_or_longer_record_is_refused() -> None:
    """Short and trailing bytes are refused, wherever the record ends."""
    data = record.encode(ONE)
    for end in range(len(data)):
        with pytest.raises(CheckpointCorrupt):
            record.decode(data[:end])
    for more in (b"\0", b"x" * 100, data):
        with pytest.raises(CheckpointCorrupt):
            record.decode(data + more)


def test_every_flipped_bit_is_found() -> None:
    """A single bit that changed anywhere is refused."""
    data = record.encode(ONE)
    for at in range(len(data) * 8):
        wrong = bytearray(data)
        wrong[at // 8] ^= 1 << at % 8
        with pytest.raises((CheckpointCorrupt, CheckpointUnsupported)):
            record.decode(bytes(wrong))


def test_another_format_has_an_error_of_its_own() -> None:
    """A record of a format to come says which it is."""
    data = record.encode(ONE)
    for number in (0, 2, 9, (1 << 32) - 1):
        later = data[:8] + struct.pack(">I", number) + data[12:]
        with pytest.raises(CheckpointUnsupported, match=f"format {number}"):
            record.decode(later)


def test_wrong_magic_is_no_checkpoint() -> None:
    """A file that begins otherwise is named as what it is not."""
    with pytest.raises(CheckpointCorrupt, match="begins with"):
        record.decode(b"RANDOMLY" + record.encode(ONE)[8:])


@pytest.mark.parametrize(
    "values",
    [
        (),
        ("job",),
        ("job", "walk", 0, "a", 1, 1, 0, 0, None, b""),
        ("job", "walk", 1, "a", 0, 1, 0, 0, None, b""),
        ("job", "walk", 1, "a", 1, 0, 0, 0, None, b""),
        ("job", "walk", 1, "a", 1, 1, -1, 0, None, b""),
        ("job", "walk", 1, "a", 1, 1, 0, -1, None, b""),
        ("job", "walk", 1, "a", 1, 1, 0, 3, 2, b""),
        ("job", "walk", 1, "a", 1, 1, 0, 0, 1 << 63, b""),
        ("", "walk", 1, "a", 1, 1, 0, 0, None, b""),
        ("job", "w" * 201, 1, "a", 1, 1, 0, 0, None, b""),
        ("job", "walk", 1, "a", 1, 1, 0, 0, None, "text"),
        ("job", "walk", 1.5, "a", 1, 1, 0, 0, None, b""),
        ("job", "walk", True, "a", 1, 1, 0, 0, None, b""),
        ("job", "walk", 1, "a", 1, 1, 0, 0, None, b"", "more"),
        ("job", "walk", 1, "a", 1, 1, 0, 0, None, bytes(record.STATE_BYTES + 1)),
    ],
)
def test_values_out_of_range_are_refused(values: tuple[object, ...]) -> None:
    """A record whose checksum fits is refused all the same when its values are none of a checkpoint."""
    with pytest.raises(CheckpointCorrupt):
        record.decode(of_values(*values))


def test_no_bytes_end_otherwise() -> None:
    """Ten thousand damaged records, half of them with a checksum that fits, are read or refused, and nothing else."""
    luck, data = Random(7), record.encode(ONE)
    for number in range(10_000):
        wrong = bytearray(data)
        for _ in range(luck.randint(1, 8)):
            wrong[luck.randrange(len(wrong))] = luck.randrange(256)
        del wrong[luck.randint(len(wrong) // 2, len(wrong)) :]
        if number % 2:
            wrong[-32:] = hashlib.sha256(wrong[:-32]).digest()
        with contextlib.suppress(CheckpointCorrupt, CheckpointUnsupported):
            assert isinstance(record.decode(bytes(wrong)), Checkpoint)


def test_one_bound_of_a_state() -> None:
    """What a kind may encode is what a record may hold."""
    assert record.STATE_BYTES == limits.STATE_BYTES
    assert record.RECORD_BYTES > record.STATE_BYTES
