"""A graph and a timeline as drawings. Each state has a word and an outline of its own; colour only repeats them.

What does not live here: how SVG is written (`svg`), and text for terminals (`graphs`).
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

from perenne.surfaces import graphs, svg, views

BOX_W, BOX_H, GAP_X, GAP_Y, MARGIN = 190, 42, 70, 14, 24
LINE_H, BAR_W, LABEL_W = 22, 620, 330
INK, SOFT = "#1f2328", "#59636e"

# fill, outline, width of the outline, its dashes
LOOKS = {
    "COMPLETED": ("#dafbe1", "#1a7f37", 1.5, ""),
    "FAILED": ("#ffebe9", "#cf222e", 3.0, ""),
    "DEAD": ("#ffebe9", "#82071e", 3.0, "9 3"),
    "CANCELLED": ("#eaeef2", "#59636e", 3.0, "3 3"),
    "RUNNING": ("#ddf4ff", "#0969da", 3.0, "14 3"),
    "RECOVERY_REQUIRED": ("#fbefff", "#8250df", 3.0, "1 4"),
}
WAITING = ("#fff8c5", "#9a6700", 1.5, "6 4")
OUTCOMES = {"completed": "COMPLETED", "failed": "FAILED", "cancelled": "CANCELLED", "interrupted": "DEAD"}


def graph(found: Any, title: str) -> str:
    """The graph from left to right: whoever waits stands to the right of what it waits for."""
    columns = defaultdict(list)
    for node, level in zip(found.nodes, graphs.levels(found).values(), strict=True):
        columns[level].append(node)
    places = {
        node.no: (MARGIN + level * (BOX_W + GAP_X), MARGIN + 30 + row * (BOX_H + GAP_Y))
        for level, nodes in columns.items()
        for row, node in enumerate(nodes)
    }
    width = max(2 * MARGIN + len(columns) * (BOX_W + GAP_X) - GAP_X, 560)
    height = MARGIN + 80 + max((len(nodes) for nodes in columns.values()), default=0) * (BOX_H + GAP_Y)
    numbers = {node.id: node.no for node in found.nodes}
    lines = [_line(places[edge.needs], places[edge.job], edge.waived) for edge in found.edges]
    wait = {edge.job for edge in found.edges}
    lines += [
        _submitted(places[numbers[node.parent]], places[node.no])
        for node in found.nodes
        if node.parent in numbers and node.no not in wait  # the others hang on these, and lines would cover the picture
    ]
    legend = "line: waits for | dashes: went on without it | dots: submitted by its parent"
    more = [svg.text(MARGIN, height - 30, graphs.MORE, fill=INK)] if found.truncated else []
    return svg.document(
        width,
        height,
        title,
        [
            svg.text(MARGIN, MARGIN + 10, title, fill=INK, font_weight="bold"),
            *lines,
            *(_box(node, *places[node.no]) for node in found.nodes),
            *more,
            svg.text(MARGIN, height - 12, legend, fill=SOFT),
        ],
    )


def _box(node: Any, x: int, y: int) -> str:
    fill, stroke, width, dashes = LOOKS.get(node.state, WAITING)
    room = int((BOX_W - 16) / svg.LETTER)
    outline = _outline(stroke, width, dashes)
    return svg.titled(
        f"{node.id} {node.kind}@{node.version} {node.state}: {node.reason}",
        svg.element("rect", x=x, y=y, width=BOX_W, height=BOX_H, rx=6, fill=fill, **outline),
        svg.text(x + 8, y + 17, views.shorten(f"{node.no} {views.one_line(node.kind)}", room), fill=INK),
        svg.text(x + 8, y + 34, views.shorten(node.state, room), fill=INK, font_weight="bold"),
    )


def _line(start: tuple[int, int], end: tuple[int, int], waived: bool) -> str:
    (x1, y1), (x2, y2) = (start[0] + BOX_W, start[1] + BOX_H // 2), (end[0], end[1] + BOX_H // 2)
    bend = max((x2 - x1) // 2, 24)
    way = f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2 - 6} {y2}"
    head = f"M{x2 - 7} {y2 - 4}L{x2} {y2}L{x2 - 7} {y2 + 4}Z"
    dashes = {"stroke_dasharray": "6 4"} if waived else {}
    curve = svg.element("path", d=way, fill="none", stroke=SOFT, stroke_width=1.25, **dashes)
    return curve + svg.element("path", d=head, fill=SOFT)


def _submitted(parent: tuple[int, int], child: tuple[int, int]) -> str:
    (x1, y1), (x2, y2) = (parent[0] + BOX_W // 2, parent[1] + BOX_H), (child[0], child[1] + 8)
    if y2 < y1:
        x1, y1 = parent[0] + BOX_W, parent[1] + 8
    bend = max((x2 - x1) // 2, 24)
    way = f"M{x1} {y1}C{x1 + bend} {y1} {x2 - bend} {y2} {x2} {y2}"
    return svg.element("path", d=way, fill="none", stroke=SOFT, stroke_width=1.25, stroke_dasharray="1.5 4")


def timeline(found: Any, title: str) -> str:
    """One line an attempt: a thin line while its job waited for it, a bar while it ran."""
    width = 2 * MARGIN + LABEL_W + BAR_W
    height = 2 * MARGIN + 62 + LINE_H * len(found.attempts)
    inside = [svg.text(MARGIN, MARGIN + 10, title, fill=INK, font_weight="bold")]
    if found.attempts:
        start, end = graphs.extent(found)
        whole = f"{views.instant(start)} … {views.instant(end)}, {views.duration((end - start) / 1e6)}"
        inside += [svg.text(MARGIN, MARGIN + 30, whole, fill=SOFT), *_spans(found, start, end)]
    note = graphs.MORE if found.truncated else "line: waited | bar: ran | a bar that is open to the right: runs still"
    inside.append(svg.text(MARGIN, height - 14, note, fill=SOFT))
    return svg.document(width, height, title, inside)


def _spans(found: Any, start: int, end: int) -> list[str]:
    nodes, since = {node.no: node for node in found.nodes}, graphs.waited_since(found)

    def at(instant: int) -> float:
        return MARGIN + LABEL_W + BAR_W * (instant - start) / (end - start)

    drawn = []
    for row, span in enumerate(found.attempts):
        y, node = MARGIN + 46 + LINE_H * row, nodes[span.no]
        outcome = span.outcome or "runs"
        label = f"{span.no} {views.shorten(views.one_line(node.kind), 20)} #{span.number}"
        took = views.duration(((span.ended_at or end) - span.claimed_at) / 1e6)
        x1, x2 = at(span.claimed_at), max(at(span.ended_at or end), at(span.claimed_at) + 3)
        wait = svg.element("path", d=f"M{at(since[span.no, span.number]):.1f} {y + 8}L{x1:.1f} {y + 8}", stroke=SOFT)
        drawn.append(
            svg.titled(
                f"{node.id} {node.kind}@{node.version}, attempt {span.number}: {outcome}, {took}",
                svg.text(MARGIN, y + 12, label, fill=INK),
                svg.text(MARGIN + LABEL_W - 12, y + 12, f"{outcome} {took}", fill=INK, text_anchor="end"),
                wait,
                _ran(span.outcome, x1, x2, y),
            )
        )
    return drawn


def _ran(outcome: str | None, x1: float, x2: float, y: int) -> str:
    if outcome is None:
        fill, stroke, width, _ = LOOKS["RUNNING"]
        way = f"M{x2:.1f} {y}L{x1:.1f} {y}L{x1:.1f} {y + 16}L{x2:.1f} {y + 16}"
        return svg.element("path", d=way, fill=fill, stroke=stroke, stroke_width=width)
    fill, stroke, width, dashes = LOOKS.get(OUTCOMES.get(outcome, ""), WAITING)
    outline = _outline(stroke, width, dashes)
    return svg.element("rect", x=x1, y=y, width=x2 - x1, height=16, fill=fill, **outline)


def _outline(stroke: str, width: float, dashes: str) -> dict[str, svg.Value]:
    whole: dict[str, svg.Value] = {"stroke": stroke, "stroke_width": width}
    return whole | ({"stroke_dasharray": dashes} if dashes else {})
