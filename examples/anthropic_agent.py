"""An agent on the plain Anthropic SDK with a memory. The lines marked `# memory` are all that memdir needs.

    ANTHROPIC_API_KEY=… python examples/anthropic_agent.py ~/agent < questions.txt

It answers one line after the other, may read and write files below the folder it is given, and keeps its memory in
`memory/` there. What it learns on one day it knows on the next.
"""

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import anthropic

import memdir
from memdir.session import Callbacks

NAME = "claude-sonnet-5"
PATH = {"path": {"type": "string", "description": "A path below the working folder."}}
TOOLS: list[Any] = [
    {
        "name": "read_file",
        "description": "Read a text file.",
        "input_schema": {"type": "object", "properties": PATH, "required": ["path"]},
    },
    {
        "name": "write_file",
        "description": "Write a text file.",
        "input_schema": {
            "type": "object",
            "properties": {**PATH, "content": {"type": "string"}},
            "required": ["path", "content"],
        },
    },
]


def use_tool(folder: Path, name: str, given: dict[str, str]) -> str:
    path = (folder / given["path"]).resolve()
    if not path.is_relative_to(folder):
        return f"refused: {given['path']} is outside {folder}"
    if name == "read_file":
        return path.read_text(encoding="utf-8") if path.is_file() else "there is no such file"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(given["content"], encoding="utf-8")
    return "written"


def answer_tools(folder: Path, content: list[Any]) -> list[Any]:
    calls = [block for block in content if block.type == "tool_use"]
    results = [(call.id, use_tool(folder, call.name, call.input)) for call in calls]
    return [{"type": "tool_result", "tool_use_id": id, "content": text} for id, text in results]


def chat(folder: Path, lines: Iterable[str]) -> None:
    client = anthropic.Anthropic()
    callbacks = Callbacks(saved=lambda done: print(done.notice, flush=True))  # memory
    store, model = memdir.FileStore(folder / "memory"), memdir.open_model(f"anthropic:{NAME}")  # memory
    with memdir.Session(store, model=model, cwd=folder, callbacks=callbacks) as session:  # memory
        system = f"You work in {folder}.\n\n{session.instructions()}"  # memory
        messages: list[Any] = [{"role": "user", "content": session.context()}]  # memory
        for line in lines:
            session.prompt_arrived(line)  # memory
            content: list[Any] = [{"type": "text", "text": line}]
            while content:
                if found := session.take_reminders(seconds=0.3):  # memory
                    content.append({"type": "text", "text": found.text})  # memory
                messages.append({"role": "user", "content": content})
                body: dict[str, Any] = {"model": NAME, "max_tokens": 4096, "system": system, "tools": TOOLS}
                body |= {"messages": messages, "cache_control": {"type": "ephemeral"}}
                reply = client.messages.create(**body)
                messages.append({"role": "assistant", "content": reply.content})
                content = answer_tools(folder, reply.content)
            print("".join(block.text for block in reply.content if block.type == "text"), flush=True)
            session.turn_ended(messages, parent=body)  # memory


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    chat(Path(sys.argv[1]).resolve(), (line.strip() for line in sys.stdin if line.strip()))
