"""A memory directory with something to tidy, and models that dream in it: a good one and several bad ones."""

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from memdir.dream.logs import append_log
from memdir.errors import MemdirError, ModelError
from memdir.extraction.provenance import PURPOSE as OPINION
from memdir.format.frontmatter import compose_file
from memdir.format.index import INDEX_FILE
from memdir.frozen import replace
from memdir.records import Dialect, Draft, Kind, Model, Reply, Request, StopReason, ToolCall, Usage
from memdir.store.files import FileStore
from memdir.testing import ScriptedModel

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)  # a Thursday
TUESDAYS = "The web shop is deployed on Tuesdays only."
HOTFIX = "Hotfixes may go out on any day with two approvals."
PARTS = "**Why:** Support is fully staffed then.\n**How to apply:** Plan every release for a Tuesday."
LIMIT = "The public API allows {} requests a minute for each key."
DEAD = "- [Long gone](long-gone.md) — a line that points nowhere\n"

Answer = str | Reply | MemdirError


def make_text(title: str, description: str, body: str, kind: str = "project", *more: str) -> str:
    head = "\n".join(("---", f"name: {title}", f"description: {description}", f"type: {kind}", *more, "---"))
    return f"{head}\n\n{body}\n"


def put(store: FileStore, name: str, text: str, *, days: float = 2) -> None:
    """A memory of that age, saved as anybody would save it."""
    fields, body = text.split("---\n\n", 1)
    values = dict(line.split(": ", 1) for line in fields.splitlines() if ": " in line)
    draft = Draft(Kind(values["type"]), values["name"], values["description"], body, name, "pinned" in values or None)
    then = NOW - timedelta(days=days)
    with FileStore(store.root, clock=lambda: then) as earlier:
        earlier.write(draft)
    os.utime(store.root / f"{name}.md", (then.timestamp(), then.timestamp()))


DEPLOYS = make_text("Deploys", "On which day the web shop is deployed", f"{TUESDAYS}\n\n{PARTS}")
RELEASES = make_text(
    "Hotfixes", "When a hotfix of the shop may leave", f"{HOTFIX}\n\n**Why:** A broken shop earns nothing."
)
MERGED = make_text(
    "Deploys",
    "On which day the web shop is deployed",
    f"{TUESDAYS} {HOTFIX}\n\n{PARTS}\n\nA broken shop earns nothing.",
)


def make_store(memory: Path) -> FileStore:
    """Six memories, one of them pinned, and an index with a dead line."""
    store = FileStore(memory, clock=lambda: NOW)
    put(store, "deploys", DEPLOYS)
    put(store, "hotfixes", RELEASES, days=3)
    old = make_text("Old rate limit", "Rate limit of the API before the raise", LIMIT.format(100))
    put(store, "limit-old", old, days=60)
    put(store, "limit-new", make_text("Rate limit", "How much the public API allows now", LIMIT.format(250)), days=1)
    feedback = "Replies end without a summary of the diff.\n\n**Why:** It is read anyway.\n**How to apply:** Always."
    put(store, "terse", make_text("Terse replies", "No summary at the end of replies", feedback, "feedback"))
    note = "The billing tracker lives in the project BILL of the issue system."
    put(store, "tracker", make_text("Tracker", "Where billing bugs are tracked", note, "reference", "pinned: true"))
    index = memory / INDEX_FILE
    index.write_text(index.read_text(encoding="utf-8") + DEAD, encoding="utf-8")
    store.note_outside()
    store.scan()
    return store


def image(memory: Path) -> dict[str, bytes]:
    """Every memory and index, byte for byte."""
    found = (path for path in memory.rglob("*.md") if ".memdir" not in path.relative_to(memory).parts)
    return {str(path.relative_to(memory)): path.read_bytes() for path in found}


def use(*calls: tuple[str, Mapping[str, object]]) -> Reply:
    """An answer that calls tools."""
    made = tuple(ToolCall(f"call-{number}", name, values) for number, (name, values) in enumerate(calls))
    return Reply("", Usage(100, 0, 20), made, StopReason.CALLS)


def write(name: str, text: str, reason: str = "", evidence: str = "") -> tuple[str, dict[str, object]]:
    return "write", {"path": f"memory/{name}.md", "content": text, "reason": reason, "evidence": evidence}


def delete(name: str, reason: str = "", evidence: str = "") -> tuple[str, dict[str, object]]:
    return "delete", {"path": f"memory/{name}.md", "reason": reason, "evidence": evidence}


def read(path: str) -> tuple[str, dict[str, object]]:
    return "read", {"path": path}


def end(summary: str = "all in order") -> str:
    return json.dumps({"summary": summary})


