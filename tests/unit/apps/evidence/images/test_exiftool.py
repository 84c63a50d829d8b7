"""ExifTool as a bounded program: the exact call, the probe, the private copy, and every way a run can end."""

from __future__ import annotations

import hashlib
import json
import stat
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from perenne import crashpoints
from perenne.apps.evidence.findings import Source
from perenne.apps.evidence.images import exiftool
from perenne.apps.evidence.images.exiftool import Availability
from perenne.errors import (
    InvalidInput,
    RecoveryRequired,
    TooLarge,
    ToolFailed,
    ToolMissing,
    ToolTimedOut,
    Unwound,
)
from perenne.tools import Confinement, Stop, ToolResult, offer

PICTURE = b"\x89PNG\r\n\x1a\nnot really"
EXAMPLES = Path(__file__).parents[5] / "examples" / "evidence"


@pytest.fixture
def stage(tmp_path: Path) -> Path:
    folder = tmp_path / "stage"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "investigation"
    (folder / "Images").mkdir(parents=True)
    (folder / "Images" / "one.png").write_bytes(PICTURE)
    return folder


@pytest.fixture
def passed() -> Iterator[list[str]]:
    names: list[str] = []
    crashpoints.observe(names.append)
    yield names
    crashpoints.observe(None)


@pytest.fixture
def unconfined(monkeypatch: pytest.MonkeyPatch) -> None:
    """For stand-ins that start programs or leave the stage."""
    monkeypatch.setattr(exiftool, "_confinement", lambda *_: Confinement(level="none"))


def source_of(content: bytes) -> Source:
    return Source("82000000-0000-4000-8000-0000000000aa", hashlib.sha256(content).hexdigest(), len(content))


def fake(folder: Path, script: str) -> Availability:
    """A program that stands in for ExifTool, written for the shell."""
    path = folder / "fake-exiftool"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return Availability("available", "a stand-in", str(path), "12.57")


def read(root: Path, tool: Availability, stage: Path, stop: Stop | None = None) -> exiftool.Reading:
    return exiftool.read(root, "Images/one.png", source_of(PICTURE), tool, stage=stage, stop=stop)


def test_call_is_exactly_the_contract(stage: Path, root: Path, tmp_path: Path) -> None:
    """The program gets `-config "" -j -G1 -n -- input.bin`, with the private folder as its working folder (L:F-1)."""
    tool = fake(tmp_path, 'for word in "$@"; do printf "<%s>" "$word"; done; pwd')
    assert exiftool.argv_of(tool.executable) == (tool.executable, "-config", "", "-j", "-G1", "-n", "--", "input.bin")
    answer = read(root, tool, stage).stdout.decode()
    assert answer == f"<-config><><-j><-G1><-n><--><input.bin>{stage}\n"


def test_limits_are_those_of_the_profile() -> None:
    """The run and the probe are bounded as the contract says (L:2.5)."""
    run, probe = exiftool.LIMITS, exiftool.PROBE_LIMITS
    assert (run.wall_s, run.grace_s, run.cpu_s, run.descriptors) == (30, 0.25, 30, 64)
    assert (run.address_space_bytes, run.file_size_bytes) == (256 << 20, 4 << 20)
    assert (run.stdout_bytes, run.stderr_bytes) == (1 << 20, 256 << 10)
    assert (probe.wall_s, probe.cpu_s, probe.stdout_bytes, probe.stderr_bytes) == (3, 3, 16 << 10, 16 << 10)
    assert exiftool.MAX_SOURCE_BYTES == 16 << 20


@pytest.mark.usefixtures("unconfined")
def test_copy_is_private_and_removed(stage: Path, root: Path, tmp_path: Path, passed: list[str]) -> None:
    """During the run the copy stands under its opaque name, 0600; afterwards the stage is empty again."""
    tool = fake(tmp_path, "stat -c '%a %s %n' *; cat input.bin")
    answer = read(root, tool, stage).stdout
    assert answer == f"600 {len(PICTURE)} input.bin\n".encode() + PICTURE
    assert list(stage.iterdir()) == []
    assert (passed[0], passed[-1]) == ("run.copied", "run.copy_removed")


