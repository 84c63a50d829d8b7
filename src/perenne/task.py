"""A task: a plain function that can still be called as one, and whose calls can be submitted as jobs.

What does not live here: how its input type is made (`core.signature`), and which engine is near (`nearest`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Generic, ParamSpec, TypeVar

from perenne.core.job import Receipt
from perenne.core.kind import Kind
from perenne.core.signature import Signature
from perenne.nearest import Open

P = ParamSpec("P")
R = TypeVar("R")


class Task(Generic[P, R]):
    """One function of an application, decorated; calling it runs it here and now, and stores nothing."""

    def __init__(
        self, function: Callable[P, R], kind: Kind, signature: Signature, nearest: Callable[[Kind], Open]
    ) -> None:
        """Args: nearest: gives the engine that a job of this kind goes to when none is named."""
        functools.update_wrapper(self, function)
        self.function, self.kind = function, kind
        self._signature, self._nearest = signature, nearest

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """The function itself, with nothing around it."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<task {self.kind}: {self._signature}>"

    def enqueue(self, *args: Any, **kwargs: Any) -> Receipt:
        """Submit this call as a job of the innermost open engine, else of the app's own workspace.

        Inside a handler it is a child of that handler's job, as `Context.submit` makes it; equal calls are one child.
        Args: as the function takes them, without the context.
        Raises: InvalidInput: names the argument; NotAllowed: no engine is open; and whatever `Engine.submit` raises.
        Guarantees: as `Engine.submit`.
        """
        return self.options().enqueue(*args, **kwargs)

    delay = enqueue

    async def aenqueue(self, *args: Any, **kwargs: Any) -> Receipt:
        """`enqueue`, for a coroutine: the loop goes on while the job is stored.

        Guarantees: cancelled meanwhile, the job may have been stored; with a `key` it can be asked for again.
        """
        return await self.options().aenqueue(*args, **kwargs)

    def options(self, **wishes: Any) -> Call:
        """The same task with wishes for its next job, such as `key`, `priority`, `not_before`, `patience_s`.

        Args: wishes: as `Engine.submit` names them; inside a handler also `name`.
        """
        return Call(self.kind, self._signature, self._nearest, wishes)


class Call:
    """A task with wishes for the jobs that are made of it."""

    def __init__(
        self, kind: Kind, signature: Signature, nearest: Callable[[Kind], Open], wishes: dict[str, Any]
    ) -> None:
        self._kind, self._signature, self._nearest, self._wishes = kind, signature, nearest, wishes

    def enqueue(self, *args: Any, **kwargs: Any) -> Receipt:
        """As `Task.enqueue`."""
        input = self._signature.bind(args, kwargs)
        return self._nearest(self._kind).submit(self._kind, input, **self._wishes)

    delay = enqueue

    async def aenqueue(self, *args: Any, **kwargs: Any) -> Receipt:
        """As `Task.aenqueue`."""
        import asyncio  # it takes longer to load than all the rest of an app

        return await asyncio.to_thread(self.enqueue, *args, **kwargs)
