"""Bad input from outside: one line that names field, value, limit and next step, the exit code, and nothing written."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import perenne as door
from perenne import errors, filesystem, sqlite
from perenne.apps.evidence import app
from perenne.apps.evidence.requests import MAIL_HEADERS, PICTURE_METADATA
from perenne.core import events
from perenne.core.job import Token
from perenne.core.publication import Published
from perenne.runtime import clock
from perenne.store.ledger import Ledger
from perenne.surfaces import faults
from perenne.surfaces.cli.main import main

FAILED, USAGE, REFUSED = 1, 2, 3
MAIL_JOB = "82000000-0000-4000-8000-000000000011"
PICTURE_JOB = "82000000-0000-4000-8000-000000000021"
NOBODY = "82000000-0000-4000-8000-0000000000ff"
RUNTIME = ".labfy/runtime"
LEDGER = ("ledger.sqlite", "ledger.sqlite-wal", "ledger.sqlite-shm")
ANY_VERB = ["status", "run", "enqueue", "pause", "export"]

# Words, exit code, and what the line must name; SPECIMEN, MAIL and PICTURE stand for the workspace and its evidence.
LINES: list[tuple[list[str], int, list[str]]] = [
    (["rum"], USAGE, ["'rum'", "did you mean 'run'?", "--help"]),
    (["xyzzy"], USAGE, ["'xyzzy'", "known are demo, init-specimen, create", "--help"]),
    (["run", "--workspce", "SPECIMEN"], USAGE, ["'--workspce'", "did you mean '--workspace'?"]),
    (["status", "extra"], USAGE, ["extra", "`perenne evidence status --help`"]),
    (["run", "--slots", "many"], USAGE, ["--slots", "'many'", "the limit is 1 to 64"]),
    (["run", "--slots", "65"], USAGE, ["--slots", "'65'", "the limit is 1 to 64"]),
    (
        ["create", "--title", "x", "--workspace", "NEW", "--queue-limit", "0"],
        USAGE,
        ["--queue-limit", "'0'", "1 to 10"],
    ),
    (["create", "--workspace", "NEW"], USAGE, ["missing option '--title'"]),
    (["create", "--title", "a" * 161, "--workspace", "NEW"], USAGE, ["title: 161 bytes", "160", "shorten it"]),
    (["create", "--title", "a\nb", "--workspace", "NEW"], USAGE, ["title: 'a\\nb'", "give printable words"]),
    (["create", "--title", "x", "--workspace", "SPECIMEN"], REFUSED, ["Enquete.sqlite exists", "another folder"]),
    (["create", "--title", "x", "--workspace", "FILE"], USAGE, ["FILE exists and is no folder", "give a new"]),
    (["create", "--title", "x", "--workspace", "FILE/below"], USAGE, ["FILE exists and is no folder", "give a new"]),
    (["init-specimen", "--workspace", "SPECIMEN"], REFUSED, ["Enquete.sqlite exists"]),
    (["status", "--workspace", "FILE"], USAGE, ["workspace: ", "FILE is not a folder"]),
    (["run", "--workspace", "FILE"], USAGE, ["workspace: ", "FILE is not a folder"]),
    (["status", "--workspace", "NEW"], REFUSED, ["NEW holds no workspace.toml", "create the workspace first"]),
    (["run", "--workspace", "NEW"], REFUSED, ["NEW holds no workspace.toml", "create the workspace first"]),
    (["submit", "--evidence", "MAIL", "--capability", "a.b"], USAGE, ["kind: 'a.b'", f", {MAIL_HEADERS}@1"]),
    (["submit", "--evidence", "MAIL", "--capability", PICTURE_METADATA], USAGE, ["type email", f"is {MAIL_HEADERS}"]),
    (["submit", "--evidence", "8", "--capability", MAIL_HEADERS], USAGE, ["evidence: '8' is not a UUID"]),
    (["submit", "--evidence", NOBODY, "--capability", MAIL_HEADERS], USAGE, [NOBODY, "import the file first"]),
    (["submit", "--evidence", "MAIL", "--capability", MAIL_HEADERS, "--key", "K"], USAGE, ["key: 'K' is not a UUID"]),
    (
        ["submit", "--evidence", "MAIL", "--capability", MAIL_HEADERS, "--key", PICTURE_JOB],
        USAGE,
        [f"key '{PICTURE_JOB}' belongs to job {PICTURE_JOB}", "kind differs", "use another key"],
    ),
    (["submit", "--evidence", "MAIL", "--capability", MAIL_HEADERS], USAGE, [f"job {MAIL_JOB} is not finished yet"]),
    (["cancel", NOBODY], USAGE, ["no job ", NOBODY, "`perenne ps`"]),
    (["pause", NOBODY], USAGE, ["no job ", NOBODY, "`perenne ps`"]),
    (["resume", MAIL_JOB], USAGE, [f"job {MAIL_JOB}: resume is not allowed while it is QUEUED"]),
    (["import"], USAGE, ["missing argument 'FILE...'"]),
]


@pytest.fixture
def place(specimen: Path, specimen_evidence: tuple[str, str], tmp_path: Path) -> Callable[[str], str]:
    """Puts the names of this test's folders and evidence where a line of the table names them."""
    (tmp_path / "FILE").write_text("no folder")
    mail, picture = specimen_evidence

    def named(word: str) -> str:
        for name, value in (("SPECIMEN", specimen), ("FILE", tmp_path / "FILE"), ("NEW", tmp_path / "NEW")):
            word = word.replace(name, str(value)) if word.startswith(name) else word
        return {"MAIL": mail, "PICTURE": picture}.get(word, word)

    return named


