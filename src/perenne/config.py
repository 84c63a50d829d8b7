"""The settings of a command: argument > environment > `[tool.perenne]` in pyproject.toml > `workspace.toml` > default.

What lives here: the fields with their bounds, the layers, and where each value came from. What does not: policy that
belongs to data (the bound of a queue, paused or not); that is a row.
"""

from __future__ import annotations

import difflib
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from perenne.errors import InvalidInput, StoreFailed

PREFIX = "PERENNE_"
PROJECT = "pyproject.toml"
MANIFEST = "workspace.toml"
TABLE = "settings"  # of the manifest
FILE_BYTES = 1 << 20
SLOTS = range(1, 1025)
COROUTINES = range(1, 10_001)
COLOURS = ("auto", "always", "never")
LEVELS = ("info", "warning", "error")
# Of other parts of this program; every other name that begins so is a mistake.
OTHERS = frozenset({"PERENNE_CRASH_POINT", "PERENNE_DEBUG"})

T = TypeVar("T")


class Value(NamedTuple):
    """What a setting is, and who says so."""

    value: Any
    source: str


@dataclass(frozen=True)
class Settings:
    """The merged settings.

    Args:
        workspace: folder of the workspace; None where nobody says.
        app: an installed application, or `module:name`; None where nobody says.
        app_folder: where `module:name` is importable.
        slots: jobs that one worker runs at the same time, 1 to 1024.
        coroutines: handlers that one worker awaits at the same time, besides those slots, 1 to 10,000.
        color: auto, always or never; auto is a terminal without NO_COLOR.
        allow_filesystems: types of unsafe file systems on which a new workspace is made in spite of the danger.
        log_level: what a worker says of the jobs it ends: info all, warning all but COMPLETED, error FAILED and DEAD.
        sources: of each setting, who said it.
    """

    workspace: Path | None = None
    app: str | None = None
    app_folder: Path = Path()
    slots: int = 1
    coroutines: int = 1_000
    allow_filesystems: tuple[str, ...] = ()
    color: str = "auto"
    log_level: str = "info"
    sources: Mapping[str, str] | None = None


class Field(NamedTuple):
    """One setting: how a value is read, what is allowed, and whether a workspace may say it."""

    read: Callable[[Any], Any]
    limit: str
    in_workspace: bool = False


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError
    return value


def _number(within: range) -> Callable[[object], int]:
    def read(value: object) -> int:
        if isinstance(value, bool) or not isinstance(value, int | str) or int(value) not in within:
            raise ValueError
        return int(value)

    return read


def _word(words: tuple[str, ...]) -> Callable[[object], str]:
    def read(value: object) -> str:
        if value not in words:
            raise ValueError
        return str(value)

    return read


def _names(value: object) -> tuple[str, ...]:
    """A list, or as one text, with commas, where a source has nothing else."""
    names = value.split(",") if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) and name.strip() for name in names):
        raise ValueError
    return tuple(name.strip() for name in names)


FIELDS: dict[str, Field] = {
    "workspace": Field(_text, "a folder"),
    "app": Field(_text, "an installed application, or module:name"),
    "slots": Field(_number(SLOTS), f"a whole number from {SLOTS[0]} to {SLOTS[-1]}", in_workspace=True),
    "coroutines": Field(
        _number(COROUTINES), f"a whole number from {COROUTINES[0]} to {COROUTINES[-1]}", in_workspace=True
    ),
    "allow_filesystems": Field(_names, "types of file systems, such as fuse.sshfs"),
    "color": Field(_word(COLOURS), f"one of {', '.join(COLOURS)}", in_workspace=True),
    "log_level": Field(_word(LEVELS), f"one of {', '.join(LEVELS)}", in_workspace=True),
}


def read(arguments: Mapping[str, object], environment: Mapping[str, str], folder: Path) -> Settings:
    """The settings of a command that was called in `folder`; None among the arguments is not said.

    Raises: InvalidInput: every value that is wrong, each with its source, field, value and limit; unknown fields with
    the nearest name.
    """
    project = _nearest(folder)
    layers = [
        _Layer("argument", folder, {name: value for name, value in arguments.items() if value is not None}),
        _Layer("environment", folder, _of_environment(environment), _variable),
        *([] if project is None else [_of_project(project)]),
    ]
    faults: list[str] = []
    found = _merged(layers, faults)
    root = found["workspace"].value if "workspace" in found else locate(folder)
    if root is not None and (Path(root) / MANIFEST).is_file():
        manifest = Path(root) / MANIFEST
        table = _settings_of(manifest)
        found = _merged([_Layer(str(manifest), Path(root), table, in_workspace=True)], faults) | found
    if faults:
        raise InvalidInput(f"settings: {'; '.join(faults)}", faults=faults)
    return _settings(found, root)


