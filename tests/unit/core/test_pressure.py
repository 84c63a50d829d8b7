"""The pressure zones: what each look at the machine changes, and what asking twice does not."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from perenne.core.pressure import Pressure, Zone, observe
from perenne.core.resources import Machine, Policy

GIB = 1 << 30
POLICY = Policy()


def look(at_s: float, **seen: Any) -> Machine:
    """A machine of 8 GiB with 6 GiB available, and what else was seen."""
    return Machine(**{"at_s": at_s, "cpus": 4, "total_bytes": 8 * GIB, "available_bytes": 6 * GIB} | seen)


def bad(at_s: float) -> Machine:
    return look(at_s, memory_percent=5.0)


def after(*looks: Machine, policy: Policy = POLICY) -> Pressure:
    pressure = Pressure()
    for one in looks:
        pressure = observe(pressure, one, policy)
    return pressure


def test_the_second_consecutive_look_makes_red() -> None:
    """One signal is yellow, a second one in a row is red; a healthy look between them keeps it yellow."""
    assert after(bad(1)).zone is Zone.YELLOW
    assert after(bad(1), bad(2)).zone is Zone.RED
    assert after(bad(1), look(2), bad(3)).zone is Zone.YELLOW


def test_one_look_counts_once() -> None:
    """A hundred verdicts on one look are one look: distinct snapshots count, not evaluations."""
    assert after(*[bad(1)] * 100).zone is Zone.YELLOW
    assert after(bad(2), bad(1), bad(2)).zone is Zone.YELLOW


def test_below_the_emergency_floor_it_is_red_at_once() -> None:
    """Below an eighth of the memory nothing waits for a second look."""
    assert after(look(1, available_bytes=GIB)).zone is Zone.RED
    assert after(look(1, available_bytes=GIB + 1)).zone is Zone.YELLOW


def test_three_healthy_looks_step_back_once() -> None:
    """Red becomes yellow after three healthy looks and green after three more; a signal between starts anew."""
    ill = [bad(1), bad(2)]
    zones = [after(*ill, *[look(at) for at in range(3, 3 + n)]).zone for n in range(7)]
    assert zones == [Zone.RED] * 3 + [Zone.YELLOW] * 3 + [Zone.GREEN]
    assert after(*ill, look(3), look(4), bad(5), look(6), look(7)).zone is Zone.RED


def test_the_slow_start_doubles() -> None:
    """After red the largest batch is 1, then 2, 4 and 8, a step for three healthy looks."""
    looks = [bad(1), bad(2), *[look(at) for at in range(3, 18)]]
    most = [after(*looks[: 8 + 3 * step]).most for step in range(4)]
    assert most == [1, 2, 4, 8]


def test_the_first_swap_counter_is_a_baseline() -> None:
    """Pages swapped before we looked are history; only growth is a signal, and an unknown look changes none."""
    assert after(look(1, swapped_pages=1_000_000)).zone is Zone.GREEN
    assert after(look(1, swapped_pages=5), look(2), look(3, swapped_pages=6)).zone is Zone.YELLOW
    assert after(look(1, swapped_pages=5), look(2, swapped_pages=5)).zone is Zone.GREEN


def test_unknown_is_no_signal() -> None:
    """A machine that says nothing says nothing bad."""
    assert after(Machine(at_s=1.0), Machine(at_s=2.0)).zone is Zone.GREEN


def test_our_own_load_is_no_signal() -> None:
    """CPU pressure that we make ourselves is subtracted; that of others stays."""
    assert after(look(1, cpu_percent=90.0, own_share=1.0)).zone is Zone.GREEN
    assert after(look(1, cpu_percent=90.0, own_share=0.1)).zone is Zone.YELLOW


def test_a_limit_of_nothing_is_no_limit() -> None:
    """A limit of 0 turns its test off, for the disk, too."""
    off = Policy(cpu_percent=0, memory_percent=0, io_percent=0)
    seen = look(1, cpu_percent=100.0, memory_percent=100.0, io_percent=100.0)
    assert after(seen, policy=off).zone is Zone.GREEN


@given(some.lists(some.tuples(some.integers(0, 30), some.booleans()), max_size=60))
def test_zones_follow_the_distinct_looks(asked: list[tuple[int, bool]]) -> None:
    """Whatever is asked again or too late, the zone is that of the distinct looks in order, counted by hand."""
    pressure, newest = Pressure(), -1
    by_hand, bad_run, good_run = "green", 0, 0
    for at, ill in asked:
        pressure = observe(pressure, bad(at) if ill else look(at), POLICY)
        if at <= newest:
            continue
        newest = at
        if ill:
            bad_run, good_run = bad_run + 1, 0
            by_hand = "red" if bad_run >= 2 or by_hand == "red" else "yellow"
            continue
        bad_run, good_run = 0, good_run + 1
        if good_run % 3 == 0:
            by_hand = {"red": "yellow", "yellow": "green", "green": "green"}[by_hand]
            good_run = 0
    assert str(pressure.zone) == by_hand
