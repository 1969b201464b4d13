"""How a host shall call memdir: as words that still work when the terminal is closed and the version has changed.

    a script of an installation (pip, pipx, uv tool)   its whole path: programs with a window have another PATH
    run once from a cache (uvx, pipx run)              another installation if there is one, else through `uvx`
    `python -m memdir`                                 the same interpreter, told not to look into the project

A file that is committed with a project names the program only, and stays silent where it is not installed.
"""

import os
import re
import shlex
from collections.abc import Callable, Sequence

from memdir.frozen import dataclass

NAME = "memdir"
# Folders whose contents come and go.
_PASSING = re.compile(
    r"[/\\](?:\.cache|Caches|cache)[/\\](?:uv|pipx)[/\\]|[/\\](?:archive|builds|environments)-v\d+[/\\]"
    r"|[/\\]pipx[/\\]\.cache[/\\]"
)


@dataclass(frozen=True, slots=True)
class Program:
    """The words before the verb; `note` is what the person should know about them."""

    words: tuple[str, ...]
    note: str = ""
    is_shared: bool = False

    def render(self, *arguments: str) -> str:
        """One command for a shell."""
        line = shlex.join((*self.words, *arguments))
        return f"command -v {NAME} >/dev/null 2>&1 && {line} || true" if self.is_shared else line


SHARED = Program((NAME,), is_shared=True)


def find_program(script: str, executable: str, which: Callable[[str], str | None]) -> Program:
    """The program for the person's own settings; `script` is what this process was started as."""
    here = os.path.abspath(script) if script else ""
    if os.path.basename(here) == NAME and os.access(here, os.X_OK) and not _PASSING.search(os.path.realpath(here)):
        return Program((here,))
    is_passing = bool(_PASSING.search(os.path.realpath(here)) or _PASSING.search(executable))
    if not is_passing:
        return Program((executable, "-P", "-m", NAME))
    found = which(NAME)
    if found and not _PASSING.search(os.path.realpath(found)):
        return Program((os.path.abspath(found),))
    note = "memdir runs from a cache; `uv tool install memdir` or `pipx install memdir` makes its hooks start faster"
    return Program((which("uvx") or "uvx", NAME), note)


def split_words(words: Sequence[str]) -> tuple[str, list[str]]:
    """The program and its arguments apart, as settings of MCP servers want them."""
    return words[0], list(words[1:])
