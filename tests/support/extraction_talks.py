"""Conversations for extraction: a parent's request as a host would send it, and messages as a host would hand them."""

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memdir.records import Message

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
DRAFT = "---\nname: {title}\ndescription: {description}\ntype: {kind}\n---\n\n{body}\n"
ASKED = "please remember that we deploy on Tuesdays only, because support is fully staffed then"
CORRECTED = (
    Message("assistant", "I have mocked the database in the tests.", "a0", NOW),
    Message("user", "no, don't mock the database in tests, use a real one", "u0", NOW),
)
TOOLS = [
    {
        "name": name,
        "description": f"{name} a file of this machine, with care and by its whole path. " * 3,
        "input_schema": {"type": "object", "properties": {"file_path": {"type": "string"}}},
    }
    for name in ("Read", "Write", "Edit", "Bash")
]


def make_file(kind: str, title: str, description: str, body: str) -> str:
    return DRAFT.format(kind=kind, title=title, description=description, body=body)


DEPLOYS = make_file("project", "Deploys", "We deploy on Tuesdays only", "We deploy on Tuesdays only.")


def make_talk(asked: str = ASKED, *, turns: int = 0) -> tuple[Message, ...]:
    """Small talk about code, and one message at its end that asks for something."""
    said: list[Message] = []
    for number in range(turns):
        said.append(Message("user", f"what does step {number} of the parser do?", f"u{number}", NOW))
        said.append(Message("assistant", f"Step {number} reads one token and moves on.", f"a{number}", NOW))
    said.append(Message("user", asked, "u-last", NOW))
    said.append(Message("assistant", "Noted.", "a-last", NOW))
    return tuple(said)


def make_parent(talk: tuple[Message, ...], *, filler: int = 0) -> Mapping[str, Any]:
    """The host's own request, with cache breakpoints where a careful host puts them, and the answer it got."""
    system = [
        {"type": "text", "text": "You are a careful agent. " * (60 + filler), "cache_control": {"type": "ephemeral"}}
    ]
    messages: list[dict[str, Any]] = [
        {"role": message.role, "content": [{"type": "text", "text": message.text}]} for message in talk
    ]
    messages[-2]["content"][-1]["cache_control"] = {"type": "ephemeral"}
    return {"model": "claude-sonnet-5", "system": system, "tools": TOOLS, "messages": messages, "max_tokens": 4096}


def name_file(memory: Path, name: str) -> str:
    return str(memory / f"{name}.md")
