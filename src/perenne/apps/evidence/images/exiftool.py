"""ExifTool on one picture: whether it is here, exactly how it is called, and its bounded run on a private copy.

Not here: what its answer means (`metadata`) and how it is kept (`artefact`). Source: L:F-1, L:F-2, L:2.5, L:2.18.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Literal, NoReturn

import msgspec

from perenne.apps.evidence import places
from perenne.apps.evidence.findings import Source
from perenne.apps.evidence.images import metadata
from perenne.crashpoints import crash_point
from perenne.errors import (
    InvalidInput,
    RecoveryRequired,
    TooLarge,
    ToolFailed,
    ToolMissing,
    ToolTimedOut,
    Unwound,
)
from perenne.tools import Confined, Confinement, Limits, Stop, ToolResult, find, identify, run

MAX_SOURCE_BYTES = 16 * 1024 * 1024
INPUT_NAME = "input.bin"
INSTALL_COMMAND = "apt-get install libimage-exiftool-perl"
OLDEST_VERSION = (12, 24)

LIMITS = Limits(
    wall_s=30.0,
    grace_s=0.25,
    cpu_s=30,
    address_space_bytes=256 * 1024 * 1024,
    file_size_bytes=4 * 1024 * 1024,
    descriptors=64,
    stdout_bytes=1024 * 1024,
    stderr_bytes=256 * 1024,
)
PROBE_LIMITS = replace(LIMITS, wall_s=3.0, cpu_s=3, stdout_bytes=16 * 1024, stderr_bytes=16 * 1024)

_VERSION = re.compile(rb"([0-9]{1,3})\.([0-9]{1,3})")

State = Literal["available", "missing", "incompatible", "unverified", "detection_error"]


class Availability(msgspec.Struct, frozen=True):
    """Whether pictures can be analysed here, and why; executable and version only when they can (L:2.18)."""

    state: State
    reason: str
    executable: str = ""
    version: str = ""
    identity: str | None = None  # of the file that answered; another one is not run in its place


class Reading(msgspec.Struct, frozen=True):
    """The whole answer of one successful run: the tool's version, its standard output, and what confined it."""

    tool_version: str
    stdout: bytes
    confined: Confined = Confined()


def argv_of(executable: str) -> tuple[str, ...]:
    """The call, always the same; the picture is named relative to the private folder, so that no path leaks."""
    return (executable, "-config", "", "-j", "-G1", "-n", "--", INPUT_NAME)


def probe(cwd: Path, executable: Path | None = None) -> Availability:
    """Ask ExifTool for its version, within 3 seconds.

    Args:
        cwd: a private folder; nothing is written there.
        executable: absolute path of the program; by default the one that the tool runner finds.
    """
    program = executable if executable is not None else find("exiftool")
    if program is None:
        return _missing("ExifTool is not installed")
    identity = identify(program)
    argv = (str(program), "-config", "", "-ver")
    result = run(argv, cwd=cwd, limits=PROBE_LIMITS, confinement=_confinement(program, None), identity=identity)
    return msgspec.structs.replace(availability_of(result, str(program)), identity=identity)


def availability_of(result: ToolResult, executable: str) -> Availability:
    """What the end of a probe says about the tool."""
    match result.ending:
        case "not_found":
            return _missing(f"{executable} does not exist")
        case "timeout" | "cancelled":
            return Availability("unverified", f"the version could not be asked: {result.sentence}; try again")
        case "preparation_error" | "io_error":
            return Availability("detection_error", f"the probe failed: {result.sentence}; check {executable}")
        case "exited" if result.stdout_complete:
            return _version_verdict(result.stdout, executable)
    return _incompatible(f"{executable} does not tell its version: {result.sentence}")


def read(
    root: Path, relative_path: str, source: Source, tool: Availability, *, stage: Path, stop: Stop | None = None
) -> Reading:
    """Run ExifTool on a private copy of an original and give its whole answer.

    Args:
        root, relative_path: the folder of the investigation and the original below it.
        source: what the original must be; it is hashed before and after the run (L:F-2).
        stage: a fresh folder of the caller, mode 0700; the copy stands there during the run and is removed.
        stop: a request to end the run early.
    Raises:
        InvalidInput: the file cannot be read as a picture, or the stage is not fresh and private.
        ToolMissing: the tool is not available. ToolTimedOut, ToolFailed: it gave no whole answer.
        TooLarge: the original is over 16 MiB or the answer over 1 MiB.
        RecoveryRequired: the original is not, or no longer, what the catalogue says.
        Unwound: the run was stopped on request; who asked says what follows.
    """
    _refuse_unavailable(tool)
    content = _original(root, relative_path, source)
    with _private_copy(stage, content):
        result = run(
            argv_of(tool.executable),
            cwd=stage,
            limits=LIMITS,
            stop=stop,
            confinement=_confinement(Path(tool.executable), stage),
            identity=tool.identity,
        )
    _original(root, relative_path, source)
    return Reading(tool.version, whole_answer(result), result.confinement)


