"""An application: what a domain hands over to the engine, and the decorator that makes tasks of its functions.

What does not live here: how a task is called and submitted (`task`), and which engine is near (`nearest`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, overload

from perenne import nearest
from perenne.core import limits, takes
from perenne.core.kind import Kind
from perenne.core.signature import Signature
from perenne.errors import InvalidInput, UnknownKind
from perenne.task import Task

P = ParamSpec("P")
R = TypeVar("R")

# What `task` says by another name or makes by itself.
_MADE = ("name", "handler", "input_type")


Look = tuple[str, Literal["ok", "warn", "bad"], str, str | None]


def _leaves(folder: str) -> bool:
    path = Path(folder)
    return not path.parts or path.is_absolute() or ".." in path.parts


@dataclass(eq=False)
class App:
    """A name and the kinds of work it does: those it is given, and a kind for each function decorated with `task`.

    Args: queues: bound of each queue, in unfinished jobs. runtime: where its workspaces keep the engine's files.
    one_worker: a second worker process of the same workspace is refused.
    migrations: SQL that makes the app's own tables in the ledger's database, one text a step, or a folder of files
    `0001_what.sql`; names begin with the app's own. Steps are never changed, only added.
    commands: `module:name` of the click group it adds to the command line; loaded only when used.
    doctor: looks at the app's own files in the workspace folder it is given, changes nothing, and answers a name, `ok`,
    `warn` or `bad`, a sentence, and the next step or None for each thing; told whether to look deep (read every byte).
    """

    name: str
    kinds: Sequence[Kind] = ()
    queues: dict[str, int] = field(default_factory=lambda: {"default": limits.QUEUE_CAPACITY})
    runtime: str = ".perenne"
    one_worker: bool = False
    commands: str | None = None
    migrations: Sequence[str] | Path = ()
    doctor: Callable[[Path, bool], Iterable[Look]] | None = None

    def __post_init__(self) -> None:
        limits.check_text("app", self.name, limits.NAME_BYTES)
        if not self.name.isprintable() or not isinstance(self.runtime, str) or _leaves(self.runtime):
            raise InvalidInput(
                f"app: name {self.name!r}, runtime {self.runtime!r}; give a printable name, and a folder below the "
                f"workspace such as '.perenne'"
            )
        said = {"kinds": self.kinds, "queues": self.queues, "one_worker": self.one_worker, "commands": self.commands}
        takes.check(f"app {self.name}: ", **said, doctor=self.doctor)
        for queue, capacity in self.queues.items():
            limits.check_text("queue", queue, limits.NAME_BYTES)
            limits.check_capacity(capacity)
        if isinstance(self.migrations, str):
            raise InvalidInput(f"app {self.name}: migrations is one text; give a list with one text a step, or a Path")
        given, self.kinds = self.kinds, ()
        for kind in given:
            self._add(kind)

    @overload
    def task(self, function: Callable[P, R], /) -> Task[P, R]: ...

    @overload
    def task(
        self, function: None = None, /, *, kind: str | None = None, version: int = 1, attempts: int = 3, **options: Any
    ) -> Callable[[Callable[P, R]], Task[P, R]]: ...

    def task(
        self, function: Any = None, /, *, kind: str | None = None, version: int = 1, attempts: int = 3, **options: Any
    ) -> Any:
        """A decorator: the function stays callable as it is, and its calls can be submitted as jobs.

        The input type is made of the annotations and defaults; a first parameter that is named `context` or `ctx`, or
        annotated as `Context`, is the context of the attempt. What the function returns is the result of the job.
        Args: kind: its name; else the function's. attempts: 1 to 100. options: as the fields of `Kind` are named.
        Raises: InvalidInput: names the function and the parameter, or the option; nothing was added.
        """
        given = {"version": version, "max_attempts": attempts} | options
        return partial(self._task, kind, given) if function is None else self._task(kind, given, function)

    def _task(self, name: str | None, given: dict[str, Any], function: Callable[P, R]) -> Task[P, R]:
        if not callable(function):
            raise InvalidInput(f"task: {function!r} is no function; write `@app.task()` above one", field="task")
        signature = Signature(function)
        known = [one.name for one in fields(Kind) if one.name not in _MADE]
        for option in given:
            if option not in known:
                raise InvalidInput(
                    f"task {signature.name}: {option} is no option; known: kind, attempts, {', '.join(known)}",
                    field=option,
                )
        named = {"name": name or signature.name, "handler": signature.handler(function)}
        kind = Kind(input_type=signature.input_type, **named, **given)  # type: ignore[arg-type]  # checked above
        self._add(kind)
        return Task(function, kind, signature, partial(nearest.find, self))

    def _add(self, kind: Kind) -> None:
        if not isinstance(kind, Kind):
            raise InvalidInput(f"app {self.name}: {kind!r} is no kind; give a Kind, or the `.kind` of a task")
        if (kind.name, kind.version) in self._index:
            raise InvalidInput(f"app {self.name}: kind {kind} is given twice; give each version once", kind=str(kind))
        if kind.queue not in self.queues:
            raise InvalidInput(f"app {self.name}: kind {kind} uses queue {kind.queue!r}, which has no bound in queues")
        self.kinds = (*self.kinds, kind)
        vars(self).pop("_runners", None)
        del self._index

    def kind(self, name: str, version: int | None = None) -> Kind:
        """The kind of this name and version; without a version the newest.

        Raises: UnknownKind: names what is known.
        """
        found = self._index.get((name, version))
        if found is None:
            wanted = name if version is None else f"{name}@{version}"
            known = ", ".join(sorted(map(str, self.kinds))) or "none"
            raise UnknownKind(
                f"kind: {wanted!r} is not known to app {self.name}; known: {known}", field="kind", value=wanted
            )
        return found

    def knows(self, name: str, version: int) -> bool:
        """Whether a job of this kind can run here."""
        return (name, version) in self._runners

    def runner(self, name: str, version: int) -> Kind:
        """The kind that runs jobs of this name and version: this one, or a newer one that takes over its states.

        Raises: UnknownKind.
        """
        return self._runners.get((name, version)) or self.kind(name, version)

    @cached_property
    def _runners(self) -> dict[tuple[str, int], Kind]:
        runners: dict[tuple[str, int], Kind] = {}
        for kind in sorted(self.kinds, key=lambda kind: kind.version):
            for version in (*kind.migrates, kind.version):
                if version == kind.version or (kind.name, version) not in self._index:
                    runners[kind.name, version] = kind
        return runners

    @property
    def served(self) -> dict[tuple[str, int], Kind]:
        """Who runs the jobs of each name and version."""
        return self._runners

    @cached_property
    def _index(self) -> dict[tuple[str, int | None], Kind]:
        """Kinds by name and version, and the newest of each name under no version."""
        index: dict[tuple[str, int | None], Kind] = {}
        for kind in sorted(self.kinds, key=lambda kind: kind.version):
            index[kind.name, kind.version] = index[kind.name, None] = kind
        return index
