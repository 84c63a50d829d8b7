"""The four verdicts: each line of the specification once, and what holds for any estimate on any machine."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as some

from perenne.core.estimate import Estimate
from perenne.core.pressure import Pressure, Zone
from perenne.core.resources import Capacity, Machine, Policy, Reservation, capacity, holds, left, total
from perenne.core.verdicts import Situation, Verdict, judge, least

GIB, MIB = 1 << 30, 1 << 20


def situation(
    *, zone: Zone = Zone.GREEN, most: int | None = None, policy: Policy | None = None, **seen: Any
) -> Situation:
    """8 GiB of which 7 are available, 8 CPUs: 6 GiB and 6 threads can be given away."""
    policy = policy or Policy()
    machine = Machine(**{"at_s": 1.0, "cpus": 8, "total_bytes": 8 * GIB, "available_bytes": 8 * GIB} | seen)
    pressure = Pressure(zone=zone, at_s=1.0, most=most)
    return Situation(machine=machine, policy=policy, capacity=capacity(machine, policy), pressure=pressure)


def held(memory_bytes: int = 0, threads: int = 1, **other: int) -> Reservation:
    return Reservation(batch=1, memory_bytes=memory_bytes, threads=threads, **other)


ITEMS = Estimate(memory_bytes=GIB, memory_per_item_bytes=GIB, min_batch=1, max_batch=8, threads=4)


def test_what_fits_is_admitted_whole() -> None:
    """An idle machine gives the largest batch and all threads."""
    verdict = judge(Estimate(memory_bytes=GIB, max_batch=3, threads=6), situation(), [])
    assert (verdict.answer, verdict.grant) == ("admit", Reservation(batch=3, memory_bytes=GIB, threads=6))


def test_less_than_wished_is_an_admission() -> None:
    """Fewer items or threads than wished are granted at once, and called reduced."""
    verdict = judge(ITEMS, situation(), [held(threads=3)])
    assert verdict.answer == "reduced"
    assert verdict.grant == Reservation(batch=5, memory_bytes=6 * GIB, threads=3)


def test_busy_now_waits_and_never_is_rejected() -> None:
    """What an idle machine could hold waits for room; what it could not is rejected, with the numbers."""
    big = Estimate(memory_bytes=5 * GIB)
    assert judge(big, situation(), [held(2 * GIB)]).waits_for == "room"
    never = judge(Estimate(memory_bytes=7 * GIB), situation(), [held(2 * GIB)])
    assert (never.answer, never.grant) == ("reject", None)
    assert "7,168 MiB of memory, this machine gives at most 6,144 MiB" in never.sentence
    assert judge(Estimate(gpu_slots=1), situation(), []).answer == "reject"
    assert judge(Estimate(io_slots=2), situation(), []).answer == "reject"
    assert judge(Estimate(threads=4_096), situation(), []).answer == "reduced"


def test_exclusive_slots_are_exclusive() -> None:
    """One I/O slot serves one at a time."""
    verdict = judge(Estimate(io_slots=1), situation(), [held(io_slots=1)])
    assert (verdict.answer, verdict.waits_for) == ("wait", "room")
    assert verdict.sentence == "it needs 1 I/O slots, 0 are free"


def test_red_admits_nothing_but_the_first_of_ours() -> None:
    """In the red zone nothing is added; while nothing of ours runs, the smallest batch of the first begins."""
    red = situation(zone=Zone.RED, most=1)
    assert judge(ITEMS, red, [held()]).waits_for == "pressure"
    alone = judge(ITEMS, red, [])
    assert alone.grant is not None
    assert alone.grant.batch == 1
    assert judge(ITEMS, red, [], first=False).answer == "wait"


def test_the_emergency_floor_stops_the_first_too() -> None:
    """Below the emergency floor nothing begins at all."""
    verdict = judge(ITEMS, situation(zone=Zone.RED, available_bytes=GIB), [])
    assert (verdict.answer, verdict.waits_for) == ("wait", "pressure")


def test_yellow_halves_but_not_below_the_least() -> None:
    """In the yellow zone at most half the largest batch is granted."""
    verdict = judge(ITEMS, situation(zone=Zone.YELLOW), [held(threads=1)])
    assert verdict.grant is not None
    assert verdict.grant.batch == 4
    least = judge(Estimate(min_batch=7, max_batch=8), situation(zone=Zone.YELLOW), [held()])
    assert least.grant is not None
    assert least.grant.batch == 7


def test_a_slow_start_below_the_least_waits() -> None:
    """A least batch of 2 waits beside others until the slow start allows it, and begins when it is alone."""
    pairs = Estimate(min_batch=2, max_batch=8)
    assert judge(pairs, situation(most=1), [held()]).waits_for == "pressure"
    assert judge(pairs, situation(most=2), [held()]).answer == "reduced"
    assert judge(pairs, situation(most=1), []).answer == "reduced"


def test_our_own_load_is_not_pressure() -> None:
    """Load that our reservations explain keeps nobody out; the same load of others does."""
    small = Estimate(memory_bytes=MIB)
    assert judge(small, situation(load=30.0, own_share=1.0, cpu_percent=99.0), [held()]).answer == "admit"
    assert judge(small, situation(load=30.0, own_share=0.1), [held()]).waits_for == "pressure"
    assert judge(small, situation(load=8.5), [held(threads=5)]).answer == "admit"
    assert judge(small, situation(load=8.5), [held(threads=1)]).waits_for == "pressure"
    assert judge(small, situation(load=30.0, own_share=0.1), []).answer == "admit"


def test_memory_of_ours_is_charged_once() -> None:
    """What our running work already holds is gone from the available memory and not subtracted again."""
    two = Estimate(memory_bytes=2 * GIB)
    running = [held(3 * GIB)]
    assert judge(two, situation(available_bytes=5 * GIB, own_bytes=3 * GIB), running).answer == "admit"
    unused = judge(two, situation(available_bytes=5 * GIB, own_bytes=0), running)
    assert (unused.answer, unused.waits_for) == ("wait", "pressure")


def test_unknown_is_not_zero() -> None:
    """Unknown memory lets one job in at a time; an unknown load or pressure keeps nobody out."""
    blind = situation(total_bytes=None, available_bytes=None)
    small = Estimate(memory_bytes=MIB)
    assert judge(small, blind, []).answer == "admit"
    assert judge(small, blind, [held(MIB)]).waits_for == "pressure"
    assert judge(small, situation(load=None, cpu_percent=None), [held()]).answer == "admit"


def test_room_is_kept_for_a_job_that_waited_long() -> None:
    """Small jobs behind a large one that has waited long get only what it leaves."""
    large = least(Estimate(memory_bytes=5 * GIB, threads=1))
    small = Estimate(memory_bytes=2 * GIB)
    assert judge(small, situation(), [held(GIB)]).answer == "admit"
    assert judge(small, situation(), [held(GIB)], kept=large).waits_for == "room"
    assert judge(Estimate(memory_bytes=MIB), situation(), [], kept=large).answer == "admit"


def test_measured_items_make_the_next_batch_smaller() -> None:
    """An item that was seen to take twice what was declared halves the batch, and never below what can begin."""
    declared = Estimate(memory_per_item_bytes=GIB, max_batch=6)
    verdict = judge(declared, situation(), [], worst_item_bytes=2 * GIB)
    assert verdict.grant is not None
    assert (verdict.grant.batch, verdict.grant.memory_bytes) == (3, 6 * GIB)
    huge = judge(declared, situation(), [], worst_item_bytes=100 * GIB)
    assert huge.grant is not None
    assert (huge.grant.batch, huge.grant.memory_bytes) == (1, 6 * GIB)
    assert judge(declared, situation(), [held(GIB)], worst_item_bytes=100 * GIB).answer == "wait"


def test_unknown_gpu_memory_waits() -> None:
    """GPU memory that nobody measured is not given to a second job."""
    needs = Estimate(gpu_slots=1, gpu_memory_bytes=GIB)
    here = situation(policy=Policy(gpu_slots=2))
    assert judge(needs, here, []).answer == "admit"
    assert judge(needs, here, [held(gpu_slots=1, gpu_memory_bytes=GIB)]).answer == "wait"


estimates = some.builds(
    lambda memory, each, low, more, threads, gpu, io: Estimate(
        memory_bytes=memory * MIB,
        memory_per_item_bytes=each * MIB,
        min_batch=low,
        max_batch=low + more,
        threads=threads,
        gpu_slots=gpu,
        io_slots=io,
    ),
    some.integers(0, 9_000),
    some.integers(0, 900),
    some.integers(1, 5),
    some.integers(0, 8),
    some.integers(1, 9),
    some.integers(0, 2),
    some.integers(0, 2),
)
seen = some.fixed_dictionaries(
    {},
    optional={
        "available_bytes": some.integers(0, 9_000).map(lambda size: size * MIB) | some.none(),
        "load": some.floats(0, 40),
        "cpu_percent": some.floats(0, 100),
        "memory_percent": some.floats(0, 3),
        "io_percent": some.floats(0, 100),
        "own_share": some.floats(0, 1) | some.none(),
        "own_bytes": some.integers(0, 9_000).map(lambda size: size * MIB) | some.none(),
        "gpus": some.integers(0, 2),
    },
)
moments = some.builds(
    lambda zone, most, seen: situation(zone=zone, most=most, **seen),
    some.sampled_from(list(Zone)),
    some.sampled_from([None, 1, 2, 4]),
    seen,
)


@given(some.lists(some.tuples(estimates, moments, some.integers(0, 2_000)), max_size=12))
def test_no_order_of_verdicts_gives_more_than_there_is(asked: list[tuple[Estimate, Situation, int]]) -> None:
    """Whatever is admitted one after the other, on whatever the machine says, the sum never exceeds the capacity."""
    live: list[Reservation] = []
    there = Capacity(memory_bytes=6 * GIB, gpu_memory_bytes=None, threads=6, gpu_slots=2, io_slots=1)
    for needs, now, worst in asked:
        verdict = judge(needs, now, live, worst_item_bytes=worst * MIB)
        _is_an_answer(verdict, needs)
        if verdict.grant is not None:
            live.append(verdict.grant)
        assert holds(there, total(live))
        assert left(there, total(live)).threads == 6 - sum(one.threads for one in live)


def _is_an_answer(verdict: Verdict, needs: Estimate) -> None:
    assert verdict.sentence
    assert (verdict.grant is not None) == (verdict.answer in ("admit", "reduced"))
    assert (verdict.answer == "wait") == bool(verdict.waits_for)
    if verdict.grant is not None:
        assert needs.min_batch <= verdict.grant.batch <= needs.max_batch
        assert 1 <= verdict.grant.threads <= needs.threads
        assert verdict.grant.memory_bytes >= needs.memory_of(verdict.grant.batch)
        whole = verdict.grant.batch == needs.max_batch and verdict.grant.threads == needs.threads
        assert (verdict.answer == "admit") == whole


@given(estimates, moments, some.integers(0, 2_000))
def test_the_first_of_ours_always_begins(needs: Estimate, now: Situation, worst: int) -> None:
    """While nothing of ours runs, only the emergency floor and an impossible estimate keep the first from starting."""
    verdict = judge(needs, now, [], worst_item_bytes=worst * MIB)
    available = now.machine.available_bytes
    floored = available is not None and available <= GIB
    fits = needs.memory_of(needs.min_batch) <= 6 * GIB and needs.io_slots <= 1
    fits = fits and needs.gpu_slots <= (now.machine.gpus or 0)
    assert (
        verdict.answer == "reject" if not fits else verdict.answer in (("wait",) if floored else ("admit", "reduced"))
    )


@given(estimates, moments, some.lists(some.builds(held, some.integers(0, 3).map(lambda n: n * GIB)), max_size=3))
def test_rejection_asks_no_neighbour(needs: Estimate, now: Situation, live: list[Reservation]) -> None:
    """Who is rejected does not depend on who runs: busy is never mistaken for impossible."""
    assert (judge(needs, now, live).answer == "reject") == (judge(needs, now, []).answer == "reject")
