"""Claude's own memory tool on a memdir store, through the Anthropic SDK's tool runner.

    ANTHROPIC_API_KEY=… python examples/memory_tool.py ~/agent/memory < questions.txt

Each line is a conversation of its own: what the model wants to know in the next one it has to write down. The files it
writes are memories like any other: `memdir list`, `history` and `undo` know them, and recall finds them.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

import anthropic

import memdir
from memdir.interfaces.sdk.memory_tool import MemoryTool


def chat(memory: Path, lines: Iterable[str]) -> None:
    tool = MemoryTool(memdir.FileStore(memory))
    with anthropic.Anthropic() as client:
        for line in lines:
            # Without a thread on the server's side this works with every endpoint that speaks the Messages API.
            runner = client.beta.messages.tool_runner(
                model="claude-sonnet-5",
                max_tokens=4096,
                tools=[tool],
                messages=[{"role": "user", "content": line}],
                thread=False,
            )
            reply = runner.until_done()
            print("".join(block.text for block in reply.content if block.type == "text"), flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    chat(Path(sys.argv[1]), (line.strip() for line in sys.stdin if line.strip()))
