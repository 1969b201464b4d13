"""Honest answers of a capable model to the real requests, replayed: what is kept of them, and what ought to be known.

`tests/data/conversations/*.jsonl` were written by two authors, with what ought to be known afterwards (`gold`). The
operations are the answers of a reader who saw only the request, and so are the second opinions. `tests/data/forks.json`
holds such answers to the requests of forks, the memory directory replaced by `{memory}`; they were made through
`answer_by_hand.py` of the shared tools, and other readers gave the second opinions.
"""

import json
from collections import Counter
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from learned import find_wrong, list_irony, list_missing, make_irony, make_policies, play
from loads import IS_FULL, bench, sample
from memdir.extraction import ConversationSource, ExtractResult, extract
from memdir.format.frontmatter import compose_file
from memdir.records import Dialect, Message, Model
from memdir.store.files import FileStore
from opinions import OpinionModel, OpinionReader, find_opinion
from recorded import DATA, ROWS, make_message, make_parent
from recorded_reader import RecordedReader
from scripted_models import ask, open_at
from servers import Answer, AnthropicServer, read_blocks

FORKS: dict[str, list[Any]] = json.loads((DATA / "forks.json").read_text(encoding="utf-8"))


class Played:
    """One conversation, learned from as a whole: by a request of its own, or by a fork of the agent's."""

    def __init__(self, row: dict[str, Any], folder: Path, model: Model, parent: dict[str, Any] | None = None) -> None:
        self.row, now = row, datetime.fromisoformat(row["now"])
        folder.mkdir(parents=True)
        store = FileStore(folder, clock=lambda: now)
        for at in row["existing"]:
            fields = {"name": at["title"], "description": at["description"], "type": at["type"]}
            (folder / f"{at['name']}.md").write_text(compose_file(fields, at["body"], Dialect.FLAT), encoding="utf-8")
        before = {at.name: store.read(at.name).text for at in store.scan()}
        messages: list[Message] = [make_message(at) for at in row["messages"]]
        source = ConversationSource(row["id"], parent=parent)
        self.done: ExtractResult = extract(store, messages, model=model, now=now, conversation=source)
        self.after = {at.name: store.read(at.name).text for at in store.scan()}
        self.changed = "\n".join(text for name, text in self.after.items() if before.get(name) != text)
        self.gone = [name for name in before if name not in self.after]
        store.close()

    @property
    def planted(self) -> list[str]:
        return [word for word in self.row["planted"] if word.casefold() in self.changed.casefold()]

    def count(self) -> Counter[str]:
        """What became of each operation."""
        counts: Counter[str] = Counter()
        for at in self.row["operations"]:
            if at["name"] in self.done.waiting:
                counts["needs review"] += 1
            elif at["action"] == "delete":
                counts["kept" if at["name"] in self.gone else "refused"] += 1
            elif at["name"] in self.done.trimmed:
                counts["trimmed"] += 1
            else:
                body = " ".join(at["body"].split())
                is_kept = body in " ".join(self.changed.split())
                counts["kept" if is_kept else "trimmed" if self.done.written else "refused"] += 1
        return counts

    def find_missing(self) -> list[str]:
        """What ought to be known and is not."""
        missing = []
        for gold in self.row["gold"]:
            if gold["action"] == "delete":
                is_known = gold["name"] in self.gone
            else:
                text = self.changed.casefold()
                is_known = all(any(alt.casefold() in text for alt in must.split("|")) for must in gold["must"])
            missing += [] if is_known else [gold["statement"]]
        return missing


def play_all(folder: Path, reader: OpinionReader) -> list[Played]:
    played = []
    for number, row in enumerate(ROWS):
        answer = json.dumps({"operations": row["operations"]}, ensure_ascii=False)
        model = OpinionModel([answer, '{"operations": []}'], reader)
        played.append(Played(row, folder / str(number), model))
    return played


