"""From which moment a memory's age counts: one test for each thing that moves it, and for each that must not."""

import os
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path

from homes import git, write
from memdir.format.frontmatter import set_fields
from memdir.records import Draft, Forget, Kind, Origin, Put, Rewrite
from memdir.store.facts import find_ages
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from memdir.store.state import Author, write_authors
from memdir.testing import sample_memory

NOW = datetime(2026, 11, 16, 9, 0, tzinfo=UTC)
DAY = timedelta(days=1)
PLAIN = "---\nname: Ports\ndescription: which ports the services use\ntype: reference\n---\n\nThe cache is on 6380.\n"
SAID = PLAIN.replace("type: reference", "metadata:\n  type: reference\n  modified: 2026-03-04T10:00:00Z")


class Clock:
    """The time of a store, moved by hand."""

    def __init__(self, now: datetime) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def put(path: Path, text: str, moment: datetime) -> Path:
    """A file written by somebody else, at a time."""
    write(path, text)
    set_time(path, moment)
    return path


def set_time(path: Path, moment: datetime) -> None:
    os.utime(path, (moment.timestamp(), moment.timestamp()))


def since(store: FileStore, name: str, now: datetime = NOW) -> datetime:
    return find_ages(store, [store.read(name)], now=now)[name]


def test_a_saved_memory_counts_from_the_change(memory: Path) -> None:
    clock = Clock(NOW - 40 * DAY)
    with FileStore(memory, clock=clock) as store:
        store.write(sample_memory())
        assert since(store, "terse-replies") == NOW - 40 * DAY
        clock.now = NOW - 3 * DAY
        found = store.read("terse-replies")
        store.edit("terse-replies", found.text + "\nMore.\n", expect=found.digest)
        assert since(store, "terse-replies") == NOW - 3 * DAY


def test_history_knows_better_than_what_the_file_says_of_itself(memory: Path) -> None:
    clock = Clock(NOW - 5 * DAY)
    put(memory / "ports.md", SAID, NOW - 90 * DAY)
    with FileStore(memory, clock=clock) as store:
        found = store.read("ports")
        store.edit("ports", found.text + "And 6381.\n", expect=found.digest)
        assert since(store, "ports") == NOW - 5 * DAY


def test_without_history_the_file_says_itself(memory: Path) -> None:
    put(memory / "ports.md", SAID, NOW - 5 * DAY)
    assert since(FileStore(memory), "ports") == datetime(2026, 3, 4, 10, tzinfo=UTC)


def test_a_file_that_says_nothing_counts_from_its_time_of_change(memory: Path) -> None:
    put(memory / "ports.md", PLAIN, NOW - 90 * DAY)
    assert since(FileStore(memory), "ports") == NOW - 90 * DAY


def test_what_a_sync_brought_is_as_old_as_its_commit(memory: Path) -> None:
    clock = Clock(NOW - DAY)
    draft = Draft(Kind.REFERENCE, "Ports", "Which ports the services use", "The cache is on 6380.", name="team/ports")
    with FileStore(memory, clock=clock) as store:
        store.write(draft, origin=Origin(who="sync"))
        assert since(store, "team/ports") == NOW - DAY
        write_authors(store.state, {"team/ports": Author("A teammate", "", NOW - 20 * DAY)})
        assert since(store, "team/ports") == NOW - 20 * DAY


def test_what_was_imported_is_as_old_as_it_says(memory: Path) -> None:
    clock = Clock(NOW)
    with FileStore(memory, clock=clock) as store:
        store.write(sample_memory(), origin=Origin(who="import"))
        found = store.read("terse-replies")
        text = set_fields(found.text, {"modified": "2026-03-04T10:00:00+00:00"})
        store.edit("terse-replies", text, expect=found.digest, origin=Origin(who="import"))
        assert since(store, "terse-replies") == datetime(2026, 3, 4, 10, tzinfo=UTC)


def test_a_verification_makes_it_young_again(memory: Path) -> None:
    put(memory / "ports.md", PLAIN.replace("type:", "verified: 2026-11-14T08:00:00Z\ntype:"), NOW - 90 * DAY)
    put(memory / "nested.md", SAID.replace("  type:", "  verified: 2026-11-14\n  type:"), NOW - 90 * DAY)
    store = FileStore(memory)
    assert since(store, "ports") == datetime(2026, 11, 14, 8, tzinfo=UTC)
    assert since(store, "nested") == datetime(2026, 11, 14, tzinfo=UTC)


def test_an_older_verification_does_not_make_it_older(memory: Path) -> None:
    put(memory / "ports.md", PLAIN.replace("type:", "verified: 2025-01-01\ntype:"), NOW - 9 * DAY)
    assert since(FileStore(memory), "ports") == NOW - 9 * DAY


def test_a_stamp_is_no_change_of_the_words(memory: Path) -> None:
    clock = Clock(NOW - 40 * DAY)
    with FileStore(memory, clock=clock) as store:
        store.write(sample_memory())
        clock.now = NOW - 2 * DAY
        store.pin("terse-replies")
        assert since(store, "terse-replies") == NOW - 40 * DAY


