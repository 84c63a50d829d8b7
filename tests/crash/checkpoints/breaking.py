"""One deed of damage to a workspace that nobody has open: to a file of a checkpoint, its row, its lock, its folder.

What does not live here: what is asked afterwards (`workspaces`), and damage to the bytes of a record (`damage`).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random

import apsw

from checkpoints.damage import damaged
from perenne.files import record

FILES, ROWS = (1, 2), (0, 3)  # the jobs whose checkpoints lie in files, and in their rows


@dataclass(frozen=True)
class Place:
    """What was done, to which jobs, and whether the workspace itself may be refused for it."""

    deed: str
    harmed: frozenset[int] = frozenset()
    may_refuse: bool = False


@dataclass(frozen=True)
class _Ground:
    root: Path
    ids: list[str]
    luck: Random

    @property
    def folder(self) -> Path:
        return self.root / ".perenne" / "checkpoints"

    def file(self, number: int) -> Path:
        return self.folder / f"{self.ids[number]}.chk"

    def edit(self, statement: str, *values: object) -> None:
        connection = apsw.Connection(str(self.root / ".perenne" / "ledger.sqlite"))
        connection.execute(statement, values)
        connection.close()


def damage(root: Path, ids: list[str], luck: Random) -> Place:
    """Do one deed, drawn by luck."""
    return luck.choice(_DEEDS)(_Ground(root, ids, luck))


def _bytes(ground: _Ground) -> Place:
    number = ground.luck.choice(FILES)
    path = ground.file(number)
    deed, data = damaged(path.read_bytes(), ground.luck)
    path.write_bytes(data)
    return Place(f"file, {deed}", frozenset([number]))


def _replaced(ground: _Ground) -> Place:
    number = ground.luck.choice(FILES)
    path, luck = ground.file(number), ground.luck
    path.unlink()
    ways: dict[str, Callable[[], object]] = {
        "missing": lambda: None,
        "empty": lambda: path.touch(),
        "a folder": lambda: path.mkdir(),
        "a link": lambda: path.symlink_to(ground.file(FILES[0] + FILES[1] - number)),
        "a loop": lambda: path.symlink_to(path),
        "a pipe": lambda: os.mkfifo(path),
        "noise": lambda: path.write_bytes(luck.randbytes(luck.randint(1, 5_000))),
        "a picture": lambda: path.write_bytes(b"\x89PNG\r\n\x1a\n" + luck.randbytes(500)),
        "another's": lambda: shutil.copy(ground.file(FILES[0] + FILES[1] - number), path),
        "too large": lambda: (path.touch(), os.truncate(path, record.RECORD_BYTES + luck.randint(1, 1 << 40))),
    }
    way = luck.choice(sorted(ways))
    ways[way]()
    return Place(f"file replaced, {way}", frozenset([number]))


def _swapped(ground: _Ground) -> Place:
    one, two = map(ground.file, FILES)
    aside = ground.folder / "aside"
    one.rename(aside)
    two.rename(one)
    aside.rename(two)
    return Place("two files swapped", frozenset(FILES))


def _row(ground: _Ground) -> Place:
    number = ground.luck.randrange(len(ground.ids))
    digest, size = ground.luck.randbytes(32).hex(), ground.luck.randint(1, 1 << 40)
    column, value = ground.luck.choice([("digest", digest), ("size_bytes", size), ("generation", 99), ("number", 77)])
    ground.edit(
        f"update checkpoint set {column} = ? where job = (select seq from job where id = ?)", value, ground.ids[number]
    )
    return Place(f"row, other {column}", frozenset([number]))


def _record(ground: _Ground) -> Place:
    number = ground.luck.choice(ROWS)
    id = ground.ids[number]
    connection = apsw.Connection(str(ground.root / ".perenne" / "ledger.sqlite"))
    where = "where job = (select seq from job where id = ?)"
    ((data,),) = connection.execute(f"select record from checkpoint {where}", (id,)).fetchall()
    deed, wrong = damaged(data, ground.luck)
    connection.execute(f"update checkpoint set record = ? {where}", (wrong, id))
    connection.close()
    return Place(f"record in the row, {deed}", frozenset([number]))


def _lock(ground: _Ground) -> Place:
    number = ground.luck.randrange(len(ground.ids))
    path = ground.folder / f"{ground.ids[number]}.chk.lock"
    path.unlink(missing_ok=True)
    ways: dict[str, Callable[[], object]] = {
        "missing": lambda: None,
        "a folder": lambda: path.mkdir(),
        "a link": lambda: path.symlink_to(ground.root / "elsewhere"),
        "a pipe": lambda: os.mkfifo(path),
        "noise": lambda: path.write_bytes(ground.luck.randbytes(100)),
    }
    way = ground.luck.choice(sorted(ways))
    ways[way]()
    return Place(f"lock, {way}", frozenset([number]))


def _strangers(ground: _Ground) -> Place:
    """Files that nobody has named; they harm nobody."""
    luck = ground.luck
    id = luck.choice(ground.ids)
    names = ["README", f"{id}.1-00000000.1.next", f"{id}.chk.next", ".hidden", "nobody.chk", "a b\n.chk", "é.chk.lock"]
    for name in luck.sample(names, luck.randint(1, len(names))):
        (ground.folder / name).write_bytes(luck.randbytes(luck.randint(0, 200)))
    if luck.random() < 0.3:
        (ground.folder / "folder.chk").mkdir()
    return Place("strangers in the folder")


def _no_folder(ground: _Ground) -> Place:
    shutil.rmtree(ground.folder)
    if ground.luck.random() < 0.5:
        ground.folder.write_bytes(b"a file")
        return Place("folder is a file", frozenset(range(len(ground.ids))), may_refuse=True)
    return Place("folder is missing", frozenset(FILES))


def _manifest(ground: _Ground) -> Place:
    path = ground.root / "workspace.toml"
    data = bytearray(path.read_bytes())
    for _ in range(ground.luck.randint(1, 3)):
        data[ground.luck.randrange(len(data))] = ground.luck.randrange(256)
    path.write_bytes(bytes(data))
    return Place("manifest, overwritten", may_refuse=True)


_DEEDS: tuple[Callable[[_Ground], Place], ...] = (
    *([_bytes] * 6),
    *([_replaced] * 4),
    *([_record] * 4),
    *([_row] * 3),
    *([_lock] * 2),
    _swapped,
    _strangers,
    _no_folder,
    _manifest,
)
