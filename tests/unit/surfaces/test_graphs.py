"""A graph and a timeline, as text and as drawings: within 80 columns, equal for equal ledgers, safe for any word."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest

from perenne.core.job import Outcome
from perenne.core.states import JobState
from perenne.store.graph import Edge, Graph, Node, Span, Timeline
from perenne.surfaces import graphs, pictures, svg, views

AT = 1_800_000_000_000_000
HOSTILE = "</text><script>alert('&')</script>\x00\x1b[31m\n\u202e"


def node(no: int, state: str = "QUEUED", kind: str = "survey.features", parent: int | None = None) -> Node:
    return Node(
        no=no,
        id=f"01998d3b-0000-7000-8000-{no:012x}",
        kind=kind,
        version=1,
        state=state,
        reason="submitted",
        parent=None if parent is None else f"01998d3b-0000-7000-8000-{parent:012x}",
        on_dependency="block",
        waits_for=0,
        submitted_at=AT + no,
        finished_at=None,
    )


def graph(nodes: list[Node], *edges: tuple[int, int], waived: tuple[int, int] | None = None) -> Graph:
    found = [Edge(job, needs, (job, needs) == waived) for job, needs in edges]
    return Graph(seen_at=AT, truncated=False, nodes=nodes, edges=found)


def timeline(nodes: list[Node], *spans: Span, seen_at: int = AT + 10_000_000) -> Timeline:
    return Timeline(seen_at=seen_at, truncated=False, nodes=nodes, attempts=list(spans))


def span(no: int, number: int, begun_s: float, ended_s: float | None, outcome: str | None = "completed") -> Span:
    ended_at = None if ended_s is None else AT + int(ended_s * 1e6)
    return Span(no, number, "owner", AT + int(begun_s * 1e6), ended_at, None if ended_s is None else outcome)


def test_each_job_stands_behind_what_it_waits_for() -> None:
    """Dots before a kind are the longest way from the beginning, over dependencies and parents alike."""
    found = graph([node(1), node(2, parent=1), node(3), node(4)], (3, 2), (4, 3), (4, 1))
    assert graphs.levels(found) == {1: 0, 2: 1, 3: 2, 4: 3}
    lines = graphs.graph_lines(found, 80)
    assert [line.split("survey")[0].split()[-1].count("·") for line in lines[1:]] == [0, 1, 2, 3]


def test_needs_are_told_in_ranges() -> None:
    """Neighbours are told as one range, and what a job goes on without has a star and a line that explains it."""
    nodes = [node(number) for number in range(1, 9)]
    found = graph(nodes, (8, 1), (8, 2), (8, 3), (8, 5), (8, 7), waived=(8, 5))
    lines = graphs.graph_lines(found, 80)
    assert lines[8].endswith("1-3, 5*, 7")
    assert lines[-1].startswith("* ")


@pytest.mark.parametrize("width", [80, 110, 200])
def test_no_line_is_wider_than_asked(width: int) -> None:
    """Whatever the kinds are called, and however many jobs one waits for."""
    nodes = [node(number, state="RECOVERY_REQUIRED", kind="k" * 30) for number in range(1, 60)]
    found = graph(nodes, *((59, needs) for needs in range(1, 59, 2)))
    told = timeline(nodes, *(span(number, 1, number, number + 0.5) for number in range(1, 60)))
    for lines in (graphs.graph_lines(found, width), graphs.timeline_lines(told, width)):
        for line in lines:
            for state in JobState:
                line = line.replace(views.painted(state), state)
            assert views.columns(line) <= width, line


def test_a_timeline_shows_waits_runs_and_what_runs_still() -> None:
    """Before its submit `·`, then `-` while it waits, `#` while it runs, `>` at the end of what still runs."""
    nodes = [node(1), node(2)]
    told = timeline(nodes, span(1, 1, 0, 4, "failed"), span(2, 1, 2, 8), span(1, 2, 8, None))
    lines = graphs.timeline_lines(told, 80)
    bars = [line.split()[-1] for line in lines[2:]]
    assert [bar.strip("#->·") for bar in bars] == ["", "", ""]
    assert bars[0][0] == "#"
    assert bars[1].startswith("-")
    assert bars[2].endswith(">")
    assert bars[2].index("-") == pytest.approx(len(bars[0]), abs=1)
    assert [line.split()[3] for line in lines[2:]] == ["failed", "completed", "runs"]


def test_nothing_is_told_in_words() -> None:
    """An empty workspace, and jobs that never ran, give a sentence and a whole drawing."""
    assert graphs.graph_lines(graph([]), 80) == ["no jobs"]
    assert graphs.timeline_lines(timeline([node(1)]), 80) == ["no attempts"]
    for drawing in (pictures.graph(graph([]), "empty"), pictures.timeline(timeline([]), "empty")):
        ElementTree.fromstring(drawing)


def test_every_word_of_a_drawing_is_only_a_word() -> None:
    """No kind, reason or title ends an element, brings one, or holds what XML cannot."""
    nodes = [node(1, kind=HOSTILE), node(2, kind=HOSTILE)]
    for drawing in (
        pictures.graph(graph(nodes, (2, 1)), HOSTILE),
        pictures.timeline(timeline(nodes, span(1, 1, 0, 1)), HOSTILE),
    ):
        root = ElementTree.fromstring(drawing)
        assert {element.tag.rpartition("}")[2] for element in root.iter()} <= {
            "svg",
            "g",
            "title",
            "rect",
            "path",
            "text",
        }
        assert "<script" not in drawing


def test_a_state_is_never_told_by_its_colour_alone() -> None:
    """Each state stands in its box as a word; good, bad, running, doubtful and waiting have outlines of their own."""
    states = [str(state) for state in JobState]
    drawing = pictures.graph(graph([node(number, state) for number, state in enumerate(states, 1)]), "states")
    words = {element.text for element in ElementTree.fromstring(drawing).iter() if element.tag.endswith("text")}
    assert set(states) <= words
    outlines = [look[2:] for look in (*pictures.LOOKS.values(), pictures.WAITING)]
    assert len(set(outlines)) == len(outlines)


def test_every_outcome_has_a_bar() -> None:
    """An attempt of any outcome, and one that runs, is drawn and named."""
    nodes = [node(1)]
    spans = [span(1, number, number, number + 1, str(one)) for number, one in enumerate(Outcome, 1)]
    drawing = pictures.timeline(timeline(nodes, *spans, span(1, 99, 20, None)), "all")
    words = " ".join(element.text or "" for element in ElementTree.fromstring(drawing).iter())
    assert all(str(one) in words for one in Outcome)
    assert "runs" in words


def test_equal_values_are_drawn_equal() -> None:
    """Nothing of a drawing comes from a clock, from luck or from the order of a set."""
    nodes = [node(number, parent=1 if number > 1 else None) for number in range(1, 20)]
    found = graph(nodes, *((number, number - 1) for number in range(3, 20)))
    assert pictures.graph(found, "one") == pictures.graph(found, "one")
    assert svg.element("rect", x=1.005, y=2.0, width=3) == '<rect x="1" y="2" width="3"/>'
