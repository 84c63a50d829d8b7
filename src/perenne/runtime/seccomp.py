"""seccomp: system calls that a confined tool is refused, as a filter that the kernel runs at each call.

What lives here: which calls are refused, and the filter as the kernel reads it. Files are `landlock.py`'s.
Everything not named is allowed: tools differ too much for a list of what they may. A refusal is an error, never a kill.
Source: Linux, include/uapi/linux/{seccomp,filter,bpf_common}.h; which calls are refused is ours.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import struct
from typing import NamedTuple

from perenne.runtime import kernelcalls
from perenne.runtime.syscalls import AUDIT_ARCHITECTURE, numbers

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _AND, _ANSWER = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
_ALLOW, _KILL, _REFUSE = 0x7FFF0000, 0x80000000, 0x00050000
_NUMBER, _ARCHITECTURE, _ARGUMENTS = 0, 4, 16  # places in struct seccomp_data
_FILTER_MODE = 2
_X32 = 0x40000000  # the second set of numbers on x86_64; no tool needs it
_OWN = -1  # stands for the number of the tool's process until that is known

_CLONE_THREAD, _CLONE_PARENT, _CLONE_NEW = 0x00010000, 0x00008000, 0x7E020000

# fmt: off
_ALWAYS = (
    "socket", "ptrace", "process_vm_readv", "process_vm_writev", "process_madvise", "process_mrelease", "kcmp",
    "pidfd_open", "pidfd_getfd", "pidfd_send_signal", "tkill", "setsid", "setpgid", "setpriority", "ioprio_set",
    "migrate_pages", "move_pages", "unshare", "setns", "mount", "umount2", "pivot_root", "chroot", "open_tree",
    "open_tree_attr", "move_mount", "fsopen", "fsconfig", "fsmount", "fspick", "mount_setattr", "swapon",
    "swapoff", "quotactl", "quotactl_fd", "acct", "reboot", "kexec_load", "kexec_file_load", "init_module",
    "finit_module", "delete_module", "iopl", "ioperm", "modify_ldt", "bpf", "perf_event_open", "userfaultfd",
    "keyctl", "add_key", "request_key", "settimeofday", "clock_settime", "clock_adjtime", "adjtimex",
    "sethostname", "setdomainname", "syslog", "name_to_handle_at", "open_by_handle_at", "fanotify_init", "shmget",
    "shmat", "shmctl", "semget", "semop", "semtimedop", "semctl", "msgget", "msgsnd", "msgrcv", "msgctl",
    "mq_open", "mq_unlink",
)
# fmt: on
# Libraries that meet ENOSYS take the older call, whose arguments a filter can read, or do without.
_UNKNOWN = ["clone3", "io_uring_setup", "io_uring_enter", "io_uring_register"]
# Landlock does not see these; root could change the mode or the times of any file it can name, and a watch on a
# folder tells the names in it.
# fmt: off
_METADATA = (
    "inotify_init", "inotify_init1",
    "chmod", "fchmod", "fchmodat", "fchmodat2", "chown", "fchown", "lchown", "fchownat", "utime", "utimes",
    "futimesat", "utimensat", "file_setattr", "setxattr", "lsetxattr", "fsetxattr", "setxattrat", "removexattr",
    "lremovexattr", "fremovexattr", "removexattrat",
)
# fmt: on
# First argument: a process, of which only the caller and 0 (the caller, its group) are left.
_OF_A_PROCESS = ["prlimit64", "sched_setaffinity", "sched_setscheduler", "sched_setparam", "sched_setattr"]
_SIGNALS = ["kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo"]
# Second argument: F_SETOWN, F_SETOWN_EX and F_SETLEASE bother strangers.
_FCNTL = (8, 15, 1024)
# TIOCSTI, TIOCLINUX, FIOSETOWN, SIOCSPGRP, FS_IOC_SETFLAGS, FS_IOC_FSSETXATTR
_IOCTL = (0x5412, 0x541C, 0x8901, 0x8902, 0x40086602, 0x401C5820)

_Step = tuple[int, int, int, int]  # code, steps over when true, steps over when false, value


class Filter(NamedTuple):
    """One filter; `steps` is ready for the kernel but for the places that hold the number of the tool's process."""

    steps: bytes
    own_places: tuple[int, ...]

    def of_this_process(self) -> ctypes.Array[ctypes.c_char]:
        """The filter for the calling process and what it becomes."""
        ready = ctypes.create_string_buffer(self.steps, len(self.steps))
        for place in self.own_places:
            struct.pack_into("=I", ready, place, os.getpid())
        return ready


