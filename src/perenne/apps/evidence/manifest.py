"""The manifest of an investigation: `workspace.json`, or `specimen.json` of a synthetic one (L:1.6).

Reading and spelling it only; who may create an investigation is decided in `investigation.py`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from perenne.apps.evidence import places
from perenne.apps.evidence.identities import check_uuid
from perenne.errors import InvalidInput, StoreFailed, StoreForeign, StoreMissing

GENERIC_CONTRACT = "labfy.local_workspace.v1"
SPECIMEN_CONTRACT = "labfy.local_jobs.specimen.v1"
SNAPSHOT_CONTRACT = "labfy.web_graph.snapshot.v3"
GENERIC = f"{places.RUNTIME}/workspace.json"
SPECIMEN = f"{places.RUNTIME}/specimen.json"
TITLE_LIMIT_BYTES = 160

_LIMIT_BYTES = 64 * 1024
_SPECIMEN_TITLE = "SPECIMEN"


class Investigation(msgspec.Struct, frozen=True):
    """Which investigation a folder holds; `specimen` is what the manifest says, never guessed from a name (T-34)."""

    id: str
    title: str
    specimen: bool


def spell(investigation: Investigation) -> tuple[str, bytes]:
    """The relative path and the bytes of the manifest of an investigation."""
    if investigation.specimen:
        return SPECIMEN, _line(
            {
                "contract": SPECIMEN_CONTRACT,
                "synthetic": True,
                "snapshot_file": "core-snapshot.json",
                "snapshot_contract": SNAPSHOT_CONTRACT,
                "investigation_id": investigation.id,
                "title": investigation.title,
            }
        )
    return GENERIC, _line(
        {
            "contract": GENERIC_CONTRACT,
            "version": 1,
            "investigation_id": investigation.id,
            "title": investigation.title,
            "mode": "local_experimental",
            "database": places.CATALOGUE,
        }
    )


def read(root: Path) -> Investigation:
    """The investigation that lives in `root`; the generic manifest goes before that of a specimen.

    Raises:
        StoreMissing: neither manifest is there.
        StoreForeign: its contract is another one.
        StoreFailed: it is no regular file, too large, or not what the contract says.
    """
    for relative, contract in ((GENERIC, GENERIC_CONTRACT), (SPECIMEN, SPECIMEN_CONTRACT)):
        try:
            content = places.read_below(root, relative, limit_bytes=_LIMIT_BYTES)
        except StoreMissing:
            continue
        return _parse(root / relative, content, contract)
    raise StoreMissing(
        f"{root} holds no investigation: neither {GENERIC} nor {SPECIMEN} is there; create one, or give its folder",
        path=str(root),
    )


def check_title(title: str) -> str:
    """The title, when it has 1 to 160 bytes of UTF-8, no control character, and is not blank; else InvalidInput."""
    if not isinstance(title, str) or not title.strip() or not title.isprintable():
        raise InvalidInput(
            f"title: {title!r} is blank or holds a control character; give printable words", field="title", value=title
        )
    size_bytes = len(title.encode())
    if size_bytes > TITLE_LIMIT_BYTES:
        raise InvalidInput(
            f"title: {size_bytes} bytes are more than the {TITLE_LIMIT_BYTES} a title may have; shorten it",
            field="title",
            value=size_bytes,
            limit=TITLE_LIMIT_BYTES,
        )
    return title


def _parse(path: Path, content: bytes, contract: str) -> Investigation:
    value = _object(path, content)
    if value.get("contract") != contract:
        raise StoreForeign(
            f"{path} has the contract {value.get('contract')!r} instead of {contract!r}; "
            "open it with the program that wrote it",
            path=str(path),
        )
    specimen = contract == SPECIMEN_CONTRACT
    if specimen and value.get("synthetic") is not True:
        raise StoreFailed(
            f"{path} does not say synthetic: true, which a specimen must; restore the file", path=str(path)
        )
    try:
        title = check_title(value.get("title", _SPECIMEN_TITLE if specimen else ""))
        return Investigation(check_uuid("investigation_id", value.get("investigation_id", "")), title, specimen)
    except InvalidInput as error:
        raise StoreFailed(f"{path} is damaged: {error}; restore the file", path=str(path)) from error


def _object(path: Path, content: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise StoreFailed(f"{path} is not JSON ({error}); restore the file", path=str(path)) from error
    if not isinstance(value, dict):
        raise StoreFailed(f"{path} holds {type(value).__name__} where an object is expected", path=str(path))
    return value


def _line(value: dict[str, Any]) -> bytes:
    return msgspec.json.encode(value) + b"\n"
