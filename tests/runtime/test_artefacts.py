"""A job keeps files under names: whole, once, provable, within bounds, and no longer than the job stands."""

from __future__ import annotations

import hashlib
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))  # a child imports the app by this name, too
import pytest
from artefact_app import BYTES, CHILD

import perenne
from perenne import App, Context, JobState, Kind, errors, testing, upkeep
from perenne.core.artefact import Artefact
from perenne.store.retention import Rule
from perenne.store.space import Gauge

S = JobState


def files(root: Path) -> list[str]:
    folder = root / ".perenne" / "artefacts"
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


def staged(root: Path) -> list[Path]:
    return list((root / ".perenne" / "stage").iterdir())


def sha(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def kept(trial: Any, kind: Kind, job: Any) -> dict[str, Artefact]:
    with trial.open(kind) as engine:
        return {one.name: one for one in engine.artefacts(job.id)}


@pytest.mark.parametrize("form", ["bytes", "path", "stream", "view"])
def test_a_file_is_kept_and_read_back(trial: Any, make_kind: Any, tmp_path: Path, form: str) -> None:
    """Bytes, a path and a stream are kept under their digest, with a row that says what they are."""
    (tmp_path / "given").write_bytes(BYTES)
    forms = {"bytes": BYTES, "path": tmp_path / "given", "stream": io.BytesIO(BYTES), "view": memoryview(BYTES)}
    kind = make_kind(lambda context, input: context.artefact("a thing.bin", forms[form], "image/png").digest)
    job = trial.run(kind)
    assert job.state is S.COMPLETED, job.diagnostic
    found = kept(trial, kind, job)["a thing.bin"]
    assert (found.media_type, found.size_bytes, found.digest, found.number) == ("image/png", len(BYTES), sha(BYTES), 1)
    path = trial.root / ".perenne" / "artefacts" / found.digest[:2] / found.digest
    assert (path.read_bytes(), path.stat().st_mode & 0o777, path.stat().st_nlink) == (BYTES, 0o600, 1)
    with trial.open(kind) as engine, engine.open_artefact(found) as file:
        assert file.read() == BYTES
    assert staged(trial.root) == []


def test_a_child_keeps_files_too(trial: Any) -> None:
    """A handler in a process of its own stages by itself, and its worker names what it staged."""
    job = trial.run(CHILD)
    assert job.state is S.COMPLETED, job.diagnostic
    found = kept(trial, CHILD, job)
    assert {name: one.digest for name, one in found.items()} == {"bytes": sha(BYTES), "stream": sha(BYTES[1:])}
    assert files(trial.root) == sorted([sha(BYTES), sha(BYTES[1:])])
    assert staged(trial.root) == []


def test_a_coroutine_keeps_files_too(trial: Any, make_kind: Any) -> None:
    """A coroutine awaits the same verb."""

    async def handler(context: perenne.AsyncContext, input: object) -> str:
        return (await context.artefact("bytes", BYTES)).digest

    job = trial.run(make_kind(handler))
    assert job.state is S.COMPLETED, job.diagnostic
    assert files(trial.root) == [sha(BYTES)]


def test_again_is_the_same_and_other_bytes_are_a_conflict(trial: Any, make_kind: Any) -> None:
    """The same name and bytes give the artefact that stands; other bytes under the name are refused, and not kept."""
    seen: list[Any] = []

    def handler(context: Context, input: object) -> None:
        first = context.artefact("name", BYTES, "text/plain")
        seen.append(context.artefact("name", BYTES, "image/png") == first)
        with pytest.raises(errors.ReportConflict, match=r"keeps other bytes under this name since attempt 1"):
            context.artefact("name", b"other")
        context.artefact("second name", BYTES)

    kind = make_kind(handler)
    job = trial.run(kind)
    assert (job.state, seen) == (S.COMPLETED, [True]), job.diagnostic
    assert {name: one.media_type for name, one in kept(trial, kind, job).items()} == {
        "name": "text/plain",
        "second name": "application/octet-stream",
    }
    assert files(trial.root) == [sha(BYTES)]


def test_a_later_attempt_finds_its_own(trial: Any, make_kind: Any) -> None:
    """An attempt that failed after keeping a file leaves it, and the next one that makes it again changes nothing."""

    def handler(context: Context, input: object) -> int:
        number = context.artefact("name", BYTES).number
        if context.attempt == 1:
            raise RuntimeError("not this time")
        return number

    assert trial.run(make_kind(handler)).result == b"1"


class Unread:
    """A stream that must not be asked."""

    def read(self, size: int) -> bytes:
        raise AssertionError("it was read")


@pytest.mark.parametrize(
    ("name", "content", "media_type", "error"),
    [
        ("", Unread(), "text/plain", errors.InvalidInput),
        ("a\nb", Unread(), "text/plain", errors.InvalidInput),
        (7, Unread(), "text/plain", errors.InvalidInput),
        ("n" * 201, Unread(), "text/plain", errors.TooLarge),
        ("name", Unread(), "nothing", errors.InvalidInput),
        ("name", Unread(), None, errors.InvalidInput),
        ("name", 7, "text/plain", errors.InvalidInput),
        ("name", io.StringIO("text"), "text/plain", errors.InvalidInput),
        ("name", Path("/nowhere/at/all"), "text/plain", errors.InvalidInput),
        ("name", Path("/"), "text/plain", errors.InvalidInput),
        ("name", "a\0b", "text/plain", errors.InvalidInput),
    ],
)
def test_bad_input_is_refused(trial: Any, make_kind: Any, name: Any, content: Any, media_type: Any, error: Any) -> None:
    """Each is refused in one sentence, and nothing is kept or left."""
    said: list[str] = []

    def handler(context: Context, input: object) -> None:
        with pytest.raises(error) as caught:
            context.artefact(name, content, media_type)
        said.append(str(caught.value))

    kind = make_kind(handler)
    job = trial.run(kind)
    assert job.state is S.COMPLETED, job.diagnostic
    assert said[0].count("\n") == 0
    assert (kept(trial, kind, job), files(trial.root), staged(trial.root)) == ({}, [], [])


def test_bounds_refuse_before_reading(trial: Any, make_kind: Any, tmp_path: Path) -> None:
    """What is larger than one artefact, a job or the workspace may be is refused; a declared length, unread."""
    big = tmp_path / "big"
    with big.open("wb") as file:
        os.truncate(file.fileno(), 1 << 40)  # reading it would not end within the test

    def handler(context: Context, input: object) -> None:
        context.artefact("one", b"1" * 60)
        for name, content, words in (
            ("big", big, "artefact 'big': 1099511627776 bytes, the limit is 100;"),
            ("long", io.BytesIO(b"2" * 101), "artefact 'long': 101 bytes, the limit is 100;"),
            ("two", b"2" * 70, "artefact 'two' with all of the job: 130 bytes, the limit is 120;"),
        ):
            with pytest.raises(errors.TooLarge, match=words):
                context.artefact(name, content)

    kind = make_kind(handler)
    testing.workspace(trial.root, App("trial", (kind,)))
    manifest = trial.root / "workspace.toml"
    manifest.write_text(manifest.read_text() + "[artefacts]\none_bytes = 100\njob_bytes = 120\nworkspace_bytes = 100\n")
    assert (first := trial.run(kind)).state is S.COMPLETED, first.diagnostic
    second = trial.run(kind)
    assert (second.state, "with all of the workspace: 120 bytes" in str(second.diagnostic)) == (S.FAILED, True), second
    assert (files(trial.root), staged(trial.root)) == ([sha(b"1" * 60)], [])


@pytest.mark.parametrize("line", ["one_bytes = -1", "one_bytes = true", "job_bytes = 1.5", "others = 1"])
def test_a_bad_bound_in_the_manifest_is_named(trial: Any, make_kind: Any, line: str) -> None:
    """The sentence names the manifest and the field."""
    kind = make_kind(lambda context, input: context.artefact("name", b""))
    testing.workspace(trial.root, App("trial", (kind,)))
    manifest = trial.root / "workspace.toml"
    manifest.write_text(manifest.read_text() + f"[artefacts]\n{line}\n")
    job = trial.run(kind)
    assert job.state is not S.COMPLETED
    assert f"workspace.toml: artefacts.{line.partition(' ')[0]}: " in str(job.diagnostic)


def test_below_the_floor_nothing_is_read(trial: Any, make_kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A disk below its floor refuses an artefact before anything is read."""

    def handler(context: Context, input: object) -> None:
        monkeypatch.setattr(Gauge, "low", lambda self: errors.DiskLow())
        with pytest.raises(errors.DiskLow):
            context.artefact("name", Unread())  # type: ignore[arg-type]
        monkeypatch.undo()

    assert trial.run(make_kind(handler)).state is S.COMPLETED


def test_who_lost_the_right_keeps_nothing(trial: Any, make_kind: Any) -> None:
    """An attempt that was settled meanwhile is unwound; no row and no bytes of it are kept."""

    def handler(context: Context, input: object) -> None:
        engine._ledger._driver.write(lambda tx: tx.run("set_epoch", epoch=9))
        context.artefact("late", BYTES)

    kind = make_kind(handler)
    with trial.open(kind) as engine:
        job_id = engine.submit(kind, None).job_id
        engine.work()
        assert engine.artefacts(job_id) == []
    assert files(trial.root) == []


def test_a_damaged_file_is_replaced_and_told(trial: Any, make_kind: Any) -> None:
    """Bytes of the wrong size are never handed out, and keeping the right ones again mends them."""
    kind = make_kind(lambda context, input: context.artefact("name", BYTES).digest)
    job = trial.run(kind)
    path = trial.root / ".perenne" / "artefacts" / sha(BYTES)[:2] / sha(BYTES)
    path.write_bytes(b"damaged")
    found = kept(trial, kind, job)["name"]
    with trial.open(kind) as engine, pytest.raises(errors.StoreFailed, match="restore it"):
        engine.open_artefact(found)
    trial.run(kind)
    assert path.read_bytes() == BYTES


def test_bytes_go_with_the_last_job_that_names_them(trial: Any, make_kind: Any) -> None:
    """A purge removes what only purged jobs named, keeps what others name, and what it counted is free again."""
    kind = make_kind(lambda context, input: [context.artefact(name, name.encode()).name for name in input])
    first = trial.run(kind, ["shared", "own"])
    second = trial.run(kind, ["shared"])
    assert (first.state, second.state) == (S.COMPLETED, S.COMPLETED)
    left = trial.root / ".perenne" / "artefacts" / sha(b"by a crash")[:2] / sha(b"by a crash")
    left.parent.mkdir(exist_ok=True)
    left.write_bytes(b"by a crash")
    upkeep.purge(trial.root, Rule(keep=1))
    assert files(trial.root) == [sha(b"shared")]
    assert kept(trial, kind, second).keys() == {"shared"}
    with trial.open(kind) as engine:
        assert engine._ledger._driver.read(lambda tx: tx.one("artefact_sizes", job_id=second.id)) == (6, 6)


def test_who_keeps_nothing_pays_nothing(trial: Any, make_kind: Any, passed: list[str]) -> None:
    """A job without artefacts passes no step of theirs, and leaves no folder."""
    trial.run(make_kind(lambda context, input: None))
    assert not [point for point in passed if point.startswith("artefact.")]
    assert not (trial.root / ".perenne" / "artefacts").exists()


def test_the_steps_come_in_their_order(trial: Any, make_kind: Any, passed: list[str]) -> None:
    """Bytes are durable under their name before the row is, and the stage file goes last."""
    trial.run(make_kind(lambda context, input: context.artefact("name", BYTES).digest))
    steps = [point.removeprefix("artefact.") for point in passed if point.startswith("artefact.")]
    ends = ["staged", "linked", "folder_synced", "written", "committed", "leftover_removed"]
    assert [step for step in steps if step in ends][-5:] == ends[1:]
    assert steps[0] == "staged"


def test_a_person_sees_and_writes_out_what_a_job_keeps(trial: Any, make_kind: Any, tmp_path: Path) -> None:
    """`show` lists it, `artefact` writes it to a new file, never over one; a damaged one gets no file."""
    job = trial.run(make_kind(lambda context, input: context.artefact("a thing", BYTES, "text/plain").digest))

    def perenne_command(*words: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "perenne", *map(str, words), "--workspace", str(trial.root)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)

    shown = perenne_command("show", job.id)
    assert "a thing" in shown.stdout, shown
    assert sha(BYTES)[:12] in shown.stdout
    assert perenne_command("artefact", job.id, "a thing", "--out", tmp_path / "out").returncode == 0
    assert (tmp_path / "out").read_bytes() == BYTES
    assert perenne_command("artefact", job.id, "a thing", "--out", tmp_path / "out").returncode == 3
    unknown = perenne_command("artefact", job.id, "nothing", "--out", tmp_path / "other")
    assert (unknown.returncode, "it keeps a thing" in unknown.stderr) == (2, True), unknown
    path = trial.root / ".perenne" / "artefacts" / sha(BYTES)[:2] / sha(BYTES)
    path.write_bytes(BYTES[::-1])
    damaged = perenne_command("artefact", job.id, "a thing", "--out", tmp_path / "other")
    assert (damaged.returncode, "damaged" in damaged.stderr) == (1, True), damaged
    assert not (tmp_path / "other").exists()


def _doctor(root: Path, kind: Kind, deep: bool = False) -> list[tuple[str, str]]:
    found = upkeep.doctor(root, App("trial", [kind]), deep=deep)
    return [(one.verdict, one.sentence) for one in found if one.name == "artefacts"]


def _keeps_two(make_kind: Any) -> Kind:
    def two(context: Context, input: object) -> str:
        context.artefact("first", BYTES)
        return context.artefact("second", BYTES[1:]).digest

    return make_kind(two)  # type: ignore[no-any-return]


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize(
    ("harm", "said"), [("gone", "no such file"), ("cut", f"3 bytes of {len(BYTES)}"), ("other", "other bytes")]
)
def test_the_doctor_names_bytes_that_are_not_as_their_row_says(
    trial: Any, make_kind: Any, harm: str, said: str, deep: bool
) -> None:
    """Missing and cut files are found in any look, and a changed byte when all are read."""
    kind = _keeps_two(make_kind)
    job = trial.run(kind)
    assert [verdict for verdict, _ in _doctor(trial.root, kind, deep)] == ["ok"]
    path = trial.root / ".perenne" / "artefacts" / sha(BYTES)[:2] / sha(BYTES)
    path.unlink()
    if harm != "gone":
        path.write_bytes(BYTES[:3] if harm == "cut" else b"X" + BYTES[1:])
    ((verdict, sentence),) = _doctor(trial.root, kind, deep)
    if harm == "other" and not deep:
        assert (verdict, sentence[:7]) == ("ok", "2 files")
    else:
        assert verdict == "bad"
        assert f"{sha(BYTES)[:12]}… of job {job.id}: {said}" in sentence
        assert sentence.startswith("1 of 2 ")


def test_the_doctor_names_bytes_that_no_job_keeps(trial: Any, make_kind: Any) -> None:
    """A file without a row is told, but not while somebody may be about to give it one; a purge removes it."""
    kind = _keeps_two(make_kind)
    trial.run(kind)
    stray = trial.root / ".perenne" / "artefacts" / "ab" / ("ab" * 32)
    stray.parent.mkdir(exist_ok=True)
    stray.write_bytes(b"nobody's")
    ((verdict, sentence),) = _doctor(trial.root, kind)
    assert (verdict, stray.name in sentence) == ("warn", True)
    script = "import sys; from perenne.files.artefacts import Store; from pathlib import Path\n"
    script += "with Store(Path(sys.argv[1])).locked(): print('held', flush=True); sys.stdin.read()"
    held = [sys.executable, "-c", script, str(trial.root / ".perenne" / "artefacts")]
    with subprocess.Popen(held, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert [verdict for verdict, _ in _doctor(trial.root, kind)] == ["ok"]
        holder.communicate(timeout=20)
    upkeep.purge(trial.root, Rule(keep=10))
    assert not stray.exists()
    assert [verdict for verdict, _ in _doctor(trial.root, kind)] == ["ok"]


def test_the_doctor_looks_at_more_artefacts_than_a_page(trial: Any, make_kind: Any, monkeypatch: Any) -> None:
    """However many pages there are, each file is looked at once."""
    monkeypatch.setattr("perenne.runtime.doctor_artefacts.STEP", 2)

    def many(context: Context, input: object) -> None:
        for number in range(6):
            context.artefact(f"file {number}", str(number).encode())

    kind = make_kind(many)
    trial.run(kind)
    assert [sentence[:7] for _, sentence in _doctor(trial.root, kind)] == ["6 files"]
    for path in (trial.root / ".perenne" / "artefacts").rglob("*"):
        if path.is_file():
            path.unlink()
    assert [sentence[:7] for _, sentence in _doctor(trial.root, kind)] == ["6 of 6 "]
