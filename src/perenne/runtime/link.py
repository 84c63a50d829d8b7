"""The wire between a worker and a child: named messages over a socket pair, each whole or not at all.

What lives here: how a message is framed and bounded. What does not: what any message asks for (`proxy`, `attendant`).
"""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec

_LENGTH = struct.Struct("=I")
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode

# The largest is a log line of 1 MiB or an input of 256 KiB; a length beyond it is no message of ours.
MOST_BYTES = 4 << 20
_PIECE_BYTES = 1 << 16


@cache
def _frame_of(name: str) -> bytes:
    """A message without values, of which there are few, and those are said most."""
    body = _encode((name,))
    return _LENGTH.pack(len(body)) + body


class Link:
    """One end; used by one thread at a time."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._received = b""

    def fileno(self) -> int:
        return self._channel.fileno()

    def send(self, name: str, *values: object, descriptors: Sequence[int] = ()) -> None:
        """Send one message, with descriptors that the other end gets copies of.

        Raises: OSError: nobody is at the other end any more.
        """
        if not values:
            self._channel.sendall(_frame_of(name))
            return
        body = _encode((name, *values))
        frame = _LENGTH.pack(len(body)) + body
        if descriptors:
            sent = socket.send_fds(self._channel, [frame], descriptors)
            frame = frame[sent:]
        self._channel.sendall(frame)

    def receive(self) -> tuple[str, list[Any]]:
        """The next message: its name and its values.

        Raises: OSError: nobody is at the other end any more. ValueError: what came is no message.
        """
        if not self._received:
            data = self._channel.recv(_PIECE_BYTES)
            # As good as always: exactly one message.
            if len(data) > _LENGTH.size and _LENGTH.unpack_from(data)[0] == len(data) - _LENGTH.size:
                return _opened(data[_LENGTH.size :])
            self._take(data)
        return self._whole() or self._read(self._piece)

    def receive_with(self, descriptors: list[int]) -> tuple[str, list[Any]]:
        """As `receive`, and the descriptors that came along are added to the list, closed on exec."""

        def piece() -> bytes:
            data, given, _, _ = socket.recv_fds(self._channel, _PIECE_BYTES, 4)
            for descriptor in given:
                os.set_inheritable(descriptor, False)
            descriptors.extend(given)
            return data

        return self._whole() or self._read(piece)

    def close(self) -> None:
        self._channel.close()

    def _piece(self) -> bytes:
        return self._channel.recv(_PIECE_BYTES)

    def _read(self, piece: Any) -> tuple[str, list[Any]]:
        while True:
            self._take(piece())
            if (message := self._whole()) is not None:
                return message

    def _take(self, data: bytes) -> None:
        if not data:
            raise ConnectionResetError("the other end is closed")
        self._received += data

    def _whole(self) -> tuple[str, list[Any]] | None:
        """The message that stands first in what was received, if all of it is here."""
        if len(self._received) < _LENGTH.size:
            return None
        (length,) = _LENGTH.unpack_from(self._received)
        if length > MOST_BYTES:
            raise ValueError(f"a message of {length} bytes, the limit is {MOST_BYTES}")
        end = _LENGTH.size + length
        if len(self._received) < end:
            return None
        body, self._received = self._received[_LENGTH.size : end], self._received[end:]
        return _opened(body)


def _opened(body: bytes) -> tuple[str, list[Any]]:
    try:
        name, *values = _decode(body)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        raise ValueError(f"no message: {error}") from None
    if not isinstance(name, str):
        raise ValueError(f"no message: it has the name {name!r}")
    return name, values
