"""What ExifTool said about one picture, tag by tag: strict reading, codes, what is sensitive, the short summary.

Pure functions on the tool's output. Not here: running the tool (`exiftool`) and keeping its answer (`artefact`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from perenne.apps.evidence import strict_json
from perenne.errors import InvalidInput, TooLarge, ToolFailed

MAX_TAGS = 2048
MAX_DEPTH = 16
SUMMARY_BYTES = 480
SUMMARY_TAGS = 6
UNKNOWN = "metadata.unknown"

# The codes are those of the reference contract; it knew the groups of family 0, `-G1` prints those of family 1.
_EXIF_GROUPS = frozenset({"EXIF", "IFD0", "ExifIFD"})
_SIZE_GROUPS = _EXIF_GROUPS | {"File", "PNG", "RIFF"}
_POSITION_GROUPS = frozenset({"EXIF", "GPS", "XMP-exif"})
_CODES: dict[str, tuple[str, frozenset[str]]] = {
    "MIMEType": ("file.mime_type", frozenset({"File"})),
    "FileSize": ("file.size_bytes", frozenset({"File", "System"})),
    "FileTypeExtension": ("file.detected_extension", frozenset({"File"})),
    "ImageWidth": ("image.width", _SIZE_GROUPS),
    "ImageHeight": ("image.height", _SIZE_GROUPS),
    "Orientation": ("image.orientation", _EXIF_GROUPS),
    "Software": ("image.software", _EXIF_GROUPS),
    "Make": ("image.make", _EXIF_GROUPS),
    "Model": ("image.model", _EXIF_GROUPS),
    "DateTimeOriginal": ("image.datetime_original", _EXIF_GROUPS),
    "GPSLatitude": ("image.gps_latitude", _POSITION_GROUPS),
    "GPSLongitude": ("image.gps_longitude", _POSITION_GROUPS),
}
_POSITION_WORDS = ("latitude", "longitude", "altitude", "coordinate", "location")
_NO_POSITION = frozenset(
    {
        "gpsversionid",
        "gpstimestamp",
        "gpsdatestamp",
        "gpsdatetime",
        "country-primarylocationname",
        "country-primarylocationcode",
    }
)


class Tag(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One tag: its code in the contract, the group and name that ExifTool gives it, its value as text."""

    code: str
    group: str
    tag: str
    value: str
    sensitive: bool


def tags_of(stdout: bytes) -> tuple[Tag, ...]:
    """The tags in the order of the answer; numbers as they stand, null as `null`, lists as JSON text (L:F-3).

    `SourceFile`, the only key without a group, names the private copy and is left out.

    Raises:
        ToolFailed: the answer is no strict JSON array of one object with keys `Group:Tag`.
        TooLarge: more than 2048 tags.
    """
    try:
        answer = strict_json.read(stdout, max_depth=MAX_DEPTH, numbers_as_text=True)
    except InvalidInput as error:
        raise ToolFailed(f"the answer of ExifTool cannot be read: {error}; run the analysis again") from error
    if not (isinstance(answer, list) and len(answer) == 1 and isinstance(answer[0], dict)):
        raise ToolFailed("the answer of ExifTool is not one object in one array; run the analysis again")
    answer[0].pop("SourceFile", None)
    if len(answer[0]) > MAX_TAGS:
        raise TooLarge(
            f"ExifTool found {len(answer[0])} tags, the limit is {MAX_TAGS}; look at this picture with another tool",
            tags=len(answer[0]),
            limit=MAX_TAGS,
        )
    return tuple(_tag(key, value) for key, value in answer[0].items())


def code_of(group: str, tag: str) -> str:
    """The code of a tag in the contract, `metadata.unknown` for those it does not know."""
    code, groups = _CODES.get(tag, (UNKNOWN, frozenset()))
    return code if group in groups else UNKNOWN


def is_sensitive(group: str, tag: str) -> bool:
    """Whether a tag may say where the picture was taken (L:T-18): by group, by name, in any family of names."""
    name = tag.lower()
    if name in _NO_POSITION:
        return False
    return group == "GPS" or name.startswith("gps") or any(word in name for word in _POSITION_WORDS)


def summary_of(tags: Iterable[Tag]) -> str:
    """One line for the evidence row: at most 6 tags and 480 bytes, XMP first, then EXIF, then PNG (L:F-5).

    Sensitive tags, and all that only describes the private copy, never stand in it.
    """
    shown = [f"{tag.group}:{tag.tag}={_one_line(tag.value)}" for tag in _worth_showing(tuple(tags))][:SUMMARY_TAGS]
    text = "Metadata (private artefact): " + ("; ".join(shown) or "no tag for a summary")
    return text.encode("utf-8")[:SUMMARY_BYTES].decode("utf-8", "ignore")


def _tag(key: str, value: Any) -> Tag:
    group, colon, name = key.partition(":")
    if not (group and colon and name):
        raise ToolFailed(f"the answer of ExifTool has the key {key[:80]!r}, which is not Group:Tag; run it again")
    text = value if isinstance(value, str) else strict_json.text_of(value)
    return Tag(code_of(group, name), group, name, str(text), is_sensitive(group, name))


def _worth_showing(tags: tuple[Tag, ...]) -> Iterator[Tag]:
    for is_wanted in (_is_xmp, _is_exif, _is_png):
        yield from (tag for tag in tags if is_wanted(tag.group) and tag.value and not tag.sensitive)


def _is_xmp(group: str) -> bool:
    return group.startswith("XMP")


def _is_exif(group: str) -> bool:
    return group in _EXIF_GROUPS


def _is_png(group: str) -> bool:
    return group == "PNG"


def _one_line(value: str) -> str:
    return " ".join("".join(letter if letter.isprintable() else " " for letter in value).split())
