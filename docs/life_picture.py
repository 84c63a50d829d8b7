"""Draws the life of a job as SVG, 900 pixels wide: boxes are states, frames are states that share a verb.

What is drawn comes from `core.states.TABLE`; only the places of the boxes and the bends of the arrows stand here.
An arrow of the table without a way stops the generator, and so does a way without an arrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from perenne.core.states import FINAL, TABLE, JobState, Move, Spends

WIDTH, HEIGHT = 900, 660
MARKS = {Spends.NONE: "", Spends.COUNTED: " +1", Spends.YES: " ●", Spends.NO: " ○", Spends.EITHER: " ◐"}
BEGIN = "·"
PAD_X, PAD_Y, BEND = 14, 11, 9

Point = tuple[int, int]


class Box(NamedTuple):
    """A rectangle; pixels from the top left corner of the picture."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def middle(self) -> Point:
        return (self.left + self.right) // 2, (self.top + self.bottom) // 2


class Way(NamedTuple):
    """The corners of one arrow, and the middle of its label."""

    points: tuple[Point, ...]
    label: Point


S = JobState
BOXES = {
    S.BLOCKED: Box(72, 150, 164, 194),
    S.QUEUED: Box(260, 150, 352, 194),
    S.RETRY_WAIT: Box(388, 150, 480, 194),
    S.PAUSED: Box(590, 150, 682, 194),
    S.PAUSED_QUOTA: Box(722, 150, 814, 194),
    S.RECOVERY_REQUIRED: Box(44, 388, 156, 432),
    S.RUNNING: Box(216, 388, 828, 432),
    S.COMPLETED: Box(44, 508, 306, 552),
    S.FAILED: Box(362, 508, 492, 552),
    S.DEAD: Box(522, 508, 652, 552),
    S.CANCELLED: Box(682, 508, 812, 552),
}
FORK = Box(118, 92, 306, 97)

# Named by what an arrow leaves and reaches. Several states joined by + are a frame, by | a fork.
WAYS = {
    f"{BEGIN} → BLOCKED|QUEUED": Way(((212, 36), (212, 92)), (212, 62)),
    "PAUSED_QUOTA → BLOCKED|QUEUED": Way(((786, 150), (786, 74), (290, 74), (290, 92)), (592, 74)),
    "CANCELLED+DEAD+FAILED → BLOCKED|QUEUED": Way(((826, 540), (878, 540), (878, 48), (256, 48), (256, 92)), (592, 48)),
    "BLOCKED → QUEUED": Way(((164, 162), (260, 162)), (205, 162)),
    "QUEUED+RETRY_WAIT → BLOCKED": Way(((246, 184), (164, 184)), (210, 184)),
    "BLOCKED+QUEUED+RETRY_WAIT → PAUSED": Way(((508, 162), (590, 162)), (542, 162)),
    "PAUSED → BLOCKED+QUEUED+RETRY_WAIT": Way(((590, 184), (508, 184)), (554, 184)),
    "QUEUED+RETRY_WAIT → PAUSED_QUOTA": Way(((434, 139), (434, 100), (750, 100), (750, 150)), (592, 100)),
    "QUEUED+RETRY_WAIT → FAILED": Way(
        ((270, 205), (270, 248), (22, 248), (22, 580), (404, 580), (404, 552)), (176, 248)
    ),
    "BLOCKED → FAILED": Way(((72, 172), (22, 172), (22, 580), (404, 580), (404, 552)), (22, 212)),
    "QUEUED+RETRY_WAIT → RUNNING": Way(((406, 205), (406, 388)), (406, 276)),
    "RUNNING → BLOCKED": Way(((234, 388), (234, 276), (118, 276), (118, 194)), (176, 276)),
    "RUNNING → QUEUED": Way(((316, 388), (316, 194)), (316, 336)),
    "RUNNING → RETRY_WAIT": Way(((456, 388), (456, 194)), (456, 336)),
    "RUNNING → PAUSED": Way(((636, 388), (636, 194)), (636, 336)),
    "RUNNING → PAUSED_QUOTA": Way(((768, 388), (768, 194)), (768, 336)),
    "RUNNING → RECOVERY_REQUIRED": Way(((216, 418), (156, 418)), (187, 402)),
    "RUNNING → COMPLETED": Way(((262, 432), (262, 508)), (262, 478)),
    "RUNNING → FAILED": Way(((442, 432), (442, 508)), (442, 466)),
    "RUNNING → DEAD": Way(((587, 432), (587, 508)), (587, 466)),
    "RUNNING → CANCELLED": Way(((747, 432), (747, 508)), (747, 466)),
    "RECOVERY_REQUIRED → QUEUED": Way(((84, 388), (84, 306), (288, 306), (288, 194)), (140, 306)),
    "RECOVERY_REQUIRED → COMPLETED": Way(((84, 432), (84, 508)), (84, 480)),
    "RECOVERY_REQUIRED → FAILED": Way(((128, 432), (128, 452), (396, 452), (396, 508)), (196, 452)),
    "BLOCKED+PAUSED+PAUSED_QUOTA+QUEUED+RETRY_WAIT → CANCELLED": Way(
        ((828, 172), (854, 172), (854, 522), (812, 522)), (854, 260)
    ),
}

