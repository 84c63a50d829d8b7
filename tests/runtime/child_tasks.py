"""Tasks that run in processes of their own; a child imports this module by its name."""

from __future__ import annotations

from typing import Any

from perenne import App

app = App("fold", migrations=["create table fold_sheet (job text)"])


@app.task(isolation="process", attempts=1)
def fold(times: int, paper: str = "white") -> dict[str, Any]:
    return {"times": times, "paper": paper}


@app.task(isolation="process", attempts=1)
def enqueues(times: int) -> str:
    fold.enqueue(times)
    return "enqueued"


@app.task(isolation="process", attempts=1)
def completes(context: Any, with_rows: bool) -> Any:
    return context.complete("done", also=print if with_rows else None)
