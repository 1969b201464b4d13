"""The local selector on real files: what beats what, and what may only break a tie."""

from pathlib import Path

import pytest

from bench import bench_recall
from loads import bench
from memdir.recall.select import WEAK, LocalSearch
from memdir.records import Query, Scope
from memdir.store.files import FileStore
from search_stores import NOW, ask, ask_all, write_memory

FILLER = "The build runs on the shared machines and reports to the channel of the team every morning."
MANY = 5_000


def write_crowd(folder: Path, count: int = 12) -> None:
    """Memories about other things, so that rarity means something."""
    topics = "invoice printer holiday parking canteen badge laptop monitor headset keyboard elevator garden".split()
    for number in range(count):
        topic = topics[number % len(topics)]
        write_memory(folder, f"{topic}-{number}", f"Where the {topic} of floor {number} is kept", FILLER)


def test_a_description_beats_a_passing_mention_in_a_body(memory: Path) -> None:
    write_crowd(memory)
    long = "\n".join([FILLER] * 10 + ["Somebody also spoke of the staging database once."] + [FILLER] * 10)
    write_memory(memory, "meeting", "Notes of the spring meeting", long)
    write_memory(memory, "resets", "The staging database is reset every Sunday night", "Save your data elsewhere.")
    assert ask(memory, "when is the staging database reset?")[0] == "resets"
    assert ask(memory, "staging database")[0] == "resets"


def test_the_best_passage_of_a_long_memory_counts(memory: Path) -> None:
    write_crowd(memory)
    lines = [FILLER] * 40  # words that no table knows, so that only the passage can tell the two apart
    told = [*lines, "Zorbit, quenlar, vextim, drolnap.", *lines]
    write_memory(memory, "runbook", "What to do", "\n".join(told), title="Notes", modified="2024-05-01")
    scattered = [*lines, *(f"{word}." for word in "Zorbit quenlar vextim drolnap".split()), *lines]
    write_memory(memory, "diary", "What to do", "\n".join(scattered), title="Notes", modified="2026-05-01")
    assert ask(memory, "zorbit quenlar vextim drolnap")[0] == "runbook"


def test_what_only_stands_nearby_in_a_small_directory_is_not_told_with_the_answer(memory: Path) -> None:
    write_memory(memory, "deploys", "We deploy on Tuesdays only", "Support is staffed then.")
    write_memory(memory, "tracker", "Pipeline bugs are tracked in Linear")
    write_memory(memory, "role", "The user is a data scientist, new to Rust")
    assert ask(memory, "when do we deploy?") == ["deploys"]
    with FileStore(memory) as store, LocalSearch([store]) as search:
        found = search.search(Query("when do we deploy?", now=NOW, wide=True), 5)
    assert {(pick.header.name, pick.dropped) for pick in found.passed_over} == {("tracker", WEAK), ("role", WEAK)}


def test_two_that_fit_are_both_told(memory: Path) -> None:
    write_memory(memory, "linear", "Pipeline bugs are tracked in Linear")
    write_memory(memory, "jira", "Pipeline bugs are tracked in Jira")
    write_memory(memory, "role", "The user is a data scientist, new to Rust")
    assert set(ask(memory, "where are pipeline bugs tracked?")) == {"linear", "jira"}


@pytest.mark.parametrize("pinned", ["first", "second"])
def test_a_pin_breaks_a_tie(pinned: str, memory: Path) -> None:
    write_crowd(memory)
    for name in ("first", "second"):
        write_memory(memory, name, "The release train leaves on Tuesday", title="Train", pinned=name == pinned)
    assert ask(memory, "when does the release train leave?")[0] == pinned


@pytest.mark.parametrize("newer", ["first", "second"])
def test_of_equals_the_newer_comes_first(newer: str, memory: Path) -> None:
    write_crowd(memory)
    for name in ("first", "second"):
        day = "2026-05-18" if name == newer else "2025-11-18"
        write_memory(memory, name, "The release train leaves on Tuesday", title="Train", modified=day)
    assert ask(memory, "when does the release train leave?")[0] == newer


