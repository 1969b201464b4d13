"""Locks, and the events and problems of hooks."""

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from loads import ROOT
from memdir.errors import LockedError
from memdir.files import hold
from memdir.store.state import (
    EVENTS_FOLDER,
    PROBLEMS,
    clear_problems,
    note_event,
    note_problem,
    read_events,
    read_problems,
)
from outcome import fork
from pressure import run_in_child


def test_a_second_holder_is_told_who_holds_it(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    with hold(folder, "lock", seconds=1):
        with pytest.raises(LockedError) as caught, hold(folder, "lock", seconds=0):
            pass
        assert caught.value.pid == os.getpid() and caught.value.since and str(os.getpid()) in str(caught.value)
    with hold(folder, "lock", seconds=0):
        pass
    os.close(folder)


def test_a_killed_holder_gives_way_at_once(tmp_path: Path) -> None:
    folder = os.open(tmp_path, os.O_RDONLY)
    reader, writer = os.pipe()
    pid = fork()
    if pid == 0:
        with hold(folder, "lock", seconds=1):
            os.write(writer, b"x")
            signal.pause()
    os.read(reader, 1)
    with pytest.raises(LockedError), hold(folder, "lock", seconds=0):
        pass
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    with hold(folder, "lock", seconds=0):
        pass
    for handle in (folder, reader, writer):
        os.close(handle)


def test_a_link_in_place_of_the_lock_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")

    def take() -> None:
        folder = os.open(tmp_path, os.O_RDONLY)
        with hold(folder, "lock", seconds=0):
            pass

    assert run_in_child(take).kind == "OSError"
    assert not (tmp_path / "elsewhere").exists()


NOW = datetime(2026, 11, 16, 9, 30, tzinfo=UTC)


def test_an_event_is_known_by_its_last_arrival(tmp_path: Path) -> None:
    note_event(tmp_path, "claude-code", "Stop", NOW)
    note_event(tmp_path, "claude-code", "SessionStart", NOW - timedelta(hours=1))
    note_event(tmp_path, "claude-code", "Stop", NOW + timedelta(minutes=1))
    found = [(at.host, at.event, at.at) for at in read_events(tmp_path)]
    assert found == [
        ("claude-code", "Stop", NOW + timedelta(minutes=1)),
        ("claude-code", "SessionStart", NOW - timedelta(hours=1)),
    ]


def test_a_name_that_is_no_name_makes_no_file(tmp_path: Path) -> None:
    for host, event in (("../../x", "Stop"), ("codex", "a/b"), ("codex", ""), ("co.dex", "Stop"), ("codex", "x" * 60)):
        note_event(tmp_path, host, event, NOW)
    assert list(tmp_path.iterdir()) == []


def test_what_others_put_into_the_folder_is_passed_over(tmp_path: Path) -> None:
    note_event(tmp_path, "codex", "Stop", NOW)
    (tmp_path / EVENTS_FOLDER / "readme").write_text("x", encoding="utf-8")
    (tmp_path / EVENTS_FOLDER / "codex.Folder").mkdir()
    (tmp_path / EVENTS_FOLDER / "codex.Link").symlink_to(tmp_path / EVENTS_FOLDER / "codex.Stop")
    assert [at.event for at in read_events(tmp_path)] == ["Stop"]


def test_a_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.write_bytes(b"kept")
    os.utime(elsewhere, (0, 0))
    state = tmp_path / "state"
    (state / EVENTS_FOLDER).mkdir(parents=True)
    (state / EVENTS_FOLDER / "codex.Stop").symlink_to(elsewhere)
    (state / PROBLEMS).symlink_to(elsewhere)
    note_event(state, "codex", "Stop", NOW)
    note_problem(state, "codex", "boom", NOW)
    assert elsewhere.read_bytes() == b"kept" and elsewhere.stat().st_mtime == 0
    assert read_problems(state) == ()


def test_noting_never_fails_where_nothing_can_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    note_event(tmp_path / "file", "codex", "Stop", NOW)
    note_problem(tmp_path / "file", "codex", "boom", NOW)
    assert (tmp_path / "file").read_bytes() == b""


def test_the_same_problem_is_told_once_with_its_count(tmp_path: Path) -> None:
    for minute in range(3):
        note_problem(tmp_path, "codex", "no\nuse", NOW + timedelta(minutes=minute))
    note_problem(tmp_path, "codex", "other", NOW + timedelta(minutes=1))
    first, second = read_problems(tmp_path)
    assert (first.text, first.times) == ("other", 1)
    assert (second.text, second.times, second.at) == ("no use", 3, NOW + timedelta(minutes=2))


def test_clearing_leaves_what_nobody_has_seen(tmp_path: Path) -> None:
    note_problem(tmp_path, "codex", "old", NOW)
    note_problem(tmp_path, "codex", "new", NOW + timedelta(seconds=5))
    assert clear_problems(tmp_path, until=NOW) == 1
    assert [at.text for at in read_problems(tmp_path)] == ["new"]
    assert clear_problems(tmp_path) == 1 and read_problems(tmp_path) == ()


def test_problems_stay_few_and_short(tmp_path: Path) -> None:
    for number in range(400):
        note_problem(tmp_path, "codex", f"{number} " + "long " * 200, NOW + timedelta(seconds=number))
    found = read_problems(tmp_path)
    assert len(found) == 20 and all(len(at.text) <= 300 for at in found)
    assert found[0].text.startswith("399 ")
    assert (tmp_path / PROBLEMS).stat().st_size < 65_536


def test_lines_that_are_no_problems_are_passed_over(tmp_path: Path) -> None:
    note_problem(tmp_path, "codex", "seen", NOW)
    with (tmp_path / PROBLEMS).open("ab") as file:
        file.write(b'{"at": 3}\n[]\n\xff\n{"at": "2026-01-01T00:00:00", "host": "x", "text": "no zone"}\n{"at": "20')
    assert [at.text for at in read_problems(tmp_path)] == ["seen"]


def test_processes_noting_at_once_lose_nothing(tmp_path: Path) -> None:
    code = (
        "import sys; from datetime import datetime, UTC; from pathlib import Path\n"
        "from memdir.store.state import note_problem\n"
        "for n in range(4): note_problem(Path(sys.argv[1]), 'codex', f'{sys.argv[2]}-{n}', datetime.now(UTC))\n"
    )
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    runs = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path), str(at)], env=env) for at in range(4)]
    assert [run.wait(timeout=60) for run in runs] == [0, 0, 0, 0]
    assert len(read_problems(tmp_path)) == 16
