"""Section 3.15, dependencies, pause, history: a pause is a row, and a key is taken by every live state."""

from __future__ import annotations

import pytest
from scenario_stage import Hand, Stage, token_of, until

from perenne import Engine, JobState
from perenne.core import events
from perenne.core.retry import Backoff
from perenne.errors import DuplicateJob
from perenne.store.ledger import Claim


def test_c78_a_join_is_released_by_the_last_end_and_by_nobody_else(stage: Stage) -> None:
    """Thread: a job that asks again and again whether its members have ended went on for ever when one was lost.

    No job and no question is spent on waiting: the last member's end releases the join in its own transaction, also
    when a member was cancelled, and each other job that waits for that one goes the way of its own policy.
    """
    with stage.open() as engine, stage.hand() as hand:
        members = [stage.submit(engine) for _ in range(3)]
        ways = {
            policy: stage.submit(engine, depends_on=members, on_dependency=policy)
            for policy in ("block", "fail", "continue")
        }
        before = engine.revision()
        engine.cancel(members[1])
        assert {policy: engine.job(job).state for policy, job in ways.items()} == {
            "block": JobState.BLOCKED,
            "fail": JobState.FAILED,
            "continue": JobState.BLOCKED,
        }
        for _ in range(2):
            claim = hand.claim()
            assert isinstance(claim, Claim)
            hand.end(claim.token)
        lines = [(line.job_id, line.verb, line.at) for line in engine.history(after=before)]
        assert [line[:2] for line in lines[-2:]] == [(members[2], "complete"), (ways["continue"], "release")]
        assert lines[-1][2] == lines[-2][2]
        assert [line[0] for line in lines if line[1] == "claim"] == [members[0], members[2]]
        assert engine.job(ways["block"]).reason == "dependency_failed"
    stage.assert_sound()


def test_c79_a_pause_outlives_every_process_and_loses_no_job(stage: Stage) -> None:
    """Thread: a pause was forgotten at the restart, or the jobs that came in meanwhile were dropped.

    A paused queue and a paused job stay so through a killed worker and new processes, and are shown; other queues go
    on; what came in meanwhile is there and runs when it is resumed.
    """
    with stage.open() as engine:
        engine.pause(queue="other")
        held = [stage.submit(engine, queue="other") for _ in range(3)]
        single = stage.submit(engine)
        engine.pause(single)
        poison = stage.submit(engine, "die", "")
        stage.dies()
    with stage.open() as engine:
        with stage.open("work") as worker:
            worker.work()
        assert engine.job(poison).state is JobState.COMPLETED
        assert {queue.name: queue.paused for queue in engine.queues()} == {
            "default": False,
            "narrow": False,
            "other": True,
        }
        assert "queue other" in stage.doctor("controls")[0].sentence
        held.append(stage.submit(engine, queue="other"))
        engine.pause()
        last = stage.submit(engine)
    with stage.open() as engine, stage.worker():
        assert engine.controls().paused
        assert {engine.job(job).state for job in held} == {JobState.QUEUED}
        assert engine.job(single).state is JobState.PAUSED
        assert not any(stage.runs(job) for job in (*held, single, last))
        engine.resume()
        until(lambda: engine.job(last).state is JobState.COMPLETED)
        assert {engine.job(job).number for job in held} == {0}
        engine.resume(queue="other")
        engine.resume(single)
        until(lambda: all(engine.job(job).state is JobState.COMPLETED for job in (*held, single)))
    stage.assert_sound()


LIVE = ["BLOCKED", "QUEUED", "RUNNING", "PAUSED", "RETRY_WAIT", "PAUSED_QUOTA", "RECOVERY_REQUIRED"]


def live(state: str, stage: Stage, engine: Engine, hand: Hand) -> str:
    """A job with the key `one` in this state."""
    if state == "BLOCKED":
        first = stage.submit(engine, queue="other")
        return stage.submit(engine, depends_on=[first], unique_key="one")
    job = stage.submit(engine, unique_key="one")
    if state == "PAUSED":
        engine.pause(job)
    if state in ("QUEUED", "PAUSED"):
        return job
    claim = hand.claim()
    assert isinstance(claim, Claim)
    assert claim.job.id == job
    endings = {
        "RETRY_WAIT": events.Raised("planned", retryable=True, backoff=Backoff()),
        "PAUSED_QUOTA": events.Stopped("quota"),
        "RECOVERY_REQUIRED": events.Doubted("planned"),
    }
    if state in endings:
        hand.end(claim.token, endings[state])
    return job


@pytest.mark.parametrize("state", LIVE)
def test_c80_a_key_is_taken_in_every_live_state(stage: Stage, state: str) -> None:
    """Thread: the rule against doubles looked at running jobs only, and blocked ones piled up behind it.

    In each state that is not final a second job with the key is refused and names the first; once the first has ended,
    the key is free.
    """
    with stage.open() as engine, stage.hand() as hand:
        job = live(state, stage, engine, hand)
        assert engine.job(job).state is JobState(state)
        for _ in range(3):
            with pytest.raises(DuplicateJob, match=job):
                stage.submit(engine, unique_key="one")
        if state == "RECOVERY_REQUIRED":
            engine.resolve(job, JobState.FAILED, "looked at")
        elif state == "RUNNING":
            hand.end(token_of(engine, job))
        else:
            engine.cancel(job)
        assert stage.submit(engine, unique_key="one") != job
    stage.assert_sound()
