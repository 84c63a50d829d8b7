"""`perenne artefact`: writes a file that a job keeps to where a person wants it. `show` lists them."""

from __future__ import annotations

from pathlib import Path

import click

from perenne.surfaces import views
from perenne.surfaces.cli import options


@click.command(short_help="Write out a file that a job keeps.")
@click.argument("job", type=options.Job())
@click.argument("name")
@click.option("--out", "-o", type=options.Folder(path_type=Path), required=True, help="The new file to write.")
@options.workspace
def artefact(job: str, name: str, out: Path, root: Path) -> None:
    """Write the artefact NAME of JOB to a new file; its bytes are checked against their digest on the way.

    Example: perenne artefact 01990c5e model.ply --out model.ply
    """
    from perenne.errors import InvalidInput

    with options.opened(root, "read") as engine:
        kept = {one.name: one for one in engine.artefacts(engine.view.find(job))}
        if name not in kept:
            known = ", ".join(map(views.one_line, kept)) or "none"
            raise InvalidInput(f"name: the job keeps no {name!r}; it keeps {known}", field="name", value=name)
        engine.save_artefact(kept[name], out)
        click.echo(f"{out}  {views.size(kept[name].size_bytes)}  {kept[name].media_type}")


COMMANDS = (artefact,)