INK, PAPER = "#26323f", "#ffffff"
COLOURS = {
    S.RUNNING: ("#0f766e", "#ccfbf1"),
    S.COMPLETED: ("#15803d", "#dcfce7"),
    S.RECOVERY_REQUIRED: ("#b45309", "#fef3c7"),
    S.FAILED: ("#b91c1c", "#fee2e2"),
    S.DEAD: ("#57534e", "#e7e5e4"),
    S.CANCELLED: ("#64748b", "#f1f5f9"),
}
WAITING_COLOUR = ("#1d4ed8", "#e0ecff")

STYLE = """
text { font: 12px -apple-system, "Segoe UI", "Liberation Sans", Helvetica, Arial, sans-serif; fill: #26323f }
.state { font-weight: 600; text-anchor: middle }
.verb { text-anchor: middle; paint-order: stroke; stroke: #ffffff; stroke-width: 6px; stroke-linejoin: round }
.note { fill: #5b6875; font-size: 11.5px }
.arrow { fill: none; stroke: #5b6875; stroke-width: 1.5; marker-end: url(#head) }
.frame { fill: #1d4ed8; fill-opacity: 0.035; stroke: #93a5bd; stroke-dasharray: 5 4 }
.title { font-size: 15px; font-weight: 600 }
"""


def draw() -> str:
    """The whole picture."""
    arrows = _arrows()
    _refuse_unplaced(set(arrows))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
        'role="img" aria-labelledby="title">',
        '<title id="title">The life of a job: eleven states and the verbs that move a job between them</title>',
        f"<style>{STYLE}</style>",
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">'
        '<path d="M0 0.8 L9.4 5 L0 9.2 z" fill="#5b6875"/></marker></defs>',
        f'<rect width="{WIDTH}" height="{HEIGHT}" rx="10" fill="{PAPER}"/>',
        *(_frame(box) for box in _frames().values()),
        *(_line(WAYS[name].points) for name in arrows),
        *_fork(),
        *(_state(state, box) for state, box in BOXES.items()),
        *(_label(WAYS[name].label, verbs) for name, verbs in arrows.items()),
        *_legend(),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _arrows() -> dict[str, list[str]]:
    """The verbs on each arrow, by the name of the arrow; one arrow for all moves between the same two ends."""
    arrows: dict[str, list[str]] = {}
    for move in TABLE:
        for target in _ends(move):
            verbs = arrows.setdefault(f"{_start(move)} → {target}", [])
            verbs.append(f"{move.verb}{MARKS[move.spends]}")
    return arrows


def _start(move: Move) -> str:
    return "+".join(sorted(state or BEGIN for state in move.sources))


def _ends(move: Move) -> list[str]:
    """What the arrows of a move reach: a frame, the fork, or each target."""
    targets = frozenset(move.targets)
    if targets in _groups():
        return ["+".join(sorted(targets))]
    return ["BLOCKED|QUEUED"] if targets == {S.BLOCKED, S.QUEUED} else [str(target) for target in move.targets]


def _groups() -> list[frozenset[JobState]]:
    """States that leave by one row of the table, smallest group first."""
    groups = {frozenset(state for state in move.sources if state) for move in TABLE}
    return sorted((group for group in groups if len(group) > 1), key=lambda group: (len(group), sorted(group)))


