"""Reading files that somebody gave."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from perenne.errors import InvalidInput, TooLarge
from perenne.files import regular


@pytest.mark.parametrize("size_bytes", [0, 1, 10])
def test_regular_file_is_read_whole(tmp_path: Path, size_bytes: int) -> None:
    """A file of up to the limit, the limit included, is read whole."""
    (tmp_path / "x").write_bytes(b"z" * size_bytes)
    assert regular.read(tmp_path / "x", limit_bytes=10) == b"z" * size_bytes


def test_oversize_file_is_refused_with_both_numbers(tmp_path: Path) -> None:
    """A larger file is refused, naming its size and the limit."""
    (tmp_path / "x").write_bytes(b"z" * 11)
    with pytest.raises(TooLarge, match=r"x has at least 11 bytes, the limit is 10"):
        regular.read(tmp_path / "x", limit_bytes=10)


def test_file_that_grows_while_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit binds what is read, not only what the size said before."""
    path = tmp_path / "x"
    path.write_bytes(b"z" * 10)
    read = os.read

    def grown(descriptor: int, most: int) -> bytes:
        with path.open("ab") as file:
            file.write(b"z" * 50)
        return read(descriptor, most)

    monkeypatch.setattr(os, "read", grown)
    with pytest.raises(TooLarge, match=r"the limit is 10"):
        regular.read(path, limit_bytes=10)


def make_socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        folder = os.open(path.parent, os.O_PATH)
        try:  # through the descriptor, because the name of a socket may have at most 107 bytes
            server.bind(f"/proc/self/fd/{folder}/{path.name}")
        finally:
            os.close(folder)


@pytest.mark.parametrize(
    ("make", "found"),
    [
        (lambda path: path.mkdir(), "folder"),
        (lambda path: path.symlink_to(__file__), "symbolic link"),
        (lambda path: path.symlink_to("nowhere"), "symbolic link"),
        (lambda path: os.mkfifo(path), "named pipe"),
        (make_socket, "socket"),
    ],
)
def test_only_regular_files_are_read(tmp_path: Path, make: Callable[[Path], None], found: str) -> None:
    """A folder, link, pipe or socket is refused at once, saying what it is; a pipe without a writer holds nobody up."""
    make(tmp_path / "x")
    with pytest.raises(InvalidInput, match=rf"x is a {found}; give a regular file"):
        regular.read(tmp_path / "x", limit_bytes=10)


def test_devices_are_never_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """A device is refused without being opened."""
    monkeypatch.setattr(os, "open", lambda *_, **__: pytest.fail("it was opened"))
    with pytest.raises(InvalidInput, match=r"/dev/null is a character device"):
        regular.read(Path("/dev/null"), limit_bytes=10)


def test_file_swapped_for_a_link_is_not_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that becomes a link, or a pipe, between looking and opening is refused all the same."""
    (tmp_path / "x").write_bytes(b"z")
    seen = os.lstat(tmp_path / "x")
    monkeypatch.setattr(os, "lstat", lambda _: seen)
    (tmp_path / "link").symlink_to("x")
    with pytest.raises(InvalidInput, match=r"link cannot be read"):
        regular.read(tmp_path / "link", limit_bytes=10)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InvalidInput, match=r"pipe is a named pipe"):
        regular.read(tmp_path / "pipe", limit_bytes=10)


@pytest.mark.parametrize("name", ["gone", "gone/deeper", "a\0b", "n" * 300])
def test_names_that_name_nothing_are_refused(tmp_path: Path, name: str) -> None:
    """A missing file, or a name no file can have, is invalid input and no bare error."""
    with pytest.raises(InvalidInput, match=name[:2].replace("\0", r"\\x00")):
        regular.read(tmp_path / name, limit_bytes=10)
