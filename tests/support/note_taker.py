"""A scripted provider that takes session notes: it quotes the first and the last request of the person."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from servers import AnthropicServer


def take_notes(body: dict[str, Any]) -> str:
    """Answer a request for notes; any other request learns nothing."""
    prompt = json.loads(json.dumps(body["messages"][0]["content"]))
    text = prompt if isinstance(prompt, str) else "".join(block["text"] for block in prompt)
    asked = re.findall(r"\[the person.*?\]\n(.*)", text)
    if "# Current State" not in text and "_Mine_" not in text:
        return '{"operations": []}'
    if "_Mine_" in text:
        return render_sections({"Worklog": f"- {asked[0]}"})
    return render_sections({"Session Title": asked[0][:100], "Current State": f"Last: {asked[-1][:1_000]}"})


@contextmanager
def serve_note_taker() -> Iterator[dict[str, str]]:
    """Yield the environment in which memdir uses this provider."""
    with AnthropicServer(take_notes) as server:
        yield {"MEMDIR_MODEL": "anthropic:m", "MEMDIR_MODEL_URL": server.url, "MEMDIR_MODEL_KEY": "k"}


def render_sections(texts: dict[str, str]) -> str:
    return json.dumps({"sections": [{"section": name, "text": text} for name, text in texts.items()]})
