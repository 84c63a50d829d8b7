"""Which faults the system may answer with at which call: the table of what is injected.

`short` writes half of what was asked; the others are names of the error numbers of the system.
"""

from __future__ import annotations

from calls.watch import Call

_NEW_NAME = ("EIO", "ENOSPC", "EROFS")

FAULTS: dict[str, tuple[str, ...]] = {
    "open": ("EIO", "EMFILE"),
    "create": ("EIO", "EMFILE", "ENOSPC", "EROFS"),
    "open to write": ("EIO", "EMFILE", "EROFS"),
    "read": ("EIO",),
    "write": ("EIO", "ENOSPC", "short"),
    "truncate": ("EIO", "ENOSPC"),
    "sync": ("EIO", "ENOSPC"),
    "rename": _NEW_NAME,
    "link": _NEW_NAME,
    "mkdir": _NEW_NAME,
    "mkfifo": _NEW_NAME,
    "unlink": ("EIO", "EROFS"),
    "rmdir": ("EIO", "EROFS"),
    "chmod": ("EIO", "EROFS"),
    "flock": ("EIO", "ENOLCK"),
    "unlock": (),  # letting go of a lock on a local disk does not fail; a process may die there
    "list": ("EIO", "EMFILE"),
    "statvfs": ("EIO",),
    "pipe": ("EMFILE",),
    # SQLite's own, below its file layer. Its sync tells an error apart by nothing but that it is one.
    "sqlite open": ("EIO", "EMFILE", "ENOSPC", "EROFS"),
    "sqlite read": ("EIO",),
    "sqlite write": ("EIO", "ENOSPC", "EROFS", "short"),
    "sqlite truncate": ("EIO", "ENOSPC"),
    "sqlite sync": ("EIO",),
    "sqlite lock": ("EIO", "ENOLCK"),
    "sqlite unlock": (),
    "sqlite map": ("ENOMEM",),
    "sqlite size": ("EIO",),
    "sqlite unlink": ("EIO", "EROFS"),
    "sql": ("EIO", "ENOSPC"),
}

# What stays when the process dies just after it.
DURABLE = frozenset(
    ["create", "write", "truncate", "sync", "rename", "link", "mkdir", "mkfifo", "unlink", "rmdir"]
    + [f"sqlite {verb}" for verb in ("write", "truncate", "sync", "unlink")]
)


def verb_of(call: Call) -> str:
    """The verb that a call's name begins with: the longest that is known."""
    return max((verb for verb in FAULTS if f"{call.name} ".startswith(f"{verb} ")), key=len)


def faults_of(call: Call) -> tuple[str, ...]:
    verb = verb_of(call)
    if verb == "read" and "/wake/" in call.name:
        return ()  # a pipe, which no disk stands behind
    return FAULTS[verb]


def is_durable(call: Call) -> bool:
    return verb_of(call) in DURABLE
