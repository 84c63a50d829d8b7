"""Reading leaves no trace (P8, L:T-15): no row, no byte, no name changes when somebody looks."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

READS = [["status"], ["status", "--json"]]


@pytest.fixture(params=READS, ids=[" ".join(words) for words in READS])
def leaves_no_trace(request: pytest.FixtureRequest, perenne: Any, tree: Any) -> Callable[..., str]:
    """Runs a read command and proves that no name, size, mode or byte changed but those of shared memory."""

    def prove(workspace: Path, *, wrap: list[str] | None = None) -> str:
        before = tree(workspace)
        ended = perenne(*request.param, "--workspace", workspace, wrap=wrap or [])
        assert (ended.code, ended.err) == (0, ""), ended
        after = tree(workspace)
        assert _without_shared_memory(after) == _without_shared_memory(before)
        assert after.keys() == before.keys()
        return str(ended.out)

    return prove


def _without_shared_memory(seen: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in seen.items() if not name.endswith("-shm")}


def test_nobody_works(leaves_no_trace: Callable[..., str], specimen: Path) -> None:
    """The jobs are shown while no process lives in the workspace."""
    assert "specimen.eml" in leaves_no_trace(specimen)


def test_a_worker_lives(leaves_no_trace: Callable[..., str], perenne: Any, case: Path, shown: Any) -> None:
    """The jobs are shown while a worker waits for more; the worker does not notice."""
    worker = perenne.start("run", "--stay", "--workspace", case)
    perenne.done("enqueue", "--workspace", case)
    lines = [worker.stdout.readline() for _ in range(7)]
    assert lines[-1].startswith("[6/6] COMPLETED"), lines
    shown(case, '"COMPLETED":6')
    assert leaves_no_trace(case).count("COMPLETED") >= 6
    assert worker.poll() is None


@pytest.mark.parametrize("point", ["publish.written", "publish.committed", "claim.committed", "acknowledge.written"])
def test_a_worker_was_killed(leaves_no_trace: Callable[..., str], perenne: Any, specimen: Path, point: str) -> None:
    """What kill -9 left is shown as it stands, even a journal that somebody must roll back; nothing is repaired."""
    killed = perenne("run", "--workspace", specimen, PERENNE_CRASH_POINT=point)
    assert killed.code == -signal.SIGKILL, killed
    assert (specimen / "Enquete.sqlite-journal").exists() == (point == "publish.written")
    assert "RUNNING" in leaves_no_trace(specimen)


def test_the_folder_is_read_only(
    leaves_no_trace: Callable[..., str], perenne: Any, specimen: Path, namespace: Any
) -> None:
    """The jobs are shown on a mount that takes no writes."""
    perenne("run", "--workspace", specimen, PERENNE_CRASH_POINT="claim.committed")
    frozen = namespace(f"mount --bind {specimen} {specimen}; mount -o remount,bind,ro {specimen}")
    assert "RUNNING" in leaves_no_trace(specimen, wrap=frozen)


def test_the_catalogue_is_missing(leaves_no_trace: Callable[..., str], specimen: Path) -> None:
    """Without the catalogue the jobs are shown under the ids of their evidence."""
    (specimen / "Enquete.sqlite").unlink()
    assert "specimen.eml" not in leaves_no_trace(specimen)
