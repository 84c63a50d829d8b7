"""The names people know a job by: its file and, in one word, what is done with it."""

from __future__ import annotations

from pathlib import Path

from perenne import Job
from perenne.apps.evidence import catalogue, rows
from perenne.apps.evidence.commands.exporting import evidence_of
from perenne.apps.evidence.requests import MAIL_HEADERS, PICTURE_METADATA, WHOLE_MAIL
from perenne.errors import EngineError

WORDS = {MAIL_HEADERS: "mail header", PICTURE_METADATA: "picture tags", WHOLE_MAIL: "whole mail"}


class FileNames:
    """The original names of all evidence; reading them leaves no trace, and without them ids stand in."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._known = _read(root)

    def of(self, job: Job) -> str:
        """The name of the file that a job reads."""
        evidence_id = evidence_of(job)
        if evidence_id not in self._known:
            self._known = _read(self._root)  # imported meanwhile
        return self._known.get(evidence_id, evidence_id)


def _read(root: Path) -> dict[str, str]:
    try:
        # Never for writing: a journal that a dead writer left is then an error here, and rolled back by somebody else.
        connection = catalogue.open(root, "read")
        try:
            return {original.id: original.original_name for original in rows.originals(connection)}
        finally:
            connection.close()
    except EngineError:
        return {}
