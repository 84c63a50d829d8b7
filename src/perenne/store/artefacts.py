"""What the ledger knows of artefacts, and how an attempt adds one: guarded by its token, counted, never replaced.

What does not live here: bytes (`files.artefacts`), and when they go (`runtime.pruner`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import msgspec

from perenne.core.artefact import Artefact, Room
from perenne.core.job import Token
from perenne.crashpoints import crash_point
from perenne.errors import ReportConflict
from perenne.store import turns
from perenne.store.driver import Driver, Transaction
from perenne.store.rows import listed


class Named(msgspec.Struct, frozen=True):
    """Bytes that some job keeps; job_id: one of those that do."""

    digest: str
    size_bytes: int
    job_id: str


class Artefacts:
    """The artefacts of one ledger."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver

    def of(self, job_id: str) -> list[Artefact]:
        """What a job keeps, by name."""
        return self._driver.read(lambda tx: _of(tx, job_id))

    def add(self, token: Token, wanted: Artefact, room: Room) -> Artefact:
        """Add it to the token's job; the one that stands if the job has these bytes under this name already.

        Raises: StaleToken, TooLarge; ReportConflict: the job has other bytes under this name. StorageError, DiskLow.
        """

        def work(tx: Transaction) -> Artefact:
            turns.held(tx, token)
            stands = next((one for one in _of(tx, token.job_id) if one.name == wanted.name), None)
            if stands is not None:
                _refuse_other(token, stands, wanted)
                return stands
            sizes = tx.one("artefact_sizes", job_id=token.job_id)
            assert sizes is not None
            room.check(wanted.name, wanted.size_bytes, *sizes)
            values = msgspec.structs.asdict(wanted)
            tx.run("insert_artefact", job_id=token.job_id, now=values.pop("kept_at"), **values)
            tx.run("grow_artefacts", size_bytes=wanted.size_bytes)
            crash_point("artefact.written")
            return wanted

        kept = self._driver.write(work, recheck=lambda tx, answer: answer in _of(tx, token.job_id))
        crash_point("artefact.committed")
        return kept

    def pages(self, most: int) -> Iterator[list[Named]]:
        """All bytes that are kept, once each, by their digests; each page on a view of its own."""
        after: str | None = ""
        while after is not None:
            page = self._driver.read(partial(_named, after=after, most=most))
            yield page
            after = page[-1].digest if len(page) == most else None

    def unnamed(self, digests: Sequence[str]) -> list[str]:
        """Those of the digests that no job names."""
        given = listed(digests)
        return [row[0] for row in self._driver.read(lambda tx: tx.all("unnamed_digests", digests=given))]


def _named(tx: Transaction, after: str, most: int) -> list[Named]:
    return [Named(*row) for row in tx.all("named_digests", after=after, limit=most)]


def _of(tx: Transaction, job_id: str) -> list[Artefact]:
    return [Artefact(*row) for row in tx.all("artefacts_of_job", job_id=job_id)]


def _refuse_other(token: Token, stands: Artefact, wanted: Artefact) -> None:
    if stands.digest != wanted.digest:
        raise ReportConflict(
            f"artefact {wanted.name!r}: job {token.job_id} keeps other bytes under this name since attempt "
            f"{stands.number} ({stands.digest[:12]}…); choose another name, or make the same bytes again",
            name=wanted.name,
            digest=stands.digest,
        )
