"""A model that answers extraction from a script and second opinions from the recorded judgements of a capable reader.

A judgement belongs to one statement in one conversation: the row's key is a digest of the typed text and the statement.
`tests/data/opinions*.jsonl` holds them; what has none is refused and listed in `missing`.
"""

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from dream_stores import list_cases
from memdir.errors import MemdirError, ModelError
from memdir.extraction.provenance import PURPOSE
from memdir.records import Reply, Request
from memdir.testing import ScriptedModel
from servers import Answer

DATA = Path(__file__).parents[1] / "data"
_WORD = re.compile(r"\w{4,}")
_STATEMENT = re.compile(r"^(\d+)\. (.*)$", re.MULTILINE)


@cache
def load_opinions() -> dict[str, bool]:
    texts = (path.read_text(encoding="utf-8") for path in sorted(DATA.glob("opinions*.jsonl")))
    rows = (json.loads(line) for text in texts for line in text.splitlines())
    return {row["key"]: row["follows"] for row in rows}


def list_statements(request: Request) -> list[tuple[int, str, str]]:
    """The statements of a request for a second opinion: number, text, key.

    Where there is no conversation, as in a dream, each case has its own sources.
    """
    typed, cases = split_request(request.messages[0].text)
    found = []
    for case in cases.split("\n\n---\n\nStatements:") if typed != "(nothing)" else [cases]:
        source = typed if typed != "(nothing)" else _STATEMENT.sub("", case)
        digest = hashlib.sha256(source.strip().encode()).hexdigest()[:12]
        for at in _STATEMENT.finditer(case):
            found.append((int(at[1]), at[2], hashlib.sha256(f"{digest}\n{at[2]}".encode()).hexdigest()[:16]))
    return found


def split_request(content: str) -> tuple[str, str]:
    """What was typed, and the statements: each stands between two lines of equals signs; a dream's end with the text."""
    _, typed, *rest = f"{content}\n".split("\n==========\n")
    return typed, rest[1] if len(rest) > 1 else rest[0]


class OpinionReader:
    """Counts requests and keeps those that have no recorded answer."""

    def __init__(self, *, fails: bool = False) -> None:
        self.fails, self.requests, self.missing = fails, 0, dict[str, dict[str, object]]()
        self.typed: list[str] = []  # what these requests showed besides the statements

    def wrap(self, answers: Sequence[str]) -> "OpinionModel":
        return OpinionModel(answers, self)

    def answer(self, request: Request) -> Reply:
        self.requests += 1
        self.typed.append(request.messages[0].text.rsplit("\n==========\n", 2)[0])
        if self.fails:
            raise ModelError("there is no second reader")
        if is_dream(request):
            return self._judge(request.messages[0].text)
        known, statements = load_opinions(), list_statements(request)
        if any(key not in known for _, _, key in statements):
            content = request.messages[0].text
            keys = [key for _, _, key in statements]
            self.missing[" ".join(keys)] = {"keys": keys, "request": content}
        follow = [number for number, _, key in statements if known.get(key)]
        return Reply(json.dumps({"follow": follow}))

    def _judge(self, text: str) -> Reply:
        """Answer the judge's request of a dream from the record; a source is recorded by its label."""
        known, removed, follow = load_judgements(), [], []
        for label, sources, sentences in list_cases(text):
            for number, sentence in sentences:
                row = known.get(key := make_judge_key(label, sources, sentence))
                if row is None:
                    self.missing[key] = {"label": label, "sources": sources, "sentence": sentence}
                elif "follows" in row:
                    follow += [number] if row["follows"] else []
                else:
                    source = next((at for at, (shown, _) in sources.items() if shown == row["source"]), 0)
                    removed.append({"sentence": number, "answer": row["answer"], "source": source})
        return Reply(json.dumps({"removed": removed, "follow": follow}))


@cache
def load_judgements() -> dict[str, dict[str, Any]]:
    lines = (DATA / "judged_dreams.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["key"]: row for row in map(json.loads, lines)}


def make_judge_key(label: str, sources: Mapping[int, tuple[str, str]], sentence: str) -> str:
    shown = "\n\n".join(sorted(f"{at}:\n{text}" for at, text in sources.values()))
    return hashlib.sha256(f"{label}\n{shown}\n{sentence}".encode()).hexdigest()[:16]


def is_dream(request: Request) -> bool:
    return request.messages[0].text.partition("\n\n")[2].startswith("Sources, each")


class OpinionModel(ScriptedModel):
    def __init__(self, answers: Sequence[str], reader: OpinionReader) -> None:
        super().__init__(answers)
        self._reader = reader

    def __call__(self, request: Request) -> Reply:
        return self._reader.answer(request) if request.purpose == PURPOSE else super().__call__(request)


class WordReader(ScriptedModel):
    """A scripted model whose second opinion goes by words: a statement follows if the person used most of its words."""

    def __init__(self, answers: Iterable[str | Reply | MemdirError]) -> None:
        super().__init__(answers)
        self.opinions: list[Request] = []

    def __call__(self, request: Request) -> Reply:
        if request.purpose != PURPOSE:
            return super().__call__(request)
        self.opinions.append(request)
        return Reply(read_by_words(request.messages[0].text))


def read_by_words(content: str) -> str:
    """The answer of that reader to the text of a request."""
    typed, cases = split_request(content)
    sources = typed + _STATEMENT.sub("", cases)
    known = {word[:5] for word in _WORD.findall(sources.casefold())}
    follow = []
    for number, statement in _STATEMENT.findall(cases):
        words = {word[:5] for word in _WORD.findall(statement.removeprefix("They want this kept for later").casefold())}
        is_removal = statement.startswith(("They want this forgotten", "This is no longer so"))
        is_asked = is_removal and known & {"forge", "longe", "inste", "anymo", "moved", "actua"}
        if is_asked or (not is_removal and len(words & known) >= 0.6 * len(words)):
            follow.append(int(number))
    return json.dumps({"follow": follow})


def with_reader(script: Sequence[Answer]) -> Callable[[dict[str, Any]], Answer]:
    """A script for a loopback server that answers second opinions by words and everything else in order."""
    rest = list(script)

    def answer(body: dict[str, Any]) -> Answer:
        opinion = find_opinion(body)
        return rest.pop(0) if opinion is None else opinion

    return answer


def accept_all(content: str) -> str:
    """The answer of a reader for whom every statement follows."""
    return json.dumps({"follow": [int(at[1]) for at in _STATEMENT.finditer(split_request(content)[1])]})


def find_opinion(body: Mapping[str, Any], read: Callable[[str], str] = read_by_words) -> str | None:
    """The answer of a reader if a request asks for a second opinion; else None."""
    if "You check what a program wants to remember" not in json.dumps(body, ensure_ascii=False):
        return None
    content = body["messages"][-1]["content"]
    return read(content if isinstance(content, str) else content[0]["text"])
