"""In which order bytes reach the disk: each file is flushed before it is moved, each folder before the answer."""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

import syscalls
from memdir.records import Draft, Kind
from memdir.store.files import FileStore
from memdir.testing import sample_memory
from syscalls import Call


@pytest.fixture(autouse=True)
def _needs_ptrace() -> None:
    if reason := syscalls.is_supported():
        pytest.skip(reason)


def find_breaches(calls: Sequence[Call], place: Path) -> list[str]:
    """What an acknowledged change failed to flush, in order; empty when everything was on the disk before the answer."""
    written: set[str] = set()
    unflushed_folders: set[str] = set()
    breaches = []
    for call in calls:
        if call.result is None or call.result < 0:
            continue
        target = call.fd_path or call.path
        if ".memdir" in Path(target).parts or not target.startswith(str(place)):
            continue
        if call.name in syscalls.WRITES:
            written.add(call.fd_path)
        elif call.name in syscalls.SYNCS:
            written.discard(call.fd_path)
            unflushed_folders.discard(call.fd_path)
        elif call.name.startswith("rename"):
            if call.path in written:
                breaches.append(f"{call.path2} was moved before it was flushed")
            unflushed_folders.add(os.path.dirname(call.path2))
        elif call.name.startswith(("unlink", "mkdir")):
            unflushed_folders.add(os.path.dirname(call.path))
    return breaches + [f"{folder} was not flushed before the answer" for folder in sorted(unflushed_folders)]


CHANGES: dict[str, Callable[[FileStore], object]] = {
    "save": lambda store: store.write(
        Draft(Kind.USER, "New", "Nightly build cache of the release branch", "x", "sub/new")
    ),
    "edit": lambda store: store.edit("one", store.read("one").text + "x\n", expect=store.read("one").digest),
    "forget": lambda store: store.delete("one"),
    "pin": lambda store: store.pin("one"),
    "undo": lambda store: store.undo(),
    "restore": lambda store: store.restore("two", change=2),
}


def prepare(place: Path) -> FileStore:
    store = FileStore(place)
    store.write(sample_memory(title="One"))
    saved = store.write(sample_memory(title="Two"))
    store.edit("two", saved.text + "more\n", expect=saved.digest)
    store.close()
    return store


@pytest.mark.parametrize("verb", CHANGES)
def test_everything_is_flushed_before_the_answer(tmp_path: Path, verb: str) -> None:
    store = prepare(tmp_path / "memory")
    done = syscalls.trace(lambda: CHANGES[verb](store))
    assert not done.outcome.error
    changed = [call for call in done.below(tmp_path / "memory") if call.name.startswith(("rename", "unlink"))]
    assert changed, "the change changed nothing"
    assert find_breaches(done.calls, tmp_path / "memory") == []


def test_the_journal_is_flushed_before_the_first_file_moves(tmp_path: Path) -> None:
    store = prepare(tmp_path / "memory")
    calls = syscalls.trace(lambda: CHANGES["save"](store)).calls
    moved = next(at for at, call in enumerate(calls) if call.name.startswith("rename"))
    flushed = [at for at, call in enumerate(calls) if call.name in syscalls.SYNCS and "history.db" in call.fd_path]
    assert flushed and flushed[0] < moved


@pytest.mark.parametrize("kept", ["files", "folders"])
def test_the_check_goes_red_when_a_flush_is_taken_out(tmp_path: Path, kept: str) -> None:
    store = prepare(tmp_path / "memory")
    real = os.fsync

    def lossy(handle: Any) -> None:
        if os.path.isdir(f"/proc/self/fd/{handle}") == (kept == "folders"):
            real(handle)

    def change() -> None:
        vars(os)["fsync"] = lossy
        CHANGES["save"](store)

    breaches = find_breaches(syscalls.trace(change).calls, tmp_path / "memory")
    assert breaches and all(("moved before" if kept == "folders" else "before the answer") in line for line in breaches)
