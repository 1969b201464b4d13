"""Requests found by patterns: what is found, what is not, that it is kept as it was said, and no negation is lost."""

import re
import time
from datetime import UTC, datetime

import pytest

from memdir.errors import FormatError
from memdir.extraction.find import MemoryRequest, compose_memory, find_forgetting, find_requests, find_unwanted
from memdir.format.frontmatter import check_description, make_slug
from memdir.language.requests import RequestCategory
from memdir.records import Kind, Message
from tables import read_rows, table

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)  # a Monday
ROWS = read_rows("requests")


def find_said(text: str, before: str | None = None, at: datetime = NOW) -> tuple[MemoryRequest, ...]:
    said = [Message("assistant", before, id="a1")] if before is not None else []
    return find_requests([*said, Message("user", text, id="u1", at=at)], now=NOW)


def find_one(text: str, before: str | None = None) -> MemoryRequest:
    (wish,) = find_said(text, before)
    return wish


@table("text kind body", ROWS["a_request_is_heard_in_six_languages"])
def test_a_request_is_heard_in_six_languages(text: str, kind: Kind, body: str) -> None:
    wish = find_one(text)
    assert (wish.kind, wish.body.strip(), wish.is_explicit) == (kind, body, True)
    assert (wish.action, wish.message, wish.at, wish.quote) == ("save", "u1", NOW, text)


@table("text word", ROWS["a_preference_or_a_convention_is_feedback_and_nobody_asked_for_it"])
def test_a_preference_or_a_convention_is_feedback_and_nobody_asked_for_it(text: str, word: str) -> None:
    wish = find_one(text)
    assert (wish.category, wish.kind, wish.is_explicit) == (RequestCategory.PREFERENCE, Kind.FEEDBACK, False)
    assert wish.body.strip() == text and word in wish.body


@table("text", ROWS["what_has_its_subject_in_another_message_is_not_kept"])
def test_what_has_its_subject_in_another_message_is_not_kept(text: str) -> None:
    assert find_said(text, "I listed the results as a short table.") == ()


@table("text", ROWS["what_is_not_to_be_kept_is_declined_with_a_question"])
def test_what_is_not_to_be_kept_is_declined_with_a_question(text: str) -> None:
    assert find_said(text) == () and find_unwanted(text)
    with pytest.raises(FormatError) as refused:
        compose_memory(text, now=NOW)
    assert "what was surprising" in str(refused.value.hint)


@table(
    "text category kind word",
    [
        ("I'm a nurse and code in my spare time", RequestCategory.IDENTITY, Kind.USER, "I'm a nurse"),
        ("the beta ships next Friday", RequestCategory.PLAN, Kind.PROJECT, "2026-11-20"),
        ("we decided yesterday to stay on Postgres", RequestCategory.FACT, Kind.PROJECT, "2026-11-15"),
        ("crash reports go to Sentry, project mobile", RequestCategory.POINTER, Kind.REFERENCE, "Sentry"),
        ("timeout has to be 30 seconds because the bank is slow", RequestCategory.FACT, Kind.PROJECT, "bank is slow"),
    ],
)
def test_what_is_worth_keeping_is_heard_without_being_asked(
    text: str, category: RequestCategory, kind: Kind, word: str
) -> None:
    wish = find_one(text)
    assert (wish.category, wish.kind) == (category, kind)
    assert word in wish.body and wish.why


@table("text target", ROWS["a_request_to_forget_names_its_target"])
def test_a_request_to_forget_names_its_target(text: str, target: str) -> None:
    wish = find_one(text)
    assert (wish.action, wish.category, wish.target, wish.is_explicit) == (
        "forget",
        RequestCategory.FORGET,
        target,
        True,
    )


def test_dates_are_seen_from_the_message_and_not_from_now() -> None:
    then = datetime(2026, 3, 2, 9, tzinfo=UTC)  # a Monday
    (wish,) = find_said("remember the freeze starts on Thursday", at=then)
    assert "2026-03-05" in wish.body and "2026-03-05" in wish.description
    assert "2026-11-19" in find_requests([Message("user", "remember the freeze starts on Thursday")], now=NOW)[0].body


def test_a_reason_stays_with_what_it_is_the_reason_for() -> None:
    wish = find_one("from now on squash merge, because bisect needs a clean history")
    assert wish.body == "from now on squash merge, because bisect needs a clean history\n"
    both = find_one("Never use force push on shared branches. We lost a day of work to that once.")
    assert both.body.endswith("We lost a day of work to that once.\n")
    assert find_one("Never force push. Fix the login test now.").body == "Never force push.\n"


