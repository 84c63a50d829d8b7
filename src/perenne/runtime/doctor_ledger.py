"""The ledger as a file, looked at: library, modes, schema, WAL, who holds it, and whether it is whole. Reads only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from perenne.files.workspace import Workspace
from perenne.runtime.findings import Finding, bad, ok, some, warn
from perenne.store.inspection import Facts, Inspector, LockHolder


def file(workspace: Workspace, inspector: Inspector) -> Iterator[Finding]:
    """The library, the modes read back, the schema and the WAL."""
    found = inspector.facts(workspace.ledger, allowed=workspace.allow_filesystems)
    yield ok("library", f"{inspector.library()}: new enough not to lose commits when a WAL is reset")
    yield from _modes(found)
    yield from _schema(found)
    yield from _wal(found, inspector.readers(workspace.ledger))


def _modes(found: Facts) -> Iterator[Finding]:
    used = found.pages - found.free_pages
    sentence = (
        f"journal_mode is {found.journal_mode}, {used:,} of {found.pages:,} pages of {found.page_bytes} bytes are used"
        f"; every writer sets synchronous=full and reads it back, and normal for nothing but relaxed submits"
    )
    if found.journal_mode == "wal":
        yield ok("modes", sentence)
    else:
        yield warn("modes", sentence, "open it once for writing: start a worker")


def _schema(found: Facts) -> Iterator[Finding]:
    sentence = f"schema version {found.schema}, this program has {found.known}"
    if found.schema > found.known:
        yield bad("schema", sentence, "use the newer program; this one will not touch it")
    elif found.schema < found.known:
        yield warn("schema", sentence, "start a worker: it migrates; `migrate --plan` says what it will do")
    else:
        yield ok("schema", sentence)


def _wal(found: Facts, readers: Sequence[LockHolder]) -> Iterator[Finding]:
    sentence = (
        f"the WAL holds {found.wal_bytes:,} bytes, the limits are {found.wal_soft_bytes:,} and {found.wal_hard_bytes:,}"
    )
    who = f"; views are held by {some([str(one) for one in readers])}" if readers else ""
    if found.wal_bytes > found.wal_hard_bytes:
        yield bad("wal", f"{sentence}{who}: no job is taken", "end what reads; a worker then empties it")
    elif found.wal_bytes > found.wal_soft_bytes:
        yield warn("wal", f"{sentence}{who}", "end what reads; a worker then empties it")
    else:
        yield ok("wal", sentence)


def write_lock(workspace: Workspace, inspector: Inspector) -> Iterator[Finding]:
    """Who holds the write lock right now, and whether that process can ever let it go."""
    holders = inspector.writers(workspace.ledger)
    stopped = [one for one in holders if one.stopped]
    if stopped:
        pids = " ".join(str(one.pid) for one in stopped)
        sentence = f"{some([str(one) for one in stopped])} holds the write lock and is stopped: nobody else can write"
        yield bad("write lock", sentence, f"continue it (kill -CONT {pids}) or end it (kill -KILL {pids})")
    elif holders:
        yield ok("write lock", f"{some([str(one) for one in holders])} holds the write lock at this moment")
    else:
        yield ok("write lock", "nobody holds the write lock")


def integrity(workspace: Workspace, inspector: Inspector) -> Iterator[Finding]:
    """Every page, index and reference; reads the whole file."""
    damage = inspector.damage(workspace.ledger, allowed=workspace.allow_filesystems)
    if damage:
        next_step = "look again; if it stays so, stop all work, then restore a backup"
        yield bad("integrity", f"the ledger is damaged, or cannot be read: {some(damage)}", next_step)
    else:
        yield ok("integrity", "every page, index and reference is whole")
