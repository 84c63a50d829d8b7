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
from perenne.errors import InvalidInput, StaleToken
from perenne.files import atomic
from perenne.files.lock import Lock
from perenne.files.workspace import Workspace
from perenne.runtime import lookup, orphans, spent, wake
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
        """Remove locks, pipes and folders of processes that died before they signed in, or after they signed out."""
        present = {owner.id for owner in self.owners.present()}
        for path in atomic.listed(self.workspace.owners_folder, "*.lock"):
            if path.stem not in present and (proof := Lock.take(path)) is not None:
                with proof:
                    _remove(path)
        wake.remove_dead(self.workspace.wake_folder)
        self._remove_stages()
        self._remove_locks_of_children()
        spent.sweep(self.workspace, self.ledger.checkpoints)

    def _settle_owner(self, owner: Owner) -> list[Job]:
        epoch = self.owners.epoch()
        attempts = self.owners.running(owner.id)
        ended, alive = self._end_children(owner, attempts)
        # What would not end yet is looked at again later: its attempt keeps this owner among those that are present.
        settled = [job for attempt in attempts if attempt.id not in alive for job in self._settle(attempt, epoch)]
        for lock in ended:
            orphans.remove(lock, protocol="recover")
        self._remove_stages()
        wake.remove_dead(self.workspace.wake_folder)
        self.owners.leave(owner.id, now=self.clock.now())
        return settled

    def _end_children(self, owner: Owner, attempts: list[Attempt]) -> tuple[list[Lock], set[str]]:
        """End what the dead owner's attempts left running: their locks, and the attempts of which something goes on."""
        folder = self.workspace.children_folder
        files = {self.workspace.lock_of_child(attempt.id) for attempt in attempts}
        files = {path for path in files if path.exists()} | set(orphans.of_owner(folder, owner.id))
        locks = {path.stem: orphans.end(path) for path in sorted(files)}
        return [lock for lock in locks.values() if lock is not None], {id for id, lock in locks.items() if lock is None}

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
        found = sorted(self.workspace.children_folder.glob("*.lock"))
        live = self.owners.open_attempts()
        for path in (path for path in found if path.stem not in live):
            if (lock := Lock.take(path)) is not None:
                orphans.remove(lock, protocol="recover")

    def _remove_stages(self) -> None:
        """Private folders of attempts that are over. What cannot be removed must not keep the worker from its work."""
        # Listed first: whoever makes a folder afterwards is not in the list, whoever made it before is in the ledger.
        found = atomic.listed(self.workspace.stage_folder)
        live = self.owners.open_attempts()
        for folder in (folder for folder in found if folder.name not in live):
            with contextlib.suppress(OSError, RecursionError):
                atomic.remove_tree(folder, point="recover.leftover_removed")


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
