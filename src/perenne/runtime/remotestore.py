"""Where an attempt in a child keeps its checkpoints: what is large it stages itself, and the worker commits it.

What does not live here: the link (`proxy`), and the worker's side (`attendant`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from perenne.errors import NotAllowed
from perenne.runtime.saving import Also, Kept
from perenne.store.checkpoints import Progress, Saved


class RemoteStore:
    """As `saving.Store`; the worker holds the lock of the job's files meanwhile."""

    def __init__(self, ask: Callable[..., Any]) -> None:
        """Args: ask: has the worker perform a verb, and gives its answer."""
        self._ask = ask

    @contextmanager
    def locked(self) -> Iterator[None]:
        self._ask("lock_checkpoint")
        try:
            yield
        finally:
            self._ask("unlock_checkpoint")

    def last(self) -> Saved | None:
        given = self._ask("last_checkpoint")
        return None if given is None else msgspec.convert(given, Saved)

    def commit(self, saved: Saved, large: bool, progress: Progress | None, also: Also | None) -> Kept:
        if also is not None:
            raise NotAllowed("checkpoint: `also` writes into the ledger, and a child has none; use a thread")
        return Kept(self._ask("checkpoint", saved, large, progress))
