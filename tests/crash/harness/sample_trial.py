"""A trial of the sample application: who submits, steers, works and listens, and what is asked of its results."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness import children, sample_app, sample_oracles, stores
from harness.journal import Journal
from harness.ledger_file import Rows
from harness.oracles import ends_are_told, require
from harness.plan import Request
from harness.processes import Victim
from harness.trial import Plant, Trial, harmless


class SampleTrial(Trial):
    """A workspace of the sample application.

    Args: requests: all that will ever be submitted.
    """

    app = sample_app.APP

    def __init__(self, folder: Path, requests: Sequence[Request], plant: Plant = harmless) -> None:
        super().__init__(folder, ".perenne", plant)
        self.requests = list(requests)
        self.run("create", lambda: children.create(self.root))
        self.run("create the stores", lambda: sample_app.create(self.root))

    def _stand_in(self, folder: Path) -> None:
        super()._stand_in(folder)
        self.steered = Journal(folder / "steered.jsonl")
        self.delivered = Journal(folder / "delivered.jsonl")
        self.executed = sample_app.journal_of(self.root)

    def submitter(self, point: str | None = None, *, upto: int | None = None) -> Victim:
        """Submits the first requests of the plan that have no receipt yet."""
        wanted = self.requests[:upto]
        return self.start("submitter", lambda: children.submit(self.root, wanted, self.accepted), point)

    def worker(self, point: str | None = None, *, slots: int = 1, stay: bool = False) -> Victim:
        return self.start("worker", lambda: children.work(self.root, self.told, slots=slots, stay=stay), point)

    def stopped_worker(self, point: str, passage: int, *, slots: int) -> Victim:
        """A worker that stands still at a passage of a point."""
        work = lambda: children.work_until_stopped(self.root, self.told, point, passage, slots=slots)  # noqa: E731
        worker = self.start("worker", work)
        require(worker.is_stopped(), f"the worker stops at {point}", self.said())
        return worker

    def worker_with_a_deaf_child(self) -> Victim:
        """A worker whose child runs native code, after it was allowed to publish, and hears of nothing."""
        stuck = sample_app.stuck_journal_of(self.root)
        worker = self.start("worker", lambda: children.work(self.root, self.told, slots=1, stay=False))
        while not stuck.read():
            require(not worker.is_over(0.005), "the worker lives until its child is deaf", self.said())
        return worker

    def hold(self) -> None:
        """Pause the queue, until somebody finishes or steers."""
        self.run("holder", lambda: children.hold(self.root))

    def ask(self, *wishes: tuple[str, str]) -> None:
        """Ask for a verb about a job, one pair after another."""
        self.run("asker", lambda: children.ask(self.root, wishes, self.steered))

    def steerer(self, seed: int, point: str | None = None, moves: int = 6) -> Victim:
        """Cancels, pauses and resumes jobs that were accepted."""
        jobs = [line["job"] for line in self.accepted.read()]
        steer = lambda: children.steer(self.root, jobs, self.steered, seed=seed, moves=moves)  # noqa: E731
        return self.start("steerer", steer if jobs else harmless, point)

    def listener(self, point: str | None = None) -> Victim:
        """Takes the durable notices."""
        return self.start("listener", lambda: children.deliver(self.root, self.delivered), point)

    def registrar(self, point: str | None = None) -> Victim:
        """Asks for durable notices once more."""
        return self.start("registrar", lambda: children.listen(self.root), point)

    def submit_all(self) -> None:
        self.run("submitter", lambda: children.submit(self.root, self.requests, self.accepted))
        self.ask_always()

    def work_off(self) -> None:
        """Everything is submitted, recovered and worked off."""
        self.submit_all()
        self.run("finisher", lambda: children.finish(self.root, self.told))

    def finish(self) -> None:
        self.work_off()
        self.run("listener", lambda: children.deliver(self.root, self.delivered))

    def ask_always(self) -> Rows:
        receipts = self.accepted.read()  # before the rows: somebody may be submitting
        rows = super().ask_always()
        sample_oracles.accepted_is_found(rows, self.requests, receipts)
        return rows

    def published_jobs(self) -> set[str]:
        return {unit.job for unit in stores.published(self.root)}

    def ask_results(self, rows: Rows) -> None:
        sample_oracles.every_job_ended(rows, self.requests)
        sample_oracles.published_once(rows, self.root)
        sample_oracles.executed_once(rows, self.executed)
        sample_oracles.steering_is_kept(rows, self.steered)
        sample_oracles.walks_go_on(sample_app.walked_journal_of(self.root))
        sample_oracles.no_checkpoint_is_left(self.root, rows)
        sample_oracles.artefacts_are_whole(self.root, rows)
        sample_oracles.stores_are_clean(self.root)
        ends_are_told(rows, self.told, self.delivered)
