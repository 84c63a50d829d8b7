"""How much a workspace keeps as artefacts: the table `[artefacts]` of its manifest, read and checked.

What does not live here: what the bounds mean (`core.artefact`), and who asks for them (`keeping`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from perenne.core.artefact import Room
from perenne.errors import InvalidInput
from perenne.files.workspace import Workspace

MOST_BYTES = 1 << 62


def of(workspace: Workspace) -> Room:
    """The bounds that the manifest gives; the defaults for what it leaves out.

    Raises: InvalidInput: names the manifest, the field, its value and what may stand there.
    """
    given: Mapping[str, Any] = workspace.artefacts or {}
    for name, value in given.items():
        if name not in Room.__struct_fields__:
            known = ", ".join(Room.__struct_fields__)
            raise InvalidInput(f"{workspace.manifest}: artefacts.{name}: no such field; known are {known}", field=name)
        if type(value) is not int or not 0 <= value <= MOST_BYTES:
            raise InvalidInput(
                f"{workspace.manifest}: artefacts.{name}: {value!r}, the limit is 0 to {MOST_BYTES}; "
                f"give a whole number in it",
                field=name,
                value=value,
            )
    return Room(**given)
