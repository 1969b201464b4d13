"""The rules of the Messages API for `messages`: roles, blocks, tool calls and their results, thoughts that come back.

Every function yields sentences that begin with the place, as the provider's do. The provider merges turns of the same
role that follow each other; so do these rules before they look at pairs.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from memdir.frozen import dataclass
from servers.cache import as_blocks
from servers.scripts import Body
from servers.shapes import LONG_TOOL_NAME, find_unknown

# What a block of each type may have; None where the provider's own tools make it and nobody else looks inside.
_FIELDS: dict[str, set[str] | None] = {
    "text": {"type", "text", "cache_control", "citations"},
    "image": {"type", "source", "cache_control"},
    "document": {"type", "source", "title", "context", "citations", "cache_control"},
    "search_result": None,
    "container_upload": None,
    "tool_reference": None,
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller", "toolset_name"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control", "toolset_name"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "server_tool_use": None,
    "compaction": None,
}
_OF_USERS = ("text", "image", "document", "search_result", "container_upload", "tool_result")
_OF_ASSISTANTS = ("text", "thinking", "redacted_thinking", "tool_use", "server_tool_use", "compaction")
_IN_RESULTS = ("text", "image", "document", "search_result", "tool_reference")
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
# Models from before system turns in the middle of a conversation.
_NO_SYSTEM_TURNS = re.compile(r"claude-[23]|haiku|sonnet|opus-4(?!-8)")
# And models that still let the last message be the beginning of their answer.
_PREFILL = re.compile(r"claude-[23]|(haiku|sonnet|opus)-4(?!-[6-9])")

Sign = Callable[[str], str]
Issued = Mapping[str, list[Body]]


@dataclass(frozen=True, slots=True)
class Turn:
    """Messages of one role that follow each other; `at` is the first one's number."""

    role: str
    at: int
    blocks: tuple[Mapping[str, Any], ...]


def check_messages(body: Body, sign: Sign, issued: Issued) -> Iterator[str]:
    """All rules for `messages`. `sign` is how this server signs a thought, `issued` has the thoughts before a call."""
    messages = body.get("messages")
    if not isinstance(messages, list):
        yield "messages: Input should be a valid list" if "messages" in body else "messages: Field required"
        return
    if not messages:
        yield "messages: at least one message is required"
        return
    problems = [sentence for at, message in enumerate(messages) for sentence in _check_message(message, at, messages)]
    yield from problems
    if problems:
        return
    turns = merge_turns(messages)
    yield from _check_order(turns, str(body.get("model")))
    yield from _check_pairs(turns)
    yield from _check_thoughts(turns, sign)
    yield from _check_latest(turns, body, issued)


def merge_turns(messages: list[Mapping[str, Any]]) -> list[Turn]:
    turns: list[Turn] = []
    for at, message in enumerate(messages):
        blocks = tuple(as_blocks(message["content"]))
        if turns and turns[-1].role == message["role"]:
            turns[-1] = Turn(turns[-1].role, turns[-1].at, turns[-1].blocks + blocks)
        else:
            turns.append(Turn(message["role"], at, blocks))
    return turns


# --- one message ----------------------------------------------------------------------------------------------------


def _check_message(message: Any, at: int, messages: list[Any]) -> Iterator[str]:
    where = f"messages.{at}"
    if not isinstance(message, dict):
        yield f"{where}: Input should be a valid dictionary"
        return
    yield from find_unknown(message, ("role", "content"), f"{where}.")
    role, content = message.get("role"), message.get("content")
    if role not in ("user", "assistant", "system"):
        yield f"{where}.role: Input should be 'user', 'assistant' or 'system', not {role!r}"
        return
    if not isinstance(content, str | list):
        yield f"{where}.content: Input should be a valid string or list"
        return
    last_word = role == "assistant" and at == len(messages) - 1
    if not content and not last_word:
        yield f"{where}: all messages must have non-empty content except for the optional final assistant message"
    if isinstance(content, str):
        if content and not content.strip():
            yield f"{where}: text content blocks must contain non-whitespace text"
        return
    allowed = {"user": _OF_USERS, "assistant": _OF_ASSISTANTS, "system": ("text",)}[role]
    for number, block in enumerate(content):
        yield from _check_block(block, f"{where}.content.{number}", allowed)


def _check_block(block: Any, where: str, allowed: tuple[str, ...]) -> Iterator[str]:
    kind = block.get("type") if isinstance(block, dict) else None
    if not isinstance(kind, str):
        yield f"{where}.type: Field required"
        return
    if kind not in allowed and not (kind.endswith("_tool_result") and "tool_use" in allowed):
        yield f"{where}: a block of type {kind!r} cannot stand here"
        return
    known = _FIELDS.get(kind)
    if known is not None:
        yield from find_unknown(block, known, f"{where}.{kind}.")
    check = _BLOCKS.get(kind)
    if check is not None:
        yield from check(block, f"{where}.{kind}")


def _check_text(block: Mapping[str, Any], where: str) -> Iterator[str]:
    if not isinstance(block.get("text"), str):
        yield f"{where}.text: Field required"
    elif not block["text"]:
        yield f"{where}: text content blocks must be non-empty"
    elif not block["text"].strip():
        yield f"{where}: text content blocks must contain non-whitespace text"


def _check_call(block: Mapping[str, Any], where: str) -> Iterator[str]:
    if not (isinstance(block.get("id"), str) and _CALL_ID.fullmatch(block["id"])):
        yield f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
    if not (isinstance(block.get("name"), str) and LONG_TOOL_NAME.fullmatch(block["name"])):
        yield f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'"
    if not isinstance(block.get("input"), dict):
        yield f"{where}.input: Input should be a valid dictionary"


