"""What a worker and its tool host say to each other: the order for one tool, the notes on its life, the signals.

What lives here: the messages as values and as bytes. Who sends what and why is in `toolhost.py` and `toolspawner.py`.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
import socket
import struct
from typing import Literal, NamedTuple

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8", "HOME": "/nonexistent"}

# Worker to host, on the control socket: one byte with the descriptors of one run: its channel and the tool's ends.
# Worker to host, on the channel: the order, later one byte for each signal that the group shall get.
# Host to worker, on the channel: notes. The end of the channel ends the run.
LENGTH = struct.Struct("=I")
NOTE = struct.Struct("=ci")
SPAWNED, FAILED, ENDED = b"s", b"f", b"e"  # with the process number, the errno, the wait status

LIMITED = (resource.RLIMIT_CPU, resource.RLIMIT_FSIZE, resource.RLIMIT_NOFILE, resource.RLIMIT_AS)

Level = Literal["none", "offline", "stage"]


class Cage(NamedTuple):
    """What is taken from a tool before its first instruction; paths are absolute and in the system's encoding."""

    level: Level = "none"
    stage: bytes = b""  # the folder where it may work; empty for none
    reads: tuple[bytes, ...] = ()
    children: int = 0  # how many other processes it may have at once
    wrapped: bool = False  # level `stage` by bubblewrap


class Order(NamedTuple):
    """One tool to start. identity: what `identity_of` must answer for the program; empty when nobody asked."""

    argv: list[bytes]
    cwd: bytes
    limits: tuple[int, ...]  # in the order of LIMITED
    cage: Cage = Cage()
    identity: bytes = b""

    def packed(self) -> bytes:
        """The order as a message; no part may hold a NUL."""
        cage = self.cage
        head = [self.cwd, self.identity, cage.level.encode(), cage.stage, b"%d" % cage.children, b"%d" % cage.wrapped]
        counts = [b"%d" % number for number in (*self.limits, len(cage.reads))]
        body = b"\0".join([*head, *counts, *cage.reads, *self.argv])
        return LENGTH.pack(len(body)) + body


def unpacked(message: bytes) -> Order:
    """The order in a message, without its length."""
    cwd, identity, level, stage, children, is_wrapped, *rest = message.split(b"\0")
    *limits, reads = (int(number) for number in rest[: len(LIMITED) + 1])
    paths, argv = rest[len(LIMITED) + 1 :][:reads], rest[len(LIMITED) + 1 + reads :]
    word: Level = "stage" if level == b"stage" else "offline" if level == b"offline" else "none"
    cage = Cage(level=word, stage=stage, reads=tuple(paths), children=int(children), wrapped=is_wrapped == b"1")
    return Order(argv=argv, cwd=cwd, limits=tuple(limits), cage=cage, identity=identity)


def receive(channel: socket.socket) -> bytes:
    """One message without its length; the sender is already writing, so this waits for no one else.

    Raises:
        OSError: the message was cut off.
    """
    (length,) = LENGTH.unpack(_receive(channel, LENGTH.size))
    return _receive(channel, length)


def receive_descriptors(channel: socket.socket) -> tuple[bytes, list[int]]:
    """One byte and the descriptors of a run that came with it, closed on exec; no byte at the end of the channel."""
    byte, descriptors, _, _ = socket.recv_fds(channel, 1, 4)
    for descriptor in descriptors:
        os.set_inheritable(descriptor, False)
    return byte, descriptors


def _receive(channel: socket.socket, length: int) -> bytes:
    data = b""
    while len(data) < length:
        piece = channel.recv(length - len(data))
        if not piece:
            raise ConnectionResetError(errno.ECONNRESET, "the message was cut off")
        data += piece
    return data


def tell(channel: socket.socket, kind: bytes, value: int) -> None:
    """Send a note; whoever does not listen any more misses it."""
    with contextlib.suppress(OSError):
        channel.send(NOTE.pack(kind, value))


def identity_of(program: bytes | str) -> bytes:
    """Which file a program is, and in which version of its bytes: a rewrite or a replacement changes it.

    Raises:
        OSError: there is no such file.
    """
    found = os.stat(program)
    facts = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return ":".join(map(str, facts)).encode()
