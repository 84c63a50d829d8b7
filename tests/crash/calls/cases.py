"""One case each: a process dies at a call of an operation, or that call fails once; then everything is asked.

Beyond the bench's own questions a fault is asked: is the answer one clear sentence of ours, blaming nobody who is
innocent; is nothing left half-made or open; does the same process do the same again once the fault is gone.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import ledger_file
from harness.journal import Journal
from harness.oracles import Violation, require
from harness.trial import Trial

from calls.operation import Operation, Performance, answers_of, descriptors
from calls.watch import AFTER, BEFORE, Call

KILLS = (BEFORE, AFTER)
NOT_MET = "not met"
_INNOCENT = {"UsageError", "StaleError"}
_IN_DOUBT = {"OutcomeUnknown", "NotDurable"}


def calls_of(operation: Operation, prepared: Trial, folder: Path) -> list[Call]:
    """The calls of the operation when nothing goes wrong, each by its name and number."""
    trial = prepared.copied(folder)
    seen = Journal(folder / "calls.jsonl")

    def record() -> None:
        performance = Performance(trial, None, "")
        operation.perform(trial, performance)
        seen.write(calls=performance.watch.calls)

    trial.run(operation.name, record)
    for line in answers_of(trial).read():
        require("error" not in line, f"{operation.name} goes well when nothing fails", line)
    (line,) = seen.read()
    shutil.rmtree(folder)
    return [Call(*call) for call in line["calls"]]


def ask(operation: Operation, prepared: Trial, folder: Path, call: Call, deed: str) -> str:
    """Do the deed at the call, let all go on, ask everything; what became of it. A broken promise raises Violation."""
    trial = prepared.copied(folder)
    trial.note_death()
    answer = (_killed if deed in KILLS else _failed)(operation, trial, call, deed)
    shutil.rmtree(folder)
    return answer


def _killed(operation: Operation, trial: Trial, call: Call, deed: str) -> str:
    def perform() -> None:
        operation.perform(trial, Performance(trial, call, deed))

    victim = trial.start(operation.name, perform)
    code = victim.end()
    if not victim.was_killed:
        require(code == 0, f"{operation.name} ends well", code, trial.said())
        return NOT_MET
    trial.note_death()
    trial.finish()
    trial.ask_at_rest()
    return "killed"


def _failed(operation: Operation, trial: Trial, call: Call, deed: str) -> str:
    victim = trial.start(operation.name, lambda: _perform_twice(operation, trial, call, deed))
    code = victim.end()
    require(code is not None, f"{operation.name} does not hang", call, deed, trial.said())
    require(code == 0, f"{operation.name} ends well", code, trial.said())
    lines = answers_of(trial).read()
    *answers, last = lines
    if not last["met"]:
        return NOT_MET
    _are_clear([line for line in answers if line["round"] == 1])
    for line in (line for line in answers if line["round"] == 2):
        again = line.get("error")
        require(again is None or again in operation.repeated, "the same works when the fault is gone", line)
    trial.note_death()
    trial.finish()
    trial.ask_at_rest()
    refused = [line["error"] for line in answers if line["round"] == 1 and "error" in line]
    return refused[0] if refused else "went well"


def _perform_twice(operation: Operation, trial: Trial, call: Call, deed: str) -> None:
    performance = Performance(trial, call, deed)
    before = descriptors()
    operation.perform(trial, performance)
    answers = performance.answers.read()
    with _written_down(performance):
        left = descriptors() - before
        require(not left, "nothing stays open", dict(left))
        _is_whole(trial, answers, is_removal="unlink" in call.name or "rmdir" in call.name)
        operation.judge(trial, answers)
    performance.round = 2
    operation.perform(trial, performance)
    performance.answers.write(met=performance.watch.done)


@contextmanager
def _written_down(performance: Performance) -> Iterator[None]:
    try:
        yield
    except Violation as violation:
        performance.answers.write(round=1, step="judged", violation=str(violation))


def _are_clear(answers: list[dict[str, Any]]) -> None:
    """A refusal is one sentence of ours; the first blames nobody who asked, later ones may follow from it."""
    first = True
    for line in answers:
        require("violation" not in line, line.get("violation", ""), answers)
        require("foreign" not in line, "an error is one of ours", line.get("foreign"))
        if "error" not in line:
            continue
        said = line["said"]
        require(not first or not _INNOCENT & set(line["families"]), "a fault of the disk is told as one", line)
        require(
            said and "\n" not in said and "fault of the program" not in said, "an error is one clear sentence", line
        )
        first = False


def _is_whole(trial: Trial, answers: list[dict[str, Any]], *, is_removal: bool) -> None:
    """What stands right after the fault, before anything could mend it."""
    if trial.ledger.exists():
        trial.ask_always()
        require(not (found := ledger_file.faults(trial.ledger)), "the ledger is whole", found)
    staged = sorted(path.name for path in trial.folder.rglob("*.stage-*"))
    require(is_removal or not staged, "no stage file is left by whoever lives", staged)
    for log in (trial.own / "logs").glob("*.jsonl"):
        torn = [line for line in log.read_bytes().splitlines() if not line.endswith(b"}")]
        require(not torn, "no line of a log is torn", torn)


def in_doubt(answers: list[dict[str, Any]], step: str) -> bool:
    """Whether the answer of this step leaves open what was done."""
    return any(line["step"] == step and line.get("error") in _IN_DOUBT for line in answers)


def refused(answers: list[dict[str, Any]], step: str) -> bool:
    """Whether this step was refused for sure."""
    return any(line["step"] == step and "error" in line for line in answers) and not in_doubt(answers, step)
