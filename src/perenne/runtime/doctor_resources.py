"""The governor, looked at: what the machine offers, what it does not say, and who waits for what. Reads only."""

from __future__ import annotations

from collections.abc import Iterator

from perenne.core.resources import Machine
from perenne.runtime import resource_page
from perenne.runtime.doctor_work import Ward
from perenne.runtime.findings import Finding, ok, some, warn
from perenne.runtime.resource_page import ResourcePage

_TOLD = {
    "load": "load",
    "cpu_percent": "CPU pressure",
    "memory_percent": "memory pressure",
    "io_percent": "disk pressure",
    "swapped_pages": "swapping",
}


def resources(ward: Ward) -> Iterator[Finding]:
    """What can be given away; nothing is said where no job ever asked the governor."""
    page = resource_page.look(ward.workspace, ward.driver)
    asks = ward.app is not None and any(kind.estimate is not None for kind in ward.app.kinds)
    if not asks and not (page.holding or page.waiting or page.measured):
        return
    yield _machine(page)
    for one in page.waiting:
        sentence = f"jobs of {one.kind}@{one.version} in queue {one.queue} wait: {one.sentence}"
        if one.waits_for == "other":
            yield warn("resources", sentence, "start that worker, or give this one more")
        else:
            yield ok("resources", sentence)


def _machine(page: ResourcePage) -> Finding:
    memory = page.capacity.memory_bytes
    if memory is None:
        sentence = "the machine does not say how much memory it has, so one job with an estimate runs at a time"
        return warn("resources", sentence, "look why /proc/meminfo cannot be read")
    free = page.free.memory_bytes or 0
    sentence = (
        f"{free >> 20:,} of {memory >> 20:,} MiB and {page.free.threads} of {page.capacity.threads} threads are free "
        f"for jobs with an estimate"
    )
    unknown = _unknown(page.machine)
    if unknown:
        return warn("resources", f"{sentence}; not known here: {some(unknown, most=9)}", "none of it is needed to work")
    return ok("resources", sentence)


def _unknown(machine: Machine) -> list[str]:
    return [words for field, words in _TOLD.items() if getattr(machine, field) is None]


CHECKS = (resources,)
