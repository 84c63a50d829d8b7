"""What ExifTool's answer means: strict reading, values as text, codes, sensitive tags, the summary."""

from __future__ import annotations

import json

import pytest

from perenne.apps.evidence.images.metadata import (
    MAX_DEPTH,
    MAX_TAGS,
    SUMMARY_BYTES,
    UNKNOWN,
    Tag,
    is_sensitive,
    summary_of,
    tags_of,
)
from perenne.errors import TooLarge, ToolFailed


def tag(group: str, name: str, value: str = "v", sensitive: bool = False) -> Tag:
    return Tag(UNKNOWN, group, name, value, sensitive)


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ('"text"', "text"),
        ('"000123450"', "000123450"),
        ("1.10", "1.10"),
        ("1e5", "1e5"),
        ("22.9519161111111", "22.9519161111111"),
        ("12345678901234567890", "12345678901234567890"),
        ("null", "null"),
        ("true", "true"),
        ('["a",1.50,"\u00e9"]', '["a",1.50,"\u00e9"]'),
        ('{"x": [1, null]}', '{"x":[1,null]}'),
        ('""', ""),
    ],
)
def test_values_become_text_as_they_stand(written: str, value: str) -> None:
    """A string is kept, a number keeps its digits, null is the word, everything else its JSON text (L:F-3)."""
    assert tags_of(f'[{{"IFD0:Make": {written}}}]'.encode()) == (Tag("image.make", "IFD0", "Make", value, False),)


def test_order_is_kept_and_source_file_left_out() -> None:
    """Tags keep the order of the answer; the name of the private copy is none of them."""
    answer = b'[{"SourceFile":"input.bin","PNG:B":1,"XMP-dc:A-fr":2,"IFD0:C:D":3}]'
    assert [(found.group, found.tag) for found in tags_of(answer)] == [
        ("PNG", "B"),
        ("XMP-dc", "A-fr"),
        ("IFD0", "C:D"),
    ]


@pytest.mark.parametrize(
    "answer",
    [
        b"",
        b"[]",
        b"{}",
        b"[1]",
        b"[{},{}]",
        b'[{"A:B":1}',
        b'[{"A:B":1,"A:B":2}]',
        b'[{"A:B":NaN}]',
        b'[{"NoGroup":1}]',
        b'[{":B":1}]',
        b'[{"A:":1}]',
        b'[{"A:B":"\xff"}]',
        b'[{"A:B":"\\ud800"}]',
        b"[" * 200_000,
        b'[{"A:B":' + b"[" * (MAX_DEPTH - 1) + b"]" * (MAX_DEPTH - 1) + b"}]",
    ],
)
def test_an_answer_that_is_not_strict_is_refused(answer: bytes) -> None:
    """Anything but one object with unique keys `Group:Tag`, in UTF-8 and not too deep, is a failure of the tool."""
    with pytest.raises(ToolFailed):
        tags_of(answer)


def test_depth_and_number_of_tags_are_bounded_exactly() -> None:
    """16 levels and 2048 tags are read; one more tag is refused with the limit."""
    tags_of(b'[{"A:B":' + b"[" * (MAX_DEPTH - 2) + b"]" * (MAX_DEPTH - 2) + b"}]")
    answer = {f"A:T{number}": number for number in range(MAX_TAGS)}
    assert len(tags_of(json.dumps([{"SourceFile": "input.bin"} | answer]).encode())) == MAX_TAGS
    with pytest.raises(TooLarge, match="2048"):
        tags_of(json.dumps([answer | {"A:More": 1}]).encode())


