"""The context of a coroutine: the verbs of `Context` as awaitables, and the threads that they are handed to.

The only place where a verb has two colours. What does not live here: what a verb does (`context`), and who runs the
coroutine (`coroutines`).
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from perenne.core.answers import Completion
from perenne.core.artefact import PLAIN, Artefact
from perenne.core.job import Need, Receipt, Submission
from perenne.core.kind import Kind
from perenne.core.publication import Publication
from perenne.errors import InvalidInput, StaleToken
from perenne.runtime.context import Context, Give, Tables
from perenne.runtime.keeping import Content
from perenne.runtime.saving import Kept
from perenne.runtime.stop import Stop

R = TypeVar("R")

HANDS = 4


class Hands:
    """The threads of a worker that do for coroutines what would hold their loop: the ledger, files, lookups."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(HANDS, thread_name_prefix="hand")

    async def do(self, call: Callable[[], R]) -> R:
        """What the call gives, made in another thread; what it raises is raised here.

        Guarantees: a cancellation meanwhile is raised once the call is over, so that nothing goes on behind an end.
        """
        value, cancelled = await self._made(call)
        if cancelled:
            raise asyncio.CancelledError
        return value

    async def surely(self, call: Callable[[], R]) -> R:
        """As `do`, for what no cancellation may end: it is that of somebody else's task, gone astray."""
        value, _ = await self._made(call)
        return value

    async def _made(self, call: Callable[[], R]) -> tuple[R, bool]:
        near = contextvars.copy_context()
        made = asyncio.get_running_loop().run_in_executor(self._threads, near.run, _outcome, call)
        cancelled = await finished(made)
        value, error = made.result()
        if error is not None:
            raise error
        return value, cancelled

    def close(self) -> None:
        """Let the threads end once they are free."""
        self._threads.shutdown(wait=False, cancel_futures=True)


async def finished(future: asyncio.Future[Any]) -> bool:
    """Return when it is done, and not before; whether a cancellation came meanwhile."""
    cancelled = False
    while not future.done():
        try:
            await asyncio.wait((future,))
        except asyncio.CancelledError:
            cancelled = True
    return cancelled


def _outcome(call: Callable[[], Any]) -> tuple[Any, BaseException | None]:
    """As a value, because a future does not take every error: `StopIteration` would leave it pending for ever."""
    try:
        return call(), None
    except BaseException as error:
        return None, error


class AsyncContext:
    """One attempt, as its coroutine sees it; the verbs mean what they mean in `Context`.

    Verbs of one attempt are carried out one after the other, whichever of its tasks awaits them. Cancel and pause act
    where `boundary`, `may_publish` or `publish` is awaited.
    """

    def __init__(self, context: Context, hands: Hands) -> None:
        self._context, self._hands = context, hands
        self._turn = asyncio.Lock()
        self._over = False
        self.job_id, self.attempt = context.job_id, context.attempt
        self.publication, self.deadline = context.publication, context.deadline

    @property
    def workspace(self) -> Path:
        """The root folder of the workspace."""
        return self._context.workspace

    @property
    def stop(self) -> Stop:
        """The stop request to give to `perenne.tools.run`, in a thread."""
        return self._context.stop

    @property
    def stage(self) -> Path:
        """A private folder of this attempt, made when first asked for, removed when the attempt ends."""
        return self._context.stage

    @property
    def state(self) -> Any:
        """As `Context.state`."""
        return self._context.state

    def keep(self, give: Give) -> None:
        """As `Context.keep`; `give` is called in a thread, while the coroutine waits at its boundary."""
        self._context.keep(give)

    async def boundary(self) -> None:
        """As `Context.boundary`; other coroutines have their turn meanwhile."""
        await asyncio.sleep(0)
        if self._context.may_save:
            await self._ask(self._context.boundary)
        else:
            self._context.boundary()

    async def checkpoint(self, state: object, *, also: Callable[[Tables], object] | None = None) -> Kept:
        """As `Context.checkpoint`."""
        return await self._ask(lambda: self._context.checkpoint(state, also=also))

    async def artefact(self, name: str, content: Content, media_type: str = PLAIN) -> Artefact:
        """As `Context.artefact`; the content is read in a thread."""
        return await self._ask(lambda: self._context.artefact(name, content, media_type))

    async def progress(self, done: int, total: int | None = None, message: str | None = None) -> None:
        """As `Context.progress`."""
        await self._ask(lambda: self._context.progress(done, total, message))

    async def keep_progress(self) -> None:
        """As `Context.keep_progress`."""
        await self._ask(self._context.keep_progress)

    async def needs(self) -> Mapping[str, Need]:
        """As `Context.needs`."""
        return await self._ask(self._context.needs)

    async def results(self) -> list[Any]:
        """As `Context.results`."""
        return await self._ask(self._context.results)

    async def artefacts_of(self, job_id: str) -> Mapping[str, Artefact]:
        """As `Context.artefacts_of`."""
        return await self._ask(lambda: self._context.artefacts_of(job_id))

    async def open_artefact(self, artefact: Artefact) -> BinaryIO:
        """As `Context.open_artefact`; the bytes are compared in a thread."""
        return await self._ask(lambda: self._context.open_artefact(artefact))

    async def may_publish(self) -> None:
        """As `Context.may_publish`."""
        await self._ask(self._context.may_publish)

    async def publish(self, write: Callable[[Publication], Awaitable[R]] | Callable[[Publication], R]) -> R:
        """As `Context.publish`. Args: write: a plain function is called in a thread, a coroutine function awaited."""
        if not inspect.iscoroutinefunction(write):
            return await self._ask(lambda: self._context.publish(write))  # type: ignore[arg-type,return-value]
        async with self._turn:
            self._refuse_after_the_end()
            await self._hands.do(self._context.begin_publishing)
            answer: R = await write(self.publication)
            self._context.published = True
            return answer

    async def complete(self, result: object = None, *, also: Callable[[Tables], object] | None = None) -> Completion:
        """As `Context.complete`: `return await context.complete(…)`.

        Args: also: a plain function; it is called in a transaction, which waits for nobody.
        """
        if inspect.iscoroutinefunction(also):
            raise InvalidInput("complete: `also` is a coroutine function; give a plain function", field="also")
        return self._context.complete(result, also=also)

    async def request(self, kind: Kind | str, input: object, *, name: str | None = None, **wishes: Any) -> Submission:
        """As `Context.request`."""
        return self._context.request(kind, input, name=name, **wishes)

    async def submit(
        self, kind: Kind | str, input: object, *, name: str | None = None, patience_s: float = 0.0, **wishes: Any
    ) -> Receipt:
        """As `Context.submit`."""
        return await self._ask(lambda: self._context.submit(kind, input, name=name, patience_s=patience_s, **wishes))

    async def submit_many(self, children: Sequence[Submission], *, patience_s: float = 0.0) -> list[Receipt]:
        """As `Context.submit_many`."""
        return await self._ask(lambda: self._context.submit_many(children, patience_s=patience_s))

    async def log(self, message: str, *, level: str = "info", **fields: Any) -> None:
        """As `Context.log`."""
        await self._ask(lambda: self._context.log(message, level=level, **fields))

    def close(self) -> None:
        """The coroutine has ended; a task that it left behind does nothing more in its name."""
        self._over = True

    async def _ask(self, call: Callable[[], R]) -> R:
        async with self._turn:
            self._refuse_after_the_end()
            return await self._hands.do(call)

    def _refuse_after_the_end(self) -> None:
        if self._over:
            raise StaleToken("the attempt is over; await every task that it starts before its handler returns")
