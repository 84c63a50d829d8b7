"""A hostile tool: it makes every attempt named on its command line and prints which ones came through, as JSON.

Run by test_confinement.py: `hostile.py OUTSIDE ENGINE PORT NAME…`. OUTSIDE holds `secret`, `ours` and a folder `open`;
ENGINE is the number of the process to hurt; PORT is listened on, TCP and UDP, and so is the abstract socket NAME.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import mmap
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from typing import NoReturn

OUTSIDE, ENGINE, PORT, ABSTRACT = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
LIBC = ctypes.CDLL(None, use_errno=True)


def libc(name: str, *arguments: object) -> None:
    if getattr(LIBC, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)


def outside(name: str) -> str:
    return os.path.join(OUTSIDE, name)


def socket_pair_as_a_way_out() -> None:
    ours, _ = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    ours.sendto(b"out", outside("datagrams"))


def opened(path: str, mode: str = "r") -> None:
    with open(path, mode):
        pass


def map_secret() -> None:
    with open(outside("secret")) as file:
        mmap.mmap(file.fileno(), 1, prot=mmap.PROT_READ)


def fork() -> None:
    if os.fork() == 0:
        linger()


def linger() -> NoReturn:
    time.sleep(60)  # reason: what is left behind must live long enough to be found
    os._exit(0)


def double_fork() -> None:
    if os.fork() == 0:
        try:
            os.setsid()
            if os.fork() == 0:
                linger()
        except OSError:
            os._exit(1)
        os._exit(0)
    if os.wait()[1]:
        raise PermissionError


def watch_a_folder() -> None:
    watch = LIBC.inotify_init1(0)
    if watch == -1:
        raise OSError(ctypes.get_errno(), "inotify_init1")
    libc("inotify_add_watch", watch, outside("open").encode(), 0x100)


ATTEMPTS = {
    "read a file": lambda: opened(outside("secret")),
    "list a folder": lambda: os.listdir(OUTSIDE),
    "watch a folder": watch_a_folder,
    "list the home of root": lambda: os.listdir("/root"),
    "read the system's passwords": lambda: opened("/etc/shadow"),
    "follow a link out of the stage": lambda: opened("way-out"),
    "climb out of the stage": lambda: opened("../secret"),
    "map a file": map_secret,
    "write a file": lambda: opened(outside("ours"), "w"),
    "append to a file": lambda: opened(outside("ours"), "a"),
    "make a file": lambda: opened(outside("open/new"), "w"),
    "make a folder": lambda: os.mkdir(outside("open/folder")),
    "make a link": lambda: os.symlink("x", outside("open/link")),
    "hard-link a file into the stage": lambda: os.link(outside("secret"), "stolen"),
    "rename a file": lambda: os.rename(outside("ours"), outside("theirs")),
    "move a file into the stage": lambda: os.rename(outside("ours"), "theirs"),
    "remove a file": lambda: os.unlink(outside("ours")),
    "remove a folder": lambda: os.rmdir(outside("open")),
    "truncate a file": lambda: os.truncate(outside("ours"), 0),
    "change a mode": lambda: os.chmod(outside("ours"), 0o777),
    "change an owner": lambda: os.chown(outside("ours"), 1, 1),
    "change times": lambda: os.utime(outside("ours"), (0, 0)),
    "set an attribute": lambda: os.setxattr(outside("ours"), "user.x", b"1"),
    "write in /tmp": lambda: os.close(tempfile.mkstemp(dir="/tmp")[0]),
    "write to a program": lambda: opened("/usr/bin/env", "r+b"),
    "change the mode of a program": lambda: os.chmod("/usr/bin/env", 0o755),
    "read another process's memory": lambda: opened(f"/proc/{ENGINE}/mem", "rb"),
    "see other processes": lambda: os.listdir("/proc"),
    "talk TCP": lambda: socket.create_connection(("127.0.0.1", PORT), timeout=5),
    "listen on TCP": lambda: socket.create_server(("127.0.0.1", 0)),
    "talk UDP": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"out", ("127.0.0.1", PORT)),
    "talk IPv6": lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM),
    "send raw packets": lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW),
    "ask the kernel for routes": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW),
    "talk to an abstract socket": lambda: socket.socket(socket.AF_UNIX).connect("\0" + ABSTRACT),
    "talk to a named socket": lambda: socket.socket(socket.AF_UNIX).connect(outside("socket")),
    "point a socket pair elsewhere": socket_pair_as_a_way_out,
    "signal the engine": lambda: os.kill(ENGINE, 0),
    "signal everybody": lambda: os.kill(-1, 0),
    "signal by pidfd": lambda: signal.pidfd_send_signal(os.pidfd_open(ENGINE), 0),
    "signal its host": lambda: os.kill(os.getppid(), 0),
    "have a signal sent": lambda: fcntl.fcntl(os.pipe()[0], fcntl.F_SETOWN, ENGINE),
    "trace the engine": lambda: libc("ptrace", 16, ENGINE, 0, 0),
    "limit the engine": lambda: resource.prlimit(ENGINE, resource.RLIMIT_CORE, (0, 0)),
    "slow the engine down": lambda: os.setpriority(os.PRIO_PROCESS, ENGINE, 0),
    "pin the engine": lambda: os.sched_setaffinity(ENGINE, os.sched_getaffinity(0)),
    "raise its own limits": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096)),
    "outlive its host": lambda: libc("prctl", 1, 0, 0, 0, 0),
    "leave its session": os.setsid,
    "leave its group": lambda: os.setpgid(0, 0),
    "fork": fork,
    "fork twice": double_fork,
    "start a program": lambda: subprocess.run(["/bin/true"], check=True),
    "mount": lambda: libc("mount", b"none", b"/mnt", b"tmpfs", 0, None),
    "make a namespace": lambda: libc("unshare", 0x00020000),
    "change the root": lambda: os.chroot("."),
    "load a program into the kernel": lambda: libc("syscall", ctypes.c_long(321), 0, None, 0),
    "keep a secret in the kernel": lambda: libc("syscall", ctypes.c_long(250), 0, -1, 0, 0, 0),
    "use io_uring": lambda: libc("syscall", ctypes.c_long(425), 1, ctypes.create_string_buffer(120)),
    "share memory by number": lambda: libc("shmget", 0, 4096, 0o1600),
    "set the clock": lambda: libc("settimeofday", None, ctypes.create_string_buffer(8)),
    "run what it wrote": lambda: os.execv("./written", ["written"]),
}


def main() -> None:
    came_through = {}
    for name in sys.argv[5:] or ATTEMPTS:
        try:
            ATTEMPTS[name]()
        except OSError as fault:
            came_through[name] = fault.errno or -1
        except (ValueError, subprocess.SubprocessError):
            came_through[name] = -1
        else:
            came_through[name] = 0
    print(json.dumps(came_through))


if __name__ == "__main__":
    main()
