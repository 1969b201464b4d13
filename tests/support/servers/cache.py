"""Prompt caches as the two providers keep them: what of a request is read from one, and what is put in.

Anthropic: the prompt is a row of blocks (tools, system, messages), and each block's key is made from all before it. Only marked
blocks (`cache_control`) are put in. A request looks, from each of its marks, at the marked block and the 19 before it, and reads
the longest prefix that is there. Below a minimum nothing is cached.
OpenAI: nothing is marked; the longest beginning that an earlier request had, in whole steps.

Left out: how long entries live, and a workspace's own cache.
"""

import hashlib
import json
from collections.abc import Sequence
from itertools import takewhile
from operator import eq
from typing import Any

from memdir.frozen import dataclass
from servers.scripts import Body, Count

MINIMUM = 1024
LOOK_BACK = 20
STEP = 128


@dataclass(frozen=True, slots=True)
class Block:
    """One block of a prompt: the key of the prefix it ends, its own tokens, and whether it is marked."""

    key: bytes
    tokens: int
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class Spent:
    """Input tokens: fresh, read from the cache, and put in."""

    fresh: int
    cached: int = 0
    stored: int = 0


class PromptCache:
    def __init__(self) -> None:
        self._known: set[bytes] = set()

    def spend(self, blocks: Sequence[Block]) -> Spent:
        """What a request with these blocks reads and puts in; the cache is changed."""
        sums = [sum(block.tokens for block in blocks[: at + 1]) for at in range(len(blocks))]
        marks = [at for at, block in enumerate(blocks) if block.is_marked and sums[at] >= MINIMUM]
        near = {at for mark in marks for at in range(max(0, mark - LOOK_BACK + 1), mark + 1)}
        read = max((sums[at] for at in near if blocks[at].key in self._known), default=0)
        self._known |= {blocks[at].key for at in marks}
        last = max([read, *(sums[at] for at in marks)])
        return Spent(sums[-1] - last, read, last - read)


class PrefixCache:
    def __init__(self) -> None:
        self._seen: set[str] = set()

    def spend(self, texts: Sequence[str], count: Count) -> Spent:
        prompt = "".join(texts)
        shared = [sum(takewhile(bool, map(eq, prompt, earlier))) for earlier in self._seen]
        best = count(prompt[: max(shared, default=0)])
        self._seen.add(prompt)
        cached = best - (best - MINIMUM) % STEP if best >= MINIMUM else 0
        return Spent(count(prompt) - cached, cached)


def list_blocks(body: Body, count: Count) -> list[Block]:
    """The prompt of a request as a row of blocks; the body has passed the rules."""
    # Whatever the documentation names as changing the messages' cache, at once.
    settings = [body.get("model"), (body.get("output_config") or {}).get("format")]
    choice = [body.get("tool_choice") or {"type": "auto"}, body.get("thinking") or {"type": "disabled"}]
    rows = [("", tool) for tool in body.get("tools") or () if not tool.get("defer_loading")]
    rows += [("", block) for block in as_blocks(body.get("system") or [])]
    start = len(rows)
    rows += [(message["role"], block) for message in body["messages"] for block in as_blocks(message["content"])]
    key, blocks = _mix(b"", settings), list[Block]()
    for number, (role, block) in enumerate(rows):
        plain = without_marks(block)
        key = _mix(key, [choice] * (number == start) + [role, plain])
        is_text = plain.get("type") == "text"
        tokens = max(1, count(plain["text"] if is_text else json.dumps(plain, ensure_ascii=False)))
        # A mark on the request itself stands for one on its last block.
        is_last = number == len(rows) - 1 and bool(body.get("cache_control"))
        blocks.append(Block(key, tokens, plain != block or is_last))
    return blocks


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


def _mix(key: bytes, value: object) -> bytes:
    # The order of keys stays as it was sent: the provider does not sort them either.
    return hashlib.sha256(key + json.dumps(value, ensure_ascii=False).encode("utf-8", "surrogatepass")).digest()