def test_copy_is_removed_when_the_run_fails(stage: Path, root: Path, tmp_path: Path, passed: list[str]) -> None:
    """A failing tool leaves no copy behind either."""
    with pytest.raises(ToolFailed):
        read(root, fake(tmp_path, "exit 3"), stage)
    assert list(stage.iterdir()) == []
    assert (passed[0], passed[-1]) == ("run.copied", "run.copy_removed")


def test_a_stage_that_is_used_or_open_to_others_is_refused(stage: Path, root: Path, tmp_path: Path) -> None:
    """A leftover copy, a folder others can enter, and a missing folder are refused before anything is written."""
    tool = fake(tmp_path, "echo unused")
    (stage / "input.bin").write_bytes(b"left over")
    with pytest.raises(InvalidInput, match="fresh"):
        read(root, tool, stage)
    assert (stage / "input.bin").read_bytes() == b"left over"
    (stage / "input.bin").unlink()
    stage.chmod(0o755)
    with pytest.raises(InvalidInput, match="0700"):
        read(root, tool, stage)
    with pytest.raises(InvalidInput, match="0700"):
        read(root, tool, tmp_path / "missing")


def test_an_original_that_is_not_the_recorded_one_is_never_read(stage: Path, root: Path, tmp_path: Path) -> None:
    """An original with another content than recorded asks for a person, and the tool does not start."""
    (root / "Images" / "one.png").write_bytes(PICTURE + b"!")
    mark = tmp_path / "started"
    with pytest.raises(RecoveryRequired, match=r"one\.png"):
        read(root, fake(tmp_path, f"touch {mark}"), stage)
    assert not mark.exists()


@pytest.mark.usefixtures("unconfined")
def test_an_original_that_changes_during_the_run_is_noticed(stage: Path, root: Path, tmp_path: Path) -> None:
    """The original is hashed again after the run, so an answer about other bytes is not kept (L:F-2)."""
    with pytest.raises(RecoveryRequired):
        read(root, fake(tmp_path, f"echo '[{{}}]'; echo changed > {root}/Images/one.png"), stage)
    assert list(stage.iterdir()) == []


def test_an_original_over_its_bound_is_refused(stage: Path, root: Path, tmp_path: Path) -> None:
    """A picture of more than 16 MiB is refused."""
    large = bytes(exiftool.MAX_SOURCE_BYTES + 1)
    (root / "Images" / "one.png").write_bytes(large)
    with pytest.raises(TooLarge):
        exiftool.read(root, "Images/one.png", source_of(large), fake(tmp_path, "echo"), stage=stage)


@pytest.mark.usefixtures("unconfined")
@pytest.mark.parametrize(
    ("script", "error"),
    [
        ("exit 3", ToolFailed),
        ("kill -9 $$", ToolFailed),
        ("head -c 1048577 /dev/zero", TooLarge),
        ("head -c 262145 /dev/zero >&2", TooLarge),
        ('echo \'[{"ExifTool:Error":"File format error"}]\'; exit 1', InvalidInput),
        ('echo \'[{"ExifTool:Error":"half\'; exit 1', ToolFailed),
    ],
    ids=["exit-3", "killed", "stdout", "stderr", "complaint", "half-complaint"],
)
def test_every_bad_end_is_an_error_of_its_own(
    script: str, error: type[Exception], stage: Path, root: Path, tmp_path: Path
) -> None:
    """A failing, killed or talkative tool gives an error with a sentence, never a partial answer."""
    with pytest.raises(error, match="picture"):
        read(root, fake(tmp_path, script), stage)


def test_a_file_that_is_no_picture_is_told_in_the_words_of_the_tool(stage: Path, root: Path, tmp_path: Path) -> None:
    """What ExifTool says about an unreadable file reaches the person."""
    with pytest.raises(InvalidInput, match="File format error"):
        read(root, fake(tmp_path, 'echo \'[{"ExifTool:Error":"File format error"}]\'; exit 1'), stage)


