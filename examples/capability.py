"""A pydantic-ai agent with a memory: the capability recalls, offers the memory tools and learns.

    OPENAI_API_KEY=… python examples/capability.py ~/agent/memory < questions.txt

The lines are one conversation. Any model of pydantic-ai's does.
"""

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

import memdir
from memdir.interfaces.sdk.pydantic_ai import MemoryCapability


async def talk(memory: Path, lines: Iterable[str]) -> None:
    async with AsyncOpenAI() as client:
        model = OpenAIChatModel("gpt-5.4-mini", provider=OpenAIProvider(openai_client=client))
        with memdir.Session(memdir.FileStore(memory)) as session:
            agent = Agent(model, capabilities=[MemoryCapability(session)])
            history: list[Any] = []
            for line in lines:
                result = await agent.run(line, message_history=history)
                history = result.all_messages()
                print(result.output, flush=True)


def chat(memory: Path, lines: Iterable[str]) -> None:
    asyncio.run(talk(memory, lines))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    chat(Path(sys.argv[1]), (line.strip() for line in sys.stdin if line.strip()))
