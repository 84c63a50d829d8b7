"""Whether the files that the catalogue names are still what it says: originals and artefacts. Reads only.

What does not live here: the engine's own files, which its doctor knows, and any mending.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from perenne.apps.evidence import catalogue, places
from perenne.errors import EngineError, StoreMissing

Look = tuple[str, Literal["ok", "warn", "bad"], str, str | None]
SHOWN = 5
_RESTORE = "put it back from a copy; the doctor with --deep then proves its bytes"


def look(root: Path, deep: bool) -> Iterator[Look]:
    """The catalogue, then the originals and the artefacts it names: whether each is there, and of the right size.

    Args: deep: also read every byte and compare the SHA-256.
    Raises: StoreMissing, StoreFailed, StoreForeign, SchemaTooNew, SchemaTooOld: the catalogue cannot be read.
    """
    with catalogue.reading(root) as connection:
        named: list[Any] = connection.execute(
            "select relative_path, size_bytes, sha256 from preuves where status <> 'deleted' order by relative_path"
        ).fetchall()
    yield "catalogue", "ok", f"{places.CATALOGUE} names {len(named):,} files", None
    artefacts = [row for row in named if row[0].startswith(f"{places.DERIVATIVES}/")]
    originals = [row for row in named if not row[0].startswith(f"{places.DERIVATIVES}/")]
    yield from _files(root, "originals", originals, deep)
    yield from _files(root, "artefacts", artefacts, deep)


def _files(root: Path, name: str, named: list[Any], deep: bool) -> Iterator[Look]:
    found = (_fault(root, path, size_bytes, sha256, deep) for path, size_bytes, sha256 in named)
    faults = [fault for fault in found if fault is not None]
    if faults:
        left = len(faults) - SHOWN
        more = f"; and {left:,} more" if left > 0 else ""
        yield name, "bad", f"{len(faults):,} of {len(named):,}: {'; '.join(faults[:SHOWN])}{more}", _RESTORE
    else:
        proof = "their bytes are those that were hashed" if deep else "of the right size"
        yield name, "ok", f"all {len(named):,} are there, {proof}", None


def _fault(root: Path, relative: str, size_bytes: int, sha256: str, deep: bool) -> str | None:
    """What is wrong with one file, in words; None when nothing is."""
    try:
        found_bytes, found_sha256 = places.measure_below(root, relative, hashed=deep)
    except StoreMissing:
        return f"{relative} is missing"
    except (EngineError, OSError) as error:
        return str(error)
    if found_bytes != size_bytes:
        return f"{relative} has {found_bytes:,} bytes, not {size_bytes:,}"
    if deep and found_sha256 != sha256:
        return f"{relative} has other bytes than when it was hashed"
    return None
