"""How a child finds a kind again: by importing the module of its handler, as anybody else would.

What does not live here: the child (`child`) and how it is started (`childprocess`).
"""

from __future__ import annotations

import importlib
import pickle
import sys
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import msgspec

from perenne.core.kind import Kind
from perenne.core.retry import Backoff
from perenne.errors import InvalidInput


class Reference(msgspec.Struct, frozen=True):
    """What a child needs to find a kind: where its handler stands, and the rest of it, pickled.

    main: the module that runs as `__main__` in the worker, when the handler stands there.
    """

    module: str
    name: str
    rest: bytes
    main: str | None = None


def reference(kind: Kind) -> Reference:
    """The reference to a kind.

    Raises: InvalidInput: says why a child could not find it.
    """
    module, name = (getattr(kind.handler, part, None) for part in ("__module__", "__qualname__"))
    if not isinstance(module, str) or not isinstance(name, str):
        raise _refused(kind, f"its handler {kind.handler!r} is no plain function")
    if "<" in name:
        raise _refused(kind, f"its handler {name} is made inside a function")
    main = _main_module() if module == "__main__" else None
    if module == "__main__" and main is None:
        raise _refused(kind, f"its handler {name} stands in the program that was started")
    found = _found(sys.modules.get(module), name)
    if found is kind.handler:
        return Reference(main or module, name, _rest_of(kind), main)
    if getattr(found, "kind", None) is kind:
        return Reference(main or module, name, b"", main)  # a task, which carries its whole kind
    raise _refused(kind, f"{module}.{name} is not its handler but {found!r}")


def check(kinds: Iterable[Kind]) -> None:
    """Raises: InvalidInput: one of them runs in a child, which could not find it; says why."""
    for kind in kinds:
        if kind.isolation == "process":
            reference(kind)


def resolve(given: Reference) -> Kind:
    """The kind of a reference, in another process.

    Raises: whatever importing raises; LookupError: the name is not there.
    """
    module = importlib.import_module(given.module)
    if given.main is not None:
        sys.modules["__main__"] = module
    found = _found(module, given.name)
    if found is None:
        raise LookupError(f"module {given.module} has no {given.name}")
    if not given.rest:
        kind: Kind = found.kind
        return kind
    rest: Kind = pickle.loads(given.rest)
    return replace(rest, handler=found)


def _nothing(*given: Any) -> None:
    """In the place of the handler while a kind travels."""


def _rest_of(kind: Kind) -> bytes:
    """What a child reads of a kind beside its handler. Lookups and policies stay with the worker."""
    rest = replace(kind, handler=_nothing, lookup=None, adopt=None, discard=None, missing=None, backoff=Backoff())
    try:
        return pickle.dumps(rest)
    except Exception as error:  # whatever a type's own pickling raises
        raise _refused(kind, f"its input type, retry_on or give_up_on cannot be found by name: {error}") from None


def _main_module() -> str | None:
    """The name under which the program can be imported; None for a script."""
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return None if spec is None else spec.name


def _found(place: Any, name: str) -> Any:
    for part in name.split("."):
        place = getattr(place, part, None)
    return place


def _refused(kind: Kind, why: str) -> InvalidInput:
    return InvalidInput(
        f"kind {kind}: isolation='process' needs a handler that a child can import: {why}; "
        f"define a function at the top of a module",
        field="handler",
        kind=str(kind),
    )
