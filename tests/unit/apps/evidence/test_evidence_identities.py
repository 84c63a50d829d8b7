"""Ids and instants of the Evidence application: derived, fixed, and checked."""

from __future__ import annotations

import hashlib

import pytest

from perenne.apps.evidence import identities
from perenne.errors import InvalidInput

KEY = "0b7e5d0e-9a86-4a55-9d0c-5f0c5ee0a001"
AT = "2026-09-26T21:00:00Z"


def test_derivation_is_that_of_the_reference() -> None:
    """An id is cut from the SHA-256 of `key:purpose` as 8-4-`4`+3-`8`+3-12 (L:Q-6)."""
    digits = hashlib.sha256(f"{KEY}:request".encode()).hexdigest()
    expected = f"{digits[0:8]}-{digits[8:12]}-4{digits[12:15]}-8{digits[15:18]}-{digits[18:30]}"
    assert identities.derive(KEY, "request") == expected
    assert len(expected) == 36


def test_derivation_is_fixed_for_ever() -> None:
    """Two known keys give the ids they always gave."""
    assert identities.derive(KEY, "request") == "53cdd03f-3b02-4972-85e4-40b91f4622d6"
    assert identities.derive(KEY, "derivative") == "9e8cf909-0858-4f00-8273-cb64c7e2ffcd"


def test_identity_of_a_key() -> None:
    """A client key and an instant give one identity, with two different ids."""
    identity = identities.identity_of(KEY, AT)
    assert identity == identities.identity_of(KEY, AT)
    assert identity.extraction_id == identities.derive(KEY, "request")
    assert identity.derivative_id == identities.derive(KEY, "derivative")
    assert identity.requested_at == AT


def test_specimen_ids_are_fixed() -> None:
    """The jobs of the demonstration have the ids and the instant of L:2.23."""
    mail, image = identities.SPECIMEN_MAIL, identities.SPECIMEN_IMAGE
    base = "82000000-0000-4000-8000-0000000000"
    assert (mail.job_id, mail.extraction_id, mail.derivative_id) == (f"{base}11", f"{base}12", f"{base}13")
    assert (image.job_id, image.extraction_id, image.derivative_id) == (f"{base}21", f"{base}22", f"{base}23")
    assert mail.identity.requested_at == image.identity.requested_at == AT


def test_evidence_id_follows_content_and_investigation() -> None:
    """The same bytes in the same investigation have one id; another investigation or content has another."""
    first = identities.evidence_id_of(KEY, "a" * 64)
    assert first == identities.evidence_id_of(KEY, "a" * 64)
    assert first != identities.evidence_id_of(KEY, "b" * 64)
    assert first != identities.evidence_id_of(identities.SPECIMEN_MAIL.job_id, "a" * 64)
    identities.check_uuid("id", first)


@pytest.mark.parametrize("value", ["", "x", KEY.upper(), KEY + "\n", KEY.replace("-", ""), f"{{{KEY}}}", 7, None])
def test_no_uuid_is_refused(value: object) -> None:
    """Only a UUID in lower case passes; the error names the field."""
    with pytest.raises(InvalidInput, match=r"^key: "):
        identities.check_uuid("key", value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "value",
    [
        "2026-09-26T21:00:00",
        "2026-09-26 21:00:00Z",
        "2026-09-26T21:00:00z",
        "2026-13-26T21:00:00Z",
        "2026-02-30T21:00:00Z",
        "2026-09-26T21:00:00Z\n",
        "२०२६-09-26T21:00:00Z",
        "2026-09-26T24:00:00Z",
        20,
    ],
)
def test_no_instant_is_refused(value: object) -> None:
    """An instant has 20 characters and exists; anything else is refused, naming the field."""
    with pytest.raises(InvalidInput, match=r"^requested_at: "):
        identities.check_instant("requested_at", value)  # type: ignore[arg-type]


def test_identity_needs_two_ids() -> None:
    """An extraction and its derivative never share an id."""
    with pytest.raises(InvalidInput, match="two different ids"):
        identities.check_identity(identities.Identity(KEY, KEY, AT))
