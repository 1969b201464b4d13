"""Transcripts made by hand, record by record, in the shapes the hosts write."""

import json
from pathlib import Path
from typing import Any

from memdir.conversation.transcripts import read_messages
from memdir.records import Message

PARENT: Any = object()


class Claude:
    """Records of a Claude Code session; each hangs on the one before unless it is told otherwise."""

    def __init__(self) -> None:
        self.records: list[dict[str, Any]] = []
        self.last: str | None = None

    def add(self, kind: str, *, parent: Any = PARENT, uuid: str = "", **more: Any) -> str:
        number = len(self.records)
        uuid = uuid or f"u{number}"
        record = {
            "parentUuid": self.last if parent is PARENT else parent,
            "isSidechain": False,
            "type": kind,
            "uuid": uuid,
            "timestamp": f"2026-03-05T10:{number // 60 % 60:02}:{number % 60:02}.000Z",
            "sessionId": "s-1",
            "cwd": "/work/app",
        }
        self.records.append({**record, **more})
        self.last = uuid
        return uuid

    def user(self, content: Any, **more: Any) -> str:
        return self.add("user", message={"role": "user", "content": content}, **more)

    def assistant(self, content: Any, id: str = "", **more: Any) -> str:
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        id = id or f"msg-{len(self.records)}"
        return self.add("assistant", message={"id": id, "role": "assistant", "content": blocks}, **more)

    def call(self, id: str, message: str, name: str = "Bash", **more: Any) -> str:
        block = {"type": "tool_use", "id": id, "name": name, "input": {"command": "ls"}}
        return self.assistant([block], message, **more)

    def result(self, id: str, text: Any = "ok", *, failed: bool = False, **more: Any) -> str:
        block = {"type": "tool_result", "tool_use_id": id, "content": text, **({"is_error": True} if failed else {})}
        return self.user([block], **more)

    def attach(self, **attachment: Any) -> str:
        return self.add("attachment", attachment=attachment)

    def plain(self, **record: Any) -> None:
        """A record outside the tree."""
        self.records.append(record)

    def lines(self) -> list[str]:
        return [json.dumps(record) for record in self.records]

    def write(self, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{line}\n" for line in self.lines()), encoding="utf-8")
        return path


def said(path: Path, **more: Any) -> list[str]:
    """Each message as one word: its role's letter and its text, meta ones in brackets."""
    return [spell(message) for message in read_messages(path, **more)]


def spell(message: Message) -> str:
    calls = "".join(f"+{call.id}" for call in message.calls)
    answers = f"{'!' if message.failed else ''}{message.answers}=" if message.role == "tool" else ""
    text = f"{message.role[0]}:{answers}{message.text}{calls}"
    return f"({text})" if message.is_meta else text
