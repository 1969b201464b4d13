"""The power cut is proved on writers of a few lines: it takes what was not synced and leaves what was."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import powercut
from pressure import run_in_child

pytestmark = pytest.mark.load

OLD, NEW = b"old\n" * 500, b"new\n" * 700


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[powercut.Disk]:
    if reason := powercut.is_supported():
        pytest.skip(f"power cut unavailable: {reason}")
    with powercut.open_disk(tmp_path) as found:
        yield found


def put_old(place: Path) -> None:
    (place / "note").write_bytes(OLD)


def replace_note(place: Path, *, sync_file: bool = False, sync_folder: bool = False, sync_other: bool = False) -> None:
    fd = os.open(place / "note.tmp", os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    os.write(fd, NEW)
    if sync_file:
        os.fsync(fd)
    os.close(fd)
    os.rename(place / "note.tmp", place / "note")
    if sync_folder:
        sync(place)
    if sync_other:
        (place / "other").write_bytes(b"x")
        sync(place / "other")


def sync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.close(fd)


def cut_after(disk: powercut.Disk, writer: Callable[[Path], object]) -> bytes:
    return powercut.cut_power(disk, put_old, writer, lambda place: (place / "note").read_bytes())


def test_a_rename_without_any_sync_is_lost(disk: powercut.Disk) -> None:
    assert cut_after(disk, replace_note) == OLD


def test_a_rename_before_its_bytes_are_synced_leaves_a_file_without_them(disk: powercut.Disk) -> None:
    found = cut_after(disk, lambda place: replace_note(place, sync_other=True))
    assert found != NEW and found != OLD and not found.strip(b"\0")


def test_a_synced_folder_does_not_save_bytes_that_were_never_synced(disk: powercut.Disk) -> None:
    found = cut_after(disk, lambda place: replace_note(place, sync_folder=True))
    assert found != NEW and not found.strip(b"\0")


def test_a_synced_file_whose_folder_is_not_synced_is_lost_though_acknowledged(disk: powercut.Disk) -> None:
    assert cut_after(disk, lambda place: replace_note(place, sync_file=True)) == OLD


def test_file_and_folder_synced_survive_every_cut(disk: powercut.Disk) -> None:
    found = [cut_after(disk, lambda place: replace_note(place, sync_file=True, sync_folder=True)) for _ in range(10)]
    assert found == [NEW] * 10


def test_nothing_can_be_written_once_the_power_is_cut(disk: powercut.Disk) -> None:
    with disk.mounted() as place:
        disk.cut()
        done = run_in_child(lambda: (place / "late").write_bytes(b"x"))
    assert done.kind == "OSError"


def test_an_action_that_fails_is_not_taken_for_a_power_cut(disk: powercut.Disk) -> None:
    with pytest.raises(AssertionError, match="failed before the power did"):
        cut_after(disk, lambda place: (place / "absent").unlink())