@pytest.mark.parametrize(("words", "code", "fragments"), LINES, ids=[" ".join(line[0])[:60] for line in LINES])
def test_bad_words_are_refused(
    perenne: Any, specimen: Path, place: Any, refused: Any, words: list[str], code: int, fragments: list[str]
) -> None:
    """A command that cannot be meant is refused by name, and nothing below the test's folder changes."""
    given = [place(word) for word in words]
    if "--workspace" not in given and "--workspce" not in given and given[0] in ("submit", "cancel", "pause", "resume"):
        given += ["--workspace", str(specimen)]
    said = refused(specimen.parent, lambda: perenne(*given), code)
    assert not [fragment for fragment in fragments if fragment not in said], said


@pytest.mark.parametrize(
    ("make", "fragment"),
    [
        (lambda path: path.symlink_to(__file__), "is a symbolic link; give a regular file"),
        (lambda path: os.mkfifo(path), "is a named pipe; give a regular file"),
        (lambda path: path.touch(), "is empty; give a mail or a picture"),
        (lambda path: None, "No such file or directory; give an existing"),
        (lambda path: path.write_bytes(b"neither"), "neither PNG nor JPEG"),
        (lambda path: path.write_bytes(b"A: b\n\n" + bytes(4 << 20)), "the limit is 4194304; give a smaller file"),
        (lambda path: path.mkdir(), "holds no file; give mails, pictures or a folder of them"),
    ],
    ids=["link", "pipe", "empty", "vanished", "unknown", "large", "empty folder"],
)
def test_a_bad_file_is_not_imported(
    perenne: Any, case: Path, tmp_path: Path, refused: Any, make: Any, fragment: str
) -> None:
    """One bad file of a selection is named, and none of the selection is imported."""
    good, bad = tmp_path / "good.eml", tmp_path / "bad.eml"
    good.write_bytes(b"From: a@one.example\n\nHello.\n")
    make(bad)
    said = refused(tmp_path, lambda: perenne("import", good, bad, "--workspace", case), USAGE)
    assert str(bad) in said
    assert fragment in said


def test_a_device_is_not_imported(perenne: Any, case: Path, refused: Any) -> None:
    """A device is refused before it is opened."""
    said = refused(case, lambda: perenne("import", "/dev/zero", "--workspace", case), USAGE)
    assert "/dev/zero is a character device; give a regular file" in said


