"""Publishing an analysis: file and rows together, twice is once, nothing left of a failure."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perenne.apps.evidence import originals, places, publication
from perenne.apps.evidence.findings import Observation, Source
from perenne.apps.evidence.identities import Identity
from perenne.apps.evidence.lookup import ARTEFACT_LIMIT_BYTES, Found, lookup
from perenne.errors import InvalidInput, RecoveryRequired, StoreBusy, StoreFailed, TooLarge

OTHER = "82000000-0000-4000-8000-0000000000"


def publish(analysis: Any) -> None:
    publication.publish(analysis.root, analysis.identity, analysis.source, analysis.derivative)


def found(analysis: Any) -> Found:
    return lookup(analysis.root, analysis.identity, analysis.source.evidence_id, analysis.tool, analysis.check)


@pytest.fixture
def dump(sql: Callable[..., list[Any]]) -> Callable[[Path], dict[str, list[Any]]]:
    """Every row an analysis may write."""

    def read(root: Path) -> dict[str, list[Any]]:
        tables = ("preuves", "extractions", "evidence_entity_observations", "entites", "relations", "journal")
        return {table: sql(root, f"select * from {table} order by id") for table in tables}

    return read


def test_what_one_analysis_publishes(analysis: Any, sql: Callable[..., list[Any]]) -> None:
    """One derivative, one extraction, N proposed observations, no entity and no relation (L:2.22)."""
    publish(analysis)
    root, identity, at = analysis.root, analysis.identity, analysis.identity.requested_at
    assert sql(root, "select id, evidence_id, source_kind, source_id, tool_id, created_at from extractions") == [
        (identity.extraction_id, identity.derivative_id, "evidence", analysis.source.evidence_id, analysis.tool, at)
    ]
    assert sql(
        root,
        "select relative_path, type_id, size_bytes, sha256, integrity_status, collected_at, imported_at, updated_at, "
        "status, description from preuves where id = :id",
        id=identity.derivative_id,
    ) == [
        (
            f"{places.MAIL_DERIVATIVES}/{identity.derivative_id}.json",
            8,
            len(analysis.derivative.content),
            places.sha256_of(analysis.derivative.content),
            1,
            at,
            at,
            at,
            "active",
            analysis.derivative.description,
        )
    ]
    observations = sql(
        root,
        "select entity_type, value_raw, value_normalized, role, source_header, occurrence, provenance_kind, "
        "verification_status, entity_id, extraction_id, evidence_id, observed_at, integrated_at "
        "from evidence_entity_observations",
    )
    assert {Observation(*row[:7]) for row in observations} == set(analysis.derivative.observations)
    assert {row[7:] for row in observations} == {
        ("proposed", None, identity.extraction_id, analysis.source.evidence_id, at, at)
    }
    assert sql(root, "select (select count(*) from entites), (select count(*) from relations)") == [(0, 0)]


def test_artefact_is_whole_and_private(analysis: Any, contents: Any) -> None:
    """The artefact has its bytes, is 0600 whatever the umask, and no stage file is left."""
    before = os.umask(0)
    try:
        publish(analysis)
    finally:
        os.umask(before)
    assert analysis.artefact.read_bytes() == analysis.derivative.content
    assert stat.S_IMODE(analysis.artefact.stat().st_mode) == 0o600
    assert [name for name in contents(analysis.root) if "stage" in name] == []


def test_twice_is_once(analysis: Any, dump: Any, contents: Any) -> None:
    """Publishing the same again changes no row and no file."""
    publish(analysis)
    before = dump(analysis.root), contents(analysis.root), analysis.artefact.stat().st_mtime_ns
    publish(analysis)
    assert (dump(analysis.root), contents(analysis.root), analysis.artefact.stat().st_mtime_ns) == before


def test_empty_analysis_is_published(analysis: Any) -> None:
    """No observation at all is a valid, completed publication (L:L-4)."""
    empty = msgspec.structs.replace(
        analysis, derivative=msgspec.structs.replace(analysis.derivative, content=b"{}", observations=())
    )
    publish(empty)
    assert (
        lookup(empty.root, empty.identity, empty.source.evidence_id, empty.tool, lambda content: ()).state == "coherent"
    )


def test_second_analysis_stands_beside_the_first(analysis: Any, sql: Callable[..., list[Any]]) -> None:
    """A new request of the same evidence has new ids and overwrites nothing (L:L-4)."""
    publish(analysis)
    again = analysis.under(f"{OTHER}32", f"{OTHER}33")
    publish(again)
    assert found(analysis).state == found(again).state == "coherent"
    assert sql(analysis.root, "select count(*) from extractions") == [(2,)]


def _changed(analysis: Any, what: str) -> Any:
    derivative, identity, replace = analysis.derivative, analysis.identity, msgspec.structs.replace
    return {
        "content": lambda: replace(analysis, derivative=replace(derivative, content=derivative.content + b" ")),
        "tool": lambda: replace(analysis, derivative=replace(derivative, tool_id="labfy.other")),
        "observations": lambda: replace(
            analysis, derivative=replace(derivative, observations=derivative.observations[:1])
        ),
        "instant": lambda: replace(analysis, identity=replace(identity, requested_at="2026-09-26T21:00:01Z")),
        "derivative id": lambda: replace(analysis, identity=replace(identity, derivative_id=f"{OTHER}99")),
        "extraction id": lambda: replace(analysis, identity=replace(identity, extraction_id=f"{OTHER}99")),
        "source": lambda: replace(
            analysis,
            source=Source(identity.derivative_id, places.sha256_of(derivative.content), len(derivative.content)),
        ),
    }[what]()


@pytest.mark.parametrize(
    "what", ["content", "tool", "observations", "instant", "derivative id", "extraction id", "source"]
)
def test_other_content_under_the_same_identity_is_refused(analysis: Any, dump: Any, contents: Any, what: str) -> None:
    """Whatever differs, a person must look; no row and no file changes."""
    publish(analysis)
    before = dump(analysis.root), contents(analysis.root)
    with pytest.raises(RecoveryRequired, match="already published, and not as given"):
        publish(_changed(analysis, what))
    assert (dump(analysis.root), contents(analysis.root)) == before
    assert found(analysis).state == "coherent"


def test_same_publication_with_a_lost_artefact_is_refused(analysis: Any) -> None:
    """A published artefact that has vanished is a finding for a person, not silently written again."""
    publish(analysis)
    analysis.artefact.unlink()
    with pytest.raises(RecoveryRequired, match="missing"):
        publish(analysis)
    assert not analysis.artefact.exists()


def test_changed_original_is_not_published(analysis: Any, dump: Any, contents: Any) -> None:
    """When the original no longer has its bytes, nothing is published about it."""
    analysis.original.write_bytes(b"From: someone else\r\n\r\n")
    before = dump(analysis.root), contents(analysis.root)
    with pytest.raises(RecoveryRequired, match="restore the original"):
        publish(analysis)
    assert (dump(analysis.root), contents(analysis.root)) == before


def test_analysis_of_other_bytes_is_not_published(analysis: Any) -> None:
    """An analysis that read other bytes than those of the evidence is refused."""
    source = msgspec.structs.replace(analysis.source, sha256="0" * 64)
    with pytest.raises(RecoveryRequired, match="analyse it again"):
        publication.publish(analysis.root, analysis.identity, source, analysis.derivative)


def test_unknown_source_is_refused(analysis: Any) -> None:
    """An analysis of evidence that was never imported is refused, naming the id."""
    source = msgspec.structs.replace(analysis.source, evidence_id=f"{OTHER}77")
    with pytest.raises(InvalidInput, match=rf"{OTHER}77.*import the file first"):
        publication.publish(analysis.root, analysis.identity, source, analysis.derivative)
    assert not any(analysis.artefact.parent.iterdir())


@pytest.mark.parametrize(
    "folder",
    [
        "",
        "/etc",
        "..",
        "02_Preuves_Traitees/Extractions",
        "02_Preuves_Traitees/Extractions/../../x",
        "01_Preuves_Originales/Emails",
        "02_Preuves_Traitees/Extractions/a/b",
        "02_Preuves_Traitees/Extractions/a\\b",
    ],
)
def test_other_folder_is_refused(analysis: Any, folder: str) -> None:
    """Derivatives lie directly in a folder of the extractions and nowhere else."""
    derivative = msgspec.structs.replace(analysis.derivative, folder=folder)
    with pytest.raises(InvalidInput):
        publication.publish(analysis.root, analysis.identity, analysis.source, derivative)


def test_bad_identity_is_refused(analysis: Any) -> None:
    """An id or instant of a wrong form is refused before anything is read."""
    for identity in (
        Identity("x", f"{OTHER}13", "2026-09-26T21:00:00Z"),
        Identity(f"{OTHER}12", f"{OTHER}12", "2026-09-26T21:00:00Z"),
        Identity(f"{OTHER}12", f"{OTHER}13", "yesterday"),
    ):
        with pytest.raises(InvalidInput):
            publication.publish(analysis.root, identity, analysis.source, analysis.derivative)


def test_large_artefact_is_refused(analysis: Any) -> None:
    """An artefact over the limit is refused with both sizes."""
    derivative = msgspec.structs.replace(analysis.derivative, content=b" " * (ARTEFACT_LIMIT_BYTES + 1))
    with pytest.raises(TooLarge, match=str(ARTEFACT_LIMIT_BYTES)):
        publication.publish(analysis.root, analysis.identity, analysis.source, derivative)


def test_repeated_observation_is_named(analysis: Any) -> None:
    """Two equal observations are refused by name, for the catalogue could hold only one (T-17)."""
    twice = msgspec.structs.replace(analysis.derivative, observations=analysis.derivative.observations[:1] * 2)
    with pytest.raises(InvalidInput, match=r"alice@example\.test.*2 times"):
        publication.publish(analysis.root, analysis.identity, analysis.source, twice)


def test_numbered_repetition_is_published(analysis: Any, sql: Callable[..., list[Any]]) -> None:
    """The same host twice in one header stands twice, under two occurrences (T-17)."""
    first = Observation("domain_name", "mx.test", "mx.test", "smtp_relay", "received", 1, "header")
    numbered = (first, msgspec.structs.replace(first, occurrence=2))
    publication.publish(
        analysis.root,
        analysis.identity,
        analysis.source,
        msgspec.structs.replace(analysis.derivative, observations=numbered),
    )
    assert sql(analysis.root, "select count(*) from evidence_entity_observations") == [(2,)]


@pytest.mark.parametrize("point", ["publish.staged", "publish.renamed", "publish.folder_synced", "publish.written"])
def test_failure_leaves_nothing(analysis: Any, dump: Any, contents: Any, failing_at: Any, point: str) -> None:
    """Wherever publishing fails before its commit, rows and files are as before, and the next attempt succeeds."""
    before = dump(analysis.root), contents(analysis.root)
    with failing_at(point), pytest.raises(RuntimeError, match="injected"):
        publish(analysis)
    assert (dump(analysis.root), contents(analysis.root)) == before
    publish(analysis)
    assert found(analysis).state == "coherent"


def test_bad_row_leaves_nothing(analysis: Any, dump: Any, contents: Any) -> None:
    """An observation that breaks a rule of the schema takes the whole publication back."""
    bad = msgspec.structs.replace(analysis.derivative.observations[0], occurrence=0)
    before = dump(analysis.root), contents(analysis.root)
    with pytest.raises(InvalidInput, match="breaks a rule"):
        publication.publish(
            analysis.root,
            analysis.identity,
            analysis.source,
            msgspec.structs.replace(analysis.derivative, observations=(bad,)),
        )
    assert (dump(analysis.root), contents(analysis.root)) == before


def test_commit_that_took_place_keeps_its_file(analysis: Any, failing_at: Any) -> None:
    """When the failure comes after the commit, the artefact stays: the rows name it."""
    with failing_at("publish.committed"), pytest.raises(RuntimeError, match="injected"):
        publish(analysis)
    assert found(analysis).state == "coherent"


def test_leftovers_of_a_dead_attempt_do_not_matter(analysis: Any, contents: Any) -> None:
    """A torn stage file and an orphan artefact with other bytes never make a publish fail (T-9)."""
    stage = publication.stage_path(analysis.artefact, analysis.identity)
    stage.write_bytes(b'{"torn')
    analysis.artefact.write_bytes(b"orphan")
    assert found(analysis).state == "absent"
    publish(analysis)
    assert found(analysis).state == "coherent"
    assert not stage.exists()


def test_folder_in_place_of_the_stage_file_is_named(analysis: Any) -> None:
    """Something that cannot be removed in place of the stage file is named in the error, and stays."""
    stage = publication.stage_path(analysis.artefact, analysis.identity)
    stage.mkdir()
    with pytest.raises(StoreFailed, match=stage.name):
        publish(analysis)
    assert stage.is_dir()
    assert found(analysis).state == "absent"


def test_file_of_other_evidence_is_not_replaced(analysis: Any, sql: Callable[..., list[Any]]) -> None:
    """When another row names the place of the artefact, nothing is written there."""
    analysis.artefact.write_bytes(b"theirs")
    sql(
        analysis.root,
        "update preuves set relative_path = :path",
        path=analysis.artefact.relative_to(analysis.root).as_posix(),
    )
    source = Source(analysis.source.evidence_id, places.sha256_of(b"theirs"), 6)
    sql(analysis.root, "update preuves set sha256 = :sha256, size_bytes = 6", sha256=source.sha256)
    with pytest.raises(RecoveryRequired, match="belongs to evidence"):
        publication.publish(analysis.root, analysis.identity, source, analysis.derivative)
    assert analysis.artefact.read_bytes() == b"theirs"


@pytest.mark.parametrize(
    "component", ["02_Preuves_Traitees", "02_Preuves_Traitees/Extractions", places.MAIL_DERIVATIVES]
)
def test_linked_derivative_folder_is_refused(analysis: Any, tmp_path: Path, component: str, dump: Any) -> None:
    """A symlink anywhere on the way to the artefact is refused, and nothing is written on its other side."""
    outside = tmp_path / "outside"
    (analysis.root / component).rename(outside)
    (analysis.root / component).symlink_to(outside)
    before = dump(analysis.root)
    with pytest.raises(StoreFailed, match="symlink"):
        publish(analysis)
    assert not [path for path in outside.rglob("*") if path.is_file()]
    assert dump(analysis.root) == before


def test_missing_folder_is_made(analysis: Any) -> None:
    """An investigation of the reference that never extracted anything gets the folder, 0700."""
    analysis.artefact.parent.rmdir()
    publish(analysis)
    assert stat.S_IMODE(analysis.artefact.parent.stat().st_mode) == 0o700
    assert found(analysis).state == "coherent"


def test_busy_catalogue_is_told(analysis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """When another writer holds the catalogue until the deadline, the error says so and nothing is left."""
    from perenne.apps.evidence import catalogue

    monkeypatch.setattr(catalogue, "BUSY_S", 0.05)
    with catalogue.locked(analysis.root), pytest.raises(StoreBusy):
        publish(analysis)
    assert not any(analysis.artefact.parent.iterdir())


def test_discard_removes_what_is_left(analysis: Any, contents: Any) -> None:
    """Stage file and orphan artefact of an unpublished identity are removed and named; twice is once."""
    before = contents(analysis.root)
    stage = publication.stage_path(analysis.artefact, analysis.identity)
    reference_stage = analysis.artefact.with_name(f"{analysis.artefact.name}.stage")
    for path in (stage, reference_stage, analysis.artefact):
        path.write_bytes(b"left")
    bystander = analysis.artefact.with_name(f"{OTHER}99.json")
    bystander.write_bytes(b"other")
    assert sorted(publication.discard(analysis.root, analysis.identity)) == sorted(
        (stage, reference_stage, analysis.artefact)
    )
    assert bystander.read_bytes() == b"other"
    bystander.unlink()
    assert contents(analysis.root) == before
    assert publication.discard(analysis.root, analysis.identity) == []


def test_discard_keeps_what_is_published(analysis: Any) -> None:
    """A published artefact is never discarded; only a stray stage file beside it goes."""
    publish(analysis)
    stage = publication.stage_path(analysis.artefact, analysis.identity)
    stage.write_bytes(b"left")
    assert publication.discard(analysis.root, analysis.identity) == [stage]
    assert found(analysis).state == "coherent"


def test_discard_of_a_damaged_publication_keeps_its_file(analysis: Any, sql: Callable[..., list[Any]]) -> None:
    """When only one of the rows stands, the artefact stays for the person who must look."""
    publish(analysis)
    sql(analysis.root, "delete from extractions")
    assert publication.discard(analysis.root, analysis.identity) == []
    assert analysis.artefact.exists()


def test_discard_does_not_follow_links(analysis: Any, tmp_path: Path) -> None:
    """A derivative folder that became a symlink is not cleaned through it."""
    outside = tmp_path / "outside"
    analysis.artefact.parent.rename(outside)
    analysis.artefact.parent.symlink_to(outside)
    (outside / analysis.artefact.name).write_bytes(b"theirs")
    assert publication.discard(analysis.root, analysis.identity) == []
    assert (outside / analysis.artefact.name).exists()


def test_read_gives_verified_bytes(analysis: Any) -> None:
    """What an analysis reads is hashed at that moment and equals the row; else a person must look."""
    evidence, content = originals.read(analysis.root, analysis.source.evidence_id)
    assert evidence.as_source == analysis.source
    assert places.sha256_of(content) == analysis.source.sha256
    analysis.original.write_bytes(content[:-1] + b"?")
    with pytest.raises(RecoveryRequired, match="SHA-256"):
        originals.read(analysis.root, analysis.source.evidence_id)
    with pytest.raises(InvalidInput, match="import the file first"):
        originals.read(analysis.root, f"{OTHER}77")
