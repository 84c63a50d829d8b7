"""Makes a checked request of what a caller says: every wish by name, every id fixed, nothing stored.

What does not live here: what a kind takes as input (`core.kind`), and the bounds the ledger keeps (`store.intake`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Any, TypeVar

import msgspec

from perenne.app import App
from perenne.core import identity, limits, takes
from perenne.core.job import Durability, OnDependency, Submission
from perenne.core.kind import Kind
from perenne.errors import InvalidInput
from perenne.runtime import importable
from perenne.runtime.luck import Luck

Choice = TypeVar("Choice", bound=StrEnum)


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """What may be said with a submit, beside kind and input.

    Args: job_id: a UUID of the caller's own. key: the same key and content again is the same job. unique_key: at most
    one unfinished job has it. queue: else the kind's. priority: -1000 to 1000, higher first. not_before: with its time
    zone. depends_on: ids of jobs. on_dependency: `block`, `fail` or `continue` when one of them ends badly; the last
    makes a join, which waits until all of them have ended in whatever way. max_attempts: 1 to 100. ids: for
    publications whose ids the application fixes itself. requested_at: UTC microseconds. durability: `durable`, or
    `relaxed`: not synced by itself, so a power cut may take the job until the next durable commit.
    """

    job_id: str | None = None
    key: str | None = None
    unique_key: str | None = None
    queue: str | None = None
    priority: int = 0
    not_before: datetime | None = None
    depends_on: Sequence[str] = ()
    on_dependency: str = "block"
    max_attempts: int | None = None
    ids: Mapping[str, str] | None = None
    requested_at: int | None = None
    durability: str = "durable"


_NONE = Wishes()


def read(wishes: Mapping[str, Any]) -> Wishes:
    """The wishes by name.

    Raises: InvalidInput: one has no such name.
    """
    if not wishes:
        return _NONE
    for name in wishes:
        if name not in Wishes.__struct_fields__:
            raise InvalidInput(f"{name}: no such wish; known: {', '.join(Wishes.__struct_fields__)}", field=name)
    takes.check(**wishes)
    return Wishes(**wishes)


def make(app: App, kind: Kind | str, input: object, wishes: Wishes, *, now: int, luck: Luck) -> Submission:
    """The request, checked against the kind.

    Raises: UnknownKind, InvalidInput, TooLarge.
    """
    kind = _known(app, kind)
    return _made(kind, kind.encode_input(input), wishes.job_id or identity.job_id(now, luck.bytes(10)), wishes, now)


def make_child(
    app: App, kind: Kind | str, input: object, wishes: Wishes, *, parent: str, name: str | None, now: int
) -> Submission:
    """The request of a job that `parent` submits while it runs; the same name gives the same id whoever asks, and when.

    Args: name: unique among the children of its parent; without it, those that ask for the same are one.
    Raises: as `make`.
    """
    if wishes.job_id is not None:
        raise InvalidInput("job_id: that of a child comes from its parent; give a name instead", field="job_id")
    kind = _known(app, kind)
    encoded = kind.encode_input(input)
    name = _named_by_content(kind, encoded, wishes) if name is None else _checked(name)
    request = _made(kind, encoded, identity.child_id(parent, name), wishes, now)
    return msgspec.structs.replace(request, parent=parent)


def _checked(name: str) -> str:
    """A line of text: what we name by content has several, and so never meets a name that was given."""
    if "\n" in limits.check_text("name", name, limits.NAME_BYTES):
        raise InvalidInput(f"name: {name!r} has a line break; give one line", field="name", value=name)
    return name


def _named_by_content(kind: Kind, encoded: bytes, wishes: Wishes) -> str:
    """By all that E-Q1 compares."""
    needs = "\n".join(sorted(set(wishes.depends_on)))
    digest = hashlib.sha256(f"{len(needs)}\n{needs}\n".encode() + encoded).hexdigest()
    return f"\n{kind}\n{digest}"


def _known(app: App, kind: Kind | str) -> Kind:
    try:
        kind = app.kind(kind) if isinstance(kind, str) else app.kind(kind.name, kind.version)
    except (AttributeError, TypeError):
        raise takes.refusal("kind", kind) from None
    importable.check([kind])
    return kind


def _made(kind: Kind, encoded: bytes, id: str, wishes: Wishes, now: int) -> Submission:
    needs = None if kind.estimate is None else kind.estimate_of(encoded)
    return Submission(
        id=id,
        kind=kind.name,
        version=kind.version,
        input=encoded,
        queue=wishes.queue or kind.queue,
        key=wishes.key,
        unique_key=wishes.unique_key,
        priority=wishes.priority,
        due_at=0 if wishes.not_before is None else _due_at(wishes.not_before, now),
        dependencies=tuple(wishes.depends_on),
        on_dependency=_chosen(_POLICIES, "on_dependency", wishes.on_dependency),
        max_attempts=kind.max_attempts if wishes.max_attempts is None else wishes.max_attempts,
        publications=_ids(kind, id, wishes.ids) if kind.publications or wishes.ids is not None else "{}",
        requested_at=now if wishes.requested_at is None else wishes.requested_at,
        durability=_chosen(_DURABILITIES, "durability", wishes.durability),
        active_limit_ms=None if kind.active_limit_s is None else int(kind.active_limit_s * 1000),
        max_interruptions=kind.interruptions,
        estimate=None if needs is None else needs.bounded().encode(),
    )


def _due_at(not_before: datetime, now: int) -> int:
    if not_before.tzinfo is None:
        raise InvalidInput(f"not_before: {not_before} has no time zone; give one, such as UTC", field="not_before")
    due_at = int(not_before.timestamp() * 1_000_000)
    return due_at if due_at > now else 0


# By their words, as the callers give them: to ask an enumeration takes ten times as long.
_POLICIES = {policy.value: policy for policy in OnDependency}
_DURABILITIES = {durability.value: durability for durability in Durability}


def _chosen(choices: Mapping[str, Choice], field: str, value: str) -> Choice:
    try:
        return choices[value]
    except (KeyError, TypeError):
        raise InvalidInput(f"{field}: {value!r}; give one of {', '.join(choices)}", field=field, value=value) from None


def _ids(kind: Kind, job: str, given: Mapping[str, str] | None) -> str:
    """The ids of everything the job will ever publish, as JSON."""
    if given is not None and set(given) != set(kind.publications):
        raise InvalidInput(f"ids of {kind}: {sorted(given)}; give exactly {sorted(kind.publications)}", field="ids")
    ids = given or {name: identity.publication_id(job, name) for name in kind.publications}
    return msgspec.json.encode({name: identity.check_uuid(f"ids.{name}", id) for name, id in ids.items()}).decode()
