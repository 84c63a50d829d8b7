"""`mail`: what one mail says, for people or as JSON; needs no investigation and writes nothing."""

from __future__ import annotations

from pathlib import Path

import click
import msgspec

from perenne.apps.evidence.commands import mail_page
from perenne.apps.evidence.commands.screen import screen
from perenne.apps.evidence.mail import Limits, analyse, encoded
from perenne.files import regular


@click.command(short_help="Show what one mail says, with its bytes.")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="The whole artefact instead of a page.")
@click.option(
    "--trusted", multiple=True, metavar="NAME", help="A receiver whose topmost results count as its own; repeatable."
)
def mail(file: Path, as_json: bool, trusted: tuple[str, ...]) -> None:
    """Show what one mail says: header, hops, parts with their hashes, links, findings, each with its bytes.

    Needs no investigation, sends and writes nothing. The page shortens what is wide; --json has everything.

    Example: perenne evidence mail suspect.eml
    """
    limits = Limits()
    found = analyse(regular.read(file, limit_bytes=limits.file_bytes), limits, trusted=trusted)
    if as_json:
        click.echo(msgspec.json.format(encoded(found), indent=2))
    else:
        click.echo("\n".join(mail_page.lines_of(found, file.name, screen())))
