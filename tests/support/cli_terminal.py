"""A command of memdir on a terminal of its own."""

import os
import pty
import select
import signal
import struct
import subprocess
import termios
from fcntl import ioctl

from clihelp import Cli


def _hear_interrupts() -> None:
    """Whoever started the tests may have put them into the background, where interrupts are not heard."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


class Terminal:
    """A command on a terminal of its own, so many columns wide."""

    def __init__(self, cli: Cli, *argv: str, width: int = 70, **variables: str) -> None:
        self.main, inner = pty.openpty()
        ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        self.process = subprocess.Popen(
            cli.command(*argv), cwd=cli.project, env=cli.environ(**variables), stdin=inner, stdout=inner, stderr=inner,
            start_new_session=True, preexec_fn=_hear_interrupts,
        )  # fmt: skip
        os.close(inner)
        self.text = ""

    def read_until(self, end: str | None = None) -> str:
        """All that comes, until a text was seen or the command has ended."""
        while end is None or end not in self.text:
            ready, _, _ = select.select([self.main], [], [], 30)
            assert ready, self.text
            try:
                data = os.read(self.main, 65_536)
            except OSError:  # Linux says EIO when the other side is closed
                data = b""
            if not data:
                break
            self.text += data.decode("utf-8")
        return self.text

    def type(self, text: str) -> None:
        os.write(self.main, text.encode())

    def end(self) -> tuple[int, str]:
        text = self.read_until()
        os.close(self.main)
        return self.process.wait(timeout=30), text


def show(cli: Cli, *argv: str, **variables: str) -> tuple[int, str]:
    return Terminal(cli, *argv, width=70, **variables).end()
