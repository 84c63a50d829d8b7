"""The page of resources: every number with its unit, and unknown where nobody knows."""

from __future__ import annotations

from perenne.core.resources import Capacity, Machine
from perenne.runtime.resource_page import CONTRACT, Holding, Measured, ResourcePage, Waiting
from perenne.surfaces.cli import resources

MIB = 1 << 20


def filled(**other: object) -> ResourcePage:
    values: dict[str, object] = {
        "contract": CONTRACT,
        "machine": Machine(at_s=1.0, cpus=2, total_bytes=4096 * MIB, available_bytes=2048 * MIB, load=0.5),
        "capacity": Capacity(memory_bytes=3072 * MIB, gpu_memory_bytes=None, threads=2, gpu_slots=0, io_slots=1),
        "free": Capacity(memory_bytes=1024 * MIB, gpu_memory_bytes=None, threads=1, gpu_slots=0, io_slots=1),
        "kept_bytes": 1024 * MIB,
        "pressure": "",
        "holding": [],
        "waiting": [],
        "measured": [],
    }
    return ResourcePage(**values | other)  # type: ignore[arg-type]


def test_an_idle_machine_says_what_it_has() -> None:
    """What is free, of how much, what is kept for others, and that what is not measured is unknown."""
    assert resources.page(filled(), 80) == [
        "memory   1.0 GiB free of 3.0 GiB to give away; 2.0 GiB available on the machine, 1.0 GiB kept for others",
        "threads  1 free of 2; load 0.5 on 2 CPUs",
        "slots    1 of 1 I/O, 0 of 0 GPU",
        "waiting  CPU unknown %, memory unknown %, disk unknown % of the last ten seconds",
        "pressure none",
    ]


def test_who_holds_and_who_waits_is_said() -> None:
    """A running job, one between two sequences, a class that was refused, and what was measured."""
    one = {"kind": "match", "version": 1, "gpu_slots": 0, "io_slots": 0, "since": 1}
    holding = [
        Holding(job="a1", batch=4, memory_bytes=64 * MIB, threads=2, sequence=1, waits_for=None, **one),  # type: ignore[arg-type]
        Holding(job="b2", batch=0, memory_bytes=0, threads=0, sequence=3, waits_for="it needs 2 threads", **one),  # type: ignore[arg-type]
    ]
    waiting = [
        Waiting(queue="default", kind="big", version=2, since=1, waits_for="room", sentence="it needs 1 I/O slots")
    ]
    measured = [
        Measured(
            kind="match",
            version=1,
            sequences=3,
            items=12,
            duration_ms=5,
            declared_bytes=MIB,
            declared_item_bytes=2 * MIB,
            peak_bytes=None,
            worst_item_bytes=3 * MIB,
        )
    ]
    text = "\n".join(resources.page(filled(holding=holding, waiting=waiting, measured=measured), 80))
    words = [line.split() for line in text.splitlines()]
    assert ["a1", "match", "4", "64.0", "MiB", "2", "-"] in words
    assert "it needs 2 threads" in text
    assert "big@2 in default waits: it needs 1 I/O slots" in text
    assert ["match@1", "3", "12", "1.0", "MiB", "unknown", "2.0", "MiB", "3.0", "MiB"] in words
