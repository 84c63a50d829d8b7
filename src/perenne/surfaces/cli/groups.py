"""The command groups that installed applications add to the command line, found by entry point.

An application is named by the entry point group `perenne.apps`, its commands by the dotted string in its `App`; both
are loaded only when one of its commands is called.
"""

from __future__ import annotations

import tomllib
from importlib import import_module, metadata
from pathlib import Path
from typing import TYPE_CHECKING

import click

from perenne.errors import InvalidInput

if TYPE_CHECKING:
    from perenne import App

GROUP = "perenne.apps"


def names() -> list[str]:
    """The names of the installed applications, sorted; nothing of them is loaded."""
    return sorted({entry.name for entry in metadata.entry_points(group=GROUP)})


def load(name: str) -> click.Command | None:
    """The commands of the application of this name; None when it is not installed or adds none.

    Raises: InvalidInput: the installed application does not keep to the form.
    """
    app = find(name)
    return None if app is None or app.commands is None else _command(name, app.commands)


def find(name: str) -> App | None:
    """The installed application of this name.

    Raises: InvalidInput: what is installed does not keep to the form.
    """
    from perenne import App  # here, because listing the names must not wait for what an App stands on

    for entry in metadata.entry_points(group=GROUP, name=name):
        app = entry.load()
        if not isinstance(app, App):
            raise InvalidInput(f"entry point {entry.value} of application {name} is no App; repair its installation")
        return app
    return None


def app_of(root: Path) -> App | None:
    """The application of a workspace; None when the folder does not tell, or it is not installed here."""
    try:
        manifest = tomllib.loads((root / "workspace.toml").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return find(str(manifest.get("app")))


def required_app_of(root: Path) -> App:
    """Raises: InvalidInput: the application of the workspace is not known here."""
    app = app_of(root)
    if app is None:
        known = ", ".join(names()) or "none"
        raise InvalidInput(f"workspace: {root} names no application that is installed; installed are {known}")
    return app


def _command(name: str, where: str) -> click.Command:
    module, _, attribute = where.partition(":")
    command = getattr(import_module(module), attribute, None)
    if not isinstance(command, click.Command):
        raise InvalidInput(f"{where}, the commands of application {name}, is no click command; repair its installation")
    return command
