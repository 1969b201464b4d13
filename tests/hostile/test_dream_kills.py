"""A dream killed around every system call that changes the disk: the directory is before or after, never between."""

import shutil
import tempfile
from pathlib import Path

import pytest

import syscalls
from dream_stores import NOW, end, image, make_store, make_text, merging
from loads import scaled
from memdir.dream import dream
from memdir.dream.lock import hold_dream, read_last
from memdir.dream.logs import append_log, list_undistilled
from memdir.dream.plan import apply_dream, plan_dream
from memdir.store.files import FileStore
from memdir.testing import ScriptedModel
from syscalls import Ack, Progress

IS_FULL = scaled(10) == 10
EVERY = 1 if IS_FULL else 4  # which calls have their turn: with the full load all of them, from both sides


@pytest.fixture(autouse=True)
def _supported() -> None:
    if reason := syscalls.is_supported():
        pytest.skip(reason)


def test_killed_anywhere_in_an_apply_the_directory_is_before_or_after(tmp_path: Path) -> None:
    origin = tmp_path / "origin"
    with make_store(origin) as store:
        append_log(store, "nothing of note", now=NOW)
        patches = plan_dream(store, model=merging(), now=NOW)
        assert patches.logs and len(patches.patches) == 3 and patches.proposals == ()
    before = image(origin)

    def make() -> Path:
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        # With their times: the edits expect digests, and the lock's file is what tells of the last dream.
        shutil.copytree(origin, place / "memory")
        return place / "memory"

    def apply(place: Path) -> FileStore:
        store = FileStore(place, clock=lambda: NOW)
        with hold_dream(place, store.state, now=NOW) as held:
            apply_dream(store, patches, held, NOW)
        return store

    done = make()
    apply(done).close()
    after = image(done)
    assert after != before

    def action(place: Path, ack: Ack) -> None:
        apply(place)
        ack(b"done")

    def check(progress: Progress[Path]) -> None:
        with FileStore(progress.place, clock=lambda: NOW) as store:
            marked = store.has_mark(patches.mark)
            store.scan()
            healed = image(progress.place)
            assert healed in (before, after), f"neither before nor after: {sorted(healed)}"
            assert marked == (healed == after), "the mark and the files disagree"
            assert not progress.acked or marked, "an acknowledged dream is lost"
            assert store.note_outside() == (), "healing is no outside edit"
            assert marked or list_undistilled(store), "a log counts as distilled and nothing came of it"
            last = read_last(progress.place)
            assert last == NOW if progress.acked else last in (None, NOW)
            assert last is None or marked, "what was not applied counts as a dream"
            # The next one is let in at once, does the rest, and one undo takes all of it back.
            with hold_dream(progress.place, store.state, now=NOW) as held:
                applied = apply_dream(store, patches, held, NOW)
            assert applied.repeated == marked and image(progress.place) == after
            assert list_undistilled(store) == ()
            store.undo()
            assert image(progress.place) == before
        shutil.rmtree(progress.place.parent)

    swept = syscalls.kill_sweep(action, setup=make, check=check, half_write=IS_FULL, every=EVERY)
    assert swept.points > (60 if IS_FULL else 20) and swept.acked >= 1


def test_killed_while_it_is_planned_nothing_has_happened(tmp_path: Path) -> None:
    """From the lock to the kept set and back, by a model that finds nothing to do: there is nothing to apply."""
    text = make_text("Only one", "The only memory of this directory", "The office closes at seven.")

    def make() -> Path:
        place = Path(tempfile.mkdtemp(dir=tmp_path)) / "memory"
        with FileStore(place, clock=lambda: NOW) as store:
            append_log(store, "nothing of note", now=NOW)
            (place / "only.md").write_text(text, encoding="utf-8")
            (place / "MEMORY.md").write_text("- [Only one](only.md) — the only memory\n", encoding="utf-8")
            store.scan()
        return place

    def action(place: Path, ack: Ack) -> None:
        dream(FileStore(place, clock=lambda: NOW), model=ScriptedModel([end()]), now=NOW)
        ack(b"done")

    def check(progress: Progress[Path]) -> None:
        place = progress.place
        assert (place / "only.md").read_text(encoding="utf-8") == text and len(image(place)) == 3
        assert read_last(place) == NOW if progress.acked else read_last(place) in (None, NOW)
        with FileStore(place, clock=lambda: NOW) as store:
            dream(store, model=ScriptedModel([end()]), now=NOW)
            assert list_undistilled(store) == () and read_last(place) == NOW
        shutil.rmtree(place.parent)

    # All other calls have their turn with the full load, and in the sweep above.
    mutating = syscalls.MUTATING if IS_FULL else {at for at in syscalls.MUTATING if at.startswith(("rename", "unlink"))}
    assert syscalls.kill_sweep(action, setup=make, check=check, mutating=mutating).points > 5
