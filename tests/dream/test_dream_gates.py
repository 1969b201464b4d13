"""When a dream is due: each gate, its reason and its cost, and the clock."""

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clihelp import Cli
from dreamers import to_ns
from homes import make_repository
from memdir.dream import SCAN, DreamDue, DreamOptions, DreamSkip, find_due, find_due_in
from memdir.dream.lock import FILE, hold_dream
from memdir.extraction import ExtractSkip
from memdir.recall.pipeline import RecallSkip
from memdir.store.files import FileStore
from memdir.store.open import Project, open_project
from memdir.store.sessions import SessionFile
from transcript_writer import Claude

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
MINUTE = timedelta(minutes=1)


@pytest.fixture
def opened(tmp_path: Path) -> Project:
    project = make_repository(tmp_path / "work" / "app")
    opened = open_project(project, environ={"HOME": str(tmp_path), "MEMDIR_NOW": NOW.isoformat()})
    opened.private.root.mkdir(parents=True)
    return opened


def set_last(store: FileStore, when: datetime) -> None:
    path = store.root / FILE
    path.touch()
    os.utime(path, ns=(to_ns(when), to_ns(when)))


def add_sessions(opened: Project, *ids: str, ended: datetime = NOW - HOUR) -> None:
    """Transcripts of the host, begun in the project."""
    for id in ids:
        talk = Claude()
        cwd, at = str(opened.places.root.path), ended.isoformat()
        talk.user("hello", sessionId=id, cwd=cwd, timestamp=at)
        path = talk.write(opened.environment.claude_home / "projects" / "some-slug" / f"{id}.jsonl")
        os.utime(path, ns=(to_ns(ended), to_ns(ended)))


def add_records(store: FileStore, *ids: str, at: datetime = NOW - HOUR) -> None:
    """Conversations that memdir has a record of."""
    sessions = [SessionFile(store.state, id) for id in ids]
    for session in sessions:
        session.note_read(["a"])
    for session in sessions:  # afterwards: a record makes room by removing old ones
        os.utime(session.path, ns=(to_ns(at), to_ns(at)))


def read_scan(store: FileStore) -> dict[str, object]:
    table: dict[str, object] = json.loads((store.state / SCAN).read_bytes())
    return table


def test_the_list_of_reasons_is_closed_and_each_can_be_told() -> None:
    assert [skip.value for skip in DreamSkip] == [
        "off", "paused", "too_soon", "scanned_lately", "too_few_sessions", "locked", "nothing_to_do", "failed",
        "cancelled",
    ]  # fmt: skip
    assert len({skip.words for skip in DreamSkip}) == len(DreamSkip) and all(skip.words for skip in DreamSkip)


def test_five_sessions_and_a_day_are_enough(opened: Project) -> None:
    set_last(opened.private, NOW - 25 * HOUR)
    add_sessions(opened, "a", "b", "c", "d", "e")
    assert find_due(opened, now=NOW) == DreamDue(None, NOW - 25 * HOUR, 5)


def test_where_nobody_has_dreamed_all_sessions_count(opened: Project) -> None:
    add_sessions(opened, "a", "b", "c", "d", "e", ended=NOW - 1000 * HOUR)
    due = find_due(opened, now=NOW)
    assert due.is_due and due.last is None and due.sessions == 5


def test_the_cheapest_gate_speaks_first_and_nothing_behind_it_is_asked(opened: Project) -> None:
    store = opened.private
    set_last(store, NOW - HOUR)
    assert find_due_in(store, now=NOW, options=DreamOptions(on=False, paused=True)).skip is DreamSkip.OFF
    assert find_due_in(store, now=NOW, options=DreamOptions(paused=True)).skip is DreamSkip.PAUSED
    with hold_dream(store.root, store.state, now=NOW):
        due = find_due(opened, now=NOW)
    assert (due.skip, due.sessions, due.next_at) == (DreamSkip.TOO_SOON, None, NOW + 23 * HOUR)
    assert not (store.state / SCAN).exists(), "no session was counted"


def test_too_few_sessions_are_counted_once_in_ten_minutes(opened: Project) -> None:
    add_sessions(opened, "a", "b", "c", "d")
    assert find_due(opened, now=NOW) == DreamDue(DreamSkip.TOO_FEW_SESSIONS, None, 4, NOW + 10 * MINUTE)
    add_sessions(opened, "e")
    assert find_due(opened, now=NOW + 9 * MINUTE) == DreamDue(DreamSkip.SCANNED_LATELY, None, 4, NOW + 10 * MINUTE)
    assert find_due(opened, now=NOW + 10 * MINUTE).is_due


def test_a_dream_since_ends_what_was_counted(opened: Project) -> None:
    add_sessions(opened, "a", "b", "c", "d", "e")
    assert find_due(opened, now=NOW).is_due
    set_last(opened.private, NOW - 24 * HOUR)
    add_sessions(opened, "a", "b", "c", "d", "e", ended=NOW - 30 * HOUR)
    assert find_due(opened, now=NOW + MINUTE).skip is DreamSkip.TOO_FEW_SESSIONS


def test_the_look_is_noted_before_it_begins(opened: Project) -> None:
    store = opened.private
    projects = opened.environment.claude_home / "projects"
    projects.parent.mkdir(parents=True, exist_ok=True)
    add_sessions(opened, "a")
    find_due(opened, now=NOW)
    assert read_scan(store)["at"] == NOW.isoformat() and read_scan(store)["ids"] == ["a"]
    assert (store.state / SCAN).stat().st_mode & 0o777 == 0o600


