"""What a disk that honours nothing but sync may hold after a power cut, operation by operation.

What lives here: files, names, and how much of what was not synced survives. What does not: SQLite, and what is right.
Data are kept or lost by 512-byte sectors, names one by one; a sync of a file keeps its bytes, not its name, and a sync
of a folder keeps the names in it. A rename happens as a whole or not at all.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from pathlib import PurePath
from random import Random
from typing import Any, NamedTuple

SECTOR_BYTES = 512
Image = dict[str, bytes]


class Piece(NamedTuple):
    """A part of a write that survives or not by itself; without data it is a new length of the file."""

    offset: int
    data: bytes | None


@dataclass(eq=False)
class File:
    """One file: what is certainly on the disk, and what is on its way."""

    durable: bytearray = field(default_factory=bytearray)
    pending: list[Piece] = field(default_factory=list)


Keep = Callable[[Sequence[Any]], Sequence[Any]]
Change = dict[str, File | None]  # of names, all of them or none; None: nothing has the name any more


class Disk:
    """The state of one folder, with the folders in it, while a recording is played into it."""

    def __init__(self) -> None:
        self._kept: dict[str, File] = {}  # by the names that are certainly on the disk
        self._seen: dict[str, File] = {}  # by the names that a running program sees
        self._changes: list[Change] = []  # on their way
        self._kept_folders: set[str] = {"."}
        self._new_folders: list[str] = []  # nothing in them is found before their own names are synced

    def play(self, operation: tuple[Any, ...]) -> None:
        """Carry out one recorded operation."""
        verb, name, *rest = operation
        getattr(self, f"_{verb}")(name, *rest)

    def _adopt(self, name: str, content: bytes) -> None:
        """A file that was there, whole and synced, before the recording began."""
        self._kept[name] = self._seen[name] = File(bytearray(content))

    def _adopt_folder(self, name: str) -> None:
        self._kept_folders.add(name)

    def _folder(self, name: str) -> None:
        self._new_folders.append(name)

    def _create(self, name: str) -> None:
        self._change({name: File()})

    def _link(self, name: str, second: str) -> None:
        self._change({second: self._seen[name]})

    def _rename(self, name: str, to: str) -> None:
        self._change({to: self._seen[name], name: None})

    def _change(self, change: Change) -> None:
        rename(self._seen, [change])
        self._changes.append(change)

    def _write(self, name: str, offset: int, data: bytes) -> None:
        self._seen[name].pending += in_sectors(offset, data)

    def _truncate(self, name: str, size: int) -> None:
        self._seen[name].pending.append(Piece(size, None))

    def _sync(self, name: str, and_names: bool) -> None:
        file = self._seen[name]
        apply(file.durable, file.pending)
        file.pending.clear()
        if and_names:
            self._sync_folder(_folder_of(name))

    def _delete(self, name: str, and_names: bool) -> None:
        self._change({name: None})
        if and_names:
            self._sync_folder(_folder_of(name))

    def _sync_folder(self, folder: str) -> None:
        """The names in it are on the disk; not its own, and none in the folders below."""
        rename(self._kept, [change for change in self._changes if _folder_of(next(iter(change))) == folder])
        self._changes = [change for change in self._changes if _folder_of(next(iter(change))) != folder]
        self._kept_folders.update(new for new in self._new_folders if _folder_of(new) == folder)
        self._new_folders = [new for new in self._new_folders if _folder_of(new) != folder]

    def image(self, data: Keep, names: Keep) -> Image:
        """What stands there after a power cut now; `data` and `names` choose what survives of what is on its way."""
        found = dict(self._kept)
        rename(found, names(self._changes))
        folders = self._kept_folders.union(names(self._new_folders))
        there = {name: file for name, file in found.items() if _above(name) <= folders}
        contents: dict[int, bytes] = {}
        for file in there.values():
            if id(file) not in contents:  # one that has two names has one content
                content = bytearray(file.durable)
                apply(content, data(file.pending))
                contents[id(file)] = bytes(content)
        return {name: contents[id(file)] for name, file in there.items()}

    def whole(self) -> Image:
        """What stands there when everything reaches the disk."""
        return self.image(_all, _all)


def in_sectors(offset: int, data: bytes) -> list[Piece]:
    """A write, cut where sectors begin."""
    first = SECTOR_BYTES - offset % SECTOR_BYTES
    cuts = [0, *range(first, len(data), SECTOR_BYTES), len(data)]
    return [Piece(offset + begin, data[begin:end]) for begin, end in pairwise(cuts) if begin < end]


def apply(content: bytearray, pieces: Sequence[Piece]) -> None:
    """Write pieces in this order; what lies between the end of a file and a later piece is zeros."""
    for offset, data in pieces:
        if len(content) < offset:
            content.extend(bytes(offset - len(content)))
        if data is None:
            del content[offset:]
        else:
            content[offset : offset + len(data)] = data


def rename(names: dict[str, File], changes: Sequence[Change]) -> None:
    """Carry out changes of names."""
    for change in changes:
        for name, file in change.items():
            if file is None:
                names.pop(name, None)
            else:
                names[name] = file


def _folder_of(name: str) -> str:
    return os.path.dirname(name) or "."


@cache
def _above(name: str) -> frozenset[str]:
    """The folders that must be there for a file of this name to be found."""
    return frozenset(map(str, PurePath(name).parents))


def _all(things: Sequence[Any]) -> Sequence[Any]:
    return things


def _none(things: Sequence[Any]) -> Sequence[Any]:
    return ()


def draw(disk: Disk, luck: Random, number: int) -> Image:
    """One possible survivor; the manners of loss take turns, the four that know no luck among them."""
    manner = _MANNERS[number % len(_MANNERS)]
    if isinstance(manner, tuple):
        return disk.image(*manner)
    return disk.image(lambda pieces: manner(pieces, luck), lambda changes: _some_names(changes, luck))


def _some_names(changes: Sequence[Any], luck: Random) -> Sequence[Any]:
    return _subset(changes, luck) if luck.random() < 0.3 else _prefix(changes, luck)


def _prefix(things: Sequence[Any], luck: Random) -> Sequence[Any]:
    return things[: luck.randint(0, len(things))]


def _subset(things: Sequence[Any], luck: Random) -> Sequence[Any]:
    density = luck.random()
    return [thing for thing in things if luck.random() < density]


def _hole(pieces: Sequence[Piece], luck: Random) -> Sequence[Piece]:
    """Everything but a run of one to sixteen pieces."""
    begin = luck.randint(0, len(pieces))
    return [*pieces[:begin], *pieces[begin + luck.choice((1, 1, 2, 8, 9, 16)) :]]


def _either(pieces: Sequence[Piece], luck: Random) -> Sequence[Piece]:
    """One file wholly, another not at all."""
    return pieces if luck.random() < 0.5 else ()


def _reordered(pieces: Sequence[Piece], luck: Random) -> Sequence[Piece]:
    kept = list(_subset(pieces, luck))
    luck.shuffle(kept)
    return kept


def _torn(pieces: Sequence[Piece], luck: Random) -> Sequence[Piece]:
    """A sector that was being written when the power went: its first or its last bytes are new, the others old."""
    kept = list(_prefix(pieces, luck) if luck.random() < 0.5 else _subset(pieces, luck))
    if kept:
        place = luck.choice((len(kept) - 1, luck.randrange(len(kept))))
        kept[place] = _tear(kept[place], luck)
    return kept


def _tear(piece: Piece, luck: Random) -> Piece:
    offset, data = piece
    if data is None:
        return piece
    cut = luck.randint(0, len(data))
    return Piece(offset, data[:cut]) if luck.random() < 0.5 else Piece(offset + cut, data[cut:])


Manner = Callable[[Sequence[Piece], Random], Sequence[Piece]] | tuple[Keep, Keep]
_MANNERS: tuple[Manner, ...] = (
    (_none, _none),
    _prefix,
    _torn,
    _subset,
    (_all, _none),
    _hole,
    _reordered,
    (_all, _all),
    _either,
    _torn,
    _prefix,
    (_none, _all),
    _reordered,
)


def digest(image: Image, *facts: object) -> bytes:
    """The same for two images exactly if their names, contents and the facts that hold for them are the same."""
    found = hashlib.blake2b(repr(facts).encode(), digest_size=16)
    for name in sorted(image):
        found.update(f"\0{name}\0{len(image[name])}\0".encode())
        found.update(image[name])
    return found.digest()