def _confinement(program: Path, stage: Path | None) -> Confinement:
    """Its stage and its own modules, no network, no other program; where that is not offered, what is (EV-9)."""
    modules = program.resolve().parent / "lib"  # of an ExifTool that is not the system's
    return Confinement(stage=stage, reads=(modules,) if modules.is_dir() else ())


def whole_answer(result: ToolResult) -> bytes:
    """The standard output of a run that ended well; any other end is an error of its own (L:R-5)."""
    if result.ending != "exited" or not result.stdout_complete:
        _refuse_end(result)
    return result.whole_stdout()


def _refuse_end(result: ToolResult) -> NoReturn:
    sentence = f"the picture was not analysed: {result.sentence}"
    match result.ending:
        case "not_found":
            raise ToolMissing(f"{sentence}; {_how_to_install()}", ending=result.ending)
        case "timeout":
            raise ToolTimedOut(f"{sentence}; look at this picture with another tool", ending=result.ending)
        case "output_limit":
            raise TooLarge(f"{sentence}; look at this picture with another tool", ending=result.ending)
        case "cancelled":
            raise Unwound(sentence)
        case "nonzero" if complaint := _complaint_of(result):
            raise InvalidInput(f"ExifTool cannot read this picture: {complaint}", ending=result.ending)
    raise ToolFailed(f"{sentence}; run the analysis again", ending=result.ending, exit_code=result.exit_code)


def _complaint_of(result: ToolResult) -> str | None:
    """What ExifTool says of a file that it cannot read: it ends with exit code 1 and puts the reason in its answer."""
    try:
        tags = metadata.tags_of(result.whole_stdout())
    except (ToolFailed, TooLarge):
        return None
    return next((tag.value[:200] for tag in tags if (tag.group, tag.tag) == ("ExifTool", "Error")), None)


def _refuse_unavailable(tool: Availability) -> None:
    if tool.state != "available":
        raise ToolMissing(f"pictures cannot be analysed here: {tool.reason}", state=tool.state)


def _original(root: Path, relative_path: str, source: Source) -> bytes:
    content = places.read_below(root, relative_path, limit_bytes=MAX_SOURCE_BYTES)
    sha256, size_bytes = hashlib.sha256(content).hexdigest(), len(content)
    if (sha256, size_bytes) != (source.sha256, source.size_bytes):
        raise RecoveryRequired(
            f"the original {relative_path} has SHA-256 {sha256} and {size_bytes} bytes, the catalogue says "
            f"{source.sha256} and {source.size_bytes}; restore the original and resolve the job",
            finding="the original changed",
            path=relative_path,
        )
    return content


@contextmanager
def _private_copy(stage: Path, content: bytes) -> Iterator[None]:
    copy = stage / INPUT_NAME
    descriptor = _create(stage, copy)
    try:
        with open(descriptor, "wb") as file:
            file.write(content)
        crash_point("run.copied")
        yield
    finally:
        copy.unlink(missing_ok=True)
        crash_point("run.copy_removed")


def _create(stage: Path, copy: Path) -> int:
    if not stage.is_dir() or stage.stat().st_mode & 0o077:
        raise InvalidInput(f"stage: {stage} is no folder of mode 0700; make one for this run", path=str(stage))
    try:
        return os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        raise InvalidInput(f"stage: {stage} already holds {copy.name}; give a fresh folder", path=str(stage)) from None


def _version_verdict(answer: bytes, executable: str) -> Availability:
    version = _VERSION.fullmatch(answer.strip())
    if version is None:
        return _incompatible(f"{executable} answers {answer[:80]!r} where a version like 12.57 is expected")
    text = version.group().decode("ascii")
    if tuple(map(int, version.groups())) < OLDEST_VERSION:
        oldest = ".".join(map(str, OLDEST_VERSION))
        return _incompatible(f"ExifTool {text} runs code found in pictures (CVE-2021-22204), fixed in {oldest}")
    return Availability("available", f"ExifTool {text} answers", executable, text)


def _missing(what: str) -> Availability:
    return Availability("missing", f"{what}; {_how_to_install()}")


def _incompatible(what: str) -> Availability:
    return Availability("incompatible", f"{what}; {_how_to_install()}")


def _how_to_install() -> str:
    return f"install it with `{INSTALL_COMMAND}` or `make setup-system`"
