"""A store lives only where locks, shared memory and syncs can be trusted; everything else is refused by name."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from perenne import filesystem
from perenne.errors import UnsafeFilesystem
from perenne.filesystem import Verdict, judge, judge_mount, refuse_unsafe

EXT4, XFS, BTRFS, TMPFS, OVERLAY, FUSE = 0xEF53, 0x58465342, 0x9123683E, 0x01021994, 0x794C7630, 0x65735546
NFS, CIFS, SMB2, CEPH, VBOXSF, AUTOFS = 0x6969, 0xFF534D42, 0xFE534D42, 0x00C36400, 0x786F4256, 0x0187

# One machine with many mounts, as proc(5) writes them; the numbers in front are the ids that the cases below ask for.
MOUNTINFO = r"""
20 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda1 rw,errors=remount-ro
21 20 8:17 / /srv/xfs rw,relatime shared:2 master:7 - xfs /dev/sdb1 rw,attr2,inode64,noquota
22 20 0:31 /@home /home rw,noatime shared:3 - btrfs /dev/sdc2 rw,ssd,subvolid=257,subvol=/@home
23 20 0:32 / /pool rw,xattr,noacl - zfs tank/work rw,xattr,noacl
24 20 0:40 / /tmp rw,nosuid,nodev shared:5 - tmpfs tmpfs rw,size=8388608k
25 20 8:33 / /media/stick rw,nosuid - vfat /dev/sdd1 rw,fmask=0022,iocharset=utf8
26 20 8:34 / /media/windows rw,nosuid - fuseblk /dev/sde1 rw,user_id=0,group_id=0,allow_other,blksize=4096
27 20 7:3 / /snap/core/1 ro,nodev - squashfs /dev/loop3 ro,errors=continue
28 20 8:49 / /barrierless rw,relatime - ext4 /dev/sdf1 rw,nobarrier,data=ordered
30 20 0:50 / /mnt/nfs3 rw,relatime - nfs server:/export rw,vers=3,proto=tcp,addr=192.0.2.1
31 20 0:51 / /mnt/nfs4 rw,relatime shared:9 - nfs4 server:/export rw,vers=4.2,addr=192.0.2.1
32 20 0:52 / /mnt/share rw,relatime - cifs //server/share rw,vers=3.1.1,username=u
33 20 0:53 / /mnt/old rw,relatime - smb3 //server/share rw
34 20 0:54 / /host rw,relatime - 9p hostshare rw,access=client,trans=virtio
35 20 0:55 / /mnt/virtio rw,relatime - virtiofs share rw
36 20 0:56 / /mnt/ssh rw,nosuid,nodev - fuse.sshfs user@server:/data rw,user_id=0,group_id=0
37 20 0:57 / /mnt/liar rw,nosuid,nodev - fuse.ext4 /dev/sdz1 rw,user_id=0
38 20 0:58 / /mnt/plain rw,nosuid,nodev - fuse something rw,user_id=0
39 20 0:59 / /mnt/ceph rw,relatime - ceph 192.0.2.7:6789:/ rw,name=admin
40 20 0:60 / /media/sf_work rw,nodev - vboxsf work rw,iocharset=utf8
41 20 0:61 / /mnt/c rw,noatime - drvfs C:\134 rw,uid=1000
42 20 0:62 / /net rw,relatime - autofs /etc/auto.net rw,fd=6,pgrp=1,timeout=300,indirect
43 20 0:63 / /odd rw,relatime - foofs none rw
44 20 0:64 / /proc rw,nosuid - proc proc rw
50 20 254:0 /srv/data /bound\040and\011odd\134name rw,relatime shared:1 - ext4 /dev/vda1 rw
51 20 0:51 /cases /srv/cases rw,relatime - nfs4 server:/export rw,vers=4.2
52 20 254:0 /srv/data /srv/frozen ro,relatime - ext4 /dev/vda1 rw
53 20 0:51 / /srv/frozen-nfs ro,relatime - nfs4 server:/export ro,vers=4.2
54 20 8:65 / /srv/failed rw,relatime - ext4 /dev/sdg1 ro,errors=remount-ro
60 20 0:70 / /merged/local rw - overlay overlay rw,lowerdir=/l,upperdir=/srv/up,workdir=/srv/wk
61 20 0:71 / /merged/nfs rw - overlay overlay rw,lowerdir=/l,upperdir=/mnt/nfs4/up,workdir=/mnt/nfs4/wk
62 20 0:72 / /merged/hidden rw - overlay overlay rw,lowerdir=/l1:/l2,upperdir=/host/only/diff,workdir=/host/only/work
63 20 0:73 / /merged/lower rw - overlay overlay ro,lowerdir=/l1:/l2
64 20 0:74 / /merged/spaced rw - overlay overlay rw,lowerdir=/l,upperdir=/srv/up\040per,workdir=/srv/wk
65 20 0:75 / /merged/self rw - overlay overlay rw,lowerdir=/l,upperdir=/merged/self/up,workdir=/merged/self/wk
66 20 0:76 / /merged/deep rw - overlay overlay rw,lowerdir=/l,upperdir=/merged/local/up,workdir=/merged/local/wk
67 20 0:77 / /merged/lossy rw - overlay overlay rw,lowerdir=/l,upperdir=/srv/up,workdir=/srv/wk,volatile
68 20 0:78 / /merged/tmp rw - overlay overlay rw,lowerdir=/l,upperdir=/tmp/up,workdir=/tmp/wk
69 20 0:79 / /merged/nfs-lower rw - overlay overlay rw,lowerdir=/mnt/nfs4/l,upperdir=/srv/up,workdir=/srv/wk
70 20 254:0 /a /over rw,relatime - ext4 /dev/vda1 rw
71 70 0:56 / /over rw,nosuid - fuse.sshfs user@server:/data rw
72 20 0:80 / /nosource rw,relatime - tmpfs  rw,size=4k
73 20 8:81 / /optional rw,relatime shared:11 master:12 propagate_from:2 unbindable - xfs /dev/sdh1 rw
not a line of this file
74 20 garbage
"""

PLACES: dict[str, tuple[int, int | None]] = {
    "/srv/up": (20, EXT4),
    "/srv/up per": (20, EXT4),
    "/mnt/nfs4/up": (31, NFS),
    "/merged/self/up": (65, OVERLAY),
    "/merged/local/up": (60, OVERLAY),
    "/tmp/up": (24, TMPFS),
}

CASES = [
    ("ext4", 20, EXT4, "local", "ext4", "/"),
    ("ext4, no magic", 20, None, "local", "ext4", "/"),
    ("xfs", 21, XFS, "local", "xfs", "/srv/xfs"),
    ("btrfs subvolume", 22, BTRFS, "local", "btrfs", "/home"),
    ("zfs", 23, 0x2FC12FC1, "local", "zfs", "/pool"),
    ("tmpfs", 24, TMPFS, "volatile", "tmpfs", "/tmp"),
    ("vfat", 25, 0x4D44, "weak", "vfat", "/media/stick"),
    ("fuseblk", 26, FUSE, "weak", "fuseblk", "/media/windows"),
    ("squashfs", 27, 0x73717368, "readonly", "squashfs", "/snap/core/1"),
    ("ext4 without barriers", 28, EXT4, "weak", "ext4", "/barrierless"),
    ("nfs 3", 30, NFS, "remote", "nfs", "/mnt/nfs3"),
    ("nfs 4", 31, NFS, "remote", "nfs4", "/mnt/nfs4"),
    ("cifs", 32, SMB2, "remote", "cifs", "/mnt/share"),
    ("smb3", 33, SMB2, "remote", "smb3", "/mnt/old"),
    ("9p with the magic of ext4", 34, EXT4, "remote", "9p", "/host"),
    ("virtiofs", 35, FUSE, "remote", "virtiofs", "/mnt/virtio"),
    ("sshfs", 36, FUSE, "remote", "fuse.sshfs", "/mnt/ssh"),
    ("fuse that calls itself ext4", 37, FUSE, "remote", "fuse.ext4", "/mnt/liar"),
    ("fuse that lies in both votes", 37, EXT4, "remote", "fuse.ext4", "/mnt/liar"),
    ("fuse without a name", 38, FUSE, "remote", "fuse", "/mnt/plain"),
    ("ceph", 39, CEPH, "remote", "ceph", "/mnt/ceph"),
    ("vboxsf", 40, VBOXSF, "remote", "vboxsf", "/media/sf_work"),
    ("drvfs", 41, EXT4, "remote", "drvfs", "/mnt/c"),
    ("autofs", 42, AUTOFS, "remote", "autofs", "/net"),
    ("never seen", 43, 0x12345678, "unknown", "foofs", "/odd"),
    ("proc", 44, 0x9FA0, "unknown", "proc", "/proc"),
    ("bind mount of a local folder", 50, EXT4, "local", "ext4", "/bound and\todd\\name"),
    ("bind mount of a remote folder", 51, NFS, "remote", "nfs4", "/srv/cases"),
    ("read-only bind mount", 52, EXT4, "readonly", "ext4", "/srv/frozen"),
    ("read-only nfs", 53, NFS, "remote", "nfs4", "/srv/frozen-nfs"),
    ("remounted read-only after errors", 54, EXT4, "readonly", "ext4", "/srv/failed"),
    ("overlay, upper local", 60, OVERLAY, "local", "ext4", "/merged/local"),
    ("overlay, upper on nfs", 61, OVERLAY, "remote", "nfs4", "/merged/nfs"),
    ("overlay, upper not visible", 62, OVERLAY, "unknown", "overlay", "/merged/hidden"),
    ("overlay without upper", 63, OVERLAY, "readonly", "overlay", "/merged/lower"),
    ("overlay, upper with a space", 64, OVERLAY, "local", "ext4", "/merged/spaced"),
    ("overlay on itself", 65, OVERLAY, "unknown", "overlay", "/merged/self"),
    ("overlay on an overlay", 66, OVERLAY, "local", "ext4", "/merged/deep"),
    ("overlay that never syncs", 67, OVERLAY, "volatile", "ext4", "/merged/lossy"),
    ("overlay, upper on tmpfs", 68, OVERLAY, "volatile", "tmpfs", "/merged/tmp"),
    ("overlay, lower on nfs, upper local", 69, OVERLAY, "local", "ext4", "/merged/nfs-lower"),
    ("under an over-mount", 70, EXT4, "local", "ext4", "/over"),
    ("over-mounted", 71, FUSE, "remote", "fuse.sshfs", "/over"),
    ("empty source", 72, TMPFS, "volatile", "tmpfs", "/nosource"),
    ("many optional fields", 73, XFS, "local", "xfs", "/optional"),
    ("local by type, nfs by magic", 20, NFS, "remote", "nfs", "/"),
    ("local by type, cifs by magic", 21, CIFS, "remote", "cifs", "/srv/xfs"),
    ("local by type, fuse by magic", 21, FUSE, "remote", "fuse", "/srv/xfs"),
    ("unknown by type, ceph by magic", 43, CEPH, "remote", "ceph", "/odd"),
    ("no such mount", 999, EXT4, "unknown", "unknown", ""),
    ("a line that is none", 74, EXT4, "unknown", "unknown", ""),
]


@pytest.mark.parametrize(
    ("mount_id", "magic", "kind", "name", "point"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_each_mount_is_recognised(mount_id: int, magic: int | None, kind: str, name: str, point: str) -> None:
    """Type, magic and, for an overlay, the upper folder decide; the name is the one that a setting may allow."""
    verdict = judge_mount(MOUNTINFO, mount_id, magic, PLACES.get)
    assert (verdict.kind, verdict.name, verdict.mount_point) == (kind, name, point)
    assert verdict.why


def test_empty_mountinfo_is_unknown() -> None:
    """Without any entry nothing is known, and nothing is guessed."""
    assert judge_mount("", 20, EXT4, PLACES.get).kind == "unknown"


def test_disagreement_is_told() -> None:
    """When the two votes differ, the sentence tells both."""
    assert judge_mount(MOUNTINFO, 20, NFS, PLACES.get).why == "it is mounted as ext4, but statfs says nfs"


def standing_on(monkeypatch: pytest.MonkeyPatch, kind: filesystem.Kind, name: str) -> None:
    monkeypatch.setattr(filesystem, "judge", lambda _: Verdict(kind, name, "/mnt/x", "the reason"))


@pytest.mark.parametrize("kind", ["remote", "unknown"])
def test_unsafe_is_refused_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: filesystem.Kind) -> None:
    """The refusal names folder, file system, mount point, reason and both ways out."""
    standing_on(monkeypatch, kind, "foofs")
    with pytest.raises(UnsafeFilesystem) as caught:
        refuse_unsafe(tmp_path / "w")
    sentence = str(caught.value)
    for part in (str(tmp_path / "w"), "foofs", "/mnt/x", "the reason", "local disk", "allow_filesystems"):
        assert part in sentence
    assert (caught.value.filesystem, caught.value.kind, caught.value.mount_point) == ("foofs", kind, "/mnt/x")


def test_override_is_by_exact_name_and_stays_visible(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An allowed name passes with its bad verdict, so that it can be recorded and shown; a similar name does not."""
    standing_on(monkeypatch, "remote", "nfs4")
    assert refuse_unsafe(tmp_path, allowed=["nfs4"]).kind == "remote"
    with pytest.raises(UnsafeFilesystem):
        refuse_unsafe(tmp_path, allowed=["nfs", "nfs41"])


