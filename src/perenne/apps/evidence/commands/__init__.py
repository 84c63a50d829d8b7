"""The commands that Evidence adds to the command line: `perenne evidence …`; one file per concern beside this one."""

from __future__ import annotations

import click

from perenne.apps.evidence.commands.asking import enqueue, submit
from perenne.apps.evidence.commands.demo import demo
from perenne.apps.evidence.commands.looking import export, status
from perenne.apps.evidence.commands.making import create, import_, init_specimen
from perenne.apps.evidence.commands.steering import cancel, pause, resume, stop
from perenne.apps.evidence.commands.working import run

_COMMANDS = (demo, init_specimen, create, import_, enqueue, submit, run, status, export, pause, resume, stop, cancel)


class _InOrder(click.Group):
    """Lists its commands in the order in which one meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_InOrder)
def group() -> None:
    """Mail and picture forensics: every file analysed once, every finding traceable to its bytes.

    An investigation is one folder. Nothing is sent anywhere.
    """


for _command in _COMMANDS:
    group.add_command(_command)
