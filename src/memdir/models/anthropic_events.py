"""The events of a Messages API stream, put together again to the message they are parts of. Pure."""

import json
from collections.abc import Mapping

from memdir.errors import ReplyError, UnreachableError
from memdir.models.wire import as_list, as_table, as_text


class Gathering:
    """A message put together from the events of a stream."""

    def __init__(self) -> None:
        self.usage: dict[str, object] = {}
        self.is_whole = False
        self._stop: object = None
        self._blocks: dict[object, dict[str, object]] = {}
        self._inputs: dict[object, str] = {}

    def add(self, event: Mapping[str, object]) -> str:
        """Take one event; what it adds to the text is returned."""
        kind, index = event.get("type"), event.get("index")
        if kind == "message_start":
            self.usage.update(as_table(as_table(event.get("message")).get("usage")))
        elif kind == "content_block_start":
            self._blocks[index] = dict(as_table(event.get("content_block")))
            return as_text(self._blocks[index].get("text"))
        elif kind == "content_block_delta":
            return self._grow(index, as_table(event.get("delta")))
        elif kind == "message_delta":
            self._stop = as_table(event.get("delta")).get("stop_reason") or self._stop
            self.usage.update({key: at for key, at in as_table(event.get("usage")).items() if at is not None})
        elif kind == "message_stop":
            self.is_whole = True
        elif kind == "error":
            raise UnreachableError("the stream ended with an error", reason="down", passing=True)
        return ""

    def message(self) -> dict[str, object]:
        for index, text in self._inputs.items():
            self._blocks[index]["input"] = self._parse_input(text)
        return {"content": list(self._blocks.values()), "stop_reason": self._stop, "usage": self.usage}

    def _grow(self, index: object, delta: Mapping[str, object]) -> str:
        block = self._blocks.setdefault(index, {"type": "text", "text": ""})
        kind = as_text(delta.get("type"))
        if kind == "input_json_delta":
            self._inputs[index] = self._inputs.get(index, "") + as_text(delta.get("partial_json"))
        elif kind == "citations_delta":
            block["citations"] = [*as_list(block.get("citations")), delta.get("citation")]
        elif kind == "signature_delta":
            block["signature"] = as_text(delta.get("signature"))
        elif kind in ("text_delta", "thinking_delta"):
            key = kind.removesuffix("_delta")
            block[key] = as_text(block.get(key)) + as_text(delta.get(key))
            return as_text(delta.get("text"))
        return ""

    def _parse_input(self, text: str) -> object:
        try:
            parsed = json.loads(text or "{}")
        except (ValueError, RecursionError):
            parsed = None
        if isinstance(parsed, dict):
            return parsed
        if self._stop == "max_tokens":  # cut by the limit; nobody carries it out
            return {}
        raise ReplyError("the input of a tool call is not JSON")
