"""Perenne: long work that must not be lost, must not be done twice, and must not overspend.

The door: the public names and nothing else. `docs/concepts.md` says what each of them means.
"""

from perenne import errors
from perenne.app import App
from perenne.core.answers import Doubt, GiveUp, Snooze
from perenne.core.job import Attempt, Job
from perenne.core.kind import Kind
from perenne.core.publication import Publication, Published
from perenne.core.retry import Backoff
from perenne.core.states import JobState
from perenne.errors import Cancelled
from perenne.runtime.context import Context
from perenne.runtime.engine import Engine
from perenne.wiring import create, open

__all__ = [
    "App",
    "Attempt",
    "Backoff",
    "Cancelled",
    "Context",
    "Doubt",
    "Engine",
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
