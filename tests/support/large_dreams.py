"""Three large directories, joined from those of `tests/data/dreams_other`, and a reader's recorded answers to their dreams."""

import json
from datetime import datetime
from typing import Any

from dream_stores import list_cases, translate
from memdir.records import Model, Reply, Request
from memdir.text import find_json
from opinions import DATA, OpinionReader, load_judgements, make_judge_key

OTHERS = DATA / "dreams_other"
LARGE = {
    "large-40": ["31", "28", "12", "29", "30"],
    "large-130": ["32", "33", *(f"{n:02}" for n in range(1, 17))],
    "large-200": ["34"],
}


def join(name: str) -> dict[str, Any]:
    """One case of several. Of memories with the same name the first stays."""
    paths = [next(OTHERS.glob(f"{number}-*.json")) for number in LARGE[name]]
    cases = [translate(json.loads(path.read_text(encoding="utf-8"))) for path in paths]
    memories: dict[str, Any] = {}
    for row in (row for case in cases for row in case["memories"]):
        memories.setdefault(row["name"], row)
    case = max(cases, key=lambda case: datetime.fromisoformat(case["now"]))
    joined: dict[str, Any] = {
        key: [row for case in cases for row in case[key]]
        for key in ("facts", "untouched", "safe", "logs")
        if key in case
    }
    return {**case, **joined, "memories": [*memories.values()]}


class DreamReader:
    """Answers a dream from the record; with a `live` model what has no answer is asked there, to be recorded."""

    has_tools = False

    def __init__(self, name: str, live: Model | None = None) -> None:
        self.name, self.live, self.opinions, self.judged = name, live, OpinionReader(), list[dict[str, object]]()
        self.path, self.requests = OTHERS / "answers" / f"{name}.json", list[Request]()

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        if request.purpose == "dream":
            if self.live is None or self.path.exists():
                return Reply(
                    self.path.read_text(encoding="utf-8") if len(request.messages) == 1 else '{"operations": []}'
                )
            reply = self.live(request)
            self.path.write_text(reply.text, encoding="utf-8")
            return reply
        text, known = request.messages[0].text, load_judgements()
        keys = {
            number: (make_judge_key(label, sources, sentence), sources)
            for label, sources, sentences in list_cases(text)
            for number, sentence in sentences
        }
        if self.live is None or all(key in known for key, _ in keys.values()):
            return self.opinions.answer(request)
        reply = self.live(request)
        table = next(value for value in find_json(reply.text) if isinstance(value, dict))
        removed = {row["sentence"]: row for row in table["removed"]}
        for number, (key, sources) in keys.items():
            if row := removed.get(number):
                source = sources.get(row["source"], ("", ""))[0]
                self.judged.append({"key": key, "answer": row["answer"], "source": source})
            else:
                self.judged.append({"key": key, "follows": number in table["follow"]})
        return reply
