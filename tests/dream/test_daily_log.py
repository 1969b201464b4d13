"""Daily logs: many who append at once, the right day, the notice at midnight, each entry distilled once."""

import os
import re
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path

import pytest

from clihelp import Cli
from loads import scaled
from memdir.conversation.instructions import render_date
from memdir.dream import dream
from memdir.dream.logs import DISTILLED, append_log, list_logs, list_undistilled, mark_distilled, read_log, render_entry
from memdir.errors import DiskError, FormatError, NotFoundError, PathError
from memdir.limits import LOG_BYTES, LOG_ENTRY_CHARS
from memdir.records import Draft, Kind, make_log_path
from memdir.store.files import FileStore
from outcome import attempt, fork
from pressure import file_size_limit, run_in_child

NOON = datetime(2026, 3, 5, 12, tzinfo=UTC)
TODAY = date(2026, 3, 5)
DAY = timedelta(days=1)
PROCESSES = 8


@pytest.fixture
def store(memory: Path) -> FileStore:
    return FileStore(memory)


def log(store: FileStore, text: str, now: datetime = NOON) -> Path:
    return store.root / append_log(store, text, now=now, zone=UTC).path


def texts(store: FileStore) -> list[str]:
    return [at.text for at in list_undistilled(store)]


def distil(store: FileStore) -> list[str]:
    slices = list_undistilled(store)
    mark_distilled(store, slices)
    return [at.text for at in slices]


def test_an_entry_goes_to_the_file_of_its_day_and_everything_is_private(store: FileStore) -> None:
    path = log(store, "  the release is out \n")
    assert path == store.root / "logs" / "2026" / "03" / "2026-03-05.md"
    log(store, "two\r\n\r\nlines \rand a third", NOON + timedelta(minutes=7))
    assert path.read_text(encoding="utf-8") == "- 12:00 the release is out\n- 12:07 two\n\n  lines\n  and a third\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert all(
        at.stat().st_mode & 0o777 == 0o700 for at in (path.parent, path.parent.parent, path.parent.parent.parent)
    )
    assert store.scan() == () and store.changes() == (), "a log is no memory, and not journalled"


def test_day_and_time_are_those_of_the_clock_on_the_wall(store: FileStore) -> None:
    late = datetime(2026, 3, 5, 23, 30, tzinfo=UTC)
    there = append_log(store, "x", now=late, zone=timezone(timedelta(hours=2)))
    assert (there.day, read_log(store, there.day)) == (date(2026, 3, 6), "- 01:30 x\n")
    here = late.astimezone()
    assert append_log(store, "y", now=late).day == here.date()
    assert f"- {here:%H:%M} y\n" in read_log(store, here.date())


def append_many(store: FileStore, process: int, count: int) -> None:
    """Entries over two minutes, midnight in the middle; some are long, some have several lines."""
    begin = datetime(2026, 3, 5, 23, 59, tzinfo=UTC)
    for number in range(count):
        text = f"p{process} n{number}." + (" x" * 3000 if number % 50 == 7 else "") + ("\nmore" * (number % 3))
        append_log(store, text, now=begin + number / count * timedelta(minutes=2), zone=UTC)


