"""How much of a mail is read at most; every bound that is hit stands in the artefact.

Here: the bounds. Not here: bounds of time and memory, which belong to the process that runs the analysis.
"""

from __future__ import annotations

import msgspec

_MIB = 1 << 20


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The bounds of one analysis; what lies behind a bound is left out and noted as `limits_hit`.

    `file_bytes`: bytes of the file that are read. `header_block_bytes`: bytes of one header block that are looked
    at. `value_bytes`: bytes of one value that are decoded (its raw text is kept whole). `fields`: fields in one
    header block. `depth`: multiparts within each other. `nested_messages`: messages within each other that are
    entered; at 0 a nested message is hashed and not entered. `messages`: messages in all. `parts`: parts in all.
    `addresses`: addresses in all. `parameter_sections`: parameters of one field. `decoded_bytes`: decoded bytes in
    all. `text_bytes`: decoded bytes of text that are kept and looked through for links, in all. `links`: links in
    all. `link_bytes`: characters of one link. `defects`: defects that are listed.
    """

    file_bytes: int = 100 * _MIB
    header_block_bytes: int = _MIB
    value_bytes: int = 64 << 10
    fields: int = 10_000
    depth: int = 64
    nested_messages: int = 16
    messages: int = 1_000
    parts: int = 5_000
    addresses: int = 10_000
    parameter_sections: int = 1_000
    decoded_bytes: int = 256 * _MIB
    text_bytes: int = 8 * _MIB
    links: int = 5_000
    link_bytes: int = 16 << 10
    defects: int = 10_000
