"""From bytes to text: which charset a label means, and what is read when it is wrong or absent.

Here: a table of charsets that decode in linear time. Not here: transfer codings, encoded words.
"""

from __future__ import annotations

import msgspec

# A label outside this table is unknown: Python would also take codecs that are no charsets, or take quadratic time.
_NAMES = {
    "ascii": "us-ascii ascii ansi-x3.4-1968 ansi-x3.4-1986 iso646-us iso-ir-6 646 us 7bit",
    "utf-8": "utf-8 utf8 uft-8 utf-8-sig unicode-1-1-utf-8 x-unicode-2-0-utf-8 cp65001",
    "utf-7": "utf-7 utf7 unicode-1-1-utf-7 x-unicode-2-0-utf-7",
    "utf-16": "utf-16 utf16 ucs-2 iso-10646-ucs-2 unicode",
    "utf-16-le": "utf-16le utf16le utf-16-le",
    "utf-16-be": "utf-16be utf16be utf-16-be",
    "utf-32": "utf-32 utf32 ucs-4",
    "utf-32-le": "utf-32le utf-32-le",
    "utf-32-be": "utf-32be utf-32-be",
    "cp1252": "iso-8859-1 iso8859-1 iso-latin-1 latin-1 latin1 l1 8859-1 iso-ir-100 x-ansi ansi",
    "iso8859-2": "iso-8859-2 iso8859-2 latin2 latin-2 l2",
    "iso8859-3": "iso-8859-3 iso8859-3 latin3",
    "iso8859-4": "iso-8859-4 iso8859-4 latin4",
    "iso8859-5": "iso-8859-5 iso8859-5 cyrillic",
    "iso8859-6": "iso-8859-6 iso8859-6 iso-8859-6-i iso-8859-6-e arabic",
    "iso8859-7": "iso-8859-7 iso8859-7 greek",
    "iso8859-8": "iso-8859-8 iso8859-8 iso-8859-8-i iso-8859-8-e hebrew",
    "iso8859-9": "iso-8859-9 iso8859-9 latin5",
    "iso8859-10": "iso-8859-10 iso8859-10 latin6",
    "iso8859-11": "iso-8859-11 iso8859-11",
    "iso8859-13": "iso-8859-13 iso8859-13",
    "iso8859-14": "iso-8859-14 iso8859-14 latin8",
    "iso8859-15": "iso-8859-15 iso8859-15 latin9 latin-9",
    "iso8859-16": "iso-8859-16 iso8859-16 latin10",
    "koi8-r": "koi8-r koi8r koi8",
    "koi8-u": "koi8-u koi8u",
    "gb18030": "gb18030 gbk gb2312 gb-2312 gb-2312-80 x-gbk cp936 windows-936 euc-cn csgb2312 chinese",
    "hz": "hz-gb-2312 hz hzgb",
    "big5": "big5 big-5 cn-big5 x-big5 csbig5",
    "big5hkscs": "big5-hkscs big5hkscs",
    "cp950": "cp950 windows-950",
    "cp932": "shift-jis shiftjis sjis x-sjis ms-kanji cp932 windows-31j ms932 windows-932",
    "euc_jp": "euc-jp eucjp x-euc-jp ujis",
    "iso2022_jp_ext": "iso-2022-jp iso2022-jp iso-2022-jp-1 iso-2022-jp-ext csiso2022jp",
    "iso2022_jp_2": "iso-2022-jp-2",
    "cp949": "euc-kr euckr ks-c-5601-1987 ks-c-5601-1989 ksc5601 ks-c-5601 ksc-5601 cp949 windows-949 korean uhc",
    "iso2022_kr": "iso-2022-kr iso2022-kr",
    "johab": "johab",
    "cp874": "tis-620 tis620 windows-874 cp874",
    "mac-roman": "macintosh mac-roman x-mac-roman",
    "mac-cyrillic": "x-mac-cyrillic mac-cyrillic",
    "mac-greek": "x-mac-greek mac-greek",
    "mac-latin2": "x-mac-ce mac-ce x-mac-centraleurroman",
    "mac-turkish": "x-mac-turkish",
    **{f"cp{page}": f"ibm{page} ibm-{page}" for page in (437, 850, 852, 855, 857, 858, 860, 861, 862, 865, 866)},
}
_CODECS = {codec: codec for codec in _NAMES if codec.startswith("cp")}
_CODECS |= {label: codec for codec, labels in _NAMES.items() for label in labels.split()}
_CODECS |= {f"{word}{page}": f"cp{page}" for page in range(1250, 1259) for word in ("windows-", "cp", "cp-", "win-")}
_FIXED = frozenset({"ascii", "utf-8", "utf-7"})  # what does not fit these was written in another charset
_MARKS = str.maketrans({0: "␀"})


