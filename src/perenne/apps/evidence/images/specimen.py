"""The picture of the demonstration workspace, a PNG of one pixel written byte by byte, so that no tool is needed.

Source: PNG specification, third edition (W3C 2025), sections 5.3, 11.2 and 11.3.3.4; XMP specification part 3, 1.1.5.
"""

from __future__ import annotations

import struct
import zlib

CREATOR = "SPECIMEN Alice"

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_PACKET = (
    '<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>'
    '<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">'
    '<rdf:Description rdf:about="" xmlns:dc="http://purl.org/dc/elements/1.1/">'
    f"<dc:creator><rdf:Seq><rdf:li>{CREATOR}</rdf:li></rdf:Seq></dc:creator>"
    '</rdf:Description></rdf:RDF></x:xmpmeta><?xpacket end="r"?>'
)


def specimen_picture() -> bytes:
    """A grey pixel with an XMP packet that names its creator; always the same bytes."""
    header = struct.pack(">IIBBBBB", 1, 1, 8, 0, 0, 0, 0)
    text = b"XML:com.adobe.xmp\0\0\0\0\0" + _PACKET.encode("utf-8")
    chunks = ((b"IHDR", header), (b"iTXt", text), (b"IDAT", _stored(b"\0\x80")), (b"IEND", b""))
    return _SIGNATURE + b"".join(_chunk(kind, data) for kind, data in chunks)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def _stored(data: bytes) -> bytes:
    """A zlib stream with one stored block, because compressed bytes differ between versions of zlib."""
    block = b"\x01" + struct.pack("<HH", len(data), len(data) ^ 0xFFFF) + data
    return b"\x78\x01" + block + struct.pack(">I", zlib.adler32(data))
