"""The endings that are being told: a wait for them knows those that began before it, and no others."""

from __future__ import annotations

import threading
from typing import Any, cast

import pytest

from perenne.core.job import Job
from perenne.runtime.ends import Ends

LIMIT_S = 20.0


class Ended:
    """As much of a job as telling needs."""

    id = "01998d3b-0000-7000-8000-000000000001"


JOB = cast(Job, Ended())


def test_nothing_open_is_settled() -> None:
    """Without an ending under way nobody waits."""
    assert Ends(lambda text: None).settle(0)


def test_a_settle_waits_for_what_is_open() -> None:
    """A settle returns once the endings that were open have closed, whether they told anybody or raised."""
    ends, settled = Ends(lambda text: None), threading.Event()

    def end() -> None:
        with ends.ending() as tell:
            waiter = threading.Thread(target=lambda: ends.settle(LIMIT_S) and settled.set(), daemon=True)
            waiter.start()
            tell([JOB])
            assert not settled.wait(0.05)
            raise ValueError("wrong")

    with pytest.raises(ValueError, match="wrong"):
        end()
    assert settled.wait(LIMIT_S)


def test_a_settle_does_not_wait_for_what_comes_later() -> None:
    """Endings that begin after it do not hold a settle up, however many there are."""
    ends, settled = Ends(lambda text: None), threading.Event()
    first = ends.open()
    waiter = threading.Thread(target=lambda: ends.settle(LIMIT_S) and settled.set(), daemon=True)
    waiter.start()
    assert not settled.wait(0.05)
    ends.open()
    ends.close(first)
    assert settled.wait(LIMIT_S)


def test_a_settle_has_its_time() -> None:
    """When the time is over, it says that something is still being told."""
    ends = Ends(lambda text: None)
    ends.open()
    assert not ends.settle(0.01)


def test_every_listener_is_told_in_order() -> None:
    """Each listener hears each job, in the order in which they came; a fault of one is reported, the others hear."""
    reports: list[str] = []
    heard: list[tuple[str, Any]] = []
    ends = Ends(reports.append)

    def broken(job: Job) -> None:
        heard.append(("broken", job))
        raise ValueError("\udcff")

    ends.add(broken)
    ends.add(lambda job: heard.append(("sound", job)))
    ends.tell([JOB, JOB])
    assert [name for name, _ in heard] == ["broken", "sound"] * 2
    assert len(reports) == 2
    assert JOB.id in reports[0]


def test_a_listener_may_add_another() -> None:
    """A listener that adds one while it is told changes nothing for this end; the next end finds both."""
    ends = Ends(lambda text: None)
    late: list[object] = []
    ends.add(lambda job: ends.add(late.append))
    ends.tell([JOB])
    assert late == []
    ends.tell([JOB])
    assert late == [JOB]
