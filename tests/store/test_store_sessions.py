import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from loads import ROOT, scaled
from memdir.errors import MemdirError, PathError
from memdir.frozen import replace
from memdir.limits import SESSION_DAYS
from memdir.store.sessions import (
    QueuedTurn,
    SessionFile,
    SessionRecord,
    SurfacedMemory,
    enqueue,
    has_waiting,
    make_key,
    prune_sessions,
)
from memdir.store.state import drop_name, make_leaf
from syscalls import trace

ADD = """
import sys
from memdir.frozen import replace
from pathlib import Path
from memdir.store.sessions import SurfacedMemory as Seen, SessionFile
session = SessionFile(Path(sys.argv[1]), "shared")
for number in range(int(sys.argv[3])):
    key = f"{sys.argv[2]}-{number}"
    session.change(lambda at: replace(at, surfaced={**at.surfaced, key: Seen("d", 1)}), seconds=60)
"""


def test_a_conversation_that_never_was_has_an_empty_record_and_no_file(tmp_path: Path) -> None:
    session = SessionFile(tmp_path / "state", "s1")
    assert session.read() == SessionRecord() and session.read().surfaced_bytes == 0
    assert list(tmp_path.iterdir()) == []


def test_files_are_for_the_owner_alone(tmp_path: Path) -> None:
    session = SessionFile(tmp_path / "state", "s1")
    session.note_read(["a"])
    assert stat.S_IMODE(session.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(session.path.parent.stat().st_mode) == 0o700


def test_fields_of_later_days_are_kept(tmp_path: Path) -> None:
    session = SessionFile(tmp_path, "s1")
    session.note_read(["a"])
    table = json.loads(session.path.read_text(encoding="utf-8")) | {"cursor": {"id": 7}, "notes": [1, 2]}
    session.path.write_text(json.dumps(table), encoding="utf-8")
    session.note_read(["b"])
    assert json.loads(session.path.read_text(encoding="utf-8")) == table | {"read": ["a", "b"]}
    assert session.read().extra == {"cursor": {"id": 7}, "notes": [1, 2]}


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 100_000, b'"text"',
        b'{"surfaced": [], "read": {}, "private": "x"}',
        b'{"surfaced": {"a": 3}, "ignoring": "yes", "read": [1, null]}', b"{" + b" " * 2_000_000 + b"}",
    ],
)  # fmt: skip
def test_a_broken_record_is_an_empty_one_and_mends_at_the_next_change(tmp_path: Path, data: bytes) -> None:
    session = SessionFile(tmp_path, "s1")
    session.note_read(["x"])
    session.path.write_bytes(data)
    record = session.read()
    assert record.read == frozenset() and not record.ignoring and record.surfaced_bytes == 0
    session.note_read(["a"])
    assert session.read().read == {"a"}


@pytest.mark.parametrize(
    "id",
    [
        "s1", "", "../../etc/passwd", "a/b", "x" * 5000, "\0", "\ud800", "会话", "CON", "UPPER", "upper", ".", "..",
        "a b", "lock", "é" * 300,
    ],
)  # fmt: skip
def test_any_string_is_an_id_and_stays_below_the_folder(tmp_path: Path, id: str) -> None:
    session = SessionFile(tmp_path / "state", id)
    session.note_read(["a"])
    assert session.path.parent == tmp_path / "state" / "sessions" and session.path.is_file()
    assert SessionFile(tmp_path / "state", id).read().read == {"a"}


def test_different_ids_have_different_files() -> None:
    ids = ["a b", "a-b", "a/b", "A-B", "a.b", "", "session", "a" * 81, "a" * 82, make_leaf("a b").replace(".", "-")]
    leaves = [make_leaf(id).casefold() for id in ids]
    assert len(set(leaves)) == len(ids)


def test_processes_at_once_lose_nothing_of_each_other(tmp_path: Path) -> None:
    count, each = 6, scaled(200)
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = [sys.executable, "-c", ADD, str(tmp_path)]
    running = [subprocess.Popen([*command, f"p{number}", str(each)], env=env) for number in range(count)]
    assert [process.wait(120) for process in running] == [0] * count
    record = SessionFile(tmp_path, "shared").read()
    assert len(record.surfaced) == count * each


