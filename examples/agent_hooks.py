"""An agent on the Claude Agent SDK with a memory in its own process: hooks and tools.

    ANTHROPIC_API_KEY=… python examples/agent_hooks.py ~/project < questions.txt

The lines are one conversation about the project in that folder, whose memory is found as `memdir where` finds it.
"""

import asyncio
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from claude_agent_sdk import AssistantMessage, ClaudeAgentOptions, ClaudeSDKClient, TextBlock

from memdir.interfaces.sdk.claude_agent import AgentMemory
from memdir.store.open import open_project


async def talk(folder: Path, lines: Iterable[str], **options: Any) -> None:
    with closing(open_project(folder)) as opened, AgentMemory(opened, seconds=5) as memory:
        wanted = memory.add_to(ClaudeAgentOptions(cwd=folder, **options))
        async with ClaudeSDKClient(wanted) as client:
            for line in lines:
                await client.query(line)
                async for message in client.receive_response():
                    blocks = message.content if isinstance(message, AssistantMessage) else ()
                    print("".join(block.text for block in blocks if isinstance(block, TextBlock)), end="")
                print(flush=True)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    asyncio.run(talk(Path(sys.argv[1]).resolve(), (line.strip() for line in sys.stdin if line.strip())))
