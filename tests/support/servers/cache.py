"""Prompt caches as the two providers keep them: what of a request is read from one, and what is put in.

Anthropic: the prompt is a row of blocks - tools, system, messages - and each block's key is made from all before it.
Only marked blocks (`cache_control`, at most four) are put in. A request looks, from each of its marks, at the marked
block and the 19 before it, and reads the longest prefix that is there. Below a minimum nothing is cached. What else a
cache depends on comes in at the level the documentation names: the model at the tools; speed and output format at the
system prompt; tool choice, thinking, effort and whether there are images at the messages.
OpenAI: nothing is marked; the longest beginning that an earlier request had, in whole steps.

Left out: a workspace's own cache, citations, and older models' dropping of past thoughts when a new user turn begins.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from memdir.frozen import dataclass
from servers.scripts import Body, Count

MINIMUM = 1024
LOOK_BACK = 20
LIVES = {"5m": 300.0, "1h": 3600.0}
STEP = 128
IDLE = 600.0
IMAGE_TOKENS = 1600
_LEVELS = ("tools", "system", "messages")

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a prompt: the key of the prefix it ends, its own tokens, and its mark ("5m", "1h" or none)."""

    key: bytes
    tokens: int
    mark: str = ""


@dataclass(frozen=True, slots=True)
class Spent:
    """Input tokens: fresh, read from the cache, and put in to live for five minutes or an hour."""

    fresh: int
    cached: int = 0
    stored: int = 0
    stored_long: int = 0


class PromptCache:
    """The marked kind. `clock` gives seconds; every read of an entry makes its life begin again."""

    def __init__(self, *, clock: Clock, minimum: int = MINIMUM, look_back: int = LOOK_BACK) -> None:
        self._clock, self._minimum, self._look_back = clock, minimum, look_back
        self._ends: dict[bytes, tuple[float, float]] = {}

    def spend(self, blocks: Sequence[Block]) -> Spent:
        """What a request with these blocks reads and puts in; the cache is changed."""
        now = self._clock()
        sums = _add_up(blocks)
        marks = [at for at, block in enumerate(blocks) if block.mark and sums[at] >= self._minimum]
        found = max((at for mark in marks for at in self._look(blocks, mark, now)), default=-1)
        read = sums[found] if found >= 0 else 0
        if found >= 0:
            life = self._ends[blocks[found].key][1]
            self._ends[blocks[found].key] = (now + life, life)
        for at in marks:
            self._ends[blocks[at].key] = (now + LIVES[blocks[at].mark], LIVES[blocks[at].mark])
        long = max((sums[at] for at in marks if at > found and blocks[at].mark == "1h"), default=read)
        last = max((sums[at] for at in marks), default=0)
        last = max(last, long, read)
        return Spent(sums[-1] - last, read, last - long, long - read)

    def _look(self, blocks: Sequence[Block], mark: int, now: float) -> Iterator[int]:
        for at in range(mark, max(-1, mark - self._look_back), -1):
            if self._ends.get(blocks[at].key, (0.0, 0.0))[0] > now:
                yield at
                return


class PrefixCache:
    """The automatic kind, of texts in a row. An entry lives until nobody has asked for it for some minutes."""

    def __init__(self, *, clock: Clock, minimum: int = MINIMUM, step: int = STEP) -> None:
        self._clock, self._minimum, self._step = clock, minimum, step
        self._seen: dict[tuple[str, ...], float] = {}

    def spend(self, texts: Sequence[str], count: Count) -> Spent:
        now = self._clock()
        self._seen = {key: end for key, end in self._seen.items() if end > now}
        total = sum(map(count, texts))
        best = max((_count_shared(texts, earlier, count) for earlier in self._seen), default=0)
        self._seen[tuple(texts)] = now + IDLE
        cached = best - (best - self._minimum) % self._step if best >= self._minimum else 0
        return Spent(total - cached, cached)


def _count_shared(texts: Sequence[str], earlier: Sequence[str], count: Count) -> int:
    shared = 0
    for mine, other in zip(texts, earlier, strict=False):
        if mine != other:
            return shared + count(_find_common(mine, other))
        shared += count(mine)
    return shared


