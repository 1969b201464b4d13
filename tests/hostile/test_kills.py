"""Killed around every call that changes the disk: a change is whole or has not happened, and what was answered stays."""

import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import syscalls
from loads import IS_FULL
from memdir.records import Draft, Forget, Kind, Put
from memdir.store.files import FileStore
from memdir.testing import sample_memory
from syscalls import Ack, Progress

NEW = Draft(Kind.PROJECT, "New thing", "Nightly build cache of the release branch", "New body.", "sub/new-thing")
Images = dict[str, bytes]
# A move is a batch as a dream makes them, which is swept elsewhere; it is swept itself at the full load.
VERBS = ["save", "edit", "forget", "undo", *(["promote"] if IS_FULL else [])]


@pytest.fixture(autouse=True)
def _needs_ptrace() -> None:
    if reason := syscalls.is_supported():
        pytest.skip(reason)


@pytest.fixture
def places(tmp_path: Path) -> Iterator[Callable[[], Path]]:
    """Fresh copies of one prepared directory; the last ones are removed as new ones come."""
    origin = tmp_path / "origin"
    with FileStore(origin) as store:
        store.write(sample_memory())
        saved = store.write(sample_memory(title="Second thing"))
        store.edit("second-thing", saved.text + "More.\n", expect=saved.digest)
        store.scan()

    def make() -> Path:
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        shutil.copytree(origin, place / "memory")
        return place / "memory"

    yield make


def image(place: Path) -> Images:
    """Every memory and index, byte for byte."""
    found = {}
    for path in place.rglob("*"):
        if path.is_file() and ".memdir" not in path.relative_to(place).parts:
            found[str(path.relative_to(place))] = path.read_bytes()
    return found


def promote(store: FileStore) -> None:
    memory = store.read("terse-replies")
    store.change([Put("team/terse-replies", memory.text), Forget("terse-replies", memory.digest)], verb="promote")


def sweep(places: Callable[[], Path], change: Callable[[FileStore], object], *, every: int) -> syscalls.Sweep:
    before = image(places())
    done = places()
    with FileStore(done) as store:
        change(store)
    after = image(done)
    assert before != after

    def action(place: Path, ack: Ack) -> None:
        store = FileStore(place)
        change(store)
        ack(b"done")

    def check(progress: Progress[Path]) -> None:
        place = progress.place
        topics = {name: data for name, data in image(place).items() if name.endswith(".md")}
        for name, data in topics.items():
            assert data in (before.get(name), after.get(name)), f"{name} is torn"
        with FileStore(place) as store:
            store.scan()
            assert not [path.name for path in place.rglob("*.tmp")], "a staged file was left behind"
            store.note_outside()
            assert not [change.verb for change in store.changes() if change.verb == "outside"], (
                "healing is no outside edit"
            )
            healed = image(place)
            assert healed in (before, after), f"neither before nor after: {sorted(healed)}"
            if progress.acked:
                assert healed == after, "an acknowledged change is lost"
            missing = set(topics) - set(healed)
            assert not missing, f"healing deleted {missing}"
            grown = len(store.changes())
            assert (grown > 3) == (healed == after), "history and files disagree"
            store.write(sample_memory(title="Life goes on"))
        shutil.rmtree(place.parent)

    return syscalls.kill_sweep(action, setup=places, check=check, half_write=every == 1, every=every)


@pytest.mark.parametrize("verb", VERBS)
def test_killed_around_every_mutating_call(places: Callable[[], Path], verb: str) -> None:
    changes: dict[str, Callable[[FileStore], object]] = {
        "save": lambda store: store.write(NEW),
        "edit": lambda store: store.write(
            Draft(Kind.FEEDBACK, "Terse replies", "Closing paragraphs annoy every reviewer", "Other."),
            expect=store.read("terse-replies").digest,
        ),
        "forget": lambda store: store.delete("terse-replies"),
        "undo": lambda store: store.undo(),
        "promote": promote,
    }
    # The two that people do most have all their calls tried in every run, the others a sample of them.
    every = 1 if IS_FULL or verb in ("save", "edit") else 3
    done = sweep(places, changes[verb], every=every)
    assert done.points > (20 if every == 1 else 8) and done.acked >= 1


def test_a_sweep_finds_the_torn_file_of_a_writer_in_place(tmp_path: Path) -> None:
    """The instrument itself: without a temporary file and a rename some kill leaves neither the old nor the new text."""

    def setup() -> Path:
        (tmp_path / "note").write_bytes(b"old")
        return tmp_path

    def write_in_place(place: Path, ack: Ack) -> None:
        (place / "note").write_bytes(b"new")

    def check(progress: Progress[Path]) -> None:
        assert (progress.place / "note").read_bytes() in {b"old", b"new"}

    with pytest.raises(AssertionError):
        syscalls.kill_sweep(write_in_place, setup=setup, check=check)
