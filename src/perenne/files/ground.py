"""Whether a new workspace may stand in a folder, and which file systems its manifest accepts from then on.

What lives here: the decision at creation, which may try the folder. Every later opening only reads: `filesystem.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from perenne import filesystem
from perenne.files import lockprobe


def accepted(root: Path, allowed: Sequence[str] = ()) -> tuple[str, ...]:
    """The names of file systems that the manifest shall accept: the allowed ones, and one that was tried here.

    A type that is not known is tried with two processes where it stands on a disk of this machine; if all works it is
    accepted by name, so that it is recorded and the doctor shows it. Elsewhere a trial would prove nothing: locks hold
    between two processes of one machine on NFS, too.

    Raises:
        UnsafeFilesystem: neither safe nor allowed nor proved usable.
    """
    verdict = filesystem.judge(root)
    if verdict.kind != "unknown" or not verdict.own_disk or verdict.name in allowed:
        filesystem.refuse_unsafe(root, allowed=allowed)
        return tuple(allowed)
    found = lockprobe.fault(filesystem.nearest_folder(root))
    if found is not None:
        raise filesystem.refusal(root, replace(verdict, why=f"{verdict.why}, and {found}"))
    return (*allowed, verdict.name)
