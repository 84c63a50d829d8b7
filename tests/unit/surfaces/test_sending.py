"""`perenne submit` and what it reads: each input is taken whole, or refused in one sentence."""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from perenne.surfaces.cli import inputs
from perenne.surfaces.cli.main import main

PROGRAM = """
from perenne import App

app = App("desk")

@app.task()
def add(a: int, b: int = 0) -> int:
    return a + b

@app.task()
def keep(text: str) -> None:
    pass
"""
MOST = inputs.INPUT_BYTES


class Desk:
    """The command line in this process, in a folder with an application and its workspace."""

    def __init__(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        self._capsys, self._monkeypatch = capsys, monkeypatch

    def __call__(self, *words: str, code: int = 0, input: bytes | None = b"") -> str:
        """What the command says: on the standard output when it is done, else the one line of its refusal."""
        stream = None if input is None else io.TextIOWrapper(io.BytesIO(input))
        self._monkeypatch.setattr(sys, "stdin", stream)
        assert main(words) == code
        out, err = self._capsys.readouterr()
        if code == 0:
            return out
        assert out == ""
        assert err.count("\n") == 1
        assert err.startswith("perenne: ")
        return err.removeprefix("perenne: ").rstrip("\n")

    def jobs(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = json.loads(self("ps", "--json"))["jobs"]
        return found


@pytest.fixture
def desk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Callable[..., Any]]:
    (tmp_path / "desk_app.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delenv("PERENNE_WORKSPACE", raising=False)
    made = Desk(capsys, monkeypatch)
    made("init", "desk_app:app")
    yield made
    del sys.modules["desk_app"]


def padded(size_bytes: int) -> bytes:
    """An input of this size that fits a kind: most of it is white space."""
    return b'{"a": 1' + b" " * (size_bytes - 8) + b"}"


def test_the_standard_input_is_read_to_its_bound_and_refused_beyond(desk: Desk) -> None:
    """An input of 1 MiB is taken; a byte more is refused with the limit, and never cut."""
    desk("submit", "desk_app:app", "add", "-", input=padded(MOST))
    refused = desk("submit", "desk_app:app", "add", "-", input=padded(MOST + 1), code=2)
    assert refused == (
        "input: the standard input: more than 1048576 bytes, which is the limit; submit a reference to the data instead"
    )
    assert len(desk.jobs()) == 1


def test_what_follows_the_bound_is_not_cut_off(desk: Desk) -> None:
    """A whole input of 1 MiB with something behind it is not taken for the input."""
    desk("submit", "desk_app:app", "add", "-", input=padded(MOST) + b'{"a": 2}', code=2)
    assert desk.jobs() == []


@pytest.mark.parametrize(
    "long", [padded(MOST + 1), b" " * MOST + b'{"a": 1}', b'{"a": 2}' + b" " * MOST + b'{"a": 1}'], ids=len
)
def test_a_line_beyond_the_bound_is_refused_by_its_number(desk: Desk, tmp_path: Path, long: bytes) -> None:
    """It never becomes two jobs, and the good lines before it are not stored."""
    (tmp_path / "many").write_bytes(b'{"a": 1}\n\n' + long + b'\n{"a": 3}\n')
    refused = desk("submit", "desk_app:app", "add", "--many", "many", code=2)
    assert refused.startswith("many, line 3: more than 1048576 bytes, which is the limit; ")
    assert desk.jobs() == []


def test_a_line_at_the_bound_is_one_job(desk: Desk, tmp_path: Path) -> None:
    """A line of 1 MiB is taken, with or without a line end."""
    (tmp_path / "many").write_bytes(padded(MOST) + b"\n" + padded(MOST))
    assert "2 jobs submitted" in desk("submit", "desk_app:app", "add", "--many", "many")
    assert len(desk.jobs()) == 2


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ('{"a": 1, "a": 2}', "a"),
        ('{"a": 1, "b": 2, "\\u0062": 3}', "b"),
        ('{"a": 1, "x": [{"deep": 1, "deep": 1}]}', "deep"),
    ],
)
def test_a_field_given_twice_is_refused(desk: Desk, tmp_path: Path, given: str, field: str) -> None:
    """Which of the two would count is nobody's to guess: at the keyboard, on the standard input and in a line."""
    (tmp_path / "many").write_text(given)
    said = f"field '{field}' is there twice; give it once"
    submit = ("submit", "desk_app:app", "add")
    assert desk(*submit, given, code=2) == f"input: {said}"
    assert desk(*submit, "-", input=given.encode(), code=2) == f"input: the standard input: {said}"
    assert desk(*submit, "--many", "many", code=2) == f"many, line 1: {said}"
    assert desk.jobs() == []


