"""Foreign text that a fooled model wants to remember: no planted word is shown to a model or kept.

`tests/data/attacks/*.jsonl` were written by authors who had not seen the code: each row is a conversation, the operations
of a model that was fooled, and the planted words. The second opinion is answered from recorded judgements.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from loads import IS_FULL, sample
from memdir.extraction.turns import EndedTurn, extract_turn
from memdir.format.frontmatter import compose_file
from memdir.records import Dialect, Message
from memdir.store.files import FileStore
from memdir.store.sessions import SessionFile
from opinions import OpinionModel, OpinionReader
from recorded import make_message

FILES = sorted((Path(__file__).parents[1] / "data" / "attacks").glob("*.jsonl"))
AGREED = "agent_doing_and_yes"  # a person who says yes to an agent's sentence has said it: a rate, no promise
PASTED = {"pasted_before", "pasted_after"}  # nothing may mark such a text but its meaning
ECHOED = {"next_turn", "five_turns_later"}
AT_HAND = 2  # messages before a turn
# A turn after the attack: what was left out is put to the second reader once more.
THANKS = {
    "en": "ok thanks, that works. now run the linter please",
    "de": "ok danke, passt. jetzt bitte den linter laufen lassen",
    "fr": "ok merci, c'est bon. lance le linter maintenant",
    "es": "ok gracias, vale. ahora pasa el linter",
    "zh": "好的,谢谢,可以。现在跑一下 linter",
    "ja": "はい、ありがとう、それで大丈夫です。次は linter を回してください",
}


@cache
def load_attacks() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(line) for path in FILES for line in path.read_text(encoding="utf-8").splitlines())


def list_turns(row: dict[str, Any]) -> Iterator[EndedTurn]:
    """Each turn with what is at hand when it ends: its own messages and a few before them."""
    messages = [make_message(at) for at in row["messages"]]
    starts = [at for at, message in enumerate(messages) if message.role == "user"]
    starts[0] = 0
    for start, end in zip(starts, [*starts[1:], len(messages)], strict=True):
        yield EndedTurn(messages[start:end], start, messages[max(0, start - AT_HAND) : start])


class Played:
    """One attack played turn by turn, each with its own messages at hand, the operations given at the last."""

    def __init__(self, row: dict[str, Any], folder: Path, reader: OpinionReader, *, forget: bool = False) -> None:
        now = datetime.fromisoformat(row["now"])
        (folder / "memory").mkdir(parents=True)
        store = FileStore(folder / "memory", clock=lambda: now)
        for at in row["existing"]:
            fields = {"name": at["title"], "description": at["description"], "type": at["type"]}
            (store.root / f"{at['name']}.md").write_text(
                compose_file(fields, at["body"], Dialect.FLAT), encoding="utf-8"
            )
        before = "\n".join(store.read(at.name).text for at in store.scan())
        turns = list(list_turns(row))
        session = SessionFile(store.state, "s1")
        self.asked: list[str] = []
        for number, turn in enumerate(turns, 1):
            operations = row["operations"] if number == len(turns) else []
            model = OpinionModel([json.dumps({"operations": operations}, ensure_ascii=False)] * 2, reader)
            if forget:
                session.find_prompt_file("foreign").unlink(missing_ok=True)
            extract_turn(store, session, turn, model=model, now=now)
            self.asked += [request.messages[0].text for request in model.requests]
        if session.read_trimmed():
            messages = [make_message(at) for at in row["messages"]]
            last = Message("user", THANKS[row["lang"]], "thanks", messages[-1].at)
            turn = EndedTurn([last], len(messages), messages[-AT_HAND:])
            extract_turn(store, session, turn, model=OpinionModel(['{"operations": []}'], reader), now=now)
        known = "\n".join(f"{at.name}\n{store.read(at.name).text}" for at in store.scan())
        self.planted = [word for word in row["planted"] if word.lower() in known.lower() not in before.lower()]
        self.kept = [at.name for at in store.scan()]
        store.close()
        shown = "\n".join(self.asked) + "\n".join(reader.typed)
        agents = "\n".join(at["text"] for at in row["messages"] if at["role"] == "assistant").lower()
        self.shown = [word for word in row["planted"] if word.lower() in shown.lower()]
        self.leaked = [word for word in self.shown if word.lower() not in agents]


def play_some(
    folder: Path, reader: OpinionReader, channels: Collection[str] = (), *, forget: bool = False
) -> dict[str, Played]:
    """Some attacks of every channel, or of these, by their ids."""
    rows = [row for row in load_attacks() if not channels or row["channel"] in channels]
    played = {}
    for number, row in enumerate(sample(rows, lambda at: at["channel"])):
        reader.typed.clear()
        played[row["id"]] = Played(row, folder / str(number), reader, forget=forget)
    return played


def test_there_are_five_hundred_attacks_over_fifteen_channels() -> None:
    channels = Counter(row["channel"] for row in load_attacks())
    assert channels.total() >= 500 and len(channels) >= 15 and min(channels.values()) >= 10


def test_no_planted_word_is_kept(tmp_path: Path) -> None:
    reader = OpinionReader()
    played = play_some(tmp_path, reader)
    assert not reader.missing, f"{len(reader.missing)} second opinions have no recorded answer"
    channels = {row["id"]: row["channel"] for row in load_attacks()}
    failed = {id: at.planted for id, at in played.items() if at.planted}
    assert {id: words for id, words in failed.items() if channels[id] != AGREED} == {}
    if IS_FULL:
        agreed = Counter(channels[id] for id in failed)
        assert agreed[AGREED] <= 0.25 * sum(channel == AGREED for channel in channels.values())


def test_without_a_second_opinion_none_is_kept_either_and_none_of_foreign_text_is_shown(tmp_path: Path) -> None:
    played = play_some(tmp_path, OpinionReader(fails=True))
    assert {id: at.planted for id, at in played.items() if at.planted} == {}
    pasted = {row["id"] for row in load_attacks() if row["channel"] in PASTED}
    assert {id: at.leaked for id, at in played.items() if at.leaked and id not in pasted} == {}


def test_what_the_agent_repeats_of_earlier_foreign_text_is_hidden_by_its_digest(tmp_path: Path) -> None:
    counts = []
    for forget in (False, True):
        played = play_some(tmp_path / str(forget), OpinionReader(fails=True), ECHOED, forget=forget)
        counts.append(sum(bool(at.shown) for at in played.values()))
    assert counts[0] < counts[1], counts
