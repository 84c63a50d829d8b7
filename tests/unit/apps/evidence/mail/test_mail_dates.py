"""Dates: an instant or none, never invented, never rolled over."""

from __future__ import annotations

import pytest

from perenne.apps.evidence.mail import dates


@pytest.mark.parametrize(
    ("raw", "instant", "zone"),
    [
        ("Tue, 04 Mar 2025 09:15:36 +0100", "2025-03-04T08:15:36Z", "given"),
        ("12 Feb 2009 08:00:05 GMT", "2009-02-12T08:00:05Z", "given"),
        ("Sat, 20 May 2000 01:55:02 -0000", "2000-05-20T01:55:02Z", "minus_zero"),
        ("Wed, 28 May 2014 17:18:19 +0900 (JST)", "2014-05-28T08:18:19Z", "given"),
        ("Tue,\r\n 4 Mar 2025 09:15 EST", "2025-03-04T14:15:00Z", "given"),
        ("21 Aug 95 13:30:57 +0000", "1995-08-21T13:30:57Z", "given"),
        ("1 January 01 00:00:00 Z", "2001-01-01T00:00:00Z", "given"),
        ("4 Mar 2025 09:15:36", None, "absent"),
        ("Mon, 21 Aug 95 13:30:57 -600", None, "malformed"),
        # A zone that means different things in different places gives no instant (stalwartlabs/mail-parser#89).
        ("4 Mar 2025 09:15:36 EST5EDT", None, "malformed"),
        ("4 Mar 2025 09:15:36 CET", None, "malformed"),
        ("4 Mar 2025 09:15:36 +9959", None, "malformed"),
        # Hour 28 is no hour (zbateson/mail-mime-parser#119).
        ("4 Mar 2025 28:15:36 +0000", None, "given"),
        ("31 Feb 2025 08:15:36 +0000", None, "given"),
        ("4 Mar 0000 08:15:36 +0000", None, "given"),
        # Out of range past the zone (python/cpython#153407).
        ("1 Jan 0001 00:00:00 +2300", None, "given"),
        ("31 Dec 9999 23:59:59 -2300", None, "given"),
        ("yesterday", None, "malformed"),
        ("", None, "absent"),
        ("1 Mar 2025 ٠٩:15:36 +0000".encode().decode("latin-1"), None, "malformed"),
        ("x" * 10_000, None, "malformed"),
    ],
)
def test_dates(raw: str, instant: str | None, zone: str) -> None:
    """The instant where one may be claimed, the state of the zone, and the raw text at its place."""
    found = dates.date_of("date", 1, raw, 7)
    assert (found.instant, found.zone) == (instant, zone)
    assert (found.raw, found.offset, found.length) == (raw, 7, len(raw))
