"""The tracing tools are proved on actions of a few lines before anything of memdir is judged by them."""

import ctypes
import errno
import os
import sys
import threading
from pathlib import Path

import pytest

import syscalls
from syscalls import inject_errors, mark, trace, trace_command
from writers import TEXT, insert, rows, save


@pytest.fixture(autouse=True)
def _supported() -> None:
    if reason := syscalls.is_supported():
        pytest.skip(f"tracing unavailable: {reason}")


def test_a_durable_save_is_seen_call_by_call_with_its_paths(tmp_path: Path) -> None:
    seen = trace(lambda: save(tmp_path))
    folder, temp, note = str(tmp_path), str(tmp_path / "note.tmp"), str(tmp_path / "note")
    assert [(call.name, call.path, call.path2, call.fd_path) for call in seen.below(tmp_path)] == [
        ("openat", folder, "", ""),
        ("openat", temp, "", folder),
        ("write", "", "", temp),
        ("fsync", "", "", temp),
        ("renameat", temp, note, folder),
        ("fsync", "", "", folder),
    ]
    assert seen.named("write")[0].size == seen.named("write")[0].result == len(TEXT)
    assert seen.named("openat")[1].flags & os.O_EXCL
    assert (seen.outcome.value, seen.outcome.error, seen.status) == ("saved", "", 0)


def test_a_failed_call_shows_its_errno_and_the_exception_comes_back(tmp_path: Path) -> None:
    seen = trace(lambda: os.unlink(tmp_path / "absent"))
    assert [(call.target, call.result) for call in seen.calls] == [(str(tmp_path / "absent"), -errno.ENOENT)]
    assert (seen.outcome.kind, seen.outcome.errno) == ("FileNotFoundError", errno.ENOENT)


def test_every_kind_of_call_a_store_makes_is_told_apart(tmp_path: Path) -> None:
    def action() -> None:
        os.mkdir(tmp_path / "d")
        with open(tmp_path / "d" / "f", "w+b", buffering=0) as file:
            file.write(b"abc")
            os.pwrite(file.fileno(), b"x", 1)
            os.writev(file.fileno(), [b"12", b"345"])
            os.pread(file.fileno(), 10, 0)
            os.readv(file.fileno(), [bytearray(4)])
            os.ftruncate(file.fileno(), 2)
            os.fdatasync(file.fileno())
            os.fchmod(file.fileno(), 0o600)
            os.fstat(file.fileno())
        os.utime(tmp_path / "d" / "f", ns=(1, 2))
        os.link(tmp_path / "d" / "f", tmp_path / "d" / "g")
        os.symlink("g", tmp_path / "d" / "s")
        os.listdir(tmp_path / "d")
        os.lstat(tmp_path / "d" / "s")
        os.unlink(tmp_path / "d" / "g")

    seen = trace(action)
    names = {call.name.removesuffix("at") for call in seen.below(tmp_path)}
    assert {"mkdir", "write", "pwrite64", "writev", "pread64", "readv", "ftruncate", "fdatasync", "fchmod"} <= names
    assert {"utimens", "link", "symlink", "getdents64", "unlink"} <= names
    assert seen.named("fstat", "lstat", "newfstatat", "statx")[-1].target == str(tmp_path / "d" / "s")
    assert seen.named("writev")[0].size == 5
    assert [call.path2 for call in seen.calls if call.name.startswith("symlink")] == ["g"]


def test_the_flags_and_path_of_openat2_are_read_from_its_struct(tmp_path: Path) -> None:
    def action() -> None:
        how = (ctypes.c_uint64 * 3)(os.O_CREAT | os.O_RDWR, 0o600, 0)
        path = ctypes.c_char_p(os.fsencode(tmp_path / "made"))
        ctypes.CDLL(None).syscall(ctypes.c_long(437), ctypes.c_long(-100), path, how, ctypes.c_size_t(24))

    (call,) = trace(action).named("openat2")
    if call.result == -errno.ENOSYS:
        pytest.skip("openat2 unavailable: the kernel is too old")
    assert (call.path, call.flags) == (str(tmp_path / "made"), os.O_CREAT | os.O_RDWR)
    assert syscalls.is_mutating(call)


