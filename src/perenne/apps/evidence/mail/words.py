"""Encoded words of header texts (RFC 2047), and the white space around them.

Here: from the raw text of a value, one character a byte, to the text a person reads. Not here: which header it is.
"""

from __future__ import annotations

import re

from perenne.apps.evidence.mail.charsets import codec_of, decoded, text_of
from perenne.apps.evidence.mail.defects import DefectKind
from perenne.apps.evidence.mail.transfer import base64_bytes, q_bytes

_WORD = re.compile(r"=\?([^?\s]{1,80})\?([BbQq])\?([^?]*)\?=")
_BLANKS = re.compile(r"[ \t\r\n]+")
BLANKS = " \t\r\n"

Flags = set[DefectKind]


def decode(raw: str, flags: Flags) -> str:
    """The text of a value: words decoded, white space runs one space; what was odd is added to `flags`.

    White space between two words is no text; words of one charset side by side are joined as bytes before decoding,
    because writers cut within a character.
    """
    return _BLANKS.sub(" ", decode_exactly(raw, flags)).strip(" ")


def decode_exactly(raw: str, flags: Flags) -> str:
    """As `decode`, but white space outside of words stays as it stands; folds are taken away."""
    if "=?" not in raw:
        return text_of(unfolded(raw))
    texts: list[str] = []
    held: list[bytes] = []
    label, last = "", 0
    for word in _WORD.finditer(raw):
        between = raw[last : word.start()]
        found, coding, content = word.groups()
        found = found.partition("*")[0]  # RFC 2231 section 5: a language may follow
        if last and not between.strip(BLANKS):
            if codec_of(found) != codec_of(label):
                texts.append(_text(held, label, flags))
                held = []
        else:
            texts += [_text(held, label, flags), text_of(unfolded(between))]
            held = []
            if between and between[-1] not in BLANKS and between[-1] not in '("':
                flags.add("encoded_word_glued")
        label, last = found, word.end()
        held.append(_bytes(coding, content, flags))
    rest = raw[last:]
    if "=?" in rest or (not last and "=?" in raw):
        flags.add("encoded_word_malformed")
    return "".join((*texts, _text(held, label, flags), text_of(unfolded(rest))))


def unfolded(raw: str) -> str:
    """The value on one line (RFC 5322 section 2.2.3)."""
    if "\n" not in raw and "\r" not in raw:
        return raw
    return raw.replace("\r", "").replace("\n", "")


def _bytes(coding: str, content: str, flags: Flags) -> bytes:
    raw = content.encode("latin-1")
    return q_bytes(raw) if coding in "Qq" else base64_bytes(raw, flags)


def _text(held: list[bytes], label: str, flags: Flags) -> str:
    if not held:
        return ""
    found = decoded(b"".join(held), label)
    if not (found.known and found.fits):
        flags.add("encoded_word_charset")
    return found.text
