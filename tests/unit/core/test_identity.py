"""Ids are fixed before anything runs: they sort by time, repeat for the same request, and are well-formed UUIDs."""

from __future__ import annotations

import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perenne.core.identity import check_uuid, job_id, publication_id
from perenne.errors import InvalidInput

INSTANTS = st.integers(0, 1000 * ((1 << 48) - 1))
LUCK = st.binary(min_size=10, max_size=10)
# sha256 of "01998d3b-0000-7000-8000-000000000001:extraction" as sha256sum prints it, version and variant set to 8.
GOLDEN = "8f720ea0-7a5e-88c4-8975-5277fbd93d41"


@given(INSTANTS, LUCK)
def test_a_job_id_is_a_uuid_of_version_7(now_us: int, luck: bytes) -> None:
    """The first 48 bits are the milliseconds, then version 7, and the variant of RFC 9562."""
    made = uuid.UUID(job_id(now_us, luck))
    assert (made.version, made.variant) == (7, uuid.RFC_4122)
    assert made.int >> 80 == now_us // 1000
    assert str(made) == job_id(now_us, luck)


@given(INSTANTS, INSTANTS, LUCK, LUCK)
def test_job_ids_sort_by_time(one: int, other: int, luck: bytes, more_luck: bytes) -> None:
    """An id of an earlier millisecond sorts first, whatever the luck."""
    early, late = sorted((one // 1000, other // 1000))
    if early < late:
        assert job_id(early * 1000, luck) < job_id(late * 1000, more_luck)


def test_all_the_luck_is_used() -> None:
    """Each of 74 random bits makes another id, so that two of one millisecond meet by no luck that matters."""
    lucks = [b"\0" * 10, *((1 << bit).to_bytes(10, "big") for bit in range(74))]
    assert len({job_id(0, luck) for luck in lucks}) == 75


def test_publication_ids_are_stable() -> None:
    """The id of a publication depends on the job and the name alone, for ever; this one was computed by other means."""
    job = "01998d3b-0000-7000-8000-000000000001"
    assert publication_id(job, "extraction") == publication_id(job, "extraction") == GOLDEN
    assert publication_id(job, "derivative") != GOLDEN


@given(st.uuids().map(str), st.text(max_size=30).filter(lambda name: name.isprintable()))
def test_a_publication_id_is_a_uuid_of_version_8(job: str, name: str) -> None:
    """Publication ids are lower-case UUIDs of the version for derived ids."""
    made = uuid.UUID(publication_id(job, name))
    assert (made.version, made.variant) == (8, uuid.RFC_4122)
    assert check_uuid("id", str(made)) == str(made)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "01998D3B-0000-7000-8000-000000000001",
        "01998d3b000070008000000000000001",
        "{01998d3b-0000-7000-8000-000000000001}",
        "01998d3b-0000-7000-8000-000000000001\n",
        "01998d3b-0000-7000-8000-00000000000١",
        "\udcff",
        7,
        None,
    ],
)
def test_what_is_no_uuid_is_refused(value: str) -> None:
    """Only a lower-case UUID with its dashes is one; the error names field and value."""
    with pytest.raises(InvalidInput, match="job: ") as refused:
        check_uuid("job", value)
    assert (refused.value.field, refused.value.value) == ("job", value)
