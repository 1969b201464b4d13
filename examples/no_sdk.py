"""A conversation without any SDK: plain HTTP to an endpoint that speaks chat completions, and a memory by rules alone.

    python examples/no_sdk.py ~/agent/memory http://127.0.0.1:8080/v1 < questions.txt

Nothing is asked of a model for the memory's sake, so this works with the smallest local one. The lines marked
`# memory` are all that memdir needs.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.request import Request, urlopen

import memdir
from memdir.session import Callbacks


def ask(url: str, messages: list[Any]) -> str:
    body = json.dumps({"model": "local", "messages": messages}).encode("utf-8")
    head = {"content-type": "application/json", "authorization": "Bearer none"}
    with urlopen(Request(f"{url}/chat/completions", body, head), timeout=300) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


def chat(memory: Path, url: str, lines: Iterable[str]) -> None:
    callbacks = Callbacks(saved=lambda done: print(done.notice, flush=True))  # memory
    with memdir.Session(memdir.FileStore(memory), callbacks=callbacks) as session:  # memory
        messages: list[Any] = [{"role": "user", "content": session.context()}]  # memory
        for line in lines:
            session.prompt_arrived(line)  # memory
            found = session.take_reminders(seconds=1)  # memory
            text = f"{line}\n\n{found.text}" if found else line  # memory
            messages.append({"role": "user", "content": text})
            messages.append({"role": "assistant", "content": ask(url, messages)})
            print(messages[-1]["content"], flush=True)
            session.turn_ended(messages)  # memory


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    chat(Path(sys.argv[1]), sys.argv[2], (line.strip() for line in sys.stdin if line.strip()))