def test_the_session_that_asks_does_not_count(opened: Project) -> None:
    add_sessions(opened, "a", "b", "c", "d", "e")
    assert find_due(opened, now=NOW, session="e").sessions == 4
    assert find_due(opened, now=NOW + HOUR, session="other").sessions == 5


def test_a_session_with_transcript_and_record_counts_once(opened: Project) -> None:
    add_sessions(opened, "a", "b", "A B")
    add_records(opened.private, "b", "A B", "c")
    assert find_due(opened, now=NOW).sessions == 4


def test_sessions_of_before_and_of_other_projects_do_not_count(opened: Project, tmp_path: Path) -> None:
    set_last(opened.private, NOW - 30 * HOUR)
    add_sessions(opened, "new")
    add_sessions(opened, "old", ended=NOW - 31 * HOUR)
    touched = opened.environment.claude_home / "projects" / "some-slug" / "old.jsonl"
    os.utime(touched, ns=(to_ns(NOW), to_ns(NOW)))
    add_records(opened.private, "present")
    add_records(opened.private, "past", "present", at=NOW - 31 * HOUR)
    os.utime(SessionFile(opened.private.state, "present").path)
    talk = Claude()
    talk.user("hello", sessionId="elsewhere", cwd=str(tmp_path))
    talk.write(opened.environment.claude_home / "projects" / "some-slug" / "elsewhere.jsonl")
    assert find_due(opened, now=NOW).sessions == 2


def test_a_store_without_an_environment_goes_by_its_own_records(memory: Path) -> None:
    memory.mkdir(parents=True)
    store = FileStore(memory)
    add_records(store, "a", "b")
    assert find_due_in(store, now=NOW, options=DreamOptions(sessions=2)) == DreamDue(None, None, 2)
    assert find_due_in(store, now=NOW, options=DreamOptions(sessions=0)) == DreamDue()


def test_a_dream_under_way_is_the_last_gate(opened: Project) -> None:
    store = opened.private
    add_records(store, "a", "b", "c", "d", "e")
    with hold_dream(store.root, store.state, now=NOW):
        due = find_due(opened, now=NOW)
        assert due.skip is DreamSkip.LOCKED and due.holder is not None and due.holder.pid == os.getpid()
    assert find_due(opened, now=NOW).skip is DreamSkip.TOO_SOON


def test_a_clock_set_back_delays_a_dream_and_never_stops_it(opened: Project) -> None:
    store = opened.private
    add_records(store, "a", "b", "c", "d", "e", at=NOW + 100_000 * HOUR)
    set_last(store, NOW + 3 * HOUR)
    assert find_due(opened, now=NOW).next_at == NOW + 27 * HOUR
    set_last(store, NOW + 25 * HOUR)
    assert find_due(opened, now=NOW).is_due, "no dream can have been a day from now"
    assert find_due(opened, now=NOW - 40 * HOUR).is_due, "nor can sessions have been counted then"


def test_a_place_without_a_directory_has_nothing_to_dream_of_and_gets_none(tmp_path: Path) -> None:
    opened = open_project(make_repository(tmp_path / "app"), environ={"HOME": str(tmp_path)})
    assert find_due(opened, now=NOW).skip is DreamSkip.NOTHING_TO_DO
    assert not opened.private.root.exists()


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"at": 5}', '{"at": "x", "ids": []}', '{"at": "2026-03-05"}', "9" * 99]
)
def test_a_broken_note_of_the_last_look_is_as_none(opened: Project, text: str) -> None:
    store = opened.private
    add_records(store, "a", "b", "c", "d", "e")
    (store.state / SCAN).write_text(text, encoding="utf-8")
    assert find_due(opened, now=NOW).is_due


def test_settings_set_the_pace(tmp_path: Path) -> None:
    project = make_repository(tmp_path / "app")
    settings = {"MEMDIR_DREAM_HOURS": "1.5", "MEMDIR_DREAM_SESSIONS": "1", "MEMDIR_DREAM_SCAN_MINUTES": "1"}
    opened = open_project(project, environ={"HOME": str(tmp_path), **settings})
    add_records(opened.private, "a")
    set_last(opened.private, NOW - 2 * HOUR)
    assert find_due(opened, now=NOW).is_due
    off = open_project(project, environ={"HOME": str(tmp_path), "MEMDIR_DREAM": "0"})
    assert find_due(off, now=NOW).skip is DreamSkip.OFF
    paused = open_project(project, environ={"HOME": str(tmp_path), "MEMDIR_PAUSED": "1"})
    assert find_due(paused, now=NOW).skip is DreamSkip.PAUSED
    simple = open_project(project, environ={"HOME": str(tmp_path), "CLAUDE_CODE_SIMPLE": "1"})
    assert find_due(simple, now=NOW).skip is DreamSkip.OFF


def test_status_lists_every_reason_of_recall_learning_and_dreams(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    listed = cli("status", "--json").json["skip_reasons"]
    for what, reasons in (("recall", RecallSkip), ("extract", ExtractSkip), ("dream", DreamSkip)):
        assert listed[what] == [{"reason": at.value, "words": at.words} for at in reasons]
