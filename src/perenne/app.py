"""An application: what a domain hands over to the engine, as one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from perenne.core import limits
from perenne.core.kind import Kind
from perenne.errors import InvalidInput, UnknownKind


def _leaves(folder: str) -> bool:
    path = Path(folder)
    return not path.parts or path.is_absolute() or ".." in path.parts


@dataclass(frozen=True)
class App:
    """A name and the kinds of work it does.

    Args: queues: bound of each queue, in unfinished jobs. runtime: where its workspaces keep the engine's files.
    one_worker: a second worker process of the same workspace is refused.
    commands: `module:name` of the click group it adds to the command line; loaded only when used.
    """

    name: str
    kinds: Sequence[Kind] = ()
    queues: dict[str, int] = field(default_factory=lambda: {"default": limits.QUEUE_CAPACITY})
    runtime: str = ".perenne"
    one_worker: bool = False
    commands: str | None = None

    def __post_init__(self) -> None:
        limits.check_text("app", self.name, limits.NAME_BYTES)
        if not self.name.isprintable() or not isinstance(self.runtime, str) or _leaves(self.runtime):
            raise InvalidInput(
                f"app: name {self.name!r}, runtime {self.runtime!r}; give a printable name, and a folder below the "
                f"workspace such as '.perenne'"
            )
        for queue, capacity in self.queues.items():
            limits.check_text("queue", queue, limits.NAME_BYTES)
            limits.check_capacity(capacity)
        seen: set[str] = set()
        for kind in self.kinds:
            if str(kind) in seen:
                raise InvalidInput(
                    f"app {self.name}: kind {kind} is given twice; give each version once", kind=str(kind)
                )
            if kind.queue not in self.queues:
                raise InvalidInput(
                    f"app {self.name}: kind {kind} uses queue {kind.queue!r}, which has no bound in queues"
                )
            seen.add(str(kind))

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
        return (name, version) in self._index

    @cached_property
    def _index(self) -> dict[tuple[str, int | None], Kind]:
        """Kinds by name and version, and the newest of each name under no version."""
        index: dict[tuple[str, int | None], Kind] = {}
        for kind in sorted(self.kinds, key=lambda kind: kind.version):
            index[kind.name, kind.version] = index[kind.name, None] = kind
        return index