def locate(folder: Path) -> Path | None:
    """The workspace that is meant when nobody says: this folder, else the only one directly below; None for neither.

    Raises: StoreFailed: the machine could not look.
    """
    try:
        if (folder / MANIFEST).is_file():
            return folder
        below = sorted(folder.glob(f"*/{MANIFEST}"))
    except OSError as error:
        raise StoreFailed(
            f"folder {folder} could not be looked through: {error.strerror}; name the workspace, or try again",
            path=str(folder),
        ) from error
    return below[0].parent if len(below) == 1 else None


def unknown_variables(environment: Mapping[str, str]) -> list[str]:
    """A sentence for each variable that looks like one of ours and is none."""
    known = set(map(_variable, FIELDS)) | OTHERS
    strange = sorted(name for name in environment if name.startswith(PREFIX) and name not in known)
    return [f"{name} means nothing{_nearest_name(name, sorted(known))}" for name in strange]


class _Layer(NamedTuple):
    """What one source says; `spelt` is how it calls a field."""

    source: str
    folder: Path
    values: Mapping[str, object]
    spelt: Callable[[str], str] = str
    in_workspace: bool = False


def _merged(layers: list[_Layer], faults: list[str]) -> dict[str, Value]:
    """The first layer that says a field wins; what is wrong in any layer is a fault, whoever wins."""
    found: dict[str, Value] = {}
    for layer in layers:
        for name, given in layer.values.items():
            field = FIELDS.get(name)
            known = [known for known, one in FIELDS.items() if one.in_workspace or not layer.in_workspace]
            if field is None or name not in known:
                faults.append(f"{layer.source}: {layer.spelt(name)} is not a setting{_nearest_name(name, known)}")
                continue
            try:
                value = field.read(given)
            except (ValueError, TypeError):
                faults.append(f"{layer.source}: {layer.spelt(name)} is {given!r}; give {field.limit}")
                continue
            if name == "workspace":
                value = layer.folder / value
            source = layer.source if layer.spelt is str else layer.spelt(name)
            found.setdefault(name, Value(value, source))
            if name == "app":
                found.setdefault("app_folder", Value(layer.folder, source))
    return found


def _settings(found: dict[str, Value], root: Path | None) -> Settings:
    sources = {name: value.source for name, value in found.items()}
    if "workspace" not in found and root is not None:
        found["workspace"], sources["workspace"] = Value(root, "found"), "found below the current folder"
    defaults = {field.name: "default" for field in fields(Settings) if field.name in FIELDS}
    return Settings(**{name: value.value for name, value in found.items()}, sources=defaults | sources)


def _variable(name: str) -> str:
    return f"{PREFIX}{name.upper()}"


def _of_environment(environment: Mapping[str, str]) -> dict[str, object]:
    return {name: environment[key] for name in FIELDS if (key := _variable(name)) in environment}


def _nearest(folder: Path) -> Path | None:
    """The nearest pyproject.toml, in this folder or above."""
    candidates = (place / PROJECT for place in (folder, *folder.parents))
    return next((path for path in candidates if path.is_file()), None)


def _of_project(path: Path) -> _Layer:
    tool = _table(path, "tool")
    table = tool.get("perenne", {})
    if not isinstance(table, dict):
        raise InvalidInput(f"settings: {path}: tool.perenne is {table!r}; give a table", field="tool.perenne")
    return _Layer(f"{path} [tool.perenne]", path.parent, table)


def _settings_of(manifest: Path) -> dict[str, Any]:
    """Those of a workspace; a manifest that cannot be read is refused by whoever opens the workspace."""
    try:
        return _table(manifest, TABLE)
    except InvalidInput:
        return {}


def _table(path: Path, name: str) -> dict[str, Any]:
    """A table of a TOML file; empty when it is not there.

    Raises: InvalidInput: the file cannot be read or is no TOML.
    """
    try:
        with path.open("rb") as file:
            table = tomllib.loads(file.read(FILE_BYTES).decode()).get(name, {})
    except (OSError, ValueError) as error:
        raise InvalidInput(
            f"settings: {path} cannot be read: {error}; mend it, or move it away", path=str(path)
        ) from None
    if not isinstance(table, dict):
        raise InvalidInput(f"settings: {path}: {name} is {table!r}; give a table", path=str(path))
    return table


def _nearest_name(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"; did you mean {near[0]}?" if near else f"; known are {', '.join(known)}"