def test_a_stopped_run_unwinds(stage: Path, root: Path, tmp_path: Path) -> None:
    """A request to stop ends the run without an answer, and no `except Exception` can take it for a failure."""
    with Stop() as stop:
        stop.ask("the worker drains")
        with pytest.raises(Unwound, match="the worker drains"):
            read(root, fake(tmp_path, "echo never"), stage, stop)
    assert list(stage.iterdir()) == []


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        ("not_found", ToolMissing),
        ("timeout", ToolTimedOut),
        ("preparation_error", ToolFailed),
        ("io_error", ToolFailed),
    ],
)
def test_ends_that_need_no_process(ending: str, error: type[Exception]) -> None:
    """A missing tool and a deadline have errors of their own; faults of the machine are failures of the tool."""
    result = ToolResult(tool="/usr/bin/exiftool", limits=exiftool.LIMITS, ending=ending, elapsed_s=0.1, errno=5)  # type: ignore[arg-type]
    with pytest.raises(error):
        exiftool.whole_answer(result)


@pytest.mark.parametrize("state", ["missing", "incompatible", "unverified", "detection_error"])
def test_an_unavailable_tool_is_not_tried(state: exiftool.State, stage: Path, root: Path) -> None:
    """A tool that the probe did not accept is refused with the reason of the probe."""
    with pytest.raises(ToolMissing, match="because of a test"):
        read(root, Availability(state, "because of a test"), stage)


@pytest.mark.usefixtures("unconfined")
@pytest.mark.parametrize(
    ("script", "state", "word"),
    [
        ("echo 12.57", "available", "12.57"),
        ("echo 13.00", "available", "13.00"),
        ("echo 12.24", "available", "12.24"),
        ("echo 12.23", "incompatible", "CVE-2021-22204"),
        ("echo 9.99", "incompatible", "CVE-2021-22204"),
        ("echo '12.57 [Warning: library version is 12.50]'", "incompatible", "Warning"),
        ("true", "incompatible", "expected"),
        ("echo 12.57; exit 1", "incompatible", "exit code 1"),
        ("head -c 20000 /dev/zero", "incompatible", "stdout_bytes"),
    ],
)
def test_probe_tells_what_it_found(script: str, state: str, word: str, stage: Path, tmp_path: Path) -> None:
    """A usable version is available with its executable; anything else says why and how to install."""
    found = exiftool.probe(stage, Path(fake(tmp_path, script).executable))
    assert found.state == state
    assert word in found.reason
    assert (found.version != "") == (state == "available")
    assert state == "available" or "apt-get install libimage-exiftool-perl" in found.reason


@pytest.mark.skipif(offer().level != "stage", reason=f"NOT CHECKED: {offer().why}")
def test_tool_is_confined_to_its_stage(stage: Path, root: Path, tmp_path: Path) -> None:
    """A tool turned by a picture reads no original and writes nowhere; the reading says how it was."""
    closed = f"read line < {root}/Images/one.png && exit 9; echo x > {tmp_path}/trace && exit 9; echo closed"
    reading = read(root, fake(tmp_path, closed), stage)
    assert (reading.stdout, reading.confined.level) == (b"closed\n", "stage")
    assert not (tmp_path / "trace").exists()


def test_tool_that_changed_since_its_probe_is_not_run(stage: Path, root: Path, tmp_path: Path) -> None:
    """A program that was replaced after it told its version is not run in its place."""
    program = Path(fake(tmp_path, "echo 12.57").executable)
    probed = exiftool.probe(stage, program)
    assert probed.state == "available"
    program.write_text(f"#!/bin/sh\necho 12.57 > {stage}/trace\n")
    with pytest.raises(ToolFailed, match="has changed since it was probed"):
        read(root, probed, stage)
    assert not list(stage.iterdir())


def test_probe_of_a_missing_program(stage: Path, tmp_path: Path) -> None:
    """A path where nothing stands is missing, with the command that installs it."""
    found = exiftool.probe(stage, tmp_path / "nowhere")
    assert found.state == "missing"
    assert "make setup-system" in found.reason


