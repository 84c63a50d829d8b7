"""Between two neighbouring crash points lies at most one durable call, so killing at every point visits every state."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from perenne import crashpoints, sqlite
from perenne.apps.evidence import jobs_snapshot, originals, publication

AT = "2026-09-26T20:00:00Z"


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """Every durable call (`!fsync`, `!replace`, `!unlink`, `!commit`) and every crash point, in order."""
    seen: list[str] = []

    def recorded(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any, **named: Any) -> Any:
            seen.append(f"!{name}")
            return call(*given, **named)

        return run

    for name in ("fsync", "replace", "rename", "unlink"):
        monkeypatch.setattr(os, name, recorded(name, getattr(os, name)))
    opened = sqlite.open

    def opening(*given: Any, **named: Any) -> Any:
        connection = opened(*given, **named)
        connection.set_commit_hook(lambda: seen.append("!commit") or False)
        return connection

    monkeypatch.setattr(sqlite, "open", opening)
    crashpoints.observe(seen.append)
    yield seen
    crashpoints.observe(None)


def assert_at_most_one_between(seen: list[str], points: set[str]) -> None:
    durable = [name for name in seen if name.startswith("!")]
    assert durable, "the trace saw no durable call"
    assert points <= set(seen)
    assert not [pair for pair in pairwise(seen) if all(name.startswith("!") for name in pair)], seen


def test_publishing(analysis: Any, trace: list[str]) -> None:
    """Publishing, with a missing folder and a leftover stage file."""
    analysis.artefact.parent.rmdir()
    publication.publish(analysis.root, analysis.identity, analysis.source, analysis.derivative)
    steps = ("folder_made", "staged", "renamed", "folder_synced", "written", "committed")
    assert_at_most_one_between(trace, {f"publish.{step}" for step in steps})


def test_publishing_over_leftovers(analysis: Any, trace: list[str]) -> None:
    """Publishing over a torn stage file and an orphan artefact."""
    publication.stage_path(analysis.artefact, analysis.identity).write_bytes(b"torn")
    analysis.artefact.write_bytes(b"orphan")
    publication.publish(analysis.root, analysis.identity, analysis.source, analysis.derivative)
    assert_at_most_one_between(trace, {"publish.leftover_removed", "publish.committed"})


def test_failing_to_publish(analysis: Any, trace: list[str]) -> None:
    """Taking a failed attempt back."""

    def fail(name: str) -> None:
        trace.append(name)
        if name == "publish.written":
            raise RuntimeError("injected")

    crashpoints.observe(fail)
    with pytest.raises(RuntimeError):
        publication.publish(analysis.root, analysis.identity, analysis.source, analysis.derivative)
    assert_at_most_one_between(trace, {"publish.rolled_back", "publish.undone"})


def test_discarding(analysis: Any, trace: list[str]) -> None:
    """Removing a stage file and an orphan artefact."""
    publication.stage_path(analysis.artefact, analysis.identity).write_bytes(b"torn")
    analysis.artefact.write_bytes(b"orphan")
    publication.discard(analysis.root, analysis.identity)
    assert_at_most_one_between(trace, {"recover.leftover_removed", "recover.folder_synced"})


def test_importing(root: Path, tmp_path: Path, trace: list[str]) -> None:
    """Importing three files into a folder that must be made, over leftovers."""
    (root / "01_Preuves_Originales/Images").rmdir()
    (root / "01_Preuves_Originales/Emails/x.eml.stage-import").write_bytes(b"torn")
    files = [tmp_path / "a.eml", tmp_path / "b.eml", tmp_path / "c.png"]
    for number, path in enumerate(files):
        start = b"\x89PNG\r\n\x1a\n" if path.suffix == ".png" else b"From: a\r\n"
        path.write_bytes(start + bytes([number]))
    originals.import_files(root, files, imported_at=AT)
    steps = ("folder_made", "leftover_removed", "staged", "renamed", "folder_synced", "written", "committed")
    assert_at_most_one_between(trace, {f"import.{step}" for step in steps})


def test_exporting(root: Path, trace: list[str]) -> None:
    """Exporting over a stage file that a dead export left."""
    (root / "jobs-snapshot.json.stage-dead").write_bytes(b"torn")
    jobs_snapshot.write_snapshot(root, [])
    assert_at_most_one_between(trace, {"export.leftover_removed", "export.staged", "export.folder_synced"})
