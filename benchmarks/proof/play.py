"""Play queued episodes with a model that memdir knows: it has one tool, the `./agent` command."""

import subprocess
from pathlib import Path

from memdir.models.open import open_model
from memdir.records import Message, Request, Tool
from proof.prepare import Work

_TURNS = 60
_TOKENS = 8_000
_TOOL = Tool(
    "agent",
    "Calls ./agent with these arguments and this standard input.",
    {
        "type": "object",
        "properties": {"arguments": {"type": "array", "items": {"type": "string"}}, "input": {"type": "string"}},
        "required": ["arguments"],
    },
)


def play(work: Work, spec: str, limit: int) -> None:
    """Play the first `limit` episodes of the queue that have not begun."""
    rows = (line.split("\t") for line in (work.folder / "QUEUE.tsv").read_text(encoding="utf-8").splitlines())
    folders = [Path(folder) for _, folder in rows if not (work.states / Path(folder).name / "log.jsonl").exists()]
    for folder in folders[:limit]:
        play_episode(folder, spec)
        print(folder.name, flush=True)


def play_episode(folder: Path, spec: str) -> None:
    model = open_model(spec)
    messages = [Message("user", "Work on the task and end with one sentence.")]
    system = (folder / "TASK.md").read_text(encoding="utf-8")
    for _ in range(_TURNS):
        reply = model(
            Request(system=system, messages=tuple(messages), tools=(_TOOL,), max_tokens=_TOKENS, purpose="proof")
        )
        messages.append(Message("assistant", reply.text, calls=reply.calls, raw=reply.raw))
        if not reply.calls:
            break
        for call in reply.calls:
            arguments = call.input.get("arguments")
            words = [str(word) for word in arguments] if isinstance(arguments, list) else []
            done = subprocess.run(
                ["./agent", *words],
                cwd=folder,
                input=str(call.input.get("input") or ""),
                capture_output=True,
                text=True,
                check=False,
            )
            messages.append(Message("tool", done.stdout or done.stderr, answers=call.id, failed=done.returncode != 0))
    subprocess.run(["./agent", "done", "The session was ended."], cwd=folder, capture_output=True, check=False)
