"""A capable reader's answers to the requests of extraction, by the conversation that they show.

`tests/data/answers.jsonl` has the operations for each conversation, `opinions*.jsonl` the judgements of statements. With a
`live` model, what has no recorded answer is asked there and added to `asked` and `judged`, to be recorded.
"""

import hashlib
import json
from collections.abc import Sequence
from functools import cache

from memdir.errors import ModelError
from memdir.extraction.provenance import PURPOSE
from memdir.records import Model, Reply, Request
from memdir.text import find_json
from opinions import DATA, OpinionReader, list_statements, load_opinions


@cache
def load_answers() -> dict[str, str]:
    rows = map(json.loads, (DATA / "answers.jsonl").read_text(encoding="utf-8").splitlines())
    return {row["key"]: row["answer"] for row in rows}


def make_key(texts: Sequence[str]) -> str:
    """The key of a request to learn: what was said before and now, whatever the prompt and the memories there are."""
    _, _, _, context, _, shown, *_ = f"{texts[0]}\n".split("\n==========\n")
    return hashlib.sha256("\n".join((context, shown, *texts[2:])).encode()).hexdigest()[:16]


class RecordedReader:
    has_tools = False

    def __init__(self, live: Model | None = None) -> None:
        self.live, self.requests, self.opinions = live, list[Request](), OpinionReader()
        self.asked, self.judged, self.missing = dict[str, str](), dict[str, bool](), list[str]()

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        if request.purpose == PURPOSE:
            return self._judge(request)
        key = make_key([message.text for message in request.messages])
        answer = load_answers().get(key) or self.asked.get(key)
        if answer is None and self.live is not None:
            reply = self.live(request)
            self.asked[key] = reply.text
            return reply
        if answer is None:
            self.missing.append(key)
            raise ModelError("this conversation has no recorded answer")
        return Reply(answer)

    def _judge(self, request: Request) -> Reply:
        statements = list_statements(request)
        if self.live is None or all(key in load_opinions() for _, _, key in statements):
            return self.opinions.answer(request)
        reply = self.live(request)
        rows = (value.get("follow") for value in find_json(reply.text) if isinstance(value, dict))
        follow = next((row for row in rows if isinstance(row, list)), [])
        self.judged.update((key, number in follow) for number, _, key in statements)
        return reply
