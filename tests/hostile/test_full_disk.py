"""The disk says no: old data intact, one clear error, and all is well again when the cause is gone."""

import errno
import functools
import os
import shutil
from pathlib import Path

import pytest

import syscalls
from loads import IS_FULL
from memdir.errors import DiskError, MemdirError
from memdir.records import Draft, Kind
from memdir.store.files import FileStore
from memdir.testing import sample_memory
from pressure import Unavailable, descriptor_limit, file_size_limit, nobody_folder, run_in_child, small_disk


def save_until_full(store: FileStore) -> str:
    for number in range(10_000):
        body = f"Body number {number}. " * 100
        try:
            store.write(Draft(Kind.PROJECT, f"Thing {number}", "Nightly build cache of the release branch", body))
        except DiskError as error:
            assert error.hint and "\n" not in str(error)
            return f"{number} {error}"
    raise AssertionError("the disk never filled")


def check_whole(store: FileStore, count: int) -> None:
    names = {header.name for header in store.scan()}
    assert names == {f"thing-{number}" for number in range(count)}
    for name in names:
        assert store.read(name).body.strip().endswith(".")
        assert f"({name}.md)" in store.index()
    assert not [path for path in store.root.iterdir() if path.name.endswith(".tmp")]


def test_a_full_disk_loses_nothing_and_heals_when_there_is_room(tmp_path: Path) -> None:
    def fill() -> int:
        disk = tmp_path / "disk"
        disk.mkdir()
        with small_disk(disk, 600 * 1024):
            (disk / "ballast").write_bytes(b"x" * 100 * 1024)
            store = FileStore(disk / "project" / "memory")
            words = save_until_full(store)
            count = int(words.split()[0])
            assert count > 3 and "full" in words
            check_whole(FileStore(disk / "project" / "memory"), count)
            (disk / "ballast").unlink()
            store.write(
                Draft(Kind.PROJECT, f"Thing {count}", "Nightly build cache of the release branch", "Small body.")
            )
            check_whole(store, count + 1)
            store.close()
            return count

    try:
        done = run_in_child(fill, deadline=120)
    except Unavailable as error:
        pytest.skip(str(error))
    assert not done.error, done.detail


def test_a_limit_on_file_size_is_one_clear_error(memory: Path) -> None:
    store = FileStore(memory)
    saved = store.write(sample_memory())

    def grow() -> str:
        with file_size_limit(300), pytest.raises(DiskError) as caught:
            FileStore(memory).edit("terse-replies", saved.text + "x" * 5000, expect=saved.digest)
        return str(caught.value)

    done = run_in_child(grow)
    assert not done.error and "\n" not in str(done.value)
    assert store.read("terse-replies").digest == saved.digest
    store.edit("terse-replies", saved.text + "x" * 5000, expect=saved.digest)


def test_a_read_only_directory_can_be_read_and_says_why_it_cannot_be_written() -> None:
    with nobody_folder() as folder:

        def work() -> list[str]:
            memory = folder / "project" / "memory"
            with FileStore(memory) as store:
                store.write(sample_memory())
            for path in (memory / ".memdir", memory):
                path.chmod(0o500)
            locked = FileStore(memory)
            said = [header.name for header in locked.scan()] + [header.name for header in locked.scan()]
            said += [change.verb for change in locked.changes()]
            for change in (lambda: locked.write(sample_memory(title="No")), lambda: locked.delete("terse-replies")):
                try:
                    change()
                except MemdirError as error:
                    said.append(str(error))
            for path in (memory, memory / ".memdir"):
                path.chmod(0o700)
            FileStore(memory).write(sample_memory(title="Yes"))
            return said

        try:
            done = run_in_child(work, as_nobody=True)
        except Unavailable as error:
            pytest.skip(str(error))
        assert not done.error, done.detail
        value = done.value
        assert isinstance(value, list) and value[:3] == ["terse-replies", "terse-replies", "save"]
        assert len(value) == 5 and all("cannot" in words for words in value[3:])


def test_without_descriptors_it_fails_clearly_and_works_again(memory: Path) -> None:
    with FileStore(memory) as store:
        store.write(sample_memory())

    def starve() -> list[str]:
        said = []
        for free in range(9):
            store = FileStore(memory)
            with descriptor_limit(free):
                try:
                    store.write(sample_memory(title=f"Free {free}"))
                    said.append("saved")
                except MemdirError as error:
                    assert "\n" not in str(error)
                    said.append("refused")
            store.close()
        FileStore(memory).write(sample_memory(title="After"))
        return said

    done = run_in_child(starve)
    assert not done.error, done.detail
    assert isinstance(done.value, list) and "refused" in done.value
    headers = FileStore(memory).scan()
    assert len(headers) == 2 + done.value.count("saved") and not any(header.problem for header in headers)


CALLS = (
    "write",
    "pwrite64",
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "openat",
    "mkdirat",
    "unlinkat",
    "ftruncate",
)


OTHERS = [errno.EROFS, errno.EMFILE, errno.EDQUOT, errno.EACCES]  # at the full load: they take the same way


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, *(OTHERS if IS_FULL else [])])
def test_any_call_may_fail_and_all_later_ones_too(tmp_path: Path, error: int) -> None:
    """Injected at every call of a save in turn: the directory is before or after, and the next save works."""
    if reason := syscalls.is_supported():
        pytest.skip(reason)
    origin = tmp_path / "origin"
    with FileStore(origin) as store:
        store.write(sample_memory())
        store.scan()
    nth, failed = 0, 0
    while True:
        nth += 1
        place = tmp_path / f"{error}-{nth}"
        shutil.copytree(origin, place)
        store = FileStore(place)
        change = functools.partial(store.write, sample_memory(title="Second"))
        done = syscalls.inject_errors(change, names=CALLS, error=error, nth=nth, later=True, within=place)
        if not done.struck:
            break
        if done.outcome.error:
            failed += 1
            assert done.outcome.kind in ("DiskError", "PathError", "NotFoundError"), done.outcome.detail
        after = FileStore(place)
        after.note_outside()
        names = {header.name for header in after.scan()}
        assert "terse-replies" in names
        if not done.outcome.error:
            assert "second" in names, f"acknowledged but lost at call {nth}"
        else:
            after.write(sample_memory(title="Third"))
        assert after.index().count("(second.md)") == ("second" in names)
        after.close()
        shutil.rmtree(place)
    assert failed > 10 and nth > failed
    assert os.strerror(error)
