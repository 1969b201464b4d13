"""A capability that gives a pydantic-ai agent a memory.

    with memdir.Session(store) as memory:
        agent = Agent(model, capabilities=[Memory(memory)])
        result = await agent.run("…", message_history=…)

It recalls when a run begins, adds the memories to the first request (so the message history contains them), offers the
memory tools, and learns from the run when it ends. Each conversation needs its own `memdir.Session`; a server with many
conversations passes a capability to each run: `agent.run(…, capabilities=[Memory(…)])`.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from memdir.conversation.lines import parse_input
from memdir.interfaces.sdk import SdkTools, make_missing
from memdir.models.prompts import render_prompt
from memdir.records import Message, ToolCall
from memdir.session import Session
from memdir.store.contract import StoreBase
from memdir.store.open import Project

try:
    from pydantic_ai import FunctionToolset, Tool
    from pydantic_ai.capabilities import AbstractCapability
except ModuleNotFoundError as error:
    raise make_missing(error, "pydantic-ai") from None

RECALL_SECONDS = 10.0  # the only recall of the run: local search takes milliseconds, a model takes longer


class MemoryCapability(AbstractCapability[Any]):
    """The memory capability. The tools use `where`, by default the session's first store; `tools` enables them. The
    first request waits at most `seconds` for recalled memories."""

    def __init__(
        self,
        memory: Session,
        *,
        tools: bool = True,
        where: StoreBase | Project | None = None,
        seconds: float = RECALL_SECONDS,
        id: str | None = None,
    ) -> None:
        self.memory = memory
        self.id = id
        self.seconds = seconds
        self._where = (where or memory.stores[0]) if tools else None
        self._is_waiting = False

    @classmethod
    def get_serialization_name(cls) -> str | None:
        """Return None, because an open conversation cannot be serialized."""
        return None

    def get_instructions(self) -> Any:
        return None if self._where is None else render_prompt("mcp/instructions")

    def get_toolset(self) -> Any:
        return None if self._where is None else memory_toolset(self._where, session=self.memory.id)

    async def before_run(self, ctx: Any) -> None:
        self._is_waiting = True
        text = _join_texts(ctx.prompt)
        if text.strip():
            self.memory.prompt_arrived(text)

    async def before_model_request(self, ctx: Any, request_context: Any) -> Any:
        if not self._is_waiting:
            return request_context
        self._is_waiting = False
        is_first = not any(message.kind == "response" for message in request_context.messages)
        for text in await asyncio.to_thread(self._list_texts, is_first):
            ctx.enqueue(text)
        return request_context

    async def after_run(self, ctx: Any, *, result: Any) -> Any:
        messages = list(read_history(result.all_messages()))
        await asyncio.to_thread(self.memory.turn_ended, messages)
        return result

    def _list_texts(self, is_first: bool) -> list[str]:
        context = self.memory.context() if is_first else ""
        rules, reminders = self.memory.rules_notice(), self.memory.take_reminders(seconds=self.seconds)
        return [text for text in (context, rules, reminders.text if reminders else "") if text]


def memory_toolset(where: StoreBase | Project, *, session: str = "") -> Any:
    """Return the seven memory tools for `Agent(toolsets=[…])`; the capability also includes them."""
    own = SdkTools(where, by="pydantic-ai", session=session)
    tools = [
        Tool.from_schema(_make_tool_function(own, offer.name), offer.name, offer.description, dict(offer.input))
        for offer in own.offers
    ]
    return FunctionToolset(tools, id="memdir")


def read_history(messages: Iterable[Any]) -> Iterator[Message]:
    for message in messages:
        if message.kind == "response":
            text = "\n\n".join(part.content for part in message.parts if part.part_kind == "text")
            calls = [part for part in message.parts if part.part_kind == "tool-call"]
            tool_calls = tuple(ToolCall(part.tool_call_id, part.tool_name, parse_input(part.args)) for part in calls)
            if text or tool_calls:
                yield Message("assistant", text, at=message.timestamp, calls=tool_calls)
        else:
            yield from _read_request(message.parts)


def _read_request(parts: Iterable[Any]) -> Iterator[Message]:
    for part in parts:
        if part.part_kind == "user-prompt":
            yield Message("user", _join_texts(part.content), at=part.timestamp)
        elif part.part_kind == "system-prompt":
            yield Message("user", part.content, at=part.timestamp, is_meta=True)
        elif part.part_kind == "tool-return":
            failed = part.outcome != "success"
            text, id = part.model_response_str(), part.tool_call_id
            yield Message("tool", text, at=part.timestamp, answers=id, failed=failed)


def _join_texts(prompt: Any) -> str:
    parts = [prompt] if isinstance(prompt, str) else list(prompt or ())
    texts = (part if isinstance(part, str) else getattr(part, "content", "") for part in parts)
    return "\n\n".join(text for text in texts if isinstance(text, str) and text)


def _make_tool_function(tools: SdkTools, name: str) -> Callable[..., Any]:
    async def call(**arguments: Any) -> str:
        return (await asyncio.to_thread(tools.call, name, arguments)).text

    return call
