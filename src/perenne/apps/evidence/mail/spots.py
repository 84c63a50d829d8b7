"""Where a piece of a decoded text lies in its bytes, when its part was not encoded.

Here: from characters to bytes, each answer compared with the bytes. Not here: what the piece is.
"""

from __future__ import annotations


class Spots:
    """Places of pieces of one text, best asked from left to right: time is linear in the way that is walked.

    Args:
        moved: the text is not that of the bytes character by character (it was unflowed); pieces are then looked for
            from left to right.
    """

    def __init__(self, content: bytes, text: str, codec: str, *, moved: bool) -> None:
        self._content, self._text, self._codec, self._moved = content, text, codec, moved
        self._character = self._byte = 0
        self._lost = False

    def of(self, start: int, piece: str) -> tuple[int, bytes] | None:
        """Where the piece that begins at a character lies, and its bytes; None when that cannot be said."""
        written = self._encoded(piece)
        if self._lost or written is None:
            return None
        at = self._content.find(written, self._byte) if self._moved else self._walked(start)
        if at < 0:
            self._lost = True
            return None
        self._character, self._byte = start, at
        return (at, written) if self._content.startswith(written, at) else None

    def _walked(self, start: int) -> int:
        """The byte at which a character begins, counted from the last one asked for."""
        low, high = sorted((start, self._character))
        between = self._encoded(self._text[low:high])
        if between is None:
            return -1
        return self._byte + (len(between) if start >= self._character else -len(between))

    def _encoded(self, text: str) -> bytes | None:
        # NUL is shown as a mark; where the text itself has the mark the comparison with the bytes fails.
        try:
            return text.replace("␀", "\0").encode(self._codec)
        except UnicodeEncodeError:
            return None
