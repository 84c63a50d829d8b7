"""The bytes in which the offsets of a message count: the file, or what a part decodes to.

Here: the bytes, their lines, and the budget of one analysis. Not here: what stands in them.
"""

from __future__ import annotations

from perenne.apps.evidence.mail.limits import Limits
from perenne.apps.evidence.mail.splitter import line_ends, with_line_feeds


class Space:
    """Bytes under the path of the part that decodes to them, "" for the file; `lines` see `splitter`."""

    def __init__(self, data: bytes, path: str) -> None:
        self.data = data
        self.path = path
        self.ends = line_ends(data)
        self.lines = with_line_feeds(data, self.ends)


class Budget:
    """What one analysis may still read; each bound counts over all messages of the file."""

    def __init__(self, limits: Limits) -> None:
        self.parts = limits.parts
        self.messages = limits.messages
        self.addresses = limits.addresses
        self.decoded_bytes = limits.decoded_bytes
        self.text_bytes = limits.text_bytes
        self.links = limits.links
