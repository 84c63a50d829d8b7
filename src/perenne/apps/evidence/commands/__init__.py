"""The commands that Evidence adds to the command line: `perenne evidence …`; one file per concern beside this one."""

from __future__ import annotations

from importlib import import_module

import click

# In the order in which one meets them; the file of a command is loaded when it is called.
_FILES = {
    "demo": "demo",
    "init-specimen": "making",
    "create": "making",
    "import": "making",
    "adopt": "adopting",
    "enqueue": "asking",
    "submit": "asking",
    "run": "working",
    "status": "looking",
    "export": "looking",
    "pause": "steering",
    "resume": "steering",
    "stop": "steering",
    "cancel": "steering",
    "mail": "mailing",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_FILES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _FILES:
            return None
        file = import_module(f"{__name__}.{_FILES[cmd_name]}")
        command: click.Command = next(
            one for one in vars(file).values() if isinstance(one, click.Command) and one.name == cmd_name
        )
        return command


@click.group(cls=_Commands)
def group() -> None:
    """Mail and picture forensics: every file analysed once, every finding traceable to its bytes.

    An investigation is one folder. Nothing is sent anywhere.
    """
