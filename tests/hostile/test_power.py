"""The power is cut right after the answer: whatever was acknowledged is there after the restart."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

import powercut
from loads import IS_FULL
from memdir.records import Draft, Kind
from memdir.store.files import FileStore
from memdir.testing import sample_memory

pytestmark = pytest.mark.load


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[powercut.Disk]:
    if reason := powercut.is_supported():
        pytest.skip(f"power cut unavailable: {reason}")
    with powercut.open_disk(tmp_path) as found:
        yield found


def test_what_was_answered_survives_a_power_cut(disk: powercut.Disk) -> None:
    with disk.mounted() as place, FileStore(place / "p" / "memory") as store:
        store.write(sample_memory(name="start"))
    wanted: dict[str, str] = {}
    dice = random.Random(1)
    for number in range(1_000 if IS_FULL else 20):
        name, body = f"n{dice.randrange(20)}", f"Body {number}."

        def change(place: Path, name: str = name, body: str = body) -> None:
            store = FileStore(place / "p" / "memory")
            draft = Draft(Kind.PROJECT, f"Thing {name}", "Nightly build cache of the release branch", body, name)
            expect = store.read(name).digest if name in wanted else None
            if expect and body.endswith("7."):
                store.delete(name)
            else:
                store.write(draft, expect=expect)

        def look(place: Path) -> dict[str, str]:
            store = FileStore(place / "p" / "memory")
            store.note_outside()
            found = {header.name: store.read(header.name).body.strip() for header in store.scan()}
            assert all(f"({at}.md)" in store.index() for at in found)
            assert not [change for change in store.changes() if change.verb == "outside"]
            store.close()
            return found

        found = powercut.cut_power(disk, lambda place: None, change, look)
        if name in wanted and body.endswith("7."):
            del wanted[name]
        else:
            wanted[name] = body
        found.pop("start")
        assert found == wanted, f"after cut {number}"


def test_a_rename_without_a_sync_is_lost(disk: powercut.Disk) -> None:
    """The instrument itself: what was not synced is gone."""

    def replace_note(place: Path) -> None:
        (place / "note.tmp").write_bytes(b"new")
        (place / "note.tmp").rename(place / "note")

    def put_old(place: Path) -> None:
        (place / "note").write_bytes(b"old")

    assert powercut.cut_power(disk, put_old, replace_note, lambda place: (place / "note").read_bytes()) == b"old"
