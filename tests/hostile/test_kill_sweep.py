"""The kill sweep is proved on writers of a few lines: a call is undone before, done after, and half done on request."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

import syscalls
from syscalls import Ack, Progress, kill_sweep
from writers import TEXT, insert, rows, save, threaded


@pytest.fixture(autouse=True)
def _supported() -> None:
    if reason := syscalls.is_supported():
        pytest.skip(f"tracing unavailable: {reason}")


@pytest.fixture
def fresh(tmp_path: Path) -> Callable[[], Path]:
    """Each call gives a new empty folder."""
    made: list[Path] = []

    def make() -> Path:
        made.append(tmp_path / f"place-{len(made)}")
        made[-1].mkdir()
        return made[-1]

    return make


def save_and_ack(folder: Path, ack: Ack) -> None:
    save(folder)
    ack(b"done")


def test_a_kill_before_a_call_leaves_it_undone_and_after_it_done(fresh: Callable[[], Path]) -> None:
    found: dict[tuple[str, str], list[str]] = {}

    def look(progress: Progress[Path]) -> None:
        if progress.killed:
            left = [f"{path.name}:{path.stat().st_size}" for path in sorted(progress.place.iterdir())]
            found[progress.calls[-1].name, progress.when] = [*left, progress.acked.decode()]

    swept = kill_sweep(save_and_ack, setup=fresh, check=look, mutating=syscalls.MUTATING - {"write"})
    assert found == {
        ("openat", "before"): [""],
        ("openat", "after"): ["note.tmp:0", ""],
        ("renameat", "before"): ["note.tmp:100", ""],
        ("renameat", "after"): ["note:100", ""],
    }
    assert (swept.points, swept.acked, swept.unreached) == (4, 0, 0)


def test_the_answer_is_a_point_of_its_own(fresh: Callable[[], Path]) -> None:
    acked: list[tuple[int, str]] = []

    def look(progress: Progress[Path]) -> None:
        if progress.acked:
            assert progress.acked == b"done"
            assert (progress.place / "note").read_bytes() == TEXT
            acked.append((progress.number, progress.when))

    swept = kill_sweep(save_and_ack, setup=fresh, check=look)
    assert [call.name for call in swept.calls] == ["openat", "write", "renameat", "write"]
    assert (swept.points, swept.acked) == (8, 1)
    assert acked == [(0, "before"), (4, "after")]  # the run to its end, and the kill right behind the answer


def test_half_a_write_leaves_half_of_it(fresh: Callable[[], Path]) -> None:
    left: list[bytes] = []

    def look(progress: Progress[Path]) -> None:
        if progress.when == "half":
            left.append((progress.place / "note.tmp").read_bytes())

    swept = kill_sweep(save_and_ack, setup=fresh, check=look, half_write=True)
    assert left == [TEXT[:50]]
    assert swept.points == 9


def test_a_sweep_finds_the_torn_file_of_a_writer_in_place(fresh: Callable[[], Path]) -> None:
    def setup() -> Path:
        place = fresh()
        (place / "note").write_bytes(b"old")
        return place

    def check(progress: Progress[Path]) -> None:
        assert (progress.place / "note").read_bytes() in {b"old", TEXT}

    def write_in_place(place: Path, ack: Ack) -> None:
        (place / "note").write_bytes(TEXT)

    kill_sweep(lambda place, ack: save(place), setup=setup, check=check, half_write=True)
    with pytest.raises(AssertionError) as caught:
        kill_sweep(write_in_place, setup=setup, check=check)
    assert "killed after mutating call 1, Call(name='openat'" in caught.value.__notes__[-1]


def test_an_action_that_fails_by_itself_is_not_swept(fresh: Callable[[], Path]) -> None:
    with pytest.raises(AssertionError, match="fails even when nobody kills it"):
        kill_sweep(lambda place, ack: os.unlink(place / "absent"), setup=fresh, check=lambda progress: None)


def test_sqlite_keeps_whole_transactions_at_every_kill(fresh: Callable[[], Path]) -> None:
    def setup() -> Path:
        place = fresh()
        insert(place / "db", "one")
        return place

    def add(place: Path, ack: Ack) -> None:
        insert(place / "db", "two")
        ack(b"two")

    def check(progress: Progress[Path]) -> None:
        found = rows(progress.place / "db")
        assert found == ["one", "two"] if progress.acked else found in (["one"], ["one", "two"])

    swept = kill_sweep(add, setup=setup, check=check)
    assert {"pwrite64", "unlink"} <= {call.name for call in swept.calls}
    assert swept.points == 2 * len(swept.calls) and swept.acked >= 1


def test_a_kill_reaches_every_thread(fresh: Callable[[], Path]) -> None:
    def action(place: Path, ack: Ack) -> None:
        threaded(lambda: save(place))
        ack(b"done")

    def check(progress: Progress[Path]) -> None:
        if progress.acked:
            assert (progress.place / "note").exists()

    assert kill_sweep(action, setup=fresh, check=check).points == 8
