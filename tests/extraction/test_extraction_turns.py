"""When a turn has ended: gates, cursor, throttle, one at a time, and what is noted."""

import json
from pathlib import Path
from typing import Any

import pytest

from extraction_talks import ASKED, CORRECTED, NOW, make_talk
from memdir.errors import UnreachableError
from memdir.extraction import ExtractResult, ExtractSkip
from memdir.extraction.turns import EndedTurn, ExtractOptions, extract_turn
from memdir.records import Message, Model
from memdir.store.files import FileStore
from memdir.store.sessions import SessionFile, make_cursor, parse_cursor
from memdir.store.state import read_runs
from memdir.testing import ScriptedModel
from opinions import WordReader
from tables import read_rows

ROWS = read_rows("extraction_turns")

KEYS = ("on", "paused", "headless", "every", "explicit_only", "remote")


class Place:
    """A store and a conversation in it."""

    def __init__(self, folder: Path) -> None:
        self.store = FileStore(folder / "home" / "memory", clock=lambda: NOW)
        self.session: SessionFile = SessionFile(self.store.state, "s1")

    def learn(self, talk: tuple[Message, ...], *, model: Model | None = None, **more: Any) -> ExtractResult:
        manner = ExtractOptions(**{key: more.pop(key) for key in KEYS if key in more})
        return extract_turn(self.store, self.session, EndedTurn(talk, **more), options=manner, model=model, now=NOW)

    @property
    def names(self) -> list[str]:
        return sorted(header.name for header in self.store.scan())

    @property
    def cursor(self) -> object:
        return parse_cursor(self.session.read().extra.get("cursor"))


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


@pytest.mark.parametrize(
    ("manner", "skip"),
    [
        ({"on": False}, ExtractSkip.OFF),
        ({"paused": True}, ExtractSkip.PAUSED),
        ({"remote": True}, ExtractSkip.REMOTE),
        ({"headless": "off", "is_headless": True}, ExtractSkip.HEADLESS),
    ],
)
def test_what_was_said_while_nobody_should_listen_is_never_learned(
    place: Place, manner: dict[str, Any], skip: ExtractSkip
) -> None:
    assert place.learn(make_talk(), **manner).skipped is skip
    assert place.learn(make_talk()).skipped is ExtractSkip.NOTHING_NEW
    assert place.names == []


def test_a_helper_of_the_agent_is_not_learned_from_and_leaves_the_cursor(place: Place) -> None:
    assert place.learn(make_talk(), is_subagent=True).skipped is ExtractSkip.SUBAGENT
    assert place.cursor is None


def test_without_a_person_only_requests_are_kept(place: Place) -> None:
    done = place.learn((*CORRECTED, *make_talk()), is_headless=True, model=ScriptedModel([]))
    assert done.by == "rules" and len(place.names) == 1


def test_turns_between_are_left_for_later_but_a_request_is_not(place: Place) -> None:
    assert place.learn(CORRECTED, every=3).skipped is ExtractSkip.THROTTLED
    asked = place.learn((*CORRECTED, *make_talk()), every=3)
    assert len(asked.written) == 1 and place.cursor is None
    third = place.learn((*CORRECTED, *make_talk(), Message("user", "thanks", "u8", NOW)), every=3)
    assert third.skipped is None and len(place.names) == 2


def test_turns_that_ended_together_all_count(place: Place) -> None:
    talk = [
        Message(role, text, f"{role[0]}{number}", NOW)
        for number in range(6)
        for role, text in (("user", "go on"), ("assistant", "done"))
    ]
    model = ScriptedModel(['{"operations": []}'] * 2)
    assert place.learn((*talk, *CORRECTED), every=7, model=model).skipped is ExtractSkip.NOTHING_FOUND
    assert len(model.requests) == 1 and place.cursor is not None
    more = Message("user", "and so on", "u9", NOW)
    assert place.learn((*talk, *CORRECTED, more), every=2, model=model).skipped is ExtractSkip.THROTTLED


