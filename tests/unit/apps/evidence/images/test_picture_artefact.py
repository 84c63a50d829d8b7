"""The artefact of a picture analysis and the specimen picture, read by the real ExifTool where it is installed."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from pathlib import Path
from typing import Any

import pytest

from perenne.apps.evidence.derivatives import MAX_ARTEFACT_BYTES
from perenne.apps.evidence.findings import Derivative, Source
from perenne.apps.evidence.images import artefact, exiftool
from perenne.apps.evidence.images.exiftool import Availability, Reading
from perenne.apps.evidence.images.metadata import MAX_TAGS
from perenne.apps.evidence.images.specimen import CREATOR, specimen_picture
from perenne.errors import InvalidInput, RecoveryRequired, TooLarge, ToolFailed

REQUEST = "82000000-0000-4000-8000-000000000022"
REQUESTED_AT = "2026-09-26T21:00:00Z"
SOURCE = Source("82000000-0000-4000-8000-0000000000bb", "cd" * 32, 466)
ANSWER = (
    b'[{\n  "SourceFile": "input.bin",\n  "ExifTool:ExifToolVersion": 12.57,\n  "IFD0:Make": "ACME",\n'
    b'  "GPS:GPSLatitude": 22.90,\n  "XMP-dc:Creator": "SPECIMEN Alice"\n}]\n'
)
EXAMPLES = Path(__file__).parents[5] / "examples" / "evidence"


def built(stdout: bytes = ANSWER, version: str = "12.57") -> Derivative:
    return artefact.build(
        request_id=REQUEST, source=SOURCE, requested_at=REQUESTED_AT, reading=Reading(version, stdout)
    )


def reread(content: bytes) -> Derivative:
    return artefact.reread(content, request_id=REQUEST, source=SOURCE, requested_at=REQUESTED_AT)


def test_fields_of_the_contract() -> None:
    """The artefact holds exactly the fields of labfy.exiftool.metadata.derivative.v1 (L:F-4)."""
    content = json.loads(built().content)
    assert content == {
        "contract": "labfy.exiftool.metadata.derivative.v1",
        "request_id": REQUEST,
        "created_at": REQUESTED_AT,
        "source": {"evidence_id": SOURCE.evidence_id, "sha256": SOURCE.sha256, "size_bytes": 466},
        "adapter": {
            "id": "labfy.adapter.exiftool",
            "version": "1",
            "tool_id": "exiftool",
            "tool_version": "12.57",
            "capability_id": "labfy.capability.exif_metadata.v1",
            "output_contract": "labfy.local_tool_result.v1",
        },
        "parameters": {"mode": "read_only_json", "groups": "G1", "numeric_values": True},
        "execution": {
            "state": "exited",
            "stdout": {
                "encoding": "base64",
                "sha256": hashlib.sha256(ANSWER).hexdigest(),
                "data": base64.b64encode(ANSWER).decode(),
                "retained_bytes": len(ANSWER),
                "observed_bytes": len(ANSWER),
                "complete": True,
            },
        },
        "metadata": [
            entry("metadata.unknown", "ExifTool", "ExifToolVersion", "12.57"),
            entry("image.make", "IFD0", "Make", "ACME"),
            entry("image.gps_latitude", "GPS", "GPSLatitude", "22.90", sensitive=True),
            entry("metadata.unknown", "XMP-dc", "Creator", "SPECIMEN Alice"),
        ],
    }


def entry(code: str, group: str, tag: str, value: str, sensitive: bool = False) -> dict[str, Any]:
    return {"code": code, "group": group, "tag": tag, "value": value, "sensitive": sensitive}


def test_derivative_names_folder_tool_and_summary() -> None:
    """The derivative says where it belongs and which version made it, and carries a summary without the position."""
    derivative = built()
    assert derivative.folder == "02_Preuves_Traitees/Extractions/ExifTool"
    assert derivative.tool_id == "exiftool@12.57"
    assert derivative.description == "Metadata (private artefact): XMP-dc:Creator=SPECIMEN Alice; IFD0:Make=ACME"
    assert derivative.observations == ()


def test_same_answer_gives_same_bytes_and_reads_back() -> None:
    """Building twice gives equal bytes, and reading back gives the same derivative, without observations."""
    assert built().content == built().content
    assert reread(built().content) == built()
    checked = artefact.check(built().content, request_id=REQUEST, source=SOURCE, requested_at=REQUESTED_AT)
    assert checked == ()


def test_an_answer_of_another_version_is_not_kept() -> None:
    """When another version answers than the one that was probed, nothing is published under a wrong name."""
    with pytest.raises(ToolFailed, match=r"13\.10"):
        built(version="13.10")
    built(b'[{"IFD0:Make":"no version told"}]', version="13.10")


def test_an_answer_that_cannot_be_read_is_not_kept() -> None:
    """An answer that is no strict JSON never becomes an artefact."""
    with pytest.raises(ToolFailed):
        built(ANSWER[:-3])


def altered(path: str, value: object) -> bytes:
    content = json.loads(built().content)
    place: Any = content
    *names, last = path.split(".")
    for name in names:
        place = place[int(name) if name.isdigit() else name]
    place[int(last) if last.isdigit() else last] = value
    return json.dumps(content).encode()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("contract", "labfy.exiftool.metadata.derivative.v2"),
        ("request_id", "82000000-0000-4000-8000-000000000099"),
        ("created_at", "2026-09-26T21:00:01Z"),
        ("source.evidence_id", REQUEST),
        ("source.sha256", "ab" * 32),
        ("source.size_bytes", 467),
        ("adapter.id", "other"),
        ("adapter.version", "2"),
        ("adapter.tool_id", "exiftool-json"),
        ("adapter.tool_version", "12.58"),
        ("adapter.capability_id", "other"),
        ("adapter.output_contract", "other"),
        ("parameters.mode", "other"),
        ("parameters.numeric_values", False),
        ("execution.state", "timeout"),
        ("execution.stdout.complete", False),
        ("execution.stdout.sha256", "ab" * 32),
        ("execution.stdout.retained_bytes", 1),
        ("execution.stdout.observed_bytes", 1),
        ("execution.stdout.encoding", "hex"),
        ("execution.stdout.data", "!"),
        ("execution.stdout.data", base64.b64encode(b"[]").decode()),
        ("metadata.1.value", "OTHER"),
        ("metadata.2.sensitive", False),
        ("metadata.2.code", "metadata.unknown"),
        ("metadata.0", {}),
        ("metadata", []),
        ("execution.stderr", ""),
        ("execution.stdout.extra", 1),
        ("extra", 1),
    ],
)
def test_an_artefact_that_says_something_else_is_in_doubt(path: str, value: object) -> None:
    """Any field that differs from the request, from the kept answer or from its type asks for a person."""
    with pytest.raises(RecoveryRequired) as raised:
        reread(altered(path, value))
    assert raised.value.finding


def test_a_finding_never_quotes_the_picture() -> None:
    """What is said about a damaged artefact can be shown anywhere: no value of a tag stands in it."""
    for path in ("metadata.2.value", "execution.stdout.sha256"):
        with pytest.raises(RecoveryRequired) as raised:
            reread(altered(path, "48.123"))
        assert "22.90" not in str(raised.value)
        assert "48.123" not in str(raised.value)


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
            reread(json.dumps(content).encode())


def test_cut_artefacts_are_in_doubt() -> None:
    """An artefact cut at any byte is never taken for whole."""
    content = built().content
    for length in range(0, len(content) - 2, 11):
        with pytest.raises(RecoveryRequired):
            reread(content[:length])


def worst_answer(size_bytes: int) -> bytes:
    """As many tags as allowed, the rest of the bytes filled with what grows most when it is written again."""
    tags = [f'"g:{number:x}":1' for number in range(MAX_TAGS - 1)]
    head = '[{"SourceFile":"input.bin",' + ",".join(tags) + ',"g:long":["'
    marks = "\\\\" * ((size_bytes - len(head) - 4) // 2)
    return f'{head}{marks}"]}}]'.encode()


def test_an_answer_within_the_sure_bound_always_fits() -> None:
    """The answer that grows most, with the most tags, still fits at 256 KiB: no such picture is refused (L:T-22)."""
    answer = worst_answer(artefact.ALWAYS_FITS_BYTES)
    assert artefact.ALWAYS_FITS_BYTES - 2 <= len(answer) <= artefact.ALWAYS_FITS_BYTES
    content = built(answer).content
    assert 0.95 * MAX_ARTEFACT_BYTES < len(content) <= MAX_ARTEFACT_BYTES
    assert reread(content).content == content


def test_an_answer_that_does_not_fit_is_refused_clearly() -> None:
    """A larger answer is kept when it fits, else refused with the size and the limit."""
    plain = b'[{"PNG:Comment":"' + b"a" * 440_000 + b'"}]'
    assert len(built(plain).content) <= MAX_ARTEFACT_BYTES
    with pytest.raises(TooLarge, match="1048576"):
        built(b'[{"PNG:Comment":"' + b"a" * 480_000 + b'"}]')


def test_bounds_of_the_source() -> None:
    """A picture of 16 MiB is published; one byte more is refused, and so is a bad id."""
    edge = Source(SOURCE.evidence_id, SOURCE.sha256, exiftool.MAX_SOURCE_BYTES)
    over = Source(SOURCE.evidence_id, SOURCE.sha256, exiftool.MAX_SOURCE_BYTES + 1)
    reading = Reading("12.57", ANSWER)
    artefact.build(request_id=REQUEST, source=edge, requested_at=REQUESTED_AT, reading=reading)
    with pytest.raises(TooLarge, match="16777216"):
        artefact.build(request_id=REQUEST, source=over, requested_at=REQUESTED_AT, reading=reading)
    with pytest.raises(InvalidInput):
        artefact.build(request_id="x", source=SOURCE, requested_at=REQUESTED_AT, reading=reading)


def test_specimen_picture_is_a_png_of_one_pixel() -> None:
    """The specimen is a whole PNG: signature, chunks with true checksums, one pixel that unpacks."""
    rest = specimen_picture()
    assert rest.startswith(b"\x89PNG\r\n\x1a\n")
    rest = rest[8:]
    chunks = {}
    while rest:
        size = int.from_bytes(rest[:4], "big")
        kind, data, checksum = rest[4:8], rest[8 : 8 + size], rest[8 + size : 12 + size]
        assert zlib.crc32(kind + data) == int.from_bytes(checksum, "big")
        chunks[kind] = data
        rest = rest[12 + size :]
    assert list(chunks) == [b"IHDR", b"iTXt", b"IDAT", b"IEND"]
    assert chunks[b"IHDR"][:8] == b"\0\0\0\x01\0\0\0\x01"
    assert zlib.decompress(chunks[b"IDAT"]) == b"\0\x80"


def test_specimen_picture_never_changes() -> None:
    """The bytes of the specimen are fixed, whatever the version of zlib."""
    digest = "0b11df96bff34755a42ddb8bfde3b795009a69cf47ffc5540a3c2b4ec18ba0b8"
    assert hashlib.sha256(specimen_picture()).hexdigest() == digest


def published(picture: Path, tool: Availability, stage: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """The tags of a picture as its artefact holds them, after a whole round through build and reread."""
    content = picture.read_bytes()
    source = Source(SOURCE.evidence_id, hashlib.sha256(content).hexdigest(), len(content))
    stage.mkdir(mode=0o700)
    reading = exiftool.read(picture.parent, picture.name, source, tool, stage=stage)
    derivative = artefact.build(request_id=REQUEST, source=source, requested_at=REQUESTED_AT, reading=reading)
    assert (
        artefact.reread(derivative.content, request_id=REQUEST, source=source, requested_at=REQUESTED_AT) == derivative
    )
    return {(item["group"], item["tag"]): item for item in json.loads(derivative.content)["metadata"]}


def test_real_tool_reads_the_creator_of_the_specimen(real_tool: Availability, tmp_path: Path) -> None:
    """The XMP packet that we wrote byte by byte is read back by ExifTool, and stands in the summary."""
    (tmp_path / "specimen.png").write_bytes(specimen_picture())
    tags = published(tmp_path / "specimen.png", real_tool, tmp_path / "stage")
    assert tags["XMP-dc", "Creator"]["value"] == CREATOR
    assert ("ExifTool", "Warning") not in tags


def test_real_position_is_flagged(real_tool: Availability, tmp_path: Path) -> None:
    """Under the names that ExifTool really prints, the position has its codes and its flag (L:T-18)."""
    tags = published(EXAMPLES / "img" / "own-gps-south-west.jpg", real_tool, tmp_path / "stage")
    latitude = tags["GPS", "GPSLatitude"]
    assert (latitude["code"], latitude["sensitive"]) == ("image.gps_latitude", True)
    assert tags["GPS", "GPSLongitude"]["code"] == "image.gps_longitude"
    assert tags["Composite", "GPSPosition"]["sensitive"]
    assert tags["IFD0", "Model"]["code"] == "image.model"
    assert tags["System", "FileSize"]["code"] == "file.size_bytes"


def test_own_pictures_agree_with_their_facts(real_tool: Availability, tmp_path: Path) -> None:
    """Type, size, maker, model and dates of each of our pictures are the ones it was built with."""
    pictures = sorted((EXAMPLES / "img").iterdir())
    assert len(pictures) == 6
    for picture in pictures:
        facts = json.loads((EXAMPLES / "facts" / f"{picture.name}.json").read_text("utf-8"))
        tags = published(picture, real_tool, tmp_path / picture.name)
        by_code = {item["code"]: item["value"] for item in tags.values()}
        assert by_code["file.mime_type"] == facts["mime"]
        assert (by_code["image.width"], by_code["image.height"]) == (str(facts["width"]), str(facts["height"]))
        for code, fact in (("image.make", "make"), ("image.model", "model"), ("image.software", "software")):
            assert by_code.get(code) == facts.get(fact)
        if facts.get("datetime_original"):
            assert by_code["image.datetime_original"] == facts["datetime_original"]


def test_shared_pictures_are_read_or_refused_by_name(
    real_tool: Availability, shared_data: Path, tmp_path: Path
) -> None:
    """Every collected picture is published; the one damaged PNG is refused as no picture."""
    refused = []
    for picture in sorted((shared_data / "evidence" / "img").iterdir()):
        try:
            assert published(picture, real_tool, tmp_path / picture.name)
        except InvalidInput:
            refused.append(picture.name)
    assert refused == ["pngsuite-xlfn0g04.png"]
