"""Lines, header ends and boundaries, in bytes."""

from __future__ import annotations

import pytest

from perenne.apps.evidence.mail import splitter
from perenne.apps.evidence.mail.splitter import Region


def whole(data: bytes) -> Region:
    return Region(0, len(data))


@pytest.mark.parametrize(
    ("data", "ends"),
    [(b"a\r\nb\r\n", "crlf"), (b"a\nb\rc", "lf"), (b"a\rb", "cr"), (b"a\r\nb\n", "mixed"), (b"a", "none")],
)
def test_line_ends_are_told_for_the_whole(data: bytes, ends: str) -> None:
    """A lone CR counts only where no LF stands; else it is data."""
    assert splitter.line_ends(data) == ends
    assert len(splitter.with_line_feeds(data, splitter.line_ends(data))) == len(data)


@pytest.mark.parametrize(
    ("data", "ends"),
    [
        (b"a: b\r\n\r\nx", (4, 8)),
        (b"a: b\n\nx", (4, 6)),
        (b"\r\nx", (0, 2)),
        (b"\nx", (0, 1)),
        (b"a: b\r\n", (6, 6)),
        (b"", (0, 0)),
    ],
)
def test_a_header_ends_before_the_first_empty_line(data: bytes, ends: tuple[int, int]) -> None:
    """An empty line right away means no header, none at all means no body."""
    assert splitter.header_end(data, whole(data)) == ends


def parts(data: bytes, boundary: bytes = b"b", most: int = 10) -> list[bytes]:
    found = splitter.split(data, boundary, whole(data), most)
    return [data[region.start : region.end] for region in found.parts]


def test_the_line_end_before_a_boundary_belongs_to_it() -> None:
    """Parts end before the line end of the boundary, be it LF or CR LF; preamble and epilogue stand beside."""
    data = b"pre\r\n--b\r\none\r\n\r\n--b \t\r\ntwo\n--b--\r\nepi"
    assert parts(data) == [b"one\r\n", b"two"]
    found = splitter.split(data, b"b", whole(data), 10)
    assert data[found.preamble.start : found.preamble.end] == b"pre"
    assert found.epilogue is not None
    assert data[found.epilogue.start :] == b"epi"
    assert found.closed


def test_a_longer_boundary_is_another_one() -> None:
    """`--b_alt` and a boundary within a line are no boundary `b`."""
    assert parts(b"--b\n--b_alt\nx --b\n--b--\n") == [b"--b_alt\nx --b"]


def test_what_nothing_closes_reaches_the_end() -> None:
    """The last part without a closing boundary has all that follows (nodemailer/mailparser#224)."""
    data = b"--b\none\n--b\ntwo\n"
    assert parts(data) == [b"one", b"two\n"]
    assert not splitter.split(data, b"b", whole(data), 10).closed


def test_a_boundary_after_the_close_is_told() -> None:
    """Parts hidden behind the closing boundary are not read, and their place is known."""
    assert splitter.split(b"--b\none\n--b--\n--b\nhidden\n", b"b", Region(0, 27), 10).late == 14


def test_empty_siblings_are_cut_at_the_bound() -> None:
    """No more parts than asked for are made (emailjs/emailjs-mime-parser#39)."""
    data = b"--b\n" * 1000
    found = splitter.split(data, b"b", whole(data), 7)
    assert (len(found.parts), found.cut) == (7, True)
