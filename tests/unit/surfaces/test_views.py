"""The words, rounding and layout that people see."""

from __future__ import annotations

import pytest

from perenne import JobState
from perenne.surfaces import views


def test_every_state_has_a_word() -> None:
    """Each state of a job is told in words, in no state twice."""
    assert set(views.STATES) == set(JobState)
    assert len(set(views.STATES.values())) == len(JobState)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("plain", "plain"),
        ("two\nlines\tand  blanks ", "two lines and blanks"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("left‮right", "left\\u202eright"),
        ("name\udcff.eml", "name\\udcff.eml"),
        ("Été ☂ 日本", "Été ☂ 日本"),
        ("", ""),
    ],
)
def test_a_line_is_harmless(text: str, line: str) -> None:
    """A text from outside becomes one line that a terminal neither obeys nor fails to show."""
    assert views.one_line(text) == line
    line.encode("utf-8")


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 files"), (1, "1 file"), (2, "2 files"), (1234, "1,234 files"), (1_000_000, "1,000,000 files")],
)
def test_things_are_counted(number: int, words: str) -> None:
    """One thing, two things."""
    assert views.count(number, "file") == words


def test_an_irregular_plural_is_given() -> None:
    """The plural may be given when an s does not make it."""
    assert views.count(2, "address", "addresses") == "2 addresses"


def test_states_are_summed_up_in_the_order_of_a_life() -> None:
    """Counts of states follow a job's life and leave out what is not there."""
    counts = {JobState.COMPLETED: 1200, JobState.QUEUED: 3, JobState.FAILED: 0}
    assert views.states(counts) == "3 QUEUED · 1,200 COMPLETED"
    assert views.states({}) == "none"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 ms"),
        (0.0123, "12 ms"),
        (0.9994, "999 ms"),
        (0.9996, "1.0 s"),
        (4.24, "4.2 s"),
        (59.94, "59.9 s"),
        (59.96, "1 min 00 s"),
        (185, "3 min 05 s"),
        (3600, "1 h 00 min"),
        (7625, "2 h 07 min"),
        (90_000, "25 h 00 min"),
    ],
)
def test_durations_are_rounded_to_what_one_reads(seconds: float, text: str) -> None:
    """A duration has two or three digits and never 60 of anything."""
    assert views.duration(seconds) == text


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (4301, "4.2 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (1024**2, "1.0 MiB"),
        (5 * 1024**4, "5,120.0 GiB"),
    ],
)
def test_sizes_are_rounded(size_bytes: int, text: str) -> None:
    """A size has one decimal and never 1024 of its unit."""
    assert views.size(size_bytes) == text


def test_an_instant_says_its_zone() -> None:
    """Stored microseconds are shown as a date and time in UTC."""
    assert views.instant(1_790_456_400_000_000) == "2026-09-26 21:00:00 UTC"
    assert views.instant(0) == "1970-01-01 00:00:00 UTC"


def test_progress_keeps_its_width() -> None:
    """From the first to the last, progress takes the same room."""
    assert [views.progress(done, 100) for done in (1, 10, 100)] == ["[  1/100]", "[ 10/100]", "[100/100]"]


@pytest.mark.parametrize(
    ("text", "width", "short"),
    [
        ("photo.jpg", 9, "photo.jpg"),
        ("photograph.jpg", 9, "phot….jpg"),
        ("photograph.jpg", 8, "phot…jpg"),
        ("日本日本日本", 7, "日…日本"),
        ("ab", 1, "…"),
    ],
)
def test_a_long_name_keeps_both_ends(text: str, width: int, short: str) -> None:
    """A name that is too wide loses its middle, and wide letters count twice."""
    assert views.shorten(text, width) == short
    assert views.columns(short) <= width


def test_a_table_is_aligned_and_fits() -> None:
    """Columns stand below each other, numbers to the right, and the flexible one gives way."""
    rows = [["a" * 60 + ".eml", "1", "COMPLETED"], ["日本.eml", "12", "FAILED"]]
    lines = views.table(("file", "tries", "state"), rows, width=40, flexible=0)
    assert lines == [
        "file                    tries  state",
        "aaaaaaaaaaa…aaaaaa.eml      1  COMPLETED",
        "日本.eml                   12  FAILED",
    ]
    assert all(views.columns(line) <= 40 for line in lines)


def test_a_table_without_rows_is_its_head() -> None:
    """Nothing to show is shown as nothing."""
    assert views.table(("job", "state"), []) == ["job  state"]


@pytest.mark.parametrize(("width", "first"), [(80, "x" * 36), (40, "x" * 11 + "…" + "x" * 10), (20, "x" * 36)])
def test_the_widest_column_gives_way_where_that_helps(width: int, first: str) -> None:
    """In a narrow terminal a long id is shortened; where even that does not make the table fit, it stands whole."""
    line = views.table(["job", "state", "kind"], [["x" * 36, "QUEUED", "add"]], width=width)[1]
    assert line.split() == [first, "QUEUED", "add"]
