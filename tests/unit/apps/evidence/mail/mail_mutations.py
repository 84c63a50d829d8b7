"""Mails that were changed by a seed: flipped bytes, cuts, other line ends, moved and doubled lines, foreign pieces.

`python mail_mutations.py 20000` asks so many and prints what it found; the tests ask fewer.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from perenne.apps.evidence.mail import Analysis, analyse, encoded
from perenne.apps.evidence.mail.parts import decoded_bytes

ROOT = Path(__file__).parents[5]
OWN = sorted((ROOT / "examples/evidence/eml").glob("*.eml"))
# Those of others lie beside the checkout, and are no part of it.
SHARED = sorted((ROOT.parent / "shared/data/evidence/eml").glob("*.eml"))
SAMPLES = [path.read_bytes() for path in (*OWN, *(path for path in SHARED if not path.name.startswith("own-")))]
LIMIT_S = 2.0
PIECES = (
    *(
        b"\r",
        b"\n",
        b"\0",
        b'"',
        b"(",
        b"<",
        b";",
        b":",
        b"=",
        b" ",
        b"\\",
        b"\xff",
        b"--",
        b"\n\n",
        b"=?utf-8?b?",
        b"?=",
    ),
    *(b"http://", b"&#1;", b"filename*1*=", b"begin 644 x\n", b"Content-Type: multipart/mixed; boundary=b\n\n--b\n"),
)
LINE_ENDS = (b"\n", b"\r", b"\r\n\r\n", b"\n\r")

Change = Callable[[random.Random, bytes], bytes]


def flip(luck: random.Random, data: bytes) -> bytes:
    at = luck.randrange(len(data))
    return data[:at] + luck.randbytes(1) + data[at + 1 :]


def cut(luck: random.Random, data: bytes) -> bytes:
    at = luck.randrange(len(data))
    return data[:at] + data[at + luck.randrange(1, 40) :]


def end(luck: random.Random, data: bytes) -> bytes:
    return data[: luck.randrange(len(data))]


def insert(luck: random.Random, data: bytes) -> bytes:
    at = luck.randrange(len(data))
    return data[:at] + luck.choice(PIECES) + data[at:]


def transplant(luck: random.Random, data: bytes) -> bytes:
    other = luck.choice(SAMPLES)
    at, start = luck.randrange(len(data)), luck.randrange(len(other))
    return data[:at] + other[start : start + luck.randrange(200)] + data[at:]


def change_line_ends(luck: random.Random, data: bytes) -> bytes:
    return data.replace(b"\r\n", b"\n").replace(b"\n", luck.choice(LINE_ENDS))


def double_line(luck: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    lines.insert(luck.randrange(len(lines) + 1), luck.choice(lines))
    return b"\n".join(lines)


def drop_line(luck: random.Random, data: bytes) -> bytes:
    lines = data.split(b"\n")
    del lines[luck.randrange(len(lines))]
    return b"\n".join(lines)


def edit_boundary(luck: random.Random, data: bytes) -> bytes:
    places = [at for at in range(len(data) - 1) if data[at : at + 2] == b"--"]
    at = luck.choice(places or [0])
    return data[:at] + luck.choice((b"-", b"---", b"", b" --", b"--x")) + data[at + 2 :]


CHANGES: tuple[Change, ...] = (
    flip, cut, end, insert, transplant, change_line_ends, double_line, drop_line, edit_boundary,
)  # fmt: skip


def mutated(seed: int) -> bytes:
    """The mail of a seed."""
    luck = random.Random(seed)
    data = luck.choice(SAMPLES)
    for _ in range(luck.randint(1, 6)):
        data = luck.choice(CHANGES)(luck, data or b"a: b\n\n")
    return data


def faults(data: bytes) -> Iterator[str]:
    """What is wrong with the analysis of these bytes, in words; nothing when all promises hold."""
    began_s = time.process_time()
    found = analyse(data)
    took_s = time.process_time() - began_s
    if took_s > LIMIT_S:
        yield f"it took {took_s:.1f} s"
    artefact = encoded(found)
    if encoded(analyse(data)) != artefact:
        yield "two runs differ"
    if msgspec.json.decode(artefact, type=Analysis) != found:
        yield "the artefact does not read back"
    if any(defect.kind == "internal_error" for defect in found.defects):
        yield "an internal error"
    yield from misplaced(data, found)


def misplaced(data: bytes, found: Analysis) -> Iterator[str]:
    """The raw texts that do not lie where they say."""
    spaces = {"": data}
    for message in found.messages:
        for part in (one for one in message.parts if one.message is not None and one.coding != "identity"):
            spaces[part.path] = decoded_bytes(spaces[message.space], part.offset, part.length, part.coding)
        held = spaces[message.space]
        for name, offset, raw in raw_texts(message):
            if held[offset : offset + len(raw)] != raw.encode("latin-1"):
                yield f"{name} does not lie at {offset} in space {message.space!r}"


def raw_texts(value: object) -> Iterator[tuple[str, int, str]]:
    """Each raw text with its offset, wherever it stands; an inexact place is that of a part."""
    if isinstance(value, msgspec.Struct):
        raw = getattr(value, "raw", None)
        if isinstance(raw, str) and getattr(value, "exact", True):
            offset = value.value_offset if hasattr(value, "value_offset") else value.offset  # type: ignore[attr-defined]
            yield type(value).__name__, offset, raw
        for name in value.__struct_fields__:
            yield from raw_texts(getattr(value, name))
    elif isinstance(value, tuple):
        for item in value:
            yield from raw_texts(item)


def main(count: int) -> int:
    """Ask so many mails; gives the number of those with a fault."""
    began_s, bad = time.monotonic(), 0
    for seed in range(count):
        said = list(faults(mutated(seed)))
        bad += bool(said)
        if said:
            print(f"seed {seed}: {'; '.join(said)}")
    print(f"{count} mutations, {bad} with a fault, {time.monotonic() - began_s:.0f} s")
    return bad


if __name__ == "__main__":
    sys.exit(bool(main(int(sys.argv[1]))))
