"""Texts, addresses, dates and file names as a header may say them, each beside what it means.

Here: one function a thing, bytes with `\\n` before a folded line. Not here: messages (`generated_mails`).
"""

from __future__ import annotations

import binascii
import random
from datetime import UTC, datetime, timedelta

LATIN = ("Été", "français", "Zoë", "über", "niño", "façade", "garçon")
CHARSETS = (
    ("utf-8", (*LATIN, "Ελλάς", "日本語", "𝄞", "привет")),
    ("iso-8859-1", LATIN),
    ("windows-1252", (*LATIN, "œuvre", "€uro", "“guillemets”")),
    ("koi8-r", ("привет", "мир", "документ")),
    ("shift_jis", ("日本語", "添付", "会議")),
)
ASCII = ("Invoice", "report", "of", "May", "no.", "12", "final!", "x-ray")
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
ZONES = {b"GMT": 0, b"UT": 0, b"EST": -300, b"PDT": -420, b"-0000": 0, b"Z": 0}


def subject(luck: random.Random) -> tuple[str, bytes]:
    """A subject: plain and folded, encoded, both, or raw UTF-8."""
    plain = luck.choices(ASCII, k=luck.randint(1, 5))
    charset, words = luck.choice(CHARSETS)
    rich = " ".join(luck.choices(words, k=luck.randint(1, 8)))
    way = luck.randrange(4)
    if way == 0:
        return " ".join(plain), luck.choice((b" ", b"\n ", b"\n\t")).join(word.encode() for word in plain)
    if way == 1:
        return rich, encoded(luck, rich, charset)
    if way == 2:
        return f"{' '.join(plain)} {rich} end", " ".join(plain).encode() + b"\n " + encoded(
            luck, rich, charset
        ) + b" end"
    return rich, rich.encode()


def encoded(luck: random.Random, text: str, charset: str) -> bytes:
    """Encoded words of one charset (RFC 2047); the bytes of a character may be split among two of them."""
    content, words = text.encode(charset), []
    while content:
        size = luck.randint(6, 40)
        piece, content = content[:size], content[size:]
        if luck.random() < 0.5:
            said = b"B?" + binascii.b2a_base64(piece, newline=False)
        else:
            said = b"q?" + b"".join(
                bytes((one,)) if chr(one).isascii() and chr(one).isalnum() else b"=%02X" % one for one in piece
            )
        words.append(b"=?" + luck.choice((charset, charset.upper())).encode() + b"?" + said + b"?=")
    return b"\n ".join(words)


def addresses(luck: random.Random, count: int) -> tuple[list[tuple[str, str]], bytes]:
    """So many addresses: (name, address) and the field; some stand in a group."""
    made = [_address(luck) for _ in range(count)]
    said = luck.choice((b", ", b",\n ", b" ,")).join(one for _, one in made)
    if luck.random() < 0.15:
        said = b"The team: " + said + b";"
    return [fact for fact, _ in made], said


def _address(luck: random.Random) -> tuple[tuple[str, str], bytes]:
    local = luck.choice(("ann", "bob.lee", "c+tag", "d_e-f", '"two words"', '"a@b"'))
    address = f"{local}@{luck.choice(('one.example', 'mail.two.example', 'x-3.example'))}"
    way = luck.randrange(5)
    if way == 0:
        return ("", address), luck.choice((b"%s", b"<%s>")) % address.encode()
    if way == 1:
        return ("Ann Lee", address), b"Ann Lee <%s>" % address.encode()
    if way == 2:
        name = luck.choice(("Lee, Ann", 'the "boss"', "back\\slash", "semi; colon: x"))
        said = name.replace("\\", "\\\\").replace('"', '\\"')
        return (name, address), f'"{said}" <{address}>'.encode()
    charset, words = luck.choice(CHARSETS)
    name = " ".join(luck.choices(words, k=2))
    return (name, address), encoded(luck, name, charset) + b" <%s>" % address.encode()


def date(luck: random.Random) -> tuple[bytes, str | None]:
    """A date and its instant in UTC, or None where none may be claimed."""
    moment = datetime(1990, 1, 1, tzinfo=UTC) + timedelta(seconds=luck.randrange(1_400_000_000))
    text = f"{moment.day} {MONTHS[moment.month - 1]} {moment.year} {moment:%H:%M:%S}"
    if luck.random() < 0.6:
        text = f"{DAYS[moment.weekday()]}, {text}"
    way = luck.randrange(8)
    if way == 0:
        return text.encode(), None
    if way == 1:
        return text.encode() + luck.choice((b" XYZ", b" EST5EDT")), None
    if way == 2:
        impossible = text.replace(f"{moment:%H:%M:%S}", luck.choice(("28:00:00", "10:61:00")))
        return impossible.encode() + b" +0100", None
    if way == 3:
        zone = luck.choice(tuple(ZONES))
        return text.encode() + b" " + zone, _utc(moment, ZONES[zone])
    minutes = luck.choice((0, 60, -330, 345, 840, -720))
    zone_text = f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}{abs(minutes) % 60:02}"
    return text.encode() + f" {zone_text}".encode() + luck.choice((b"", b" (CET)")), _utc(moment, minutes)


def _utc(local: datetime, minutes: int) -> str:
    return f"{local - timedelta(minutes=minutes):%Y-%m-%dT%H:%M:%SZ}"


def file_name(luck: random.Random) -> tuple[str | None, bytes]:
    """A file name and the parameters that say it (RFC 2183, RFC 2231, and RFC 2047 as many write it)."""
    charset, words = luck.choice(CHARSETS[:4])
    rich, way = " ".join(luck.choices(words, k=3)) + ".pdf", luck.randrange(6)
    if way == 0:
        return None, b""
    if way == 1:
        return "plan.pdf", luck.choice((b"; filename=plan.pdf", b';\n filename="plan.pdf"'))
    if way == 2:
        return '../a "b"; c.pdf', b'; filename="../a \\"b\\"; c.pdf"'
    if way == 3:
        return rich, b"; filename*=" + charset.encode() + b"''" + _percent(rich.encode(charset))
    if way == 4:
        return rich, b';\n filename="' + encoded(luck, rich, charset) + b'"'
    content = rich.encode(charset)
    cut = luck.randint(1, len(content) - 5)
    sections = [b"filename*0*=" + charset.encode() + b"''" + _percent(content[:cut])]
    sections += [b"filename*1*=" + _percent(content[cut:-4]), b'filename*2=".pdf"']
    luck.shuffle(sections)
    return rich, b"".join(b";\n " + one for one in sections)


def _percent(content: bytes) -> bytes:
    return b"".join(b"%%%02X" % one for one in content)