def _check_result(block: Mapping[str, Any], where: str) -> Iterator[str]:
    if not isinstance(block.get("tool_use_id"), str):
        yield f"{where}.tool_use_id: Field required"
    if not isinstance(block.get("is_error", False), bool):
        yield f"{where}.is_error: Input should be a valid boolean"
    content = block.get("content", "")
    if not isinstance(content, str | list):
        yield f"{where}.content: Input should be a valid string or list"
        return
    for at, part in enumerate(content if isinstance(content, list) else ()):
        yield from _check_block(part, f"{where}.content.{at}", ("text",) if block.get("is_error") else _IN_RESULTS)


def _check_thought(block: Mapping[str, Any], where: str) -> Iterator[str]:
    for name in ("thinking", "signature"):
        if not isinstance(block.get(name), str):
            yield f"{where}.{name}: Field required"


def _check_source(block: Mapping[str, Any], where: str) -> Iterator[str]:
    source = block.get("source")
    kind = source.get("type") if isinstance(source, dict) else None
    if kind not in ("base64", "url", "file", "text", "content"):
        yield f"{where}.source: Field required, with a type"


_BLOCKS: dict[str, Callable[[Mapping[str, Any], str], Iterator[str]]] = {
    "text": _check_text,
    "tool_use": _check_call,
    "tool_result": _check_result,
    "thinking": _check_thought,
    "image": _check_source,
    "document": _check_source,
}


# --- between turns --------------------------------------------------------------------------------------------------


def _check_order(turns: list[Turn], model: str) -> Iterator[str]:
    if turns[0].role != "user":
        yield 'messages: first message must use the "user" role'
    for at, turn in enumerate(turns):
        if turn.role == "system":
            yield from _check_system_turn(turns, at, model)
    if turns[-1].role == "assistant" and not _PREFILL.search(model):
        yield "This model does not support assistant message prefill. The conversation must end with a user message."


def _check_system_turn(turns: list[Turn], at: int, model: str) -> Iterator[str]:
    where = f"messages.{turns[at].at}"
    if _NO_SYSTEM_TURNS.search(model):
        yield f"{where}: role 'system' is not supported on this model"
    before = turns[at - 1] if at else None
    served = before is not None and before.blocks and before.blocks[-1].get("type") == "server_tool_use"
    if before is None or not (before.role == "user" or served):
        yield f"{where}: a system message must immediately follow a user message"
    if at + 1 < len(turns) and turns[at + 1].role != "assistant":
        yield f"{where}: a system message must be the last or be followed by an assistant message"


def _check_pairs(turns: list[Turn]) -> Iterator[str]:
    seen: set[str] = set()
    for at, turn in enumerate(turns):
        calls = [block["id"] for block in turn.blocks if block["type"] == "tool_use"]
        for call in calls:
            if call in seen or calls.count(call) > 1:
                yield f"messages.{turn.at}: `tool_use` ids must be unique: {call}"
        seen.update(calls)
        if turn.role == "assistant" and calls:
            yield from _check_answered(turn, calls, turns[at + 1] if at + 1 < len(turns) else None)
        if turn.role == "user":
            yield from _check_results(turn, turns[at - 1] if at else None)


def _check_answered(turn: Turn, calls: list[str], following: Turn | None) -> Iterator[str]:
    # Only the results that stand first count: text before one puts it out of reach.
    found: set[str] = set()
    for block in following.blocks if following is not None and following.role == "user" else ():
        if block["type"] != "tool_result":
            break
        found.add(block["tool_use_id"])
    if missing := [call for call in calls if call not in found]:
        yield (
            f"messages.{turn.at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
            f"{', '.join(missing)}. Each `tool_use` block must have a corresponding `tool_result` block in the next "
            "message."
        )


def _check_results(turn: Turn, before: Turn | None) -> Iterator[str]:
    calls = {at["id"] for at in before.blocks if at["type"] == "tool_use"} if before is not None else set()
    results = [block["tool_use_id"] for block in turn.blocks if block["type"] == "tool_result"]
    for result in results:
        if result not in calls:
            yield (
                f"messages.{turn.at}: unexpected `tool_use_id` found in `tool_result` blocks: {result}. Each "
                "`tool_result` block must have a corresponding `tool_use` block in the previous message."
            )
    for result in sorted({at for at in results if results.count(at) > 1}):
        yield f"messages.{turn.at}: each tool_use must have a single result. Found multiple with id: {result}"


def _check_thoughts(turns: list[Turn], sign: Sign) -> Iterator[str]:
    for turn in turns:
        for at, block in enumerate(turn.blocks):
            if block["type"] == "thinking" and block["signature"] != sign(block["thinking"]):
                yield f"messages.{turn.at}.content.{at}: Invalid `signature` in `thinking` block"


def _check_latest(turns: list[Turn], body: Body, issued: Issued) -> Iterator[str]:
    """Between a call and what follows its result, thoughts are part of the answer: all of them, as they were."""
    thinking = body.get("thinking") or {}
    if not isinstance(thinking, dict) or thinking.get("type", "disabled") == "disabled":
        return
    for turn in reversed(turns):
        if turn.role == "user" and any(block["type"] != "tool_result" for block in turn.blocks):
            return
        calls = [block["id"] for block in turn.blocks if block["type"] == "tool_use"]
        if turn.role != "assistant" or not calls:
            continue
        came = [block for block in turn.blocks if block["type"] in ("thinking", "redacted_thinking")]
        if any(call in issued for call in calls) and came != issued.get(calls[0], came):
            yield f"messages.{turn.at}: `thinking` blocks in the latest assistant message cannot be modified"
        if thinking.get("type") == "enabled" and turn.blocks[0]["type"] not in ("thinking", "redacted_thinking"):
            yield f"messages.{turn.at}: when `thinking` is enabled, an assistant message with calls must start with it"
