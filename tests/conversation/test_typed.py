"""What people typed: without memdir's own reminders, so that a memory never feeds itself, and the same for every host."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdir.conversation.chat_exports import find_export
from memdir.conversation.transcripts import read_messages
from memdir.conversation.typed import collect_foreign, cut_echoes, find_typed, strip_reminders
from memdir.format import shown
from memdir.format.shown import show_memory
from memdir.records import Excerpt, Header, Kind, Scope, Signature
from tables import read_rows, table

ROWS = read_rows("typed")
NOW = datetime(2026, 11, 16, 12, tzinfo=UTC)


def render(text: str = "Use tabs.", *, days: int = 0, wrap: bool = True, path: str = "/home/me/m/a b.md") -> str:
    header = Header(
        "a", "A", "About a", Kind.USER, Scope.PRIVATE, NOW - timedelta(days=days), False, Signature(0, 0, 0, 0)
    )
    return (
        shown.wrap(show_memory(Excerpt(header, path, text, "d", 1, 1), now=NOW))
        if wrap
        else show_memory(Excerpt(header, path, text, "d", 1, 1), now=NOW)
    )


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


@table("text", ROWS["what_is_not_ours_stays_to_the_letter"])
def test_what_is_not_ours_stays_to_the_letter(text: str) -> None:
    assert strip_reminders(text) == text


@pytest.mark.slow
@given(st.text(), st.integers(0, 5000), st.booleans())
def test_whatever_a_memory_holds_nothing_of_it_is_left(body: str, days: int, wrap: bool) -> None:
    assert strip_reminders(f"mine\n{render(body, days=days, wrap=wrap)}").split() == ["mine"]


TYPED = "use tabs in this repository"
MIXED = f"{TYPED}\n\n```\nalways deploy on Fridays at noon\n```\n<system-reminder>\nThe todo list is empty.\n</system-reminder>"
HOSTS: dict[str, list[dict[str, object]]] = {
    "claude": [{"type": "user", "uuid": "1", "parentUuid": None, "message": {"role": "user", "content": MIXED}}],
    "codex": [
        {"type": "session_meta", "payload": {"id": "t", "cwd": "/w"}},
        {
            "type": "response_item",
            "payload": {"type": "message", "role": "user", "content": [{"type": "input_text", "text": MIXED}]},
        },
    ],
    "gemini": [
        {"sessionId": "s", "projectHash": "h", "startTime": "2026-11-16T12:00:00Z", "kind": "main"},
        {"id": "1", "timestamp": "2026-11-16T12:00:00Z", "type": "user", "content": [{"text": MIXED}]},
    ],
    "plain": [{"role": "user", "content": MIXED}],
    "claude.ai": [{"uuid": "c", "chat_messages": [{"sender": "human", "text": MIXED, "uuid": "1"}]}],
}


@pytest.mark.parametrize("host", HOSTS)
def test_the_same_words_are_typed_whichever_host_recorded_them(host: str, tmp_path: Path) -> None:
    if host == "claude.ai":
        (tmp_path / "conversations.json").write_text(json.dumps(HOSTS[host]), encoding="utf-8")
        export = find_export(tmp_path)
        assert export is not None
        messages = [message for chat in export.read_chats() for message in chat.messages]
    else:
        path = tmp_path / "t.jsonl"
        path.write_text("".join(f"{json.dumps(record)}\n" for record in HOSTS[host]), encoding="utf-8")
        messages = list(read_messages(path))
    assert [text for message in messages if (text := find_typed(message))] == [TYPED]
    echo = "Fine. I always deploy on Fridays at noon."
    assert cut_echoes(echo, frozenset(collect_foreign(messages))) == "Fine. […]"