def test_a_touch_counts_before_and_after_it_was_noticed(memory: Path) -> None:
    clock = Clock(NOW - 40 * DAY)
    with FileStore(memory, clock=clock) as store:
        store.write(sample_memory())
        path = memory / "terse-replies.md"
        os.utime(path, (0, path.stat().st_mtime // 1 + 400 * 86_400))  # fractions of a second are rounded in two ways
        touched = datetime.fromtimestamp(path.stat().st_mtime, UTC)
        later = touched + DAY
        assert since(store, "terse-replies", later) == touched
        store.note_outside()
        assert since(store, "terse-replies", later) == touched


def test_the_real_git_switching_there_and_back_makes_nothing_young(tmp_path: Path) -> None:
    memory = tmp_path / "repository"
    memory.mkdir()
    git(memory, "init", "-q")
    put(memory / "other.md", PLAIN, NOW)
    git(memory, "add", ".")
    git(memory, "commit", "-q", "-m", "one")
    git(memory, "switch", "-q", "-c", "more")
    clock = Clock(NOW - 40 * DAY)
    with FileStore(memory, state=tmp_path / "state", clock=clock) as store:
        store.write(sample_memory())
        git(memory, "add", ".")
        git(memory, "commit", "-q", "-m", "two")
        git(memory, "switch", "-q", "main")
        clock.now = NOW
        store.note_outside()
        git(memory, "switch", "-q", "more")
        assert since(store, "terse-replies", NOW + 9000 * DAY) == NOW - 40 * DAY
        store.note_outside()
        assert since(store, "terse-replies", NOW + 9000 * DAY) == NOW - 40 * DAY


def test_a_file_from_before_memdir_is_not_made_younger_by_pin_dream_or_undo(memory: Path) -> None:
    put(memory / "ports.md", PLAIN, NOW - 60 * DAY)
    with FileStore(memory, clock=Clock(NOW)) as store:
        store.pin("ports")
        assert since(store, "ports") == NOW - 60 * DAY
        store.undo()
        assert since(store, "ports") == NOW - 60 * DAY
        found = store.read("ports")
        store.change([Rewrite("ports", found.text + "\nMore.\n", found.digest)], verb="dream")
        assert since(store, "ports") == NOW - 60 * DAY
        store.undo()
        assert since(store, "ports") == NOW - 60 * DAY
        found = store.read("ports")
        store.edit("ports", found.text + "\nMore.\n", expect=found.digest)
        assert since(store, "ports") == NOW


def test_an_edit_by_somebody_else_is_a_change(memory: Path) -> None:
    clock = Clock(NOW - 40 * DAY)
    with FileStore(memory, clock=clock) as store:
        store.write(sample_memory())
        path = memory / "terse-replies.md"
        put(path, path.read_text(encoding="utf-8") + "\nMore.\n", NOW - 2 * DAY)
        assert since(store, "terse-replies") == NOW - 2 * DAY
        clock.now = NOW
        store.note_outside()
        assert since(store, "terse-replies") == NOW - 2 * DAY


def test_what_is_taken_back_is_as_old_as_it_was(memory: Path) -> None:
    clock = Clock(NOW - 40 * DAY)
    with FileStore(memory, clock=clock) as store:
        store.write(sample_memory())
        clock.now = NOW - 9 * DAY
        found = store.read("terse-replies")
        store.edit("terse-replies", found.text + "\nMore.\n", expect=found.digest)
        clock.now = NOW
        store.undo()
        assert since(store, "terse-replies") == NOW - 40 * DAY


def test_a_moment_to_come_counts_as_now(memory: Path) -> None:
    put(memory / "ports.md", PLAIN, NOW + 900 * DAY)
    put(memory / "said.md", SAID.replace("2026-03-04", "2036-03-04"), NOW - DAY)
    put(memory / "checked.md", PLAIN.replace("type:", "verified: 2099-01-01\ntype:"), NOW - DAY)
    store = FileStore(memory)
    assert [since(store, name) for name in ("ports", "said", "checked")] == [NOW, NOW, NOW]


def test_a_damaged_history_costs_nothing_but_its_knowledge(memory: Path) -> None:
    put(memory / "ports.md", SAID, NOW - 5 * DAY)
    write(memory / ".memdir" / "history.db", "no database at all" * 99)
    assert since(FileStore(memory), "ports") == datetime(2026, 3, 4, 10, tzinfo=UTC)


def test_a_renamed_memory_is_as_old_as_before(memory: Path) -> None:
    clock = Clock(NOW - 40 * DAY)
    with FileStore(memory, clock=clock) as store:
        store.write(sample_memory())
        clock.now = NOW
        found = store.read("terse-replies")
        store.change([(Put("short-replies", found.text), Forget("terse-replies"))], verb="rename")
        assert since(store, "short-replies") == NOW - 40 * DAY


def test_a_moved_directory_keeps_the_ages_of_its_memories(memory: Path, tmp_path: Path) -> None:
    with FileStore(memory, clock=Clock(NOW - 40 * DAY)) as store:
        store.write(sample_memory())
    shutil.copytree(memory, tmp_path / "elsewhere")
    assert since(FileStore(tmp_path / "elsewhere"), "terse-replies") == NOW - 40 * DAY


def test_a_store_without_files_counts_from_what_it_says() -> None:
    store = MemoryStore(clock=Clock(NOW - 7 * DAY))
    store.write(sample_memory())
    assert find_ages(store, [store.read("terse-replies")], now=NOW)["terse-replies"] == NOW - 7 * DAY
