"""Dates of mails (RFC 5322 sections 3.3 and 4.3): an instant or none, and how its zone stands.

Nothing is rolled over, guessed or invented. Not here: which date is compared with which.
"""

from __future__ import annotations

import re
from datetime import datetime, timedelta

from perenne.apps.evidence.mail.charsets import text_of
from perenne.apps.evidence.mail.header_facts import Date, ZoneState
from perenne.apps.evidence.mail.tokens import without_comments

_MOST_CHARACTERS = 200
_DATE = re.compile(
    r"(?:[A-Za-z]+\.?,? ?)?(\d{1,2})[ -]([A-Za-z]{3,9})\.?[ -](\d{2,4}),? "
    r"(\d{1,2})[:.](\d{2})(?:[:.](\d{2})(?:\.\d+)?)?(?: ?([^ ]+))?(?: .*)?",
    re.ASCII,
)
_NUMERIC = re.compile(r"[+-][0-9]{4}")
_HALF_YEARS = (
    ("january", "february", "march", "april", "may", "june"),
    ("july", "august", "september", "october", "november", "december"),
)
_MONTHS = {
    name[:length]: number
    for number, name in enumerate((*_HALF_YEARS[0], *_HALF_YEARS[1]), 1)
    for length in range(3, len(name) + 1)
}
# Names that RFC 5322 section 4.3 defines; every other name means different zones in different places.
_ZONES = {"UT": 0, "GMT": 0, "UTC": 0, "Z": 0, "EST": -5, "EDT": -4, "CST": -6, "CDT": -5, "MST": -7, "MDT": -6}
_ZONES |= {"PST": -8, "PDT": -7}


def date_of(header: str, occurrence: int, raw: str, offset: int) -> Date:
    """The date that a raw text says.

    Args:
        offset: where `raw` lies.
    """
    local, zone, zone_text, minutes = _read(raw)
    instant = None
    if local is not None and minutes is not None:
        instant = _instant(local, minutes)
    shown = None if local is None else local.isoformat()
    return Date(header, occurrence, instant, shown, zone, zone_text, minutes, raw, offset, len(raw))


def seconds_between(earlier: str, later: str) -> int:
    """Seconds from one instant to another, negative when they stand in the other order."""
    return int((datetime.strptime(later, _FORM) - datetime.strptime(earlier, _FORM)).total_seconds())


_FORM = "%Y-%m-%dT%H:%M:%SZ"


def _read(raw: str) -> tuple[datetime | None, ZoneState, str, int | None]:
    if len(raw) > _MOST_CHARACTERS:
        return None, "malformed", "", None
    found = _DATE.fullmatch(" ".join(without_comments(text_of(raw)).split()))
    if found is None:
        return None, "malformed" if raw else "absent", "", None
    day, month, year, hour, minute, second, zone = found.groups()
    local = _local(_year(year), _MONTHS.get(month.lower()), day, hour, minute, second or "0")
    if zone is None:
        return local, "absent", "", None
    state, minutes = _zone(zone)
    return local, state, zone, minutes


def _year(text: str) -> int:
    """Two and three digits as RFC 5322 section 4.3 reads them."""
    number = int(text)
    if len(text) == 4:
        return number
    return number + (2000 if len(text) == 2 and number < 50 else 1900)


def _local(year: int, month: int | None, *rest: str) -> datetime | None:
    if month is None:
        return None
    day, hour, minute, second = (int(text) for text in rest)
    try:
        return datetime(year, month, day, hour, minute, second)
    except ValueError:
        return None


def _zone(text: str) -> tuple[ZoneState, int | None]:
    if text == "-0000":
        return "minus_zero", 0
    if _NUMERIC.fullmatch(text):
        hours, minutes = int(text[1:3]), int(text[3:])
        if hours > 23 or minutes > 59:
            return "malformed", None
        return "given", (hours * 60 + minutes) * (-1 if text[0] == "-" else 1)
    named = _ZONES.get(text.upper())
    return ("malformed", None) if named is None else ("given", named * 60)


def _instant(local: datetime, minutes: int) -> str | None:
    try:
        return (local - timedelta(minutes=minutes)).isoformat() + "Z"
    except OverflowError:
        return None
