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
    Toolless,
    delete,
    end,
    image,
    list_cases,
    make_store,
    make_text,
    no_longer,
    operations,
    put,
    use,
    write,
)
from memdir.dream import dream
from memdir.dream.logs import append_log
from memdir.dream.review import PINNED
from memdir.extraction.provenance import PURPOSE as OPINION
from memdir.format.frontmatter import parse_fields
from memdir.records import Reply, Request, When
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


MARIT = "The release manager is Marit since February."
ASKO = "The release manager is Asko now, since March."
ROLE = "Who manages releases of the web shop"


def rename_manager(store: FileStore, accepted: list[str]) -> str:
    """A memory whose name says what is no longer so, and one that links to it, after a dream. Returns its report."""
    put(store, "release-manager-marit", make_text("Release manager", ROLE, MARIT), days=9)
    put(store, "asko", make_text("Release duty", ROLE, ASKO), days=1)
    put(
        store,
        "signing",
        make_text("Signing", "Who signs builds of the shop", "See [[release-manager-marit]] for who signs builds."),
    )
    row = {"action": "update", "name": "release-manager-marit", "new_name": "release-manager", "body": ASKO}
    model = Toolless([operations(row)], [no_longer(MARIT), *accepted])
    return dream(store, model=model, now=NOW).text


def test_a_memory_whose_subject_changed_is_renamed_with_its_links_and_index_line(store: FileStore) -> None:
    before = image(store.root)
    assert "renamed release-manager-marit to release-manager" in rename_manager(store, [])
    assert ASKO in store.read("release-manager").text and "release-manager-marit" not in list_names(store)
    assert "[[release-manager]]" in store.read("signing").text
    assert "(release-manager.md)" in (index := store.index()) and "marit" not in index
    (change,) = [change for change in store.changes() if change.verb == "dream"]
    store.undo(change.id)
    files = image(store.root)
    assert files["release-manager-marit.md"].decode().endswith(f"{MARIT}\n") and before.items() - files.items() <= {
        ("MEMORY.md", before["MEMORY.md"])
    }


MOMENTS = {"always": True, "paths": ["replies/*.md"], "commands": ["git diff"], "content": ["vault key"]}


def test_memories_without_moments_get_those_that_the_judge_lets_pass(store: FileStore) -> None:
    typed = make_text("Typed", "How replies are typed here", "Replies are typed.", "feedback", "when: {paths: [a]}")
    (store.root / "typed.md").write_text(typed, encoding="utf-8")
    rows = [{"action": "update", "name": name, "when": MOMENTS} for name in ("terse", "typed", "tracker")]
    model = Toolless([operations(*rows)], ["in the files “replies/*.md”", "at the command “git diff”"])
    dream(store, model=model, now=NOW)
    assert "Without `when`: " in model.requests[0].messages[0].text
    assert parse_fields(store.read("terse").text).when == When(paths=("replies/*.md",), commands=("git diff",))
    assert (
        parse_fields(store.read("typed").text).when == When(paths=("a",)) and "when" not in store.read("tracker").text
    )