def test_only_the_part_between_two_marks_is_recorded_when_the_action_marks_itself(tmp_path: Path) -> None:
    def action() -> None:
        os.mkdir(tmp_path / "before")
        mark()
        os.mkdir(tmp_path / "counted")
        mark()
        os.mkdir(tmp_path / "after")

    assert [call.path for call in trace(action, arm=False).calls] == [str(tmp_path / "counted")]


def test_threads_are_followed(tmp_path: Path) -> None:
    def action() -> int:
        threads = [threading.Thread(target=save, args=(tmp_path / str(number),)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return len(threads)

    for number in range(4):
        (tmp_path / str(number)).mkdir()
    seen = trace(action)
    assert seen.outcome.value == 4
    assert len({call.tid for call in seen.named("write")}) == 4
    for number in range(4):
        names = [call.name for call in seen.below(tmp_path / str(number))]
        assert names[-4:] == ["write", "fsync", "renameat", "fsync"]


def test_a_sqlite_transaction_is_seen_down_to_its_sync(tmp_path: Path) -> None:
    seen = trace(lambda: insert(tmp_path / "db", "one"))
    written = {call.fd_path for call in seen.named("pwrite64", "write")}
    synced = {call.fd_path for call in seen.named("fdatasync", "fsync")}
    assert {str(tmp_path / "db"), str(tmp_path / "db-journal")} <= written & synced


def test_a_program_is_traced_with_the_programs_it_starts(tmp_path: Path) -> None:
    inner = "open('inner', 'w', encoding='utf-8').write('x')"
    outer = f"import subprocess, sys; print('hello', flush=True); subprocess.run([sys.executable, '-c', {inner!r}])"
    seen = trace_command([sys.executable, "-I", "-c", outer], {"PATH": os.defpath}, tmp_path)
    assert (seen.status, seen.output) == (0, b"hello\n")
    assert [call.result for call in seen.named("write") if call.fd_path == str(tmp_path / "inner")] == [1]


@pytest.mark.parametrize(
    ("name", "code"),
    [("write", errno.ENOSPC), ("fsync", errno.EIO), ("openat", errno.EMFILE), ("renameat", errno.EROFS)],
)
def test_an_injected_error_arrives_as_oserror_and_the_call_is_not_made(tmp_path: Path, name: str, code: int) -> None:
    seen = inject_errors(lambda: save(tmp_path), names=name, error=code, within=tmp_path)
    assert (seen.outcome.errno, seen.struck) == (code, 1)
    assert seen.below(tmp_path)[-1].name == name and seen.below(tmp_path)[-1].result == -code
    left = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert left == {"openat": {}, "write": {"note.tmp": b""}}.get(name, {"note.tmp": TEXT})


def test_the_nth_call_alone_or_with_all_later_ones_can_fail(tmp_path: Path) -> None:
    def write_five() -> list[int]:
        failed = []
        fd = os.open(tmp_path / "f", os.O_CREAT | os.O_TRUNC | os.O_WRONLY, 0o600)
        for number in range(1, 6):
            try:
                os.write(fd, b"x")
            except OSError:
                failed.append(number)
        os.close(fd)
        return failed

    assert inject_errors(write_five, names="write", nth=3, error=errno.EDQUOT).outcome.value == [3]
    done = inject_errors(write_five, names={"write", "writev"}, nth=3, error=errno.EDQUOT, later=True)
    assert (done.outcome.value, done.struck) == ([3, 4, 5], 3)
    done = inject_errors(write_five, names="write", nth=6, error=errno.EDQUOT)
    assert (done.outcome.value, done.struck) == ([], 0)


def test_sqlite_reports_an_injected_full_disk(tmp_path: Path) -> None:
    insert(tmp_path / "db", "one")
    done = inject_errors(
        lambda: insert(tmp_path / "db", "two"), names="pwrite64", error=errno.ENOSPC, later=True, within=tmp_path
    )
    assert (done.outcome.kind, done.outcome.message) == ("OperationalError", "database or disk is full")
    assert rows(tmp_path / "db") == ["one"]
