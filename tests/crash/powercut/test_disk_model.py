"""The disk of the power cuts, by hand: what is synced stays, what is not may go, piece by piece and name by name."""

from __future__ import annotations

from random import Random

import pytest

from powercut import disk
from powercut.disk import Disk, Image


def images(present: Disk, draws: int = 400) -> list[Image]:
    return [disk.draw(present, Random(number), number) for number in range(draws)]


def played(*operations: tuple[object, ...]) -> Disk:
    present = Disk()
    for operation in operations:
        present.play(operation)
    return present


@pytest.fixture
def synced() -> Disk:
    """A file whose name and first 1024 bytes are on the disk."""
    return played(("create", "a"), ("write", "a", 0, b"1" * 1024), ("sync", "a", True))


def test_what_is_synced_stays(synced: Disk) -> None:
    """Nothing of a synced file is lost, however often the power goes."""
    assert {image["a"] for image in images(synced)} == {b"1" * 1024}


def test_what_is_not_synced_may_go_by_sectors(synced: Disk) -> None:
    """Each sector of a write survives by itself, also the second without the first, and also torn."""
    synced.play(("write", "a", 0, b"2" * 1024))
    found = {image["a"] for image in images(synced)}
    whole = {one * 512 + two * 512 for one in (b"1", b"2") for two in (b"1", b"2")}
    assert whole <= found
    torn = found - whole
    assert torn
    assert all(len(content) == 1024 and set(content) <= set(b"12") for content in torn)


def test_a_hole_is_zeros(synced: Disk) -> None:
    """A file that grew may hold zeros where a write did not survive."""
    synced.play(("write", "a", 1024, b"2" * 1024))
    assert b"1" * 1024 + bytes(512) + b"2" * 512 in {image["a"] for image in images(synced)}


def test_writes_may_arrive_in_another_order(synced: Disk) -> None:
    """Of two un-synced writes to one place either may be the last."""
    synced.play(("write", "a", 0, b"2" * 512))
    synced.play(("write", "a", 0, b"3" * 512))
    assert {b"2" * 512, b"3" * 512} <= {image["a"][:512] for image in images(synced)}


def test_a_shorter_length_may_not_arrive(synced: Disk) -> None:
    """A file that was cut may still be long after the power went."""
    synced.play(("truncate", "a", 10))
    assert {len(image["a"]) for image in images(synced)} == {10, 1024}


def test_a_synced_file_may_have_no_name() -> None:
    """Syncing a file keeps its bytes and not its name, until the folder is synced."""
    present = played(("create", "a"), ("write", "a", 0, b"1"), ("sync", "a", False))
    assert {image.get("a") for image in images(present)} == {None, b"1"}
    present.play(("create", "b"))
    present.play(("sync", "b", True))
    assert all(image["a"] == b"1" and image["b"] == b"" for image in images(present))


def test_a_deleted_file_may_come_back(synced: Disk) -> None:
    """A deletion that was not synced may be undone, with a new file of the same name gone."""
    synced.play(("delete", "a", False))
    synced.play(("create", "a"))
    synced.play(("write", "a", 0, b"new"))
    found = {image.get("a", b"none") for image in images(synced)}
    assert {b"1" * 1024, b"new", b"", b"none"} <= found
    synced.play(("delete", "a", True))
    assert all("a" not in image for image in images(synced))


def test_a_rename_happens_as_a_whole(synced: Disk) -> None:
    """After a rename that was not synced the old name is there or the new one, and never both or none."""
    synced.play(("rename", "a", "b"))
    found = {tuple(sorted(image)) for image in images(synced)}
    assert found == {("a",), ("b",)}
    synced.play(("sync_folder", "."))
    assert {tuple(image) for image in images(synced)} == {("b",)}


def test_a_second_name_is_the_same_file(synced: Disk) -> None:
    """A link is a name of its own, which may go, for the same bytes."""
    synced.play(("link", "a", "b"))
    synced.play(("write", "b", 0, b"2" * 512))
    found = [image for image in images(synced) if "b" in image]
    assert found
    assert all(image["a"] == image["b"] for image in found)
    assert len(found) < len(images(synced))


def test_a_sync_of_a_folder_keeps_its_names_only() -> None:
    """Names in a folder stay once it is synced; its own name, and those in other folders, have to be synced as well."""
    present = played(("folder", "sub"), ("create", "sub/a"), ("create", "b"), ("sync_folder", "sub"))
    assert {image.get("sub/a") for image in images(present)} == {None, b""}
    present.play(("sync_folder", "."))
    assert all(set(image) == {"sub/a", "b"} for image in images(present))


def test_an_adopted_file_is_there(synced: Disk) -> None:
    """A file from before the recording is on the disk."""
    synced.play(("adopt", "old", b"content"))
    assert all(image["old"] == b"content" for image in images(synced))


@pytest.mark.parametrize(("offset", "size"), [(0, 512), (0, 513), (100, 24), (500, 24), (56, 4096), (511, 1026)])
def test_a_write_is_cut_where_sectors_begin(offset: int, size: int) -> None:
    """The pieces of a write are the write, and none crosses the border of a sector."""
    data = bytes(Random(size).randbytes(size))
    pieces = disk.in_sectors(offset, data)
    content = bytearray()
    disk.apply(content, pieces)
    assert content == bytes(offset) + data
    for piece in pieces:
        assert piece.data
        assert piece.offset // 512 == (piece.offset + len(piece.data) - 1) // 512


def test_a_digest_tells_images_apart() -> None:
    """Images differ by names, by contents, and by what was acknowledged."""
    contents: list[Image] = [{"a": b"1"}, {"b": b"1"}, {"a": b"", "b": b"1"}, {}]
    assert len({disk.digest(image, number) for image in contents for number in (1, 2)}) == 8
