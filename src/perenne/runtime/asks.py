"""What a context leans on, wherever it runs: a ledger, a log, and the app's tables inside a transaction.

What does not live here: the verbs of a handler (`context`), and who answers them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from perenne.core.artefact import Artefact
from perenne.core.job import Need, Receipt, Submission, Token
from perenne.core.kind import Kind
from perenne.core.resources import Reservation


class Log(Protocol):
    """Where a line about the attempt goes."""

    def write(self, level: str, message: str, **fields: Any) -> bool: ...


class Right(Protocol):
    """What a context asks of the ledger, under the token of its attempt."""

    def check(self, token: Token) -> tuple[bool, bool]: ...

    def progress(self, token: Token, done: int, total: int | None, message: str | None, *, now: int) -> None: ...

    def needs(self, token: Token, after: int) -> list[Need]: ...

    def artefacts_of(self, token: Token, needed: str, after: str) -> list[Artefact]: ...


class Submits(Protocol):
    """What stores the children of an attempt, under its token."""

    @property
    def app(self) -> Any: ...

    def request_child(
        self, parent: str, kind: Kind | str, input: object, name: str | None, wishes: Mapping[str, Any]
    ) -> Submission: ...

    def enter(self, batch: Sequence[Submission], patience_s: float, token: Token) -> list[Receipt]: ...


class Sequenced(Protocol):
    """What asks the governor for the next sequence of an attempt."""

    def may_go_on(self) -> bool:
        """Whether it would get exactly what it holds; nothing is written."""

    def give_way(self) -> bool:
        """Give back what it holds and wait in its thread; false when too many do already, and it goes on."""

    def take_up(self) -> Reservation | None:
        """What it is granted now, written; None while it must wait."""

    def stay(self) -> None:
        """It waits in its thread no more."""


class Tables(Protocol):
    """The app's own tables, inside the transaction that completes the job."""

    def execute(self, sql: str, values: Sequence[Any] | Mapping[str, Any] = (), /) -> list[tuple[Any, ...]]: ...
