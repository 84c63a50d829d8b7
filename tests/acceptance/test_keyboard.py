"""The command line from outside, with an application of one's own in the current folder: two commands, its verbs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

LIMIT_S = 60
ONE = '{"a": 1, "b": 1}'
PROGRAM = """
import time
from pathlib import Path
from perenne import App, Context, Doubt

app = App("shop", queues={"default": 128, "small": 2})

@app.task()
def add(a: int, b: int) -> int:
    return a + b

@app.task(attempts=1)
def boom() -> None:
    raise ValueError("no such luck")

@app.task()
def doubt() -> None:
    return Doubt("two different sums")

@app.task()
def until(name: str) -> None:
    while not Path(name).exists():
        time.sleep(0.02)

@app.task(queue="small")
def narrow(a: int) -> int:
    return a
"""


class Shell:
    """Commands in one folder, each in a process of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._living: list[subprocess.Popen[str]] = []

    def __call__(self, *words: object, code: int = 0, input: str = "", **environment: str) -> str:
        """What a command prints; its exit code must be this, and it never shows a traceback."""
        ended = subprocess.run(
            self._argv(words),
            cwd=self.folder,
            env=self._environment(environment),
            input=input,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
        )
        assert ended.returncode == code, ended
        assert "Traceback" not in ended.stderr, ended
        if code in (2, 3):
            assert ended.stderr.startswith("perenne: "), ended
            assert ended.stderr.count("\n") == 1, ended
        return ended.stdout if code in (0, 1, 4) else ended.stderr

    def start(self, *words: object, **environment: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            self._argv(words),
            cwd=self.folder,
            env=self._environment(environment),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._living.append(process)
        return process

    def worker(self, *words: object) -> subprocess.Popen[str]:
        """A worker that has begun."""
        process = self.start("worker", "shop:app", *words)
        assert process.stdout is not None
        said = [process.stdout.readline() for _ in range(2)]
        assert "until SIGTERM" in said[1], said
        return process

    def close(self) -> None:
        for process in self._living:
            process.kill()
            process.communicate()

    @staticmethod
    def _argv(words: tuple[object, ...]) -> list[str]:
        return [sys.executable, "-m", "perenne", *map(str, words)]

    @staticmethod
    def _environment(added: dict[str, str]) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PERENNE_", "COLUMNS"))}
        return kept | added


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "shop.py").write_text(PROGRAM)
    made = Shell(tmp_path)
    yield made
    made.close()


@pytest.fixture
def shop(shell: Shell) -> Shell:
    """The same, with a workspace."""
    shell("init", "shop:app")
    return shell


def submit(shell: Shell, *words: object) -> str:
    """The id of a new job."""
    id, state, new, durability = shell("submit", "shop:app", *words).split()
    assert (new, durability) == ("new", "durable")
    assert state in ("QUEUED", "BLOCKED")
    return id


