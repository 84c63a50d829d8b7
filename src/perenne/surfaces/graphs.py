"""A graph and a timeline as lines of text: one line a job, one line an attempt.

What does not live here: where they come from (`store.graph`), and drawings (`pictures`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from perenne.surfaces import views

WIDE = 110  # columns from which a table says more
ID_COLUMNS = 13
BAR_COLUMNS = 12
KIND_COLUMNS, WIDE_KIND_COLUMNS = 22, 30
MORE = "more jobs hang together with these; say --limit"


def levels(graph: Any) -> dict[int, int]:
    """How far each job stands from those that wait for nobody and that nobody submitted: the longest way."""
    before = defaultdict(list)
    for edge in graph.edges:
        before[edge.job].append(edge.needs)
    numbers = {node.id: node.no for node in graph.nodes}
    found: dict[int, int] = {}
    for node in graph.nodes:  # in the order of submission: whatever comes before is there already
        above = [*before[node.no], *([numbers[node.parent]] if node.parent in numbers else [])]
        found[node.no] = 1 + max((found.get(one, -1) for one in above), default=-1)
    return found


def needs(graph: Any) -> dict[int, str]:
    """Whom each job waits for, as `1, 4-7, 9*`; with a star what it goes on without."""
    plain: dict[int, list[int]] = defaultdict(list)
    waived: dict[int, list[int]] = defaultdict(list)
    for edge in graph.edges:
        (waived if edge.waived else plain)[edge.job].append(edge.needs)
    said = {}
    for node in graph.nodes:
        parts = [(first, _range(first, last, "")) for first, last in _ranges(plain[node.no])]
        parts += [(first, _range(first, last, "*")) for first, last in _ranges(waived[node.no])]
        said[node.no] = ", ".join(part for _, part in sorted(parts))
    return said


def _ranges(numbers: Sequence[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for number in sorted(numbers):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def _range(first: int, last: int, mark: str) -> str:
    return f"{first}{mark}" if first == last else f"{first}-{last}{mark}"


def graph_lines(graph: Any, width: int) -> list[str]:
    """One line a job; dots before its kind say how far it stands from the beginning."""
    room = KIND_COLUMNS if width < WIDE else WIDE_KIND_COLUMNS
    far, said, numbers = levels(graph), needs(graph), {node.id: node.no for node in graph.nodes}
    rows = [
        [
            str(node.no),
            _id(node.id, width),
            node.state,
            views.shorten("·" * min(far[node.no], 6) + views.one_line(node.kind), room),
            _of(node.parent, numbers),
            said[node.no],
        ]
        for node in graph.nodes
    ]
    if not rows:
        return ["no jobs"]
    head = ["no", "job", "state", "kind", "of", "waits for"]
    star = ["* it goes on without that one's completion"] if any(edge.waived for edge in graph.edges) else []
    return [*views.table(head, rows, width=width, paint=views.painted), *star, *([MORE] if graph.truncated else [])]


def _id(id: str, width: int) -> str:
    return id if width >= WIDE else views.shorten(id, ID_COLUMNS)


def _of(parent: str | None, numbers: dict[str, int]) -> str:
    if parent is None:
        return ""
    return str(numbers[parent]) if parent in numbers else "gone"


def timeline_lines(timeline: Any, width: int) -> list[str]:
    """One line an attempt: `-` while its job waited for it, `#` while it ran, `>` when it runs still."""
    nodes = {node.no: node for node in timeline.nodes}
    if not timeline.attempts:
        return ["no attempts", *([MORE] if timeline.truncated else [])]
    start, end = extent(timeline)
    waits = waited_since(timeline)
    rows = []
    for span in timeline.attempts:
        took_s = ((span.ended_at or end) - span.claimed_at) / 1e6
        outcome = span.outcome or "runs"
        rows.append(
            [str(span.no), views.one_line(nodes[span.no].kind), str(span.number), outcome, views.duration(took_s)]
        )
    head = ["no", "kind", "try", "outcome", "took"]
    room = max(width - sum(max(len(row[n]) for row in [head, *rows]) + 2 for n in (0, 2, 3, 4)) - 18, BAR_COLUMNS)
    for span, row in zip(timeline.attempts, rows, strict=True):
        row[1] = views.shorten(row[1], 16)
        row.append(_bar(waits[span.no, span.number], span.claimed_at, span.ended_at, (start, end), room))
    whole = f"{views.instant(start)} … {views.instant(end)}, {views.duration((end - start) / 1e6)}"
    return [whole, *views.table([*head, "when"], rows, width=width), *([MORE] if timeline.truncated else [])]


def extent(timeline: Any) -> tuple[int, int]:
    """From the first thing that happened to the last thing that is known to have happened; at least a microsecond."""
    start = min(*(node.submitted_at for node in timeline.nodes), *(span.claimed_at for span in timeline.attempts))
    last = max(span.ended_at or span.claimed_at for span in timeline.attempts)
    runs = any(span.ended_at is None for span in timeline.attempts)
    return start, max(last, timeline.seen_at if runs else last, start + 1)


def waited_since(timeline: Any) -> dict[tuple[int, int], int]:
    """Since when each attempt was waited for: the submit, or the end of the attempt before."""
    since = {node.no: node.submitted_at for node in timeline.nodes}
    found = {}
    for span in timeline.attempts:
        found[span.no, span.number] = min(since[span.no], span.claimed_at)
        since[span.no] = span.ended_at or span.claimed_at
    return found


def _bar(since: int, claimed: int, ended: int | None, whole: tuple[int, int], room: int) -> str:
    """A line of columns; what took place fills at least one."""
    start, end = whole

    def column(at: int) -> int:
        return max(0, min((at - start) * room // (end - start), room - 1))

    first, last = column(claimed), max(column(end if ended is None else ended), column(claimed))
    waits = column(since)
    ran = "#" * (last - first) + ("#" if ended is not None else ">")
    return "·" * waits + "-" * (first - waits) + ran
