"""Encoded words (RFC 2047) as writers really write them."""

from __future__ import annotations

import pytest

from perenne.apps.evidence.mail import words
from perenne.apps.evidence.mail.words import Flags


@pytest.mark.parametrize(
    ("raw", "text", "flags"),
    [
        ("plain  text", "plain text", set()),
        ("=?utf-8?Q?caf=C3=A9_noir?=", "café noir", set()),
        ("=?UTF-8?b?w6k=?= =?utf-8?b?w6k=?=", "éé", set()),
        # A character split across two words: joined as bytes first (zammad/zammad#2953).
        ("=?utf-8?B?UsM=?=\r\n =?utf-8?B?qXU=?=", "Réu", set()),
        # A gateway writes its mark without a space (stalwartlabs/mail-parser#29).
        ("[SPAM]=?utf-8?B?w6k=?=", "[SPAM]é", {"encoded_word_glued"}),
        ("=?iso-8859-1?q?a?= b =?koi8-r?b?wQ==?=", "a b а", set()),
        ("=?us-ascii*en?q?hi?=", "hi", set()),
        # Raw 8-bit beside a word: UTF-8 when valid, else Windows-1252 (python/cpython#143712).
        ("Ã©t\u00c3\u00a9 =?utf-8?q?x?=", "été x", set()),
        ("Ver\xe3o", "Verão", set()),
        ("=?nonsense?q?=C3=A9?=", "é", {"encoded_word_charset"}),
        ("=?utf-8?q?=FF=FE?=", "ÿþ", {"encoded_word_charset"}),
        ("=?utf-8?b?broken", "=?utf-8?b?broken", {"encoded_word_malformed"}),
        ("=?utf-8?b?w6kx?x", "=?utf-8?b?w6kx?x", {"encoded_word_malformed"}),
        ("=?utf-8?b?w6k?=", "é", {"base64_incomplete"}),
    ],
)
def test_words_are_decoded(raw: str, text: str, flags: Flags) -> None:
    """The text a person reads comes out, and what was odd is flagged."""
    found: Flags = set()
    assert words.decode(raw, found) == text
    assert found == flags


def test_white_space_outside_of_words_can_stay() -> None:
    """For names of files runs of blanks are kept, and only folds go."""
    assert words.decode_exactly("a  b\r\n c", set()) == "a  b c"
