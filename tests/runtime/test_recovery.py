"""What a dead owner left is settled by what is published (section 6), its leftovers are dealt with, and others go on.

The death is played: an attempt is claimed by an owner whose lock nobody holds. Real deaths are in `tests/crash`.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perenne import Engine, JobState, Kind, Publication, Published
from perenne.core import events
from perenne.store.ledger import Lane
from perenne.store.owners import Owner

Trial = Any
MakeKind = Callable[..., Kind]
S = JobState


def nothing(context: Any, input: object) -> str:
    return "ran"


def leave_running(engine: Engine, kind: Kind, **options: Any) -> str:
    """A job whose attempt belongs to a dead worker."""
    job_id = engine.submit(kind, None, **options).job_id
    claim_for_the_dead(engine, kind)
    assert engine.job(job_id).state is S.RUNNING
    return job_id


def claim_for_the_dead(engine: Engine, kind: Kind) -> None:
    dead = Owner(str(uuid.uuid4()), 4_000_000, "another boot", "1")
    now = engine._clock.now()
    engine._owners.join(dead, now=now)
    lane = Lane(kind.name, kind.version)
    assert engine._ledger.claim([lane], owner=dead.id, attempt=uuid.uuid4().hex, now=now) is not None


def ask(engine: Engine, job_id: str, event: events.Event) -> None:
    engine._ledger.tell(job_id, event, now=engine._clock.now(), actor="person:test")


PUBLISHED = {
    "coherent": Published.coherent({"pages": 3}),
    "incoherent": Published.incoherent("the digest differs"),
    "unknown": Published("unknown", "the disk is gone"),
    "absent": Published.absent(),
}
ASKED: dict[str, Any] = {"cancel": events.Cancel("no longer"), "pause": events.Pause(), "nothing": None}
SETTLED: dict[tuple[str, str], tuple[S, str, int]] = {
    ("coherent", "nothing"): (S.COMPLETED, "recovered_after_publish", 1),
    ("coherent", "cancel"): (S.COMPLETED, "recovered_after_publish", 1),
    ("coherent", "pause"): (S.COMPLETED, "recovered_after_publish", 1),
    ("incoherent", "nothing"): (S.RECOVERY_REQUIRED, "publication_in_doubt", 1),
    ("incoherent", "cancel"): (S.RECOVERY_REQUIRED, "publication_in_doubt", 1),
    ("incoherent", "pause"): (S.RECOVERY_REQUIRED, "publication_in_doubt", 1),
    ("unknown", "nothing"): (S.RECOVERY_REQUIRED, "publication_in_doubt", 1),
    ("absent", "cancel"): (S.CANCELLED, "cancelled_after_worker_death", 1),
    ("absent", "pause"): (S.PAUSED, "paused_after_worker_death", 1),
}


@pytest.mark.parametrize(("published", "asked"), SETTLED)
def test_an_interrupted_attempt_is_settled_by_what_is_published(
    trial: Trial, make_kind: MakeKind, published: str, asked: str
) -> None:
    """The table of section 6, line by line; the handler is not called, and no attempt is added."""
    kind = make_kind(nothing, lookup=lambda publication: PUBLISHED[published])
    with trial.open(kind) as engine:
        job_id = leave_running(engine, kind)
        if ASKED[asked] is not None:
            ask(engine, job_id, ASKED[asked])
        report = engine.work()
        job = engine.job(job_id)
        assert len(engine.attempts(job_id)) == 1
    assert (job.state, job.reason, job.spent) == SETTLED[published, asked]
    assert (report.recovered, report.ended) == (1, 0)
    if published == "coherent":
        assert job.result == b'{"pages":3}'


def test_an_absent_publication_lets_the_job_run_again(trial: Trial, make_kind: MakeKind) -> None:
    """With attempts left an interrupted job is queued and run by the same worker, the interruption counted."""
    kind = make_kind(nothing)
    with trial.open(kind) as engine:
        job_id = leave_running(engine, kind)
        engine.work()
        job = engine.job(job_id)
        assert [attempt.outcome for attempt in engine.attempts(job_id)] == ["interrupted", "completed"]
        verbs = [line.verb for line in engine.history(job_id=job_id)]
    assert (job.state, job.spent, job.interruptions, job.failures) == (S.COMPLETED, 2, 1, 0)
    assert verbs == ["submit", "claim", "requeue_interrupted", "claim", "complete"]


def test_an_interruption_on_the_last_attempt_buries(trial: Trial, make_kind: MakeKind) -> None:
    """Without an attempt left the job is DEAD: a handler that kills its worker is bounded."""
    kind = make_kind(nothing, max_attempts=1)
    with trial.open(kind) as engine:
        job_id = leave_running(engine, kind)
        engine.work()
        job = engine.job(job_id)
    assert (job.state, job.reason, job.spent) == (S.DEAD, "attempts_exhausted", 1)


def test_recovery_twice_is_once(trial: Trial, make_kind: MakeKind) -> None:
    """A second recovery finds nothing, changes no row, and the ends are told once."""
    kind = make_kind(nothing, lookup=lambda publication: Published.coherent())
    told: list[str] = []
    with trial.open(kind) as engine:
        engine.on_end(lambda job: told.append(job.id))
        job_id = leave_running(engine, kind)
        assert engine.work().recovered == 1
        lines = len(engine.history(job_id=job_id))
        assert engine.work().recovered == 0
        assert len(engine.history(job_id=job_id)) == lines
    assert told == [job_id]


class Shelf:
    """Another store with leftovers of a dead attempt."""

    def __init__(self, verifies: bool | Exception) -> None:
        self.verifies, self.published, self.removed = verifies, False, 0

    def lookup(self, publication: Publication) -> Published:
        return Published.coherent("adopted") if self.published else Published.absent()

    def adopt(self, publication: Publication) -> bool:
        if isinstance(self.verifies, Exception):
            raise self.verifies
        self.published = self.verifies
        return self.verifies

    def discard(self, publication: Publication) -> None:
        self.removed += 1


def test_leftovers_that_verify_are_adopted(trial: Trial, make_kind: MakeKind) -> None:
    """E-P2: what a dead attempt left between file and row completes the job when it verifies; nothing is removed."""
    shelf = Shelf(verifies=True)
    kind = make_kind(nothing, lookup=shelf.lookup, adopt=shelf.adopt, discard=shelf.discard)
    with trial.open(kind) as engine:
        job_id = leave_running(engine, kind)
        engine.work()
        job = engine.job(job_id)
    assert (job.state, job.result, shelf.removed) == (S.COMPLETED, b'"adopted"', 0)


def test_leftovers_that_do_not_verify_are_removed(trial: Trial, make_kind: MakeKind) -> None:
    """Leftovers that cannot be adopted are removed before the job is queued again."""
    shelf = Shelf(verifies=False)
    kind = make_kind(nothing, max_attempts=1, lookup=shelf.lookup, adopt=shelf.adopt, discard=shelf.discard)
    with trial.open(kind) as engine:
        job_id = leave_running(engine, kind)
        engine.work()
        assert engine.job(job_id).state is S.DEAD
    assert shelf.removed == 1


class Unsayable(Exception):
    def __str__(self) -> str:
        raise ValueError("it cannot be said")


@pytest.mark.parametrize("fault", [OSError("the disk is gone"), ValueError("\udcff"), Unsayable()])
def test_leftovers_that_cannot_be_dealt_with_wait_for_a_person(
    trial: Trial, make_kind: MakeKind, fault: Exception
) -> None:
    """A kind that fails at its own leftovers stops its job with the finding, and neither the worker nor other jobs."""
    shelf = Shelf(verifies=fault)
    kind = make_kind(nothing, lookup=shelf.lookup, adopt=shelf.adopt)
    other = make_kind(nothing, "trial.other")
    with trial.open(kind, other) as engine:
        job_id = leave_running(engine, kind)
        beside = engine.submit(other, None).job_id
        engine.work()
        job = engine.job(job_id)
        assert engine.job(beside).state is S.COMPLETED
    assert job.state is S.RECOVERY_REQUIRED
    assert type(fault).__name__ in job.diagnostic


@pytest.mark.parametrize("answer", [None, "coherent", 5])
def test_a_lookup_that_answers_nonsense_cannot_tell(trial: Trial, make_kind: MakeKind, answer: Any) -> None:
    """A lookup that gives no answer of ours is taken for one that could not be read."""
    kind = make_kind(nothing, lookup=lambda publication: answer)
    with trial.open(kind) as engine:
        job_id = leave_running(engine, kind)
        engine.work()
        assert engine.job(job_id).state is S.RECOVERY_REQUIRED


def test_a_kind_that_nobody_knows_here_goes_back_to_the_queue(trial: Trial, make_kind: MakeKind) -> None:
    """A job of an unknown kind is not judged: queued again, it waits for who knows it, and that one looks first."""
    known = make_kind(nothing, lookup=lambda publication: Published.coherent("found"))
    with trial.open(known) as engine:
        job_id = leave_running(engine, known)
    with trial.open(make_kind(nothing, "trial.other")) as engine:
        assert engine.work().recovered == 1
        assert (engine.job(job_id).state, engine.job(job_id).interruptions) == (S.QUEUED, 1)
    with trial.open(known) as engine:
        engine.work()
        job = engine.job(job_id)
    assert (job.state, job.reason, job.result) == (S.COMPLETED, "published_before_start", b'"found"')


@pytest.mark.parametrize("asked", ["cancel", "pause", "last"])
def test_a_kind_that_nobody_knows_here_is_never_ended_blindly(trial: Trial, make_kind: MakeKind, asked: str) -> None:
    """Where an ending would follow without a look at what is published, the job waits for a person."""
    known = make_kind(nothing, max_attempts=1 if asked == "last" else 3)
    with trial.open(known) as engine:
        job_id = leave_running(engine, known)
        if asked in ASKED:
            ask(engine, job_id, ASKED[asked])
    with trial.open(make_kind(nothing, "trial.other")) as engine:
        engine.work()
        job = engine.job(job_id)
    assert job.state is S.RECOVERY_REQUIRED
    assert "trial.work@1 is not known here" in job.diagnostic


def test_an_input_that_cannot_be_read_any_more_is_in_doubt(trial: Trial, make_kind: MakeKind) -> None:
    """Without its input nobody can say what the job would have published."""
    kind = make_kind(nothing)
    with trial.open(kind) as engine:
        job_id = leave_running(engine, kind)
    with trial.open(Kind("trial.work", 1, nothing, dict[str, int])) as engine:
        engine.work()
        job = engine.job(job_id)
    assert job.state is S.RECOVERY_REQUIRED
    assert "input" in job.diagnostic


def test_the_dead_leave_nothing_behind(trial: Trial, make_kind: MakeKind) -> None:
    """Private folders and pipes of dead owners are gone, those of the living stay, and the owner has left."""
    kind = make_kind(nothing)
    with trial.open(kind) as engine:
        leave_running(engine, kind)
        own = Path(trial.root / ".perenne")
        (own / "stage" / ("0" * 32) / "deep").mkdir(parents=True)
        (own / "stage" / ("0" * 32) / "deep" / "copy").write_bytes(b"x")
        engine.work()
        assert list((own / "stage").iterdir()) == []
        assert list((own / "wake").iterdir()) == []
        assert engine._owners.present() == []
