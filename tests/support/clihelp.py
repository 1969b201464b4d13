"""The command line for tests: in this process with a home of its own, or as a real process."""

import json
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

from memdir.interfaces.cli import run

SOURCE = Path(__file__).parents[2] / "src"
NOW = "2026-03-05T12:00:00+00:00"  # a Thursday


@dataclass(frozen=True)
class Result:
    code: int
    data: bytes
    err: str

    @property
    def out(self) -> str:
        return self.data.decode("utf-8")

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def lines(self) -> list[str]:
        return self.out.splitlines()

    @property
    def refusal(self) -> str:
        """The one line that a refusal is."""
        assert self.code == 1 and self.err.startswith("memdir: ") and self.err.count("\n") == 1, (self.code, self.err)
        assert "Traceback" not in self.err
        return self.err


class Cli:
    """memdir in a project `work/app` below a home of its own."""

    def __init__(self, tmp_path: Path, **variables: str) -> None:
        self.home = tmp_path / "home"
        self.project = self.home / "work" / "app"
        self.project.mkdir(parents=True, exist_ok=True)
        (self.project / ".git").mkdir(exist_ok=True)
        self.variables = {"HOME": str(self.home), "PATH": os.environ["PATH"], "MEMDIR_NOW": NOW, **variables}

    def __call__(self, *argv: str, cwd: Path | None = None, **variables: str) -> Result:
        """One call in this process."""
        out, err = (TextIOWrapper(BytesIO(), encoding="utf-8", newline="") for _ in range(2))
        with redirect_stdout(out), redirect_stderr(err):
            code = run(list(argv), environ={**self.variables, **variables}, cwd=cwd or self.project)
        out.flush()
        err.flush()
        data, told = (stream.buffer.getvalue() for stream in (out, err) if isinstance(stream.buffer, BytesIO))
        return Result(code, data, told.decode("utf-8"))

    def real(self, *argv: str | bytes, given: bytes = b"", **variables: str) -> Result:
        """One call as a process of its own."""
        ended = subprocess.run(
            self.command(*argv), cwd=self.project, env=self.environ(**variables), input=given, capture_output=True
        )
        return Result(ended.returncode, ended.stdout, ended.stderr.decode("utf-8"))

    def command(self, *argv: str | bytes) -> list[str | bytes]:
        return [sys.executable, "-W", "error", "-m", "memdir", *argv]

    def environ(self, **variables: str) -> dict[str, str]:
        return {**self.variables, "PYTHONPATH": str(SOURCE), **variables}

    @property
    def memory(self) -> Path:
        """This project's memory directory."""
        return Path(self("where", "--json").json["private"]["path"])

    def file(self, name: str, text: str | bytes) -> Path:
        """A memory file as somebody else would write it."""
        path = self.memory / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return path

    def save(self, name: str = "terse-replies", body: str = "Leave out the closing summary.", *more: str) -> Result:
        """A memory that every rule likes."""
        options = ["--type", "feedback", "--name", name, "--description", f"No summary at the end of a {name} reply"]
        parts = ["--body", body, "--why", "The diff is read anyway.", "--how", "In every reply."]
        return self("save", *options, *parts, *more)


# A rule for `git push --force`, and a memory about an error; `PUSH` leaves a file if it is run.
NO_FORCE = """---
name: Never overwrite a remote branch
description: Nobody overwrites what others have fetched
type: feedback
when:
  commands: ["git push.*(--force|-f\\\\b)"]
---

Never force-push.

**Why:** Sam lost two days of work.
"""
RELEASE = """---
name: The release target
description: make says No rule to make target relase
type: reference
---

Releases are made with `just release`; make has no target for them.
"""
PUSH = "touch pushed; git push --force origin main 2>/dev/null || true"
SHIP = "please ship the billing service, it is ready now"


def memory_text(
    title: str, description: str = "Bugs of the billing service are tracked there", body: str = "Text.\n"
) -> str:
    return f"---\nname: {title}\ndescription: {description}\ntype: reference\n---\n\n{body}"
