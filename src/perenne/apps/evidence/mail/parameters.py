"""Values with parameters: Content-Type and Content-Disposition (RFC 2045 section 5, RFC 2231).

Here: from a field to its value and parameters, each with its place. Not here: which part the field describes.
"""

from __future__ import annotations

import re

import msgspec

from perenne.apps.evidence.mail.charsets import decoded, text_of
from perenne.apps.evidence.mail.defects import DefectKind
from perenne.apps.evidence.mail.flowed import Flow, flow_of
from perenne.apps.evidence.mail.header_facts import Field
from perenne.apps.evidence.mail.part_facts import FileName
from perenne.apps.evidence.mail.transfer import percent_bytes
from perenne.apps.evidence.mail.words import BLANKS, decode_exactly, unfolded

_VALUE = re.compile(r"[^;\s]*")
_SEPARATORS = re.compile(r"[;\s]*")
_NAME = re.compile(r"([^\s=;\"(),<>]+)[ \t\r\n]*=[ \t\r\n]*")
_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"?', re.DOTALL)
_NEXT = re.compile(r"(?<![ \t\r\n])[ \t\r\n]+[A-Za-z*0-9-]+=")
_SKIP = re.compile(r"[^;]+")
_NAMES_OF_FILES = ("filename", "name")


class Parameter(msgspec.Struct, frozen=True, gc=False):
    """A parameter as it stands: `value` without its quotes, at `start` to before `end` of the field's raw text."""

    name: str
    value: str
    start: int
    end: int
    quoted: bool


class Section(msgspec.Struct, frozen=True, gc=False):
    """A numbered section of a parameter (RFC 2231 section 3); `starred` values are percent-encoded."""

    number: int
    starred: bool
    parameter: Parameter


class MediaType(msgspec.Struct, frozen=True, gc=False):
    """A Content-Type: type and subtype in lower case, "" when it is none; boundary one character a byte."""

    type: str
    boundary: str
    charset: str
    flow: Flow


NO_TYPE = MediaType("", "", "", "no")


def value_of(field: Field) -> str:
    """What stands before the parameters, in lower case."""
    found = _VALUE.match(field.raw)
    return text_of(found.group()).lower() if found else ""


def parameters_of(field: Field, most: int = 1_000) -> tuple[list[Parameter], bool]:
    """The parameters in their order, and whether there are more than `most`; what is none is skipped."""
    raw, found = field.raw, list[Parameter]()
    at = _end(_SEPARATORS, raw, _end(_VALUE, raw, 0))
    while at < len(raw):
        name = _NAME.match(raw, at)
        if name is None:
            at = _end(_SEPARATORS, raw, _end(_SKIP, raw, at))
            continue
        if len(found) == most:
            return found, True
        parameter = _parameter(raw, name.group(1).lower(), name.end())
        found.append(parameter)
        at = _end(_SEPARATORS, raw, parameter.end + parameter.quoted)
    return found, False


def media_type(field: Field) -> MediaType:
    """The Content-Type of a field."""
    kind = value_of(field)
    main, slash, sub = kind.partition("/")
    simple = {one.name: one for one in reversed(parameters_of(field)[0])}
    boundary, charset, form, delsp = (_plain(simple, name) for name in ("boundary", "charset", "format", "delsp"))
    valid = bool(main and slash and sub)
    return MediaType(kind if valid else "", boundary, text_of(charset), flow_of(form, delsp))


def file_name(field: Field, name: str, flags: set[DefectKind], most: int) -> tuple[FileName | None, bool]:
    """The file name that a parameter gives, and whether there are more parameters than `most`.

    The starred form wins over the plain one.
    """
    parameters, cut = parameters_of(field, most)
    sections = _sections(parameters, name)
    if sections:
        return _joined(field, name, sections, flags), cut
    plain = [one for one in parameters if one.name == name]
    if len(plain) > 1:
        flags.add("parameter_repeated")
    return (_simple(field, plain[0], flags) if plain else None), cut


