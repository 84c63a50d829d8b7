"""Reports about SQLite (type S) that are about processes: forks, second copies, foreign programs, old libraries.

A fork is tried in a program of its own, so that the interpreter of the child ends as interpreters do.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path

import apsw
import pytest
from scenario_stage import PROGRAM, Stage

from perenne import sqlite
from perenne.errors import StorageError, StoreFailed
from perenne.store.sqlite import guard

_PROLOGUE = f"""
import gc, os, sys, traceback
sys.path.insert(0, {str(PROGRAM.parent)!r})
import perenne, scenario_app
from perenne.errors import EngineError

root, marks = sys.argv[1:3]
plan = {{"folder": marks, "attempts": [""]}}
"""


def program(stage: Stage, text: str) -> str:
    """What a program says that has `engine` at hand; its forked children must end well too."""
    command = [sys.executable, "-c", _PROLOGUE + text, str(stage.root), str(stage.marks)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_r01_a_forked_child_is_refused(stage: Stage) -> None:
    """Report: the queue's database was corrupted by a fork with an open connection.

    In a forked child every verb of an engine that was open before is refused with the way out, also while the parent
    writes; the parent works on, and the file is whole.
    """
    said = program(
        stage,
        """
engine = perenne.open(root, scenario_app.app)
job = engine.submit("act", plan).job_id
child = os.fork()
if child == 0:
    for verb in (lambda: engine.submit("act", plan), lambda: engine.job(job), lambda: engine.cancel(job),
                 lambda: perenne.open(root, scenario_app.app)):
        try:
            verb()
        except EngineError as error:
            print(error.code, "spawn, not fork" in str(error), flush=True)
    sys.exit(0)
for _ in range(50):
    engine.submit("act", plan)
assert os.waitpid(child, 0)[1] == 0
engine.submit("act", plan)
engine.close()
""",
    )
    assert said.split("\n") == ["store_failed True"] * 4 + [""]
    assert stage.sql("select count(*) from job") == [[52]]
    stage.assert_sound()


def test_r02_closing_in_the_child_closes_nothing(stage: Stage) -> None:
    """Report: a child that closed the connections it had inherited corrupted the database.

    A child that closes, forgets and collects the engine in the middle of a transaction of the parent leaves that
    transaction, the parent's locks and the file alone.
    """
    said = program(
        stage,
        """
engine = perenne.open(root, scenario_app.app)
engine.submit("act", plan)
while not os.path.exists(os.path.join(root, "perenne-snapshot.json")):
    pass  # its writer reads, and so holds a lock for a moment

def seen():
    mine = [line.split() for line in open("/proc/locks") if line.split()[4] == str(os.getpid())]
    return sum(line[1] == "POSIX" for line in mine)

def held():  # the list is read in pieces, and misses a line when other processes lock meanwhile
    return max(seen() for _ in range(9))

def work(tx):
    global engine
    for number in range(3000):  # more than the cache holds, so that the log has pages of a transaction under way
        tx.run("insert_queue", name=f"queue {number:05}" + "x" * 100, capacity=1)
    before = held()
    child = os.fork()
    if child == 0:
        engine.close()
        del engine
        gc.collect()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    print(before > 0, held() == before)

engine._driver._writer._pen.execute("pragma cache_size = 10")
engine._driver.write(work)
engine.submit("act", plan)
print(len(engine.queues()))
engine.close()
""",
    )
    assert said == "True True\n3003\n"
    assert stage.sql("select count(*) from job") == [[2]]
    stage.assert_sound()


CHILD_EXITS = """
import atexit
with perenne.open(root, scenario_app.{app}, access="work") as engine:
    atexit.register(engine.close)
    engine.submit("act", plan)
    child = os.fork()
    if child == 0:
        sys.exit(0)
    assert os.waitpid(child, 0)[1] == 0
"""


def test_r03_the_exit_of_a_child_takes_nothing_along(stage_alone: Stage) -> None:
    """Report: the exit hook of a forked child closed the lock of its parent.

    A child that ends as an interpreter ends, through `with`, exit hooks and destructors, leaves the worker's lock and
    the ledger with the parent.
    """
    said = program(
        stage_alone,
        CHILD_EXITS.format(app="alone")
        + """
    try:
        perenne.open(root, scenario_app.alone, access="work")
    except EngineError as error:
        print(error.code)
    print(engine.work().ended)
""",
    )
    assert said == "worker_already_runs\n1\n"
    stage_alone.assert_sound()


def test_r03_the_exit_of_a_child_does_not_make_the_parent_look_dead(stage: Stage) -> None:
    """Report: as above, for the lock by which a worker proves that it lives.

    After such a child the owner's lock file of the parent is where it was.
    """
    said = program(
        stage,
        CHILD_EXITS.format(app="app")
        + """
    print(len(os.listdir(engine.workspace.owners_folder)))
