"""What `make docs` writes is what stands in the tree, and it shows every move of the table."""

from __future__ import annotations

import importlib.util
import re
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from types import ModuleType

import pytest

from perenne.core.states import TABLE, TRANSITIONS, JobState, Move, Spends

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "life-of-a-job.md"


def loaded(name: str) -> ModuleType:
    """A program of the docs folder, as a module; the package path does not name that folder."""
    specification = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert specification is not None
    assert specification.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


life_picture = loaded("life_picture")
command_pages = loaded("command_pages")
generate = loaded("generate")


@pytest.mark.parametrize("name", sorted(generate.pages()))
def test_generating_again_changes_nothing(name: str) -> None:
    """A generated page is what the generator writes now, so a page can never be older than the rules."""
    assert (DOCS / name).read_text(encoding="utf-8") == generate.pages()[name]


def test_a_page_of_other_rules_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """One changed word in the table changes the page, and the words written by hand stay."""
    changed = (TABLE[0]._replace(when="another rule"), *TABLE[1:])
    monkeypatch.setattr(generate, "TABLE", changed)
    written = generate.pages()["life-of-a-job.md"]
    before = PAGE.read_text(encoding="utf-8")
    assert written != before
    assert written.replace("another rule", TABLE[0].when) == before


def test_the_diagram_has_every_transition() -> None:
    """Read back from the page, the diagram in text is the whole set of transitions and nothing else."""
    lines = re.findall(r"^    (\S+) --> (\w+): (.+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    read = {(source, verb, target) for source, target, verbs in lines for verb in verbs.split(", ")}
    assert read == {(source or "[*]", verb, target) for source, verb, target in TRANSITIONS}


def test_the_picture_names_every_state_and_verb() -> None:
    """The picture shows each state once, and the verbs of the table and no other."""
    picture = ElementTree.fromstring((DOCS / "life-of-a-job.svg").read_text(encoding="utf-8"))
    texts = [(text.get("class"), text.text or "") for text in picture.findall(".//{*}text")]
    states = "".join(text for kind, text in texts if kind == "state")
    assert len(states) == len("".join(JobState))
    assert not [state for state in JobState if state not in states]
    assert {move.verb for move in TABLE} == {text.split()[0] for kind, text in texts if kind == "verb"}


def test_every_arrow_begins_and_ends_where_its_name_says() -> None:
    """An arrow starts on the border of what it leaves and ends on the border of what it reaches."""
    places = {str(state): box for state, box in life_picture.BOXES.items()}
    places |= {"+".join(sorted(group)): box for group, box in life_picture._frames().items()}
    places |= {"BLOCKED|QUEUED": life_picture.FORK, life_picture.BEGIN: life_picture.Box(206, 24, 218, 36)}
    for name, way in life_picture.WAYS.items():
        leaves, reaches = name.split(" → ")
        assert on_border(way.points[0], places[leaves]), name
        assert on_border(way.points[-1], places[reaches]), name
        assert all(a[0] == b[0] or a[1] == b[1] for a, b in zip(way.points, way.points[1:], strict=False)), name


def on_border(point: tuple[int, int], box: tuple[int, int, int, int]) -> bool:
    (x, y), (left, top, right, bottom) = point, box
    return (x in (left, right) and top <= y <= bottom) or (y in (top, bottom) and left <= x <= right)


def test_a_move_without_a_place_stops_the_generator(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new move that the picture cannot place is refused by name, instead of being left out."""
    added = Move((JobState.COMPLETED,), "forget", (JobState.DEAD,), "never", Spends.NONE)
    monkeypatch.setattr(life_picture, "TABLE", (*TABLE, added))
    with pytest.raises(SystemExit, match="COMPLETED → DEAD"):
        life_picture.draw()


def test_the_commands_of_an_application_stand_in_the_page() -> None:
    """Whoever looks for `perenne evidence …` finds each of its commands under its own heading."""
    headings = set(re.findall(r"^### evidence (\S+)$", generate.pages()["cli.md"], re.MULTILINE))
    assert headings >= {"mail", "submit", "run", "export", "status"}
