"""Records of checkpoints with damage in them, drawn by the seed: cut, grown, flipped, mixed, and honestly sealed lies.

What does not live here: the question whether a damaged record is one (`fuzz`), and files.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable
from random import Random

import msgspec

from perenne.files import record
from perenne.files.record import Checkpoint

HEAD_BYTES, SUM_BYTES = 20, 32
_LARGE = (0, 1, 127, 128, 255, 256, 65_535, 65_536, (1 << 31) - 1, 1 << 32, (1 << 62), (1 << 62) + 1, (1 << 64) - 1)


def seeds() -> list[bytes]:
    """Valid records: short and long, empty, with and without a total, at the edges of their numbers."""
    job, attempt, most = "01990c5e-7d0d-7a1e-8000-000000000001", "f" * 32, 1 << 62
    ones = [
        Checkpoint(job, "sample.walk", 1, attempt, 1, 1, 0, 0, None, b""),
        Checkpoint(job, "sample.walk", 2, attempt, 3, 7, 2, 5, 9, b'{"at":3}'),
        Checkpoint(job, "k" * 200, most, attempt, most, most, most, most, most, bytes(range(256))),
        Checkpoint("j", "k", 1, "a", 1, 1, 0, 0, 0, bytes(2_000)),
    ]
    return [record.encode(one) for one in ones]


def flip(data: bytearray, luck: Random) -> None:
    for _ in range(luck.randint(1, 4)):
        data[luck.randrange(len(data))] ^= 1 << luck.randrange(8)


def overwrite(data: bytearray, luck: Random) -> None:
    at = luck.randrange(len(data))
    data[at : at + 8] = luck.randbytes(min(luck.randint(1, 8), len(data) - at))


def cut(data: bytearray, luck: Random) -> None:
    del data[luck.randrange(len(data)) :]


def grow(data: bytearray, luck: Random) -> None:
    data += luck.randbytes(luck.randint(1, 40))


def remove(data: bytearray, luck: Random) -> None:
    at = luck.randrange(len(data))
    del data[at : at + luck.randint(1, 16)]


def insert(data: bytearray, luck: Random) -> None:
    at = luck.randrange(len(data))
    data[at:at] = luck.randbytes(luck.randint(1, 16))


def repeat(data: bytearray, luck: Random) -> None:
    at = luck.randrange(len(data))
    data += data[at:]


def lie_about_size(data: bytearray, luck: Random) -> None:
    data[12:20] = struct.pack(">Q", luck.choice(_LARGE))


def lie_about_format(data: bytearray, luck: Random) -> None:
    data[8:12] = struct.pack(">I", luck.getrandbits(32))


def lie_about_values(data: bytearray, luck: Random) -> None:
    """Other values of other types in the place of some of the record's own."""
    values = list(msgspec.msgpack.decode(data[HEAD_BYTES:-SUM_BYTES]))
    for _ in range(luck.randint(1, 3)):
        values[luck.randrange(len(values))] = _value(luck)
    if luck.random() < 0.1:
        values.append(_value(luck))
    data[HEAD_BYTES:-SUM_BYTES] = msgspec.msgpack.encode(values)


def _value(luck: Random) -> object:
    number = luck.choice(_LARGE)
    choices = (None, True, number, -1, 1.5, "", "x" * luck.randint(1, 300), b"", luck.randbytes(3), [], {}, [[]])
    return luck.choice(choices)


Deed = Callable[[bytearray, Random], None]
DEEDS: tuple[Deed, ...] = (
    flip,
    overwrite,
    cut,
    grow,
    remove,
    insert,
    repeat,
    lie_about_size,
    lie_about_format,
    lie_about_values,
)
LYING = frozenset([lie_about_size, lie_about_format])


def damaged(valid: bytes, luck: Random) -> tuple[str, bytes]:
    """A record with one or more kinds of damage; half of them sealed again, so that size and checksum fit."""
    data, deed = bytearray(valid), luck.choice(DEEDS)
    deed(data, luck)
    if luck.random() < 0.5 and len(data) >= HEAD_BYTES + SUM_BYTES:
        if deed not in LYING:
            data[12:20] = struct.pack(">Q", len(data))
        data[-SUM_BYTES:] = hashlib.sha256(memoryview(data)[:-SUM_BYTES]).digest()
        return f"{deed.__name__}, sealed", bytes(data)
    return deed.__name__, bytes(data)