@pytest.mark.load
def test_of_10_000_appends_by_8_processes_across_midnight_all_are_there_whole_and_in_the_right_file(
    store: FileStore,
) -> None:
    count = scaled(10_000) // PROCESSES
    gate_out, gate_in = os.pipe()
    children = []
    for process in range(PROCESSES):
        pid = fork()
        if pid == 0:
            os.close(gate_in)
            os.read(gate_out, 1)
            _, error = attempt(lambda process=process: append_many(store, process, count))  # type: ignore[misc]
            os._exit(1 if error else 0)
        children.append(pid)
    os.close(gate_out)
    os.close(gate_in)
    assert [os.waitpid(pid, 0)[1] for pid in children] == [0] * PROCESSES
    found: Counter[tuple[int, int]] = Counter()
    for day, minute in ((date(2026, 3, 5), "23:59"), (date(2026, 3, 6), "00:00")):
        entries = re.findall(r"- (\d\d:\d\d) p(\d) n(\d+)\.((?: x)*)\n((?:  more\n)*)", text := read_log(store, day))
        whole = [f"- {at} p{p} n{n}.{long}\n{more}" for at, p, n, long, more in entries]
        assert "".join(whole) == text, "nothing but whole entries"
        for at, p, n, long, more in entries:
            number = int(n)
            assert at == minute and (number < count / 2) == (day == TODAY)
            assert len(long) == (6000 if number % 50 == 7 else 0) and more.count("more") == number % 3
            found[int(p), number] += 1
    assert found == Counter((p, n) for p in range(PROCESSES) for n in range(count))
    assert [at.day for at in list_logs(store)] == [TODAY, TODAY + DAY]


def test_a_line_without_an_end_is_ended_first(store: FileStore) -> None:
    path = log(store, "one")
    path.write_bytes(b"- 09:00 torn")
    log(store, "two")
    assert path.read_text(encoding="utf-8") == "- 09:00 torn\n- 12:00 two\n"


def test_a_line_that_does_not_fit_on_the_disk_leaves_nothing_of_it(store: FileStore) -> None:
    path = log(store, "one")

    def change() -> None:
        with file_size_limit(path.stat().st_size + 10):
            log(store, "x" * 100)

    done = run_in_child(change)
    assert done.kind == DiskError.__name__, done
    assert path.read_text(encoding="utf-8") == "- 12:00 one\n"


@pytest.mark.parametrize("text", ["", " \n ", "a\x00b", "\x1b[31m", "x\u202ey", "\ud800", "x" * (LOG_ENTRY_CHARS + 1)])
def test_what_may_not_be_stored_is_refused(store: FileStore, text: str) -> None:
    with pytest.raises(FormatError) as caught:
        log(store, text)
    assert caught.value.hint and not store.root.exists()


def test_a_text_cannot_pass_for_another_entry() -> None:
    lines = render_entry("a\n- 13:00 b\u2028- 14:00 c", NOON.time()).splitlines()
    assert lines == ["- 12:00 a", "  - 13:00 b", "  - 14:00 c"]


def test_a_full_log_is_refused(store: FileStore) -> None:
    path = log(store, "one")
    with path.open("ab") as file:
        file.write(b"x" * (LOG_BYTES - path.stat().st_size - 5) + b"\n")
    with pytest.raises(FormatError, match="full"):
        log(store, "two")


def test_links_are_refused_and_nothing_behind_them_is_touched(store: FileStore, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "file").write_text("theirs", encoding="utf-8")
    path = log(store, "one")
    path.unlink()
    makers: list[Callable[[], None]] = [
        lambda: path.symlink_to(other / "file"),
        lambda: os.link(other / "file", path),
        lambda: os.mkfifo(path),
    ]
    for make in makers:
        make()
        with pytest.raises(PathError):
            log(store, "two")
        path.unlink()
    for folder in (path.parent, path.parent.parent, store.root / "logs"):
        folder.rmdir()
        folder.symlink_to(other)
        with pytest.raises(PathError):
            log(store, "two")
        assert list_logs(store) == ()
        folder.unlink()
    assert [at.name for at in other.iterdir()] == ["file"]
    assert (other / "file").read_text(encoding="utf-8") == "theirs"


def test_a_day_without_a_log_is_told(store: FileStore) -> None:
    assert list_logs(store) == () and list_undistilled(store) == ()
    with pytest.raises(NotFoundError, match="2026-03-05"):
        read_log(store, TODAY)