""",
    )
    assert said == "1\n"


def foreign_visit(path: Path) -> None:
    """A program with an SQLite of its own looks at the file and, as the last to close, removes the log."""
    text = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1]); c.execute('select count(*) from job'); c.close()"
    subprocess.run([sys.executable, "-c", text, str(path)], check=True, timeout=60)


def wal_of(stage: Stage) -> Path:
    return Path(f"{stage.workspace.ledger}-wal")


def lose_the_log(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop the locks of this process as a careless copy would, so that a foreign program removes the log in use."""
    monkeypatch.setattr(guard, "_names", frozenset())
    for end in ("", "-shm"):
        Path(f"{stage.workspace.ledger}{end}").read_bytes()
    foreign_visit(stage.workspace.ledger)
    assert not wal_of(stage).exists(), "the danger is real"


def test_r04_a_log_removed_under_us_is_noticed_before_the_answer(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Report: a fork had dropped the locks of a server; a command line tool then removed the log in use, and what the
    server wrote from there on was in no file.

    With our locks in place the tool removes nothing. With the locks dropped by force it does, and then the very next
    submit is an error that names the log, not a receipt; what had a receipt is there.
    """
    with stage.open() as engine:
        receipts = [stage.submit(engine)]
        foreign_visit(stage.workspace.ledger)
        assert wal_of(stage).exists()
        receipts.append(stage.submit(engine))
        lose_the_log(stage, monkeypatch)
        for _ in range(2):
            with pytest.raises(StoreFailed, match=rf"{wal_of(stage)} was removed under us"):
                stage.submit(engine)
    with stage.open() as engine:
        receipts.append(stage.submit(engine))
        assert {job.id for job in engine.jobs()} >= set(receipts)
    stage.assert_sound()


def test_r04_closing_a_store_that_lost_its_log_undoes_nobody(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Report: as above; the files were in use again by then.

    Jobs that other processes submitted after the log was lost are there when the process that lost it has closed.
    """
    with stage.open() as engine:
        stage.submit(engine)
        lose_the_log(stage, monkeypatch)
        with pytest.raises(StoreFailed):
            stage.submit(engine)
        command = [sys.executable, str(PROGRAM), str(stage.root), f"submit={json.dumps(stage.plan())}"]
        for _ in range(3):
            subprocess.run(command, check=True, timeout=60)
        stage.sql("pragma wal_checkpoint(truncate)")
        others = {id for [id] in stage.sql("select id from job order by seq desc limit 3")}
    assert {id for [id] in stage.sql("select id from job")} >= others
    stage.assert_sound()


def test_r05_a_second_sqlite_in_the_process_is_kept_away(stage: Stage) -> None:
    """Report: another build of SQLite in the same process opened and closed the file; the log was gone, and with it
    everything written until the restart.

    The standard library's SQLite gets no file of an open workspace, by no name; what is committed after each try is
    there when everything is closed and opened again.
    """
    ledger = stage.workspace.ledger
    link = stage.folder / "link"
    link.symlink_to(ledger)
    with stage.open() as engine:
        for name in (ledger, f"file:{ledger}?mode=ro", link, f"{ledger}-wal"):
            with pytest.raises(StoreFailed, match="which this process has open"):
                sqlite3.connect(name, uri=True)
            stage.submit(engine)
    with stage.open() as engine:
        assert len(engine.jobs()) == 4
    stage.assert_sound()


def test_r06_the_process_has_one_copy_of_sqlite(stage: Stage) -> None:
    """Report: two copies of SQLite were linked into one program, and each dropped the locks of the other.

    With every module of the package loaded, applications and windows too, the standard library's copy is not there.
    """
    said = program(
        stage,
        """
import importlib, pkgutil
for module in pkgutil.walk_packages(perenne.__path__, "perenne."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
with perenne.open(root, scenario_app.app, access="work") as engine:
    engine.submit("act", plan)
    engine.work()
maps = {line.split()[-1] for line in open("/proc/self/maps") if "sqlite" in line.lower()}
print("apsw" in sys.modules, "sqlite3" in sys.modules, "_sqlite3" in sys.modules, len(maps))
""",
    )
    assert said.startswith("True False False")
    assert said.split()[-1] in ("0", "1"), "no shared library of SQLite beside the one within apsw"


@pytest.mark.parametrize("version", ["3.40.1", "3.44.0", "3.50.4", "3.51.2"])
def test_r07_a_library_that_can_lose_commits_opens_nothing(
    stage: Stage, version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Report: acknowledged writes vanished when the log was reset while another connection wrote.

    The library in use is of a version where that is mended; an older one is refused with both numbers, before any file
    is touched.
    """
    stage.open("read").close()
    before = {path: path.stat() for path in stage.workspace.own_folder.glob("ledger*")}
    monkeypatch.setattr(apsw, "sqlite_lib_version", lambda: version)
    with pytest.raises(StorageError, match=rf"SQLite {version} is older than 3\.51\.3"):
        stage.open()
    with pytest.raises(StorageError, match=r"older than 3\.51\.3"):
        sqlite.open(stage.folder / "new.sqlite", mode="create")
    assert not (stage.folder / "new.sqlite").exists()
    assert {path: path.stat() for path in stage.workspace.own_folder.glob("ledger*")} == before
    monkeypatch.undo()
    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 51, 3)
