"""An agent on the OpenAI Agents SDK with a memory: its Session, and the memory tools.

    OPENAI_API_KEY=… python examples/agents_session.py ~/agent < questions.txt

The lines are one conversation, kept by the SDK's own SQLite session. What is learned from it is in `memory/`, and the
next conversation knows it.
"""

import asyncio
import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

from agents import Agent, OpenAIChatCompletionsModel, Runner, SQLiteSession
from openai import AsyncOpenAI

import memdir
from memdir.interfaces.sdk.openai_agents import MemorySession, memory_tools


async def talk(folder: Path, client: AsyncOpenAI, lines: Iterable[str]) -> None:
    store = memdir.FileStore(folder / "memory")
    model = OpenAIChatCompletionsModel("gpt-5.4-mini", client)
    with memdir.Session(store) as memory, closing(SQLiteSession(memory.id, folder / "chats.db")) as inner:
        session, tools = MemorySession(memory, inner), memory_tools(store, session=memory.id)
        agent = Agent("Assistant", instructions="Answer in a sentence.", model=model, tools=tools)
        # Tracing would send what is said to another server.
        config = session.run_config(tracing_disabled=True)
        for line in lines:
            result = await Runner.run(agent, line, session=session, run_config=config)
            print(result.final_output, flush=True)


async def main(folder: Path, lines: Iterable[str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    async with AsyncOpenAI() as client:
        await talk(folder, client, lines)


def chat(folder: Path, lines: Iterable[str]) -> None:
    asyncio.run(main(folder, lines))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    chat(Path(sys.argv[1]).resolve(), (line.strip() for line in sys.stdin if line.strip()))