def job(shell: Shell, id: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(shell("show", id, "--json"))
    return found


def test_two_commands_do_the_work(shell: Shell) -> None:
    """A worker makes the workspace and says where; a submitted job is done, and its result is told."""
    worker = shell.worker()
    assert (shell.folder / "shop" / "workspace.toml").exists()
    id = submit(shell, "add", '{"a": 2, "b": 3}')
    assert shell("wait", id, "--timeout", 30) == f"{id}  COMPLETED  5\n"
    worker.send_signal(signal.SIGTERM)
    out, err = worker.communicate(timeout=LIMIT_S)
    assert (worker.returncode, err) == (0, "")
    assert f"COMPLETED  {id}  add" in out


def test_a_killed_worker_is_followed_by_the_next(shop: Shell) -> None:
    """kill -9 in the middle of a job: started again, the worker says what it recovered, and the job is done."""
    id = submit(shop, "until", json.dumps({"name": str(shop.folder / "go")}))
    worker = shop.worker()
    while job(shop, id)["state"] != "RUNNING":
        pass
    worker.kill()
    worker.wait()
    (shop.folder / "go").touch()
    assert "settled 1 job of workers that had died: 1 QUEUED" in shop("worker", "shop:app", "--until-idle")
    assert (job(shop, id)["state"], job(shop, id)["number"]) == ("COMPLETED", 2)


def test_two_workers_may_make_the_workspace_at_once(shell: Shell) -> None:
    """One makes it, the other one finds it."""
    ends = [shell.start("worker", "shop:app", "--until-idle") for _ in range(3)]
    told = [end.communicate(timeout=LIMIT_S) for end in ends]
    assert [end.returncode for end in ends] == [0, 0, 0], told
    assert sum("made now" in out for out, _ in told) == 1


def test_failing_jobs_make_the_exit_code(shop: Shell) -> None:
    """A run that ends with a failed job says 1; waiting for it, too; showing it tells why and both numbers."""
    id = submit(shop, "boom")
    assert f"FAILED     {id}  boom" in shop("worker", "shop:app", "--until-idle", code=1)
    assert shop("wait", id, code=1) == f"{id}  FAILED  ValueError: no such luck\n"
    page = shop("show", id[:20])
    assert "1 attempt begun, 1 of 1 counted; 1 failure, 0 interruptions" in page
    assert "ValueError: no such luck" in page
    assert 'raise ValueError("no such luck")' in shop("logs", id)
    assert shop("requeue", id, "--reason", "try") == f"{id}  QUEUED\n"
    assert job(shop, id)["history"][-1]["reason"] == "try"


def test_doubt_needs_a_person(shop: Shell) -> None:
    """Waiting for a job in doubt says 4; it is resolved with a reason."""
    id = submit(shop, "doubt")
    shop("worker", "shop:app", "--until-idle")
    shop("wait", id, code=4)
    assert shop("resolve", id, "failed", "--reason", "seen") == f"{id}  FAILED\n"


def test_waiting_has_an_end(shop: Shell) -> None:
    """When the time is over the exit code is 3 and the job is as it was."""
    id = submit(shop, "add", '{"a": 1, "b": 1}')
    ended = subprocess.run(
        [sys.executable, "-m", "perenne", "wait", id, "--timeout", "0"],
        cwd=shop.folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (ended.returncode, ended.stdout) == (3, f"{id}  QUEUED  submitted\n")


def test_steering_jobs_queues_and_all(shop: Shell) -> None:
    """Pause, resume, cancel and stop reach what they name, many jobs at once; one that refuses harms no other."""
    first, second = submit(shop, "add", '{"a": 1, "b": 1}'), submit(shop, "add", '{"a": 1, "b": 2}')
    assert shop("pause", first, second) == f"{first}  PAUSED\n{second}  PAUSED\n"
    assert shop("resume", first) == f"{first}  QUEUED\n"
    assert shop("cancel", first, "--reason", "wrong") == f"{first}  CANCELLED\n"
    ended = subprocess.run(
        [sys.executable, "-m", "perenne", "cancel", first, second],
        cwd=shop.folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert (ended.returncode, ended.stdout) == (3, f"{second}  CANCELLED\n")
    assert "cancel is too late" in ended.stderr
    assert "queue small is paused" in shop("pause", "--queue", "small")
    assert "queue small: 0 of 2 unfinished, paused" in shop("ps")
    assert "the workspace is stopped" in shop("stop")
    assert "nothing starts until" in shop("ps")
    assert "the workspace is open" in shop("resume", "--all")
    for words in (["pause"], ["pause", first, "--all"], ["resume", "--all", "--queue", "small"]):
        assert "give jobs, or --queue NAME, or --all" in shop(*words, code=2)


def test_many_wait_for_room(shop: Shell) -> None:
    """A file of more jobs than the queue holds waits, says how many wait outside, and ends when a worker makes room."""
    (shop.folder / "many.jsonl").write_text("".join(f'{{"a": {number}}}\n\n' for number in range(9)))
    sender = shop.start("submit", "shop:app", "narrow", "--many", "many.jsonl", "--key", "lot")
    assert sender.stderr is not None
    assert sender.stderr.readline() == "7 jobs wait outside: queue small is full; a worker makes room\n"
    shop.worker()
    out, _ = sender.communicate(timeout=LIMIT_S)
    assert (sender.returncode, out) == (0, "9 jobs submitted\n")
    assert shop("submit", "shop:app", "narrow", "--many", "many.jsonl", "--key", "lot") == (
        "9 jobs submitted, 9 of them reused\n"
    )


def test_a_wrong_line_stores_nothing(shop: Shell) -> None:
    """A file is read through first: a fault in its last line is named, and no job of it is stored."""
    (shop.folder / "many.jsonl").write_text('{"a": 1, "b": 2}\n{"a": 1}\n')
    assert "many.jsonl, line 2: input of add@1" in shop("submit", "shop:app", "add", "--many", "many.jsonl", code=2)
    assert json.loads(shop("ps", "--json"))["counts"] == {}
    told = shop("submit", "shop:app", "add", "--many", "-", "--json", input='{"a": 1, "b": 2}\n')
    assert json.loads(told)["state"] == "QUEUED"


@pytest.mark.parametrize("given", [r'{"a": "\ud800", "b": 2}', r'{"a": 1, "b": 2, "\udfff": 3}'])
def test_half_a_character_stores_nothing(shop: Shell, given: str) -> None:
    """An input with a lone surrogate is refused in a sentence that names it, and no job is stored."""
    told = shop("submit", "shop:app", "add", given, code=2)
    assert told.startswith("perenne: input of add@1: $")
    assert "half a character (a lone surrogate)" in told
    assert json.loads(shop("ps", "--json"))["counts"] == {}


def test_wishes(shop: Shell) -> None:
    """Key, queue, priority, time, dependency and attempts reach the job; the same key is the same job."""
    first = submit(shop, "add", '{"a": 1, "b": 1}', "--key", "one")
    assert shop("submit", "shop:app", "add", '{"a": 1, "b": 1}', "--key", "one").split()[:3] == [
        first,
        "QUEUED",
        "reused",
    ]
    words = ["--after", first, "--priority", 5, "--queue", "small", "--max-attempts", 7]
    second = job(shop, submit(shop, "add", '{"a": 1, "b": 2}', *words))
    wanted = ("BLOCKED", 5, "small", 7, 1)
    assert tuple(second[name] for name in ("state", "priority", "queue", "max_attempts", "waits_for")) == wanted
    third = job(shop, submit(shop, "add", '{"a": 1, "b": 3}', "--not-before", "2099-01-01T00:00:00+00:00"))
    assert third["due_at"] == 4_070_908_800_000_000
    assert "is no time" in shop("submit", "shop:app", "add", "{}", "--not-before", "soon", code=2)
    assert "has no time zone" in shop("submit", "shop:app", "add", ONE, "--not-before", "2099-01-01", code=2)


def test_a_prefix_that_fits_several_is_refused(shop: Shell) -> None:
    """The beginning of an id is enough while it fits one job; else some of them are named."""
    ids = [submit(shop, "add", '{"a": 1, "b": 1}') for _ in range(2)]
    shared = ids[0][: next(place for place in range(36) if ids[0][place] != ids[1][place])]
    told = shop("show", shared, code=2)
    assert all(id in told for id in ids)
    assert "no job zz" in shop("show", "zz", code=2)
    assert job(shop, ids[0][: len(shared) + 1])["id"] == ids[0]


def test_settings_are_found_and_told(shop: Shell) -> None:
    """pyproject.toml names app and workspace once and for all; doctor says where each value comes from."""
    (shop.folder / "pyproject.toml").write_text('[tool.perenne]\napp = "shop:app"\nworkspace = "shop"\n')
    assert len(shop("submit", "add", '{"a": 2, "b": 3}').split()) == 4
    shop("worker", "--until-idle")
    told = " ".join(shop("doctor", PERENNE_SLOTS="3", PERENNE_SLOT="4", COLUMNS="500").split())
    assert f"workspace = {shop.folder / 'shop'} ({shop.folder / 'pyproject.toml'} [tool.perenne])" in told
    assert "slots = 3 (PERENNE_SLOTS)" in told
    assert "PERENNE_SLOT means nothing; did you mean PERENNE_SLOTS?" in told
    assert "PERENNE_SLOTS is 'x'; give a whole number from 1 to 1024" in shop("ps", code=2, PERENNE_SLOTS="x")


@pytest.mark.parametrize(
    "verb", ["ps", "doctor", "stop", "pause --all", "purge --keep 1", "show 01", "logs 01", "wait 01"]
)
def test_without_a_workspace_nothing_is_made(shell: Shell, verb: str) -> None:
    """Where there is no workspace one sentence says how to make one."""
    assert "perenne init module:app" in shell(*verb.split(), code=3)
    assert sorted(path.name for path in shell.folder.iterdir()) == ["shop.py"]


def test_submit_makes_no_workspace(shell: Shell) -> None:
    """A workspace that is lost is never made again by a slip."""
    assert "`perenne worker shop:app` makes it" in shell("submit", "shop:app", "add", '{"a": 1, "b": 2}', code=3)


def test_reading_runs_no_code_of_the_application(shop: Shell) -> None:
    """Looking and steering work where the application is broken or away."""
    id = submit(shop, "add", '{"a": 1, "b": 2}')
    (shop.folder / "shop.py").write_text("raise SystemExit('must not be imported')")
    assert id in shop("ps")
    shop("pause", id)
    assert "shop.py, line 1: SystemExit" in shop("worker", "shop:app", code=2)


@pytest.mark.parametrize(("words", "code"), [("ps", 1), ("version", 1), ("doctor", 1)])
def test_a_full_output_is_said(shop: Shell, words: str, code: int) -> None:
    """Where the output cannot be written one sentence says so, and nothing else."""
    ended = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m perenne {words} >/dev/full"],
        cwd=shop.folder,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    assert ended.returncode == code
    assert "No space left on device" in ended.stderr
    assert ended.stderr.count("\n") == 1


def test_a_reader_that_left_is_no_fault(shop: Shell) -> None:
    """A closed pipe ends a command quietly; a worker goes on without being heard."""
    for _ in range(3):
        submit(shop, "add", '{"a": 1, "b": 2}')
    argv = f"{sys.executable} -m perenne"
    for words in ("ps --json", "worker shop:app --until-idle"):
        ended = subprocess.run(
            ["bash", "-c", f"{argv} {words} | true"], cwd=shop.folder, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert ended.stderr == ""
    assert json.loads(shop("ps", "--json"))["counts"] == {"COMPLETED": 3}


def test_colour_is_never_alone(shop: Shell, terminal: Callable[..., str]) -> None:
    """In a terminal the states are coloured; with NO_COLOR, or in a pipe, the same words stand without."""
    submit(shop, "boom")
    shop("worker", "shop:app", "--until-idle", code=1)
    plain = shop("ps", COLUMNS="80")
    coloured = terminal(shop.folder, "ps", columns=80)
    assert "\x1b[31mFAILED" in coloured
    assert terminal(shop.folder, "ps", columns=80, NO_COLOR="1").replace("\r", "") == plain
    assert "\x1b" not in plain
    assert "\x1b[31mFAILED" in shop("ps", PERENNE_COLOR="always")


@pytest.mark.parametrize("columns", [80, 200])
def test_pages_keep_to_the_width(shop: Shell, columns: int) -> None:
    """Every line of a table fits the terminal, and a wide one says more."""
    submit(shop, "boom")
    shop("worker", "shop:app", "--until-idle", code=1)
    page = shop("ps", COLUMNS=str(columns))
    table = page.split("\n\n")[1].splitlines()
    assert max(map(len, table)) <= columns
    assert ("ValueError: no such luck" in page) == (columns == 200)
    assert max(map(len, shop("show", job_of(shop), COLUMNS=str(columns)).splitlines())) <= columns


def job_of(shop: Shell) -> str:
    found: str = json.loads(shop("ps", "--json"))["jobs"][0]["id"]
    return found


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_a_shell_can_complete(shop: Shell, name: str) -> None:
    """The lines for the shell are printed, and what they call completes verbs and ids of jobs."""
    assert "_PERENNE_COMPLETE" in shop("completion", name)
    asked = {"_PERENNE_COMPLETE": "bash_complete", "COMP_CWORD": "1"}
    assert "plain,requeue" in shop(COMP_WORDS="perenne requ", **asked)
    id = submit(shop, "add", '{"a": 1, "b": 2}')
    asked["COMP_CWORD"] = "2"
    assert shop(COMP_WORDS=f"perenne show {id[:4]}", **asked) == f"plain,{id}\n"


@pytest.fixture
def terminal() -> Callable[..., str]:
    """What a command prints when its output is a terminal."""

    def run(folder: Path, *words: str, columns: int, **environment: str) -> str:
        import pty

        parent, child = pty.openpty()
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("PERENNE_", "NO_COLOR"))}
        process = subprocess.Popen(
            [sys.executable, "-m", "perenne", *words],
            cwd=folder,
            env=kept | {"COLUMNS": str(columns), "TERM": "xterm"} | environment,
            stdout=child,
            stderr=child,
            stdin=subprocess.DEVNULL,
        )
        os.close(child)
        pieces = []
        while True:
            try:
                piece = os.read(parent, 65536)
            except OSError:
                break  # the other end was closed
            if not piece:
                break
            pieces.append(piece)
        os.close(parent)
        assert process.wait(LIMIT_S) == 0
        return b"".join(pieces).decode()

    return run