@pytest.mark.parametrize(
    ("key", "code"),
    [
        ("File:MIMEType", "file.mime_type"),
        ("System:FileSize", "file.size_bytes"),
        ("File:FileSize", "file.size_bytes"),
        ("File:FileTypeExtension", "file.detected_extension"),
        ("PNG:ImageWidth", "image.width"),
        ("File:ImageHeight", "image.height"),
        ("IFD0:Orientation", "image.orientation"),
        ("EXIF:Software", "image.software"),
        ("IFD0:Make", "image.make"),
        ("IFD0:Model", "image.model"),
        ("ExifIFD:DateTimeOriginal", "image.datetime_original"),
        ("GPS:GPSLatitude", "image.gps_latitude"),
        ("GPS:GPSLongitude", "image.gps_longitude"),
        ("EXIF:GPSLatitude", "image.gps_latitude"),
        ("IFD1:ImageWidth", UNKNOWN),
        ("Composite:GPSLatitude", UNKNOWN),
        ("XMP-dc:Creator", UNKNOWN),
    ],
)
def test_codes_are_given_to_the_names_that_the_tool_really_prints(key: str, code: str) -> None:
    """Known tags have their code under the groups of `-G1` and of the older family; others are kept unknown."""
    assert tags_of(json.dumps([{key: "1"}]).encode())[0].code == code


@pytest.mark.parametrize(
    "key",
    [
        "GPS:GPSLatitude",
        "GPS:GPSLongitude",
        "GPS:GPSLatitudeRef",
        "GPS:GPSAltitude",
        "GPS:GPSDestLongitude",
        "EXIF:GPSLatitude",
        "EXIF:GPSLongitude",
        "Composite:GPSPosition",
        "XMP-exif:GPSLatitude",
        "Keys:GPSCoordinates",
        "XMP-iptcCore:Location",
        "IPTC:Sub-location",
        "XMP-iptcExt:LocationShownGPSLatitude",
        "MakerNotes:CameraLatitude",
        "GPS:AnythingElse",
    ],
)
def test_positions_are_sensitive(key: str) -> None:
    """Whatever may say where a picture was taken is flagged, in the groups of either family (L:T-18)."""
    assert is_sensitive(*key.split(":"))
    assert tags_of(json.dumps([{key: "1"}]).encode())[0].sensitive


@pytest.mark.parametrize(
    "key", ["GPS:GPSVersionID", "GPS:GPSTimeStamp", "IFD0:Make", "IPTC:Country-PrimaryLocationName"]
)
def test_what_is_no_position_is_not_sensitive(key: str) -> None:
    """The flag is not spent on versions, times, countries and makers."""
    assert not is_sensitive(*key.split(":"))


def test_summary_takes_xmp_first_then_exif_then_png() -> None:
    """At most six tags: XMP, then EXIF, then PNG; never System, File, sensitive or empty ones (L:F-5)."""
    tags = (
        tag("System", "FileName", "input.bin"),
        tag("File", "MIMEType"),
        tag("PNG", "Title", "t"),
        tag("IFD0", "Make", "m"),
        tag("GPS", "GPSLatitude", "48.1", sensitive=True),
        tag("XMP-exif", "GPSLatitude", "48.1", sensitive=True),
        tag("ExifIFD", "UserComment", "two\nlines\x00"),
        tag("IFD0", "Artist", ""),
        tag("XMP-dc", "Creator", "c"),
        tag("Composite", "ImageSize"),
    )
    assert summary_of(tags) == (
        "Metadata (private artefact): XMP-dc:Creator=c; IFD0:Make=m; ExifIFD:UserComment=two lines; PNG:Title=t"
    )
    assert summary_of([tag("XMP-dc", f"T{number}") for number in range(9)]).count("XMP-dc:") == 6
    assert summary_of([]) == "Metadata (private artefact): no tag for a summary"


@pytest.mark.parametrize("shift", range(4))
def test_summary_is_cut_between_characters(shift: int) -> None:
    """The summary has at most 480 bytes and never ends in half a character."""
    text = summary_of([tag("XMP-dc", "Creator", "x" * shift + "\U0001f4f7" * 300)])
    size = len(text.encode("utf-8"))
    assert SUMMARY_BYTES - 3 <= size <= SUMMARY_BYTES
    assert text.endswith("\U0001f4f7")