def test_only_files_in_their_place_are_logs(store: FileStore) -> None:
    path = log(store, "one")
    for name in (
        "logs/x.md",
        "logs/2026/x.md",
        "logs/2026/03/2026-04-01.md",
        "logs/2026/03/20260306.md",
        "logs/2026/03/n",
    ):
        (store.root / name).write_text("- 09:00 x\n", encoding="utf-8")
    (store.root / "logs/2026/03/2026-03-07.md").mkdir()
    (store.root / "logs/2026/03/2026-03-08.md").symlink_to(path)
    assert [at.path for at in list_logs(store)] == [make_log_path(TODAY)]


def test_a_log_of_any_bytes_can_be_read(store: FileStore) -> None:
    log(store, "one").write_bytes(b"\xff\n")
    assert read_log(store, TODAY) == "\ufffd\n" and texts(store) == ["\ufffd\n"]


def test_the_date_is_told_at_the_start_and_when_the_day_is_another(store: FileStore) -> None:
    assert render_date(None, NOON, zone=UTC) == "Today is Thursday, 2026-03-05 (time zone UTC+0000)."
    assert render_date(TODAY, NOON, zone=UTC) == ""
    told = render_date(TODAY, NOON + DAY / 2, zone=UTC, logs=store.root)
    assert "2026-03-06" in told and "Friday" in told and "\n" not in told and "{{" not in told
    assert str(store.root / "logs" / "2026" / "03" / "2026-03-06.md") in told
    assert render_date(TODAY, NOON - DAY, zone=UTC), "also when a clock or a zone went back"
    assert "UTC+1300" in render_date(TODAY, NOON, zone=timezone(timedelta(hours=13)))


def test_each_entry_is_distilled_once_also_one_added_to_an_old_day(store: FileStore) -> None:
    log(store, "one")
    log(store, "two", NOON + DAY)
    assert distil(store) == ["- 12:00 one\n", "- 12:00 two\n"] and distil(store) == []
    log(store, "three")
    assert distil(store) == ["- 12:00 three\n"] and distil(store) == []
    assert (store.state / DISTILLED).stat().st_mode & 0o777 == 0o600


def test_what_is_appended_while_it_is_distilled_is_not_lost(store: FileStore) -> None:
    log(store, "one")
    slices = list_undistilled(store)
    log(store, "two")
    mark_distilled(store, slices)
    assert texts(store) == ["- 12:00 two\n"]


def test_a_line_without_an_end_waits_for_it(store: FileStore) -> None:
    path = log(store, "one")
    with path.open("ab") as file:
        file.write(b"- 12:01 tw")
    assert distil(store) == ["- 12:00 one\n"] and distil(store) == []
    with path.open("ab") as file:
        file.write(b"o\n")
    assert distil(store) == ["- 12:01 two\n"]


def test_a_log_that_was_changed_otherwise_counts_as_new(store: FileStore) -> None:
    path = log(store, "one")
    distil(store)
    path.write_text("- 12:00 ONE\n- 13:00 two\n", encoding="utf-8")
    assert distil(store) == ["- 12:00 ONE\n- 13:00 two\n"]
    path.write_text("- 12:00 a\n", encoding="utf-8")
    assert distil(store) == ["- 12:00 a\n"]


def test_losing_the_record_means_only_that_logs_are_read_again(store: FileStore) -> None:
    log(store, "one")
    distil(store)
    for broken in (b"", b"{", b"[]", b'{"2026-03-05": 5}', b'{"2026-03-05": {"bytes": "x"}}'):
        (store.state / DISTILLED).write_bytes(broken)
        assert texts(store) == ["- 12:00 one\n"]
    assert distil(store) and not distil(store)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path, TZ="UTC")


