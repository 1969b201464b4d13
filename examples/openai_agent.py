"""An agent on the plain OpenAI SDK with a memory. The lines marked `# memory` are all that memdir needs.

    OPENAI_API_KEY=… python examples/openai_agent.py ~/agent < questions.txt

It answers one line after the other, may read and write files below the folder it is given, and keeps its memory in
`memory/` there. Any endpoint of the same shape does: set OPENAI_BASE_URL.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import openai

import memdir
from memdir.session import Callbacks

NAME = "gpt-5.4-mini"
PATH = {"path": {"type": "string", "description": "A path below the working folder."}}


def make_tool(name: str, description: str, **properties: Any) -> Any:
    schema = {"type": "object", "properties": {**PATH, **properties}, "required": ["path", *properties]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


TOOLS = [
    make_tool("read_file", "Read a text file."),
    make_tool("write_file", "Write a text file.", content={"type": "string"}),
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


def answer_tools(folder: Path, calls: Iterable[Any]) -> list[Any]:
    results = [(at.id, use_tool(folder, at.function.name, json.loads(at.function.arguments))) for at in calls]
    return [{"role": "tool", "tool_call_id": id, "content": text} for id, text in results]


def chat(folder: Path, lines: Iterable[str]) -> None:
    client = openai.OpenAI()
    callbacks = Callbacks(saved=lambda done: print(done.notice, flush=True))  # memory
    store, model = memdir.FileStore(folder / "memory"), memdir.open_model(f"openai:{NAME}")  # memory
    with memdir.Session(store, model=model, cwd=folder, callbacks=callbacks) as session:  # memory
        system = f"You work in {folder}.\n\n{session.instructions()}"  # memory
        messages: list[Any] = [{"role": "system", "content": system}]
        messages.append({"role": "user", "content": session.context()})  # memory
        for line in lines:
            session.prompt_arrived(line)  # memory
            new: list[Any] = [{"role": "user", "content": line}]
            while new:
                messages += new
                if found := session.take_reminders(seconds=0.3):  # memory
                    messages.append({"role": "user", "content": found.text})  # memory
                body: dict[str, Any] = {"model": NAME, "max_completion_tokens": 4096, "tools": TOOLS}
                body |= {"messages": messages}
                reply = client.chat.completions.create(**body).choices[0].message
                messages.append(reply.model_dump(mode="json", exclude_unset=True))
                new = answer_tools(folder, reply.tool_calls or ())
            print(reply.content, flush=True)
            session.turn_ended(messages, parent=body)  # memory


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    chat(Path(sys.argv[1]).resolve(), (line.strip() for line in sys.stdin if line.strip()))