def _windows_1252() -> dict[int, str]:
    """What Windows-1252 shows for the bytes 80 to 9F; the five that it leaves open stay control characters."""
    shown = {byte: bytes([byte]).decode("cp1252", "ignore") for byte in range(0x80, 0xA0)}
    return {byte: character for byte, character in shown.items() if character}


_SHOWN_1252 = _windows_1252()


class Decoded(msgspec.Struct, frozen=True, gc=False):
    """A text and the codec that gave it. `known`: its label is one. `fits`: it could decode all the bytes."""

    text: str
    codec: str
    known: bool = True
    fits: bool = True


def codec_of(label: str) -> str | None:
    """The codec that a charset label means, None when it is unknown; `GB2312` means GB 18030."""
    found = _CODECS.get(label)
    if found is not None:
        return found
    return _CODECS.get(label.strip(" \t\r\n\"'").lower().replace("_", "-").removeprefix("x-unknown-"))


def decoded(data: bytes, label: str) -> Decoded:
    """A text for these bytes in any case; with no label: UTF-8 when they are valid UTF-8, else Windows-1252."""
    codec = codec_of(label) if label else "utf-8"
    if codec is None:
        return _guessed(data, known=False, fits=True)
    try:
        return Decoded(_shown(_strictly(data, codec)), codec)
    except UnicodeError:
        return _misfit(data, codec, labelled=bool(label))


def text_of(raw: str) -> str:
    """The text of header bytes given as one character a byte: UTF-8 when valid, else Windows-1252; NUL is shown."""
    if raw.isascii():
        return _shown(raw)
    return _guessed(raw.encode("latin-1"), known=True, fits=True).text


def _strictly(data: bytes, codec: str) -> str:
    text = data.decode(codec)
    if codec == "utf-7":
        text.encode("utf-8")  # Python decodes half characters from it, which are no text
    return text


def _misfit(data: bytes, codec: str, *, labelled: bool) -> Decoded:
    if codec == "cp1252":
        return Decoded(_shown(_as_windows_1252(data)), codec)
    if codec.startswith(("utf-16", "utf-32")):
        return Decoded(_shown(data.decode(codec, "replace")), codec, fits=False)
    guess = _guessed(data, known=True, fits=not labelled)
    if codec in _FIXED or codec.startswith("iso2022") or guess.codec == "utf-8":
        return guess
    return Decoded(_shown(data.decode(codec, "replace")), codec, fits=False)


def _guessed(data: bytes, *, known: bool, fits: bool) -> Decoded:
    try:
        return Decoded(_shown(data.decode("utf-8")), "utf-8", known, fits)
    except UnicodeDecodeError:
        return Decoded(_shown(_as_windows_1252(data)), "cp1252", known, fits)


def _as_windows_1252(data: bytes) -> str:
    try:
        return data.decode("cp1252")
    except UnicodeDecodeError:
        return data.decode("latin-1").translate(_SHOWN_1252)


def _shown(text: str) -> str:
    """NUL as a visible mark: many tools cut a text there."""
    return text.translate(_MARKS) if "\0" in text else text
