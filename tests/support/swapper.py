"""A process that exchanges a directory and a symlink at one path as fast as it can: the attacker of the guard's tests.

    with Swapper(path, outside) as swapper:     # path: now a directory, now a symlink to `outside`
        ...
        swapper.swaps                           # how often so far

It holds one core while it runs. It does not write anywhere; after `stop` the path is the directory again.
"""

import ctypes
import mmap
import os
import select
import signal
import struct
import sys
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from outcome import fork

_AT_FDCWD = -100
_EXCHANGE = 2  # RENAME_EXCHANGE of Linux, RENAME_SWAP of macOS
_START_DEADLINE = 10.0


def find_exchange() -> Callable[[bytes, bytes], bool] | None:
    """The system's own atomic exchange of two names, None where there is none."""
    libc = ctypes.CDLL(None)
    if sys.platform == "darwin" and hasattr(libc, "renamex_np"):
        return lambda one, two: libc.renamex_np(one, two, _EXCHANGE) == 0
    if hasattr(libc, "renameat2"):
        return lambda one, two: libc.renameat2(_AT_FDCWD, one, _AT_FDCWD, two, _EXCHANGE) == 0
    return None


def exchange_by_renames(one: bytes, two: bytes) -> bool:
    """Three renames; the path is missing for a moment, which a victim must bear too."""
    between = two + b".between"
    try:
        os.rename(one, between)
        os.rename(two, one)
        os.rename(between, two)
    except OSError:
        return False
    return True


class Swapper:
    """`path` must be a directory; the symlink waits beside it under `path` + ".swap". `is_atomic` tells which way."""

    def __init__(self, path: Path, outside: Path, *, atomic: bool = True) -> None:
        self._path = os.fsencode(path)
        self._link = self._path + b".swap"
        self._outside = os.fsencode(outside)
        # [0] how many swaps, [8] whether to stop; in native form, which is written whole: a reader once saw half of 256.
        self._shared = mmap.mmap(-1, 16)
        self._pid = 0
        exchange = find_exchange() if atomic else None
        self.is_atomic = exchange is not None
        self._exchange = exchange or exchange_by_renames

    @property
    def swaps(self) -> int:
        return int(struct.unpack_from("Q", self._shared)[0])

    def __enter__(self) -> "Swapper":
        self.start()
        return self

    def __exit__(self, kind: object, error: object, trace: TracebackType | None) -> None:
        self.stop()

    def start(self) -> None:
        """Return once the first swap has happened."""
        os.symlink(self._outside, self._link)
        struct.pack_into("QQ", self._shared, 0, 0, 0)
        ready, told = os.pipe()
        parent = os.getpid()
        self._pid = fork()
        if self._pid == 0:
            try:
                os.close(ready)
                self._swap(told, parent)
                os._exit(0)
            finally:
                os._exit(1)
        os.close(told)
        try:
            started = select.select([ready], [], [], _START_DEADLINE)[0] and os.read(ready, 1)
        finally:
            os.close(ready)
        if not started:
            self._kill()
            raise RuntimeError(f"nothing can be swapped at {os.fsdecode(self._path)}")

    def stop(self) -> None:
        """Let it finish its pair of swaps and end; the directory is back in its place, the symlink is removed."""
        if self._pid:
            struct.pack_into("Q", self._shared, 8, 1)
            os.waitpid(self._pid, 0)
            self._pid = 0
        if os.path.islink(self._path):
            self._exchange(self._path, self._link)
        if os.path.islink(self._link):
            os.unlink(self._link)

    def _swap(self, told: int, parent: int) -> None:
        """The loop of the child. It ends with its parent too, so a killed test run leaves nothing spinning."""
        count = 0
        while not self._shared[8] and os.getppid() == parent:
            if self._exchange(self._path, self._link):
                count += 1
                struct.pack_into("Q", self._shared, 0, count)
                if count == 1:
                    os.write(told, b"!")

    def _kill(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        self._pid = 0
