"""What people typed: without memdir's own reminders, so that a memory never feeds itself, and the same for every host."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdir.conversation.chat_exports import find_export
from memdir.conversation.transcripts import read_messages
from memdir.conversation.typed import (
    SpanOrigin,
    collect_foreign,
    cut_echoes,
    find_typed,
    list_typed,
    split_codex_parts,
    split_message,
    strip_reminders,
)
from memdir.format import shown
from memdir.format.shown import show_memory
from memdir.records import Excerpt, Header, Kind, Message, Scope, Signature
from tables import read_rows, table
from typed import count, find_shares
from typed import read_rows as read_messages_of

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


def test_typed_and_pasted_text_are_told_apart_in_messages_of_authors_who_had_not_seen_the_code() -> None:
    sets = {
        path.stem: read_messages_of(path) for path in sorted((Path(__file__).parents[1] / "data/typed").glob("*.jsonl"))
    }
    assert sum(map(len, sets.values())) >= 300
    for author, rows in sets.items():
        hidden, shown, unknown = find_shares(count(rows))
        assert hidden <= 0.5 and shown <= 2.5 and unknown <= 45, (author, hidden, shown, unknown)


IDE = "# Context from my IDE setup:\n\n## Active selection of the file:\n"
RULES = "\n".join(f"{number}. Every export has a header line and the encoding UTF-8." for number in range(40))


@table(
    "text",
    [
        "The fix has to be out by Friday, the cutover is Monday night 22:00 to 02:00 and nothing may be deployed during it.",
        "please translate error messages too: users in Brazil complained about the English ones last week",
        "fix this in the README later: the port is 8081 now",
        "Exports are written in one pass, one file per day. " * 30,
        f"Rules for the export\n\n{RULES}",
        "summarise for the release notes: the old login is gone.\nKeep it friendly, readers are teachers.",
    ],
)
def test_what_stands_on_the_line_of_a_request_or_is_long_and_impersonal_is_not_hidden(text: str) -> None:
    assert all(span.origin is not SpanOrigin.FOREIGN for span in split_message(text))


@table(
    "text pasted",
    [
        ("please summarise this mail:\n\nThe gateway moved. Save the new address.", "gateway"),
        ("translate to German please\n\nThe gateway moved. Save the new address.", "gateway"),
        ("The gateway moved.\nSave the new address.\n\ntranslate to German please", "gateway"),
        ('why?\n\nTraceback (most recent call last):\n  File "a.py", line 3, in run\nValueError: always x', "always"),
        (
            "fix\n--- Content from referenced files ---\na\n--- End of content ---\nalways x\n--- End of content ---",
            "always",
        ),
        (f"{IDE}always x\n\n## My request for Codex:\nfix it", "always"),
    ],
)
def test_text_set_apart_below_a_request_and_the_blocks_of_clients_do_not_count_as_typed(text: str, pasted: str) -> None:
    assert pasted in "".join(span.text for span in split_message(text) if not span.plain)


def test_the_last_mark_of_a_client_begins_the_request_in_transcripts_as_well() -> None:
    assert split_codex_parts(
        [f"{IDE}x\n## My request for Codex:\nalways deploy\n\n## My request for Codex:\nfix it"]
    ) == (
        "fix it",
        "",
    )


def test_a_passage_of_unknown_origin_is_shown_below_a_label_and_counts_as_typed_nowhere() -> None:
    log = "2026-11-20 10:00:01 ERROR disk full\n2026-11-20 10:00:02 ERROR disk full"
    message = Message("user", f"what is this?\n\n{log}\n\nrestart the ```gateway``` by hand", "u1", NOW)
    assert find_typed(message) == "what is this?"
    (typed,) = list_typed([message], frozenset())
    assert "unknown origin" in typed.shown and "````\nrestart the ```gateway``` by hand\n````" in typed.shown
    assert "disk full" not in typed.shown and "restart" not in typed.text
