"""The command groups that installed applications add to the command line, found by entry point.

An application names its commands by the dotted string in its `App`; both are loaded only when one of them is called.
"""

from __future__ import annotations

from importlib import import_module, metadata

import click

from perenne.errors import InvalidInput

GROUP = "perenne.apps"


def names() -> list[str]:
    """The names of the installed applications, sorted; nothing of them is loaded."""
    return sorted({entry.name for entry in metadata.entry_points(group=GROUP)})


def load(name: str) -> click.Command | None:
    """The commands of the application of this name; None when it is not installed or adds none.

    Raises: InvalidInput: the installed application does not keep to the form.
    """
    if name not in names():
        return None
    from perenne import upkeep  # here, because listing the names must not wait for the whole engine

    app = upkeep.find_app(name)
    return None if app.commands is None else _command(name, app.commands)


def _command(name: str, where: str) -> click.Command:
    module, _, attribute = where.partition(":")
    command = getattr(import_module(module), attribute, None)
    if not isinstance(command, click.Command):
        raise InvalidInput(f"{where}, the commands of application {name}, is no click command; repair its installation")
    return command
