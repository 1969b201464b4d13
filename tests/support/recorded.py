"""Conversations that others wrote down, as messages and as a request of an agent's."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

from memdir.records import Message, ToolCall


def make_message(row: dict[str, Any]) -> Message:
    calls = tuple(ToolCall(at["id"], at["name"], at["input"]) for at in row.get("calls", ()))
    role = "tool" if row["role"] == "attachment" else row["role"]
    return Message(
        role, row["text"], row["id"], datetime.fromisoformat(row["at"]), False, calls, row.get("answers", "")
    )


DATA = Path(__file__).parents[1] / "data"
FILES = sorted((DATA / "conversations").glob("*.jsonl"))
ROWS = [json.loads(line) for path in FILES for line in path.read_text(encoding="utf-8").splitlines()]
TOOLS = {
    "Read": ("file_path",),
    "Write": ("file_path", "content"),
    "Edit": ("file_path", "old_string", "new_string"),
    "Bash": ("command",),
}
SHOWN = 4000  # characters of a tool's result, as the answers were recorded


def make_parent(row: dict[str, Any]) -> dict[str, Any]:
    """The last request of an agent that held a conversation; a tool that it does not offer was the shell."""
    messages: list[dict[str, Any]] = []
    for at in row["messages"]:
        role = "assistant" if at["role"] == "assistant" else "user"
        said: list[dict[str, Any]] = [{"type": "text", "text": at["text"]}] if at["text"].strip() else []
        if at["role"] == "tool":
            said = [{"type": "tool_result", "tool_use_id": at["answers"], "content": at["text"][:SHOWN]}]
        for call in at.get("calls", ()):
            name = call["name"] if call["name"] in TOOLS else "Bash"
            said.append({"type": "tool_use", "id": call["id"], "name": name, "input": call["input"]})
        if messages and messages[-1]["role"] == role:
            messages[-1]["content"] += said
        else:
            messages.append({"role": role, "content": said})
    schemas = {
        name: {"type": "object", "properties": {at: {"type": "string"} for at in fields}}
        for name, fields in TOOLS.items()
    }
    tools = [{"name": name, "description": f"{name}.", "input_schema": schema} for name, schema in schemas.items()]
    return {
        "model": "claude-any",
        "max_tokens": 4096,
        "system": "You are a coding agent.",
        "tools": tools,
        "messages": messages,
    }