def test_probe_without_any_program(stage: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without ExifTool on the machine the probe says so and starts nothing."""
    monkeypatch.setattr(exiftool, "find", lambda name: None)
    found = exiftool.probe(stage)
    assert (found.state, found.executable) == ("missing", "")
    assert "apt-get install libimage-exiftool-perl" in found.reason


def test_probe_of_a_file_that_cannot_be_run(stage: Path, tmp_path: Path) -> None:
    """A program that cannot be started is a fault of detection, not a missing program."""
    (tmp_path / "plain").write_text("text")
    assert exiftool.probe(stage, tmp_path / "plain").state == "detection_error"


@pytest.mark.parametrize(("ending", "state"), [("timeout", "unverified"), ("io_error", "detection_error")])
def test_probe_that_did_not_answer(ending: str, state: str) -> None:
    """A probe that ran out of its 3 seconds leaves the tool unverified; a lost one is a fault of detection."""
    result = ToolResult(tool="/x", limits=exiftool.PROBE_LIMITS, ending=ending, elapsed_s=3.0, errno=5)  # type: ignore[arg-type]
    assert exiftool.availability_of(result, "/x").state == state


@pytest.mark.usefixtures("unconfined")
def test_probe_gives_the_same_call_safety(stage: Path, tmp_path: Path) -> None:
    """The probe, too, forbids the user's configuration file, which ExifTool would run as Perl."""
    seen = tmp_path / "seen"
    exiftool.probe(stage, Path(fake(tmp_path, f'for word in "$@"; do printf "<%s>" "$word"; done > {seen}').executable))
    assert seen.read_text() == "<-config><><-ver>"


def test_real_tool_reads_a_real_picture(real_tool: Availability, stage: Path) -> None:
    """The installed ExifTool answers about a picture of ours, and no absolute path stands in the answer."""
    picture = EXAMPLES / "img" / "own-gps-south-west.jpg"
    reading = exiftool.read(picture.parent, picture.name, source_of(picture.read_bytes()), real_tool, stage=stage)
    answer = json.loads(reading.stdout)[0]
    assert answer["SourceFile"] == "input.bin"
    assert answer["ExifIFD:SerialNumber"] == "000123450"
    assert "GPS:GPSLatitude" in answer
    assert str(stage).encode() not in reading.stdout
    assert str(picture.parent).encode() not in reading.stdout


def test_real_tool_never_changes_the_original(real_tool: Availability, stage: Path, tmp_path: Path) -> None:
    """The original has the same bytes, times and mode after the run."""
    original = tmp_path / "a -Make=x.jpg"
    original.write_bytes((EXAMPLES / "img" / "own-gps-south-west.jpg").read_bytes())
    before = original.stat()
    exiftool.read(tmp_path, original.name, source_of(original.read_bytes()), real_tool, stage=stage)
    after = original.stat()
    assert (after.st_mtime_ns, after.st_size, stat.S_IMODE(after.st_mode)) == (
        before.st_mtime_ns,
        before.st_size,
        stat.S_IMODE(before.st_mode),
    )


def test_real_tool_on_no_picture_at_all(real_tool: Availability, stage: Path, tmp_path: Path) -> None:
    """A damaged file is told apart from a broken tool."""
    (tmp_path / "damaged.png").write_bytes(b"\x89PNG\n\x1a\n" + bytes(40))
    content = (tmp_path / "damaged.png").read_bytes()
    with pytest.raises(InvalidInput, match="cannot read this picture"):
        exiftool.read(tmp_path, "damaged.png", source_of(content), real_tool, stage=stage)


def test_a_bomb_of_text_is_cut_off(real_tool: Availability, stage: Path, tmp_path: Path) -> None:
    """A small picture whose compressed text unpacks to megabytes ends in a refusal, not in memory."""
    bomb = bomb_picture(unpacked_bytes=8 * 1024 * 1024)
    assert len(bomb) < 64 * 1024
    (tmp_path / "bomb.png").write_bytes(bomb)
    with pytest.raises(TooLarge):
        exiftool.read(tmp_path, "bomb.png", source_of(bomb), real_tool, stage=stage)


def bomb_picture(unpacked_bytes: int) -> bytes:
    """A PNG with a zTXt chunk that unpacks to `unpacked_bytes` letters."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    text = b"Comment\0\0" + zlib.compress(b"a" * unpacked_bytes, 9)
    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    end = chunk(b"IDAT", zlib.compress(b"\0\x80")) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"zTXt", text) + end
