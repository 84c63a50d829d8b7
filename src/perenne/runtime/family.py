"""The verbs by which an attempt meets other jobs: its children, and those that its own waited for.

What does not live here: what makes a job wait (`store.dependants`), and how a child becomes a row (`submitter`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO

from perenne.core import limits, takes
from perenne.core.artefact import Artefact
from perenne.core.job import Need, Receipt, Submission, Token
from perenne.core.kind import Kind
from perenne.core.states import JobState
from perenne.errors import InvalidInput, StaleToken
from perenne.files.artefacts import Store
from perenne.files.workspace import Workspace
from perenne.runtime.asks import Right, Submits
from perenne.runtime.wishes import Wishes


class Family:
    """One attempt and the jobs around its own."""

    def __init__(self, token: Token, wishes: Wishes, ledger: Right, submitter: Submits, workspace: Workspace) -> None:
        self.job_id, self.attempt, self.app = token.job_id, token.number, submitter.app
        self._token, self._wishes, self._ledger, self._submitter = token, wishes, ledger, submitter
        self._workspace = workspace
        self._needs: dict[str, Need] | None = None

    def request(self, kind: Kind | str, input: object, *, name: str | None = None, **wishes: Any) -> Submission:
        """A child of this job to be submitted, with its id and every id it will publish under; nothing is stored yet.

        Args: name: a line of text, unique among the children of this job. The id of the child comes from both, so that
        a later attempt that asks again finds what an earlier one submitted. Without a name, children of the same kind,
        input and dependencies are one. wishes: as `Engine.submit` names them, but for `job_id`.
        Raises: UnknownKind, InvalidInput, TooLarge.
        """
        return self._submitter.request_child(self.job_id, kind, input, name, wishes)

    def submit(
        self, kind: Kind | str, input: object, *, name: str | None = None, patience_s: float = 0.0, **wishes: Any
    ) -> Receipt:
        """Store a child of this job durably, or find the one that this job submitted before.

        Args: as `request`; patience_s: how long to wait for room in a full queue.
        Raises: as `Engine.submit`. StaleToken: this attempt has lost its right; nothing was stored.
        Guarantees: once it returned the child is there, and it is there once, however often the attempt is repeated.
        """
        return self.submit_many([self.request(kind, input, name=name, **wishes)], patience_s=patience_s)[0]

    def submit_many(self, children: Sequence[Submission], *, patience_s: float = 0.0) -> list[Receipt]:
        """Store what this context's `request` made, all or none, in one transaction; they may wait for each other.

        Raises: as `submit`, naming the member; a circle of dependencies by its path.
        """
        takes.check(children=children, patience_s=patience_s)
        for wanted in children:
            if wanted.parent != self.job_id:
                raise InvalidInput(
                    f"children: job {wanted.id} is none of job {self.job_id}; make it with this context's request",
                    field="children",
                )
        if self._wishes.fenced:
            raise StaleToken(f"job {self.job_id}: attempt {self.attempt} is past its time; nothing of it is kept")
        try:
            return self._submitter.enter(children, patience_s, self._token)
        except StaleToken:
            self._wishes.ask("stale")
            raise

    def needs(self) -> Mapping[str, Need]:
        """The jobs that this one waited for and what came of them, by id, in the order of submission; read once.

        One that a person went on without may not have ended; it has no result then.
        Raises: StaleToken: the right is lost. TooLarge: their results are more than 64 MiB.
        """
        if self._needs is None:
            self._needs = {need.job_id: need for need in self._pages()}
        return self._needs

    def results(self) -> list[Any]:
        """The results of the jobs that this one waited for and that are COMPLETED, in the order of submission.

        Raises: as `needs`.
        """
        return [need.result for need in self.needs().values() if need.state is JobState.COMPLETED]

    def artefacts_of(self, job_id: str) -> Mapping[str, Artefact]:
        """What a job keeps that this one waited for, by name.

        Raises: InvalidInput: this one did not wait for it. As `needs`.
        """
        if job_id not in self.needs():
            raise InvalidInput(
                f"job_id: {job_id!r} is none of the jobs that job {self.job_id} waited for; take one of `needs`",
                field="job_id",
                value=job_id,
            )
        found: dict[str, Artefact] = {}
        while page := self._ledger.artefacts_of(self._token, job_id, max(found, default="")):
            found |= {one.name: one for one in page}
        return found

    def open_artefact(self, artefact: Artefact) -> BinaryIO:
        """Its bytes, to be read, after all of them were compared with its digest.

        Raises: StoreFailed: they are missing, unreadable or damaged.
        """
        return Store(self._workspace.artefacts_folder).open_proved(artefact.digest, artefact.size_bytes)

    def _pages(self) -> Iterator[Need]:
        after, size_bytes = 0, 0
        while page := self._ledger.needs(self._token, after):
            after = page[-1].seq
            size_bytes += sum(len(need.encoded or b"") for need in page)
            limits.check_size("needs", size_bytes, limits.NEEDS_BYTES, "keep large results in files, and answer where")
            yield from page
