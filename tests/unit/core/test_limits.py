"""The one way to cut a text, to measure a value and to rank a job."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from perenne.core import limits
from perenne.errors import InvalidInput, TooLarge

# Lone surrogates too: argv and file names bring them.
ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=80)


@given(ANY_TEXT, st.integers(0, 100))
@example("é" * 80, 7)
@example("\U0001f600" * 20, 3)
@example("\udcff\x00", 2)
def test_a_clip_is_clean_and_bounded(text: str, limit_bytes: int) -> None:
    """Any text becomes UTF-8 of at most so many bytes, without control characters or half characters; never raises."""
    clipped = limits.clip(text, limit_bytes)
    assert len(clipped.encode("utf-8")) <= limit_bytes
    assert all(c.isprintable() or c in "\n\t" for c in clipped)


@given(st.text(st.characters(categories=["L", "N", "P", "S"], include_characters=" \n\t"), max_size=60))
def test_a_clean_text_that_fits_is_unchanged(text: str) -> None:
    """Letters, digits, signs, spaces and line breaks are kept as they are."""
    assert limits.clip(text, 4 * 60) == text


@given(st.text(st.characters(categories=["L", "S"]), max_size=60), st.integers(0, 240))
def test_a_cut_loses_less_than_one_character(text: str, limit_bytes: int) -> None:
    """A clean text is cut at the last whole character that fits, and never earlier."""
    clipped = limits.clip(text, limit_bytes)
    assert text.startswith(clipped)
    if clipped != text:
        assert len((clipped + text[len(clipped)]).encode()) > limit_bytes


@given(ANY_TEXT)
def test_a_clip_is_stable(text: str) -> None:
    """Clipping twice is clipping once."""
    assert limits.clip(limits.clip(text)) == limits.clip(text)


def test_the_default_clip_is_two_kibibytes() -> None:
    """E-F4: diagnostics are kept up to 2 KiB."""
    assert len(limits.clip("é" * 4000).encode()) == 2048


def test_what_is_too_large_is_named() -> None:
    """The bound itself fits; one byte more is refused with field, size, limit and next step."""
    limits.check_size("result", 10, 10, "store it")
    with pytest.raises(TooLarge, match=r"result: 11 bytes, the limit is 10; store it") as refused:
        limits.check_size("result", 11, 10, "store it")
    assert (refused.value.field, refused.value.value, refused.value.limit) == ("result", 11, 10)


@pytest.mark.parametrize("value", ["", " \n", "a\0b", "\udcff", None, 7, b"bytes"])
def test_what_is_no_visible_text_is_refused(value: str) -> None:
    """A name or key is visible text that UTF-8 can hold; the error names the field."""
    with pytest.raises(InvalidInput, match="key: ") as refused:
        limits.check_text("key", value, 10)
    assert refused.value.field == "key"


def test_a_text_is_measured_in_bytes() -> None:
    """Five two-byte letters fit in 10 bytes; six do not."""
    limits.check_text("key", "é" * 5, 10)
    with pytest.raises(TooLarge, match="12 bytes, the limit is 10"):
        limits.check_text("key", "é" * 6, 10)


def test_priority_overtakes_a_minute_and_no_longer() -> None:
    """E-Q4: one step of priority is worth a minute of waiting, so that nothing starves."""
    minute = 60_000_000
    assert limits.rank(minute - 1, 0) < limits.rank(2 * minute, 1) == limits.rank(minute, 0)
