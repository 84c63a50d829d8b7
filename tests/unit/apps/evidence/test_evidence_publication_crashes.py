"""Killing the process at every point of publishing and discarding: one publication, and nothing left over."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perenne import crashpoints
from perenne.apps.evidence import jobs_snapshot, lookup, places, publication

BEFORE_COMMIT = ["publish.staged", "publish.renamed", "publish.folder_synced", "publish.written"]
OTHER = "82000000-0000-4000-8000-0000000000"


def publish(analysis: Any) -> None:
    publication.publish(analysis.root, analysis.identity, analysis.source, analysis.derivative)


def state(analysis: Any) -> str:
    answer = lookup.lookup(analysis.root, analysis.identity, analysis.source.evidence_id, analysis.tool, analysis.check)
    return answer.state


def fail_at(point: str) -> None:
    def observer(name: str) -> None:
        if name == point:
            raise RuntimeError("injected")

    crashpoints.observe(observer)


@pytest.fixture
def is_published_once(sql: Callable[..., list[Any]]) -> Callable[[Any], None]:
    """Asserts one coherent publication: its rows once, its file, and no other file."""

    def check(analysis: Any) -> None:
        assert state(analysis) == "coherent"
        assert sql(analysis.root, "select count(*) from extractions") == [(1,)]
        assert sql(analysis.root, "select count(*) from preuves") == [(2,)]
        assert sql(analysis.root, "select count(*) from evidence_entity_observations") == [(3,)]
        assert list(analysis.artefact.parent.iterdir()) == [analysis.artefact]
        assert not (analysis.root / f"{places.CATALOGUE}-journal").exists()

    return check


@pytest.mark.parametrize("point", BEFORE_COMMIT)
@pytest.mark.parametrize("cleans", [True, False])
def test_killed_before_the_commit(
    analysis: Any, dies_at: Any, is_published_once: Any, point: str, cleans: bool
) -> None:
    """Killed before the commit nothing is published; cleaned or not, the next publish makes it once."""
    dies_at(point, lambda: publish(analysis))
    assert state(analysis) == "absent"
    if cleans:
        publication.discard(analysis.root, analysis.identity)
        assert list(analysis.artefact.parent.iterdir()) == []
    publish(analysis)
    is_published_once(analysis)


@pytest.mark.parametrize("point", BEFORE_COMMIT)
def test_killed_and_never_repeated(analysis: Any, dies_at: Any, point: str) -> None:
    """When the job never runs again, discarding leaves the investigation as it was."""
    dies_at(point, lambda: publish(analysis))
    publication.discard(analysis.root, analysis.identity)
    assert list(analysis.artefact.parent.iterdir()) == []
    assert state(analysis) == "absent"


def test_killed_after_the_commit(analysis: Any, dies_at: Any, is_published_once: Any) -> None:
    """Killed after the commit it is published; publishing and discarding again change nothing."""
    dies_at("publish.committed", lambda: publish(analysis))
    is_published_once(analysis)
    assert publication.discard(analysis.root, analysis.identity) == []
    publish(analysis)
    is_published_once(analysis)


def test_killed_again_and_again(analysis: Any, dies_at: Any, is_published_once: Any) -> None:
    """An attempt killed at each point in turn, without any cleaning between, still publishes once."""
    for point in (*BEFORE_COMMIT, "publish.committed"):
        dies_at(point, lambda: publish(analysis))
    publish(analysis)
    is_published_once(analysis)


def test_killed_while_making_the_folder(analysis: Any, dies_at: Any, is_published_once: Any) -> None:
    """Killed after the folder was made, nothing is published and the next publish works."""
    analysis.artefact.parent.rmdir()
    dies_at("publish.folder_made", lambda: publish(analysis))
    assert state(analysis) == "absent"
    publish(analysis)
    is_published_once(analysis)


def test_killed_after_removing_a_leftover(analysis: Any, dies_at: Any, is_published_once: Any) -> None:
    """Killed between removing the old stage file and writing the new one, the next publish works."""
    publication.stage_path(analysis.artefact, analysis.identity).write_bytes(b"torn")
    dies_at("publish.leftover_removed", lambda: publish(analysis))
    assert state(analysis) == "absent"
    publish(analysis)
    is_published_once(analysis)


@pytest.mark.parametrize("point", ["publish.rolled_back", "publish.undone"])
@pytest.mark.parametrize("failure", ["publish.renamed", "publish.written"])
def test_killed_while_undoing(analysis: Any, dies_at: Any, is_published_once: Any, point: str, failure: str) -> None:
    """Killed while a failed attempt is being taken back, nothing is published and the next publish works."""

    def work() -> None:
        fail_at(failure)
        publish(analysis)

    dies_at(point, work)
    assert state(analysis) == "absent"
    publication.discard(analysis.root, analysis.identity)
    assert list(analysis.artefact.parent.iterdir()) == []
    publish(analysis)
    is_published_once(analysis)


@pytest.mark.parametrize("point", ["recover.leftover_removed", "recover.leftover_removed:2", "recover.folder_synced"])
def test_killed_while_discarding(analysis: Any, dies_at: Any, is_published_once: Any, point: str) -> None:
    """Discarding is itself safe to kill: the next call removes the rest."""
    analysis.artefact.write_bytes(b"orphan")
    publication.stage_path(analysis.artefact, analysis.identity).write_bytes(b"torn")
    dies_at(point, lambda: publication.discard(analysis.root, analysis.identity))
    publication.discard(analysis.root, analysis.identity)
    assert list(analysis.artefact.parent.iterdir()) == []
    publish(analysis)
    is_published_once(analysis)


@pytest.mark.parametrize("point", ["export.staged", "export.renamed", "export.folder_synced"])
def test_killed_while_exporting(root: Path, dies_at: Any, point: str) -> None:
    """Killed while exporting, the file is whole or absent, and the next export leaves nothing else."""
    dies_at(point, lambda: jobs_snapshot.write_snapshot(root, []))
    path = root / places.JOBS_SNAPSHOT
    assert path.exists() is (point != "export.staged")
    if point == "export.staged":
        dies_at("export.leftover_removed", lambda: jobs_snapshot.write_snapshot(root, []))
    jobs_snapshot.write_snapshot(root, [])
    assert [item.name for item in root.glob("jobs-snapshot*")] == [places.JOBS_SNAPSHOT]


def in_children(works: list[Callable[[], object]]) -> list[int]:
    """Runs each work in a process of its own, released together; their exit codes: 0 done, 3 refused for a person."""
    gate, release = os.pipe()
    children = []
    for work in works:
        child = os.fork()
        if child == 0:
            code = 1
            try:
                os.close(release)
                os.read(gate, 1)
                work()
                code = 0
            except lookup.EngineError as error:
                code = 3 if error.code == "recovery_required" else 1
            finally:
                os._exit(code)
        children.append(child)
    os.close(gate)
    os.close(release)
    return [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]


def test_publishers_of_the_same_at_once(analysis: Any, is_published_once: Any) -> None:
    """Four processes that publish the same at once all succeed, and it is published once."""
    assert in_children([lambda: publish(analysis)] * 4) == [0, 0, 0, 0]
    is_published_once(analysis)


def test_publishers_of_different_content_at_once(analysis: Any) -> None:
    """Of two processes with other content under one identity exactly one publishes, and its file is its own."""
    for number in range(8):
        ids = (f"{OTHER}{10 + number}", f"{OTHER}{50 + number}")
        first, second = analysis.under(*ids), analysis.under(*ids)
        second = msgspec.structs.replace(
            second, derivative=msgspec.structs.replace(second.derivative, content=second.derivative.content + b" ")
        )
        assert sorted(in_children([lambda f=first: publish(f), lambda s=second: publish(s)])) == [0, 3]
        assert state(first) == "coherent"