def known_here() -> bool:
    """Whether the kernel takes filters and the numbers of this machine are known."""
    try:
        kernelcalls.prctl(kernelcalls.PR_SET_SECCOMP, _FILTER_MODE, 0)
    except OSError as fault:
        return fault.errno == errno.EFAULT and bool(numbers(os.uname().machine))
    return False


def compile_filter(
    *, files: bool, children: bool, scoped: bool, truncates: bool, apart: bool = False, machine: str = ""
) -> Filter:
    """The filter for one way of running tools; the work of a millisecond, to be done once.

    Args:
        files: Landlock holds the files, so their metadata is refused too. children: other programs may be started.
        scoped: Landlock keeps signals from strangers. truncates: Landlock sees truncate.
        apart: the tool will have a number of its own that is not known, and sees no process but its own.
    """
    machine = machine or os.uname().machine
    refused = [*_ALWAYS, *(_METADATA if files else ()), *(["truncate"] if files and not truncates else ())]
    rules: dict[str, list[_Step]] = {name: [_refusal(errno.EPERM)] for name in refused}
    rules |= {name: [_refusal(errno.ENOSYS)] for name in _UNKNOWN}
    only_own = [] if apart else [*_OF_A_PROCESS, *(() if scoped and children else _SIGNALS)]
    rules |= {name: _unless(0, (_OWN, 0)) for name in only_own}
    rules["prctl"] = _when(0, (kernelcalls.PR_SET_PDEATHSIG,))
    rules["fcntl"], rules["ioctl"] = _when(1, _FCNTL), _when(1, _IOCTL)
    # A pair of streams cannot be pointed at anybody else; one of datagrams can.
    rules["socketpair"] = [_load(0), (_EQUAL, 0, 3, socket.AF_UNIX), _load(1), (_AND, 0, 0, 0xF)]
    rules["socketpair"] += [(_EQUAL, 1, 0, socket.SOCK_STREAM), _refusal(errno.EPERM), _allowance()]
    rules["clone"] = _clone(children)
    rules |= {} if children else {name: [_refusal(errno.EPERM)] for name in ("fork", "vfork")}
    return _assemble(rules, machine)


def enter(ready: ctypes.Array[ctypes.c_char]) -> None:
    """Put the calling process under a filter for good; needs no-new-privileges. Raises: OSError."""
    program = struct.pack("@HP", len(ready) // 8, ctypes.addressof(ready))
    place = ctypes.create_string_buffer(program, len(program))
    kernelcalls.prctl(kernelcalls.PR_SET_SECCOMP, _FILTER_MODE, ctypes.addressof(place))


def _clone(children: bool) -> list[_Step]:
    """Threads always; processes only where children are, and never in other namespaces or as a sibling."""
    if children:
        return [_load(0), (_ANY_BIT, 0, 1, _CLONE_NEW | _CLONE_PARENT), _refusal(errno.EPERM), _allowance()]
    return [_load(0), (_ANY_BIT, 1, 0, _CLONE_THREAD), _refusal(errno.EPERM), _allowance()]


def _unless(argument: int, values: tuple[int, ...]) -> list[_Step]:
    tests = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [_load(argument), *tests, _refusal(errno.EPERM), _allowance()]


def _when(argument: int, values: tuple[int, ...]) -> list[_Step]:
    tests = [(_EQUAL, len(values) - place, 0, value) for place, value in enumerate(values)]
    return [_load(argument), *tests, _allowance(), _refusal(errno.EPERM)]


def _load(argument: int) -> _Step:
    return _LOAD, 0, 0, _ARGUMENTS + 8 * argument  # the lower half: both machines are little-endian


def _refusal(number: int) -> _Step:
    return _ANSWER, 0, 0, _REFUSE | number


def _allowance() -> _Step:
    return _ANSWER, 0, 0, _ALLOW


def _assemble(rules: dict[str, list[_Step]], machine: str) -> Filter:
    """One rule a call, each of which answers; so nothing is loaded twice."""
    known = numbers(machine)
    steps: list[_Step] = [(_LOAD, 0, 0, _ARCHITECTURE), (_EQUAL, 1, 0, AUDIT_ARCHITECTURE[machine])]
    steps += [(_ANSWER, 0, 0, _KILL), (_LOAD, 0, 0, _NUMBER)]
    steps += [(_AT_LEAST, 0, 1, _X32), _refusal(errno.ENOSYS)]
    for name, rule in rules.items():
        if name in known:
            steps += [(_EQUAL, 0, len(rule), known[name]), *rule]
    steps.append(_allowance())
    packed = b"".join(struct.pack("=HBBI", code, yes, no, max(value, 0)) for code, yes, no, value in steps)
    return Filter(packed, tuple(8 * at + 4 for at, step in enumerate(steps) if step[3] == _OWN))
