"""Real pressure for tests: a full disk, a size limit, no descriptors left, no permission, each in a forked child.

    done = run_in_child(action, as_nobody=True)     # done.value, done.error, done.errno
    with small_disk(path, 64 * 1024): ...           # a tmpfs that is soon full
    with file_size_limit(500): ...                  # EFBIG
    with descriptor_limit(2): ...                   # EMFILE after two more

Where the machine does not allow it, `Unavailable` says why, also through `run_in_child`; tests turn it into a counted
skip. The limits are of the process: use them only in a child.
"""

import contextlib
import ctypes
import os
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from outcome import Outcome, attempt, fork, parse_outcome, render_outcome

NOBODY = 65534
_NEW_MOUNTS, _NEW_USER = 0x00020000, 0x10000000
_MS_REC, _MS_PRIVATE, _MNT_DETACH = 0x4000, 0x40000, 2
_PR_SET_DUMPABLE = 4
_CAPABILITIES = 0x20080522  # version 3 of the system call
_DAC = 0b110  # CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH

_in_child = False


class Unavailable(Exception):
    """This machine cannot make that kind of pressure; the message is the reason for a skip."""


def run_in_child(action: Callable[[], object], *, as_nobody: bool = False, deadline: float = 30.0) -> Outcome:
    """Run `action` in a forked child and say what became of it; after `deadline` seconds kill it: TimeoutError.

    `as_nobody` gives up root first, so that permissions count; for another user it changes nothing. Import before what
    the action needs: nobody may not be able to read where Python is installed.
    """
    reader, writer = os.pipe()
    pid = fork()
    if pid == 0:
        try:
            os.close(reader)
            _send(writer, render_outcome(*attempt(lambda: _begin(action, as_nobody))))
            os._exit(0)
        finally:
            os._exit(1)
    os.close(writer)
    raw = None
    try:
        raw = _receive(reader, pid, time.monotonic() + deadline)
    finally:
        os.close(reader)
        if raw is None:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
    done = parse_outcome(raw, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    if done.kind == Unavailable.__name__:
        raise Unavailable(done.message)
    return done


@contextlib.contextmanager
def nobody_folder() -> Iterator[Path]:
    """A folder that the child of `as_nobody` can reach and owns; pytest's tmp_path is closed to other users."""
    folder = Path(tempfile.mkdtemp(prefix="memdir-nobody-"))
    try:
        if os.getuid() == 0:
            os.chown(folder, NOBODY, NOBODY)
        yield folder
    finally:
        shutil.rmtree(folder)


@contextlib.contextmanager
def small_disk(path: str | os.PathLike[str], size: int, *, inodes: int = 0) -> Iterator[None]:
    """A tmpfs of `size` bytes (and at most `inodes` files) mounted on the directory `path`.

    In a child of `run_in_child` it lives in a mount namespace of its own and vanishes with it, which works without root
    where user namespaces do. In the test process itself only root can mount, and others see the mount.
    """
    if not sys.platform.startswith("linux"):
        raise Unavailable("small disks need Linux")
    if _in_child:
        leave_mounts()
    elif os.geteuid() != 0:
        raise Unavailable("a small disk without root works only inside run_in_child")
    options = f"size={size},mode=0700" + (f",nr_inodes={inodes}" if inodes else "")
    if reason := _mount(b"tmpfs", os.fsencode(path), b"tmpfs", 0, options.encode()):
        raise Unavailable(f"tmpfs cannot be mounted here: {reason}")
    try:
        yield
    finally:
        ctypes.CDLL(None).umount2(os.fsencode(path), _MNT_DETACH)


@contextlib.contextmanager
def file_size_limit(size: int) -> Iterator[None]:
    """No file may grow beyond `size` bytes: writes fail with EFBIG (Python ignores the signal that goes with it)."""
    with _soft_limit(resource.RLIMIT_FSIZE, size):
        yield


@contextlib.contextmanager
def descriptor_limit(free: int) -> Iterator[None]:
    """Only `free` more descriptors can be opened, then EMFILE. Holes below the highest open one are counted in."""
    limit = found = 0
    while found < free:
        found += not _is_open(limit)
        limit += 1
    with _soft_limit(resource.RLIMIT_NOFILE, limit):
        yield


@contextlib.contextmanager
def _soft_limit(kind: int, value: int) -> Iterator[None]:
    """Only the soft limit, so that it can be lifted again: the cause going away is part of the tests."""
    soft, hard = resource.getrlimit(kind)
    resource.setrlimit(kind, (value, hard))
    try:
        yield
    finally:
        resource.setrlimit(kind, (soft, hard))


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _begin(action: Callable[[], object], as_nobody: bool) -> object:
    global _in_child
    _in_child = True
    if as_nobody and os.geteuid() == 0:
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
        if sys.platform.startswith("linux"):  # else /proc/self still belongs to root and a user namespace fails
            ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0)
    return action()


def keep_to_permissions() -> None:
    """From now on permissions count for root as well, in this process and for good: to be called in a child."""
    if os.geteuid() != 0:
        return
    if not sys.platform.startswith("linux"):
        raise Unavailable("root without its rights needs Linux")
    libc = ctypes.CDLL(None, use_errno=True)
    header, data = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, data)
    for at in range(3):  # effective, permitted, inheritable
        data[at] &= ~_DAC
    if libc.capset(header, data) != 0:
        raise Unavailable(f"rights cannot be given up: {os.strerror(ctypes.get_errno())}")


def leave_mounts() -> None:
    """Give this process its own mounts: with its own rights, else through a user namespace in which it has them."""
    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    if libc.unshare(_NEW_MOUNTS) != 0:
        if libc.unshare(_NEW_MOUNTS | _NEW_USER) != 0:
            raise Unavailable(f"no mounts of our own: {os.strerror(ctypes.get_errno())}")
        try:
            Path("/proc/self/setgroups").write_text("deny", encoding="utf-8")
            Path("/proc/self/uid_map").write_text(f"{user} {user} 1", encoding="utf-8")
            Path("/proc/self/gid_map").write_text(f"{group} {group} 1", encoding="utf-8")
        except OSError as error:
            raise Unavailable(f"no user namespace: {error}") from error
    if reason := _mount(b"none", b"/", b"", _MS_REC | _MS_PRIVATE, b""):
        raise Unavailable(f"mounts cannot be made private: {reason}")


def _mount(source: bytes, target: bytes, kind: bytes, flags: int, options: bytes) -> str:
    libc = ctypes.CDLL(None, use_errno=True)
    done = libc.mount(source, target, kind, ctypes.c_ulong(flags), options)
    return "" if done == 0 else os.strerror(ctypes.get_errno())


def _send(fd: int, raw: bytes) -> None:
    view = memoryview(raw)
    while view:
        view = view[os.write(fd, view) :]


def _receive(reader: int, pid: int, end: float) -> bytes:
    """All the child sends. Its end counts as well as the pipe's: a grandchild may hold the pipe open for ever."""
    chunks: list[bytes] = []
    os.set_blocking(reader, False)
    ended = os.pidfd_open(pid) if hasattr(os, "pidfd_open") else -1
    watched = [reader] if ended < 0 else [reader, ended]
    try:
        while True:
            if not select.select(watched, [], [], max(0.0, end - time.monotonic()))[0]:
                raise TimeoutError("an action in a child did not end in time")
            try:
                chunk = os.read(reader, 1 << 16)
            except BlockingIOError:  # nothing left, and the child is gone
                return b"".join(chunks)
            if not chunk:
                return b"".join(chunks)
            chunks.append(chunk)
    finally:
        if ended >= 0:
            os.close(ended)
