"""`demo resources`: three jobs that hold what they say, under the governor, with a pause and a kill between them.

What does not live here: the jobs (an application, loaded by its dotted name).
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perenne.surfaces import views
from perenne.surfaces.cli import demo_tasks

if TYPE_CHECKING:
    from perenne import App, Engine

APP = "perenne.apps.loads:app"
JOBS, PIECES, SHARES = 3, 24, 10  # each piece is a tenth of the memory
LEAST_BYTES, MOST_BYTES = 320 << 20, 1 << 40
UNITS = {"MiB": 1 << 20, "GiB": 1 << 30}
LIMIT_S = 300.0


@click.group(short_help="Show what the engine does.")
def demo() -> None:
    """Small demonstrations that can be run anywhere.

    Example: perenne demo resources --memory 600MiB
    """


@demo.command(short_help="Jobs that share a bounded memory.")
@click.option("--memory", default="600MiB", show_default=True, help="What the three jobs share; MiB or GiB.")
def resources(memory: str) -> int:
    """Run three jobs that hold the memory they say, pause one, kill their worker, and let all go on.

    The results must be those of an undisturbed run; the peaks are the kernel's.

    Example: perenne demo resources --memory 600MiB
    """
    from perenne import upkeep

    shared_bytes = _bytes(memory)
    app = upkeep.find_app(APP)
    with tempfile.TemporaryDirectory(prefix="perenne-demo-") as folder:
        return _Demo(Path(folder) / "loads", app, shared_bytes).run()


def _bytes(text: str) -> int:
    from perenne.errors import InvalidInput

    found = re.fullmatch(r"\s*(\d{1,6})\s*(MiB|GiB)\s*", text)
    size_bytes = int(found[1]) * UNITS[found[2]] if found else 0
    if not LEAST_BYTES <= size_bytes <= MOST_BYTES:
        raise InvalidInput(
            f"memory: {text!r}, the limit is {views.size(LEAST_BYTES)} to {views.size(MOST_BYTES)}; such as 600MiB",
            field="memory",
            value=text,
        )
    return size_bytes


class _Demo:
    """One run, and what it saw."""

    def __init__(self, root: Path, app: App, shared_bytes: int) -> None:
        import perenne

        self._root, self._app, self._shared_bytes = root, app, shared_bytes
        perenne.create(root, app, name="loads")
        manifest = root / "workspace.toml"
        manifest.write_text(f"{manifest.read_text()}\n[governor]\nmemory_limit_bytes = {shared_bytes}\n")
        self._most_bytes, self._at_once = 0, 0

    def run(self) -> int:
        import perenne

        with perenne.open(self._root, self._app) as engine:
            loads = [self._load(number) for number in range(JOBS)]
            ids = [engine.submit("loads.hold", load).job_id for load in loads]
            click.echo(f"{JOBS} jobs share {views.size(self._shared_bytes)}; each would hold {self._said()}")
            self._disturb(engine, ids)
        with perenne.open(self._root, self._app, access="work") as engine:
            engine.resume(ids[0])
            click.echo("the first job is resumed, and a new worker begins")
            self._work(engine)
            return self._judge(engine, ids, loads)

    def _load(self, number: int) -> dict[str, int]:
        return {"seed": number, "pieces": PIECES, "piece_bytes": self._shared_bytes // SHARES}

    def _said(self) -> str:
        jobs = import_jobs()
        needs = jobs.estimate(jobs.Load(**self._load(0)))
        return f"up to {views.size(needs.memory_of(needs.max_batch))}, {needs.max_batch} pieces at once"

    def _disturb(self, engine: Engine, ids: list[str]) -> None:
        """A worker of its own begins; the first job is paused, then the worker is killed."""
        command = [sys.executable, "-m", "perenne", "worker", APP, "--workspace", str(self._root), "--slots", str(JOBS)]
        worker = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        try:
            self._until(engine, lambda: engine.job(ids[0]).progress_done > 0)
            engine.pause(ids[0])
            self._until(engine, lambda: str(engine.job(ids[0]).state) == "PAUSED")
            click.echo(f"the first job is paused after {engine.job(ids[0]).progress_done} of {PIECES} pieces")
            self._until(engine, lambda: any(0 < engine.job(id).progress_done < PIECES for id in ids[1:]))
        finally:
            worker.kill()
            worker.wait()
        click.echo(f"the worker is killed; jobs: {views.states(engine.counts())}")

    def _work(self, engine: Engine) -> None:
        ended = threading.Event()
        watch = threading.Thread(target=self._watch, args=(engine, ended))
        watch.start()
        try:
            engine.work(slots=JOBS)
        finally:
            ended.set()
            watch.join()

    def _watch(self, engine: Engine, ended: threading.Event) -> None:
        while not ended.wait(0.05):
            self._look(engine)

    def _until(self, engine: Engine, holds: Any) -> None:
        from perenne.errors import NotAllowed

        deadline = time.monotonic() + LIMIT_S
        while not holds():
            self._look(engine)
            if time.monotonic() > deadline:
                raise NotAllowed(f"demo: nothing went on for {LIMIT_S:.0f} s; look with `perenne doctor`")
            time.sleep(0.02)  # a person looks on

    def _look(self, engine: Engine) -> None:
        held = [one.memory_bytes for one in engine.view.resources().holding if one.waits_for is None]
        self._most_bytes, self._at_once = max(self._most_bytes, sum(held)), max(self._at_once, len(held))

    def _judge(self, engine: Engine, ids: list[str], loads: list[dict[str, int]]) -> int:
        import msgspec

        jobs = import_jobs()
        same = [
            engine.job(id).result == msgspec.json.encode(jobs.undisturbed(jobs.Load(**load)))
            for id, load in zip(ids, loads, strict=True)
        ]
        for id, right in zip(ids, same, strict=True):
            job, peak = engine.job(id), _peak(engine, id)
            said = "as undisturbed" if right else "NOT as undisturbed"
            click.echo(f"{job.state:<9}  {views.count(job.number, 'attempt')}, peak {peak}, result {said}")
        left = len(engine.view.resources().holding)
        kept = self._most_bytes <= self._shared_bytes and left == 0
        click.echo(
            f"at most {views.size(self._most_bytes)} of {views.size(self._shared_bytes)} were reserved, by "
            f"{views.count(self._at_once, 'job')} at once; {views.count(left, 'reservation')} left"
        )
        return 0 if all(same) and kept else 1


def import_jobs() -> Any:
    """The module of the jobs, for the result that they must have."""
    from importlib import import_module

    return import_module("perenne.apps.loads.jobs")


def _peak(engine: Engine, id: str) -> str:
    """The most that a child of the job held, as the kernel counted it."""
    lines = (line for _, line in engine.view.log(id) if line.get("message") == "child_measured")
    peaks = [line["peak_bytes"] for line in lines if line.get("peak_bytes")]
    return views.size(max(peaks)) if peaks else "unknown"


demo.add_command(demo_tasks.tasks)
COMMANDS = (demo,)