@pytest.mark.parametrize("linked", ["first", "second"])
def test_a_link_from_the_best_match_breaks_a_tie(linked: str, memory: Path) -> None:
    write_crowd(memory)
    body = f"Payments go through the gateway; the settlement ledger is explained in [[{linked}]]."
    write_memory(memory, "payments", "How payments reach the gateway and the settlement ledger", body)
    for name in ("first", "second"):
        write_memory(memory, name, "The ledger closes at noon", title="Ledger")
    found = ask(memory, "how do payments reach the gateway and the settlement ledger?")
    assert found[0] == "payments" and found[1] == linked


def test_pin_recency_and_links_together_do_not_beat_a_clearly_better_match(memory: Path) -> None:
    write_crowd(memory)
    write_memory(
        memory, "old", "Canary deploys watch the error rate for half an hour", "Then go on.", modified="2024-01-01"
    )
    write_memory(memory, "loud", "Deploys are announced in the channel", FILLER, modified="2026-05-20", pinned=True)
    write_memory(memory, "hub", "Hub of deploys", "See [[loud]] for canary matters.", modified="2026-05-20")
    assert ask(memory, "how long do canary deploys watch the error rate?")[0] == "old"


def test_a_question_that_names_a_day_prefers_what_was_saved_then(memory: Path) -> None:
    write_crowd(memory)
    for day in ("2026-02-03", "2026-03-05", "2026-04-07"):
        write_memory(memory, f"standup-{day}", "What was decided in the standup", title="Standup", modified=day)
    assert ask(memory, "what was decided in the standup on 5 March?")[0] == "standup-2026-03-05"


def test_the_projects_memory_hides_the_users_of_the_same_name(tmp_path: Path) -> None:
    own, users = tmp_path / "project", tmp_path / "user"
    write_crowd(own)
    write_memory(own, "formatter", "Here the zebra formatter is not used", "The wheel is used instead.")
    write_memory(users, "formatter", "Prefers the zebra formatter with two blanks", "Zebra formatter everywhere.")
    with FileStore(own) as first, FileStore(users, scope=Scope.USER) as second:
        found = ask_all([first, second], "zebra formatter with two blanks")
    named = [pick.header.scope for pick in found if pick.header.name == "formatter"]
    assert named == [Scope.PRIVATE]


def test_the_oldest_of_thousands_is_found_by_a_fitting_question(memory: Path) -> None:
    write_memory(
        memory, "oldest", "The barometer service must not be restarted during a storm", FILLER, modified="2019-01-01"
    )
    for number in range(MANY):
        write_memory(memory, f"note-{number}", f"Service {number} is restarted on Monday", f"Storm of mail {number}.")
    assert ask(memory, "may I restart the barometer service in a storm?")[0] == "oldest"


def test_an_empty_directory_and_an_empty_question_get_nothing(memory: Path) -> None:
    memory.mkdir(parents=True)
    assert ask(memory, "anything at all?") == []
    write_crowd(memory)
    assert ask(memory, "") == [] and ask(memory, "what is the?") == []


@pytest.mark.parametrize(("name", "least"), [("prefeval_topics", 0.25), ("longmemeval_pooled", 0.88)])
def test_meaning_takes_no_first_place_from_words_and_more_is_found_than_by_plain_bm25(name: str, least: float) -> None:
    """R11 (plain BM25: .182 and .852); `benchmarks/recall.py` measures all six sets."""
    files = bench(name) / "corpus.jsonl", bench(name) / "queries.jsonl"
    words, both = (bench_recall(*files, now=NOW, semantic=semantic).all for semantic in (False, True))
    assert both.hit_at_1 >= words.hit_at_1 and both.any_at_k >= least
