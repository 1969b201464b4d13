"""The OpenAI Agents SDK with a memory: a Session around another one, an input filter, tools.

    memory = memdir.Session(memdir.FileStore("agent/memory"))
    session = MemorySession(memory, SQLiteSession(memory.id, "chat.db"))
    await Runner.run(agent, "…", session=session, run_config=session.run_config())

The inner session stores the items, as the SDK requires. This one adds recalled memories right after their message, and extracts
when a turn has been answered. Added items keep their position in the history, so the beginning of a request never changes and
stays in the provider's cache. The SDK passes a message on before it asks the model but accepts no additions then, so the filter
inserts the same items for the current turn.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from memdir.conversation.lines import join_texts, parse_input
from memdir.format.shown import wrap
from memdir.interfaces.sdk import SdkTools, make_missing
from memdir.records import Message, ToolCall
from memdir.session import Session
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.text import as_text

try:
    from agents import FunctionTool, RunConfig, SQLiteSession
    from agents.run_config import ModelInputData
except ModuleNotFoundError as error:
    raise make_missing(error, "openai-agents") from None

RECALL_SECONDS = 10.0  # the only recall of the turn: local search takes milliseconds, a model takes longer
_BLOCK = "<system-reminder>"

Item = Any  # an item of the Responses API


class MemorySession:
    """The SDK's `Session`. `inner` stores the items; without it they are lost when the process ends. A message waits at
    most `seconds` for recalled memories."""

    def __init__(self, memory: Session, inner: Any = None, *, seconds: float = RECALL_SECONDS) -> None:
        self.memory = memory
        self.seconds = seconds
        self.inner = SQLiteSession(memory.id) if inner is None else inner
        self.session_id = memory.id
        self.session_settings = getattr(self.inner, "session_settings", None)
        self._first: Item | None = None  # added at the beginning of the first turn
        self._added: list[tuple[Item, Item]] = []  # in this turn: the message and the item added after it

    async def get_items(self, limit: int | None = None) -> list[Item]:
        items: list[Item] = await self.inner.get_items(limit)
        return items

    async def add_items(self, items: list[Item]) -> None:
        new_items: list[Item] = []
        if not await self.inner.get_items(1) and (text := await asyncio.to_thread(self.memory.context)):
            self._first = _make_item(text)
            new_items.append(self._first)
        for item in items:
            new_items.append(item)
            if (added := await asyncio.to_thread(self._recall, item)) is not None:
                new_items.append(added)
                self._added.append((item, added))
        await self.inner.add_items(new_items)
        if items and isinstance(items[-1], dict) and items[-1].get("role") == "assistant":
            self._first, self._added = None, []
            history = await self.inner.get_items()
            await asyncio.to_thread(self.memory.turn_ended, list(read_items(history)))

    async def pop_item(self) -> Item | None:
        """Remove and return the last item, and remove the items memory added after it."""
        while True:
            item = await self.inner.pop_item()
            if item is None or not _is_added(item):
                return item

    async def clear_session(self) -> None:
        self._first, self._added = None, []
        await self.inner.clear_session()
        await asyncio.to_thread(self.memory.clear)

    async def filter_input(self, data: Any) -> Any:
        """Return the model's input with the items added in this turn, for `RunConfig.call_model_input_filter`."""
        items = list(data.model_data.input)
        if self._first is not None and self._first not in items[:1]:
            items.insert(0, self._first)
        for item, added in self._added:
            position = next((position for position in range(len(items) - 1, -1, -1) if items[position] == item), None)
            if position is not None and items[position + 1 : position + 2] != [added]:
                items.insert(position + 1, added)
        return ModelInputData(input=items, instructions=data.model_data.instructions)

    def run_config(self, **settings: Any) -> Any:
        return RunConfig(call_model_input_filter=self.filter_input, **settings)

    def _recall(self, item: Item) -> Item | None:
        if not isinstance(item, dict) or item.get("role") != "user" or _is_added(item):
            return None
        text = join_texts(item.get("content"))
        if not text.strip():
            return None
        rules = self.memory.rules_notice()
        self.memory.prompt_arrived(text)
        reminders = self.memory.take_reminders(seconds=self.seconds)
        added = "\n".join(filter(None, (rules and wrap(rules), reminders.text if reminders else "")))
        return _make_item(added) if added else None


def memory_tools(where: FileStore | Project, *, session: str = "") -> list[Any]:
    """Return the seven memory tools for `Agent(tools=…)`."""
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
    """Yield items of the Responses API for a memdir.Session, with calls and results as memdir's messages."""
    for item in items:
        kind = item.get("type") if isinstance(item, dict) else None
        if kind == "function_call":
            call = ToolCall(as_text(item.get("call_id")), as_text(item.get("name")), parse_input(item["arguments"]))
            yield Message("assistant", "", calls=(call,))
        elif kind == "function_call_output":
            yield Message("tool", join_texts(item.get("output")), answers=as_text(item.get("call_id")))
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
