"""What may be asked of a piece of evidence, and under which ids."""

from __future__ import annotations

import msgspec
import pytest

from perenne.apps.evidence import app, requests
from perenne.apps.evidence.rows import Evidence
from perenne.errors import InvalidInput

KEY = "11111111-2222-4333-8444-555555555555"
MAIL = Evidence(
    id="82000000-0000-4000-8000-000000000001",
    type="email",
    original_name="a.eml",
    relative_path="01_Preuves_Originales/Emails/a.eml",
    size_bytes=100,
    sha256="ab" * 32,
    mime_type="message/rfc822",
    description=None,
    source=None,
    collected_at=None,
    imported_at="2026-09-26T20:00:00Z",
)
PICTURE = msgspec.structs.replace(MAIL, id="82000000-0000-4000-8000-000000000002", type="photo")


def test_ids_follow_from_the_key() -> None:
    """The job is the key itself; extraction and derivative are its SHA-256 in the form of the reference (L:Q-6)."""
    request = requests.request_of(MAIL, requests.MAIL_HEADERS, KEY)
    assert (request.job_id, request.requested_at, request.depends_on) == (KEY, None, ())
    assert request.extraction_id == "f39797f9-2512-48af-8134-7b58558dd399"
    assert request.derivative_id == "64dcf9e4-15ca-45e9-8340-99ad71623624"
    assert request.unique_key == f"{MAIL.id}×{requests.MAIL_HEADERS}"


@pytest.mark.parametrize("evidence", [MAIL, PICTURE], ids=["mail", "picture"])
def test_the_input_fits_its_kind_and_is_fixed(evidence: Evidence) -> None:
    """The input names the source and the fixed parameters of the contract, and the kind accepts it as it is."""
    request = requests.own_request(evidence)
    assert request is not None
    wanted = {
        "email": b'"parameters":{"mode":"headers"}',
        "photo": b'"parameters":{"groups":"G1","numeric_values":true}',
    }[evidence.type]
    encoded = app.kind(request.capability).encode_input(request.input)
    assert wanted in encoded
    assert app.kind(request.capability).read_input(encoded) == request.input
    assert (request.input.source_sha256, request.input.source_size) == (evidence.sha256, evidence.size_bytes)


@pytest.mark.parametrize(
    "parameters",
    [{}, {"groups": "G1"}, {"groups": "G0", "numeric_values": True}, {"groups": "G1", "numeric_values": False}],
)
def test_other_parameters_are_refused(parameters: dict[str, object]) -> None:
    """Only the parameters of the contract are accepted."""
    given = {"evidence_id": PICTURE.id, "source_sha256": PICTURE.sha256, "source_size": 1, "parameters": parameters}
    with pytest.raises(InvalidInput, match=r"parameters|numeric_values"):
        app.kind(requests.PICTURE_METADATA).encode_input(given)


def test_a_key_of_another_form_is_refused() -> None:
    """A key that is no UUID in lower case is named."""
    with pytest.raises(InvalidInput, match="key: 'ABC' is not a UUID"):
        requests.request_of(MAIL, requests.MAIL_HEADERS, "ABC")


def test_a_capability_applies_to_its_type_only() -> None:
    """A capability that does not apply is refused with the one that does; what has none is passed over."""
    with pytest.raises(InvalidInput, match=f"of type photo; what applies is {requests.PICTURE_METADATA}"):
        requests.request_of(PICTURE, requests.MAIL_HEADERS, KEY)
    assert requests.own_request(msgspec.structs.replace(MAIL, type="text")) is None


def test_own_requests_repeat_themselves() -> None:
    """Asking twice for the same original gives the same request, for another one another."""
    assert requests.own_request(MAIL) == requests.own_request(MAIL)
    other = msgspec.structs.replace(MAIL, id=PICTURE.id)
    assert requests.own_request(other) != requests.own_request(MAIL)


def test_the_specimen_has_its_fixed_ids() -> None:
    """The two jobs of a specimen have the ids and the instant of the reference; the picture waits for the mail."""
    mail, picture = requests.specimen_requests(MAIL, PICTURE)
    ids = [(one.job_id[-2:], one.extraction_id[-2:], one.derivative_id[-2:]) for one in (mail, picture)]
    assert ids == [("11", "12", "13"), ("21", "22", "23")]
    assert {mail.requested_at, picture.requested_at} == {"2026-09-26T21:00:00Z"}
    assert (mail.depends_on, picture.depends_on) == ((), (mail.job_id,))
