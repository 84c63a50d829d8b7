"""The bounded tool runner: one outside program, with limits on its time, its output, its memory and its children.

What lives here: what may be started, and what comes back. The parts below it are `toolwatch.py` (the wait),
`toolspawner.py` and `toolhost.py` (the start), `confine.py` (what a tool may reach).
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from perenne.errors import InvalidInput
from perenne.runtime import confine
from perenne.runtime.confine import Confinement
from perenne.runtime.stop import Stop
from perenne.runtime.toolorder import ENVIRONMENT, Cage, Order, identity_of
from perenne.runtime.toolspawner import spawn
from perenne.runtime.toolvalues import Ending, Limits, Stream, ToolResult
from perenne.runtime.toolwatch import Watch

__all__ = ["ENVIRONMENT", "Ending", "Limits", "Stream", "ToolResult", "identify", "run"]


def run(
    argv: Sequence[str],
    *,
    cwd: Path,
    limits: Limits,
    stop: Stop | None = None,
    confinement: Confinement | None = None,
    identity: str | None = None,
) -> ToolResult:
    """Run one outside program to its end and give its outputs, without a shell; any thread may call it.

    The program gets its own session, the fixed ENVIRONMENT, an empty standard input, no other descriptor of ours, and
    the limits before its first instruction. At the deadline, at a request to stop or over an output limit its group
    gets SIGTERM, then SIGKILL; whatever is left of the group when the program ends is killed too.

    Args:
        argv: the absolute path of the program, then its arguments.
        cwd: absolute path of the working folder.
        stop: a request to stop that anybody may ask while the program runs.
        confinement: what the program may reach; without it, all that this process may.
        identity: what `identify` answered when the program was probed; another program or version is not started.
    Returns:
        A result in every case, also when the program is missing, has changed or cannot be started.
    Raises:
        InvalidInput: the arguments or the folder are no such things.
        ConfinementMissing: the confinement is required and not offered here; nothing was started.
    Guarantees: returns within wall_s + grace_s + hard_end_s, even if a descendant that left the session holds a pipe.
        When this process dies, the program and its group die. No reaped process is ever signalled.
    """
    words = checked_words(argv)
    folder = checked_folder(cwd)
    began_s = time.monotonic()
    confined = confine.in_force(confinement)
    result = partial(ToolResult, tool=argv[0], limits=limits, confinement=confined)
    if stop is not None and stop.asked is not None:
        return result(ending="cancelled", elapsed_s=0.0, reason=stop.asked)
    if obstacle := obstacle_to(argv[0]):
        missing = obstacle in (errno.ENOENT, errno.ENOTDIR)
        return result(ending="not_found" if missing else "preparation_error", elapsed_s=0.0, errno=obstacle)
    try:
        stop_descriptor = None if stop is None else stop.fileno()
        tool = spawn(order_of(words, folder, limits, confine.cage_of(confinement, confined, argv[0]), identity))
    except OSError as fault:
        elapsed_s = time.monotonic() - began_s
        return result(ending="preparation_error", elapsed_s=elapsed_s, errno=fault.errno or errno.EIO)
    with tool:
        watch = Watch(tool, limits, stop_descriptor, began_s)
        ending = watch.wait()
    code = None if ending == "preparation_error" else watch.exit_code
    return result(
        ending=ending,
        elapsed_s=time.monotonic() - began_s,
        exit_code=code if code is not None and code >= 0 else None,
        signal=-code if code is not None and code < 0 else None,
        errno=watch.errno,
        reason=stop.asked if stop is not None and ending == "cancelled" else None,
        stdout_stream=watch.stdout.stream(),
        stderr_stream=watch.stderr.stream(),
    )


def order_of(words: list[bytes], folder: bytes, limits: Limits, cage: Cage, identity: str | None) -> Order:
    """What the host is told."""
    bounds = (limits.cpu_s, limits.file_size_bytes, limits.descriptors, limits.address_space_bytes)
    return Order(argv=words, cwd=folder, limits=bounds, cage=cage, identity=(identity or "").encode())


def identify(program: str | Path) -> str | None:
    """Which file a program is and in which version; None when there is none. Any change of it changes the answer."""
    try:
        return identity_of(os.fsencode(program)).decode()
    except OSError:
        return None


def checked_words(argv: Sequence[str]) -> list[bytes]:
    """The arguments as the system takes them. Raises: InvalidInput."""
    if isinstance(argv, str) or not argv or not all(isinstance(word, str) for word in argv):
        raise InvalidInput(f"argv is {argv!r}; give the program and its arguments as strings", field="argv", value=argv)
    if not argv[0].startswith("/"):
        raise InvalidInput(
            f"argv[0] is {argv[0]!r}; give the absolute path of the program (tools.find looks it up)",
            field="argv[0]",
            value=argv[0],
        )
    return [_checked_word(number, word) for number, word in enumerate(argv)]


def _checked_word(number: int, word: str) -> bytes:
    try:
        encoded = os.fsencode(word)
    except UnicodeEncodeError:
        encoded = b"\0"
    if b"\0" in encoded:
        raise InvalidInput(
            f"argv[{number}] is {word!r}; no argument can hold a NUL or half a character",
            field=f"argv[{number}]",
            value=word,
        )
    return encoded


def checked_folder(cwd: Path) -> bytes:
    """The working folder as the system takes it. Raises: InvalidInput."""
    if not cwd.is_absolute() or not cwd.is_dir():
        raise InvalidInput(f"cwd is {str(cwd)!r}; give the absolute path of a folder", field="cwd", value=str(cwd))
    return os.fsencode(cwd)


def obstacle_to(program: str) -> int:
    """The errno that speaks against starting the program; 0 when nothing does."""
    try:
        mode = os.stat(program).st_mode
    except OSError as fault:
        return fault.errno or errno.EIO
    if stat.S_ISDIR(mode):
        return errno.EISDIR
    return 0 if stat.S_ISREG(mode) and os.access(program, os.X_OK) else errno.EACCES
