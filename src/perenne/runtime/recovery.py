"""Settles what a dead owner left: each running attempt by what is published, then its leftovers.

Called before anything is claimed, and whenever a worker is learnt to be dead. Killed at any point and called again it
ends in the same place.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path

from perenne.app import App
from perenne.core import events
from perenne.core.job import Attempt, Job, Token
from perenne.core.publication import Published
from perenne.crashpoints import crash_point
from perenne.errors import InvalidInput, StaleToken, StorageError, StoreFailed
from perenne.files import atomic
from perenne.files.lock import Lock
from perenne.files.workspace import Workspace
from perenne.runtime import keeping, lookup, orphans, spent, wake
from perenne.runtime.clock import Clock
from perenne.runtime.ends import Ends
from perenne.store.ledger import Ledger
from perenne.store.owners import Owner, Owners
from perenne.store.reader import Reader


@dataclass(frozen=True)
class Recovery:
    """Everything that settling needs."""

    workspace: Workspace
    app: App
    ledger: Ledger
    reader: Reader
    owners: Owners
    ends: Ends
    clock: Clock
    actor: str

    def settle_dead(self, myself: str) -> tuple[list[Job], list[Owner]]:
        """Settle what every dead owner left; the jobs settled, and the owners that live beside me.

        Whoever settles keeps the dead owner's lock meanwhile: one recoverer a dead owner, and if it dies, the next.
        Raises: StoreFailed: what an owner left running cannot be seen; nothing of that owner was settled.
        """
        settled: list[Job] = []
        living: list[Owner] = []
        for owner in self.owners.present():
            if owner.id == myself:
                continue
            proof = Lock.take(self.workspace.lock_of(owner.id))
            if proof is None:
                living.append(owner)
                continue
            with proof:
                settled += self._settle_owner(owner)
                _remove(proof.path)
        return settled, living

    def sweep(self) -> None:
        """Remove locks, pipes and folders of processes that died before they signed in, or after they signed out.

        What cannot be seen or removed now is left to the next worker, and keeps this one from nothing.
        """
        present = {owner.id for owner in self.owners.present()}
        for path in _left_in(self.workspace.owners_folder, "*.lock"):
            if path.stem not in present and (proof := _let_go(path)) is not None:
                with proof:
                    _remove(path)
        wake.remove_dead(self.workspace.wake_folder)
        self._remove_stages()
        self._remove_locks_of_children()
        spent.sweep(self.workspace, self.ledger.checkpoints)

    def _settle_owner(self, owner: Owner) -> list[Job]:
        epoch = self.owners.epoch()
        attempts = self.owners.running(owner.id)
        with contextlib.ExitStack() as held:  # whoever looks again after an error can take these locks again
            ended = self._end_children(owner, attempts, held)
            # What would not end yet is looked at again later: its attempt keeps this owner among those present.
            alive = {id for id, lock in ended.items() if lock is None}
            settled = [job for attempt in attempts if attempt.id not in alive for job in self._settle(attempt, epoch)]
            for lock in filter(None, ended.values()):
                orphans.remove(lock, protocol="recover")
        self._remove_stages()
        with contextlib.suppress(StorageError):  # what stays is found by the next purge
            keeping.sweep(self.workspace, self.ledger.artefacts)
        wake.remove_dead(self.workspace.wake_folder)
        self.owners.leave(owner.id, now=self.clock.now())
        return settled

    def _end_children(
        self, owner: Owner, attempts: list[Attempt], held: contextlib.ExitStack
    ) -> dict[str, Lock | None]:
        """End what the dead owner left running: by attempt its lock, or None where something goes on."""
        ended: dict[str, Lock | None] = {}
        found = orphans.of(self.workspace.children_folder, owner.id, {attempt.id for attempt in attempts})
        for path, child in found.items():
            lock = orphans.end(path, child)
            ended[path.stem] = None if lock is None else held.enter_context(lock)
        return ended

    def _settle(self, attempt: Attempt, epoch: int) -> list[Job]:
        published = self._find(self.reader.job(attempt.job_id))
        crash_point("recover.looked_up")
        # The epoch of the store, not of the attempt: recovery speaks for the store as it is now.
        token = Token(attempt.job_id, attempt.id, attempt.number, epoch)
        with self.ends.ending() as tell:
            try:
                jobs = self.ledger.settle(token, events.Interrupted(published), now=self.clock.now(), actor=self.actor)
            except StaleToken:
                return []
            tell(job for job in jobs if job.is_final)
        return jobs[:1]

    def _find(self, job: Job) -> Published:
        """What is published for a job, after its leftovers were adopted or removed."""
        if not self.app.knows(job.kind, job.version):
            return _unknown(job)
        kind = self.app.runner(job.kind, job.version)
        try:
            publication = lookup.identity_of(job, kind, self.workspace.root)
        except InvalidInput as error:
            return Published("unknown", f"its input cannot be read any more: {error}")
        published = lookup.look(kind, publication)
        return lookup.clean(kind, publication) if published.state == "absent" else published

    def _remove_locks_of_children(self) -> None:
        """Lock files that a worker left between the end of an attempt in a child and its own."""
        found = _left_in(self.workspace.children_folder, "*.lock")
        live = self.owners.open_attempts()
        for path in (path for path in found if path.stem not in live):
            if (lock := _let_go(path)) is not None:
                orphans.remove(lock, protocol="recover")

    def _remove_stages(self) -> None:
        """Private folders of attempts that are over. What cannot be removed must not keep the worker from its work."""
        # Listed first: whoever makes a folder afterwards is not in the list, whoever made it before is in the ledger.
        found = _left_in(self.workspace.stage_folder)
        live = self.owners.open_attempts()
        for folder in (folder for folder in found if folder.name not in live):
            with contextlib.suppress(OSError, RecursionError):
                atomic.remove_tree(folder, point="recover.leftover_removed")


def _left_in(folder: Path, pattern: str = "*") -> list[Path]:
    """What may be removed from a folder; nothing while it cannot be listed."""
    with contextlib.suppress(StoreFailed):
        return atomic.listed(folder, pattern)
    return []


def _let_go(path: Path) -> Lock | None:
    """The lock of whoever is dead; None while somebody holds it, or it cannot be asked for."""
    with contextlib.suppress(StoreFailed):
        return Lock.take(path)
    return None


def _remove(lock: Path) -> None:
    """What cannot be removed must not keep the worker from its work; a later sweep finds it."""
    with contextlib.suppress(OSError):
        lock.unlink(missing_ok=True)
        crash_point("recover.lock_removed")


def _unknown(job: Job) -> Published:
    """A kind that this program does not know: back to the queue, where only who knows it takes it and looks first."""
    if job.outlives_interruption and not job.cancel_asked and not job.pause_asked:
        return Published.absent()
    return Published(
        "unknown", f"kind {job.kind}@{job.version} is not known here, so nobody could look what is published"
    )