@pytest.mark.parametrize("verb", ["cancel", "pause", "resume"])
def test_a_finished_job_takes_no_orders(perenne: Any, specimen: Path, refused: Any, verb: str) -> None:
    """A job that has ended is neither cancelled nor paused nor resumed."""
    perenne.done("cancel", MAIL_JOB, "--workspace", specimen)
    said = refused(specimen, lambda: perenne(verb, MAIL_JOB, "--workspace", specimen), REFUSED)
    assert f"job {MAIL_JOB}: {verb} is too late, it is CANCELLED" in said


@pytest.mark.parametrize("verb", ANY_VERB)
def test_a_store_of_the_reference_is_refused_by_name(perenne: Any, specimen: Path, refused: Any, verb: str) -> None:
    """Beside a job store of the reference program nothing is opened, not even to read (EV-2)."""
    (specimen / RUNTIME / "jobs.sqlite").write_bytes(b"any")
    said = refused(specimen, lambda: perenne(verb, "--workspace", specimen), REFUSED)
    assert "jobs.sqlite is the job store of the reference program" in said
    assert "perenne evidence adopt" in said


def test_no_investigation_is_made_beside_a_store_of_the_reference(perenne: Any, tmp_path: Path, refused: Any) -> None:
    """A folder with a job store of the reference program does not become a workspace."""
    (tmp_path / "case" / RUNTIME).mkdir(parents=True)
    (tmp_path / "case" / RUNTIME / "jobs.sqlite").touch()
    said = refused(tmp_path, lambda: perenne("create", "--title", "x", "--workspace", tmp_path / "case"), REFUSED)
    assert "jobs.sqlite" in said


@pytest.mark.parametrize("verb", ANY_VERB)
def test_a_missing_ledger_is_not_made_again(perenne: Any, specimen: Path, refused: Any, verb: str) -> None:
    """Without its ledger a workspace is refused, and none is created silently."""
    for name in LEDGER:
        (specimen / RUNTIME / name).unlink()
    (specimen / RUNTIME / "worker.lock").touch(0o600)
    said = refused(specimen, lambda: _steady_lock(perenne, verb, specimen), REFUSED)
    assert "ledger.sqlite cannot be found" in said
    assert "never created silently" in said


@pytest.mark.parametrize("verb", ANY_VERB)
def test_a_foreign_ledger_is_refused(perenne: Any, specimen: Path, case: Path, refused: Any, verb: str) -> None:
    """The ledger of another workspace is named with both ids."""
    for name in LEDGER:
        shutil.copyfile(case / RUNTIME / name, specimen / RUNTIME / name)
    said = refused(specimen, lambda: _steady_lock(perenne, verb, specimen), REFUSED)
    assert "belongs to workspace" in said
    assert "put the right ledger beside the manifest" in said


@pytest.mark.parametrize("verb", ANY_VERB)
def test_a_newer_ledger_is_refused(perenne: Any, specimen: Path, refused: Any, verb: str) -> None:
    """A ledger of a newer version is refused with both versions; nothing is migrated back."""
    connection = sqlite.open(specimen / RUNTIME / "ledger.sqlite", mode="write")
    connection.pragma("user_version", 99)
    connection.close()
    said = refused(specimen, lambda: _steady_lock(perenne, verb, specimen), REFUSED)
    assert "ledger.sqlite: schema version 99, this program knows up to " in said, said


def _steady_lock(perenne: Any, verb: str, workspace: Path) -> Any:
    """Run a command; the text of the worker's lock is put back, since taking the lock comes before opening (E-O2)."""
    lock = workspace / RUNTIME / "worker.lock"
    before = lock.read_bytes() if lock.exists() else None
    ended = perenne(verb, "--workspace", workspace)
    if before is None:
        lock.unlink(missing_ok=True)
    else:
        lock.write_bytes(before)
    return ended


