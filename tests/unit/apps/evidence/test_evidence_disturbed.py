"""Each analysis publishes the same, once, wherever its attempt is paused, stopped, cancelled or killed."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import perenne
from perenne import Engine, Job
from perenne.apps.evidence import app, catalogue, jobs, originals, places, requests, rows
from perenne.apps.evidence.commands import opening
from perenne.disturbing import disturb

KEY = "82000000-0000-4000-8000-0000000000aa"


def investigation(root: Path) -> Path:
    """A synthetic investigation with one mail and one picture."""
    opening.create_specimen(root)
    return root


def submit(capability: str) -> Any:
    def submitted(engine: Engine) -> str:
        root = engine.workspace.root
        with catalogue.reading(root) as connection:
            found = [one.id for one in rows.originals(connection)]
        fitting = [one for one in (originals.find(root, id) for id in found) if _fits(one.type, capability)]
        request = requests.request_of(fitting[0], capability, KEY)
        jobs.submit(engine, request)
        return request.job_id

    return submitted


def _fits(evidence_type: str, capability: str) -> bool:
    return (evidence_type == "photo") == (capability == requests.PICTURE_METADATA)


def published(engine: Engine, job: Job) -> Any:
    """The state, and every derivative by its size: ids and times are of one length."""
    folders = (places.MAIL_DERIVATIVES, places.IMAGE_DERIVATIVES)
    files = [path for folder in folders for path in (engine.workspace.root / folder).iterdir()]
    with catalogue.reading(engine.workspace.root) as connection:
        extractions = len(list(rows.extraction_ids(connection)))
    return str(job.state), sorted(path.stat().st_size for path in files), extractions


@pytest.mark.parametrize("capability", [requests.MAIL_HEADERS, requests.WHOLE_MAIL, requests.PICTURE_METADATA])
def test_an_analysis_is_the_same_however_it_is_disturbed(tmp_path: Path, capability: str) -> None:
    """Every shipped kind of Evidence, at each of its boundaries."""
    if capability == requests.PICTURE_METADATA and shutil.which("exiftool") is None:
        pytest.skip("exiftool is not installed: make setup-system installs it")
    visited = disturb(tmp_path, app, submit(capability), make=investigation, same=published, most=6)
    assert all(visited.values())


def test_what_is_compared_is_there(tmp_path: Path) -> None:
    """The comparison sees a publication."""
    root = investigation(tmp_path / "case")
    with perenne.open(root, app, access="work") as engine:
        id = submit(requests.MAIL_HEADERS)(engine)
        engine.work()
        assert published(engine, engine.job(id))[0] == "COMPLETED"
        assert published(engine, engine.job(id))[2] == 1
