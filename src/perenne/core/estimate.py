"""An estimate: what a job says it needs, checked once and never changed.

What does not live here: what there is (`resources`), and whether a job may begin (`verdicts`).
"""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from perenne.errors import InvalidInput

WorkClass = Literal["general", "import", "cpu", "gpu", "io", "mixed"]
MOST_BYTES = (1 << 63) - 1
MOST_BATCH = 1_000_000
MOST_ITEMS = (1 << 63) - 1
MOST_THREADS = 4_096
MOST_SLOTS = 1_024

_BOUNDS = {
    "memory_bytes": (0, MOST_BYTES),
    "memory_per_item_bytes": (0, MOST_BYTES),
    "gpu_memory_bytes": (0, MOST_BYTES),
    "gpu_memory_per_item_bytes": (0, MOST_BYTES),
    "min_batch": (1, MOST_BATCH),
    "max_batch": (1, MOST_BATCH),
    "threads": (1, MOST_THREADS),
    "gpu_slots": (0, MOST_SLOTS),
    "io_slots": (0, MOST_SLOTS),
}


class Estimate(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What one sequence of a job needs; the same for all its attempts.

    Args:
        memory_bytes, memory_per_item_bytes: of the machine, once and for each item of a batch.
        gpu_memory_bytes, gpu_memory_per_item_bytes: the same of the GPU; needs a GPU slot.
        min_batch, max_batch: items of a sequence; the governor grants a number between them.
        threads: wished for; it may grant fewer, but one.
        gpu_slots, io_slots: that nobody else has meanwhile.
        work_class: what sort of work it is, for people.
        items: how many there are in all, when it is known; no batch is larger.
    Raises: InvalidInput: names field, value and limit.
    """

    memory_bytes: int = 0
    memory_per_item_bytes: int = 0
    gpu_memory_bytes: int = 0
    gpu_memory_per_item_bytes: int = 0
    min_batch: int = 1
    max_batch: int = 1
    threads: int = 1
    gpu_slots: int = 0
    io_slots: int = 0
    work_class: WorkClass = "general"
    items: int | None = None

    def __post_init__(self) -> None:
        for field, (low, high) in _BOUNDS.items():
            _check_whole(field, getattr(self, field), low, high)
        if self.items is not None:
            _check_whole("items", self.items, 0, MOST_ITEMS)
        if self.work_class not in get_args(WorkClass):
            words = ", ".join(get_args(WorkClass))
            raise _refusal("work_class", self.work_class, words, "give one of them")
        if self.max_batch < self.min_batch:
            raise _refusal("max_batch", self.max_batch, f"at least min_batch, {self.min_batch}", "give a larger one")
        for field, fixed, each in (
            ("memory_per_item_bytes", self.memory_bytes, self.memory_per_item_bytes),
            ("gpu_memory_per_item_bytes", self.gpu_memory_bytes, self.gpu_memory_per_item_bytes),
        ):
            if fixed + each * self.max_batch > MOST_BYTES:
                limit = f"{MOST_BYTES} bytes for a batch of {self.max_batch}"
                raise _refusal(field, each, limit, "give less, or a smaller max_batch")
        if (self.gpu_memory_bytes or self.gpu_memory_per_item_bytes) and not self.gpu_slots:
            raise _refusal("gpu_slots", 0, "at least 1 with GPU memory", "give 1, or leave the GPU memory out")

    def memory_of(self, batch: int) -> int:
        """Bytes of the machine's memory that a sequence of so many items needs."""
        return self.memory_bytes + self.memory_per_item_bytes * batch

    def gpu_memory_of(self, batch: int) -> int:
        """The same of the GPU's memory."""
        return self.gpu_memory_bytes + self.gpu_memory_per_item_bytes * batch

    def bounded(self) -> Estimate:
        """The same demand with `items` folded into the batches: jobs that need the same are of one class."""
        if self.items is None:
            return self
        most = max(min(self.max_batch, self.items), 1)
        return msgspec.structs.replace(self, min_batch=min(self.min_batch, most), max_batch=most, items=None)

    def encode(self) -> str:
        """As text; equal demands give equal texts."""
        return msgspec.json.encode(self).decode()


def read(text: str) -> Estimate:
    """The estimate of a text that `encode` gave.

    Raises: InvalidInput.
    """
    try:
        return msgspec.json.decode(text, type=Estimate)
    except msgspec.MsgspecError as error:
        raise InvalidInput(f"estimate: {error}; give what `encode` answers", field="estimate") from None


def _check_whole(field: str, value: object, low: int, high: int) -> None:
    if type(value) is not int or not low <= value <= high:
        raise _refusal(field, value, f"{low} to {high}", "give a whole number in it")


def _refusal(field: str, value: object, limit: str, next_step: str) -> InvalidInput:
    shown = repr(value) if isinstance(value, int | float | str | None) else f"a {type(value).__name__}"
    return InvalidInput(
        f"estimate: {field}: {shown[:200]}, the limit is {limit}; {next_step}", field=field, value=value, limit=limit
    )