@pytest.mark.parametrize("verb", ["run", "enqueue", "pause", "import"])
@pytest.mark.parametrize("found", ["missing", "newer", "foreign"])
def test_a_wrong_catalogue_is_refused(
    perenne: Any, specimen: Path, case: Path, refused: Any, verb: str, found: str
) -> None:
    """Without the right Enquete.sqlite nothing is changed, because every job would be in doubt."""
    catalogue = specimen / "Enquete.sqlite"
    if found == "foreign":
        shutil.copyfile(case / "Enquete.sqlite", catalogue)
    elif found == "missing":
        catalogue.unlink()
    else:
        connection = apsw.Connection(str(catalogue))
        connection.execute("update metadata set value = '21' where key = 'schema_version'")
        connection.close()
    words = [verb, __file__] if verb == "import" else [verb]
    said = refused(specimen, lambda: perenne(*words, "--workspace", specimen), REFUSED)
    word = {"missing": "is missing", "newer": "has schema version 21", "foreign": "belongs to investigation"}[found]
    assert f"{catalogue} {word}" in said


def test_a_second_worker_is_refused_and_the_first_is_named(perenne: Any, case: Path, refused: Any, shown: Any) -> None:
    """While a worker lives a second one is refused with the first one's process id."""
    worker = perenne.start("run", "--stay", "--workspace", case)
    perenne.done("enqueue", "--workspace", case)
    lines = [worker.stdout.readline() for _ in range(7)]
    assert lines[-1].startswith("[6/6] COMPLETED"), lines
    shown(case, '"COMPLETED":6')
    said = refused(case, lambda: perenne("run", "--workspace", case), REFUSED)
    assert f"pid {worker.pid}," in said
    assert "worker.lock is held by" in said
    assert "SIGTERM" in said


@pytest.mark.parametrize("variable", ["publish.begun", "no.such.point"])
def test_a_crash_point_is_armed_only_in_a_specimen(perenne: Any, case: Path, refused: Any, variable: str) -> None:
    """In a real investigation the variable is refused at start, and so is making one."""
    said = refused(case, lambda: perenne("run", "--workspace", case, PERENNE_CRASH_POINT=variable), USAGE)
    assert f"PERENNE_CRASH_POINT={variable} is set, but this workspace is not a specimen" in said
    words = ["create", "--title", "x", "--workspace", case.parent / "other"]
    refused(case.parent, lambda: perenne(*words, PERENNE_CRASH_POINT=variable), USAGE)


@pytest.mark.parametrize("verb", ["run", "enqueue", "pause", "export", "import", "create", "init-specimen"])
def test_a_read_only_folder_is_refused(
    perenne: Any, specimen: Path, namespace: Any, refused: Any, tmp_path: Path, verb: str
) -> None:
    """On a read-only mount every command that writes says which file it cannot write."""
    frozen = namespace(f"mount --bind {tmp_path} {tmp_path}; mount -o remount,bind,ro {tmp_path}")
    words = {
        "import": ["import", Path(__file__).parents[2] / "examples/evidence/eml", "--workspace", specimen],
        "create": ["create", "--title", "x", "--workspace", tmp_path / "new"],
        "init-specimen": ["init-specimen", "--workspace", tmp_path / "new"],
    }.get(verb, [verb, "--workspace", specimen])
    said = refused(tmp_path, lambda: perenne(*words, wrap=frozen), FAILED)
    assert str(tmp_path) in said
    assert "ead-only" in said


@pytest.mark.parametrize("words", [["create", "--title", "x"], ["init-specimen"], ["status"], ["run"], ["enqueue"]])
def test_a_network_mount_is_refused(
    specimen: Path, tree: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], words: list[str]
) -> None:
    """A folder on a network file system is refused with the name of that file system, before anything is made."""
    # The judge itself is tested with lists of mounts; here its verdict is given, as no test can mount a network.
    verdict = filesystem.Verdict("remote", "nfs4", "/mnt/share", "the data of nfs4 belong to another machine")
    monkeypatch.setattr(filesystem, "judge", lambda folder: verdict)
    makes = words[0] in ("create", "init-specimen")
    workspace = specimen.parent / "new" if makes else specimen
    before = tree(specimen.parent)
    code = main(["evidence", *words, "--workspace", str(workspace)])
    out, err = capsys.readouterr()
    assert (code, out, err.count("\n")) == (REFUSED, "", 1)
    assert "stands on nfs4 (mounted at /mnt/share)" in err
    assert "move it to a local disk" in err
    after = tree(specimen.parent)
    lock = f"specimen/{RUNTIME}/worker.lock"
    assert {name: seen for name, seen in after.items() if name != lock} == before


