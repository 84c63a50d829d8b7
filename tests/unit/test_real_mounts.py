"""Every kind of mount that can be made on this machine is judged right; those that cannot are named as not checked.

Each mount is made in a mount namespace of its own, which ends with the command that looks at it.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ASK = """
import json, sys
from pathlib import Path
from perenne.errors import UnsafeFilesystem
from perenne.filesystem import judge, refuse_unsafe
found = judge(Path(sys.argv[1]))
try:
    refuse_unsafe(Path(sys.argv[1]) / "not" / "yet")
    passed = True
except UnsafeFilesystem:
    passed = False
print(json.dumps([found.kind, found.name, found.mount_point, found.own_disk, passed]))
"""
SFTP = next((path for path in ("/usr/lib/openssh/sftp-server", "/usr/lib/ssh/sftp-server") if Path(path).exists()), "")
SSHFS = f'printf "#!/bin/sh\\nexec {SFTP}\\n" > notssh; chmod +x notssh; mkdir far; '
SSHFS += 'sshfs {options} -o ssh_command="$PWD/notssh" host:"$PWD/far" here'
IMAGE = "truncate -s {size}M image; mkfs.{type} {options} image >/dev/null; mount -o loop{more} image here"

MOUNTS = {
    "tmpfs": ("mount -t tmpfs none here", "volatile", "tmpfs"),
    "ramfs": ("mount -t ramfs none here", "volatile", "ramfs"),
    "bind of tmpfs": ("mkdir a; mount -t tmpfs none a; mount --bind a here", "volatile", "tmpfs"),
    "bind of a folder inside tmpfs": (
        "mkdir a; mount -t tmpfs none a; mkdir a/b; mount --bind a/b here",
        "volatile",
        "tmpfs",
    ),
    "over-mount": ("mount -t tmpfs none here; mount --bind /proc/sys here", "unknown", "proc"),
    "ext4": (IMAGE.format(type="ext4", size=16, options="-q", more=""), "local", "ext4"),
    "ext4 read-only": (IMAGE.format(type="ext4", size=16, options="-q", more=",ro"), "readonly", "ext4"),
    "ext4 without barriers": (IMAGE.format(type="ext4", size=16, options="-q", more=",nobarrier"), "weak", "ext4"),
    "ext3": (IMAGE.format(type="ext3", size=16, options="-q", more=""), "local", "ext3|ext4"),
    "ext2": (IMAGE.format(type="ext2", size=16, options="-q", more=""), "weak", "ext2"),
    "xfs": (IMAGE.format(type="xfs", size=320, options="-q", more=""), "local", "xfs"),
    "btrfs": (IMAGE.format(type="btrfs", size=128, options="-q", more=""), "local", "btrfs"),
    "btrfs subvolume": (
        IMAGE.format(type="btrfs", size=128, options="-q", more="")
        + "; btrfs -q subvolume create here/sub; umount here; mount -o loop,subvol=sub image here",
        "local",
        "btrfs",
    ),
    "overlay on ext4": (
        IMAGE.format(type="ext4", size=16, options="-q", more="").replace("image here", "image disk")
        + "; mkdir disk/up disk/work low; mount -t overlay none here"
        + ' -o lowerdir="$PWD/low",upperdir="$PWD/disk/up",workdir="$PWD/disk/work"',
        "local",
        "ext4",
    ),
    "overlay on tmpfs": (
        "mount -t tmpfs none disk; mkdir disk/up disk/work low; mount -t overlay none here"
        ' -o lowerdir="$PWD/low",upperdir="$PWD/disk/up",workdir="$PWD/disk/work"',
        "volatile",
        "tmpfs",
    ),
    "overlay whose upper folder is hidden": (
        "mount -t tmpfs none disk; mkdir disk/up disk/work low; mount -t overlay none here"
        ' -o lowerdir="$PWD/low",upperdir="$PWD/disk/up",workdir="$PWD/disk/work"; umount -l disk',
        "unknown",
        "overlay",
    ),
    "overlay without an upper folder": (
        'mkdir low low2; mount -t overlay none here -o lowerdir="$PWD/low:$PWD/low2"',
        "readonly",
        "overlay",
    ),
    "sshfs": (SSHFS.format(options=""), "remote", "fuse.sshfs"),
    "fuse that calls itself ext4": (SSHFS.format(options="-o subtype=ext4"), "remote", "fuse.ext4"),
    "bind of sshfs": (
        SSHFS.format(options="").replace('"$PWD/far" here', '"$PWD/far" disk') + "; mount --bind disk here",
        "remote",
        "fuse.sshfs",
    ),
}
USABLE = {"local", "volatile", "weak", "readonly"}


def can_mount() -> bool:
    return (
        shutil.which("unshare") is not None
        and subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode == 0
    )


@pytest.mark.parametrize("name", MOUNTS)
def test_mount_is_judged_right(name: str, tmp_path: Path) -> None:
    """The verdict names the file system that really holds the folder, and only safe ones pass."""
    script, kind, type_name = MOUNTS[name]
    if not can_mount():
        pytest.skip("NOT CHECKED: mounts need `unshare -m`, that is root, on Linux")
    for folder in ("here", "disk"):
        (tmp_path / folder).mkdir()
    words = ["unshare", "-m", "--propagation", "private", "sh", "-c"]
    # A shell of its own: in one that is asked `||`, the first step that fails would not end it.
    ask = 'set -e; cd "$1"; sh -ec "$2" >made 2>&1 || { cat made >&2; exit 77; }; shift 2; exec "$@"'
    asked = subprocess.run(
        [*words, ask, "sh", str(tmp_path), script, sys.executable, "-c", ASK, str(tmp_path / "here")],
        capture_output=True,
        text=True,
        timeout=60,
    )
    if asked.returncode == 77:
        pytest.skip(f"NOT CHECKED: this machine cannot make it: {asked.stderr.strip()[-200:]}")
    assert asked.returncode == 0, asked.stderr
    found_kind, found_name, point, own_disk, passed = json.loads(asked.stdout)
    assert (found_kind, found_name in type_name.split("|"), point) == (kind, True, str(tmp_path / "here"))
    assert passed == (kind in USABLE)
    assert own_disk == (name.partition(" ")[0] in ("ext2", "ext3", "ext4", "xfs"))
