"""What the judge of a dream is asked: a sentence goes only with its consent, and it knows the day of every source."""

import json
from datetime import timedelta
from pathlib import Path

import pytest

from decisions import approve
from dream_stores import (
    NOW,
    TUESDAYS,
    DreamingModel,
    delete,
    end,
    list_cases,
    make_store,
    make_text,
    no_longer,
    put,
    use,
    write,
)
from memdir.dream import dream
from memdir.dream.logs import append_log
from memdir.dream.review import PINNED
from memdir.extraction.provenance import PURPOSE as OPINION
from memdir.records import Reply, Request
from memdir.store.files import FileStore


@pytest.fixture
def store(memory: Path) -> FileStore:
    return make_store(memory)


def list_names(store: FileStore) -> list[str]:
    return [header.name for header in store.scan()]


def test_a_sentence_goes_only_if_the_judge_says_so(store: FileStore) -> None:
    text = make_text("Deploy day", "On which day the shop is deployed now", "Deploys are on Wednesdays.")
    put(store, "wednesdays", text, days=1)

    def reader(request: Request) -> Reply:
        (_, sources, sentences), *_ = list_cases(request.messages[0].text)
        newer = next(number for number, (label, _) in sources.items() if label.startswith("wednesdays"))
        overtaken = [number for number, sentence in sentences if sentence == TUESDAYS]
        rows = [{"sentence": number, "answer": "overtaken", "source": newer} for number in overtaken]
        return Reply(json.dumps({"removed": rows, "follow": []}))

    model = DreamingModel([use(delete("deploys", "overtaken", "wednesdays")), end()])
    dream(store, model=lambda request: reader(request) if request.purpose == OPINION else model(request), now=NOW)
    assert "deploys" in list_names(store), "its reasons were not judged"


def test_a_number_in_words_is_the_same_number_in_digits(store: FileStore) -> None:
    put(store, "words", make_text("Rota", "How many weeks a rota lasts", "A rota of support lasts twelve weeks."))
    put(store, "digits", make_text("Turns", "Length of turns in support", "Each rota takes 12 weeks."))
    model = DreamingModel([use(delete("digits", "said by words")), end()], ["Each rota takes 12 weeks."])
    dream(store, model=model, now=NOW)
    assert "digits" not in list_names(store)


def test_the_judge_is_told_the_day_of_each_log_entry(store: FileStore) -> None:
    append_log(store, "From next Monday the API allows 400 requests.", now=NOW - timedelta(days=1))
    model = DreamingModel([use(delete("limit-new", "the log says so")), end()])
    dream(store, model=model, now=NOW)
    assert "typed by the person on Wednesday, 2026-03-04:\nFrom next Monday" in model.opinions[0]


MOVED = "Billing bugs are tracked in the project MONEY since March; BILL is closed."


def make_pinned(store: FileStore, days: float) -> str:
    """A memory about the subject of the pinned one, and what that one says."""
    put(store, "money", make_text("Money", "Where billing bugs are tracked now", MOVED, "reference"), days=days)
    return store.read("tracker").body.strip()


@pytest.mark.parametrize("days", [0.5, 400])
def test_a_newer_contradiction_with_a_pinned_memory_is_one_question(store: FileStore, days: float) -> None:
    old, before = make_pinned(store, days), store.read("tracker").text
    calls = use(
        write("tracker", store.read("tracker").text.replace(old, MOVED), "it moved", "money"),
    )
    dream(store, model=DreamingModel([calls, end()], [no_longer(old)]), now=NOW)
    assert store.read("tracker").text == before
    items = [item for item in store.inbox() if item.name == "tracker"]
    assert [item.why for item in items] == [PINNED] * (days < 1)
    for item in items:
        approve(store, item)
        assert MOVED in store.read("tracker").body and store.read("tracker").header.pinned


def test_one_repaired_index_line_is_one_line(store: FileStore) -> None:
    assert dream(store, now=NOW).text == "1 index line repaired"
