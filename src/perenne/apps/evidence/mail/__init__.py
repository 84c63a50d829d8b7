"""The mail analyser as ordinary library code: bytes in, a typed artefact out; needs no engine and no workspace."""

from __future__ import annotations

from perenne.apps.evidence.mail.analysis import analyse
from perenne.apps.evidence.mail.artefact import Analysis, encoded
from perenne.apps.evidence.mail.limits import Limits

__all__ = ["Analysis", "Limits", "analyse", "encoded"]
