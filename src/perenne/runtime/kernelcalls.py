"""System calls that Python does not offer, through the C library: prctl, and calls by number.

What lives here: how to call and how a refusal becomes an OSError. What is asked for: `landlock.py`, `seccomp.py`, the
tool host. Where there is no such C library (macOS has no prctl) `find` answers None.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from typing import Any

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 22, 24, 38


@cache
def find(name: str) -> Callable[..., int] | None:
    """A function of the C library that sets errno and answers -1 when it is refused; None without it."""
    try:
        import ctypes  # here, because it is slow to import and few need it

        call: Any = getattr(ctypes.CDLL(None, use_errno=True), name)
    except (ImportError, OSError, AttributeError):
        return None
    call.restype = ctypes.c_int if name == "prctl" else ctypes.c_long
    get_errno = ctypes.get_errno

    def checked(*arguments: object) -> int:
        answer = int(call(*arguments))
        if answer == -1:
            number = get_errno()
            raise OSError(number, os.strerror(number), name)
        return answer

    return checked


def prctl(option: int, *arguments: int) -> int:
    """prctl(2), its arguments as the longs that it reads.

    Raises:
        OSError: refused, or there is no such call here.
    """
    return _called("prctl", option, *(*arguments, 0, 0, 0, 0)[:4])


def syscall(number: int, *arguments: object) -> int:
    """syscall(2): a call by its number on this machine. Raises: OSError."""
    return _called("syscall", number, *arguments)


def _called(name: str, *arguments: object) -> int:
    import ctypes
    import errno

    call = find(name)
    if call is None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS), name)
    # A plain number would travel as 32 bits, and the kernel reads 64.
    return call(*(ctypes.c_long(one) if isinstance(one, int) else one for one in arguments))
