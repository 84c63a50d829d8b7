"""What a handler's context leans on in a child: a ledger, a log and a stage folder that the worker keeps for it.

Each verb is a request over the link, and the worker performs it under the token of the attempt. What does not live
here: the verbs themselves (`context`), and how the worker answers (`attendant`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

import msgspec

from perenne import errors
from perenne.core import limits
from perenne.core.answers import Completion
from perenne.core.artefact import Artefact
from perenne.core.job import Need, Receipt, Submission, Token
from perenne.core.kind import Kind
from perenne.core.lossless import first_loss
from perenne.core.resources import Reservation
from perenne.errors import EngineError, InvalidInput, NotAllowed, StaleToken, StoreFailed
from perenne.files.workspace import Workspace
from perenne.runtime import clock, joblog
from perenne.runtime.context import Context, Tables
from perenne.runtime.keeping import RemoteKeeping
from perenne.runtime.link import MOST_BYTES, Link
from perenne.runtime.patience import patiently
from perenne.runtime.remotestore import RemoteStore
from perenne.runtime.saving import Saving

GONE = 71  # exit code of a child that was left alone
MESSAGE_BYTES = MOST_BYTES - 1024  # what a batch may take, with the name of its verb


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

    def needs(self, token: Token, after: int) -> list[Need]:
        return msgspec.convert(self._caller.ask("needs", after), list[Need])

    def artefacts_of(self, token: Token, needed: str, after: str) -> list[Artefact]:
        return msgspec.convert(self._caller.ask("artefacts_of", needed, after), list[Artefact])


class RemoteSubmitter:
    """What stores the children of the attempt; the worker makes the requests, for it knows the app."""

    app = None

    def __init__(self, caller: Caller, workspace: Workspace) -> None:
        self._caller, self._wake_folder = caller, workspace.wake_folder

    def request_child(
        self, parent: str, kind: Kind | str, input: object, name: str | None, wishes: Mapping[str, Any]
    ) -> Submission:
        known = kind if isinstance(kind, str) or not hasattr(kind, "version") else (kind.name, kind.version)
        sent = (known, input if isinstance(input, bytes) else _as_json(input), name, dict(wishes))
        try:
            _measured("input", sent)
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            raise InvalidInput(f"request: {error}; give names, numbers, texts and times", field="wishes") from None
        return msgspec.convert(self._caller.ask("request", *sent), Submission)

    def enter(self, batch: Sequence[Submission], patience_s: float, token: Token) -> list[Receipt]:
        """As `Submitter.enter`; it is here that one waits, for the worker has the attempt to attend to."""
        _measured("batch", batch)

        def store() -> list[Receipt]:
            return msgspec.convert(self._caller.ask("submit", list(batch)), list[Receipt])

        return patiently(store, patience_s, self._wake_folder, clock.SYSTEM) if patience_s > 0 else store()


def _as_json(input: object) -> bytes:
    """Raises: InvalidInput: JSON would keep something else."""
    try:
        encoded = msgspec.json.encode(input)
        loss = first_loss(msgspec.to_builtins(input), None)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        loss = str(error)
    if loss is not None:
        raise InvalidInput(f"input: {loss}; give what the kind's input type asks for", field="input")
    return encoded


def _measured(field: str, message: object) -> None:
    """Raises: TooLarge: it fits no message."""
    limits.check_size(field, len(msgspec.msgpack.encode(message)), MESSAGE_BYTES, "submit it in several steps")


class RemoteSequences:
    """What asks the governor, which is the worker's."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    def may_go_on(self) -> bool:
        return bool(self._caller.ask("may_go_on"))

    def give_way(self) -> bool:
        return bool(self._caller.ask("give_way"))

    def take_up(self) -> Reservation | None:
        given = self._caller.ask("take_up")
        return None if given is None else msgspec.convert(given, Reservation)

    def stay(self) -> None:
        self._caller.ask("stay")


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
        parts |= {"ledger": RemoteLedger(caller), "log": RemoteLog(caller)}
        parts["submitter"] = RemoteSubmitter(caller, workspace)
        parts["saving"] = Saving(kind, token, workspace, RemoteStore(caller.ask))
        parts["keeping"] = RemoteKeeping(caller.ask)
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
