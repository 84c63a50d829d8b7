"""The work of a workspace, looked at: workers, what they run, what waits for a person, contradictions. Reads only."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from perenne.app import App
from perenne.files import kernel_locks
from perenne.files.workspace import Workspace
from perenne.runtime import heldloop, retention_rule
from perenne.runtime.clock import Clock
from perenne.runtime.findings import Finding, bad, ok, some, warn
from perenne.runtime.lookup import stamp
from perenne.store import disagreements
from perenne.store.checkpoints import Checkpoints
from perenne.store.driver import Driver
from perenne.store.health import Health, Life, Stuck
from perenne.store.owners import Owner, Owners
from perenne.store.reader import Reader

MOST = 20  # jobs named in one look; their number is always told

_NEXT = {
    "dependency_failed": "requeue or resolve the job it waits for, or release this one with a reason",
    "tool_missing": "install what is missing, then start a worker",
    "confinement_missing": "start a worker on a machine that offers it; doctor says what this one offers",
    "active_time_limit": "release it with a reason, which gives it its time anew, or cancel it",
}


@dataclass(frozen=True)
class Ward:
    """What these looks need; `app` is None where the application is not known."""

    workspace: Workspace
    app: App | None
    driver: Driver
    clock: Clock

    @property
    def health(self) -> Health:
        return Health(self.driver)


def controls(ward: Ward) -> Iterator[Finding]:
    """Whether anything keeps new work from starting."""
    reader = Reader(ward.driver)
    whole = reader.controls()
    closed = ["the workspace"] if whole.paused or whole.stopped else []
    closed += [f"queue {queue.name}" for queue in reader.queues() if queue.paused or queue.stopped]
    if closed:
        yield warn("controls", f"paused or stopped: {some(closed)}", "resume what should go on")
    else:
        yield ok("controls", "nothing is paused or stopped")


def retention(ward: Ward) -> Iterator[Finding]:
    """Which finished jobs go by themselves."""
    rule = retention_rule.of(ward.workspace)
    if rule is None:
        yield ok("retention", "every job is kept: the manifest has no [retention]")
    else:
        yield ok("retention", f"workers remove {retention_rule.words(rule)}")


def contradictions(ward: Ward) -> Iterator[Finding]:
    """Counts against what they count, and jobs against their attempts."""
    for name, look in (
        ("counters", disagreements.counters),
        ("dependencies", disagreements.unmet),
        ("attempts", disagreements.attempts),
        ("history", disagreements.births),
    ):
        found = ward.driver.read(look)
        if found:
            yield bad(name, f"the ledger contradicts itself: {some(found)}", "report it; make a backup before all else")
        else:
            yield ok(name, "the ledger agrees with itself")


def owners(ward: Ward) -> Iterator[Finding]:
    """Workers that have not left: whether they live is for their locks to say."""
    for owner in Owners(ward.driver).present():
        yield _owner(ward, owner)


def _owner(ward: Ward, owner: Owner) -> Finding:
    sentence = f"worker {owner.id}, process {owner.pid}"
    holders = kernel_locks.holders(ward.workspace.lock_of(owner.id))
    if not kernel_locks.are_listed():
        return ok("owners", f"{sentence}: this system does not show whether it lives")
    if not holders:
        return warn("owners", f"{sentence}: it is dead, and what it left is not settled", "start a worker: it settles")
    stopped = [str(one.pid) for one in holders if one.stopped]
    if stopped:
        next_step = f"continue it (kill -CONT {' '.join(stopped)}), or end it"
        return warn("owners", f"{sentence}: it lives but is stopped, and its jobs with it", next_step)
    return ok("owners", f"{sentence}: it lives")


def loops(ward: Ward) -> Iterator[Finding]:
    """Workers one of whose coroutines keeps all others waiting, as they say it themselves while it lasts."""
    for owner in Owners(ward.driver).present():
        lock = ward.workspace.lock_of(owner.id)
        held = heldloop.told(lock)
        if held is not None and kernel_locks.holders(lock):
            held_s = max(ward.clock.now() - held.since, 0) / 1e6
            yield warn(
                "loops",
                f"worker {owner.id}, process {owner.pid}: {held.who} holds its loop for {held_s:.0f} s, "
                "and all other coroutines of this worker wait",
                "its log shows where (perenne logs); await what takes long, or hand it to a thread; if it never lets "
                f"go, kill -9 {owner.pid}: the next worker settles its jobs",
            )


def owner_locks(ward: Ward) -> Iterator[Finding]:
    """Lock files of workers that died between taking their lock and entering themselves; listed before the ledger."""
    found = sorted(ward.workspace.owners_folder.glob("*.lock"))
    known = {owner.id for owner in Owners(ward.driver).present()}
    left = [path.name for path in found if path.stem not in known and not kernel_locks.holders(path)]
    if left and kernel_locks.are_listed():
        yield warn("owner locks", f"locks of workers that never began, and are dead: {some(left)}", "remove them")
    else:
        yield ok("owner locks", "every lock belongs to a worker")


def running(ward: Ward) -> Iterator[Finding]:
    """Attempts whose owner is gone: their time ends where their owner last gave a sign of life."""
    lives = ward.health.running(limit=MOST * 50)
    dead = {life.owner for life in lives if _is_lost(ward, life)}
    lost = [life for life in lives if life.owner in dead]
    for life in lost[:MOST]:
        yield _lost(ward, life)
    if len(lost) > MOST:
        yield warn("running", f"{len(lost) - MOST} more attempts have lost their owner", "start a worker: it settles")
    yield ok("running", f"{len(lives) - len(lost)} attempts run in live workers")


def _is_lost(ward: Ward, life: Life) -> bool:
    if life.owner_left_at is not None:
        return True
    return kernel_locks.are_listed() and not kernel_locks.holders(ward.workspace.lock_of(life.owner))


def _lost(ward: Ward, life: Life) -> Finding:
    proof_at = max(life.proof_at, _last_logged(ward, life))
    ran_s = (proof_at - life.claimed_at) / 1e6
    sentence = (
        f"job {life.job_id}, attempt {life.number}: owner lost since {stamp(proof_at)} (process {life.pid}); "
        f"its duration stops at the last proof of life, after {ran_s:.1f} s"
    )
    return warn("running", sentence, "start a worker: it looks what was published and settles the job")


def _last_logged(ward: Ward, life: Life) -> int:
    """When the attempt last wrote to its log; only attempts write there."""
    try:
        changed_at = os.stat(ward.workspace.log_of(life.job_id)).st_mtime_ns // 1000
    except OSError:
        return 0
    return changed_at if changed_at <= ward.clock.now() else 0


def in_doubt(ward: Ward) -> Iterator[Finding]:
    """Jobs that only a person can settle."""
    next_step = "look at what it published, then resolve it as COMPLETED, QUEUED or FAILED, with a reason"
    yield from _named("in doubt", ward.health.doubtful(limit=MOST + 1), lambda job: next_step)


def blocked(ward: Ward) -> Iterator[Finding]:
    """Jobs that wait for something that does not come by itself."""
    other = "release it with a reason when what blocks it is gone, or cancel it"
    yield from _named("blocked", ward.health.stuck(limit=MOST + 1), lambda job: _NEXT.get(job.reason, other))


def _named(name: str, jobs: list[Stuck], next_step_of: Callable[[Stuck], str]) -> Iterator[Finding]:
    for job in jobs[:MOST]:
        detail = f" ({job.diagnostic})" if job.diagnostic and job.diagnostic != job.reason else ""
        sentence = f"job {job.job_id}, {job.kind}@{job.version}: {job.reason}{detail}"
        yield warn(name, sentence, next_step_of(job))
    if len(jobs) > MOST:
        yield warn(name, f"there are more than {MOST} of them", "settle these first, then look again")
    if not jobs:
        yield ok(name, f"no job is {name}")


def kinds(ward: Ward) -> Iterator[Finding]:
    """Unfinished jobs of kinds that nobody here can run."""
    if ward.app is None:
        return
    unknown = [
        (kind, version, count) for kind, version, count in ward.health.kinds() if not ward.app.knows(kind, version)
    ]
    for kind, version, count in unknown[:MOST]:
        sentence = f"{count} unfinished jobs of kind {kind}@{version}, which app {ward.app.name} does not know here"
        yield warn("kinds", sentence, "start a worker of a version that knows it, or cancel them")
    if not unknown:
        yield ok("kinds", f"app {ward.app.name} knows the kind of every unfinished job")


def wall_limits(ward: Ward) -> Iterator[Finding]:
    """Kinds whose attempts have a hard limit that nobody can enforce, because they run in a thread."""
    kinds = [] if ward.app is None else [kind for kind in ward.app.kinds if kind.wall_limit_s is not None]
    bare = [str(kind) for kind in kinds if kind.isolation == "thread" and not kind.awaits]
    if bare:
        sentence = f"{some(bare)}: wall_limit_s in a thread, which cannot be ended; a runaway takes its worker along"
        yield warn("wall limits", sentence, "give isolation='process' to these kinds")
    elif kinds:
        yield ok("wall limits", "every kind with a hard limit runs in a child, or is a coroutine, which is cancelled")


def files(ward: Ward) -> Iterator[Finding]:
    """Files of jobs and attempts that the ledger does not know, listed before it is asked."""
    logs = {path.stem for path in (ward.workspace.own_folder / "logs").glob("*.jsonl") if path.stem != "engine"}
    stages = _names(ward.workspace.stage_folder)
    yield from _strangers(ward, logs)
    left = sorted(stages - Owners(ward.driver).open_attempts())
    if left:
        sentence = f"folders of attempts that are over stand in {ward.workspace.stage_folder}: {some(left)}"
        yield warn("stages", sentence, "start a worker: its recovery removes them")
    else:
        yield ok("stages", "no folder of an attempt that is over is left")


def _strangers(ward: Ward, logs: set[str]) -> Iterator[Finding]:
    listed = sorted(logs)
    unknown = [id for start in range(0, len(listed), 512) for id in ward.health.unknown(listed[start : start + 512])]
    if unknown:
        sentence = f"logs of {len(unknown)} jobs that the ledger does not know: {some(unknown)}"
        yield warn(
            "logs", sentence, "they are of purged jobs, or of jobs lost by a restore; remove them when not needed"
        )
    else:
        yield ok("logs", "every log belongs to a job")


def checkpoint_files(ward: Ward) -> Iterator[Finding]:
    """Files of checkpoints from which no job goes on, listed before the ledger is asked; who saves holds the lock."""
    folder = ward.workspace.checkpoints_folder
    listed = {name.partition(".")[0] for name in _names(folder) if name.endswith((".chk", ".next"))}
    kept = Checkpoints(ward.driver).kept()
    left = [id for id in sorted(listed - kept.keys()) if not kernel_locks.holders(folder / f"{id}.chk.lock")]
    if left:
        yield warn(
            "checkpoints",
            f"files in {folder} from which no job goes on: {some(left)}",
            "start a worker: it removes them",
        )
    else:
        yield ok("checkpoints", f"{len(kept)} jobs have a checkpoint, and no file is left of others")


def children(ward: Ward) -> Iterator[Finding]:
    """Lock files of attempts in children that are over, listed before the ledger is asked."""
    found = sorted(path.stem for path in ward.workspace.children_folder.glob("*.lock"))
    live = Owners(ward.driver).open_attempts()
    left = [id for id in found if id not in live]
    if left:
        sentence = f"lock files of attempts that are over stand in {ward.workspace.children_folder}: {some(left)}"
        yield warn("children", sentence, "start a worker: its recovery removes them")
    else:
        yield ok("children", f"{len(found)} attempts run in children, and no lock file of another one is left")


def _names(folder: Path) -> set[str]:
    return set(os.listdir(folder)) if folder.is_dir() else set()


CHECKS = (
    controls,
    retention,
    contradictions,
    owners,
    loops,
    owner_locks,
    running,
    in_doubt,
    blocked,
    kinds,
    wall_limits,
    files,
    checkpoint_files,
    children,
)
