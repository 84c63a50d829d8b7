"""The tests of the shop: each has a workspace of its own, a clock that jumps, and a worker that dies when told."""

from __future__ import annotations

import pytest
import taskapp


def test_a_task_is_a_function() -> None:
    """Called, it needs no engine at all."""
    assert taskapp.add(2, 3) == 5


def test_a_job_has_its_result(perenne_engine, perenne_drain, perenne_result) -> None:
    """A call that is enqueued runs when a worker comes by."""
    job = taskapp.add.enqueue(2, b=3)
    perenne_drain()
    assert perenne_result(job) == 5


def test_a_failure_is_tried_again_a_minute_later(perenne_engine, perenne_drain, perenne_clock) -> None:
    """Draining lets time jump to the next attempt; no test sleeps."""
    job = taskapp.pack.enqueue("glass")
    began = perenne_clock.now()
    perenne_drain()
    found = perenne_engine.job(job.job_id)
    assert (found.state, found.number) == ("FAILED", 2)
    assert 0 < perenne_clock.now() - began <= 60_000_000


def test_what_can_never_work_fails_at_once(perenne_engine, perenne_drain) -> None:
    """A wrong value is one attempt, and the reason is kept."""
    job = taskapp.pack.enqueue("feather", weight_g=0)
    perenne_drain()
    found = perenne_engine.job(job.job_id)
    assert (found.state, found.number) == ("FAILED", 1)
    assert "weighs 0 g" in found.diagnostic


def test_a_closed_post_office_is_asked_again_tomorrow(
    perenne_engine, perenne_drain, perenne_result, perenne_clock, monkeypatch
) -> None:
    """A snooze is no failure; a handler enqueues another task."""
    monkeypatch.setattr(taskapp, "closed", True)
    job = taskapp.send.enqueue("book")
    began = perenne_clock.now()
    perenne_drain()
    assert perenne_clock.now() - began >= 86_400_000_000
    assert perenne_result(perenne_result(job)) == {"item": "book", "weight_g": 100}


@pytest.mark.parametrize("point", ["run.executed", "acknowledge.written", "acknowledge.committed"])
def test_an_order_is_paid_once_wherever_the_worker_dies(perenne_engine, perenne_drain, perenne_crash, point) -> None:
    """Killed before, in the middle of, and after the end of the payment."""
    taskapp.order(perenne_engine, "book", 1200)
    perenne_crash(point)
    perenne_drain()
    assert {job.state for job in perenne_engine.jobs()} == {"COMPLETED"}
    assert taskapp.paid(perenne_engine) == [("book", 1200)]


def test_a_bad_payment_takes_its_order_along(perenne_engine, perenne_drain) -> None:
    """A rule of the table fails the job that breaks it, and nothing is paid."""
    job = taskapp.pay.enqueue("book", -1)
    perenne_drain()
    assert perenne_engine.job(job.job_id).state == "FAILED"
    assert taskapp.paid(perenne_engine) == []
