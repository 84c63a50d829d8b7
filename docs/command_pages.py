"""Writes `cli.md` from the commands themselves, and the JSON Schema of each document that they print."""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from perenne import config
from perenne.apps.evidence.mail import artefact
from perenne.runtime import resource_page, snapshot, view
from perenne.store import graph
from perenne.surfaces.cli import documents, groups
from perenne.surfaces.cli.main import cli
from perenne.surfaces.faults import Exit

DIALECT = "https://json-schema.org/draft/2020-12/schema"
_EXITS = {
    Exit.DONE: "done",
    Exit.FAILED: "failed: a job, or the command",
    Exit.USAGE: "wrong usage: change what you asked",
    Exit.REFUSED: "refused: not now, or not here; try again later",
    Exit.PERSON: "a person must look, or install something",
}
_PRINTED = {
    "perenne.jobs.snapshot.v1": "`ps --json`, and the file `perenne-snapshot.json`",
    "perenne.job.v1": "`show --json`, `wait --json`",
    "perenne.graph.v1": "`graph --json`",
    "perenne.timeline.v1": "`timeline --json`",
    "perenne.receipt.v1": "`submit --json`, one a line",
    "perenne.findings.v1": "`doctor --json`",
    "perenne.resources.v1": "`resources --json`",
    "perenne.version.v1": "`version --json`",
    artefact.CONTRACT: "`evidence mail --json`",
}


def schemas() -> dict[str, str]:
    """The text of each schema by its file in this folder."""
    types: dict[str, Any] = {
        "perenne.job.v1": view.JobPage,
        "perenne.graph.v1": graph.Graph,
        "perenne.timeline.v1": graph.Timeline,
        "perenne.receipt.v1": documents.Submitted,
        "perenne.findings.v1": list[documents.Found],
        "perenne.resources.v1": resource_page.ResourcePage,
        "perenne.version.v1": documents.Versions,
        artefact.CONTRACT: artefact.Analysis,
    }
    found = {name: {"$schema": DIALECT, "$id": name, **msgspec.json.schema(type)} for name, type in types.items()}
    found[snapshot.CONTRACT] = snapshot.schema()
    assert set(found) == set(_PRINTED)
    return {f"schema/{name}.json": json.dumps(found[name], indent=2) + "\n" for name in sorted(found)}


def page() -> str:
    """The page on the command line."""
    return "\n".join([*_opening(), *_exits(), *_settings(), *_documents(), *_commands()]) + "\n"


def _opening() -> Iterator[str]:
    yield "# The command line"
    yield ""
    yield "This page is written by `make docs` from the commands themselves; `perenne COMMAND --help` says the same."
    yield "A job is named by its id or by the beginning of it; a workspace that nobody names is the current folder, or"
    yield "the only one directly below."
    yield ""


def _exits() -> Iterator[str]:
    yield from ["## Exit codes", "", "| code | means |", "| --- | --- |"]
    yield from (f"| {int(code)} | {_EXITS[code]} |" for code in Exit)
    yield ""


def _settings() -> Iterator[str]:
    yield from ["## Settings", ""]
    yield "The first that says a setting wins: argument, environment, `[tool.perenne]` of the nearest `pyproject.toml`,"
    yield "`[settings]` of `workspace.toml`, default. `perenne doctor` says where each comes from."
    yield ""
    yield from ["| setting | variable | value | default | in workspace.toml |", "| --- | --- | --- | --- | --- |"]
    standard = config.Settings()
    for name, field in config.FIELDS.items():
        default = getattr(standard, name)
        shown = "–" if default is None else f"`{default}`"
        allowed = "yes" if field.in_workspace else "no"
        yield f"| `{name}` | `{config.PREFIX}{name.upper()}` | {field.limit} | {shown} | {allowed} |"
    yield ""


def _documents() -> Iterator[str]:
    yield from ["## JSON", "", "| contract | printed by |", "| --- | --- |"]
    yield from (f"| [{name}](schema/{name}.json) | {where} |" for name, where in sorted(_PRINTED.items()))
    yield ""
    yield "Instants are UTC microseconds since 1970."
    yield "`logs --json` prints the lines of the log as they stand."
    yield ""


def _commands() -> Iterator[str]:
    yield from ["## Commands", ""]
    context = click.Context(cli, info_name="perenne")
    for name, command in sorted(cli.commands.items()):
        yield from _command(name, command, context)
        if isinstance(command, click.Group):
            yield from _members(name, command, context)
    for name in groups.names():
        group = groups.load(name)
        if isinstance(group, click.Group):
            yield from [f"## Commands of the application {name}", ""]
            yield from _members(name, group, context)


def _members(name: str, group: click.Group, context: click.Context) -> Iterator[str]:
    inner = click.Context(group, info_name=name, parent=context)
    for word in sorted(group.list_commands(inner)):
        if (command := group.get_command(inner, word)) is not None:
            yield from _command(word, command, inner)


def _command(name: str, command: click.Command, context: click.Context) -> Iterator[str]:
    inner = click.Context(command, info_name=name, parent=context)
    path = inner.command_path.removeprefix("perenne ")
    yield from [f"### {path}", ""]
    yield from (line.rstrip() for line in inspect.cleandoc(command.help or "").splitlines())
    yield from ["", "```", f"{inner.command_path} {' '.join(command.collect_usage_pieces(inner))}", "```", ""]
    own = [param for param in command.params if isinstance(param, click.Option)]
    rows = [record for param in own if (record := param.get_help_record(inner))]
    if rows:
        yield from ["| option | |", "| --- | --- |"]
        yield from (f"| `{_cell(said)}` | {_cell(text)} |" for said, text in rows)
        yield ""


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
