"""memdir's own reminders are taken out of what people wrote, so that a memory never feeds itself."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdir.conversation.typed import strip_reminders
from memdir.recall.reminder import render_reminder
from memdir.records import Excerpt, Header, Kind, Scope, Signature
from tables import table

NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def render(text: str = "Use tabs.", *, days: int = 0, wrap: bool = True, path: str = "/home/me/m/a b.md") -> str:
    header = Header(
        "a", "A", "About a", Kind.USER, Scope.PRIVATE, NOW - timedelta(days=days), False, Signature(0, 0, 0, 0)
    )
    return render_reminder(Excerpt(header, path, text, "d", 1, 1), now=NOW, wrap=wrap)


@pytest.mark.parametrize("days", [0, 1, 30])
@pytest.mark.parametrize("wrap", [True, False])
def test_a_reminder_is_stripped_in_both_forms_and_at_every_age(days: int, wrap: bool) -> None:
    reminder = render("Use tabs.\n\nAlways.", days=days, wrap=wrap)
    assert strip_reminders(reminder) == ""
    assert strip_reminders(f"what I typed\n\n{reminder}") == "what I typed"


def test_several_with_words_between_them_leave_the_words() -> None:
    text = f"{render()}\nfirst\n{render('B.', days=9)}\nsecond\n{render('C.')}"
    assert strip_reminders(text).split() == ["first", "second"]


def test_one_inside_a_hosts_block_goes_with_it() -> None:
    nested = f"<system-reminder>\nhook says:\n{render()}\n{render('B.', wrap=False)}\n</system-reminder>\nmine"
    assert strip_reminders(nested) == "mine"
    behind = f"<system-reminder>UserPromptSubmit hook context: {render(days=5, wrap=False)}\n</system-reminder>mine"
    assert strip_reminders(behind) == "mine"


def test_one_that_was_cut_off_goes_to_the_end_and_one_without_its_beginning_from_the_start() -> None:
    assert strip_reminders("mine\n" + render("long text " * 50)[:200]) == "mine"
    assert strip_reminders("…nd always use tabs.\n</system-reminder>\nmine") == "mine"


def test_bare_ones_one_after_another_are_all_stripped() -> None:
    bare = "\n\n".join(render(f"Text {days}.", days=days, wrap=False) for days in (0, 1, 5, 40))
    assert strip_reminders(f"mine\n{bare}") == "mine"


@table(
    "text",
    [
        "<system-reminder>\nThe todo list is empty.\n</system-reminder>\nmine",
        "Memory: I forget things.",
        "Memory: see notes.md: it has all",
        "what does `<system-reminder>` mean?",
        "",
    ],
)
def test_what_is_not_ours_stays_to_the_letter(text: str) -> None:
    assert strip_reminders(text) == text


@given(st.text(), st.integers(0, 5000), st.booleans())
def test_whatever_a_memory_holds_nothing_of_it_is_left(body: str, days: int, wrap: bool) -> None:
    assert strip_reminders(f"mine\n{render(body, days=days, wrap=wrap)}").split() == ["mine"]