@pytest.mark.parametrize(
    ("text", "input", "said"),
    [
        ("", b"", "input: it is empty; give JSON, such as '{}'"),
        (" ", b"", "input: it is empty; give JSON, such as '{}'"),
        ("-", b"\n", "input: the standard input: it is empty; give JSON, such as '{}'"),
        ("-", None, "input: the standard input is closed; give the JSON itself, or open it"),
    ],
)
def test_an_empty_input_is_said_to_be_empty(desk: Desk, text: str, input: bytes | None, said: str) -> None:
    """Nobody reads of truncated data where none was given."""
    assert desk("submit", "desk_app:app", "add", text, input=input, code=2) == said


@pytest.mark.parametrize("given", ["{", "[" * 50_000, '{"a": ' + "9" * 5000 + "}", "\udcff", "\ufeff{}", '{"a": NaN}'])
def test_what_is_no_json_is_refused_by_the_kind(desk: Desk, given: str) -> None:
    """Looking for fields given twice adds no error of its own."""
    assert desk("submit", "desk_app:app", "add", given, code=2).startswith("input of add@1: ")


def test_many_from_a_closed_standard_input_is_refused(desk: Desk) -> None:
    """The sentence says that it is closed."""
    assert "standard input is closed" in desk("submit", "desk_app:app", "add", "--many", "-", input=None, code=2)


def test_many_from_the_standard_input(desk: Desk) -> None:
    """Its lines are jobs, and it is still open afterwards."""
    said = desk("submit", "desk_app:app", "add", "--many", "-", input=b'{"a": 1}\n{"a": 2}')
    assert "2 jobs submitted" in said
    assert not sys.stdin.closed


@pytest.mark.parametrize(("file", "said"), [("nowhere", "does not exist"), (".", "is a directory")])
def test_a_file_that_is_none_is_wrong_usage(desk: Desk, file: str, said: str) -> None:
    """It is named, and nothing is said of free space."""
    refused = desk("submit", "desk_app:app", "add", "--many", file, code=2)
    assert f"'{file}' {said}" in refused
    assert "space" not in refused


@pytest.mark.parametrize("verb", ["show", "cancel", "wait", "logs"])
def test_an_empty_job_is_named_as_such(desk: Desk, verb: str) -> None:
    """A forgotten variable of a shell is told from a job that is not there."""
    assert "'' is empty; give the id of a job, or the beginning of it" in desk(verb, "", code=2)


def test_a_beginning_of_several_ids_names_them(desk: Desk) -> None:
    """Up to five are named, and whether there are more."""
    for number in range(2):
        desk("submit", "desk_app:app", "add", f'{{"a": {number}}}')
    ids = sorted(job["id"] for job in desk.jobs())
    assert desk("show", "0", code=2) == (
        f"job: '0' is the beginning of more than one id: {', '.join(ids)}; give more of it"
    )


def test_all_jobs_are_found_before_one_is_changed(desk: Desk) -> None:
    """A slip in the second id leaves the first one as it was."""
    good = desk("submit", "desk_app:app", "add", '{"a": 1}').split()[0]
    assert desk("cancel", good, "nope", code=2) == "no job nope in this workspace; look with `perenne ps`"
    assert [job["state"] for job in desk.jobs()] == ["QUEUED"]
    assert desk("cancel", good, good).count("CANCELLED") == 1