def test_threads_at_once_lose_nothing_of_each_other(tmp_path: Path) -> None:
    def add(number: int) -> None:
        for turn in range(10):
            key = {f"{number}-{turn}"}

            def step(record: SessionRecord, key: set[str] = key) -> SessionRecord:
                return replace(record, read=record.read | key)

            # A busy machine may need longer than recall in a hook would wait.
            SessionFile(tmp_path, "shared").change(step, seconds=60)

    threads = [threading.Thread(target=add, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(SessionFile(tmp_path, "shared").read().read) == 40


def test_compaction_forgets_what_was_surfaced_and_clear_forgets_the_wish_too(tmp_path: Path) -> None:
    session = SessionFile(tmp_path, "s1")
    full = SessionRecord(
        {"a": SurfacedMemory("d", 3)}, frozenset({"b"}), ignoring=True, private=True, extra={"cursor": 1}
    )
    session.change(lambda _: full)
    assert session.reset() == full
    assert session.read() == SessionRecord(ignoring=True, private=True, extra={"cursor": 1})
    session.reset(cleared=True)
    assert session.read() == SessionRecord(private=True, extra={"cursor": 1})


def test_conversations_nobody_went_on_with_are_pruned_once_a_day_and_by_no_change_of_a_record(tmp_path: Path) -> None:
    def age(id: str, days: float) -> Path:
        path = SessionFile(tmp_path, id).path
        SessionFile(tmp_path, id).note_read(["a"])
        then = path.stat().st_mtime - days * 86_400
        os.utime(path, (then, then))
        return path

    assert prune_sessions(tmp_path) == 0 and not (tmp_path / "sessions").exists()
    old, young = age("old", SESSION_DAYS + 1), age("young", SESSION_DAYS - 1)
    left = old.with_name(".young.json.abc.tmp")
    left.write_bytes(b"x")
    os.utime(left, (1, 1))
    SessionFile(tmp_path, "new").note_read(["a"])
    assert old.exists(), "a conversation that begins does not look at the others"
    assert prune_sessions(tmp_path) == 2
    assert sorted(os.listdir(old.parent)) == [".pruned", "lock", "new.json", "young.json"]
    age("old", SESSION_DAYS + 1)
    assert prune_sessions(tmp_path) == 0 and old.exists()
    yesterday = young.with_name(".pruned")
    os.utime(yesterday, (yesterday.stat().st_mtime - 86_401,) * 2)
    assert prune_sessions(tmp_path) == 1 and not old.exists()


def test_a_change_of_a_record_lists_no_folder(tmp_path: Path) -> None:
    for number in range(3):
        SessionFile(tmp_path, f"s-{number}").note_read(["a"])
    seen = trace(lambda: SessionFile(tmp_path, "s-new").note_read(["a"]))
    assert SessionFile(tmp_path, "s-new").read().read == {"a"}
    assert not [call for call in seen.calls if call.name.startswith("getdents")]


def test_whether_turns_wait_is_seen_without_reading_one(tmp_path: Path) -> None:
    state, home = tmp_path / "state", tmp_path / "home"
    assert not has_waiting(state, home)
    entry = enqueue(state, QueuedTurn("s", "/t.jsonl"))
    seen = trace(lambda: has_waiting(state, home))
    assert has_waiting(state, home) and str(entry) not in {call.path for call in seen.calls}


def test_memories_of_other_directories_are_not_named(tmp_path: Path) -> None:
    session = SessionFile(tmp_path / "mine", "s1")
    assert make_key(session, "a", state=tmp_path / "mine", place="/x") == "a"
    other = make_key(session, "a", state=tmp_path / "theirs", place="/y")
    assert other.startswith("#") and "a" != other != make_key(session, "a", state=None, place="/z")


def test_a_purged_name_leaves_every_record(tmp_path: Path) -> None:
    for id in ("s1", "s2"):
        record = SessionRecord(
            {"a": SurfacedMemory("d", 3), "b": SurfacedMemory("e", 4)},
            frozenset({"a"}),
            extra={"later": ["a", "c"], "n": 1},
        )
        SessionFile(tmp_path, id).change(lambda _, record=record: record)  # type: ignore[misc]
    broken, torn = tmp_path / "sessions" / "s3.json", tmp_path / "sessions" / ".s1.json.aa.tmp"
    broken.write_bytes(b'{"surfaced": {"a"')
    torn.write_bytes(b'{"a"')
    assert drop_name(tmp_path, "a", seconds=1) == 2
    assert not broken.exists() and not torn.exists()
    record = SessionFile(tmp_path, "s2").read()
    assert list(record.surfaced) == ["b"] and not record.read and record.extra == {"later": ["c"], "n": 1}
    assert drop_name(tmp_path, "a", seconds=1) == 0 == drop_name(tmp_path / "nowhere", "a", seconds=1)


def test_a_link_where_our_folder_should_be_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "state" / "sessions").symlink_to(tmp_path / "elsewhere")
    session = SessionFile(tmp_path / "state", "s1")
    with pytest.raises(PathError):
        session.note_read(["a"])
    assert list((tmp_path / "elsewhere").iterdir()) == [] and session.read() == SessionRecord()


def test_a_file_where_the_folder_should_be_says_so(tmp_path: Path) -> None:
    (tmp_path / "sessions").write_bytes(b"")
    with pytest.raises(MemdirError):
        SessionFile(tmp_path, "s1").note_read(["a"])
