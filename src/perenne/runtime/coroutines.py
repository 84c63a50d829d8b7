"""The thread in which a worker runs the handlers that are coroutines, any number at a time, on one event loop.

What does not live here: the verbs they await (`awaitable`), what is looked up around a handler (`executor`), how many
run (`slots`), and who finds out that the loop is held (`loopwatch`).
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from perenne import nearest
from perenne.core import events
from perenne.runtime import call
from perenne.runtime.awaitable import AsyncContext, Hands, finished
from perenne.runtime.completion import Completion
from perenne.runtime.context import Log
from perenne.runtime.executor import Prepared
from perenne.runtime.loopwatch import LoopWatch, MarkedSelector
from perenne.runtime.wishes import Wishes
from perenne.store.ledger import Claim

Returned = Callable[[], tuple[object, BaseException | None]]
Told = Callable[[events.Ended | BaseException], None]
LIMITS = ("wall", "limit")  # a time limit ends what is awaited; every other wish waits for a boundary


class Coroutines:
    """One event loop in a thread of its own; it runs from the making of this on."""

    def __init__(self, completion: Completion, log: Log, lock: Path) -> None:
        """Args: log, lock: of the worker; what holds the loop is told in both."""
        self._completion, self._executor, self._log = completion, completion.executor, log
        self._hands = Hands()
        self._selector = MarkedSelector(self._executor.clock)
        self._loop = asyncio.SelectorEventLoop(self._selector)
        self._attempts: set[asyncio.Task[None]] = set()  # held here: a loop does not hold its tasks
        self._closing = False
        self._thread = threading.Thread(target=self._work, daemon=True, name="coroutines")
        self._thread.start()
        self._watch = LoopWatch(self._selector, self._loop, self._thread, log, lock, self._executor.clock)

    def start(self, claim: Claim, wishes: Wishes, told: Told) -> None:
        """Run this attempt; `told` is called in the loop's thread with its end, or with a fault of the engine.

        What runs finds the engine that is near to the caller.
        """
        self._loop.call_soon_threadsafe(self._start, claim, wishes, told)

    def close(self, timeout_s: float) -> bool:
        """Let what the attempts left behind end, then the thread; false when it still runs."""
        self._loop.call_soon_threadsafe(self._end)
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            return False
        self._watch.close()
        self._hands.close()
        return True

    def _work(self) -> None:
        while not self._closing:
            try:
                self._loop.run_forever()
            except BaseException as error:  # a task of a handler raised SystemExit or the like: it is that handler's
                self._log.write("error", "loop_interrupted", error=repr(error))
        with contextlib.suppress(BaseException):
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def _end(self) -> None:
        self._closing = True
        left = [task for task in asyncio.all_tasks(self._loop) if task not in self._attempts]
        for task in left:
            task.cancel()
        ending = self._loop.create_task(_all_done([*left, *self._attempts]))
        ending.add_done_callback(lambda _: self._loop.stop())

    def _start(self, claim: Claim, wishes: Wishes, told: Told) -> None:
        attempt = self._loop.create_task(self._attempt(claim, wishes, told))
        self._attempts.add(attempt)
        attempt.add_done_callback(self._attempts.discard)

    async def _attempt(self, claim: Claim, wishes: Wishes, told: Told) -> None:
        try:
            told(await self._perform(claim, wishes))
        except BaseException as fault:  # the engine's own; the worker raises it
            told(fault)

    async def _perform(self, claim: Claim, wishes: Wishes) -> events.Ended:
        prepared = await self._hands.surely(partial(self._executor.prepare, claim, wishes))
        if isinstance(prepared, Prepared):
            returned = await self._run(prepared)
            ended = await self._hands.surely(partial(self._conclude, prepared, returned))
        else:
            ended = prepared
        return await self._hands.surely(partial(self._completion.record, claim, wishes, ended))

    async def _run(self, prepared: Prepared) -> Returned:
        """Run the handler to its own end, whatever cancels whom; what gives its value, or raises what it raised."""
        context = AsyncContext(prepared.context, self._hands)
        handler = self._loop.create_task(_handle(prepared, context))
        with (
            self._watch.over(handler, prepared.log, _named(prepared)),
            _cancelled_by_limits(handler, prepared.wishes),
            self._executor.limited(prepared),
        ):
            await finished(handler)
        context.close()
        return handler.result

    def _conclude(self, prepared: Prepared, returned: Returned) -> events.Ended:
        def value() -> object:
            given, error = returned()
            if error is not None:
                raise error
            return given

        answer = call.answer(prepared.kind, prepared.context, prepared.wishes, prepared.log, value)
        return self._executor.conclude(prepared, answer)


async def _handle(prepared: Prepared, context: AsyncContext) -> tuple[object, BaseException | None]:
    """As a value, for a task that raises SystemExit takes its loop along."""
    try:
        prepared.context.boundary()
        with nearest.within(prepared.context):
            return await prepared.kind.handler(context, prepared.context.publication.input), None
    except BaseException as error:
        return None, error


def _named(prepared: Prepared) -> str:
    return f"{prepared.kind}, job {prepared.claim.job.id}, attempt {prepared.claim.token.number}"


@contextmanager
def _cancelled_by_limits(handler: asyncio.Task[Any], wishes: Wishes) -> Iterator[None]:
    """Meanwhile a time limit cancels the handler, once. One that goes on all the same keeps its place until it ends."""
    loop, cancelled = handler.get_loop(), False

    def changed() -> None:
        nonlocal cancelled
        if not cancelled and any(map(wishes.asked, LIMITS)):
            cancelled = True
            loop.call_soon_threadsafe(handler.cancel)

    with wishes.told_to(changed):
        yield


async def _all_done(tasks: list[asyncio.Task[Any]]) -> None:
    for task in tasks:
        await finished(task)
