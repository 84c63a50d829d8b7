"""A kind: what a handler is called, what it takes, how it publishes and how it is retried.

A value handed over by an application; nothing here calls the handler.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import msgspec

from perenne.core import limits, lossless, takes
from perenne.core.estimate import Estimate
from perenne.core.publication import Publication, Published
from perenne.core.retry import Backoff
from perenne.core.takes import Confinement, Isolation
from perenne.errors import CheckpointCorrupt, CheckpointUnsupported, InvalidInput

_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_encode_state = msgspec.msgpack.Encoder(order="deterministic").encode
_decode_as_it_is = msgspec.msgpack.Decoder().decode


@dataclass(frozen=True)
class Kind:
    """A dotted name and version, and what belongs to them.

    Args:
        name, version: choose the handler; a job keeps both.
        handler: called as `handler(context, input)`; answers a value, `Snooze`, `GiveUp` or `Doubt`, raises on failure.
            A coroutine function is awaited on the one loop of its worker, with an `AsyncContext`.
        input_type: any type msgspec can read; checked at submit.
        publications: names of the ids fixed at submit, for what the job publishes in another store.
        lookup: answers whether the final publication is absent, coherent or incoherent; verifies, never repairs.
        adopt: completes the publication from verified leftovers of a dead attempt; true when it did.
        discard: removes what a dead or failed attempt left between file and row; safe to call twice.
        missing: a sentence when something the handler needs is not here (a tool), else None.
        confinement: the level that its tools require (`perenne.tools`); where it is not offered the job waits, BLOCKED.
        retry_on, give_up_on: exception types; the more specific list, `give_up_on`, is asked first.
        active_limit_s: active seconds the job may use over its attempts; then it ends BLOCKED.
        interruptions: how often its worker may die under the job, the last time included; None: each spends an attempt.
        isolation: where the handler runs: in a thread of the worker, or in a process of its own, a child.
        wall_limit_s: seconds an attempt may take; then it failed. A child is ended, a thread cannot be.
        memory_limit_bytes: address space of the child; what allocates more gets a MemoryError.
        state_type: of what `context.checkpoint` keeps and `context.state` gives back; any type msgspec can read. None:
            the kind has no checkpoints.
        migrates, migrate: older versions whose jobs this kind runs, and what makes a state of this version from one of
            theirs: `migrate(old_version, state)` is given plain values.
        autosave_s: a boundary that comes so long after the last checkpoint saves what `context.keep` was given.
        estimate: what a sequence needs, or a function of the input that says so; None: the governor is not asked.
        keep_frame: its handler cannot be called again in the same attempt; it keeps its thread between sequences.
    """

    name: str
    version: int
    handler: Callable[..., Any]
    input_type: Any
    queue: str = "default"
    publications: tuple[str, ...] = ()
    lookup: Callable[[Publication], Published] | None = None
    adopt: Callable[[Publication], bool] | None = None
    discard: Callable[[Publication], Any] | None = None
    missing: Callable[[], str | None] | None = None
    confinement: Confinement = "none"
    max_attempts: int = 3
    backoff: Backoff = field(default_factory=Backoff)
    retry_on: tuple[type[Exception], ...] = (Exception,)
    give_up_on: tuple[type[Exception], ...] = ()
    active_limit_s: float | None = None
    interruptions: int | None = None
    isolation: Isolation = "thread"
    wall_limit_s: float | None = None
    memory_limit_bytes: int | None = None
    state_type: Any = None
    migrates: tuple[int, ...] = ()
    migrate: Callable[[int, Any], Any] | None = None
    autosave_s: float | None = None
    estimate: Estimate | Callable[[Any], Estimate] | None = None
    keep_frame: bool = False

    def __post_init__(self) -> None:
        takes.check("kind: ", name=self.name)
        # The input type is read at the first submit: it may name a class that is defined below the kind.
        given = {name: value for name, value in vars(self).items() if not name.endswith("_type")}
        takes.check(f"kind {self}: ", **given)
        check_attempts(self.max_attempts)
        if inspect.isasyncgenfunction(self.handler):
            raise InvalidInput(f"kind {self}: its handler is a generator; return the result instead", field="handler")
        if self.isolation == "process" and is_coroutine(self.handler):
            raise InvalidInput(
                f"kind {self}: isolation='process' takes a plain function, and its handler is a coroutine function; "
                f"leave isolation out, or call asyncio.run in a plain function",
                field="isolation",
            )
        self._check_checkpoints()
        if self.memory_limit_bytes is not None and self.isolation != "process":
            raise InvalidInput(
                f"kind {self}: memory_limit_bytes bounds a process; give isolation='process' too, or leave it out",
                field="memory_limit_bytes",
            )

    def _check_checkpoints(self) -> None:
        if self.state_type is None and (self.migrate is not None or self.autosave_s is not None):
            raise InvalidInput(
                f"kind {self}: migrate and autosave_s are about checkpoints; give state_type too, or leave them out",
                field="state_type",
            )
        if bool(self.migrates) != (self.migrate is not None) or any(old >= self.version for old in self.migrates):
            raise InvalidInput(
                f"kind {self}: migrates {self.migrates}; name the older versions, and give migrate with them",
                field="migrates",
            )

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"

    @cached_property
    def awaits(self) -> bool:
        """Whether its handler is a coroutine function, which runs on the loop of its worker and in no slot."""
        return is_coroutine(self.handler)

    def encode_input(self, value: object) -> bytes:
        """The input as canonical JSON, after it was checked against the input type.

        Args: value: an instance of the input type, plain Python values that fit it, or JSON bytes.
        Raises: InvalidInput: names field, value and expectation. TooLarge: above 256 KiB.
        """
        encoded = self._encode_as_it_is(value)
        if encoded is None:
            encoded = self._encode_what_is_kept(value)
        limits.check_size(
            "input", len(encoded), limits.INPUT_BYTES, "submit a reference to the data instead of the data"
        )
        return encoded

    def _encode_as_it_is(self, value: object) -> bytes | None:
        """The encoding of an instance that comes back equal from it; None for whatever needs a closer look."""
        if not isinstance(value, msgspec.Struct):
            return None
        try:
            encoded = _encode_sorted(value)
            typed = self._decoder.decode(encoded)
            same = typed == value and _encode_sorted(typed) == encoded
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError):
            return None
        return encoded if same else None

    def _encode_what_is_kept(self, value: object) -> bytes:
        try:
            if isinstance(value, bytes):
                typed, given = self.read_input(value), msgspec.json.decode(value)
            else:
                given = msgspec.to_builtins(value)
                typed = msgspec.convert(given, self.input_type, strict=True)
            if loss := lossless.first_loss(given, typed):
                raise self._refused(loss)
            encoded = msgspec.json.encode(msgspec.to_builtins(typed, str_keys=True), order="deterministic")
        except InvalidInput:
            raise
        except (msgspec.ValidationError, TypeError, ValueError, OverflowError, RecursionError) as error:
            raise self._refused(lossless.why_refused(value, error)) from None
        self.read_input(encoded)  # what is stored can be read back
        return encoded

    def read_input(self, encoded: bytes) -> Any:
        """The typed input from its JSON.

        Raises: InvalidInput: names field and expectation.
        """
        try:
            return self._decoder.decode(encoded)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._refused(lossless.why_refused(encoded, error)) from None

    def encode_state(self, state: object) -> bytes:
        """The state of a checkpoint as bytes that `read_state` gives back.

        Raises: InvalidInput: it does not fit the state type. TooLarge: above 64 MiB.
        """
        try:
            encoded: bytes = _encode_state(state)
            self._state_decoder.decode(encoded)
        except (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError) as error:
            why = lossless.why_refused(state, error)
            raise InvalidInput(
                f"state of {self}: {why}; give what the kind's state type asks for", field="state", kind=str(self)
            ) from None
        limits.check_size("state", len(encoded), limits.STATE_BYTES, "keep the rest in files or in a catalogue")
        return encoded

    def read_state(self, version: int, encoded: bytes) -> Any:
        """The state that a kind of this name saved at some version, as this one has it.

        Raises: CheckpointUnsupported: of a version that this one has no way from. CheckpointCorrupt: no such state.
        """
        if version != self.version and version not in self.migrates:
            raise CheckpointUnsupported(
                f"its state was saved by {self.name}@{version}, and {self} cannot read it", value=version
            )
        try:
            if version == self.version:
                return self._state_decoder.decode(encoded)
            assert self.migrate is not None
            return msgspec.convert(self.migrate(version, _decode_as_it_is(encoded)), self.state_type)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise CheckpointCorrupt(f"its state is none of {self}: {error}") from None

    @cached_property
    def _state_decoder(self) -> msgspec.msgpack.Decoder[Any]:
        return msgspec.msgpack.Decoder(self.state_type, strict=True)

    def estimate_of(self, encoded: bytes) -> Estimate | None:
        """What a job with this input needs; None when the governor is not asked.

        Raises: InvalidInput: the kind's function gives no estimate for this input, or an invalid one.
        """
        if self.estimate is None or isinstance(self.estimate, Estimate):
            return self.estimate
        try:
            given = self.estimate(self.read_input(encoded))
        except InvalidInput:
            raise
        except Exception as error:
            said = limits.clip(f"{type(error).__name__}: {error}", limits.NAME_BYTES)
            raise InvalidInput(f"estimate of {self}: its function failed, {said}; mend it", field="estimate") from error
        if not isinstance(given, Estimate):
            raise InvalidInput(
                f"estimate of {self}: its function gave a {type(given).__name__}; let it give an Estimate",
                field="estimate",
            )
        return given

    @cached_property
    def _decoder(self) -> msgspec.json.Decoder[Any]:
        return msgspec.json.Decoder(self.input_type, strict=True)

    def retries(self, error: Exception) -> bool:
        """Whether another attempt may help."""
        return not isinstance(error, self.give_up_on) and isinstance(error, self.retry_on)

    def _refused(self, why: str) -> InvalidInput:
        return InvalidInput(
            f"input of {self}: {why}; give what the kind's input type asks for", field="input", kind=str(self)
        )


def is_coroutine(handler: Callable[..., Any]) -> bool:
    """Whether calling it gives something to await."""
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(type(handler).__call__)


def check_attempts(value: int, field: str = "max_attempts") -> int:
    """The value, when it is a legal number of attempts or of interruptions.

    Raises: InvalidInput.
    """
    if value not in limits.ATTEMPTS:
        low, high = limits.ATTEMPTS[0], limits.ATTEMPTS[-1]
        raise InvalidInput(
            f"{field}: {value}, the limit is {low} to {high}; give a number in it",
            field=field,
            value=value,
        )
    return value
