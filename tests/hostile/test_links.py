"""Links, swapped folders and special files: nothing outside is written or read, nothing hangs."""

import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from loads import scaled
from memdir import files
from memdir.errors import MemdirError, PathError
from memdir.records import Draft, Kind
from memdir.store.files import FileStore
from memdir.testing import sample_memory
from pressure import run_in_child
from swapper import Swapper


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    folder = tmp_path / "outside"
    folder.mkdir()
    (folder / "secret.md").write_text(
        "---\nname: s\ndescription: secret words here\ntype: user\n---\n\nsecret\n", encoding="utf-8"
    )
    return folder


def attack(memory: Path, outside: Path, writes: int) -> tuple[int, int]:
    """Write into a folder that somebody keeps exchanging for a link; how many got out, how many were answered."""
    store = FileStore(memory)
    store.write(sample_memory(name="sub/start"))
    answered = 0
    with Swapper(memory / "sub", outside) as swapper:
        for number in range(writes):
            try:
                with files.open_root(memory) as handle, files.open_folder(handle, ("sub",)) as folder:
                    leaf = f"w{number % 50}.md"
                    made = os.open(leaf, os.O_CREAT | os.O_WRONLY | files.NOFOLLOW, 0o600, dir_fd=folder)
                    os.close(made)
                    answered += 1
            except (MemdirError, OSError):
                continue
        assert swapper.swaps > 0
    return len([path for path in outside.iterdir() if path.name.startswith("w")]), answered


@pytest.mark.load
def test_a_swapped_folder_never_lets_a_write_out(memory: Path, outside: Path) -> None:
    escapes, answered = attack(memory, outside, scaled(100_000))
    assert escapes == 0 and answered > 0


def test_whole_saves_against_the_swapper_stay_inside(memory: Path, outside: Path) -> None:
    store = FileStore(memory)
    store.write(sample_memory(name="sub/start"))
    with Swapper(memory / "sub", outside):
        for number in range(scaled(3000)):
            try:
                store.write(
                    Draft(Kind.USER, f"T{number}", "Nightly build cache of the release branch", "b", f"sub/w{number}")
                )
            except MemdirError as error:
                assert "\n" not in str(error)
    assert [path.name for path in outside.iterdir()] == ["secret.md"]


def test_the_attack_succeeds_without_no_follow(memory: Path, outside: Path) -> None:
    def weaken() -> int:
        files.NOFOLLOW = 0
        return attack(memory, outside, 20_000)[0]

    done = run_in_child(weaken, deadline=120)
    assert not done.error and isinstance(done.value, int) and done.value > 0


@pytest.mark.parametrize("name", ["link", "folder/x"])
def test_links_below_the_root_are_refused_for_writing_and_skipped_for_reading(
    memory: Path, outside: Path, name: str
) -> None:
    store = FileStore(memory)
    store.write(sample_memory())
    (memory / "link.md").symlink_to(outside / "secret.md")
    (memory / "dangling.md").symlink_to(outside / "nothing.md")
    (memory / "folder").symlink_to(outside)
    assert [header.name for header in store.scan()] == ["terse-replies"]
    with pytest.raises(PathError, match="symbolic link"):
        store.write(Draft(Kind.USER, "T", "Nightly build cache of the release branch", "b", name))
    for read in ("link", "folder/secret"):
        with pytest.raises(PathError, match="symbolic link"):
            store.read(read)
    with pytest.raises(PathError):
        store.delete("link")
    assert sorted(path.name for path in outside.iterdir()) == ["secret.md"]
    assert "special_file" in [at for at in ("special_file",) if any(found.refusal for found in store.list_entries())]


def test_a_hard_link_is_not_written_through(memory: Path, outside: Path) -> None:
    store = FileStore(memory)
    saved = store.write(sample_memory())
    os.link(memory / "terse-replies.md", outside / "twin.md")
    with pytest.raises(PathError, match="several hard links"):
        store.pin("terse-replies")
    assert store.read("terse-replies").digest == saved.digest


def test_the_index_and_the_state_folder_may_not_be_links_either(memory: Path, outside: Path) -> None:
    memory.mkdir(parents=True)
    (memory / "MEMORY.md").symlink_to(outside / "index.md")
    FileStore(memory).write(sample_memory())  # the memory counts; its line comes when the index can be read again
    assert [path.name for path in outside.iterdir()] == ["secret.md"]
    (memory / "MEMORY.md").unlink()
    other = memory.parent / "other"
    other.mkdir()
    (other / ".memdir").symlink_to(outside)
    with pytest.raises(PathError):
        FileStore(other).write(sample_memory())
    third = memory.parent / "third" / ".memdir"
    third.mkdir(parents=True)
    (third / "history.db").symlink_to(outside / "history.db")
    with pytest.raises(PathError):
        FileStore(third.parent).write(sample_memory())
    assert sorted(path.name for path in outside.iterdir()) == ["secret.md"]


def test_a_planted_link_to_somebody_elses_database_is_not_touched(memory: Path, outside: Path) -> None:
    with closing(sqlite3.connect(outside / "theirs.db")) as theirs, theirs:
        theirs.execute("CREATE TABLE kept (x)")
    before = (outside / "theirs.db").read_bytes()
    (memory / ".memdir").mkdir(parents=True)
    (memory / "plain.md").write_text("text", encoding="utf-8")
    (memory / ".memdir" / "index.db").symlink_to(outside / "theirs.db")
    assert len(FileStore(memory).scan()) == 1 == len(FileStore(memory).scan())
    other = memory.parent / "other"
    other.mkdir()
    (other / "plain.md").write_text("text", encoding="utf-8")
    (other / ".memdir").symlink_to(outside)
    assert len(FileStore(other).scan()) == 1
    assert (outside / "theirs.db").read_bytes() == before
    assert sorted(path.name for path in outside.iterdir()) == ["secret.md", "theirs.db"]


def test_the_root_itself_may_be_a_link(memory: Path, tmp_path: Path) -> None:
    memory.mkdir(parents=True)
    (tmp_path / "alias").symlink_to(memory)
    FileStore(tmp_path / "alias").write(sample_memory())
    assert (memory / "terse-replies.md").is_file()


def test_special_and_huge_files_are_neither_read_nor_waited_for(memory: Path) -> None:
    store = FileStore(memory)
    store.write(sample_memory())
    os.mkfifo(memory / "fifo.md")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(memory / "socket.md"))
        with (memory / "huge.md").open("wb") as file:
            file.truncate(10 * 2**30)
        (memory / "folder.md").mkdir()
        if os.geteuid() == 0:
            os.mknod(memory / "zero.md", 0o600 | 0o020000, os.makedev(1, 5))

        def look() -> list[str]:
            fresh = FileStore(memory)
            names = [header.name for header in fresh.scan()]
            for name in ("fifo", "socket", "huge", "zero"):
                try:
                    fresh.read(name)
                    names.append(f"read {name}")
                except MemdirError:
                    pass
            for name in ("fifo", "socket", "huge"):
                try:
                    fresh.write(Draft(Kind.USER, "T", "Nightly build cache of the release branch", "b", name))
                    names.append(f"wrote {name}")
                except MemdirError:
                    pass
            fresh.note_outside()
            return names

        done = run_in_child(look, deadline=20)
    assert not done.error and done.value == ["terse-replies"]
    refused = {found.path: found.refusal for found in store.list_entries() if found.refusal}
    assert refused["fifo.md"] == "it is a FIFO" and refused["socket.md"] == "it is a socket"
    assert "larger than" in refused["huge.md"] and refused["folder.md"] == "it is a folder"
