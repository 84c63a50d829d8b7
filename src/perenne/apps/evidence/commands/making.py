"""`init-specimen`, `create` and `import`: a workspace, and what is in it."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import click

from perenne import crashpoints
from perenne.apps.evidence import originals
from perenne.apps.evidence.commands import opening
from perenne.apps.evidence.commands.screen import screen
from perenne.errors import InvalidInput


@click.command("init-specimen", short_help="Make a synthetic workspace.")
@opening.new_workspace
def init_specimen(workspace: Path) -> None:
    """Make a synthetic workspace with one invented mail and one invented picture.

    Example: perenne evidence init-specimen --workspace /tmp/specimen
    """
    crashpoints.arm(os.environ, specimen=True)
    click.echo(f"{opening.create_specimen(workspace)}  specimen  {workspace}")


@click.command()
@opening.new_workspace
@click.option("--title", required=True, help="What the investigation is called, at most 160 bytes.")
@click.option(
    "--queue-limit",
    type=opening.Between(1, 1_000_000),
    default=128,
    show_default=True,
    help="How many jobs may be unfinished at once.",
)
def create(workspace: Path, title: str, queue_limit: int) -> None:
    """Make an empty investigation.

    Example: perenne evidence create --workspace ~/case-7 --title "Case 7"
    """
    crashpoints.arm(os.environ, specimen=False)
    click.echo(f"{opening.create(workspace, title=title, queue_limit=queue_limit)}  created  {workspace}")


@click.command("import", short_help="Copy mails and pictures into the investigation.")
@opening.in_workspace
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
def import_(workspace: Path, files: tuple[Path, ...]) -> None:
    """Copy mails (.eml) and pictures (PNG, JPEG) into the investigation, all of them or none.

    A folder stands for all files below it. The same content is the same evidence, whatever its name.

    Example: perenne evidence import --workspace ~/case-7 mails/ photo.jpg
    """
    with opening.opened(workspace, "write"):
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        imported = originals.import_files(workspace, _selection(files), imported_at=now)
    for one in imported:
        name = screen().one_line(one.original_name)
        click.echo(f"{one.evidence_id}  {'reused' if one.reused else 'new   '}  {one.type:<5}  {name}")
    reused = sum(one.reused for one in imported)
    click.echo(f"{screen().count(len(imported) - reused, 'file')} imported, {reused} reused")


def _selection(given: tuple[Path, ...]) -> list[Path]:
    return [path for one in given for path in (_below(one) if one.is_dir() and not one.is_symlink() else [one])]


def _below(folder: Path) -> list[Path]:
    """Every file below a folder, sorted; links are kept, so that they are refused by name and not passed over."""
    found = sorted(Path(place, name) for place, _, names in os.walk(folder, onerror=_refuse) for name in names)
    if not found:
        raise InvalidInput(f"{folder} holds no file; give mails, pictures or a folder of them", path=str(folder))
    return found


def _refuse(error: OSError) -> None:
    raise error
