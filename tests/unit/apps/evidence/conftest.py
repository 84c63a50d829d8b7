"""Fixtures of the Evidence application: an empty investigation, a published analysis, a child that dies at a point."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import msgspec
import pytest

from perenne import crashpoints
from perenne.apps.evidence import investigation, originals, places
from perenne.apps.evidence.findings import Derivative, Observation, Source
from perenne.apps.evidence.identities import SPECIMEN_MAIL, Identity

INVESTIGATION_ID = "82000000-0000-4000-8000-000000000001"
IMPORTED_AT = "2026-09-26T20:00:00Z"
TOOL = "labfy.eml_analyzer"
MAIL = b"From: Alice <alice@example.test>\r\nTo: bob@example.test\r\n\r\nHello.\r\n"
OBSERVATIONS = (
    Observation("email_address", "Alice@example.test", "alice@example.test", "from", "from", 1, "header"),
    Observation("domain_name", "example.test", "example.test", "from", "from", 1, "header"),
    Observation("email_address", "bob@example.test", "bob@example.test", "to", "to", 1, "header"),
)


class Analysis(msgspec.Struct, frozen=True):
    """One analysis ready to be published in the investigation at `root`, and the check of its artefact."""

    root: Path
    identity: Identity
    source: Source
    derivative: Derivative
    tool: str = TOOL

    def check(self, content: bytes) -> tuple[Observation, ...]:
        """Reads the artefact; raises unless it was made under this identity from this source."""
        artefact = json.loads(content)
        if artefact["request_id"] != self.identity.extraction_id or artefact["sha256"] != self.source.sha256:
            raise ValueError("the artefact belongs to another request")
        return tuple(Observation(**item) for item in artefact["observations"])

    @property
    def artefact(self) -> Path:
        return self.root / places.MAIL_DERIVATIVES / f"{self.identity.derivative_id}.json"

    @property
    def original(self) -> Path:
        return self.root / originals.find(self.root, self.source.evidence_id).relative_path

    def under(self, extraction_id: str, derivative_id: str) -> Analysis:
        """The same analysis as another request."""
        identity = Identity(extraction_id, derivative_id, self.identity.requested_at)
        return msgspec.structs.replace(
            self, identity=identity, derivative=derivative_of(identity, self.source, self.derivative.observations)
        )


def derivative_of(identity: Identity, source: Source, observations: tuple[Observation, ...]) -> Derivative:
    artefact = {
        "request_id": identity.extraction_id,
        "sha256": source.sha256,
        "observations": [msgspec.structs.asdict(item) for item in observations],
    }
    content = json.dumps(artefact).encode()
    return Derivative(content, places.MAIL_DERIVATIVES, TOOL, "Three proposals.", observations)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An empty specimen investigation."""
    path = tmp_path / "investigation"
    investigation.create(path, title="SPECIMEN", specimen=True, investigation_id=INVESTIGATION_ID)
    return path


@pytest.fixture
def analysis(root: Path, tmp_path: Path) -> Analysis:
    """One mail imported and analysed, not yet published."""
    mail = tmp_path / "specimen.eml"
    mail.write_bytes(MAIL)
    (imported,) = originals.import_files(root, [mail], imported_at=IMPORTED_AT)
    source = Source(imported.evidence_id, imported.sha256, imported.size_bytes)
    return Analysis(root, SPECIMEN_MAIL.identity, source, derivative_of(SPECIMEN_MAIL.identity, source, OBSERVATIONS))


@pytest.fixture
def sql() -> Callable[..., list[tuple[Any, ...]]]:
    """Runs one statement on a catalogue behind the program's back, with no rule of the schema in force."""

    def run(root: Path, statement: str, **values: object) -> list[tuple[Any, ...]]:
        connection = apsw.Connection(str(root / places.CATALOGUE))
        try:
            connection.pragma("foreign_keys", 0)
            connection.pragma("ignore_check_constraints", 1)
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    return run


@pytest.fixture
def dies_at() -> Callable[[str, Callable[[], object]], None]:
    """Runs some work in a child process armed with one crash point, and proves that the child was killed there."""

    def run(point: str, work: Callable[[], object]) -> None:
        child = os.fork()
        if child == 0:
            try:
                crashpoints.arm({crashpoints.VARIABLE: point}, specimen=True)
                work()
            finally:
                os._exit(1)
        _, status = os.waitpid(child, 0)
        assert os.WIFSIGNALED(status), f"the child ended by itself and never passed {point}"
        assert os.WTERMSIG(status) == signal.SIGKILL

    return run


@pytest.fixture
def failing_at() -> Callable[[str], Any]:
    """A context in which passing a crash point raises, as a failing call at that place would."""

    @contextmanager
    def fail(point: str) -> Iterator[None]:
        def observer(name: str) -> None:
            if name == point:
                raise RuntimeError("injected")

        crashpoints.observe(observer)
        try:
            yield
        finally:
            crashpoints.observe(None)

    return fail


@pytest.fixture
def contents() -> Callable[[Path], dict[str, bytes]]:
    """All files of an investigation but the catalogue, by relative path."""

    def read(root: Path) -> dict[str, bytes]:
        return {
            path.relative_to(root).as_posix(): path.read_bytes()
            for path in sorted(root.rglob("*"))
            if path.is_file() and not path.name.startswith(places.CATALOGUE)
        }

    return read
