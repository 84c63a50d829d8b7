"""One workspace under trial: its processes, its journals, and the order of submit, crash, recovery and questions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from harness import children, ledger_file, oracles, processes, sample_app
from harness.journal import Journal
from harness.ledger_file import Rows
from harness.plan import Request
from harness.processes import Victim
from perenne import crashpoints

Plant = Callable[[], object]


def harmless() -> None:
    """No planted bug."""


class Trial:
    """A specimen workspace and everything that is known about it from outside.

    Args: folder: an empty folder. requests: all that will ever be submitted. plant: a wrong variant, switched on in
    each child before it opens the workspace.
    """

    def __init__(self, folder: Path, requests: Sequence[Request], plant: Plant = harmless) -> None:
        self.root = folder / "workspace"
        self.log = folder / "children.log"
        self.requests = list(requests)
        self.accepted = Journal(folder / "accepted.jsonl")
        self.steered = Journal(folder / "steered.jsonl")
        self.told = Journal(folder / "told.jsonl")
        self.delivered = Journal(folder / "delivered.jsonl")
        self.executed = sample_app.journal_of(self.root)
        self.plant = plant
        folder.mkdir(parents=True, exist_ok=True)
        self.run("create", lambda: children.create(self.root))
        self.run("create the stores", lambda: sample_app.create(self.root))

    def start(self, name: str, work: Callable[[], Any], point: str | None = None) -> Victim:
        """A child that does this work; it dies at the crash point, if one is given."""

        def planted() -> None:
            self.plant()
            work()

        return processes.fork(name, planted, self.log, {crashpoints.VARIABLE: point} if point else {})

    def run(self, name: str, work: Callable[[], Any], within_s: float = 60.0) -> None:
        """A child that must end well."""
        code = self.start(name, work).end(within_s)
        if code:
            raise oracles.Violation(f"{name} failed ({code}): {self.said()}")

    def submitter(self, point: str | None = None) -> Victim:
        return self.start("submitter", lambda: children.submit(self.root, self.requests, self.accepted), point)

    def worker(self, point: str | None = None, *, slots: int = 1, stay: bool = False) -> Victim:
        work = lambda: children.work(self.root, self.told, slots=slots, stay=stay)  # noqa: E731
        return self.start("worker", work, point)

    def steerer(self, seed: int, point: str | None = None, moves: int = 6) -> Victim:
        jobs = [line["job"] for line in self.accepted.read()]
        work = lambda: children.steer(self.root, jobs, self.steered, seed=seed, moves=moves)  # noqa: E731
        return self.start("steerer", work if jobs else harmless, point)

    def submit_all(self) -> None:
        self.run("submitter", lambda: children.submit(self.root, self.requests, self.accepted))

    def work_off(self) -> None:
        """Everything is submitted, recovered and worked off."""
        self.submit_all()
        self.run("finisher", lambda: children.finish(self.root, self.told))

    def finish(self) -> None:
        """Everything is worked off, and the notices are taken."""
        self.work_off()
        self.run("listener", lambda: children.deliver(self.root, self.delivered))

    def said(self) -> str:
        """The last words of the children."""
        return self.log.read_text()[-2000:] if self.log.exists() else ""

    @property
    def ledger(self) -> Path:
        return self.root / ".perenne" / "ledger.sqlite"

    def rows(self) -> Rows:
        return ledger_file.read(self.ledger)

    def ask_always(self) -> Rows:
        """The questions that hold at every instant."""
        rows = self.rows()
        oracles.ask_always(rows, self.requests, self.accepted)
        return rows

    def ask_at_rest(self) -> None:
        """All questions, then recovery once more, which must change nothing."""
        rows = self.ask_always()
        oracles.every_job_ended(rows, self.requests)
        oracles.published_once(rows, self.root)
        oracles.executed_once(rows, self.executed)
        oracles.steering_is_kept(rows, self.steered)
        oracles.ends_are_told(rows, self.told, self.delivered)
        oracles.nothing_is_left(rows, self.root)
        oracles.require(not ledger_file.faults(self.ledger), "the ledger is whole", ledger_file.faults(self.ledger))
        oracles.require(not (left := processes.survivors()), "no process is left", left)
        self._ask_again(rows)

    def _ask_again(self, before: Rows) -> None:
        """O7: another recovery finds nothing to do; only the worker that looked has signed in and out."""
        self.run("second recovery", lambda: children.work(self.root, self.told, slots=1, stay=False))
        after = self.rows()
        for table in ledger_file.TABLES:
            if table != "owner":
                same = getattr(before, table) == getattr(after, table)
                oracles.require(same, "recovery run twice changes nothing", table)
        oracles.nothing_is_left(after, self.root)
