"""Section 3.5, poison jobs and retry storms: an attempt counts before it runs, whoever it takes down."""

from __future__ import annotations

from scenario_stage import Stage, until

from perenne import JobState


def test_c29_cancel_wins_over_recovery(stage: Stage) -> None:
    """Thread: a job that ran out of memory came back for seventeen hours, and cancelling it had no effect.

    The attempt is counted in the commit that starts it, so its death cannot undo that; a cancel that was asked
    meanwhile ends the job at recovery, and it does not run again.
    """
    with stage.open() as engine:
        job = stage.submit(engine, "die", max_attempts=100)
        stage.dies()
        left = engine.job(job)
        assert (left.state, left.spent, left.number) == (JobState.RUNNING, 1, 1)
        engine.cancel(job)
        with stage.open("work") as worker:
            worker.work()
        ended = engine.job(job)
        assert (ended.state, ended.reason) == (JobState.CANCELLED, "cancelled_after_worker_death")
    assert len(stage.runs(job)) == 1


def test_c30_every_crash_is_counted_where_it_can_be_seen(stage: Stage) -> None:
    """Thread: a job crashed its worker 54 times, and its counter of attempts never moved.

    Each death is an attempt of its own, spent, and ends as an interruption; both counters stand in the job.
    """
    with stage.open() as engine:
        job = stage.submit(engine, "die", "die", "die", "", max_attempts=10)
        for deaths in (1, 2, 3):
            stage.dies()
            seen = engine.job(job)
            assert (seen.spent, seen.number, seen.interruptions) == (deaths, deaths, deaths - 1)
        with stage.open("work") as worker:
            worker.work()
        ended = engine.job(job)
        assert (ended.state, ended.spent, ended.interruptions, ended.failures) == (JobState.COMPLETED, 4, 3, 0)
        outcomes = [attempt.outcome for attempt in engine.attempts(job)]
    assert outcomes == ["interrupted", "interrupted", "interrupted", "completed"]


def test_c31_failures_and_deaths_share_one_ceiling(stage: Stage) -> None:
    """Thread: the clean-up of stale jobs did not look at the ceiling of attempts, and ran them again for ever.

    One rule counts for errors and for deaths: after one failure and two deaths a job of three attempts is DEAD, and no
    worker takes it again.
    """
    with stage.open() as engine:
        job = stage.submit(engine, "fail", "die", "die", "")
        stage.dies()
        stage.dies()
        for _ in range(3):
            with stage.open("work") as worker:
                worker.work()
        ended = engine.job(job)
        assert (ended.state, ended.reason) == (JobState.DEAD, "attempts_exhausted")
        assert (ended.number, ended.failures, ended.interruptions) == (3, 1, 2)
    assert [attempt for attempt, _ in stage.runs(job)] == [1, 2, 3]


def test_c32_a_job_that_kills_its_process_is_put_aside(stage: Stage) -> None:
    """Thread: a job that killed its process came back without end, and with it the death of every other job there.

    It takes down as many workers as it has attempts and no more; the others end, and only a person starts it again.
    """
    with stage.open() as engine:
        poison = stage.submit(engine, "die", priority=1)
        others = [stage.submit(engine) for _ in range(3)]
        for _ in range(3):
            stage.dies()
        with stage.open("work") as worker:
            worker.work()
        assert engine.job(poison).state is JobState.DEAD
        assert {engine.job(other).state for other in others} == {JobState.COMPLETED}
        assert len(stage.runs(poison)) == 3
        again = engine.requeue(poison, "the library is mended")
        assert (again.state, again.spent, again.number) == (JobState.QUEUED, 0, 3)
    stage.assert_sound()


def test_c32_the_neighbours_of_a_poison_job_are_not_buried_with_it(stage: Stage) -> None:
    """Thread: as above; in a worker of several slots the poison takes the attempts of others along.

    A job that was interrupted and has one attempt left runs alone in its process, and so does the poison: nobody but
    the poison is buried, although all of them lost the same attempts.
    """
    with stage.open() as engine:
        neighbours = [stage.submit(engine, "deaf", "deaf", "") for _ in range(2)]
        poison = stage.submit(engine, "die", priority=-1)
        for _ in range(3):
            stage.dies("slots=3")
        with stage.open("work") as worker:
            worker.work()
        ended = [engine.job(neighbour) for neighbour in neighbours]
        assert [(job.state, job.spent, job.interruptions) for job in ended] == [(JobState.COMPLETED, 3, 2)] * 2
        buried = engine.job(poison)
        assert (buried.state, buried.reason, buried.interruptions) == (JobState.DEAD, "attempts_exhausted", 3)
    stage.assert_sound()


def test_c32_a_kind_bounds_interruptions_apart_from_failures(stage: Stage) -> None:
    """Thread: as above; a limit of crashes of its own, beside the one of errors.

    Deaths spend none of the attempts that errors are bounded by, and the last that is allowed buries the job.
    """
    with stage.open() as engine:
        fails = stage.submit(engine, "fail", "die", "fail", "die", "", kind="frail")
        stage.dies()
        stage.dies()
        with stage.open("work") as worker:
            worker.work()
        ended = engine.job(fails)
        assert (ended.state, ended.spent, ended.failures, ended.interruptions) == (JobState.COMPLETED, 3, 2, 2)
        dies = stage.submit(engine, "die", kind="frail")
        for _ in range(3):
            stage.dies()
        with stage.open("work") as worker:
            worker.work()
        ended = engine.job(dies)
        assert (ended.state, ended.reason, ended.interruptions) == (JobState.DEAD, "interruptions_exhausted", 3)
    stage.assert_sound()


def test_c32_whoever_is_put_aside_has_its_turn(stage: Stage) -> None:
    """Thread: as above; a job that may only run alone must not wait for ever, nor hold up the others.

    A worker that is busy starts nothing behind it; another one that is idle takes it, and then both go on.
    """
    with stage.open() as engine:
        alone = stage.submit(engine, "die", "wait", max_attempts=2)
        stage.dies()
        with stage.worker("slots=2") as first:
            stage.until_runs(alone, 2)
            behind = [stage.submit(engine, "wait", ""), stage.submit(engine)]
            with stage.worker("slots=2") as second:
                pids = {stage.until_runs(job) for job in behind}
            assert pids == {second.pid}
            assert {pid for _, pid in stage.runs(alone)} >= {first.pid}
            stage.go_all()
            until(lambda: engine.counts().get(JobState.COMPLETED) == 3)
    stage.assert_sound()
