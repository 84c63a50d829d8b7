"""The artefact of a mail analysis: what is written, and what is refused when it is read back."""

from __future__ import annotations

import json
from typing import Any

import pytest

from perenne.apps.evidence.derivatives import MAX_ARTEFACT_BYTES
from perenne.apps.evidence.findings import Derivative, Observation, Source
from perenne.apps.evidence.mail_headers import artefact
from perenne.apps.evidence.mail_headers.analyser import analyse
from perenne.apps.evidence.mail_headers.specimen import specimen_mail
from perenne.errors import DoubtError, InvalidInput, RecoveryRequired, TooLarge

REQUEST = "82000000-0000-4000-8000-000000000012"
REQUESTED_AT = "2026-09-26T21:00:00Z"
SOURCE = Source("82000000-0000-4000-8000-0000000000aa", "ab" * 32, 780)


def built(observations: tuple[Observation, ...] | None = None) -> Derivative:
    found = analyse(specimen_mail()) if observations is None else observations
    return artefact.build(request_id=REQUEST, source=SOURCE, requested_at=REQUESTED_AT, observations=found)


def checked(content: bytes) -> tuple[Observation, ...]:
    return artefact.check(content, request_id=REQUEST, source=SOURCE, requested_at=REQUESTED_AT)


def test_fields_of_the_contract() -> None:
    """The artefact holds exactly the fields of labfy.eml_analysis.derivative.v1 (L:L-3)."""
    content = json.loads(built().content)
    observations = content.pop("observations")
    assert content == {
        "contract": "labfy.eml_analysis.derivative.v1",
        "request_id": REQUEST,
        "created_at": REQUESTED_AT,
        "source": {"evidence_id": SOURCE.evidence_id, "sha256": SOURCE.sha256, "size_bytes": 780},
        "analyzer": {"id": "labfy.eml_analyzer", "version": "1"},
        "parameters": {"scope": "headers-only", "max_source_bytes": 4 * 1024 * 1024, "max_observations": 256},
    }
    assert len(observations) == 8
    assert observations[0] == {
        "type": "email_address",
        "value_raw": "alice@example.test",
        "value_normalized": "alice@example.test",
        "role": "from",
        "source_header": "from",
        "occurrence": 1,
        "provenance_kind": "header",
    }


def test_derivative_names_folder_and_tool() -> None:
    """The derivative says where it belongs and which analyser made it."""
    derivative = built()
    assert derivative.folder == "02_Preuves_Traitees/Extractions/EML"
    assert derivative.tool_id == "labfy.eml_analyzer"
    assert derivative.observations == analyse(specimen_mail())
    assert "8 proposals" in derivative.description


def test_same_analysis_gives_same_bytes() -> None:
    """Two builds from the same mail are equal byte for byte."""
    assert built().content == built().content


def test_reading_back_gives_the_same_derivative() -> None:
    """What was built is read back whole, also when it holds nothing."""
    assert artefact.reread(built().content, request_id=REQUEST, source=SOURCE, requested_at=REQUESTED_AT) == built()
    assert checked(built(()).content) == ()


def test_other_spacing_is_still_the_same_artefact() -> None:
    """An artefact that another program wrote with other spacing is accepted: the fields count."""
    spaced = json.dumps(json.loads(built().content), indent=1).encode()
    assert checked(spaced) == analyse(specimen_mail())


def altered(change: dict[str, Any] | str, value: Any = None) -> bytes:
    """The built artefact with one field replaced, given by its dotted path."""
    content = json.loads(built().content)
    place = content
    *path, last = str(change).split(".")
    for name in path:
        place = place[int(name) if name.isdigit() else name]
    place[last] = value
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("contract", "labfy.eml_analysis.derivative.v2"),
        ("request_id", "82000000-0000-4000-8000-000000000099"),
        ("created_at", "2026-09-26T21:00:01Z"),
        ("source.evidence_id", "82000000-0000-4000-8000-0000000000ab"),
        ("source.sha256", "cd" * 32),
        ("source.size_bytes", 781),
        ("source.size_bytes", "780"),
        ("analyzer.version", "2"),
        ("parameters.scope", "everything"),
        ("parameters.max_observations", 512),
        ("extra", 1),
        ("source.extra", 1),
        ("observations.0.extra", 1),
        ("observations.0.occurrence", 0),
        ("observations.0.occurrence", "1"),
        ("observations.0.occurrence", True),
        ("observations.0.occurrence", 1.5),
        ("observations.0.value_raw", ""),
        ("observations.0.role", None),
        ("observations", {}),
    ],
)
def test_an_artefact_that_says_something_else_is_in_doubt(path: str, value: object) -> None:
    """Any field that differs from the request, or from its type, asks for a person and names the finding."""
    with pytest.raises(RecoveryRequired) as raised:
        checked(altered(path, value))
    assert isinstance(raised.value, DoubtError)
    assert raised.value.finding
    assert raised.value.finding in str(raised.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[]",
        b"{}",
        b"\xff",
        b"null",
        b'{"contract":1}',
        b"[" * 100_000,
        b"{" * 100_000,
        b" " * (MAX_ARTEFACT_BYTES + 1),
        '{"contract":"\ud800"}'.encode("utf-8", "surrogatepass"),
        b'{"contract":"\\ud800"}',
    ],
    ids=[
        "empty",
        "list",
        "bare",
        "no-utf8",
        "null",
        "number",
        "deep-list",
        "deep-object",
        "large",
        "wtf8",
        "surrogate",
    ],
)
def test_what_is_no_artefact_is_in_doubt(content: bytes) -> None:
    """Damaged bytes of any form ask for a person; nothing else is ever raised."""
    with pytest.raises(RecoveryRequired):
        checked(content)


