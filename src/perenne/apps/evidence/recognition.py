"""Which kind of original some bytes are: PNG and JPEG by their signature, mail by its grammar and its name.

Nothing here opens a file.
"""

from __future__ import annotations

import re

import msgspec

from perenne.apps.evidence import places


class Format(msgspec.Struct, frozen=True):
    """A kind of original: its evidence type (L:2.22), media type, file extension and folder."""

    type: str
    mime_type: str
    extension: str
    folder: str


MAIL = Format("email", "message/rfc822", ".eml", places.MAIL_ORIGINALS)
PNG = Format("photo", "image/png", ".png", places.IMAGE_ORIGINALS)
JPEG = Format("photo", "image/jpeg", ".jpg", places.IMAGE_ORIGINALS)

_PNG_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_JPEG_SIGNATURE = b"\xff\xd8\xff"
# A field name of RFC 5322, section 3.6.8 (obsolete blanks before the colon included), after an optional mbox line.
_HEADER = re.compile(rb"(?:\xef\xbb\xbf)?(?:>?From [^\r\n]{0,998}\r?\n)?[!-9;-~]{1,998}[ \t]*:")


def recognise(name: str, content: bytes) -> Format | None:
    """The format of `content`; a mail is one only under a name that ends in `.eml`."""
    if content.startswith(_PNG_SIGNATURE):
        return PNG
    if content.startswith(_JPEG_SIGNATURE):
        return JPEG
    if name.lower().endswith(MAIL.extension) and _HEADER.match(content):
        return MAIL
    return None