def test_a_word_that_turns_the_sentence_round_is_not_taken_for_an_interjection() -> None:
    assert find_one("no deploys after 4pm on Fridays, please remember").body == "no deploys after 4pm on Fridays\n"
    assert find_one("No, from now on deploy on Fridays only.").body == "from now on deploy on Fridays only.\n"


def test_a_list_gives_one_memory_for_each_item() -> None:
    both = find_said(
        "I want you to remember two things: 1) we squash merge, 2) branch names start with the ticket number"
    )
    assert [wish.body.strip() for wish in both] == ["we squash merge", "branch names start with the ticket number"]
    assert len(find_said("Remember:\n- no force pushes\n- squash before merging")) == 2


def test_a_request_can_point_at_the_sentence_before_it() -> None:
    assert "sandbox" in find_one("The vendor sandbox is off on Sundays. Please remember that.").body
    assert find_said("Please remember that.") == ()


def test_only_the_asked_part_of_a_message_is_kept() -> None:
    wish = find_one(
        "fix the login test first. And remember for later that QA reads release notes as plain text. Then tag it."
    )
    assert wish.body == "QA reads release notes as plain text.\n"


def test_only_what_a_person_typed_is_heard() -> None:
    text = "remember that we deploy on Tuesdays"
    others = [Message("assistant", text), Message("tool", text), Message("user", text, is_meta=True)]
    assert find_requests(others, now=NOW) == ()


@table("text", ROWS["a_task_a_question_a_quotation_or_a_report_is_not_a_wish"])
def test_a_task_a_question_a_quotation_or_a_report_is_not_a_wish(text: str) -> None:
    assert find_said(text) == () and find_said(text, "I changed the code.") == ()


@table("text", ROWS["a_message_that_is_not_to_be_kept_gives_nothing"])
def test_a_message_that_is_not_to_be_kept_gives_nothing(text: str) -> None:
    assert find_said(text) == ()


@table("text", ROWS["a_secret_is_never_kept"])
def test_a_secret_is_never_kept(text: str) -> None:
    assert find_said(text) == ()


@table("text title", ROWS["a_title_names_the_subject_in_a_few_words"])
def test_a_title_names_the_subject_in_a_few_words(text: str, title: str) -> None:
    wish = find_one(text)
    assert wish.title == title and len(make_slug(title)) < 60
    check_description(wish.description, wish.kind)


def test_a_draft_is_composed_from_free_text() -> None:
    draft = compose_memory("the staging db is reset every Sunday", now=NOW)
    assert (draft.kind, draft.title) == (Kind.PROJECT, "Staging db reset Sunday")
    assert draft.body == "the staging db is reset every Sunday\n"
    assert compose_memory("the staging db is reset every Sunday", now=NOW, kind=Kind.REFERENCE).kind is Kind.REFERENCE
    assert compose_memory("I prefer short answers. The diff is enough.", now=NOW).kind is Kind.FEEDBACK
    assert compose_memory("I prefer tabs", now=NOW).body == "I prefer tabs\n"
    assert compose_memory("I use vim; remember my leader key is comma", now=NOW).body.startswith("I use vim")
    assert compose_memory("please remember that we squash", now=NOW).body == "we squash\n"


def test_a_text_that_says_nothing_is_refused_with_a_hint() -> None:
    with pytest.raises(FormatError) as refused:
        compose_memory("ok then", now=NOW)
    assert "staging db" in str(refused.value.hint)


def test_a_text_that_asks_to_forget_is_recognised() -> None:
    assert find_forgetting("forget that I use vim", now=NOW)
    assert not find_forgetting("the parser forgets the last token of a line", now=NOW)


def test_a_long_message_is_heard_in_good_time() -> None:
    text = ("I looked at how the scheduler picks its jobs and the queue is polled far too often for that. " * 22)[:2000]
    find_said(text)  # compiles
    spent = []
    for _ in range(10):
        begin = time.process_time()
        find_said(text)
        spent.append(time.process_time() - begin)
    assert min(spent) < 0.25  # a few milliseconds; a pattern that backtracks takes seconds


ANSWER = "I changed the loader and pushed it. Should I go on?"


@table("text word", ROWS["a_wish_is_heard_in_words_that_no_list_has"])
def test_a_wish_is_heard_in_words_that_no_list_has(text: str, word: str) -> None:
    (wish,) = find_said(text)
    assert word in wish.body and wish.is_explicit


@table("text body", ROWS["a_wish_behind_a_task_is_heard_without_a_comma_and_without_the_task"])
def test_a_wish_behind_a_task_is_heard_without_a_comma_and_without_the_task(text: str, body: str) -> None:
    (wish,) = find_said(text)
    assert wish.body == body