def _frames() -> dict[frozenset[JobState], Box]:
    """A frame around each group, and around the frames of the groups within it; the widest first."""
    frames: dict[frozenset[JobState], Box] = {}
    for group in _groups():
        inside = [BOXES[state] for state in group] + [box for other, box in frames.items() if other < group]
        lefts, tops, rights, bottoms = zip(*inside, strict=True)
        frames[group] = Box(min(lefts) - PAD_X, min(tops) - PAD_Y, max(rights) + PAD_X, max(bottoms) + PAD_Y)
    return dict(reversed(frames.items()))


def _refuse_unplaced(arrows: set[str]) -> None:
    wrong = sorted(arrows ^ set(WAYS)) + sorted(set(JobState) ^ set(BOXES))
    if wrong:
        raise SystemExit(f"docs/life_picture.py: its places and the table of moves differ in: {'; '.join(wrong)}")


def _frame(box: Box) -> str:
    return f'<rect class="frame" {_rectangle(box)} rx="12"/>'


def _rectangle(box: Box) -> str:
    return f'x="{box.left}" y="{box.top}" width="{box.right - box.left}" height="{box.bottom - box.top}"'


def _state(state: JobState, box: Box) -> str:
    stroke, fill = COLOURS.get(state, WAITING_COLOUR)
    x, y = box.middle
    lines = state.replace("_", "_ ").split() if box.right - box.left < 120 else [str(state)]
    shape = f'<rect {_rectangle(box)} rx="8" fill="{fill}" stroke="{stroke}" stroke-width="1.6"/>'
    if state in FINAL:
        inner = Box(box.left + 4, box.top + 4, box.right - 4, box.bottom - 4)
        shape += f'<rect {_rectangle(inner)} rx="5" fill="none" stroke="{stroke}"/>'
    return shape + "".join(_centred("state", x, line_y, line) for line_y, line in _lines(y, lines))


def _label(middle: Point, verbs: list[str]) -> str:
    return "".join(_centred("verb", middle[0], y, verb) for y, verb in _lines(middle[1], verbs))


def _lines(middle: int, texts: list[str]) -> Iterator[tuple[float, str]]:
    """Each line of a text with its baseline, so that the whole stands around the middle."""
    first = middle + 4.5 - 7.5 * (len(texts) - 1)
    return ((first + 15 * number, text) for number, text in enumerate(texts))


def _centred(kind: str, x: int, y: float, text: str) -> str:
    return f'<text class="{kind}" x="{x}" y="{y:g}">{escape(text)}</text>'


def _line(points: tuple[Point, ...]) -> str:
    """A line with rounded corners and a head."""
    (x, y), *rest = points
    path = f"M{x} {y}"
    for before, corner, after in zip(points, points[1:], points[2:], strict=False):
        (enter_x, enter_y), (leave_x, leave_y) = _towards(corner, before), _towards(corner, after)
        path += f" L{enter_x} {enter_y} Q{corner[0]} {corner[1]} {leave_x} {leave_y}"
    return f'<path class="arrow" d="{path} L{rest[-1][0]} {rest[-1][1]}"/>'


def _towards(corner: Point, other: Point) -> Point:
    """The point a bend's length from a corner on the way to another one."""
    across, down = other[0] - corner[0], other[1] - corner[1]
    step = min(BEND, (abs(across) + abs(down)) // 2)
    return corner[0] + step * _sign(across), corner[1] + step * _sign(down)


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _fork() -> Iterator[str]:
    """The beginning, and the bar from which a job goes to one of two states."""
    yield f'<circle cx="212" cy="30" r="7" fill="{INK}"/>'
    yield f'<rect {_rectangle(FORK)} rx="2" fill="{INK}"/>'
    for state in (S.BLOCKED, S.QUEUED):
        x, _ = BOXES[state].middle
        yield _line(((x, FORK.bottom), (x, BOXES[state].top)))


def _legend() -> Iterator[str]:
    yield '<text class="title" x="24" y="36">The life of a job</text>'
    gap = "\N{EM SPACE}"
    notes = (
        f"Dashed frame: an arrow leaves each state inside, or reaches one of them.{gap}"
        f"Bar: BLOCKED while a dependency is not COMPLETED, else QUEUED.",
        f"+1: an attempt begins and is counted.{gap}An attempt that ends: ● stays counted, ○ is given back, "
        f"◐ one or the other, as the table says.{gap}Double border: final.",
    )
    for number, note in enumerate(notes):
        yield f'<text class="note" x="24" y="{618 + 20 * number}">{note}</text>'
