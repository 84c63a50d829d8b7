"""The words, the rounding and the layout that people see, the same on every surface.

Plain functions from values to text. Not here: where the values come from, and where the text is printed.
"""

from __future__ import annotations

import textwrap
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

WIDTH = 80
GAP = "  "
_NARROWEST = 8  # of a column that gives way

# In the order of a job's life; what a person should make of each.
STATES = {
    "QUEUED": "waits for a worker",
    "RUNNING": "is being worked on",
    "RETRY_WAIT": "waits for its next attempt",
    "PAUSED": "was paused by a person",
    "PAUSED_QUOTA": "waits for its budget",
    "BLOCKED": "waits for something that is missing",
    "RECOVERY_REQUIRED": "needs a person to look",
    "COMPLETED": "is done",
    "FAILED": "failed",
    "CANCELLED": "was cancelled by a person",
    "DEAD": "was given up",
}

# Of the eight colours of every terminal: blue and white text is hard to read on some.
_COLOURS = {
    "RUNNING": "36",
    "COMPLETED": "32",
    "FAILED": "31",
    "DEAD": "31",
    "RECOVERY_REQUIRED": "35",
    "BLOCKED": "33",
    "RETRY_WAIT": "33",
    "PAUSED": "33",
    "PAUSED_QUOTA": "33",
    "ok": "32",
    "look": "33",
    "BAD": "31",
}


def one_line(text: str) -> str:
    """The text on one line, with every character that a terminal might obey or cannot show spelled out."""
    joined = " ".join(text.split())
    shown = (letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in joined)
    return "".join(shown).encode("utf-8", "backslashreplace").decode()


def count(number: int, noun: str, plural: str | None = None) -> str:
    """`1 job`, `2 jobs`."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def states(counts: Mapping[Any, int]) -> str:
    """`6 COMPLETED · 1 QUEUED`, in the order of a job's life; `none` when nothing is counted."""
    spoken = [f"{counts[state]:,} {state}" for state in STATES if counts.get(state)]
    return " · ".join(spoken) or "none"


def instant(at_us: int) -> str:
    """UTC microseconds as `2026-09-26 21:00:00 UTC`."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def duration(seconds: float) -> str:
    """`12 ms`, `4.2 s`, `3 min 05 s`, `2 h 07 min`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 59.95:
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest_s:02} s"
    return f"{minutes // 60} h {minutes % 60:02} min"


def age(seconds: float) -> str:
    """`12 s`, `3 min`, `2 h`, `5 d`: how long ago, short; nothing is in the future."""
    for unit, size_s in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size_s:
            return f"{int(seconds // size_s)} {unit}"
    return f"{max(int(seconds), 0)} s"


def pairs(facts: Sequence[tuple[str, str]], width: int = WIDTH) -> list[str]:
    """Names and values below one another; a value that is wider than the line goes on below itself."""
    room = max(max(columns(name) for name, _ in facts), 1)
    lines: list[str] = []
    for name, value in facts:
        first, *rest = folded(one_line(value), width - room - 2 * len(GAP))
        lines += [f"{GAP}{name:<{room}}{GAP}{first}", *(f"{GAP}{'':<{room}}{GAP}{line}" for line in rest)]
    return lines


def folded(text: str, width: int) -> list[str]:
    """The text in lines of at most so many columns, broken at a blank where there is one."""
    return textwrap.wrap(text, max(width, 20), break_on_hyphens=False) or [""]


def size(size_bytes: int) -> str:
    """`512 B`, `4.2 KiB`, `1.0 MiB`."""
    if size_bytes < 1024:
        return f"{size_bytes} B"
    amount = float(size_bytes)
    for unit in ("KiB", "MiB", "GiB"):
        amount /= 1024
        if amount < 1023.95 or unit == "GiB":
            break
    return f"{amount:,.1f} {unit}"


def progress(done: int, total: int) -> str:
    """`[ 3/12]`, as wide from the first line to the last."""
    return f"[{done:>{len(str(total))}}/{total}]"


def bar(done: int, total: int, width: int) -> str:
    """`[#####.....]  500/1,000`, at most `width` columns; without a known total only the number."""
    if total <= 0:
        return f"{done:,}"
    told = f"{done:>{len(f'{total:,}')},}/{total:,}"
    room = max(min(width - len(told) - 4, 40), 0)
    filled = room * min(done, total) // total
    return f"[{'#' * filled}{'.' * (room - filled)}]  {told}" if room else told


def painted(cell: str) -> str:
    """A state, or a cell that holds one, in its colour; the word itself says the same without."""
    colour = _COLOURS.get(cell.strip())
    return cell if colour is None else f"\x1b[{colour}m{cell}\x1b[0m"


def shorten(text: str, width: int) -> str:
    """The text, its middle left out when it is wider: both the beginning and the extension of a name tell."""
    if columns(text) <= width:
        return text
    kept = width - 1
    head, tail = text[: kept - kept // 2], text[len(text) - kept // 2 :]
    while columns(head) + 1 + columns(tail) > width:
        head, tail = (head[:-1], tail) if columns(head) >= columns(tail) else (head, tail[1:])
    return f"{head}…{tail}"


def columns(text: str) -> int:
    """How many columns of a terminal the text takes."""
    wide = sum(unicodedata.east_asian_width(letter) in "WF" for letter in text)
    return len(text) + wide - sum(bool(unicodedata.combining(letter)) for letter in text)


def table(
    head: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    width: int = WIDTH,
    flexible: int = -1,
    paint: Callable[[str], str] = str,
) -> list[str]:
    """Lines of a table; numbers stand right.

    Args: flexible: the column that gives way when the table would be wider than `width`; after it the widest one.
        paint: colours a whole cell.
    """
    shown = [[one_line(cell) for cell in row] for row in rows]
    widths = [max(columns(row[place]) for row in (list(head), *shown)) for place in range(len(head))]
    others = sum(widths) - widths[flexible] + len(GAP) * (len(head) - 1)
    widths[flexible] = max(min(widths[flexible], width - others), columns(head[flexible]), _NARROWEST)
    widths = _narrowed(widths, width - len(GAP) * (len(head) - 1))
    right = [bool(shown) and all(_is_number(row[place]) for row in shown) for place in range(len(head))]
    layouts = list(zip(widths, right, strict=True))
    lines = [[_cell(cell, *layout) for cell, layout in zip(row, layouts, strict=True)] for row in (list(head), *shown)]
    return [GAP.join(lines[0]).rstrip(), *(GAP.join(map(paint, line)).rstrip() for line in lines[1:])]


def _narrowed(widths: list[int], room: int) -> list[int]:
    """The widest column gives way too, where the table fits then; where it does not, nothing is gained by cutting."""
    widest = widths.index(max(widths))
    left = room - sum(widths) + widths[widest]
    if _NARROWEST <= left < widths[widest]:
        return [*widths[:widest], left, *widths[widest + 1 :]]
    return widths


def _cell(text: str, width: int, right: bool) -> str:
    text = shorten(text, width)
    blanks = " " * (width - columns(text))
    return blanks + text if right else text + blanks


def _is_number(text: str) -> bool:
    return text.replace(",", "").isdecimal() or text == ""