def _simple(field: Field, one: Parameter, flags: set[DefectKind]) -> FileName:
    value = decode_exactly(_unescaped(one), flags)
    place = (field.value_offset + one.start, one.end - one.start)
    return FileName(value, one.name, field.raw[one.start : one.end], *place)


def _parameter(raw: str, name: str, at: int) -> Parameter:
    quoted = _QUOTED.match(raw, at)
    if quoted is not None:
        closed = quoted.group().endswith('"') and len(quoted.group()) > 1 and quoted.end() > quoted.end(1)
        return Parameter(name, quoted.group(1), quoted.start(1), quoted.end(1), closed)
    semicolon = raw.find(";", at)
    end = len(raw) if semicolon < 0 else semicolon
    other = _NEXT.search(raw, at, end)
    end = other.start() if other else end
    value = raw[at:end].rstrip(BLANKS)
    if not name.startswith(_NAMES_OF_FILES):
        value = value.split(None, 1)[0] if value else value
    return Parameter(name, value, at, at + len(value), False)


def _end(pattern: re.Pattern[str], raw: str, at: int) -> int:
    found = pattern.match(raw, at)
    return at if found is None else found.end()


def _plain(simple: dict[str, Parameter], name: str) -> str:
    found = simple.get(name)
    if found is not None:
        return _unescaped(found)
    starred = simple.get(f"{name}*")
    return "" if starred is None else starred.value.rpartition("'")[2]


def _unescaped(parameter: Parameter) -> str:
    r"""The value without folds; of the backslashes only those before `"` and `\` go: names of files hold others."""
    value = unfolded(parameter.value)
    if "\\" not in value:
        return value
    return re.sub(r'\\(["\\])', r"\1", value)


def _sections(parameters: list[Parameter], name: str) -> list[Section]:
    found = []
    for one in parameters:
        if one.name.startswith(name + "*"):
            section = _section(one, one.name[len(name) + 1 :])
            if section is not None:
                found.append(section)
    return sorted(found, key=lambda section: section.number)


def _section(parameter: Parameter, rest: str) -> Section | None:
    """`filename*` alone is section 0 with a star; `filename*1*` is section 1 with one."""
    if not rest:
        return Section(0, True, parameter)
    number = rest.removesuffix("*")
    if not (number.isascii() and number.isdigit()) or len(number) > 9:
        return None
    return Section(int(number), rest.endswith("*"), parameter)


def _joined(field: Field, name: str, sections: list[Section], flags: set[DefectKind]) -> FileName:
    numbers = [section.number for section in sections]
    if len(set(numbers)) != len(numbers):
        flags.add("parameter_repeated")
    if numbers[0] != 0 or numbers[-1] >= len(numbers):
        flags.add("parameter_section_missing")
    first = min(section.parameter.start for section in sections)
    last = max(section.parameter.end for section in sections)
    label, pieces, seen = "", list[bytes](), set[int]()
    for section in sections:
        if section.number in seen:
            continue
        value = _unescaped(section.parameter)
        if section.starred and not seen:
            label, value = _without_charset(value)
        seen.add(section.number)
        pieces.append(percent_bytes(value.encode("latin-1")) if section.starred else value.encode("latin-1"))
    value = _text(b"".join(pieces), label, sections, flags)
    return FileName(value, f"{name}*", field.raw[first:last], field.value_offset + first, last - first)


def _text(data: bytes, label: str, sections: list[Section], flags: set[DefectKind]) -> str:
    if not any(section.starred for section in sections):
        return decode_exactly(data.decode("latin-1"), flags)
    found = decoded(data, label)
    if not found.known:
        flags.add("charset_unknown")
    if not found.fits:
        flags.add("charset_invalid_bytes")
    return found.text


def _without_charset(value: str) -> tuple[str, str]:
    """The charset and the rest of `charset'language'rest`; a value without the two quotes has no charset."""
    label, quote, rest = value.partition("'")
    _, second, data = rest.partition("'")
    return (label, data) if quote and second else ("", value)