def test_with_extraction_off_only_what_a_person_asks_for_is_kept(place: Place) -> None:
    model = ScriptedModel([])
    off = place.learn(CORRECTED, explicit_only=True, model=model)
    assert off.skipped is ExtractSkip.OFF and place.cursor == make_cursor(CORRECTED)
    asked = place.learn((*CORRECTED, *make_talk()), explicit_only=True, model=model)
    assert len(asked.written) == 1 and model.requests == []


def test_failures_are_counted_until_rules_finish(place: Place) -> None:
    for number in range(3):
        done = place.learn(make_talk(), model=ScriptedModel([UnreachableError("no answer")]))
        assert done.skipped is ExtractSkip.FAILED and place.cursor is None, number
    last = place.learn(make_talk(), model=ScriptedModel([]))
    assert last.by == "rules" and place.cursor is not None
    assert place.session.read().extra["failures"] == 0
    assert len(place.names) == 1


def test_one_at_a_time(place: Place) -> None:
    seen: list[ExtractResult] = []

    def model(request: object) -> object:
        seen.append(place.learn(make_talk(), model=ScriptedModel([])))
        raise UnreachableError("gone")

    place.learn(make_talk(), model=model)  # type: ignore[arg-type]
    assert [done.skipped for done in seen] == [ExtractSkip.BUSY]


def test_every_run_is_noted_without_names_or_texts(place: Place) -> None:
    done = place.learn(make_talk())
    place.learn(make_talk())
    rows = read_runs(place.store.state)
    assert [row["skipped"] for row in rows] == ["nothing_new", None]
    assert rows[1]["written"] == 1 and rows[1]["change"] == done.change
    data = (place.store.state / "runs.jsonl").read_text(encoding="utf-8")
    assert done.written[0] not in data and ASKED not in data


SWITCHED = (
    Message("user", "finance switches its dashboards to orders v2, so no fixing in orders daily", "u1", NOW),
    Message("assistant", "Understood. And what about the red ones?", "a1", NOW),
)
FREEZE = ROWS["FREEZE"]
WARN = "severity warn enough"


def learn_twice(place: Place, said: str) -> tuple[ExtractResult, WordReader]:
    """A turn of which one sentence is left out, then another in which the model changes nothing."""
    first = place.learn(SWITCHED, model=WordReader([json.dumps({"operations": [FREEZE]})]))
    assert first.trimmed == ("orders-daily",) and WARN not in place.store.read("orders-daily").text
    reader = WordReader(['{"operations": []}'])
    talk = (*SWITCHED, Message("user", said, "u2", NOW), Message("assistant", "Done.", "a2", NOW))
    return place.learn(talk, model=reader), reader


def test_what_did_not_follow_is_kept_when_the_next_message_says_it(place: Place) -> None:
    done, reader = learn_twice(place, "yes, for the nightly tests severity warn is enough")
    assert (done.written, done.trimmed, done.waiting) == (("orders-daily",), (), ())
    assert "Nightly tests severity warn enough." in place.store.read("orders-daily").text
    (asked,) = reader.opinions
    assert asked.messages[0].text.count("\n1. ") == 1 and "\n2. " not in asked.messages[0].text, "nothing else is asked"


def test_it_is_asked_about_once_and_stays_out_when_the_next_message_says_something_else(place: Place) -> None:
    done, reader = learn_twice(place, "thanks, now show me the staging model")
    assert (done.written, done.trimmed, done.waiting, len(reader.opinions)) == ((), (), (), 1)
    assert WARN not in place.store.read("orders-daily").text
    later = WordReader(['{"operations": []}'])
    said = Message("user", "yes, for the nightly tests severity warn is enough", "u3", NOW)
    place.learn((*SWITCHED, Message("user", "thanks, now show me the staging model", "u2", NOW), said), model=later)
    assert later.opinions == [] and WARN not in place.store.read("orders-daily").text


def test_a_memory_that_was_changed_or_forgotten_meanwhile_is_left_alone(place: Place) -> None:
    place.learn(SWITCHED, model=WordReader([json.dumps({"operations": [FREEZE]})]))
    place.store.delete("orders-daily")
    reader = WordReader(['{"operations": []}'])
    said = Message("user", "yes, for the nightly tests severity warn is enough", "u2", NOW)
    place.learn((*SWITCHED, said), model=reader)
    assert reader.opinions == [] and place.names == []
