"""An app whose long jobs give way to an urgent one at their first break; one of them runs in a child."""

from __future__ import annotations

from typing import Any

from perenne import App, Context, Estimate, Kind

ONE = Estimate(io_slots=1)


def in_child(context: Context, steps: int) -> dict[str, Any]:
    return long(context, steps, "child.urgent")


def in_thread(context: Context, steps: int) -> dict[str, Any]:
    return long(context, steps, "thread.urgent")


def long(context: Context, steps: int, urgent: str) -> dict[str, Any]:
    """Counts a sequence a step, and says from which states it began."""
    state = context.state or {"done": 0, "began": []}
    state["began"].append(state["done"])
    if state["done"] == 0:
        context.submit(urgent, 1, priority=9, name="urgent")
    while state["done"] < steps:
        state["done"] += 1
        context.sequence_break(state)
    return {"began": state["began"], "batch": context.batch}


def urgent(context: Context, number: int) -> int:
    return number


APP = App(
    "sequences",
    [
        Kind("child.long", 1, in_child, int, state_type=dict[str, Any], estimate=ONE, isolation="process"),
        Kind("thread.long", 1, in_thread, int, state_type=dict[str, Any], estimate=ONE),
        Kind("child.urgent", 1, urgent, int, estimate=ONE),
        Kind("thread.urgent", 1, urgent, int, estimate=ONE),
    ],
)
