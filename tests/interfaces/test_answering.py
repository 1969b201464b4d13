"""The assistant without a model: what it says of what was recalled and kept."""

from datetime import UTC, datetime, timedelta

from memdir.extraction import ExtractReason, ExtractResult
from memdir.interfaces.chat_commands import answer_question, asks_memory, describe_learned, is_overview, list_known
from memdir.recall.pipeline import RecallResult, RecallSkip
from memdir.records import Excerpt, Header, Kind, Scope, Signature
from tables import read_rows, table

ROWS = read_rows("answering")
NOW = datetime(2026, 3, 9, 9, tzinfo=UTC)


def make_excerpt(name: str, text: str, *, days: int = 0, score: float = 1.0, caveat: str = "") -> Excerpt:
    when = NOW - timedelta(days=days)
    header = Header(name, name, text, Kind.PROJECT, Scope.PRIVATE, when, False, Signature(0, 0, 0, 0))
    return Excerpt(header, f"/m/{name}.md", text, "", 1, 1, score, caveat=caveat)


def ask(query: str, *memories: Excerpt, skipped: RecallSkip | None = None, asks: bool = True) -> str:
    return answer_question(RecallResult(query, "local", (), memories, skipped), now=NOW, asks=asks).text


def test_one_memory_is_quoted_with_name_and_age() -> None:
    said = ask("when do we deploy?", make_excerpt("deploys", "We deploy on Tuesdays."))
    assert said == "We deploy on Tuesdays. (deploys, noted today)"
    yesterday = ask("when do we deploy?", make_excerpt("deploys", "We deploy on Tuesdays.", days=1))
    assert yesterday.endswith("(deploys, noted yesterday)")
    old = ask("when do we deploy?", make_excerpt("deploys", "We deploy on Tuesdays.", days=9))
    assert old.endswith("(deploys, noted 9 days ago; check that it still holds)")


def test_a_caveat_that_is_known_takes_the_place_of_the_general_one() -> None:
    said = ask("when?", make_excerpt("deploys", "We deploy on Tuesdays.", days=9, caveat="`deploy.sh` is gone."))
    assert said == "We deploy on Tuesdays. (deploys, noted 9 days ago) `deploy.sh` is gone."


def test_of_a_long_memory_the_nearest_sentence_speaks_and_its_reason_when_that_is_asked() -> None:
    body = "The API is frozen. Deploys happen on Tuesdays. Lunch is at noon.\n\n**Why:** Support is there then."
    memory = make_excerpt("life", body)
    assert ask("when are deploys?", memory).startswith("Deploys happen on Tuesdays. (life")
    assert ask("why are deploys then?", memory).startswith("Support is there then. (life")
    assert ask("tell me about it all", memory).startswith("The API is frozen. (life")


def test_memories_that_disagree_say_so_newest_first() -> None:
    older = make_excerpt("old", "The nightly build starts at 02:00.", days=8, score=1.2)
    newer = make_excerpt("new", "The nightly build starts at 03:30.", days=2)
    found = RecallResult("when does the nightly build start?", "local", (), (older, newer))
    answer = answer_question(found, now=NOW)
    assert answer.is_conflict and answer.names == ("new", "old")
    first, second = answer.text.split("\n")
    assert first.startswith("My memories disagree; the newest says: The nightly build starts at 03:30. (new, ")
    assert second.startswith("Older: The nightly build starts at 02:00. (old, ")


def test_memories_that_only_differ_do_not_disagree_and_far_ones_are_silent() -> None:
    one = make_excerpt("build", "The nightly build starts at 02:00.", score=1.0)
    two = make_excerpt("tests", "The nightly tests run for an hour.", score=0.8)
    far = make_excerpt("lunch", "Lunch is at noon.", score=0.2)
    answer = answer_question(RecallResult("what happens at night?", "local", (), (one, two, far)), now=NOW)
    assert not answer.is_conflict and answer.names == ("build", "tests") and "disagree" not in answer.text


def test_nothing_is_said_to_be_nothing() -> None:
    assert (
        ask("who pays?", skipped=RecallSkip.NOTHING_FITS)
        == "I know nothing about that. Tell me and I will remember it."
    )
    assert ask("who pays?", skipped=RecallSkip.EMPTY).startswith("I know nothing about that.")
    assert ask("it rains", skipped=RecallSkip.PAUSED, asks=False) == "I saved nothing: memory is paused."
    assert "One word is too little" in ask("lunch", skipped=RecallSkip.ONE_WORD)
    assert ask("who pays?", skipped=RecallSkip.PAUSED) == "I looked nothing up: memory is paused."


def test_what_a_memory_says_cannot_break_the_line_it_is_told_in() -> None:
    said = ask("what?", make_excerpt("x", "One\x1b[31m two. " + "long " * 200))
    assert "\x1b" not in said and "\n" not in said and len(said) < 500


def test_what_was_learned_is_told_by_its_description() -> None:
    text = "---\nname: Deploys\ndescription: We deploy on Tuesdays\ntype: project\n---\n\nWe deploy on Tuesdays.\n"
    reasons = (
        ExtractReason("deploys", "create", "asked for", "", text),
        ExtractReason("old", "forget", "asked to forget", "forget old"),
        ExtractReason("", "unclear", "asked to forget", "forget that thing"),
        ExtractReason("page", "wait", "foreign text", "", text),
    )
    assert describe_learned(ExtractResult(reasons=reasons)).split("\n") == [
        "No memory is clearly about that, or more than one is: /forget NAME removes one, /memory list has the names.",
        "Noted: We deploy on Tuesdays. /undo reverts it.",
        "Forgotten: old. /undo brings it back.",
        "This needs review (/inbox): We deploy on Tuesdays",
    ]
    assert describe_learned(ExtractResult()) == ""


@table("text asks", ROWS["a_question_is_told_from_a_statement"])
def test_a_question_is_told_from_a_statement(text: str, asks: bool) -> None:
    assert asks_memory(text) is asks


@table("text", ROWS["who_asks_for_all_there_is_is_understood"])
def test_who_asks_for_all_there_is_is_understood(text: str) -> None:
    assert is_overview(text)


@table(
    "text",
    ["what do you know about the freeze?", "who am I to judge this code?", "remember what you know", "what do you do?"],
)
def test_who_asks_for_something_is_not_told_everything(text: str) -> None:
    assert not is_overview(text)


def test_all_there_is_is_told_newest_first_and_not_endlessly() -> None:
    headers = [make_excerpt(f"m{number}", f"Fact {number}.", days=number).header for number in range(8)]
    told = list_known(reversed(headers), "what do you remember?")
    assert told.names == ("m0", "m1", "m2", "m3", "m4") and "And 3 more" in told.text
    assert list_known(headers, "who am I?").text.startswith("Nothing about you yet. I remember:")
    assert list_known([], "who am I?").text.startswith("I remember nothing yet.")
