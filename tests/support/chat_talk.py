"""Chats for tests: real processes in a home of their own, played from a pipe, a model on the strict loopback."""

import json
from contextlib import redirect_stderr, redirect_stdout
from io import BytesIO, TextIOWrapper
from pathlib import Path
from typing import Any

from clihelp import Cli, Result
from loads import ROOT
from memdir.interfaces.chat import chat
from memdir.interfaces.chat_commands import demo
from memdir.interfaces.cli import run

THREE_DAYS = (ROOT / "docs" / "img" / "three-days.txt").read_text(encoding="utf-8")
DOORS = {"chat": lambda **wish: chat(run_verb=run, **wish), "demo": lambda **wish: demo(run_verb=run, **wish)}
FORK = "this note comes from the memory keeper"  # how the task of extraction begins
CHAT = "You are an assistant in a terminal"


class Chats(Cli):
    """`memdir chat` in a project, by the real clock: a script sets the day."""

    def __init__(self, tmp_path: Path, **variables: str) -> None:
        super().__init__(tmp_path, **variables)
        self.variables.pop("MEMDIR_NOW")

    def play(self, script: str, *options: str, **variables: str) -> Result:
        """Lines played in this process; a process of its own would compile every rule anew."""
        file = self.home / "script.txt"
        file.write_text(script, encoding="utf-8")
        return self.call("chat", "--script", str(file), *options, **variables)

    def call(self, *argv: str, **variables: str) -> Result:
        out, err = (TextIOWrapper(BytesIO(), encoding="utf-8", newline="") for _ in range(2))
        with redirect_stdout(out), redirect_stderr(err):
            code = run(list(argv), environ={**self.variables, **variables}, cwd=self.project, interfaces=DOORS)
        data, told = (_read(stream) for stream in (out, err))
        return Result(code, data, told.decode("utf-8"))

    def events(self, script: str, *options: str, **variables: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.play(script, "--json", *options, **variables).lines]

    def with_model(self, url: str) -> None:
        self.variables |= {
            "MEMDIR_MODEL": "anthropic:claude-test",
            "MEMDIR_MODEL_URL": url,
            "ANTHROPIC_API_KEY": "sk-test-1234567890",
            "MEMDIR_MODEL_SECONDS": "300",
            "MEMDIR_SELECTOR": "local",  # so that a script has only the answers of the conversation itself
        }


def _read(stream: TextIOWrapper) -> bytes:
    stream.flush()
    assert isinstance(stream.buffer, BytesIO)
    return stream.buffer.getvalue()


def answer_to(shown: str, said: str) -> str:
    """What was printed after a line of the script, up to the next one."""
    after = shown.split(f"> {said}\n", 1)[1]
    return after.split("\n> ", 1)[0]


def texts_of(message: dict[str, Any]) -> list[str]:
    content = message["content"]
    blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
    return [block["text"] for block in blocks if block["type"] == "text"]


def last_text(body: dict[str, Any]) -> str:
    """The last text of the last message: what the person said, or a task."""
    return (texts_of(body["messages"][-1]) or [""])[-1]


def is_fork(body: dict[str, Any]) -> bool:
    """Whether memory asks, and not the chat: as a fork of it, or by itself."""
    return CHAT not in str(body.get("system")) or any(
        FORK in text for message in body["messages"] for text in texts_of(message)
    )


def list_reminders(body: dict[str, Any]) -> list[str]:
    """The memories that a request was given, the index and instruction files apart."""
    texts = [text for message in body["messages"] if message["role"] == "user" for text in texts_of(message)]
    return [text for text in texts if "Memory" in text and "<system-reminder>" in text and ".md:" in text]
