"""Reads the inputs of new jobs: an argument, the standard input, the lines of a file; each whole, or refused.

What does not live here: what a kind takes (`Kind.encode_input`), and submitting (`sending`).
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perenne import Kind

INPUT_BYTES = 1 << 20  # as it is written; what is kept of it is bounded by the kind
STANDARD_INPUT = "-"


def one(kind: Kind, text: str | None) -> bytes:
    """The input as it was given; without one, nothing where the kind takes that, else no fields.

    Raises: InvalidInput: empty, or a field is there twice. TooLarge.
    """
    from perenne.errors import InvalidInput

    if text is None:
        try:
            return kind.encode_input(b"null")
        except InvalidInput:
            return b"{}"
    if text != STANDARD_INPUT:
        return _checked(text.encode("utf-8", "surrogateescape"), "input")
    return _checked(_standard_input().read(INPUT_BYTES + 1), "input: the standard input")


def lines(kind: Kind, file: str) -> Iterator[tuple[int, bytes]]:
    """Number and input of each line that is not blank, checked by the kind.

    Raises: InvalidInput, TooLarge: name the line. OSError.
    """
    standard = file == STANDARD_INPUT
    return _lines(kind, file, contextlib.nullcontext(_standard_input()) if standard else None)


def _lines(kind: Kind, file: str, standard: AbstractContextManager[IO[bytes]] | None) -> Iterator[tuple[int, bytes]]:
    from perenne.errors import UsageError

    with standard or Path(file).open("rb") as read:
        number = 0
        while line := read.readline(INPUT_BYTES + 1):
            number += 1
            place = f"{file}, line {number}"
            whole = len(line) <= INPUT_BYTES or line.endswith(b"\n")
            if whole and not line.strip():
                continue
            given = _checked(line.strip() if whole else line, place)
            try:
                kind.encode_input(given)
            except UsageError as error:
                raise type(error)(f"{place}: {error}", **error.facts) from None
            yield number, given


def _standard_input() -> IO[bytes]:
    from perenne.errors import InvalidInput

    if sys.stdin is None:
        raise InvalidInput("input: the standard input is closed; give the JSON itself, or open it", field="input")
    return sys.stdin.buffer


def _checked(given: bytes, place: str) -> bytes:
    from perenne.errors import InvalidInput, TooLarge

    if len(given) > INPUT_BYTES:
        raise TooLarge(
            f"{place}: more than {INPUT_BYTES} bytes, which is the limit; submit a reference to the data instead",
            field="input",
            value=len(given),
            limit=INPUT_BYTES,
        )
    if not given.strip():
        raise InvalidInput(f"{place}: it is empty; give JSON, such as '{{}}'", field="input", value="")
    name = _first_twice(given)
    if name is not None:
        raise InvalidInput(f"{place}: field {name!r} is there twice; give it once", field=name)
    return given


class _TwiceError(Exception):
    """A field stands twice in one object."""


def _first_twice(given: bytes) -> str | None:
    """The first field that an object has twice; what is no JSON has none, and is refused by the kind."""
    try:
        json.loads(given.decode(), object_pairs_hook=_once)
    except _TwiceError as twice:
        return str(twice)
    except (ValueError, RecursionError):
        return None
    return None


def _once(pairs: list[tuple[str, Any]]) -> None:
    if len({name for name, _ in pairs}) < len(pairs):
        seen: set[str] = set()
        raise _TwiceError(next(name for name, _ in pairs if name in seen or seen.add(name)))  # type: ignore[func-returns-value]