def play_fork(row: dict[str, Any], folder: Path, reader: OpinionReader) -> Played:
    """A conversation learned from by a fork, through the strict server, with the recorded answers in their order."""
    memory = folder / "memory"
    answers = iter([read_blocks(at, memory=memory) for at in FORKS[row["id"]]])

    def answer(body: dict[str, Any]) -> Answer:
        opinion = find_opinion(body, lambda content: reader.answer(ask(content)).text)
        return next(answers) if opinion is None else opinion

    with AnthropicServer(answer) as server:
        model = open_at(server.url, "anthropic:claude-any", folder)
        played = Played(row, memory, model, make_parent(row))
        assert server.problems == [] and next(answers, None) is None
    return played


def test_honest_answers_are_kept_and_nothing_planted_is(tmp_path: Path) -> None:
    reader = OpinionReader()
    played = play_all(tmp_path, reader)
    assert not reader.missing, f"{len(reader.missing)} second opinions have no recorded answer"
    assert [at.row["id"] for at in played if at.planted] == []
    counts = sum((at.count() for at in played), Counter[str]())
    total = sum(counts.values())
    assert counts["kept"] + counts["trimmed"] >= 0.95 * total, counts
    assert counts["kept"] >= 0.9 * total, counts


def test_forks_learn_what_ought_to_be_known(tmp_path: Path) -> None:
    reader = OpinionReader()
    played = [play_fork(row, tmp_path / row["id"], reader) for row in sample(ROWS, lambda row: row["lang"])]
    assert not reader.missing, f"{len(reader.missing)} second opinions have no recorded answer"
    counts = Counter[str]()
    for at in played:
        calls = [call["input"] for answer in FORKS[at.row["id"]] for call in answer if call.get("name") == "Write"]
        wanted = {Path(call["file_path"]).stem for call in calls}
        assert (at.planted, at.done.error, {*at.done.waiting} - wanted) == ([], "", set())
        counts += Counter(
            operations=len(wanted),
            kept=len(wanted.difference(at.done.waiting)),
            whole=len(wanted.difference(at.done.waiting, at.done.trimmed)),
            besides=len({*at.done.written, *at.done.forgotten} - wanted),
            unknown=len(at.find_missing()),
        )
    assert len(FORKS) == len(ROWS) == 40
    if IS_FULL:
        assert counts["kept"] >= 0.95 * counts["operations"] and counts["whole"] >= 0.9 * counts["operations"], counts
    assert counts["unknown"] <= 2 and counts["besides"] <= 2, counts


def test_every_part_of_a_policy_is_learned_amendments_replace_it_and_decoys_leave_nothing(tmp_path: Path) -> None:
    """13 tasks of a public benchmark and 40 of its decoys, as `benchmarks/learned.py policies` plays them."""
    bench("sde_bench")
    reader = RecordedReader()
    learned = play(make_policies(), reader, tmp_path)
    assert reader.missing == [] and not reader.opinions.missing
    texts = {home: "\n".join(memories.values()) for home, (memories, _) in learned.items()}
    assert {home: missing for home, text in texts.items() if (missing := list_missing(home, text))} == {}
    assert [waiting for _, waiting in learned.values() if waiting] == []
    names = {home: len(memories) for home, (memories, _) in learned.items()}
    assert (
        max(names.values()) <= 3 and names["boltons-dedupe-amended-001"] == names["boltons-tagmerge-amended-001"] == 1
    )


@pytest.mark.parametrize("author", ["A", "B"])
def test_with_a_reader_nothing_unmeant_is_kept_and_everything_sincere_is(author: str, tmp_path: Path) -> None:
    """Thirty unmeant requests among thirty sincere ones, and thirty facts that are not to be kept."""
    reader, homes = RecordedReader(), make_irony(author)
    learned = play(homes, reader, tmp_path)
    assert reader.missing == [] and not reader.opinions.missing
    assert [row["id"] for row, home in list_irony(author, homes) if find_wrong(row, learned[home])] == []
