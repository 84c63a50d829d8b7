"""An application: what a domain hands over to the engine, as one value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from perenne.core import limits
from perenne.core.kind import Kind
from perenne.errors import InvalidInput, UnknownKind


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
        found = [kind for kind in self.kinds if kind.name == name and version in (None, kind.version)]
        if not found:
            wanted = name if version is None else f"{name}@{version}"
            known = ", ".join(sorted(map(str, self.kinds))) or "none"
            raise UnknownKind(
                f"kind: {wanted!r} is not known to app {self.name}; known: {known}", field="kind", value=wanted
            )
        return max(found, key=lambda kind: kind.version)

    def knows(self, name: str, version: int) -> bool:
        """Whether a job of this kind can run here."""
        return any((kind.name, kind.version) == (name, version) for kind in self.kinds)
