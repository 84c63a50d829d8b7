"""The bytes of artefacts, looked at beside the rows that name them. Reads only."""

from __future__ import annotations

import os
from collections.abc import Iterator

from perenne.files import kernel_locks
from perenne.files.artefacts import Store
from perenne.runtime.doctor_work import MOST, Ward
from perenne.runtime.findings import Finding, bad, ok, some, warn
from perenne.store.artefacts import Artefacts, Named

STEP = 512


def artefact_files(ward: Ward, *, deep: bool) -> Iterator[Finding]:
    """Bytes that a row names and that are not there as it says, and bytes that no row names.

    Args: deep: read them all and compare their digests, too.
    """
    store, artefacts = Store(ward.workspace.artefacts_folder), Artefacts(ward.driver)
    standing = list(store.digests())  # before the ledger is asked; what is linked later is no concern of this look
    known, wrong = 0, list[str]()
    for page in artefacts.pages(STEP):
        known += len(page)
        wrong += _still_named(artefacts, {one: fault for one in page if (fault := _fault(store, one, deep))})
    if wrong:
        yield bad(
            "artefacts",
            f"{len(wrong)} of {known} in {store.folder} are not as their rows say: {some(wrong, MOST)}",
            "copy those files from where a copy of that folder is kept, or requeue the jobs with --from-start",
        )
    left = [] if kernel_locks.holders(store.lock) else _unnamed(artefacts, standing)
    if left:
        sentence = f"{len(left)} files in {store.folder} that no job names: {some(left)}"
        yield warn("artefacts", sentence, "purge: it removes them; so does a worker that recovers")
    if not wrong and not left:
        yield ok(
            "artefacts", f"{known} files are named by jobs, and all are there" + (", byte for byte" if deep else "")
        )


def _fault(store: Store, one: Named, deep: bool) -> str | None:
    """What is wrong with the bytes of one digest."""
    try:
        size_bytes = os.lstat(store.path_of(one.digest)).st_size
    except OSError as error:
        return f"{_said(one)}: {(error.strerror or 'it cannot be seen').lower()}"
    if size_bytes != one.size_bytes:
        return f"{_said(one)}: {size_bytes} bytes of {one.size_bytes}"
    if deep and not store.holds(one.digest, one.size_bytes):
        return f"{_said(one)}: other bytes"
    return None


def _said(one: Named) -> str:
    return f"{one.digest[:12]}… of job {one.job_id}"


def _still_named(artefacts: Artefacts, faults: dict[Named, str]) -> list[str]:
    """A purge beside us removes rows first and bytes later: what has no row by now was nothing wrong."""
    gone = set(artefacts.unnamed([one.digest for one in faults])) if faults else set()
    return [fault for one, fault in faults.items() if one.digest not in gone]


def _unnamed(artefacts: Artefacts, digests: list[str]) -> list[str]:
    steps = (digests[start : start + STEP] for start in range(0, len(digests), STEP))
    return [digest for step in steps for digest in artefacts.unnamed(step)]
