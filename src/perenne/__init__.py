"""Perenne: long work that must not be lost, must not be done twice, and must not overspend.

The door: the public names and nothing else. `docs/concepts.md` says what each of them means. A name is loaded when it
is first used, so that asking for help or a version does not wait for the whole engine.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from perenne import errors
    from perenne.app import App
    from perenne.core.answers import Doubt, GiveUp, Snooze
    from perenne.core.estimate import Estimate
    from perenne.core.job import Attempt, Job
    from perenne.core.kind import Kind
    from perenne.core.publication import Publication, Published
    from perenne.core.retry import Backoff
    from perenne.core.states import JobState
    from perenne.errors import Cancelled
    from perenne.runtime.awaitable import AsyncContext
    from perenne.runtime.context import Context
    from perenne.runtime.engine import Engine
    from perenne.wiring import create, open

__all__ = [
    "App",
    "AsyncContext",
    "Attempt",
    "Backoff",
    "Cancelled",
    "Context",
    "Doubt",
    "Engine",
    "Estimate",
    "GiveUp",
    "Job",
    "JobState",
    "Kind",
    "Publication",
    "Published",
    "Snooze",
    "create",
    "errors",
    "open",
]

if not TYPE_CHECKING:
    _HOMES = {
        "app": ["App"],
        "core.answers": ["Doubt", "GiveUp", "Snooze"],
        "core.estimate": ["Estimate"],
        "core.job": ["Attempt", "Job"],
        "core.kind": ["Kind"],
        "core.publication": ["Publication", "Published"],
        "core.retry": ["Backoff"],
        "core.states": ["JobState"],
        "errors": ["Cancelled"],
        "runtime.awaitable": ["AsyncContext"],
        "runtime.context": ["Context"],
        "runtime.engine": ["Engine"],
        "wiring": ["create", "open"],
    }

    def __getattr__(name):
        for home, names in _HOMES.items():
            if name in names:
                value = globals()[name] = getattr(_import_module(f"perenne.{home}"), name)
                return value
        if name == "errors":
            return _import_module("perenne.errors")
        raise AttributeError(f"module 'perenne' has no attribute {name!r}")

    def __dir__():
        return __all__