class DreamingModel(ScriptedModel):
    """A scripted model; as a second reader it says of these sentences that they follow, and of nothing else.

    Without such a list it fails as a second reader.
    """

    def __init__(self, answers: Iterable[Answer], follows: Iterable[str] | None = ()) -> None:
        super().__init__(answers)
        self.follows, self.opinions = None if follows is None else frozenset(follows), list[str]()

    def __call__(self, request: Request) -> Reply:
        if request.purpose != OPINION:
            return super().__call__(request)
        if self.follows is None:
            raise ModelError("no answer")
        self.opinions.append(text := request.messages[0].text)
        return Reply(judge(text, self.follows))


_SOURCE = re.compile(r"^\[(\d+)\] ([^\n]*):\n((?:(?!\n\n\[\d+\] ).)*)", re.MULTILINE | re.DOTALL)
_CASE = re.compile(r"^(.*) \(sources ([\d, ]+)\):\n((?:\d+\. .*\n?)+)", re.MULTILINE)
_SENTENCE = re.compile(r"^(\d+)\. (.*)$", re.MULTILINE)


def list_cases(text: str) -> list[tuple[str, dict[int, tuple[str, str]], list[tuple[int, str]]]]:
    """The cases of a request to the judge of a dream: label, sources by number with label and text, and sentences."""
    shown, cases = text.split("\n==========\n")[1:]
    sources = {int(at[1]): (at[2], at[3].strip()) for at in re.finditer(_SOURCE, shown)}
    return [
        (
            case[1],
            {number: sources[number] for number in map(int, case[2].split(", "))},
            [(int(at[1]), at[2]) for at in _SENTENCE.finditer(case[3])],
        )
        for case in _CASE.finditer(cases)
    ]


def find_alike(text: str, sources: Mapping[int, tuple[str, str]]) -> int:
    """The number of the source with most of these words."""
    words = {*re.findall(r"\w+", text.lower())}
    return max(sources, key=lambda number: len(words & {*re.findall(r"\w+", " ".join(sources[number]).lower())}))


def find_newer(label: str, sources: Mapping[int, tuple[str, str]]) -> dict[int, tuple[str, str]]:
    """The sources that a reader would call newer than the text with this label."""
    days = {number: at[0].rpartition(", ")[2].rpartition(" on ")[2][-10:] for number, at in sources.items()}
    newer = [
        {at: sources[at] for at in days if days[at] > label[-10:]},
        {at: sources[at] for at in days if days[at] == label[-10:]},
    ]
    return newer[0] or newer[1] or dict(sources)


def judge(text: str, follows: Collection[str]) -> str:
    """The answer of a judge for whom these sentences still stand, are no longer so (`no_longer`) or follow.

    The reasons of a rule that is no longer so go with it.
    """
    removed, listed = [], []
    for label, sources, sentences in list_cases(text):
        overtaken = 0
        for number, sentence in sentences:
            if not label.startswith("Taken out of "):
                listed += [number] if sentence in follows else []
            elif sentence in follows:
                removed.append({"sentence": number, "answer": "elsewhere", "source": find_alike(sentence, sources)})
            elif no_longer(sentence) in follows or overtaken:
                overtaken = overtaken or find_alike(sentence, find_newer(label, sources))
                removed.append({"sentence": number, "answer": "overtaken", "source": overtaken})
            else:
                removed.append({"sentence": number, "answer": "neither", "source": 0})
    return json.dumps({"removed": removed, "follow": listed})


def no_longer(text: str) -> str:
    return f"This no longer holds: “{text}”"


def merging() -> DreamingModel:
    """Does what a dream is for: merges two memories and settles a contradiction."""
    return DreamingModel(
        [
            use(read("memory/deploys.md"), read("memory/hotfixes.md")),
            use(
                write("deploys", MERGED, "hotfixes are about deploys too", "deploys, hotfixes"),
                delete("hotfixes", "merged into deploys", "deploys"),
                delete("limit-old", "the limit was raised", LIMIT.format(250)),
            ),
            end("merged two, settled one"),
        ],
        [no_longer(LIMIT.format(100))],
    )


class Toolless:
    """A model that cannot call tools."""

    has_tools = False

    def __init__(self, answers: Iterable[Answer], follows: Iterable[str] = ()) -> None:
        self._model = DreamingModel(answers, follows)

    @property
    def requests(self) -> list[Request]:
        return self._model.requests

    def __call__(self, request: Request) -> Reply:
        return self._model(request)


def operations(*rows: Mapping[str, object]) -> str:
    keys = ("action", "name", "type", "title", "description", "body", "why", "how", "evidence", "reason")
    return json.dumps({"operations": [{**dict.fromkeys(keys, ""), **row} for row in rows]})


def deleting(names: Iterable[str]) -> Model:
    return DreamingModel([use(*(delete(name, "not needed") for name in names)), end("all clean now")])


