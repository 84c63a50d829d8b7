"""The project folders and task records of Lardon3D: how they are recognised. None of them is read here."""

from __future__ import annotations

import configparser
from pathlib import Path

from perenne.errors import EngineError, StoreForeign
from perenne.files import regular

PROGRAM = "Lardon3D"
RECORD_MAGIC = b"L3DTASK\0"
_MANIFEST, _OWN_FOLDER = "project.ini", ".lardon3d"
_MANIFEST_BYTES = 64 * 1024


def refuse_project(root: Path) -> None:
    """Raises: StoreForeign: the folder is a project of that program."""
    if (root / _OWN_FOLDER).is_dir() or _is_manifest(root / _MANIFEST):
        raise StoreForeign(
            f"workspace: {root} is a project of {PROGRAM}, whose files Perenne neither reads nor changes; "
            f"choose another folder",
            path=str(root),
        )


def _is_manifest(path: Path) -> bool:
    """Whether it is an INI file with the section that each project has, and the project's database beside it."""
    if not (path.is_file() and path.with_name("project.db").exists()):
        return False
    found = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        found.read_string(regular.read(path, limit_bytes=_MANIFEST_BYTES).decode())
    except (EngineError, ValueError, configparser.Error):
        return False
    return found.has_section("project")