def test_log_appends_shows_and_lists(cli: Cli) -> None:
    assert cli.real("log", "the", "release", "is out").out == "logged in logs/2026/03/2026-03-05.md\n"
    assert cli.real("log", "-", given=b"a\nb\n").code == 0
    assert cli("log", "add", "--", "--show").code == 0
    text = "- 12:00 the release is out\n- 12:00 a\n  b\n- 12:00 --show\n"
    for argv in (["log"], ["log", "show"], ["log", "show", "today"], ["log", "show", "2026-03-05"]):
        assert cli(*argv).out == text
    assert cli("log", "show", "yesterday", MEMDIR_NOW="2026-03-06T00:00:01Z").out == text
    assert cli("log", "list").out == f"2026-03-05\t{len(text)}\twaits\tlogs/2026/03/2026-03-05.md\n"
    assert (cli.memory / "logs/2026/03/2026-03-05.md").read_text(encoding="utf-8") == text


def test_log_in_json(cli: Cli) -> None:
    row = cli("log", "x", "--json").json
    assert row == {
        "day": "2026-03-05",
        "at": "2026-03-05T12:00:00.000+00:00",
        "path": str(cli.memory / "logs/2026/03/2026-03-05.md"),
        "bytes": 10,
    }
    assert cli("log", "show", "--json").json["text"] == "- 12:00 x\n"
    with FileStore(cli.memory) as store:
        distil(store)
    assert [(at["day"], at["distilled"]) for at in cli("log", "list", "--json").json] == [("2026-03-05", True)]


def test_what_log_refuses_it_refuses_in_one_line(cli: Cli) -> None:
    assert "the entry is empty" in cli("log", " ").refusal
    assert "U+001B" in cli("log", "\x1b[31m").refusal
    assert (
        "no log for 2026-03-05" in cli("log").refusal
        and "no log for 2026-03-04" in cli("log", "show", "yesterday").refusal
    )
    assert cli("log", "show", "someday").code == 2 and cli("log", "add").code == 2
    assert "off" in cli("log", "x", CLAUDE_CODE_SIMPLE="1").refusal and not cli.memory.exists()
    assert cli("log", "list", "--json").json == [] and cli("log", "list").out == ""


def test_a_purge_says_that_it_does_not_reach_into_logs_and_does_not(cli: Cli) -> None:
    cli.save("secret-plan", "The xylophone is buried.")
    cli("log", "asked where the xylophone is")
    told = cli("forget", "secret-plan", "--purge", "--yes")
    assert "daily logs" in told.out
    assert "xylophone" in cli("log").out


def test_without_a_model_what_patterns_recognise_becomes_memories_and_the_rest_is_one_item(store: FileStore) -> None:
    log(store, "feedback: Commits are small, one for each logical change.")
    log(store, "[project] The mobile release is cut from 2026-03-12 on.")
    log(store, "Remember that invoices are sent on the third of each month.")
    log(store, "looked at the flaky test again")
    log(store, "reference: the token of the runner is ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"[:36])
    done = dream(store, now=NOON + DAY)
    texts = [store.read(at.name).text for at in store.scan()]
    for said in ("ommits are small, one for each logical change", "cut from 2026-03-12", "third of each month"):
        assert sum(said in text for text in texts) == 1, said
    assert done.applied is not None and len(done.applied.changed) == 3
    (item,) = store.inbox()
    assert "log of 2026-03-05" in item.title and "2 entries" in item.why
    assert "flaky test" in str(item.payload) and "A1b2C3" not in str(item.payload)
    assert list_undistilled(store) == ()
    dream(store, now=NOON + 2 * DAY)
    assert len(store.inbox()) == 1 and len(store.scan()) == 3


def test_without_a_model_an_entry_about_a_pinned_memory_waits(store: FileStore) -> None:
    said = "Deploys go out on Tuesdays only."
    pinned = store.write(Draft(Kind.PROJECT, "Deploys", said, f"{said}\n", "deploys", True))
    log(store, "project: Deploys go out on Tuesdays only, because support is staffed then.")
    dream(store, now=NOON + DAY)
    assert store.read("deploys").digest == pinned.digest and len(store.scan()) == 1
    (item,) = store.inbox()
    assert "support is staffed" in str(item.payload)
