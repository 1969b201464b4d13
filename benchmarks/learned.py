"""What is learned of conversations with a capable reader as the model, through `memdir extract`'s own path.

    python benchmarks/learned.py policies|irony_B… [--live ADDRESS] [-v]

`policies`: the 13 tasks of the bench data's `sde_bench`, each with three of its decoys in one directory; every part of
every policy (`tests/data/policies.json`) that stands in a memory counts. Any other name is a file of `tests/data/irony`:
three messages that may not be kept and three sincere ones a conversation, and each "do not keep" in its own.
`--live` asks a reader (`answer_by_hand.py`) what has no recorded answer, and records the answers.
"""

import json
import os
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from memdir.extraction import NOWHERE  # noqa: E402
from memdir.extraction.turns import harvest  # noqa: E402
from memdir.store.files import FileStore  # noqa: E402
from memdir.store.sessions import SessionFile  # noqa: E402
from recorded_reader import RecordedReader  # noqa: E402
from scripted_models import open_at  # noqa: E402

DATA = ROOT / "tests" / "data"
BENCH = Path(os.environ.get("MEMDIR_BENCH") or ROOT.parent / "shared" / "bench") / "sde_bench"
NOW = datetime(2026, 11, 2, 9, tzinfo=UTC)
Talk = Sequence[dict[str, str]]
Learned = tuple[dict[str, str], list[str]]  # the memories, and what waits


def read_rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def learn(talks: Sequence[tuple[str, Talk]], reader: RecordedReader, folder: Path) -> Learned:
    """Learn from transcripts one after the other, a day apart. Returns the memories and what waits."""
    folder.mkdir()
    store = FileStore(folder / "memory", clock=lambda: NOW)
    for day, (id, talk) in enumerate(talks):
        now = NOW + timedelta(days=day)
        rows = [
            {"role": at["role"], "content": at["text"], "timestamp": now.isoformat(), "id": f"{id}-{number}"}
            for number, at in enumerate(talk)
        ]
        path = folder / f"{id}.json"
        path.write_text(json.dumps(rows, ensure_ascii=False), encoding="utf-8")
        for done in harvest(store, path, SessionFile(store.state, id), model=reader, conversation=NOWHERE, now=now):
            if done.error:
                print(f"{id}: {done.error}")
    memories = {header.name: store.read(header.name).text for header in store.scan()}
    return memories, [
        f"{item.name}: {item.why} {json.dumps(item.payload, ensure_ascii=False)}" for item in store.inbox()
    ]


def make_policies() -> dict[str, list[tuple[str, Talk]]]:
    decoys = [(row["id"], row["turns"]) for row in read_rows(BENCH / "decoys.jsonl")[:40]]
    homes = {}
    for number, row in enumerate(read_rows(BENCH / "tasks.jsonl")):
        said = row["conversations"]
        parts = said if isinstance(said[0], list) else [said]
        own = [(f"{row['task_id']}-{part}", talk) for part, talk in enumerate(parts)]
        near = decoys[number::13]
        homes[row["task_id"]] = [near[0], own[0], near[1], *own[1:], *near[2:]]
    return homes


def make_irony(name: str) -> dict[str, list[tuple[str, Talk]]]:
    rows = read_rows(DATA / "irony" / f"{name}.jsonl")
    unmeant = [row for row in rows if row["kind"] in ("ironic", "hypothetical", "quoted")]
    sincere = [row for row in rows if row["kind"] == "sincere"]
    homes = {f"{name}-{row['id']}": [(row["id"], row["messages"])] for row in rows if row["kind"] == "dont_keep"}
    for start in range(0, max(len(unmeant), len(sincere)), 3):
        pairs = zip(unmeant[start : start + 3], sincere[start : start + 3], strict=False)
        chosen = [row for pair in pairs for row in pair]
        homes[f"{name}-mixed-{start}"] = [(f"{name}-{start}", [at for row in chosen for at in row["messages"]])]
    return homes


def list_missing(home: str, text: str) -> list[str]:
    """Return the parts of a task's policy that no memory has."""
    parts = json.loads((DATA / "policies.json").read_text(encoding="utf-8"))[home]
    return [part for part in parts if not re.search(part, text, re.IGNORECASE)]


def play(homes: Mapping[str, Sequence[tuple[str, Talk]]], reader: RecordedReader, folder: Path) -> dict[str, Learned]:
    with ThreadPoolExecutor(14 if reader.live else 1) as pool:
        learned = pool.map(lambda home: learn(homes[home], reader, folder / home), homes)
        return dict(zip(homes, learned, strict=True))


def record(reader: RecordedReader) -> None:
    with (DATA / "answers.jsonl").open("a", encoding="utf-8") as file:
        rows = [{"key": key, "answer": text} for key, text in reader.asked.items()]
        file.writelines(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows)
    with (DATA / "opinions_learned.jsonl").open("a", encoding="utf-8") as file:
        file.writelines(f"{json.dumps({'key': key, 'follows': at})}\n" for key, at in reader.judged.items())


def main(arguments: Sequence[str]) -> None:
    name, folder = arguments[0], Path(tempfile.mkdtemp(prefix="memdir-learned-"))
    address = arguments[arguments.index("--live") + 1] if "--live" in arguments else ""
    reader = RecordedReader(open_at(address, "anthropic:any", folder, MEMDIR_MODEL_SECONDS="600") if address else None)
    homes = make_policies() if name == "policies" else make_irony(name)
    learned = play(homes, reader, folder)
    record(reader)
    if "-v" in arguments:
        print(json.dumps(learned, ensure_ascii=False, indent=1))
    print(f"{len(reader.requests)} requests, {len(reader.missing) + len(reader.opinions.missing)} without an answer")
    if name == "policies":
        for home, (memories, waiting) in learned.items():
            missing = list_missing(home, "\n".join(memories.values()))
            print(f"{home}: {len(memories)} memories, {len(waiting)} waiting, missing {missing}")
        return
    asked, counts = (
        "\n".join(message.text for request in reader.requests for message in request.messages),
        Counter[str](),
    )
    for row, home in list_irony(name, homes):
        wrong = find_wrong(row, learned[home])
        is_asked = row["kind"] == "dont_keep" and any(has(word, asked) for word in row["never"])
        counts.update({row["kind"]: 1, f"{row['kind']} wrong": bool(wrong), "dont_keep in a request": is_asked})
        if wrong or is_asked:
            print(row["id"], row["kind"], wrong, "in a request" * is_asked, [at["text"] for at in row["messages"]])
    print(dict(counts))


def list_irony(name: str, homes: Mapping[str, Sequence[tuple[str, Talk]]]) -> Iterator[tuple[dict[str, Any], str]]:
    """Yield each row of a set and the home that learned from it."""
    for row in read_rows(DATA / "irony" / f"{name}.jsonl"):
        talks = ((home, talk) for home, talks in homes.items() for _, talk in talks)
        yield row, next(home for home, talk in talks if row["messages"][0] in talk)


def find_wrong(row: Mapping[str, Any], learned: Learned) -> list[str]:
    """Return the words that must be kept and are not, or that stand in a memory or the inbox and may not."""
    text = "\n".join((*learned[0].values(), *learned[1]))
    if row["kind"] == "sincere":
        return [word for word in row["keep"] if not has(word, text)]
    return [word for word in row["never"] if has(word, text)]


def has(word: str, text: str) -> bool:
    return word.casefold() in text.casefold()


if __name__ == "__main__":
    main(sys.argv[1:])
