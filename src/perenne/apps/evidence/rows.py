"""Rows of the catalogue ↔ values: evidence, extractions, observations.

One statement a question; no file is touched and no transaction opened here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import apsw
import msgspec

from perenne.apps.evidence.findings import Derivative, Observation, Source
from perenne.apps.evidence.identities import Identity, observation_id_of

Row = TypeVar("Row")

REVIEW_ACTION = "observation.review.v1"
REVIEWED = "evidence_observation"
INTEGRITY_VALID = 1


class Evidence(msgspec.Struct, frozen=True):
    """One piece of evidence: an original or a derivative. `type` is one of the nine codes of L:2.22."""

    id: str
    type: str
    original_name: str
    relative_path: str
    size_bytes: int
    sha256: str
    mime_type: str | None
    description: str | None
    source: str | None
    collected_at: str | None
    imported_at: str
    status: str = "active"
    integrity_status: int = INTEGRITY_VALID

    @property
    def as_source(self) -> Source:
        """The evidence as what an analysis reads."""
        return Source(self.id, self.sha256, self.size_bytes)


class Extraction(msgspec.Struct, frozen=True):
    """One analysis: `source_id` was read, `evidence_id` was made, by `tool_id`."""

    id: str
    evidence_id: str | None
    source_kind: str
    source_id: str
    tool_id: str
    created_at: str


class Recorded(msgspec.Struct, frozen=True):
    """One persisted observation; `untouched` says no person has decided, corrected or promoted it."""

    id: str
    evidence_id: str
    observation: Observation
    observed_at: str
    integrated_at: str
    untouched: bool
    reviews: int


_EVIDENCE = """
    select
        preuves.id, types_preuve.code, preuves.original_name, preuves.relative_path, preuves.size_bytes,
        preuves.sha256, preuves.mime_type, preuves.description, preuves.source, preuves.collected_at,
        preuves.imported_at, preuves.status, preuves.integrity_status
    from preuves
    left join types_preuve on types_preuve.id = preuves.type_id
"""


def evidence(connection: apsw.Connection, evidence_id: str) -> Evidence | None:
    """The evidence of this id."""
    return _one(Evidence, connection, f"{_EVIDENCE} where preuves.id = :id", {"id": evidence_id})


def evidence_at(connection: apsw.Connection, relative_path: str) -> Evidence | None:
    """The evidence whose file lies at this place."""
    return _one(Evidence, connection, f"{_EVIDENCE} where preuves.relative_path = :path", {"path": relative_path})


def evidence_of_content(connection: apsw.Connection, sha256: str, size_bytes: int) -> Evidence | None:
    """The first original of this content."""
    return _one(
        Evidence,
        connection,
        f"""
        {_EVIDENCE}
        where preuves.sha256 = :sha256 and preuves.size_bytes = :size_bytes
        order by preuves.imported_at, preuves.id
        limit 1
        """,
        {"sha256": sha256, "size_bytes": size_bytes},
    )


def originals(connection: apsw.Connection) -> list[Evidence]:
    """Everything that was imported, in the order of import; no derivative."""
    cursor = connection.execute(
        f"""
        {_EVIDENCE}
        where not exists (select 1 from extractions where extractions.evidence_id = preuves.id)
        order by preuves.imported_at, preuves.original_name, preuves.id
        """
    )
    return [Evidence(*row) for row in cursor]


def extraction(connection: apsw.Connection, extraction_id: str) -> Extraction | None:
    """The extraction of this id."""
    return _one(
        Extraction,
        connection,
        """
        select id, evidence_id, source_kind, source_id, tool_id, created_at
        from extractions
        where id = :id
        """,
        {"id": extraction_id},
    )


def extraction_ids(connection: apsw.Connection) -> list[str]:
    """The ids of all extractions, sorted."""
    return [row[0] for row in connection.execute("select id from extractions order by id")]


def observations(connection: apsw.Connection, extraction_id: str) -> list[Recorded]:
    """All observations of one extraction, in the order of their ids."""
    cursor = connection.execute(
        """
        select
            id, evidence_id,
            entity_type, value_raw, value_normalized, role, source_header, occurrence, provenance_kind,
            observed_at, integrated_at,
            verification_status = 'proposed' and entity_id is null and value_corrected is null
                and warning is null and promoted_at is null and promotion_kind is null,
            (
                select count(*)
                from journal
                where journal.action = :action
                    and journal.objet_type = :reviewed
                    and journal.objet_id = evidence_entity_observations.id
                    and journal.resultat = 'success'
            )
        from evidence_entity_observations
        where extraction_id = :extraction_id
        order by id
        """,
        {"extraction_id": extraction_id, "action": REVIEW_ACTION, "reviewed": REVIEWED},
    )
    found: list[tuple[Any, ...]] = cursor.fetchall()
    return [Recorded(row[0], row[1], Observation(*row[2:9]), row[9], row[10], bool(row[11]), row[12]) for row in found]


def insert_evidence(connection: apsw.Connection, value: Evidence) -> None:
    """Write one piece of evidence; its internal name is the last component of its path."""
    connection.execute(
        """
        insert into preuves (
            id, name, relative_path, type_id, size_bytes, sha256, mime_type, description, imported_at, updated_at,
            status, original_name, collected_at, source, integrity_status
        )
        values (
            :id, :name, :relative_path, (select id from types_preuve where code = :type), :size_bytes, :sha256,
            :mime_type, :description, :imported_at, :imported_at, :status, :original_name, :collected_at, :source,
            :integrity_status
        )
        """,
        msgspec.structs.asdict(value) | {"name": value.relative_path.rpartition("/")[2]},
    )


def insert_extraction(connection: apsw.Connection, value: Extraction) -> None:
    """Write one extraction."""
    connection.execute(
        """
        insert into extractions (id, evidence_id, source_kind, source_id, tool_id, created_at)
        values (:id, :evidence_id, :source_kind, :source_id, :tool_id, :created_at)
        """,
        msgspec.structs.asdict(value),
    )


def insert_observations(
    connection: apsw.Connection, identity: Identity, source: Source, derivative: Derivative
) -> None:
    """Write every observation of a derivative as `proposed`, seen and integrated at the instant of the request."""
    connection.executemany(
        """
        insert into evidence_entity_observations (
            id, evidence_id, entity_type, value_raw, value_normalized, role, provenance_kind, source_header,
            occurrence, verification_status, extraction_id, observed_at, integrated_at
        )
        values (
            :id, :evidence_id, :type, :value_raw, :value_normalized, :role, :provenance_kind, :source_header,
            :occurrence, 'proposed', :extraction_id, :requested_at, :requested_at
        )
        """,
        [
            msgspec.structs.asdict(observation)
            | {
                "id": observation_id_of(identity.extraction_id, rank),
                "evidence_id": source.evidence_id,
                "extraction_id": identity.extraction_id,
                "requested_at": identity.requested_at,
            }
            for rank, observation in enumerate(derivative.observations)
        ],
    )


def _one(kind: type[Row], connection: apsw.Connection, statement: str, values: Mapping[str, Any]) -> Row | None:
    row: tuple[Any, ...] | None = connection.execute(statement, values).fetchone()
    return kind(*row) if row is not None else None