@table("text word", ROWS["a_way_of_working_is_heard_after_an_answer"])
def test_a_way_of_working_is_heard_after_an_answer(text: str, word: str) -> None:
    (wish,) = find_said(text, ANSWER)
    assert wish.kind is Kind.FEEDBACK and word in wish.body


@table("text", ROWS["what_only_looks_like_a_wish_is_not_heard"])
def test_what_only_looks_like_a_wish_is_not_heard(text: str) -> None:
    assert find_said(text) == () and find_said(text, ANSWER) == ()


@table("text kind", ROWS["the_type_follows_what_is_said_and_not_a_word_in_it"])
def test_the_type_follows_what_is_said_and_not_a_word_in_it(text: str, kind: Kind) -> None:
    (wish,) = find_said(f"remember that {text}")
    assert wish.kind == kind


def test_a_chinese_pointer_needs_no_space_before_the_name() -> None:
    (wish,) = find_said("线上报警都在飞书的值班群里")
    assert wish.kind is Kind.REFERENCE


@table("text", ROWS["a_short_correction_is_kept_as_it_was_said"])
def test_a_short_correction_is_kept_as_it_was_said(text: str) -> None:
    (wish,) = find_said(text, ANSWER)
    assert (wish.kind, wish.body.strip()) == (Kind.FEEDBACK, text.removeprefix("no, "))


@table("text", ROWS["what_only_looks_like_one_is_not"])
def test_what_only_looks_like_one_is_not(text: str) -> None:
    assert find_said(text, ANSWER) == ()


def test_a_question_that_asks_to_remember_is_a_request() -> None:
    assert find_one("can you remember that I prefer tabs?").body == "I prefer tabs\n"


BEFORE = "I have pushed the change straight to main and added a summary."

# What was said, and what the saved body must still say.
KEPT = [row for rows in ROWS["KEPT"].values() for row in rows]

# An exception or a contrast at the end: a short title may leave it out, the rest may not.
CONTRASTS = ROWS["CONTRASTS"]

# Asked for in so many words, with the negation right behind the asking: none of them may be passed over.
ASKED = ROWS["ASKED"]

# A "not" that belongs to the asking, and so may not come into what is kept.
GAINED = ROWS["GAINED"]
_NEGATION = re.compile(
    r"\b(?:not|never|don't|no|nicht|nie|niemals|kein\w*|ne|n'|pas|jamais|nunca)\b|不要|别|忘|ない", re.IGNORECASE
)


@table("text kept", KEPT)
def test_a_negation_is_not_lost(text: str, kept: str) -> None:
    for wish in find_said(text, BEFORE):
        assert wish.action == "save", f"{text!r} is no wish to forget"
        for part in (wish.body, wish.description, wish.title):
            assert re.search(kept, part, re.IGNORECASE), f"{text!r} became {part!r}"


@table("text kept", CONTRASTS)
def test_an_exception_or_a_contrast_is_not_lost(text: str, kept: str) -> None:
    (wish,) = find_said(text, BEFORE)
    for part in (wish.body, wish.description):
        assert re.search(kept, part, re.IGNORECASE), f"{text!r} became {part!r}"


@table("text kept", ASKED)
def test_a_negation_behind_the_asking_is_heard(text: str, kept: str) -> None:
    (wish,) = find_said(text, BEFORE)
    assert wish.is_explicit and wish.action == "save"
    assert re.search(kept, wish.body, re.IGNORECASE), f"{text!r} became {wish.body!r}"


def test_them_means_what_the_sentence_names_not_what_the_agent_said() -> None:
    assert "mocks" in " ".join(wish.body for wish in find_said("I hate mocks, never use them.", BEFORE))


@table("text word", GAINED)
def test_not_to_forget_is_to_remember(text: str, word: str) -> None:
    for wish in find_said(text, BEFORE):
        assert (wish.action, word in wish.body) == ("save", True)
        assert not _NEGATION.search(wish.body), f"{text!r} became {wish.body!r}"


def test_most_of_these_are_heard_at_all() -> None:
    heard = [text for text, _ in [*KEPT, *GAINED] if find_said(text, BEFORE)]
    assert len(heard) >= 0.85 * (len(KEPT) + len(GAINED))


def test_without_a_model_uncertain_lines_are_read_where_nothing_looks_pasted() -> None:
    text = "Please remember:\n- we deploy on Tuesdays\n- the staging db is reset on Sundays"
    doubtful = f"{text}\n\n2026-11-20 10:00:01 ERROR disk full"
    for said, bodies in ((text, ["we deploy on Tuesdays\n", "the staging db is reset on Sundays\n"]), (doubtful, [])):
        requests = find_requests([Message("user", said)], now=NOW, uncertain=True)
        assert [request.body for request in requests][: len(bodies)] == bodies and len(requests) <= 2
