"""What a message's content says: text, calls of tools, results of tools. The shapes of both large APIs are known.

Content is a string or a list of blocks. Pictures and documents become a word in brackets, so that a message is not
empty because of them; the words of a document, and what a provider's own tools found, count as results, because nobody
in the conversation said them. What a model thought is left out. Nothing here raises: a block of another shape is passed
over.
"""

import json
from collections.abc import Iterator, Mapping

from memdir.frozen import dataclass
from memdir.records import ToolCall

IMAGE, DOCUMENT, AUDIO = "[image]", "[document]", "[audio]"
_TEXTS = ("text", "input_text", "output_text")
_PLACEHOLDERS = {
    "image": IMAGE,
    "image_url": IMAGE,
    "input_image": IMAGE,
    "document": DOCUMENT,
    "file": DOCUMENT,
    "input_file": DOCUMENT,
    "input_audio": AUDIO,
}
_CALLS = ("tool_use", "server_tool_use", "mcp_tool_use")
_RESULT = "tool_result"
_MATERIAL = ("document", "search_result")  # and every result of a tool that the provider runs itself
# Keys whose values are no words.
_OPAQUE = frozenset("type id tool_use_id media_type file_id signature encrypted_content encrypted_index".split())


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool answered; `answers` is the id of the call."""

    answers: str
    text: str
    failed: bool = False


def list_texts(content: object) -> Iterator[str]:
    """The texts in a content, with a placeholder for what is none."""
    if isinstance(content, str):
        yield content
    for block in list_blocks(content):
        kind = block.get("type")
        if kind in _TEXTS and isinstance(block.get("text"), str):
            yield str(block["text"])
        elif isinstance(kind, str) and kind in _PLACEHOLDERS:
            yield _PLACEHOLDERS[kind]


def list_blocks(content: object) -> Iterator[Mapping[str, object]]:
    for block in content if isinstance(content, list | tuple) else ():
        if isinstance(block, Mapping):
            yield block
        elif hasattr(block, "model_dump"):  # as an SDK hands them out
            yield block.model_dump()


def join_texts(content: object) -> str:
    return "\n\n".join(text for text in list_texts(content) if text)


def list_calls(content: object) -> Iterator[ToolCall]:
    for block in list_blocks(content):
        if block.get("type") in _CALLS and isinstance(block.get("name"), str):
            yield ToolCall(read_text(block.get("id")), str(block["name"]), parse_input(block.get("input")))


def list_results(content: object) -> Iterator[Result]:
    for block in list_blocks(content):
        kind, answers = read_text(block.get("type")), read_text(block.get("tool_use_id"))
        if kind == _RESULT:
            inside = block.get("content")
            texts = (join_texts(inside), *(result.text for result in list_results(inside)))
            yield Result(answers, "\n\n".join(filter(None, texts)), block.get("is_error") is True)
        elif (kind.endswith(f"_{_RESULT}") or kind in _MATERIAL) and (text := "\n".join(list_strings(block))):
            yield Result(answers, text)


def list_strings(value: object) -> Iterator[str]:
    """Every text in a value of any shape, but for names of types, ids and encoded bytes."""
    waiting = [value]
    while waiting:
        at = waiting.pop()
        if isinstance(at, str) and at.strip():
            yield at
        elif isinstance(at, Mapping) and at.get("type") != "base64":
            waiting += [at[key] for key in reversed(list(at)) if key not in _OPAQUE]
        elif isinstance(at, list | tuple):
            waiting += reversed(at)


def parse_input(value: object) -> Mapping[str, object]:
    """A call's input as a table; hosts write it as one, as JSON in a string, or as plain text."""
    if isinstance(value, str):
        try:
            parsed = json.loads(value)
        except (ValueError, RecursionError):
            parsed = None
        value = parsed if isinstance(parsed, dict) else {"input": value}
    return value if isinstance(value, dict) else {}


def read_text(value: object) -> str:
    """The value if it is text, else none."""
    return value if isinstance(value, str) else ""