def test_a_key_that_stands_twice_is_in_doubt() -> None:
    """A repeated key, which other readers would settle differently, is refused."""
    content = built().content.replace(b'{"contract"', b'{"request_id":"x","contract"', 1)
    with pytest.raises(RecoveryRequired, match="twice"):
        checked(content)


def test_repeated_or_too_many_observations_are_in_doubt() -> None:
    """An artefact whose observations the catalogue could not hold is refused."""
    content = json.loads(built().content)
    content["observations"].append(content["observations"][0])
    with pytest.raises(RecoveryRequired, match="twice"):
        checked(json.dumps(content).encode())
    row = content["observations"][0]
    content["observations"] = [row | {"occurrence": number} for number in range(1, 258)]
    with pytest.raises(RecoveryRequired):
        checked(json.dumps(content).encode())


def objects_in(value: Any) -> list[dict[str, Any]]:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    return [value] * isinstance(value, dict) + [found for item in inner for found in objects_in(item)]


def test_no_field_may_be_missing() -> None:
    """An artefact without any one of its fields is refused; no default stands in for it."""
    names = [(index, name) for index, part in enumerate(objects_in(json.loads(built().content))) for name in part]
    assert len(names) > 30
    for index, name in names:
        content = json.loads(built().content)
        del objects_in(content)[index][name]
        with pytest.raises(RecoveryRequired):
            checked(json.dumps(content).encode())


def test_cut_artefacts_are_in_doubt() -> None:
    """An artefact cut at any byte (a torn write) is never taken for whole."""
    content = built().content
    for length in range(0, len(content) - 2, 7):
        with pytest.raises(RecoveryRequired):
            checked(content[:length])


def test_a_source_over_its_bound_is_not_published() -> None:
    """A mail of 4 MiB is published; one byte more is refused."""
    edge = Source(SOURCE.evidence_id, SOURCE.sha256, 4 * 1024 * 1024)
    over = Source(SOURCE.evidence_id, SOURCE.sha256, 4 * 1024 * 1024 + 1)
    artefact.build(request_id=REQUEST, source=edge, requested_at=REQUESTED_AT, observations=())
    with pytest.raises(TooLarge, match="4194304"):
        artefact.build(request_id=REQUEST, source=over, requested_at=REQUESTED_AT, observations=())


def test_an_artefact_over_its_bound_is_not_published() -> None:
    """An artefact over 1 MiB and one with too many observations are refused before anything is written."""
    long = Observation("domain_name", "x" * MAX_ARTEFACT_BYTES, "x", "from", "from", 1, "header")
    with pytest.raises(TooLarge, match="1048576"):
        built((long,))
    with pytest.raises(TooLarge, match="256"):
        built(tuple(Observation("domain_name", "x", "x", "from", "from", n, "header") for n in range(1, 258)))


@pytest.mark.parametrize(
    ("request_id", "source", "requested_at"),
    [
        ("not-a-uuid", SOURCE, REQUESTED_AT),
        (REQUEST, Source("x", SOURCE.sha256, 1), REQUESTED_AT),
        (REQUEST, Source(SOURCE.evidence_id, SOURCE.sha256, 0), REQUESTED_AT),
        (REQUEST, Source(SOURCE.evidence_id, "AB" * 32, 1), REQUESTED_AT),
        (REQUEST, SOURCE, "2026-09-26T21:00:00+00:00"),
        (REQUEST, SOURCE, "2026-02-30T21:00:00Z"),
    ],
)
def test_a_bad_identity_is_refused(request_id: str, source: Source, requested_at: str) -> None:
    """Ids, digest and instant have one form each; anything else is refused by name."""
    with pytest.raises(InvalidInput):
        artefact.build(request_id=request_id, source=source, requested_at=requested_at, observations=())


def test_the_largest_analysis_fits() -> None:
    """256 observations of the longest addresses stay within the bound of the artefact, so every result can be kept."""
    domain = ".".join(["d" * 62] * 3 + ["test"])
    lines = [f"{number:03}{'u' * (316 - len(domain))}@{domain}" for number in range(128)]
    found = analyse(("To: " + ", ".join(lines) + "\n\n").encode())
    assert len(found) == 256
    assert max(len(o.value_raw) for o in found) == 320
    assert len(built(found).content) <= MAX_ARTEFACT_BYTES