def _find_common(mine: str, other: str) -> str:
    for at, (one, two) in enumerate(zip(mine, other, strict=False)):
        if one != two:
            return mine[:at]
    return min(mine, other, key=len)


def _add_up(blocks: Sequence[Block]) -> list[int]:
    sums, total = [], 0
    for block in blocks:
        total += block.tokens
        sums.append(total)
    return sums


def list_blocks(body: Body, count: Count) -> list[Block]:
    """The prompt of a request as a row of blocks; the body has passed the rules."""
    auto = _find_mark(body)
    blocks: list[Block] = []
    key = hashlib.sha256(str(body.get("model")).encode()).digest()
    entered = 0
    for level, role, block in walk_prompt(body):
        while entered <= _LEVELS.index(level):
            key = _mix(key, _salt(body, _LEVELS[entered]))
            entered += 1
        plain = without_marks(block)
        key = _mix(key, [role, plain])
        blocks.append(Block(key, _count_block(plain, count), find_block_mark(block)))
    if auto:
        _mark_last(blocks, body, auto)
    return blocks


def walk_prompt(body: Body) -> Iterator[tuple[str, str, Any]]:
    """Level, role and block, in the order of the prompt. Deferred tools are not in it."""
    for tool in body.get("tools") or ():
        if not tool.get("defer_loading"):
            yield "tools", "", tool
    for block in as_blocks(body.get("system") or []):
        yield "system", "", block
    for message in body["messages"]:
        for block in as_blocks(message["content"]):
            yield "messages", message["role"], block


def as_blocks(content: Any) -> list[Any]:
    """A plain string is one block of text."""
    return [{"type": "text", "text": content}] if isinstance(content, str) else list(content)


def without_marks(block: Any) -> Any:
    """The block without its marks. The input of a tool call is left alone: a key of that name is not ours there."""
    if not isinstance(block, dict):
        return block
    kept = {name: value for name, value in block.items() if name != "cache_control"}
    if block.get("type") == "tool_result" and isinstance(block.get("content"), list):
        kept["content"] = [without_marks(part) for part in block["content"]]
    return kept


def find_block_mark(block: Mapping[str, Any]) -> str:
    """How long a marked block is to live; a mark inside a tool's result counts as one of the result."""
    inner = block.get("content") if block.get("type") == "tool_result" else None
    nested = [_find_mark(part) for part in inner if isinstance(part, dict)] if isinstance(inner, list) else []
    return _find_mark(block) or next((mark for mark in nested if mark), "")


def can_be_marked(block: Mapping[str, Any]) -> bool:
    if block.get("type") in ("thinking", "redacted_thinking"):
        return False
    return block.get("type") != "text" or bool(block.get("text"))


def _find_mark(value: Mapping[str, Any]) -> str:
    control = value.get("cache_control")
    return str(control.get("ttl") or "5m") if isinstance(control, dict) else ""


def _mark_last(blocks: list[Block], body: Body, mark: str) -> None:
    """The mark on the request itself stands for one on the last block that can have one."""
    prompt = [block for _, _, block in walk_prompt(body)]
    for at in range(len(blocks) - 1, -1, -1):
        if can_be_marked(prompt[at]):
            blocks[at] = Block(blocks[at].key, blocks[at].tokens, blocks[at].mark or mark)
            return


def _salt(body: Body, level: str) -> list[Any]:
    output = body.get("output_config") or {}
    if level == "system":
        return [level, body.get("speed") or "standard", output.get("format") or body.get("output_format")]
    if level == "messages":
        images = any(block.get("type") == "image" for _, _, block in walk_prompt(body))
        choice = body.get("tool_choice") or {"type": "auto"}
        return [level, choice, body.get("thinking") or {"type": "disabled"}, output.get("effort"), images]
    return [level]


def _mix(key: bytes, value: object) -> bytes:
    # The order of keys stays as it was sent: the provider does not sort them either.
    return hashlib.sha256(key + json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")).digest()


def _count_block(block: Mapping[str, Any], count: Count) -> int:
    if block.get("type") == "text":
        return max(1, count(block["text"]))
    if block.get("type") == "image":
        return IMAGE_TOKENS
    return max(1, count(json.dumps(block, ensure_ascii=False)))
