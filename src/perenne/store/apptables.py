"""Which tables in the ledger's database are an application's own: a prefix, and the steps that made them.

What does not live here: how a statement is kept to the prefix, and how the steps are taken (the drivers).
"""

from __future__ import annotations

import re

import msgspec

from perenne.errors import InvalidInput

# The first words of the engine's own tables, indexes and those to come.
RESERVED = frozenset(
    {"app", "artefact", "attempt", "budget", "checkpoint", "control", "dependency", "history", "job", "listener"}
    | {"notice", "owner", "perenne", "publication", "queue", "reservation", "schedule", "spending", "sqlite", "store"}
    | {"worker", "workspace"}
)


class AppTables(msgspec.Struct, frozen=True):
    """What an application brings: the prefix of its tables, and one text of SQL for each migration, the first first."""

    prefix: str
    steps: tuple[str, ...] = ()


def is_ours(name: str) -> bool:
    """Whether a table of this name is the engine's, or may be one day."""
    return name.lower().partition("_")[0] in RESERVED


def prefix_of(app: str) -> str:
    """What the names of the tables of this application begin with, in lower case: `studio` gives `studio_`.

    Raises: InvalidInput: the engine's own tables begin like that, or no table could.
    """
    word = re.sub(r"[^a-z0-9]+", "_", app.lower()).strip("_")
    if not word or not word[0].isalpha() or is_ours(word):
        raise InvalidInput(
            f"app {app}: its tables would be named {word or '?'}_…, as the engine's own are or no table can be; "
            f"give the app a name that begins with another word",
            field="app",
            value=app,
        )
    return f"{word}_"