@pytest.mark.parametrize(
    ("kind", "change", "error", "fragments"),
    [
        ("no.such.kind", {}, errors.UnknownKind, ["'no.such.kind'", f", {MAIL_HEADERS}@1"]),
        (MAIL_HEADERS, {"source_size": "many"}, errors.InvalidInput, ["Expected `int`, got `str`", "source_size"]),
        (MAIL_HEADERS, {"source_size": 4194305}, errors.InvalidInput, ["<= 4194304", "source_size"]),
        (MAIL_HEADERS, {"extra": 1}, errors.InvalidInput, ["unknown field `extra`"]),
        (MAIL_HEADERS, {"parameters": {"mode": "all"}}, errors.InvalidInput, ["'all'", "parameters.mode"]),
        (PICTURE_METADATA, {}, errors.InvalidInput, ["mode", "parameters"]),
        (MAIL_HEADERS, {"evidence_id": "A"}, errors.InvalidInput, ["evidence_id"]),
    ],
)
def test_a_wrong_input_is_refused_at_submit(
    specimen: Path, tree: Any, kind: str, change: dict[str, Any], error: type[Exception], fragments: list[str]
) -> None:
    """What does not fit the kind's typed input never becomes a job; the exit code would be 2."""
    given = {"evidence_id": NOBODY, "source_sha256": "0" * 64, "source_size": 1, "parameters": {"mode": "headers"}}
    with door.open(specimen, app) as engine:
        before = tree(specimen)
        with pytest.raises(error) as refusal:
            engine.submit(kind, given | change)
        assert tree(specimen) == before
    said = faults.sentence_of(refusal.value)
    assert not [fragment for fragment in fragments if fragment not in said], said
    assert faults.fault_of(refusal.value).exit_code == USAGE


def test_an_unknown_version_is_refused_at_submit(specimen: Path, tree: Any) -> None:
    """A kind of a version that the application does not have never becomes a job."""
    newer = door.Kind(MAIL_HEADERS, 2, lambda context, given: None, dict[str, int])
    with door.open(specimen, app) as engine:
        before = tree(specimen)
        with pytest.raises(errors.UnknownKind, match=f"{MAIL_HEADERS}@2"):
            engine.submit(newer, {})
        assert tree(specimen) == before


def test_an_oversize_input_is_refused_at_submit(tmp_path: Path, tree: Any) -> None:
    """An input above 256 KiB is refused with its size and the limit."""
    kind = door.Kind("test.text", 1, lambda context, given: None, str)
    text_app = door.App("text", (kind,))
    door.create(tmp_path / "text", text_app, name="Text")
    with door.open(tmp_path / "text", text_app) as engine:
        before = tree(tmp_path)
        with pytest.raises(errors.TooLarge, match=r"input: 262147 bytes, the limit is 262144; "):
            engine.submit(kind, "a" * 262145)
        assert tree(tmp_path) == before


def test_a_stale_token_changes_nothing(specimen: Path, tree: Any, perenne: Any) -> None:
    """The end that a superseded attempt reports is dropped with 409 and exit code 3; no byte changes."""
    perenne("run", "--workspace", specimen, PERENNE_CRASH_POINT="publish.begun")
    with door.open(specimen, app) as engine:
        (late,) = engine.attempts(MAIL_JOB)
    perenne.done("cancel", PICTURE_JOB, "--workspace", specimen)
    perenne("run", "--workspace", specimen)
    with door.open(specimen, app) as engine:
        assert engine.job(MAIL_JOB).number == 2
        before = tree(specimen)
        ended = events.Ended(answer=events.Returned(), published=Published.absent())
        token = Token(MAIL_JOB, late.id, late.number, late.epoch)
        with pytest.raises(errors.StaleToken) as refusal:
            Ledger(engine._driver).end(token, ended, now=clock.SYSTEM.now(), luck=0.0, actor="late")
        assert tree(specimen) == before
    assert faults.fault_of(refusal.value) == (REFUSED, 409)
