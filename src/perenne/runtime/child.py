"""What runs in a child: finds its kind, then calls the handler of one attempt after the other, until it is left alone.

A child opens no ledger and takes no owner's lock; what a handler asks goes to the worker (`proxy`). What does not live
here: who starts it (`childprocess`), who attends to an attempt (`attendant`).
"""

from __future__ import annotations

import contextlib
import faulthandler
import os
import pickle
import resource
import signal
import socket
import sys
import traceback
from types import FrameType
from typing import Any

import msgspec

from perenne import nearest
from perenne.core import events
from perenne.core.kind import Kind
from perenne.errors import Unwound
from perenne.files.workspace import Workspace
from perenne.runtime import call, clock, importable, kernelcalls, lookup, memory, prints, toolhost
from perenne.runtime.hearing import Hearing
from perenne.runtime.importable import Reference
from perenne.runtime.link import Link
from perenne.runtime.proxy import Caller, ChildContext, RemoteLog, RemoteSequences, leave
from perenne.runtime.wishes import Wishes
from perenne.store.ledger import Claim


class Greeting(msgspec.Struct, frozen=True):
    """The first message: where modules and files are, and which kind this child serves."""

    path: list[str]
    environment: dict[str, str]
    workspace: Workspace
    reference: Reference


class Ended(msgspec.Struct, frozen=True):
    """The last message of an attempt: the answer by its name and fields, and what it took.

    peak_bytes, resident_bytes: memory, at most during the attempt and now; None where the kernel does not say.
    """

    answer: str
    fields: dict[str, Any]
    published: bool
    peak_bytes: int | None
    resident_bytes: int | None


class Child:
    """One kind, served attempt by attempt."""

    def __init__(self, link: Link, hearing: Hearing, greeting: Greeting) -> None:
        self._link, self._hearing, self._workspace = link, hearing, greeting.workspace
        self._kind: Kind = importable.resolve(greeting.reference)
        nearest.forbid("a handler in a child has no engine; answer with what shall follow, or run in a thread")
        self._process = os.getpid()

    def serve(self) -> None:
        """Until the worker lets go."""
        limit_memory(self._kind.memory_limit_bytes)
        self._link.send("ready")
        while True:
            descriptors: list[int] = []
            try:
                _, (claim, serial, left_s) = self._link.receive_with(descriptors)
            except OSError:
                return
            with contextlib.ExitStack() as held:
                for descriptor in descriptors:
                    held.callback(_close, descriptor)
                caller = Caller(self._link)
                try:
                    ended = self._perform(msgspec.convert(claim, Claim), serial, left_s, caller)
                finally:
                    if os.getpid() != self._process:
                        leave()  # the handler forked, and its copy came back as well
            # The lock is free before the worker hears of the end.
            caller.tell("ended", ended)

    def _perform(self, claim: Claim, serial: int, left_s: float | None, caller: Caller) -> Ended:
        measured = memory.reset_peak()
        with self._hearing.of(serial) as wishes, prints.labelled(claim.job.id):
            context = self._context(claim, wishes, left_s, caller)
            answer = self._answer(context, wishes, RemoteLog(caller))
        caller.close()
        peak_bytes, resident_bytes = memory.used_bytes()
        return Ended(
            answer=type(answer).__name__,
            fields=_fields(answer),
            published=context.published,
            peak_bytes=peak_bytes if measured else None,
            resident_bytes=resident_bytes,
        )

    def _answer(self, context: ChildContext, wishes: Wishes, log: RemoteLog) -> events.Answer:
        refused = None if self._kind.state_type is None else call.restored(self._kind, context, log)
        return refused or call.handler(self._kind, context, wishes, log)

    def _context(self, claim: Claim, wishes: Wishes, left_s: float | None, caller: Caller) -> ChildContext:
        return ChildContext(
            caller,
            self._kind,
            job=claim.job,
            token=claim.token,
            publication=lookup.identity_of(claim.job, self._kind, self._workspace.root),
            wishes=wishes,
            clock=clock.SYSTEM,
            workspace=self._workspace,
            deadline=None if left_s is None else clock.SYSTEM.monotonic() + left_s,
            grant=claim.grant,
            sequenced=None if claim.grant is None else RemoteSequences(caller),
            keeps_frame=self._kind.keep_frame,
        )


def _fields(answer: events.Answer) -> dict[str, Any]:
    """The fields of an answer, but for the policy of retries, which the worker knows."""
    fields = msgspec.structs.asdict(answer)
    fields.pop("backoff", None)
    return fields


def _close(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # a handler may have closed what it does not know
        os.close(descriptor)


def limit_memory(limit_bytes: int | None) -> None:
    """Bound the address space, and keep no image of a crash; be the first to go when the machine has no memory left."""
    memory.offer_to_the_kernel()
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))
    if limit_bytes is not None and sys.platform != "darwin":  # macOS refuses to set it
        _, hard = resource.getrlimit(resource.RLIMIT_AS)
        most = limit_bytes if hard == resource.RLIM_INFINITY else min(limit_bytes, hard)
        resource.setrlimit(resource.RLIMIT_AS, (most, hard))


def bind_life_to(worker: int) -> None:
    """Die when the thread that started this process dies, also if that has happened already."""
    with contextlib.suppress(OSError):  # where there is no such call, the end of the connection ends it
        kernelcalls.prctl(kernelcalls.PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != worker:
        leave()


def _unwind(number: int, frame: FrameType | None) -> None:
    """The grace before the end: whatever the handler has opened may be closed on the way."""
    raise Unwound("ended by its worker")


def main(worker: str, verbs: str, wishes: str, report: str) -> None:
    """Serve the worker at the other end of the descriptors that the command line names."""
    bind_life_to(int(worker))
    toolhost.forget_inherited_signals()
    signal.signal(signal.SIGTERM, _unwind)
    for descriptor in (int(verbs), int(wishes), int(report)):
        os.set_inheritable(descriptor, False)
    faulthandler.enable(int(report))
    link = Link(socket.socket(fileno=int(verbs)))
    with contextlib.suppress(Unwound, OSError):
        _, (given,) = link.receive()
        greeting: Greeting = pickle.loads(given)
        sys.path[:] = greeting.path
        os.environ.clear()
        os.environ.update(greeting.environment)
        try:
            child = Child(link, Hearing(int(wishes)), greeting)
        except BaseException as error:
            link.send("broken", "".join(traceback.format_exception(error)))
            return
        child.serve()


if __name__ == "__main__":
    main(*sys.argv[1:])
