"""Landlock: a process gives up every file but the ones it names, TCP, and signals to strangers, for good.

What lives here: the rules as the kernel reads them. What a tool may reach is decided in `confine.py`; what Landlock
does not see (metadata, UDP, tracing) is refused in `seccomp.py`.
Source: Linux, Documentation/userspace-api/landlock.rst and include/uapi/linux/landlock.h.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import struct

from perenne.runtime import kernelcalls

# The numbers are the same on every machine; before 5.13 the kernel answers ENOSYS.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_ASK_VERSION, _PATH_BENEATH = 1, 1

EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_REG = 1 << 4, 1 << 5, 1 << 7, 1 << 8
_MAKE_SOCK, _MAKE_FIFO, _MAKE_SYM, _REFER, TRUNCATE = 1 << 9, 1 << 10, 1 << 12, 1 << 13, 1 << 14
_IOCTL_DEV = 1 << 15
_ON_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | _IOCTL_DEV

READ_AND_RUN = EXECUTE | READ_FILE | READ_DIR
READ = READ_FILE | READ_DIR
DEVICE = READ_FILE | WRITE_FILE
# No program may be started from a stage, so that nothing a tool writes there is run.
WORK = READ | WRITE_FILE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_REG | _MAKE_FIFO | _MAKE_SYM
WORK |= _MAKE_SOCK | _REFER | TRUNCATE

# Version by version: rights on files from 1, 2 (move), 3 (truncate), 5 (devices); TCP from 4; strangers from 6.
_ALL_FILE_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
TRUNCATES_FROM, SCOPES_FROM = 3, 6


def version() -> int:
    """The kernel's version of Landlock; 0 where it has none or has it switched off."""
    try:
        return kernelcalls.syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)
    except OSError:
        return 0


class Ruleset:
    """What stays allowed; everything that this version can take away is taken."""

    def __init__(self, of_version: int) -> None:
        self._files = _ALL_FILE_RIGHTS[min(of_version, max(_ALL_FILE_RIGHTS))]
        tcp = 0b11 if of_version >= 4 else 0
        strangers = 0b11 if of_version >= SCOPES_FROM else 0  # abstract sockets and signals
        words = (self._files, tcp, strangers)[: 1 + (of_version >= 4) + (of_version >= SCOPES_FROM)]
        attributes = struct.pack(f"={len(words)}Q", *words)
        self._descriptor = kernelcalls.syscall(_CREATE_RULESET, attributes, len(attributes), 0)

    def allow(self, path: bytes, rights: int, *, may_lack: bool = False) -> None:
        """Leave these rights on a file, or on a folder and all below it.

        Raises: OSError: the path cannot be opened; a missing one is passed over when it may lack.
        """
        try:
            place = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError as fault:
            if may_lack and fault.errno in (errno.ENOENT, errno.ENOTDIR):
                return
            raise
        try:
            rights &= self._files if stat.S_ISDIR(os.fstat(place).st_mode) else self._files & _ON_FILES
            rule = struct.pack("=Qi", rights, place)
            kernelcalls.syscall(_ADD_RULE, self._descriptor, _PATH_BENEATH, ctypes.c_char_p(rule), 0)
        finally:
            os.close(place)

    def enter(self) -> None:
        """Give up everything else, for this thread and all it will start; needs no-new-privileges. Raises: OSError."""
        kernelcalls.syscall(_RESTRICT_SELF, self._descriptor, 0)

    def close(self) -> None:
        os.close(self._descriptor)
