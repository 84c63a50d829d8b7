"""What file system a folder really stands on, and whether a store may live there.

What lives here: recognising the mount, the list of types, the refusal. What does not: opening files, probing locks.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from perenne.errors import UnsafeFilesystem

Kind = Literal["local", "volatile", "weak", "remote", "unknown", "readonly"]
Locate = Callable[[str], "tuple[int, int | None] | None"]

# fmt: off
_TYPES: dict[Kind, frozenset[str]] = {
    "local": frozenset({"ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "bcachefs", "jfs", "reiserfs", "nilfs2", "ubifs",
                        "ntfs3"}),
    "volatile": frozenset({"tmpfs", "ramfs", "rootfs", "devtmpfs"}),
    "weak": frozenset({"ext2", "vfat", "exfat", "msdos", "ntfs", "hfs", "hfsplus", "fuseblk"}),
    "readonly": frozenset({"squashfs", "erofs", "iso9660", "cramfs", "romfs"}),
    "remote": frozenset({"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "virtiofs", "afs", "openafs", "ceph",
                         "glusterfs", "lustre", "gpfs", "mmfs", "beegfs", "pvfs2", "orangefs", "ocfs2", "gfs2",
                         "coda", "ncpfs", "davfs", "panfs", "wekafs", "autofs", "vboxsf", "vmhgfs", "prl_fs",
                         "drvfs", "lxfs", "wslfs", "fakeowner", "osxfs", "grpcfuse", "fuse"}),
}
# The second vote, by statfs: magics that no local file system has. A good one proves nothing: 9p reports that of ext4.
_REMOTE_MAGIC = {
    0x6969: "nfs", 0xFF534D42: "cifs", 0xFE534D42: "smb3", 0x517B: "smbfs", 0x01021997: "9p", 0x5346414F: "afs",
    0x6B414653: "afs", 0x00C36400: "ceph", 0x73757245: "coda", 0x564C: "ncpfs", 0x0BD00BD0: "lustre",
    0x47504653: "gpfs", 0x19830326: "beegfs", 0x20030528: "orangefs", 0x7461636F: "ocfs2", 0x01161970: "gfs2",
    0x786F4256: "vboxsf", 0xBACBACBC: "vmhgfs", 0x7C7C6673: "prl_fs", 0x0187: "autofs", 0xAAD7AAEA: "panfs",
    0x53464846: "wslfs",
}
# fmt: on
_FUSE_MAGIC = 0x65735546  # fuse, fuseblk and virtiofs alike
_NO_FLUSH = frozenset({"nobarrier", "barrier=0", "fsync_mode=nobarrier"})
_WHY: dict[Kind, str] = {
    "local": "{} keeps locks, shared memory and syncs",
    "volatile": "{} keeps locks, but nothing on it survives a restart",
    "weak": "{} does not journal its names, so a power cut may undo or tear a rename",
    "remote": "the data of {} belong to another machine or program, so its locks and shared memory cannot be trusted",
    "unknown": "nothing is known about the locks, shared memory and syncs of {}",
    "readonly": "{} takes no writes here",
}
_DEEPEST_OVERLAY = 8


@dataclass(frozen=True)
class Verdict:
    """What a folder stands on.

    kind: `local` is safe; `volatile` and `weak` are usable with a warning; `readonly` is safe to read and cannot be
        written; `remote` and `unknown` are refused.
    name: type of the file system that decides, as a setting may allow it. mount_point: as this process sees it.
    why: a sentence. own_disk: it stands on a block device of this machine, as no file system of a network does.
    """

    kind: Kind
    name: str
    mount_point: str
    why: str
    own_disk: bool = False


@dataclass(frozen=True)
class _Mount:
    point: str
    type: str
    options: frozenset[str]
    super_options: str
    own_disk: bool


def refuse_unsafe(folder: Path, *, allowed: Collection[str] = ()) -> Verdict:
    """The verdict on `folder`, which need not exist yet; nothing is opened for writing or created.

    Args: allowed: names of file systems that the workspace's settings accept in spite of a bad verdict.
    Raises:
        UnsafeFilesystem: the verdict is `remote` or `unknown`, and its name is not in `allowed`.
    """
    verdict = judge(folder)
    if verdict.kind not in ("remote", "unknown") or verdict.name in allowed:
        return verdict
    raise refusal(folder, verdict)


def refusal(folder: Path, verdict: Verdict) -> UnsafeFilesystem:
    """The error that says why no store may stand in this folder, and both ways out."""
    return UnsafeFilesystem(
        f"folder {folder} stands on {verdict.name} (mounted at {verdict.mount_point}), which is not safe for a store: "
        f"{verdict.why}; move it to a local disk, "
        f"or list {verdict.name!r} in the workspace's allow_filesystems setting",
        folder=str(folder),
        filesystem=verdict.name,
        kind=verdict.kind,
        mount_point=verdict.mount_point,
    )


def judge(folder: Path) -> Verdict:
    """The verdict on a folder, or on its nearest existing parent; symbolic links are followed first.

    The mount comes from the kernel (the id of an opened descriptor), never from comparing prefixes, so that bind
    mounts, over-mounts and hidden mounts cannot mislead.
    """
    if sys.platform != "linux":
        return Verdict("local", "unchecked", "", f"file systems are not checked on {sys.platform}")
    existing = str(nearest_folder(folder))
    try:
        descriptor = _opened(existing)
        try:  # The descriptor stays open meanwhile: it keeps the mount, and with it the meaning of the id.
            mount_id, magic = _mount_id(descriptor), _magic(descriptor)
            mountinfo = Path("/proc/self/mountinfo").read_text("utf-8", "surrogateescape")
        finally:
            os.close(descriptor)
    except OSError as error:
        why = f"its mount cannot be looked up ({error.strerror}: {error.filename})"
        return Verdict("unknown", "unknown", existing, why)
    return judge_mount(mountinfo, mount_id, magic, _located)


def judge_mount(mountinfo: str, mount_id: int, magic: int | None, locate: Locate) -> Verdict:
    """The verdict on one mount.

    Args:
        mountinfo: text of /proc/self/mountinfo. mount_id: first field of the entry meant.
        magic: f_type of statfs, the second vote; None when it is not known.
        locate: mount id and magic of a path (an overlay's upper folder); None when it cannot be seen from here.
    Source: proc(5), mountinfo; statfs(2), magics; which types are trusted is ours.
    """
    return _judge(_mounts(mountinfo), mount_id, magic, locate, depth=0)


def _judge(mounts: dict[int, _Mount], mount_id: int, magic: int | None, locate: Locate, depth: int) -> Verdict:
    mount = mounts.get(mount_id)
    if mount is None:
        return Verdict("unknown", "unknown", "", "its mount is not in the list of mounts (chroot?)")
    if mount.type == "overlay":
        return _judge_overlay(mounts, mount, locate, depth)
    kind, name, why = _vote(mount.type, magic)
    if kind == "local" and not _NO_FLUSH.isdisjoint(mount.options):
        kind, why = "weak", f"{name} is mounted without barriers, so a sync does not reach the medium"
    return _unless_readonly(mount, Verdict(kind, name, mount.point, why, mount.own_disk))


def _vote(type_name: str, magic: int | None) -> tuple[Kind, str, str]:
    """Kind, deciding name and sentence: the type speaks first, a magic can only make it worse."""
    kind = _kind_of(type_name)
    if kind != "remote" and magic in _REMOTE_MAGIC:
        name = _REMOTE_MAGIC[magic]
        return "remote", name, f"it is mounted as {type_name}, but statfs says {name}"
    if kind != "remote" and magic == _FUSE_MAGIC and type_name != "fuseblk":
        return "remote", "fuse", f"it is mounted as {type_name}, but statfs says fuse"
    return kind, type_name, _WHY[kind].format(type_name)


def _kind_of(type_name: str) -> Kind:
    # A FUSE daemon chooses what follows the point: `fuse.ext4` is no ext4.
    if type_name.startswith("fuse."):
        return "remote"
    return next((kind for kind, names in _TYPES.items() if type_name in names), "unknown")


def _judge_overlay(mounts: dict[int, _Mount], mount: _Mount, locate: Locate, depth: int) -> Verdict:
    """An overlay writes into its upper folder, so that one decides; the lower ones are only read."""
    upper = re.search(r"(?:^|,)upperdir=([^,]*)", mount.super_options)
    if upper is None:
        return Verdict(
            "readonly", "overlay", mount.point, "it is an overlay without an upper folder: it takes no writes"
        )
    folder = _unescaped(upper[1])
    place = locate(folder) if depth < _DEEPEST_OVERLAY else None
    if place is None:
        why = f"it is an overlay, and its upper folder {folder} cannot be seen from here (container?)"
        return Verdict("unknown", "overlay", mount.point, why)
    below = _judge(mounts, place[0], place[1], locate, depth + 1)
    kind, why = below.kind, f"it is an overlay that writes to {folder}; {below.why}"
    if kind in ("local", "weak") and "volatile" in mount.options:
        kind, why = "volatile", "it is an overlay mounted volatile, so a sync does nothing"
    return _unless_readonly(mount, Verdict(kind, below.name, mount.point, why))


def _unless_readonly(mount: _Mount, verdict: Verdict) -> Verdict:
    if "ro" in mount.options and verdict.kind in ("local", "volatile", "weak"):
        return replace(verdict, kind="readonly", why=f"{verdict.name} is mounted read-only here")
    return verdict


def _mounts(mountinfo: str) -> dict[int, _Mount]:
    """Entries by mount id; a line that does not read as one is left out, so that its mount is unknown, not guessed."""
    entries: dict[int, _Mount] = {}
    for line in mountinfo.split("\n"):
        # Split at single spaces: a source may be empty, and then two spaces stand side by side.
        fields, _, after = line.partition(" - ")
        head, tail = fields.split(" "), after.split(" ")
        if len(head) < 6 or len(tail) < 3 or not head[0].isdecimal():
            continue
        options = frozenset(head[5].split(",")) | frozenset(tail[2].split(","))
        own_disk = not head[2].startswith("0:")  # major 0 stands for a device that does not exist
        entries[int(head[0])] = _Mount(_unescaped(head[4]), _unescaped(tail[0]), options, tail[2], own_disk)
    return entries


def _unescaped(text: str) -> str:
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


def nearest_folder(folder: Path) -> Path:
    """The folder itself, or the nearest one above it that exists; symbolic links are followed first."""
    existing = os.path.realpath(folder)
    while not os.path.isdir(existing) and existing != os.path.dirname(existing):
        existing = os.path.dirname(existing)
    return Path(existing)


def _located(path: str) -> tuple[int, int | None] | None:
    try:
        descriptor = _opened(path)
        try:
            return _mount_id(descriptor), _magic(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        return None


def _opened(folder: str) -> int:
    # The trailing point makes the kernel walk through the folder, which mounts what autofs would mount there.
    return os.open(os.path.join(folder, "."), os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _mount_id(descriptor: int) -> int:
    text = Path(f"/proc/self/fdinfo/{descriptor}").read_text("ascii")
    found = re.search(r"^mnt_id:\s*(\d+)$", text, re.MULTILINE)
    return int(found[1]) if found else -1


def _magic(descriptor: int) -> int | None:
    """f_type of statfs(2), which Python does not offer; None when the call fails."""
    import ctypes  # here, because it is slow to import and `import perenne` must be fast

    buffer = (ctypes.c_long * 64)()  # struct statfs is at most 120 bytes; f_type is its first word on every Linux here
    if ctypes.CDLL(None).fstatfs(descriptor, ctypes.byref(buffer)) != 0:
        return None
    return int(buffer[0]) & 0xFFFFFFFF
