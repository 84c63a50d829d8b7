"""Looking up a publication: three answers, and whatever is damaged is a finding, never an exception."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perenne.apps.evidence import catalogue, places, publication
from perenne.apps.evidence.lookup import Found, lookup
from perenne.errors import RecoveryRequired

OTHER = "82000000-0000-4000-8000-0000000000"
REVIEW = """
    insert into journal (id, event_time, action, objet_type, objet_id, resultat, created_at)
    select :id, '2026-09-27T00:00:00Z', :action, 'evidence_observation', id, :result, '2026-09-27T00:00:00Z'
    from evidence_entity_observations order by id limit 1
"""
FIRST = "where id = (select min(id) from evidence_entity_observations)"


def found(analysis: Any, **changed: Any) -> Found:
    given = {"tool": analysis.tool, "source": analysis.source.evidence_id, "check": analysis.check} | changed
    return lookup(analysis.root, analysis.identity, given["source"], given["tool"], given["check"])


@pytest.fixture
def published(analysis: Any) -> Any:
    """An analysis that is published."""
    publication.publish(analysis.root, analysis.identity, analysis.source, analysis.derivative)
    return analysis


def test_nothing_published_is_absent(analysis: Any) -> None:
    """Before publishing, the answer is absent, even when the original is gone."""
    assert found(analysis) == Found("absent")
    analysis.original.unlink()
    assert found(analysis) == Found("absent")


def test_published_is_coherent(published: Any) -> None:
    """After publishing, the answer is coherent, as often as it is asked, and asking changes nothing."""
    before = {path: path.read_bytes() for path in published.root.rglob("*") if path.is_file()}
    assert found(published) == found(published) == Found("coherent")
    assert {path: path.read_bytes() for path in published.root.rglob("*") if path.is_file()} == before


def test_other_identities_are_absent(published: Any) -> None:
    """A publication says nothing about another request."""
    assert found(published.under(f"{OTHER}32", f"{OTHER}33")).state == "absent"


TAMPERED_ROWS = [
    # the extraction
    "delete from extractions",
    "update extractions set evidence_id = null",
    f"update extractions set evidence_id = '{OTHER}77'",
    "update extractions set source_kind = 'entity'",
    f"update extractions set source_id = '{OTHER}77'",
    "update extractions set tool_id = 'labfy.eml_analyzer2'",
    "update extractions set tool_id = 'labfy.eml_analyzer@'",
    "update extractions set tool_id = ''",
    "update extractions set tool_id = x'00ff'",
    "update extractions set tool_id = cast(x'ff' as text)",
    "update extractions set created_at = '2026-09-26T21:00:01Z'",
    "update extractions set created_at = 20260926",
    # the original
    "delete from preuves where type_id = 5",
    "update preuves set relative_path = '01_Preuves_Originales/Emails/none.eml' where type_id = 5",
    "update preuves set relative_path = '../outside.eml' where type_id = 5",
    "update preuves set relative_path = '/etc/hostname' where type_id = 5",
    "update preuves set relative_path = '01_Preuves_Originales//Emails' where type_id = 5",
    "update preuves set relative_path = '' where type_id = 5",
    "update preuves set relative_path = x'00' where type_id = 5",
    "update preuves set relative_path = '01_Preuves_Originales/' || char(0) where type_id = 5",
    "update preuves set relative_path = '01_Preuves_Originales/' || cast(x'fffe' as text) where type_id = 5",
    "update preuves set relative_path = printf('%.*c', 300, 'a') where type_id = 5",
    "update preuves set size_bytes = size_bytes + 1 where type_id = 5",
    "update preuves set size_bytes = 'large' where type_id = 5",
    "update preuves set sha256 = replace(sha256, substr(sha256, 1, 1), 'x') where type_id = 5",
    "update preuves set sha256 = upper(sha256) where type_id = 5",
    "update preuves set sha256 = cast(sha256 as blob) where type_id = 5",
    # the derivative
    "delete from preuves where type_id = 8",
    f"update preuves set id = '{OTHER}77' where type_id = 8",
    "update preuves set relative_path = '02_Preuves_Traitees/Extractions/EML/none.json' where type_id = 8",
    "update preuves set relative_path = (select relative_path from preuves where type_id = 5) || 'x' where type_id = 8",
    "update preuves set relative_path = 7 where type_id = 8",
    "update preuves set size_bytes = 0 where type_id = 8",
    "update preuves set sha256 = replace(sha256, substr(sha256, 1, 1), 'x') where type_id = 8",
    "update preuves set collected_at = '2026-09-26T21:00:01Z' where type_id = 8",
    "update preuves set collected_at = null where type_id = 8",
    "update preuves set imported_at = '2026-09-26T21:00:01Z' where type_id = 8",
    "update preuves set status = 'deleted' where type_id = 8",
    "update preuves set integrity_status = 3 where type_id = 8",
    "update preuves set type_id = 4 where type_id = 8",
    "update preuves set type_id = 99 where type_id = 8",
    # the observations
    f"delete from evidence_entity_observations {FIRST}",
    "delete from evidence_entity_observations",
    f"update evidence_entity_observations set entity_type = 'other' {FIRST}",
    f"update evidence_entity_observations set value_raw = 'other' {FIRST}",
    f"update evidence_entity_observations set value_raw = cast(value_raw as blob) {FIRST}",
    f"update evidence_entity_observations set value_normalized = 'other' {FIRST}",
    f"update evidence_entity_observations set value_normalized = null {FIRST}",
    f"update evidence_entity_observations set role = 'cc' {FIRST}",
    f"update evidence_entity_observations set source_header = 'cc' {FIRST}",
    f"update evidence_entity_observations set occurrence = 2 {FIRST}",
    f"update evidence_entity_observations set provenance_kind = 'manual' {FIRST}",
    f"update evidence_entity_observations set observed_at = '2026-09-26T21:00:01Z' {FIRST}",
    f"update evidence_entity_observations set integrated_at = '2026-09-26T21:00:01Z' {FIRST}",
    f"update evidence_entity_observations set evidence_id = '{OTHER}77' {FIRST}",
    f"update evidence_entity_observations set extraction_id = null {FIRST}",
    f"update evidence_entity_observations set extraction_id = '{OTHER}77' {FIRST}",
    f"update evidence_entity_observations set verification_status = 'confirmed' {FIRST}",
    f"update evidence_entity_observations set verification_status = 'sure' {FIRST}",
    f"update evidence_entity_observations set entity_id = '{OTHER}77' {FIRST}",
    f"update evidence_entity_observations set value_corrected = 'other' {FIRST}",
    f"update evidence_entity_observations set warning = 'other' {FIRST}",
    f"update evidence_entity_observations set promoted_at = '2026-09-26T21:00:01Z' {FIRST}",
    f"update evidence_entity_observations set promotion_kind = 'created' {FIRST}",
    f"""
    insert into evidence_entity_observations (
        id, evidence_id, entity_type, value_raw, value_normalized, role, provenance_kind, source_header, occurrence,
        extraction_id, observed_at, integrated_at
    )
    select '{OTHER}77', evidence_id, entity_type, value_raw, value_normalized, role, provenance_kind, source_header,
        occurrence + 1, extraction_id, observed_at, integrated_at
    from evidence_entity_observations {FIRST}
    """,
    # the file itself
    "drop table extractions",
    "drop table evidence_entity_observations",
    "drop table journal",
    "drop table types_preuve",
    "alter table preuves drop column integrity_status",
    "delete from metadata",
    "update metadata set value = '21' where key = 'schema_version'",
    f"update investigation set id = '{OTHER}77'",
]


@pytest.mark.parametrize("statement", TAMPERED_ROWS, ids=lambda text: " ".join(text.split())[:90])
def test_tampered_row_is_incoherent(published: Any, sql: Callable[..., list[Any]], statement: str) -> None:
    """Whichever row or field was changed, the answer is incoherent, with one sentence."""
    sql(published.root, statement)
    answer = found(published)
    assert answer.state == "incoherent"
    assert answer.finding
    assert "\n" not in answer.finding
    assert len(answer.finding) <= 500


def _link(path: Path) -> None:
    outside = path.parents[3] / f"outside-{path.name}"
    path.rename(outside)
    path.symlink_to(outside)


def _replaced_by_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _replaced_by_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _linked_parent(path: Path) -> None:
    _link(path.parent)


def _removed_parent(path: Path) -> None:
    shutil.rmtree(path.parent)


TAMPERED_FILES: list[Callable[[Path], object]] = [
    Path.unlink,
    _link,
    _linked_parent,
    _removed_parent,
    _replaced_by_folder,
    _replaced_by_pipe,
    lambda path: path.write_bytes(b""),
    lambda path: path.write_bytes(path.read_bytes()[:-1]),
    lambda path: path.write_bytes(path.read_bytes() + b"x"),
    lambda path: path.write_bytes(bytes([path.read_bytes()[0] ^ 1]) + path.read_bytes()[1:]),
    lambda path: path.write_bytes(b"x" * (1 << 25)),
]


@pytest.mark.parametrize("which", ["original", "artefact"])
@pytest.mark.parametrize("tamper", TAMPERED_FILES)
def test_tampered_file_is_incoherent(published: Any, which: str, tamper: Callable[[Path], object]) -> None:
    """Whatever became of the original or the artefact, the answer is incoherent, at once and with one sentence."""
    tamper(getattr(published, which))
    answer = found(published)
    assert answer.state == "incoherent"
    assert answer.finding


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b"null", b"{}", b"\xff\xfe", b"[" * 50_000, b'{"observations": [{"type": 1}]}', b"[[1" * 1000],
)
def test_artefact_of_another_form_is_incoherent(published: Any, sql: Callable[..., list[Any]], content: bytes) -> None:
    """An artefact whose rows agree but whose content is no such artefact is a finding, whatever the check raises."""
    published.artefact.write_bytes(content)
    sql(
        published.root,
        "update preuves set sha256 = :sha256, size_bytes = :size where type_id = 8",
        sha256=places.sha256_of(content),
        size=len(content),
    )
    answer = found(published)
    assert answer.state == "incoherent"
    assert published.artefact.name in answer.finding


@pytest.mark.parametrize("error", [RecoveryRequired("not this"), ValueError("not this"), RecursionError("not this")])
def test_check_may_raise_anything(published: Any, error: Exception) -> None:
    """What the check raises becomes the finding."""

    def check(content: bytes) -> Any:
        raise error

    answer = found(published, check=check)
    assert answer.state == "incoherent"
    assert "not this" in answer.finding


def test_check_sees_the_artefact(published: Any) -> None:
    """The check is given exactly the bytes that were published."""
    seen: list[bytes] = []
    found(published, check=lambda content: seen.append(content) or published.check(content))
    assert seen == [published.derivative.content]


def test_expected_source_and_tool_are_compared(published: Any) -> None:
    """Another source or another tool than expected is a finding."""
    assert "source_id" in found(published, source=f"{OTHER}77").finding
    assert "tool_id" in found(published, tool="exiftool").finding


@pytest.mark.parametrize("prefix", ["exiftool", "exiftool@"])
def test_tool_may_name_its_version(published: Any, sql: Callable[..., list[Any]], prefix: str) -> None:
    """A prefix is the whole tool id, or what stands before `@version`."""
    sql(published.root, "update extractions set tool_id = 'exiftool@12.57'")
    assert found(published, tool=prefix).state == "coherent"
    sql(published.root, "update extractions set tool_id = 'exiftool@'")
    assert found(published, tool="exiftool").state == "incoherent"
    sql(published.root, "update extractions set tool_id = 'exiftools@12.57'")
    assert found(published, tool=prefix).state == "incoherent"


def test_reviewed_observation_stays_coherent(published: Any, sql: Callable[..., list[Any]]) -> None:
    """What a person decided, with its row in the journal, is no damage (L:P-4); what was observed must still agree."""
    root = published.root
    sql(root, REVIEW, id=f"{OTHER}b1", action="observation.review.v1", result="success")
    sql(root, f"update evidence_entity_observations set verification_status = 'confirmed' {FIRST}")
    assert found(published).state == "coherent"
    sql(root, f"update evidence_entity_observations set value_raw = 'other' {FIRST}")
    assert found(published).state == "incoherent"


@pytest.mark.parametrize(("action", "result"), [("observation.review.v1", "failure"), ("other.act", "success")])
def test_only_a_review_proves_a_change(published: Any, sql: Callable[..., list[Any]], action: str, result: str) -> None:
    """A failed review or another act in the journal proves nothing."""
    sql(published.root, REVIEW, id=f"{OTHER}b1", action=action, result=result)
    assert found(published).state == "coherent"
    sql(published.root, f"update evidence_entity_observations set verification_status = 'confirmed' {FIRST}")
    assert found(published).state == "incoherent"


@pytest.mark.parametrize("content", [None, b"", b"no database at all", b"SQLite format 3\x00" + b"\xee" * 8000])
def test_unreadable_catalogue_cannot_tell(published: Any, content: bytes | None) -> None:
    """A catalogue that is gone or damaged is incoherent, and the finding begins with cannot tell."""
    path = published.root / places.CATALOGUE
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    answer = found(published)
    assert answer.state == "incoherent"
    assert answer.finding.startswith("cannot tell: ")


@pytest.mark.parametrize("page", range(1, 12))
def test_overwritten_page_never_raises(published: Any, page: int) -> None:
    """Whichever page of the catalogue is overwritten, a lookup answers."""
    path = published.root / places.CATALOGUE
    content = bytearray(path.read_bytes())
    content[page * 4096 : (page + 1) * 4096] = b"\xa5" * 4096
    path.write_bytes(content)
    assert found(published).state in {"incoherent", "coherent"}


def test_missing_manifest_cannot_tell(published: Any) -> None:
    """Without a manifest nobody can say whose catalogue it is."""
    (published.root / ".labfy/runtime/specimen.json").unlink()
    assert found(published).finding.startswith("cannot tell: ")


def test_half_written_transaction_is_rolled_back(published: Any) -> None:
    """A writer killed with half of its pages in the file leaves a journal; the next lookup restores and answers."""

    def spill() -> None:
        with catalogue.locked(published.root) as connection:
            connection.pragma("cache_size", 1)
            connection.pragma("cache_spill", 1)
            for number in range(300):
                connection.execute(
                    "insert into journal (id, event_time, action, resultat, details, created_at) "
                    "values (printf('%036d', ?), '2026-09-26T21:00:00Z', 'act', 'success', ?, '2026-09-26T21:00:00Z')",
                    (number, "x" * 4000),
                )
            connection.execute("delete from extractions")
            os.kill(os.getpid(), signal.SIGKILL)

    child = os.fork()
    if child == 0:
        try:
            spill()
        finally:
            os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    journal = published.root / f"{places.CATALOGUE}-journal"
    assert journal.stat().st_size > 0
    assert found(published) == Found("coherent")
    assert not journal.exists()


def test_real_mail_artefact(root: Path, tmp_path: Path) -> None:
    """The mail analyser's own artefact is coherent by its own check, and incoherent under another request."""
    from perenne.apps.evidence import originals
    from perenne.apps.evidence.identities import SPECIMEN_MAIL
    from perenne.apps.evidence.mail_headers import artefact

    mail = tmp_path / "a.eml"
    mail.write_bytes(b"From: a@example.test\r\n\r\n")
    (imported,) = originals.import_files(root, [mail], imported_at="2026-09-26T20:00:00Z")
    source = originals.find(root, imported.evidence_id).as_source
    identity = SPECIMEN_MAIL.identity
    request = {"request_id": identity.extraction_id, "source": source, "requested_at": identity.requested_at}
    derivative = artefact.build(**request, observations=())
    publication.publish(root, identity, source, derivative)

    def look(**changed: Any) -> Found:
        return lookup(
            root,
            identity,
            source.evidence_id,
            derivative.tool_id,
            lambda content: artefact.check(content, **(request | changed)),
        )

    assert look() == Found("coherent")
    assert look(request_id=f"{OTHER}77").state == "incoherent"
