"""English put together from slots: ways of asking that no list foresees, ordinary sentences that only look like them,
and the type of what is asked for."""

from datetime import UTC, datetime

import pytest

from memdir.extraction.find import MemoryRequest, find_requests
from memdir.records import Kind, Message

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)
ANSWER = "I changed the loader and pushed it. Should I go on?"


def hear(text: str, before: str | None = None) -> tuple[MemoryRequest, ...]:
    said = [Message("assistant", before, id="a1")] if before is not None else []
    return find_requests([*said, Message("user", text, id="u1", at=NOW)], now=NOW)


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("one to keep: the invoices are numbered per country", "numbered"),
        ("Burn this into your memory: account 42 is the demo account", "demo account"),
        ("a fact that will come up again: the sensor sends Fahrenheit", "sensor"),
        ("be aware for all that follows that the mobile team works on the same branch", "same branch"),
        ("the vendor only ships on Mondays - that's worth remembering", "Mondays"),
        ("the vendor only ships on Mondays. You'll need that again.", "Mondays"),
        ("Please remember the following. The staging db is reset nightly.", "staging"),
        ("in every reply, put the answer on top", "on top"),
        ("as long as I'm your user, no emojis in commits", "no emojis"),
        ("when writing docs for us, use the second person", "second person"),
        ("your replies should never be longer than a screen", "screen"),
        ("treat warnings as errors whenever you build something for us, okay?", "warnings"),
        ("leave my blank lines alone. goes for all files, all projects", "blank lines"),
        ("it'd be great if you could stick with type hints everywhere, now and later", "type hints"),
        ("can we agree that you never touch the vendor folder?", "vendor folder"),
        ("looks good but never use lodash again", "lodash"),
    ],
)
def test_a_wish_is_heard_in_words_that_no_list_has(text: str, word: str) -> None:
    (wish,) = hear(text)
    assert word in wish.body and wish.is_explicit


@pytest.mark.parametrize(
    ("text", "body"),
    [
        (
            "Fix the login bug and from now on run the auth tests before pushing.",
            "Run the auth tests before pushing.\n",
        ),
        ("push it and remember we never push on Fridays", "We never push on Fridays.\n"),
        ("rename it please and from now on use kebab-case for file names", "Use kebab-case for file names.\n"),
    ],
)
def test_a_wish_behind_a_task_is_heard_without_a_comma_and_without_the_task(text: str, body: str) -> None:
    (wish,) = hear(text)
    assert wish.body == body


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("I'd rather you showed only the changed lines", "changed lines"),
        ("generated code is not edited by hand", "by hand"),
        ("it isn't your job to close my tickets, I close them", "tickets"),
        ("we say customers not users, it's a thing with our CEO", "customers"),
        ("nothing user-visible goes in without a feature flag", "feature flag"),
        ("I like my commits small", "small"),
        ("put the conclusion first", "conclusion"),
        ("your answers are too long", "too long"),
        ("Nope, feature flags first. Nothing goes in without one.", "eature flags"),
    ],
)
def test_a_way_of_working_is_heard_after_an_answer(text: str, word: str) -> None:
    (wish,) = hear(text, ANSWER)
    assert wish.kind is Kind.FEEDBACK and word in wish.body


@pytest.mark.parametrize(
    "text",
    [
        "please remember the scroll position when the user comes back to the list",
        "remove the prints in every file",
        "replace it in all files",
        "hide the sidebar by default",
        "always show the newest first in the list",
        "nothing is logged without debug",
        "if something fails, log it and go on",
        "dates are never shown in the list",
        "we keep losing the connection",
        "it works but always shows a warning",
        "hold on, don't merge until CI is green",
        "I'd rather you didn't start the migration before I'm back",
        "for the next hour answer only with code",
        "that's good to know. I've been trying to distract my fish",
        "Wow, thank you so much for all of your recommendations!",
        "I prefer routes with minimal traffic and nice scenery.",
        "make this sound nicer: please always lock the door",
        "save this to config.yaml: timeout is 30",
        "I keep seeing the same thing again and again: a timeout",
        "the certificate expired last night, renewing now",
        "Deadline: tomorrow",
    ],
)
def test_what_only_looks_like_a_wish_is_not_heard(text: str) -> None:
    assert hear(text) == () and hear(text, ANSWER) == ()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("both teams share one database", Kind.PROJECT),
        ("test accounts start with 99", Kind.PROJECT),
        ("support closes at 5pm", Kind.PROJECT),
        ("we don't support IE11 any more", Kind.PROJECT),
        ("every invoice needs a VAT number", Kind.PROJECT),
        ("the Jira export takes an hour", Kind.PROJECT),
        ("my client uses Windows 7", Kind.PROJECT),
        ("I never want to see lodash", Kind.FEEDBACK),
        ("you should run the linter before committing", Kind.FEEDBACK),
        ("less text, more code", Kind.FEEDBACK),
        ("my PRs need a changelog entry", Kind.FEEDBACK),
        ("I like to be called Sam", Kind.USER),
        ("English isn't my first language", Kind.USER),
        ("I'm vegan", Kind.USER),
        ("we use Linear for tickets", Kind.REFERENCE),
        ("ask in #data when the model is unclear", Kind.REFERENCE),
    ],
)
def test_the_type_follows_what_is_said_and_not_a_word_in_it(text: str, kind: Kind) -> None:
    (wish,) = hear(f"remember that {text}")
    assert wish.kind is kind


def test_a_chinese_pointer_needs_no_space_before_the_name() -> None:
    (wish,) = hear("线上报警都在飞书的值班群里")
    assert wish.kind is Kind.REFERENCE


@pytest.mark.parametrize(
    ("text", "body"),
    [
        ("no, don't use npm here, we use pnpm", "Don't use npm here, we use pnpm."),
        ("don't use npm, use pnpm instead", "Don't use npm, use pnpm instead."),
        ("please don't apologize so much", "Don't apologize so much."),
        ("don't write tests that call the network", "Don't write tests that call the network."),
        ('when I say "ship it" I mean open a PR', 'When the user says "ship it" they mean open a PR.'),
    ],
)
def test_a_short_correction_is_heard(text: str, body: str) -> None:
    (wish,) = hear(text, ANSWER)
    assert (wish.kind, wish.body.strip()) == (Kind.FEEDBACK, body)


@pytest.mark.parametrize(
    "text",
    [
        "don't use a loop there, use a comprehension instead",
        "don't run the tests now, we do that later",
        "don't apologize for that",
        "can you remember what the error was?",
        "if I click the button I want a dialog",
    ],
)
def test_what_only_looks_like_one_is_not(text: str) -> None:
    assert hear(text, ANSWER) == ()


@pytest.mark.parametrize("text", ["remember that I prefer tabs", "can you remember that I prefer tabs?"])
def test_what_was_plainly_asked_for_may_say_one_thing_only(text: str) -> None:
    (wish,) = hear(text)
    assert wish.body.strip() == "The user prefers tabs."


def test_a_lead_is_no_part_of_what_is_told() -> None:
    (wish,) = hear("just so you know, we're migrating to Postgres 17 in March")
    assert wish.body.strip() == "We're migrating to Postgres 17 in March."