@pytest.mark.parametrize("kind", ["local", "volatile", "weak", "readonly"])
def test_usable_ground_passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: filesystem.Kind) -> None:
    """Local ground passes, with its warning in the verdict if there is one; read-only ground can do no harm."""
    standing_on(monkeypatch, kind, "ext4")
    assert refuse_unsafe(tmp_path).kind == kind


def test_darwin_says_that_it_does_not_check(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where mounts cannot be looked up the folder passes, and the sentence says that nothing was checked."""
    monkeypatch.setattr(sys, "platform", "darwin")
    assert judge(tmp_path) == Verdict("local", "unchecked", "", "file systems are not checked on darwin")


@pytest.mark.skipif(sys.platform != "linux", reason="mounts are looked up on Linux only")
class TestThisMachine:
    """What the kernel of this machine says about real folders."""

    def test_missing_folders_are_judged_by_their_parent(self, tmp_path: Path) -> None:
        """A folder that does not exist yet, or lies behind a link or a file, is judged by what will hold it."""
        expected = judge(tmp_path)
        (tmp_path / "file").touch()
        (tmp_path / "link").symlink_to(tmp_path / "nowhere")
        for name in ("a/b/c", "file", "file/x", "link", "link/x"):
            assert judge(tmp_path / name) == expected
        assert sorted(os.listdir(tmp_path)) == ["file", "link"]

    def test_links_are_followed_first(self, tmp_path: Path) -> None:
        """A link to another file system is judged by where it leads, even if nothing stands there yet."""
        (tmp_path / "link").symlink_to("/proc")
        (tmp_path / "dangling").symlink_to("/proc/not/yet")
        assert judge(tmp_path / "link" / "x").name == "proc"
        assert judge(tmp_path / "dangling").name == "proc"
        with pytest.raises(UnsafeFilesystem, match=r"proc \(mounted at /proc\)"):
            refuse_unsafe(tmp_path / "link")

    def test_without_proc_nothing_is_assumed(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """When the mount cannot be looked up, the folder is refused and not taken for local."""

        def gone(self: Path, *_: object) -> str:
            raise FileNotFoundError(2, "No such file or directory", str(self))

        monkeypatch.setattr(Path, "read_text", gone)
        assert judge(tmp_path).kind == "unknown"
        with pytest.raises(UnsafeFilesystem, match=r"cannot be looked up"):
            refuse_unsafe(tmp_path)

    def test_second_vote_is_really_asked(self) -> None:
        """The magic that statfs gives for /proc is the one of proc."""
        descriptor = os.open("/proc", os.O_PATH)
        try:
            assert filesystem._magic(descriptor) == 0x9FA0
        finally:
            os.close(descriptor)


MOUNTS = r"""
set -e
cd "$1"
mkdir local tmp bound 'sp ace' over over/inside frozen lower upper work merged
mount -t tmpfs t1 tmp
mkdir tmp/up tmp/wk tmp/merged
mount --bind tmp bound
mount --bind /proc/sys 'sp ace'
mount -t tmpfs t2 over/inside
mount --bind /proc over
mount --bind local frozen
mount -o remount,ro,bind frozen
mount -t overlay o1 -o lowerdir=lower,upperdir=upper,workdir=work merged
mount -t overlay o2 -o lowerdir=lower,upperdir=tmp/up,workdir=tmp/wk tmp/merged
shift
exec "$@"
"""
ASK = """
import json, sys
from pathlib import Path
from perenne.filesystem import judge
print(json.dumps({name: [judge(Path(name)).kind, judge(Path(name)).name] for name in sys.argv[1:]}))
"""


def test_real_mounts_do_not_mislead(tmp_path: Path) -> None:
    """Bind mounts, over-mounts, hidden mounts, spaces and overlays are judged by the mount that really holds them."""
    if (
        shutil.which("unshare") is None
        or subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode != 0
    ):
        pytest.skip("NOT CHECKED: mounts need `unshare -m`, that is root, on Linux")
    base = judge(tmp_path)
    names = ["local", "tmp", "bound", "sp ace", "over", "over/inside", "frozen", "merged", "tmp/merged/not/yet"]
    # overlayfs wants absolute folders when it is followed later, so the script is given an absolute place.
    script = MOUNTS.replace("dir=lower", f"dir={tmp_path}/lower").replace("dir=upper", f"dir={tmp_path}/upper")
    script = script.replace("dir=work", f"dir={tmp_path}/work").replace("dir=tmp", f"dir={tmp_path}/tmp")
    asked = subprocess.run(
        [
            "unshare",
            "-m",
            "--propagation",
            "private",
            "sh",
            "-c",
            script,
            "sh",
            str(tmp_path),
            sys.executable,
            "-c",
            ASK,
            *names,
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout) == {
        "local": [base.kind, base.name],
        "tmp": ["volatile", "tmpfs"],
        "bound": ["volatile", "tmpfs"],
        "sp ace": ["unknown", "proc"],
        "over": ["unknown", "proc"],
        "over/inside": ["unknown", "proc"],  # the tmpfs there is hidden under /proc; the path ends at /proc itself
        "frozen": ["readonly", base.name],
        "merged": [base.kind, base.name],
        "tmp/merged/not/yet": ["volatile", "tmpfs"],
    }
