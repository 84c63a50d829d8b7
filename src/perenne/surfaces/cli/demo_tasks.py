"""`demo tasks`: three jobs that save after each chunk are paused, killed, resumed and cancelled before one's eyes.

What does not live here: the jobs (an application, loaded by its dotted name).
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from perenne.surfaces import views
from perenne.surfaces.cli import options
from perenne.surfaces.cli.bars import Bars

if TYPE_CHECKING:
    from perenne import App, Engine, Job

APP = "perenne.apps.primes:app"
CHUNK, CHUNKS = 25_000, (60, 60, 6_000)  # nobody waits for the last one: it is cancelled
PAUSED, KILLED, CANCELLED = range(3)  # what each job is for
LIMIT_S = 300.0


@click.command(short_help="Jobs that go on from where they were.")
def tasks() -> int:
    """Run three jobs that count primes: pause and resume one, kill their worker, cancel one, and let all end.

    What was counted before is not counted again, and the results must be those of an undisturbed run.

    Example: perenne demo tasks
    """
    from perenne import upkeep

    app = upkeep.find_app(APP)
    with tempfile.TemporaryDirectory(prefix="perenne-demo-") as folder:
        return _Demo(Path(folder) / "primes", app).run()


class _Demo:
    """One run: its jobs, its worker, and what is on the screen."""

    def __init__(self, root: Path, app: App) -> None:
        import perenne

        self._root, self._app, self._bars = root, app, Bars()
        self._jobs: Any = import_module("perenne.apps.primes.jobs")
        self._bounds = [self._jobs.Bound(CHUNK, chunks) for chunks in CHUNKS]
        self._worker: subprocess.Popen[bytes] | None = None
        perenne.create(root, app, name="primes")

    def run(self) -> int:
        import perenne

        with perenne.open(self._root, self._app) as engine:
            self._engine = engine
            self._ids = [engine.submit("primes.count", bound).job_id for bound in self._bounds]
            self._say(f"{len(self._ids)} jobs count primes, {CHUNK:,} numbers a chunk, and save after each chunk")
            try:
                self._begin_worker()
                self._pause_and_resume()
                self._kill_worker()
                self._begin_worker()
                self._cancel()
                self._until(lambda: all(self._job(number).is_final for number in range(len(self._ids))))
            finally:
                self._end_worker()
            return self._judge(engine)

    def _begin_worker(self) -> None:
        command = [sys.executable, "-m", "perenne", "worker", APP, "--workspace", str(self._root)]
        self._worker = subprocess.Popen([*command, "--slots", str(len(self._ids))], stdout=subprocess.DEVNULL)

    def _pause_and_resume(self) -> None:
        self._until(lambda: all(self._chunks(number) > 1 for number in range(len(self._ids))))
        self._engine.pause(self._ids[PAUSED])
        self._until(lambda: self._job(PAUSED).state == "PAUSED")
        before, others = self._chunks(PAUSED), self._chunks(CANCELLED)
        self._say(f"job 1 is paused after chunk {before}; the others go on")
        self._until(lambda: self._chunks(CANCELLED) > others)
        self._engine.resume(self._ids[PAUSED])
        self._until(lambda: self._chunks(PAUSED) > before + 1)
        self._say("job 1 is resumed, and goes on from there")

    def _kill_worker(self) -> None:
        assert self._worker is not None
        self._worker.kill()
        self._worker.wait()
        self._say("the worker is killed (SIGKILL), and another one begins")

    def _cancel(self) -> None:
        before = self._chunks(CANCELLED)
        self._until(lambda: self._chunks(CANCELLED) > before)
        self._say("what was running goes on from its last checkpoint")
        self._engine.cancel(self._ids[CANCELLED])
        self._until(lambda: self._job(CANCELLED).is_final)
        self._say("job 3 is cancelled")

    def _end_worker(self) -> None:
        """Tell it to end; what is not ended at its next boundary goes with it."""
        if self._worker is not None:
            self._worker.terminate()
            self._worker.wait()

    def _job(self, number: int) -> Job:
        return self._engine.job(self._ids[number])

    def _chunks(self, number: int) -> int:
        return self._job(number).progress_done

    def _say(self, sentence: str) -> None:
        self._bars.say(sentence, self._lines())

    def _lines(self) -> list[str]:
        width = options.width() - 1
        heads = [f"  {number + 1}  {self._job(number).state:<9}  " for number in range(len(self._ids))]
        found = enumerate(zip(heads, CHUNKS, strict=True))
        return [head + views.bar(self._chunks(number), chunks, width - len(head)) for number, (head, chunks) in found]

    def _until(self, holds: Callable[[], bool]) -> None:
        from perenne.errors import NotAllowed

        deadline = time.monotonic() + LIMIT_S
        while not holds():
            assert self._worker is not None
            if self._worker.poll() is not None:
                raise NotAllowed("demo: the worker ended by itself; look with `perenne doctor`")
            if time.monotonic() > deadline:
                raise NotAllowed(f"demo: nothing went on for {LIMIT_S:.0f} s; look with `perenne doctor`")
            self._bars.show(self._lines())
            time.sleep(0.02)  # a person looks on

    def _judge(self, engine: Engine) -> int:
        self._say("all have ended")
        right = [self._judged(engine, number) for number in range(len(self._ids))]
        return 0 if all(right) else 1

    def _judged(self, engine: Engine, number: int) -> bool:
        """Say how a job came to its end; whether that is as it should be."""
        begun = [line["chunk"] for _, line in engine.view.log(self._ids[number]) if line.get("message") == self._word]
        expected = "CANCELLED" if number == CANCELLED else "COMPLETED"
        job = self._job(number)
        same = number == CANCELLED or job.result == str(self._jobs.undisturbed(self._bounds[number])).encode()
        said = "" if number == CANCELLED else f", {'as' if same else 'NOT as'} undisturbed"
        at = ", ".join(map(str, begun))
        value = "" if job.result is None else f"; {int(job.result):,} primes"
        attempts = views.count(job.number, "attempt")
        self._bars.say(f"{number + 1}  {job.state:<9}  {attempts}, from chunk {at}{value}{said}")
        went_on = len(begun) == job.number and begun[:1] == [0] and all(chunk > 0 for chunk in begun[1:])
        return job.state == expected and same and went_on

    @property
    def _word(self) -> str:
        word: str = self._jobs.GOES_ON
        return word