def emptying(names: Iterable[str]) -> Model:
    """Keeps every file and takes out what it says."""
    hollow = make_text("Nothing", "Nothing much remains of this", "Nothing.")
    return DreamingModel([use(*(write(name, hollow) for name in names)), end()])


def repeating(request: Request) -> Reply:
    return use(read("memory/deploys.md"))


def wandering() -> Model:
    """Never calls the same twice and never ends."""
    count = 0

    def ask(request: Request) -> Reply:
        nonlocal count
        count += 1
        return use(("search", {"query": f"word{count}", "path": "memory"}))

    return ask


def hoarding() -> Model:
    """Writes one file after the other for as long as it may."""
    count = 0

    def ask(request: Request) -> Reply:
        nonlocal count
        count += 1
        text = make_text(f"Note {count}", f"The shop has counter number {count} at the door", f"Counter {count}.")
        return use(write(f"note-{count}", text))

    return ask


def trespassing(path: str) -> Model:
    content = make_text("Deploys", "On which day the web shop is deployed", "Deploy whenever you like.")
    return DreamingModel([use(("write", {"path": path, "content": content}), delete("limit-old")), end()])


def saying(text: str) -> Model:
    return DreamingModel([text, text])


BAD: dict[str, Callable[[list[str]], Model]] = {
    "deletes everything": deleting,
    "empties everything": emptying,
    "repeats itself": lambda names: repeating,
    "wanders about": lambda names: wandering(),
    "writes for ever": lambda names: hoarding(),
    "writes outside": lambda names: trespassing("/etc/passwd"),
    "climbs out": lambda names: trespassing("memory/../../escaped.md"),
    "writes into the home": lambda names: trespassing("~/.bashrc"),
    "babbles": lambda names: saying("Lorem ipsum dolor sit amet."),
    "says nothing": lambda names: saying(""),
    "sends broken JSON": lambda names: saying('{"summary": '),
    "is cut short": lambda names: DreamingModel([replace(use(read("memory/deploys.md")), stop=StopReason.LENGTH)]),
    "declines": lambda names: DreamingModel([Reply("no", stop=StopReason.REFUSED)]),
    "without tools: deletes everything": lambda names: Toolless(
        [operations(*({"action": "delete", "name": name} for name in names))]
    ),
    "without tools: babbles": lambda names: Toolless(["Here you are!", "Sorry, once more."]),
    "without tools: climbs out": lambda names: Toolless(
        [operations({"action": "create", "name": "../../escaped", "type": "user", "title": "x", "body": "y"})] * 2
    ),
    "without tools: names what is not there": lambda names: Toolless(
        [operations({"action": "delete", "name": "nothing-like-it"})] * 2
    ),
}


def read_last_run(store: FileStore) -> dict[str, Any]:
    rows = (store.state / "runs.jsonl").read_text(encoding="utf-8").splitlines()
    row: dict[str, Any] = json.loads(rows[-1])
    return row


def build(memory: Path, case: Mapping[str, Any]) -> FileStore:
    """The files as another tool would have left them."""
    now = datetime.fromisoformat(case["now"])
    memory.mkdir(parents=True)
    for row in case["memories"]:
        fields = {"name": row["title"], "description": row["description"], "type": row["type"]}
        fields |= {"pinned": "true"} if row.get("pinned") else {}
        path = memory / f"{row['name']}.md"
        path.write_text(compose_file(fields, f"{row['body']}\n", Dialect.FLAT), encoding="utf-8")
        os.utime(path, ((now - timedelta(days=row["days"])).timestamp(),) * 2)
    lines = (f"- [{row['title']}]({row['name']}.md) — {row['description']}\n" for row in case["memories"])
    (memory / "MEMORY.md").write_text("".join(lines), encoding="utf-8")
    store = FileStore(memory, clock=lambda: now)
    for log in case["logs"]:
        append_log(store, log["text"], now=now - timedelta(days=log["days"]))
    return store


def translate(case: Mapping[str, Any]) -> dict[str, Any]:
    """Another author's directory in the form of the ones above; of a fact, one of the spellings must stand somewhere."""
    now = datetime.fromisoformat(case["now"])
    days = [(now - datetime.fromisoformat(row["modified"])) / timedelta(days=1) for row in case["memories"]]
    rows = [{**row, "days": ago} for row, ago in zip(case["memories"], days, strict=True)]
    facts = [*case["keep"], *(fact for change in case["safe"] for fact in change["facts"])]
    return {**case, "memories": rows, "facts": [fact.split("|") for fact in facts], "logs": []}


def list_said(files: Mapping[str, bytes], facts: list[list[str]]) -> list[str]:
    """The facts of which one spelling stands in these files."""
    text = "\n".join(data.decode() for path, data in files.items() if path != "MEMORY.md").casefold()
    return [fact[0] for fact in facts if any(spelling.casefold() in text for spelling in fact)]
