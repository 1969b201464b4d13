"""A call of memdir as a process of its own that nobody waits for: it outlives whoever began it.

It is kept apart from what such processes do, because hooks begin them within milliseconds.
"""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path


def start_detached(cwd: Path, *arguments: str, environ: Mapping[str, str] | None = None) -> int:
    """Begin `memdir ARGUMENTS` in a directory, with nothing to read and nobody to hear it; answers its PID.

    `environ` are the variables it gets, this process's own without them.
    `-P`: that directory may be somebody else's project, and a `json.py` lying there is not the one we want.
    """
    null = subprocess.DEVNULL
    process = subprocess.Popen(
        [sys.executable, "-P", "-m", "memdir", *arguments],
        cwd=cwd,
        env=environ,
        stdin=null,
        stdout=null,
        stderr=null,
        start_new_session=True,
        close_fds=True,
    )
    process.returncode = 0  # nobody waits for it: without this the interpreter would warn of a child left behind
    return process.pid
