"""The addresses of a field (RFC 5322 section 3.4), as writers really write them.

Here: from a field to mailboxes, each with its place; groups flattened. Not here: whether an address exists.
"""

from __future__ import annotations

from perenne.apps.evidence.mail.charsets import text_of
from perenne.apps.evidence.mail.header_facts import Field, Mailbox
from perenne.apps.evidence.mail.notes import Notes
from perenne.apps.evidence.mail.tokens import Token, tokens_of, unquoted
from perenne.apps.evidence.mail.words import Flags, decode

_SEPARATORS = frozenset(",;")


def mailboxes_of(field: Field, most: int, notes: Notes) -> list[Mailbox]:
    """The mailboxes of a field in their order, at most `most`; an empty item between two commas is skipped.

    An address that is only a comment or a phrase has an empty address; one without a name an empty name.
    """
    reading = _Reading(field, most, notes)
    for token in tokens_of(field.raw):
        reading.take(token)
        if reading.full:
            return reading.found
    reading.close()
    return reading.found


class _Reading:
    """One field as it is read: what stands before, within and after the angle brackets of the present item."""

    def __init__(self, field: Field, most: int, notes: Notes) -> None:
        self.found: list[Mailbox] = []
        self.full = False
        self._field, self._most, self._notes = field, most, notes
        self._group = ""
        self._clear()

    def _clear(self) -> None:
        self._phrase: list[Token] = []
        self._angle: list[Token] | None = None
        self._closed = False
        self._comments: list[Token] = []
        self._all: list[Token] = []

    def take(self, token: Token) -> None:
        """Add a token to the present item, or end it."""
        if token.kind == "blank":
            return
        if token.kind != "special":
            self._add(token)
        elif token.text == "<":
            self._open(token)
        elif token.text == ">":
            self._closed = self._angle is not None
            self._all.append(token)
        elif token.text == ":":
            self._colon(token)
        elif token.text == "," and self._in_route():
            self._add(token)
        else:
            self.close()
            if token.text == ";":
                self._group = ""

    def close(self) -> None:
        """End the present item."""
        if not self._all:
            self._clear()
            return
        if len(self.found) >= self._most:
            self.full = True
            self._notes.hit("addresses", self._field.part)
            return
        self.found.append(self._mailbox())
        self._clear()

    def _add(self, token: Token) -> None:
        self._all.append(token)
        if token.kind == "comment":
            self._comments.append(token)
        elif self._angle is not None and not self._closed:
            self._angle.append(token)
        else:
            self._phrase.append(token)

    def _open(self, token: Token) -> None:
        self._all.append(token)
        if self._angle is not None and not self._closed:
            self._angle = []  # `<<a@b.example>>`
            return
        if self._angle is None:
            self._angle = []
        self._closed = self._closed and bool(self._angle)

    def _colon(self, token: Token) -> None:
        if self._angle is not None:
            self._add(token)
        elif self._phrase and not any("@" in one.text for one in self._phrase):
            self._group = self._name(self._phrase, set())
            self._clear()
        else:
            self._add(token)

    def _in_route(self) -> bool:
        """Whether a comma belongs to a source route `<@a.example,@b.example:c@d.example>` (RFC 5322 section 4.4)."""
        return bool(self._angle) and not self._closed and self._angle is not None and self._angle[0].text[0] == "@"

    def _mailbox(self) -> Mailbox:
        field, raw = self._field, self._field.raw
        start, end = self._all[0].start, self._all[-1].end
        phrase, address = self._parts()
        flags: Flags = set()
        name = self._name(phrase, flags)
        if not name and self._comments:
            name = decode(" ".join(unquoted(one.text) for one in self._comments), flags)
        self._note(address, start, end - start)
        domain = address.rpartition("@")[2].lower() if "@" in address else ""
        return Mailbox(
            field.name,
            field.occurrence,
            len(self.found) + 1,
            name,
            address,
            domain,
            self._group,
            raw[start:end],
            field.value_offset + start,
            end - start,
        )

    def _parts(self) -> tuple[list[Token], str]:
        """The tokens of the name, and the address."""
        if self._angle is not None:
            return self._phrase, text_of(_joined(_after_route(self._angle)))
        with_at = [index for index, token in enumerate(self._phrase) if "@" in token.text and token.kind != "quoted"]
        if not with_at:
            return ([], text_of(self._phrase[0].text)) if len(self._phrase) == 1 else (self._phrase, "")
        first = last = with_at[0]
        while first and self._touches(first - 1):
            first -= 1
        while last + 1 < len(self._phrase) and self._touches(last):
            last += 1
        address = text_of(_joined(self._phrase[first : last + 1]))
        return self._phrase[:first] + self._phrase[last + 1 :], address

    def _touches(self, index: int) -> bool:
        """Whether this token and the next are one address: side by side, or joined by `@` or a dot."""
        left, right = self._phrase[index], self._phrase[index + 1]
        return left.end == right.start or left.text[-1] in "@." or right.text[0] in "@."

    def _name(self, phrase: list[Token], flags: Flags) -> str:
        texts = [unquoted(token.text) if token.kind == "quoted" else token.text for token in phrase]
        return decode(" ".join(texts), flags)

    def _note(self, address: str, start: int, length: int) -> None:
        place = (self._field.part, self._field.value_offset + start, length)
        if self._angle is not None and not self._closed:
            self._notes.defect("address_unclosed", *place)
        if not address:
            self._notes.defect("address_empty", *place)
        elif "@" not in address:
            self._notes.defect("address_without_domain", *place)


def _after_route(tokens: list[Token]) -> list[Token]:
    """The address behind a source route."""
    if tokens and tokens[0].text[0] == "@":
        colons = [index for index, token in enumerate(tokens) if token.text == ":"]
        return tokens[colons[-1] + 1 :] if colons else tokens
    return tokens


def _joined(tokens: list[Token]) -> str:
    return "".join(token.text for token in tokens)
