"""A program at a terminal that is its own, so that Ctrl-C is a signal and a paste is a paste."""

import contextlib
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Mapping
from fcntl import ioctl
from pathlib import Path
from types import TracebackType
from typing import Self

WAIT = 120  # seconds without a byte, on a slow and loaded machine
INTERRUPT, END, ENTER, TAB, UP = "\x03", "\x04", "\r", "\t", "\x1b[A"
# The terminal has to become that of the new session, and whoever started the tests may have switched interrupts off.
_LAUNCH = """
import fcntl, os, signal, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])
"""


class Terminal:
    """`expect` goes forward through what the program wrote; `text` is all of it."""

    def __init__(
        self, command: list[str], *, cwd: Path, env: Mapping[str, str], size: tuple[int, int] = (24, 80)
    ) -> None:
        self._main, inner = pty.openpty()
        self.resize(*size)
        self.process = subprocess.Popen(
            [sys.executable, "-S", "-c", _LAUNCH, *command],
            cwd=cwd, env={"TERM": "xterm", "LC_ALL": "C.UTF-8", **env}, stdin=inner, stdout=inner, stderr=inner,
            start_new_session=True,
        )  # fmt: skip
        os.close(inner)
        self.text = ""
        self._at = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._main)

    def resize(self, rows: int, columns: int) -> None:
        ioctl(self._main, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def expect(self, wanted: str) -> str:
        """Wait for a text; answers what came before it since the last one."""
        while (found := self.text.find(wanted, self._at)) < 0:
            assert self._read(), f"the program ended before {wanted!r}: {self.text[self._at :]!r}"
        before, self._at = self.text[self._at : found], found + len(wanted)
        return before

    def type(self, text: str) -> None:
        """Keys, in pieces that the terminal can hold; what the program echoes is read meanwhile."""
        data = text.encode()
        while data:
            ready, room, _ = select.select([self._main], [self._main], [], WAIT)
            assert ready or room
            if ready:
                self._read()
            elif room:
                data = data[os.write(self._main, data[:512]) :]

    def enter(self, text: str) -> None:
        self.type(text + ENTER)

    def paste(self, text: str) -> None:
        self.type(f"\x1b[200~{text}\x1b[201~")

    def end(self) -> int:
        """The exit code, when it has ended by itself."""
        while self._read():
            pass
        return self.process.wait(timeout=WAIT)

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(timeout=WAIT)

    def _read(self) -> bool:
        for _ in range(WAIT):
            ready, _, _ = select.select([self._main], [], [], 1)
            if ready:
                break
            # Python's readline handles a Ctrl-C only while it waits for a key; one that comes a moment earlier stays
            # pending until the next key or signal. A person presses a key; here a signal without other effect is sent.
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGWINCH)
        assert ready, f"nothing came for {WAIT} s after {self.text[-500:]!r}"
        try:
            data = os.read(self._main, 65_536)
        except OSError:  # Linux says EIO when the other side is closed
            data = b""
        self._rest = getattr(self, "_rest", b"") + data
        whole = self._rest.decode("utf-8", "ignore")
        self._rest = self._rest[len(whole.encode()) :]
        self.text += whole
        return bool(data)
