"""Messages between worker and child are whole or refused, however they are cut, and whatever comes instead."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perenne.runtime.link import MOST_BYTES, Link


@pytest.fixture
def ends() -> Iterator[tuple[socket.socket, Link]]:
    near, far = socket.socketpair()
    with near, far:
        yield near, Link(far)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 63), (1 << 63) - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.lists(st.tuples(st.text(), st.lists(VALUES, max_size=3)), min_size=1, max_size=4), st.integers(1, 9))
def test_messages_come_as_they_went(messages: list[tuple[str, list[object]]], piece_bytes: int) -> None:
    """In order, one by one, also when they are cut into pieces on the way."""
    near, far = socket.socketpair()
    through, out = socket.socketpair()
    with near, far, through, out:
        sender = Link(near)
        for name, values in messages:
            sender.send(name, *values)
        data = far.recv(1 << 20)
        receiver = Link(out)
        feeder = threading.Thread(
            target=lambda: [through.send(data[at : at + piece_bytes]) for at in range(0, len(data), piece_bytes)]
        )
        feeder.start()
        assert [receiver.receive() for _ in messages] == [(name, values) for name, values in messages]
        feeder.join()


def test_a_descriptor_comes_along(ends: tuple[socket.socket, Link]) -> None:
    """The other end gets a copy that is closed on exec."""
    near, link = ends
    readable, writable = os.pipe()
    Link(near).send("take", 1, descriptors=[readable])
    os.close(readable)
    got: list[int] = []
    assert link.receive_with(got) == ("take", [1])
    os.write(writable, b"through")
    assert os.read(got[0], 10) == b"through"
    assert not os.get_inheritable(got[0])
    for descriptor in (writable, *got):
        os.close(descriptor)


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("=I", MOST_BYTES + 1),
        struct.pack("=I", 3) + b"\xc1\xc1\xc1",
        struct.pack("=I", 1) + b"\x90",
        struct.pack("=I", 1) + b"\x07",
        struct.pack("=I", 2) + b"\x91\x07",
        struct.pack("=I", 0),
    ],
)
def test_what_is_no_message_is_refused(ends: tuple[socket.socket, Link], data: bytes) -> None:
    """A length beyond the bound, bytes that mean nothing, and a message without a name are refused as such."""
    near, link = ends
    near.sendall(data)
    with pytest.raises(ValueError, match="message"):
        link.receive()


def test_a_closed_end_is_told(ends: tuple[socket.socket, Link]) -> None:
    """Half a message and then nothing is an end, not a message."""
    near, link = ends
    near.sendall(struct.pack("=I", 10) + b"half")
    near.close()
    with pytest.raises(ConnectionResetError):
        link.receive()
