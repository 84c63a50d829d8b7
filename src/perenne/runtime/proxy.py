"""What a handler's context leans on in a child: a ledger, a log and a stage folder that the worker keeps for it.

Each verb is a request over the link, and the worker performs it under the token of the attempt. What does not live
here: the verbs themselves (`context`), and how the worker answers (`attendant`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from perenne import errors
from perenne.core.answers import Completion
from perenne.core.job import Token
from perenne.core.kind import Kind
from perenne.errors import EngineError, NotAllowed, StaleToken, StoreFailed
from perenne.files.workspace import Workspace
from perenne.runtime import joblog
from perenne.runtime.context import Context, Tables
from perenne.runtime.link import Link
from perenne.runtime.saving import Also, Kept, Saving
from perenne.store.checkpoints import Progress, Saved

GONE = 71  # exit code of a child that was left alone


class Caller:
    """Asks the worker, one request at a time, on behalf of one attempt; whoever asks after its end is refused."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self._process, self._socket = os.getpid(), os.fstat(link.fileno()).st_ino
        self._asking = threading.Lock()
        self._over = False

    def ask(self, name: str, *values: object) -> Any:
        """The answer of the worker.

        Raises: the error that the worker met. NotAllowed: this is a forked copy. StaleToken: the attempt is over.
        Guarantees: without a worker this does not return; the process ends.
        """
        if os.getpid() != self._process:
            raise NotAllowed(f"{name}: this process is a forked copy of a child; only the child itself may ask")
        with self._asking:
            if self._over:
                raise StaleToken(f"{name}: the attempt is over; end what it started before its handler returns")
            self.tell(name, *values)
            try:
                answer, given = self._link.receive()
            except (OSError, ValueError):
                leave()
        if answer == "answer":
            return given[0]
        family, sentence = given
        known = getattr(errors, family, None)
        raise (known if isinstance(known, type) and issubclass(known, EngineError) else StoreFailed)(sentence)

    def tell(self, name: str, *values: object) -> None:
        """Send without waiting for an answer."""
        try:
            # The handler may have closed all descriptors, and the number of ours may be that of a file of its own.
            if os.fstat(self._link.fileno()).st_ino != self._socket:
                leave()
            self._link.send(name, *values)
        except OSError:
            leave()

    def close(self) -> None:
        """The handler is done; wait for a thread of it that still asks."""
        with self._asking:
            self._over = True


def leave() -> NoReturn:
    """End this process now: nobody is there for whom it could work."""
    os._exit(GONE)


class RemoteLedger:
    """What a context asks of the ledger; the worker knows the token."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def check(self, token: Token) -> tuple[bool, bool]:
        cancel, pause = self._caller.ask("check")
        return cancel, pause

    def progress(self, token: Token, done: int, total: int | None, message: str | None, *, now: int) -> None:
        self._caller.ask("progress", done, total, message)


class RemoteStore:
    """Where an attempt in a child keeps its checkpoints: what is large it stages itself, the worker commits it."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    @contextmanager
    def locked(self) -> Iterator[None]:
        self._caller.ask("lock_checkpoint")
        try:
            yield
        finally:
            self._caller.ask("unlock_checkpoint")

    def last(self) -> Saved | None:
        given = self._caller.ask("last_checkpoint")
        return None if given is None else msgspec.convert(given, Saved)

    def commit(self, saved: Saved, large: bool, progress: Progress | None, also: Also | None) -> Kept:
        if also is not None:
            raise NotAllowed(
                "checkpoint: `also` writes into the ledger, and a child has none; use a thread"
            )
        return Kept(self._caller.ask("checkpoint", saved, large, progress))


class RemoteLog:
    """The log of the attempt, which the worker writes and bounds."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def write(self, level: str, message: str, **fields: Any) -> bool:
        line = joblog.encoded(level=level, message=message, **fields)
        if len(line) > joblog.ATTEMPT_BYTES:
            line = joblog.encoded(level=level, message=f"a line of {len(line)} bytes was dropped")
        kept: bool = self._caller.ask("log", line)
        return kept


class ChildContext(Context):
    """The context of an attempt in a child."""

    def __init__(self, caller: Caller, kind: Kind, token: Token, workspace: Workspace, **parts: Any) -> None:
        saving = Saving(kind, token.job_id, token, workspace, RemoteStore(caller))
        parts |= {"ledger": RemoteLedger(caller), "log": RemoteLog(caller), "saving": saving}
        super().__init__(token=token, workspace=workspace, autosave_s=kind.autosave_s, **parts)
        self._caller = caller

    def complete(self, result: object = None, *, also: Callable[[Tables], object] | None = None) -> Completion:
        """As in a thread, but that a child has no ledger in which `also` could write.

        Raises: NotAllowed: `also` is given.
        """
        if also is not None:
            raise NotAllowed("complete: `also` writes into the ledger, and a child has none; run this kind in a thread")
        return super().complete(result)

    @property
    def stage(self) -> Path:
        """As in a thread; the worker makes the folder, and removes it when the attempt ends."""
        if self._stage is None:
            self._stage = Path(self._caller.ask("stage"))
        return self._stage
