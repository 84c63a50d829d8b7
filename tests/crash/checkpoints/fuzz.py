"""Millions of damaged records of checkpoints: each is read as what it says, or refused in one sentence.

python tests/crash/checkpoints/fuzz.py --inputs 10000000       kept in docs/evidence/checkpoint-fuzz.json
"""

from __future__ import annotations

import argparse
import json
import platform
import struct
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

import msgspec

from checkpoints.damage import damaged, seeds
from perenne.errors import CheckpointCorrupt, CheckpointUnsupported
from perenne.files import record
from perenne.files.record import Checkpoint

EVIDENCE = Path(__file__).parents[3] / "docs" / "evidence" / "checkpoint-fuzz.json"
SEED = 500
_MOST_WRONG = 20


@dataclass
class Found:
    """What came of some inputs; `wrong` holds those that did neither, in hexadecimal."""

    answers: Counter[str] = field(default_factory=Counter)
    deeds: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def inputs(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Damaged records, each with the word for its damage."""
    luck, valid = Random(seed), seeds()
    for number in range(count):
        yield damaged(valid[number % len(valid)], luck)


def ask(data: bytes) -> str:
    """What the codec answers; anything but a whole checkpoint or a refusal goes up."""
    try:
        found = record.decode(data)
    except CheckpointUnsupported:
        return "unsupported"
    except CheckpointCorrupt as error:
        said = str(error)
        assert 0 < len(said) < 1_000, said
        assert "\n" not in said, said
        return "corrupt"
    assert _is_right(found, data), "it reads something that the bytes do not say"
    return "read"


def _is_right(found: Checkpoint, data: bytes) -> bool:
    """Whether the bytes really are a record, judged field by field and not by the codec."""
    magic, version, size = struct.unpack_from(">8sIQ", data)
    values = msgspec.msgpack.decode(data[20:-32])
    counts = (found.sequences, found.done, *(() if found.total is None else (found.total,)))
    return (
        (magic, version, size) == (b"PERENCHK", 1, len(data))
        and tuple(values) == msgspec.structs.astuple(found)
        and min(found.version, found.number, found.generation) >= 1
        and min(counts) >= 0
        and max(counts) <= 1 << 62
        and (found.total is None or found.done <= found.total)
        and all(0 < len(name) <= 200 for name in (found.job, found.kind, found.attempt))
        and type(found.state) is bytes
    )


def fuzz(seed: int, count: int) -> Found:
    found = Found()
    for deed, data in inputs(seed, count):
        try:
            answer = ask(data)
        except Exception as error:
            answer = "wrong"
            if len(found.wrong) < _MOST_WRONG:
                found.wrong.append(f"{deed}: {type(error).__name__}: {error}: {data.hex()[:2_000]}")
        found.answers[answer] += 1
        found.deeds[deed] += 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--inputs", type=int, default=1_000_000)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--out", type=Path, default=EVIDENCE)
    given = parser.parse_args()
    began = time.monotonic()
    found = fuzz(given.seed, given.inputs)
    figures: dict[str, Any] = {
        "what": "damaged records of checkpoints: each is read as what it says, or refused in one sentence",
        "inputs": given.inputs,
        "seed": given.seed,
        "python": platform.python_version(),
        "msgspec": msgspec.__version__,
        "answers": dict(sorted(found.answers.items())),
        "damage": dict(sorted(found.deeds.items())),
        "wrong": found.wrong,
        "seconds": round(time.monotonic() - began),
    }
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text(json.dumps(figures, indent=2) + "\n")
    print(json.dumps(figures))
    return int(bool(found.wrong))


if __name__ == "__main__":
    sys.exit(main())
