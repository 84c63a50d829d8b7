"""Finds an application: by the name under which it is installed, or as `module:name` in the current folder.

What does not live here: which application a workspace belongs to (its manifest says so), and commands of applications.
"""

from __future__ import annotations

import difflib
import os
import sys
import traceback
from importlib import import_module, metadata
from pathlib import Path
from types import ModuleType
from typing import NoReturn

from perenne.app import App
from perenne.errors import EngineError, InvalidInput

GROUP = "perenne.apps"
_LIBRARY = Path(os.__file__).parent  # site-packages lie below it
_OURS = Path(__file__).parents[1]


def names() -> list[str]:
    """The names of the installed applications, sorted; nothing of them is loaded."""
    return sorted({entry.name for entry in metadata.entry_points(group=GROUP)})


def installed(name: str) -> App | None:
    """The installed application of this name.

    Raises: InvalidInput: what is installed does not import, or is no App.
    """
    for entry in metadata.entry_points(group=GROUP, name=name):
        return _attribute(entry.value, entry.module, entry.attr)
    return None


def find(reference: str, folder: Path) -> App:
    """The application that `reference` means: an installed name, or `module:name` with `folder` importable.

    Raises: InvalidInput: it does not exist, does not import (with file and line), or is no App.
    """
    module, colon, attribute = reference.partition(":")
    if not colon:
        return installed(reference) or _missing(reference)
    if not all(part.isidentifier() for part in (*module.split("."), attribute)) or module.endswith(".py"):
        raise _refused(reference, f"{_spelt(module, attribute)}, a module and the name of its App")
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))  # as `python -m` does
    return _attribute(reference, module, attribute)


def _spelt(module: str, attribute: str) -> str:
    """What was probably meant: a path is not a module."""
    dotted, name = module.removesuffix(".py").strip("./").replace("/", "."), attribute or "app"
    return f"{dotted}:{name}" if all(part.isidentifier() for part in (*dotted.split("."), name)) else "module:name"


def _missing(name: str) -> NoReturn:
    here = f"{name}:app" if name.isidentifier() else "module:name"
    raise InvalidInput(
        f"app: {name!r} is not installed (installed: {', '.join(names()) or 'none'}); "
        f"give one of these, or {here} for an App in a module of the current folder",
        field="app",
        value=name,
    )


def _refused(reference: str, sentence: str) -> InvalidInput:
    return InvalidInput(f"app: {reference!r}; give {sentence}", field="app", value=reference)


def _attribute(reference: str, module: str, attribute: str) -> App:
    loaded = _imported(reference, module)
    found = getattr(loaded, attribute, None)
    if isinstance(found, App):
        return found
    apps = [f"{module}:{name}" for name, value in vars(loaded).items() if isinstance(value, App)]
    if found is not None:
        sentence = f"{attribute!r} of module {module!r} is a {type(found).__name__}, not an App"
    else:
        near = difflib.get_close_matches(attribute, dir(loaded), n=1)
        sentence = f"module {module!r} has no {attribute!r}{f' (did you mean {near[0]!r}?)' if near else ''}"
    there = f"give {' or '.join(apps)}" if apps else "define one, such as app = perenne.App(…)"
    raise InvalidInput(f"app: {sentence}; {there}", field="app", value=reference)


def _imported(reference: str, module: str) -> ModuleType:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is not None and (module == error.name or module.startswith(f"{error.name}.")):
            raise InvalidInput(
                f"app: no module {error.name!r} in {Path.cwd()} or installed; start in its folder, or mend the name in "
                f"{reference!r}",
                field="app",
                value=reference,
            ) from None
        raise _broken(reference, module, error) from error
    except (Exception, SystemExit) as error:
        raise _broken(reference, module, error) from error


def _broken(reference: str, module: str, error: BaseException) -> InvalidInput:
    """The refusal of a module that does not import, with the place of its fault."""
    place = _place(error)
    next_step = "; mend that line, then try again"
    if "partially initialized module" in str(error):
        next_step = "; the modules import each other in a circle: import one inside the function that needs it"
    elif isinstance(error, EngineError):
        next_step = ""  # it ends with its own
    return InvalidInput(
        f"app: module {module!r} does not import: {place}: {_said(error)}{next_step}",
        field="app",
        value=reference,
        place=place,
    )


def _said(error: BaseException) -> str:
    text = error.msg if isinstance(error, SyntaxError) else str(error)
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _place(error: BaseException) -> str:
    """File and line: of the broken syntax, else the innermost line of the program's own."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{_short(error.filename)}, line {error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<")]
    own = [frame for frame in frames if not _is_foreign(Path(frame.filename))] or frames
    return f"{_short(own[-1].filename)}, line {own[-1].lineno}"


def _is_foreign(path: Path) -> bool:
    return path.is_relative_to(_LIBRARY) or path.is_relative_to(_OURS) or "site-packages" in path.parts


def _short(filename: str) -> str:
    """Relative to the current folder, when it lies below."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename
