"""The real Claude Code client, run against a server on loopback in a home of its own.

Nothing of the machine reaches it: no settings, no login, no variable but PATH. It is told to make no traffic of its
own; its key is a dummy. scripts/_claude puts it into .venv/claude; where it is not, tests are skipped.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from clihelp import SOURCE
from homes import make_repository
from hook_calls import PATIENT
from loads import ROOT
from memdir.frozen import dataclass, field
from servers import Answer, AnthropicServer

SECONDS = 180.0  # a turn takes one; a machine under load may take its time
# MEMDIR_CLAUDE names another client, read before the tests' own environment is made.
# MEMDIR_NEEDS_CLAUDE: a run that must not do without it fails instead of skipping.
_IS_NEEDED = bool(os.environ.get("MEMDIR_NEEDS_CLAUDE"))
_PROGRAM = os.environ.get("MEMDIR_CLAUDE") or str(ROOT / ".venv" / "claude" / "node_modules" / ".bin" / "claude")


@dataclass(frozen=True, slots=True)
class Turn:
    """What a run printed, and how it ended."""

    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Client:
    """A client with its home and its project."""

    program: str
    home: Path
    cwd: Path
    url: str
    variables: Mapping[str, str] = field(default_factory=dict)

    def __call__(self, prompt: str, *arguments: str, cwd: Path | None = None) -> Turn:
        """One headless turn."""
        done = subprocess.run(
            [self.program, "-p", prompt, *arguments],
            cwd=cwd or self.cwd,
            env=self.environment(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
        return Turn(done.returncode, done.stdout.strip(), done.stderr)

    @contextmanager
    def talk(self, *arguments: str) -> Iterator["Talk"]:
        """A conversation through pipes: say something, wait for what it prints."""
        with subprocess.Popen(
            [self.program, "-p", *_STREAMING, *arguments],
            cwd=self.cwd,
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            encoding="utf-8",
        ) as process:
            assert process.stdin and process.stdout
            try:
                yield Talk(process.stdin, process.stdout)
                process.stdin.close()
                process.stdout.read()
                process.wait(SECONDS)
            finally:
                process.kill()

    def environment(self) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "ANTHROPIC_BASE_URL": self.url,
            "ANTHROPIC_API_KEY": "dummy-key-for-loopback",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1",
            "DISABLE_TELEMETRY": "1",
            "DISABLE_ERROR_REPORTING": "1",
            "DISABLE_AUTOUPDATER": "1",
            "IS_SANDBOX": "1",  # it asks for this where it is run as root
            **self.variables,
        }

    def list_transcripts(self) -> list[Path]:
        """Transcripts of main agents, oldest first."""
        found = (self.home / ".claude" / "projects").glob("*/*.jsonl")
        return sorted(found, key=lambda path: path.stat().st_mtime_ns)

    @property
    def transcript(self) -> Path:
        """The only one."""
        (path,) = self.list_transcripts()
        return path


_STREAMING = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")


class Talk:
    def __init__(self, stdin: IO[str], stdout: IO[str]) -> None:
        self._stdin, self._stdout = stdin, stdout

    def say(self, content: Any) -> None:
        self.send({"type": "user", "message": {"role": "user", "content": content}})

    def send(self, record: Mapping[str, Any]) -> None:
        self._stdin.write(json.dumps(record) + "\n")
        self._stdin.flush()

    def wait_for(self, kind: str) -> dict[str, Any]:
        """The next record of that type that the client prints."""
        for line in self._stdout:
            record: dict[str, Any] = json.loads(line)
            if record.get("type") == kind:
                return record
        raise AssertionError(f"the client ended without a record of type {kind}")


def make_client(tmp_path: Path, url: str, **variables: str) -> Client:
    """A client in a repository of its own; skips where there is none."""
    program = shutil.which(_PROGRAM)
    if program is None and _IS_NEEDED:
        pytest.fail(f"the Claude Code client is needed, and not at {_PROGRAM}")
    if program is None:
        pytest.skip("claude client absent: scripts/test fetches it with npm")
    home = tmp_path / "claude-home"
    home.mkdir()
    return Client(program, home, make_repository(tmp_path / "project"), url, variables)


class Project:
    """A client with memdir in its settings, and the memory directory that both of them use."""

    def __init__(self, tmp_path: Path, url: str) -> None:
        variables = {**PATIENT, "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "0", "PYTHONPATH": str(SOURCE)}
        self.client: Client = make_client(tmp_path, url, **variables)
        self.memory = Path(json.loads(self.memdir("where", "--json"))["private"]["path"])

    def memdir(self, *arguments: str) -> str:
        """memdir as this project's person would run it."""
        command = [sys.executable, "-P", "-m", "memdir", *arguments]
        env, cwd = self.client.environment(), self.client.cwd
        done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, encoding="utf-8", check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def keep(self, name: str, text: str) -> Path:
        path = self.memory / f"{name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path


@contextmanager
def playing(tmp_path: Path, *script: Answer, installed: bool = True) -> Iterator[tuple[Project, AnthropicServer]]:
    """A client that talks to a scripted model, with memdir in its settings."""
    with AnthropicServer(list(script)) as server:
        project = Project(tmp_path, server.url)
        if installed:
            project.memdir("install", "claude-code")
        yield project, server
        assert server.problems == []


def list_texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for at in value.values():
            yield from list_texts(at)
    elif isinstance(value, list):
        for at in value:
            yield from list_texts(at)


def said_to_model(body: Any) -> str:
    return "\n".join(list_texts([body.get("system"), body.get("messages")]))


def bodies(server: AnthropicServer) -> list[Any]:
    """What was asked in conversations; the client asks other things by itself, without tools."""
    return [at.body for at in server.requests if at.body.get("tools")]
