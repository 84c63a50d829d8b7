"""`resources`: what the machine has, who holds what of it, and who waits for what. Reads only."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from perenne.surfaces import views
from perenne.surfaces.cli import options, watching

REFRESH_S = 1.0


@click.command(short_help="Show who holds which resources.")
@options.workspace
@click.option("--watch", is_flag=True, help="Show it again and again until Ctrl-C.")
@options.as_json
def resources(root: Path, watch: bool, as_json: bool) -> None:
    """Show what this machine can give away, the jobs that hold it, those that wait for it, and what was really used.

    Example: perenne resources --watch
    """
    with options.opened(root, "read") as engine:
        if as_json:
            options.echo_json(engine.view.resources())
        elif watch:
            watching.again_and_again(lambda: page(engine.view.resources(), options.width()), REFRESH_S)
        else:
            click.echo("\n".join(page(engine.view.resources(), options.width())))


def page(found: Any, width: int) -> list[str]:
    """The lines of the page."""
    lines = list(_machine(found))
    if found.holding:
        rows = [_holding(one) for one in found.holding]
        lines += ["", *views.table(("JOB", "KIND", "BATCH", "MEMORY", "THREADS", "WAITS FOR"), rows, width=width)]
    for one in found.waiting:
        lines += ["", *views.folded(f"{one.kind}@{one.version} in {one.queue} waits: {one.sentence}", width)]
    if found.measured:
        rows = [_measured(used) for used in found.measured]
        head = ("KIND", "SEQUENCES", "ITEMS", "SAID", "TOOK", "SAID EACH", "TOOK EACH")
        lines += ["", *views.table(head, rows, width=width, flexible=0)]
    return lines


def _machine(found: Any) -> Iterator[str]:
    seen, whole, free = found.machine, found.capacity, found.free
    yield f"memory   {_size(free.memory_bytes)} free of {_size(whole.memory_bytes)} to give away; " + (
        f"{_size(seen.available_bytes)} available on the machine, {_size(found.kept_bytes)} kept for others"
    )
    yield f"threads  {free.threads} free of {whole.threads}; load {_number(seen.load)} on {seen.cpus} CPUs"
    yield f"slots    {free.io_slots} of {whole.io_slots} I/O, {free.gpu_slots} of {whole.gpu_slots} GPU"
    waits = (seen.cpu_percent, seen.memory_percent, seen.io_percent)
    yield "waiting  CPU {} %, memory {} %, disk {} % of the last ten seconds".format(*map(_number, waits))
    yield f"pressure {found.pressure or 'none'}"


def _holding(one: Any) -> tuple[str, ...]:
    batch = "" if one.waits_for else f"{one.batch:,}"
    return one.job, one.kind, batch, views.size(one.memory_bytes), str(one.threads), one.waits_for or "-"


def _measured(one: Any) -> tuple[str, ...]:
    said = (_size(one.declared_bytes), _size(one.peak_bytes), _size(one.declared_item_bytes))
    return f"{one.kind}@{one.version}", str(one.sequences), str(one.items), *said, _size(one.worst_item_bytes)


def _size(size_bytes: int | None) -> str:
    return "unknown" if size_bytes is None else views.size(size_bytes)


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.1f}"


COMMANDS = (resources,)
