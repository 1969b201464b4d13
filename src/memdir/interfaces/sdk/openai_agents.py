"""The OpenAI Agents SDK with a memory: a Session around another one, an input filter, tools.

    memory = memdir.Session(memdir.FileStore("agent/memory"))
    session = MemorySession(memory, SQLiteSession(memory.id, "chat.db"))
    await Runner.run(agent, "…", session=session, run_config=session.run_config())

The inner session keeps the items, as the SDK asks. This one adds recalled memories right after the message they are for,
and extracts when a turn has been answered. Added items stay at their position in the history, so the beginning of a
request never changes and stays in the provider's cache. The SDK hands a message over before it asks the model but takes
nothing in return: for the current turn, the filter inserts the same items.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from memdir.conversation.lines import join_texts, parse_input, read_text
from memdir.interfaces.sdk import SdkTools, make_missing
from memdir.records import Message, ToolCall
from memdir.session import Session
from memdir.store.files import FileStore
from memdir.store.open import Project

try:
    from agents import FunctionTool, RunConfig, SQLiteSession
    from agents.run_config import ModelInputData
except ModuleNotFoundError as error:
    raise make_missing(error, "openai-agents") from None

RECALL_SECONDS = 10.0  # a turn has one chance; the local search takes milliseconds, a model longer
_BLOCK = "<system-reminder>"

Item = Any  # a table in the shape of the Responses API


class MemorySession:
    """The SDK's `Session`. `inner` keeps the items; without one they are kept until the process ends. A message
    waits at most `seconds` for recalled memories."""

    def __init__(self, memory: Session, inner: Any = None, *, seconds: float = RECALL_SECONDS) -> None:
        self.memory = memory
        self.seconds = seconds
        self.inner = SQLiteSession(memory.id) if inner is None else inner
        self.session_id = memory.id
        self.session_settings = getattr(self.inner, "session_settings", None)
        self._first: Item | None = None  # added at the beginning, during the first turn
        self._added: list[tuple[Item, Item]] = []  # in this turn: the message, and what was added after it

    async def get_items(self, limit: int | None = None) -> list[Item]:
        found: list[Item] = await self.inner.get_items(limit)
        return found

    async def add_items(self, items: list[Item]) -> None:
        kept: list[Item] = []
        if not await self.inner.get_items(1) and (text := await asyncio.to_thread(self.memory.context)):
            self._first = _make_item(text)
            kept.append(self._first)
        for item in items:
            kept.append(item)
            if (added := await asyncio.to_thread(self._recall, item)) is not None:
                kept.append(added)
                self._added.append((item, added))
        await self.inner.add_items(kept)
        if items and _is_answer(items[-1]):
            self._first, self._added = None, []
            history = await self.inner.get_items()
            await asyncio.to_thread(self.memory.turn_ended, list(read_items(history)))

    async def pop_item(self) -> Item | None:
        """The last item; what memory added after it is removed, too."""
        while True:
            item = await self.inner.pop_item()
            if item is None or not _is_added(item):
                return item

    async def clear_session(self) -> None:
        self._first, self._added = None, []
        await self.inner.clear_session()
        await asyncio.to_thread(self.memory.clear)

    async def filter_input(self, data: Any) -> Any:
        """For `RunConfig.call_model_input_filter`: the model's input with what memory added in this turn."""
        items = list(data.model_data.input)
        if self._first is not None and self._first not in items[:1]:
            items.insert(0, self._first)
        for item, added in self._added:
            at = next((at for at in range(len(items) - 1, -1, -1) if items[at] == item), None)
            if at is not None and items[at + 1 : at + 2] != [added]:
                items.insert(at + 1, added)
        return ModelInputData(input=items, instructions=data.model_data.instructions)

    def run_config(self, **settings: Any) -> Any:
        return RunConfig(call_model_input_filter=self.filter_input, **settings)

    def _recall(self, item: Item) -> Item | None:
        if not isinstance(item, dict) or item.get("role") != "user" or _is_added(item):
            return None
        text = join_texts(item.get("content"))
        if not text.strip():
            return None
        self.memory.prompt_arrived(text)
        found = self.memory.take_reminders(seconds=self.seconds)
        return None if found is None else _make_item(found.text)


def memory_tools(where: FileStore | Project, *, session: str = "") -> list[Any]:
    """The seven memory tools, for `Agent(tools=…)`."""
    tools = SdkTools(where, by="the OpenAI Agents SDK", session=session)
    return [
        FunctionTool(
            name=offer.name,
            description=offer.description,
            params_json_schema=dict(offer.input),
            on_invoke_tool=_make_invoke(tools, offer.name),
            strict_json_schema=False,
        )
        for offer in tools.offers
    ]


def read_items(items: Sequence[Item]) -> Iterator[object]:
    """Items of the Responses API as a memdir.Session takes them: calls and results as memdir's messages."""
    for item in items:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "function_call":
            call = ToolCall(read_text(item.get("call_id")), read_text(item.get("name")), parse_input(item["arguments"]))
            yield Message("assistant", "", calls=(call,))
        elif kind == "function_call_output":
            yield Message("tool", join_texts(item.get("output")), answers=read_text(item.get("call_id")))
        else:
            yield item


def _make_invoke(tools: SdkTools, name: str) -> Callable[..., Any]:
    async def invoke(_: Any, arguments: str) -> str:
        return (await asyncio.to_thread(tools.call, name, arguments)).text

    return invoke


def _make_item(text: str) -> Item:
    return {"role": "user", "content": text}


def _is_added(item: Item) -> bool:
    content = item.get("content") if isinstance(item, dict) and item.get("role") == "user" else None
    return isinstance(content, str) and content.startswith(_BLOCK)


def _is_answer(item: Item) -> bool:
    return isinstance(item, dict) and item.get("role") == "assistant"
