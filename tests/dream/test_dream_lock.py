"""One dream at a time: who may, who is told no, and what the file says after every kind of end."""

import json
import os
import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from dreamers import to_ns
from loads import scaled
from memdir.dream.lock import FILE, LOCK, DreamLock, find_holder, hold_dream, read_last
from memdir.errors import LockedError, PathError
from memdir.files import find_began, is_alive, read_start
from memdir.interfaces import doctor
from memdir.store.files import FileStore
from outcome import fork
from pressure import run_in_child

DRIVER = Path(__file__).parents[1] / "support" / "dreamers.py"
SOURCE = DRIVER.parent.parent / "src"
NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="start times are read from /proc")


def state_of(memory: Path) -> Path:
    return memory / ".memdir"


def dream(memory: Path, now: datetime = NOW) -> None:
    with hold_dream(memory, state_of(memory), now=now) as held:
        held.check()


def put(memory: Path, body: str, when: datetime) -> Path:
    """The file as another program writes it."""
    memory.mkdir(parents=True, exist_ok=True)
    path = memory / FILE
    path.write_text(body, encoding="ascii")
    os.utime(path, ns=(to_ns(when), to_ns(when)))
    return path


def hold_in_child(memory: Path, now: datetime = NOW) -> int:
    """A child that holds the dream and never ends by itself; answers its PID once it does."""
    reader, writer = os.pipe()
    pid = fork()
    if pid == 0:
        with hold_dream(memory, state_of(memory), now=now):
            os.write(writer, b"x")
            signal.pause()
        os._exit(0)
    assert os.read(reader, 1) == b"x"
    os.close(reader)
    os.close(writer)
    return pid


def end(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def now_for_real() -> datetime:
    """The machine's own time: what the file system and the start of processes go by."""
    return datetime.now(UTC)


def run_driver(memory: Path, rounds: int) -> list[str]:
    command = [sys.executable, str(DRIVER), str(memory), str(rounds)]
    env = {"PYTHONPATH": os.pathsep.join((str(SOURCE), str(DRIVER.parent))), "HOME": str(memory.parent)}
    ended = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", timeout=1800)
    assert ended.returncode == 0, ended.stderr
    report: list[str] = json.loads(ended.stdout)
    return report


@LINUX
@pytest.mark.load
def test_of_64_dreamers_started_together_one_runs_whatever_happens_to_it(memory: Path) -> None:
    assert run_driver(memory, scaled(200)) == []


def test_the_file_names_the_holder_as_claude_code_does_and_is_private(memory: Path) -> None:
    with hold_dream(memory, state_of(memory), now=NOW):
        path = memory / FILE
        first = path.read_text(encoding="ascii").split("\n")[0]
        assert first == str(os.getpid()) and path.stat().st_mtime_ns == to_ns(NOW)
        assert path.stat().st_mode & 0o777 == 0o600
        found = find_holder(memory, now=NOW)
        assert found is not None and (found.pid, found.since, found.is_ours) == (os.getpid(), NOW, True)
    assert find_holder(memory, now=NOW) is None and path.read_bytes() == b""


def test_after_success_the_mtime_is_the_time_of_the_dream(memory: Path) -> None:
    assert read_last(memory) is None
    dream(memory)
    assert read_last(memory) == NOW and (memory / FILE).stat().st_mtime_ns == to_ns(NOW)
    with hold_dream(memory, state_of(memory), now=NOW + HOUR) as held:
        assert held.last == NOW and read_last(memory) == NOW, "the one under way is none yet"
    assert read_last(memory) == NOW + HOUR


def test_after_a_failure_the_time_is_what_it_was(memory: Path) -> None:
    def fail() -> None:
        with hold_dream(memory, state_of(memory), now=NOW + HOUR):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert not (memory / FILE).exists()
    odd = to_ns(NOW) + 123
    os.utime(put(memory, "", NOW), ns=(odd, odd))
    with pytest.raises(KeyboardInterrupt):
        fail()
    assert (memory / FILE).stat().st_mtime_ns == odd and not list(memory.glob(f"{FILE}.*"))


def test_a_run_that_was_withdrawn_does_not_count(memory: Path) -> None:
    dream(memory)
    with hold_dream(memory, state_of(memory), now=NOW + HOUR) as held:
        held.do_not_count()
    assert read_last(memory) == NOW


def test_a_killed_dream_was_none(memory: Path) -> None:
    dream(memory)
    end(hold_in_child(memory, NOW + HOUR))
    assert (memory / FILE).stat().st_mtime_ns == to_ns(NOW + HOUR), "the kill left it so"
    assert read_last(memory) == NOW and find_holder(memory, now=NOW + HOUR) is None
    end(hold_in_child(memory, NOW + 2 * HOUR))
    assert read_last(memory) == NOW, "after a second kill, too"
    dream(memory, NOW + 3 * HOUR)
    assert read_last(memory) == NOW + 3 * HOUR


def test_the_body_may_hold_anything(memory: Path) -> None:
    for body in ("", "\n", "x", "-5", "0", "99999999999999999999", "7\nmemdir\nbefore x\n", "\0" * 9000, "1\nmemdir\n"):
        put(memory, body, NOW - 48 * HOUR)
        read_last(memory)
        assert find_holder(memory, now=NOW) is None, body
    put(memory, "", NOW - 48 * HOUR)
    dream(memory)


def test_a_living_holder_is_named_and_never_displaced(memory: Path) -> None:
    pid = hold_in_child(memory)
    try:
        for later in (-100 * HOUR, 0 * HOUR, 100 * HOUR):
            with pytest.raises(LockedError) as caught:
                dream(memory, NOW + later)
            assert caught.value.pid == pid and caught.value.since == NOW.timestamp() and str(pid) in str(caught.value)
        held = find_holder(memory, now=NOW + 2 * HOUR)
        assert held is not None and held.is_late
        assert not getattr(find_holder(memory, now=NOW + HOUR / 2), "is_late", True)
    finally:
        end(pid)
    dream(memory)


def test_doctor_names_a_dream_of_more_than_an_hour(memory: Path) -> None:
    pid = hold_in_child(memory)
    try:
        for later, count in ((HOUR / 2, 0), (2 * HOUR, 1)):
            with FileStore(memory, clock=lambda later=later: NOW + later) as store:  # type: ignore[misc]
                found = [at for at in doctor.examine(store) if at.kind == "dream_lock"]
            assert len(found) == count and all(str(pid) in at.message for at in found)
    finally:
        end(pid)


def test_the_same_process_cannot_dream_twice_at_once(memory: Path) -> None:
    with hold_dream(memory, state_of(memory), now=NOW) as held:
        with pytest.raises(LockedError):
            dream(memory)
        held.check()


def test_another_programs_dream_counts_for_an_hour(memory: Path) -> None:
    began = now_for_real()
    put(memory, str(os.getppid()), began)
    for later in (-HOUR / 2, HOUR / 2):
        with pytest.raises(LockedError, match=str(os.getppid())):
            dream(memory, began + later)
    assert read_last(memory) == began
    dream(memory, began + 2 * HOUR)
    put(memory, str(os.getppid()), began + 48 * HOUR)
    dream(memory, began)  # a time far ahead is a wrong clock's


def test_another_programs_dead_process_gives_way_at_once(memory: Path) -> None:
    pid = fork()
    if pid == 0:
        os._exit(0)
    put(memory, str(pid), now_for_real())
    while is_alive(pid):
        pass  # a zombie by now, which is dead
    dream(memory, now_for_real())
    os.waitpid(pid, 0)


@LINUX
def test_a_pid_that_was_given_to_a_younger_process_is_not_the_holder(memory: Path) -> None:
    written = now_for_real() - HOUR / 2
    child = subprocess.Popen(["sleep", "60"])
    try:
        put(memory, str(child.pid), written)
        dream(memory, written + HOUR / 2)
        put(memory, f"{child.pid}\nmemdir\nstart 00000000-1\ntoken t\nlock 1\nbefore none\n", written)
        assert read_last(memory) is None
        dream(memory, written)
        start = read_start(child.pid)
        put(memory, f"{child.pid}\nmemdir\nstart {start}\ntoken t\nlock 1\nbefore none\n", written)
        with pytest.raises(LockedError):
            dream(memory, written)
    finally:
        child.kill()
        child.wait()
    dream(memory, written)


def test_a_lock_file_that_was_deleted_lets_nobody_displace_the_holder(memory: Path) -> None:
    pid = hold_in_child(memory)
    try:
        (state_of(memory) / LOCK).unlink()
        with pytest.raises(LockedError):
            dream(memory)
    finally:
        end(pid)
    dream(memory)


def check_in_vain(held: DreamLock) -> None:
    with pytest.raises(LockedError, match="no changes were made"):
        held.check()


def test_a_holder_whose_file_was_taken_applies_nothing_and_leaves_it(memory: Path) -> None:
    with hold_dream(memory, state_of(memory), now=NOW) as held:
        path = put(memory, "4711", NOW - HOUR)
        check_in_vain(held)
    assert path.read_text(encoding="ascii") == "4711" and read_last(memory) == NOW - HOUR


def test_a_holder_whose_file_is_gone_applies_nothing(memory: Path) -> None:
    with hold_dream(memory, state_of(memory), now=NOW) as held:
        (memory / FILE).unlink()
        check_in_vain(held)
    assert not (memory / FILE).exists()
    check_in_vain(held)


def test_a_child_of_the_holder_is_not_the_holder(memory: Path) -> None:
    with hold_dream(memory, state_of(memory), now=NOW) as held:
        assert run_in_child(held.check).kind == "LockedError"
        held.check()
    assert read_last(memory) == NOW


def test_links_are_refused_and_nothing_behind_them_is_touched(memory: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("theirs", encoding="ascii")
    dream(memory)
    for path in (memory / FILE, state_of(memory) / LOCK, memory / f"{FILE}.memdir"):
        path.unlink(missing_ok=True)
        path.symlink_to(other)
        with pytest.raises(PathError):
            dream(memory)
        path.unlink()
        os.link(other, path)
        with pytest.raises(PathError):
            dream(memory)
        path.unlink()
    assert other.read_text(encoding="ascii") == "theirs"
    (memory / FILE).symlink_to(other)
    assert read_last(memory) is None and find_holder(memory, now=NOW) is None


def test_a_state_folder_that_is_a_link_is_refused(memory: Path, tmp_path: Path) -> None:
    memory.mkdir(parents=True)
    (tmp_path / "elsewhere").mkdir()
    state_of(memory).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PathError):
        dream(memory)
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_directory_that_cannot_be_written_is_one_clear_error(memory: Path) -> None:
    dream(memory)
    memory.chmod(0o500)
    done = run_in_child(lambda: dream(memory), as_nobody=True)
    memory.chmod(0o700)
    assert done.kind in ("DiskError", "PathError", "Unavailable"), done


@LINUX
def test_when_a_process_began_is_known_and_its_own(tmp_path: Path) -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert is_alive(child.pid) and read_start(child.pid) not in ("", read_start(os.getpid()))
        began = find_began(child.pid)
        assert began is not None and abs(began - now_for_real().timestamp()) < 60
    finally:
        child.kill()
        child.wait()
    assert not is_alive(child.pid) and read_start(child.pid) == "" and find_began(child.pid) is None
    assert not is_alive(0) and not is_alive(-1) and not is_alive(2**40)
