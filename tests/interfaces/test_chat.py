"""`memdir chat` played from a pipe, with no model: what a newcomer sees first."""

import re
from html import unescape
from pathlib import Path

import pytest

from chat_talk import THREE_DAYS, Chats, answer_to
from json_schemas import check
from loads import ROOT


@pytest.fixture
def chats(tmp_path: Path) -> Chats:
    return Chats(tmp_path)


def test_three_days_in_one_script(chats: Chats) -> None:
    """As a process of its own, from a pipe: what a newcomer could type."""
    played = chats.real("chat", given=THREE_DAYS.encode())
    assert played.code == 0 and played.err == ""
    shown = played.out
    assert shown.count("No model is chosen") == 1
    freeze = answer_to(shown, "We freeze all merges from Thursday, the mobile team cuts its release then.")
    assert "Noted: We freeze all merges from 2026-03-05" in freeze and "[Memory saved: " in freeze
    moved = answer_to(shown, "No, we freeze all merges from Friday, the mobile team cuts its release a day later.")
    assert "Changed: we freeze all merges from 2026-03-06" in moved

    ending = answer_to(shown, "how should a reply end?")
    assert "Don't summarise at the end" in ending and "noted 7 days ago; check that it still holds" in ending
    merging = answer_to(shown, "until when can I merge?")
    assert merging.startswith("we freeze all merges from 2026-03-06,") and "noted 6 days ago" in merging
    assert "check that it still holds" in merging
    filing = answer_to(shown, "where do I file a defect of the pipeline?")
    assert filing.index("Jira") < filing.index("Linear") and "My memories disagree" in filing
    assert "I'm a data scientist, new to Rust." in answer_to(shown, "how much Rust do I know?")
    gone = answer_to(shown, "when is staging emptied?")
    assert gone.startswith("I know nothing about that. Tell me and I will remember it.")

    picture = (ROOT / "docs" / "img" / "three-days.svg").read_text(encoding="utf-8")
    rows = [re.sub("<[^>]*>", "", text) for text in re.findall(r"<text[^>]*>(.*)</text>", picture)[1:]]
    stage = ("memdir chat in ", "No model is chosen", "> /now ", "> /clear", "A new conversation.")  # not drawn
    told = " ".join(line.removeprefix("== ") for line in shown.split("\n") if not line.startswith(stage))
    assert unescape(" ".join(rows)).split() == told.split(), "run: python benchmarks/record.py"

    names = {path.stem for path in chats.memory.glob("*.md")}
    assert "MEMORY" in names and len(names) == 6 and not any("staging" in name for name in names)
    text = (chats.memory / "freeze-merges.md").read_text(encoding="utf-8")
    assert "2026-03-06" in text and "Friday" not in text


def test_a_person_talks_to_a_memory(chats: Chats) -> None:
    """A statement is kept as said, a question answered, thanks are neither, and what may not be kept is asked about."""
    script = """\
Remember that nothing is merged on Black Friday.
My dog is called Bruno
I like my coffee black
I'm allergic to peanuts
thanks!
hello
write me a poem
what is my dog called?
the deploy day is Tuesday
the deploy day is Friday
remember that I am terrible at writing tests
forget my allergy
what am I allergic to?
forget the coffee
"""
    shown = chats.play(script).out
    assert "Noted: My dog is called Bruno. /undo reverts it." in answer_to(shown, "My dog is called Bruno")
    assert answer_to(shown, "I like my coffee black").endswith("Noted: I like my coffee black. /undo reverts it.")
    for line in ("thanks!", "hello"):
        assert (
            answer_to(shown, line).strip()
            == "I remember what you tell me and answer from it: say what is so, or ask; see /help."
        )
    assert "cannot do that" in answer_to(shown, "write me a poem")
    assert answer_to(shown, "what is my dog called?").startswith("My dog is called Bruno (")
    assert "But “the deploy day is Tuesday” (deploy-day-tuesday) says otherwise" in answer_to(
        shown, "the deploy day is Friday"
    )
    assert "what was surprising about it?" in answer_to(shown, "remember that I am terrible at writing tests")
    assert "Forgotten: " in answer_to(shown, "forget the coffee")
    gone = answer_to(shown, "forget my allergy")
    assert (
        "Forgotten: " in gone
        and "/undo brings it back" in gone
        and "peanuts" not in gone.replace("allergic-to-peanuts", "")
    )
    assert "I know nothing about that." in answer_to(shown, "what am I allergic to?")
    bodies = " ".join(path.read_text(encoding="utf-8") for path in chats.memory.glob("*.md"))
    assert "My dog is called Bruno\n" in bodies and "terrible" not in bodies and "poem" not in bodies


def test_commands_do_what_they_say(chats: Chats) -> None:
    script = """\
/remember The nightly build starts at 02:00.
/forget nightly build starts at 02:00
/undo
/why nightly-build-starts-at-02-00
/memory
/memory list
/memory nonsense
/rember x
/nothinglikeit
/private
remember that I like tea
/private off
/model wrong:
/model
/cost
/inbox
/notes
/now yesterday
/usr/bin/python is the interpreter
/help
/quit
never reached
"""
    played = chats.play(script)
    shown = played.out
    assert "[Memory saved: nightly-build-starts-at-02-00.md]" in shown
    assert "[Memory forgotten: nightly-build-starts-at-02-00.md]" in shown and "undone: change 2" in shown
    assert f"1 memory  {chats.memory}" in answer_to(shown, "/memory") and "recall on" in answer_to(shown, "/memory")
    assert "The nightly build starts at 02:00" in answer_to(shown, "/memory list")
    assert "did you mean /remember?" in shown and "/help lists all commands" in answer_to(shown, "/nothinglikeit")
    assert "this conversation is private" in answer_to(shown, "remember that I like tea")
    assert "error: " in answer_to(shown, "/model wrong:") and "There is no model" in answer_to(shown, "/model")
    assert "No model was asked." in shown and "not a date" in answer_to(shown, "/now yesterday")
    assert "Noted: /usr/bin/python is the interpreter" in answer_to(shown, "/usr/bin/python is the interpreter")
    assert "/compact" in answer_to(shown, "/help") and "never reached" not in shown
    assert not any("tea" in path.name for path in chats.memory.iterdir())


def test_a_switch_that_is_turned_is_heard_at_once(chats: Chats) -> None:
    script = "remember that we deploy on Tuesdays\n/memory recall off\nwhen do we deploy?\n/memory recall on\n"
    shown = chats.play(script + "so when do we deploy?\n").out
    assert "recall is switched off here" in answer_to(shown, "when do we deploy?")
    assert "we deploy on Tuesdays" in answer_to(shown, "so when do we deploy?")


def test_a_memory_opens_in_the_editor(chats: Chats) -> None:
    chats.play("remember that we deploy on Tuesdays\n")
    editor = chats.home / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/Tuesdays/Thursdays/ "$1"\n', encoding="utf-8")
    editor.chmod(0o700)
    shown = chats.play("/memory open deploy-on-tuesdays\nwhen do we deploy?\n", EDITOR=str(editor)).out
    assert "we deploy on Thursdays" in answer_to(shown, "when do we deploy?")


def test_nothing_to_play_is_a_short_orientation(chats: Chats) -> None:
    for script in ("", "\n  \n"):
        shown = chats.play(script).out
        assert "memdir demo" in shown and len(shown.splitlines()) < 12
    assert not chats.memory.exists()
    assert "cannot read nowhere.txt" in chats.call("chat", "--script", "nowhere.txt").refusal
    assert "memdir demo" in chats.real("chat").out


def test_a_script_file_plays_like_a_pipe_and_what_it_shows_cannot_harm_a_terminal(chats: Chats) -> None:
    file = chats.project / "lines.txt"
    file.write_text("remember that the tag is \x1b[31mred\x1b[0m and not blue\n/cost\n", encoding="utf-8")
    shown = chats.call("chat", "--script", str(file)).out
    assert "\x1b" not in shown and "\\x1b[31m" in shown and "No model was asked." in shown


def test_memory_that_is_off_or_paused_is_said_and_nothing_is_kept(chats: Chats) -> None:
    off = chats.play("remember that we deploy on Tuesdays\n", CLAUDE_CODE_DISABLE_AUTO_MEMORY="1").out
    assert "Memory is off here" in off and "nothing is kept or looked up" in off
    chats.play("/private\n/clear\nhello there\n", CLAUDE_CODE_DISABLE_AUTO_MEMORY="1")
    assert not chats.memory.exists()
    paused = chats.play("remember that we deploy on Tuesdays\n", MEMDIR_PAUSED="1").out
    assert "memory is paused" in paused
    private = chats.play("remember that we deploy on Tuesdays\n", "--private").out
    assert "this conversation is private" in private
    assert "Memory is off here" in chats.play("remember that we deploy on Tuesdays\n", "--bare").out
    assert not list(chats.memory.glob("*.md"))
    assert "saved deploy-on-tuesdays" in chats.play("/memory save we deploy on Tuesdays\n").out


def test_each_event_is_what_the_page_says(chats: Chats) -> None:
    events = chats.events(
        "remember that we deploy on Tuesdays\nwhen do we deploy?\n/now 2026-03-02\n/undo\n/x\n/recall\n"
    )
    events += chats.events("")
    for event in events:
        check("chat", event)
    kinds = [event["event"] for event in events]
    assert kinds[0] == "start" and {"heard", "answer", "saved", "skipped", "output", "day", "error", "end"} <= set(
        kinds
    )
    saved = next(event for event in events if event["event"] == "saved")
    assert saved["written"] == ["deploy-on-tuesdays"]
    answer = [event for event in events if event["event"] == "answer"][1]
    assert answer["names"] == ["deploy-on-tuesdays"]


def test_a_purge_within_a_conversation_is_a_purge_and_ends_it(chats: Chats) -> None:
    chats.play("remember that the xylophone is in the cellar\n")
    asked = chats.play("where is the xylophone?\n/forget --purge xylophone-in-cellar\n")
    assert "Forgotten" not in asked.out and "pass --yes" in asked.err and list(chats.memory.glob("xylo*.md"))
    shown = chats.play("where is the xylophone?\n/forget --purge --yes xylophone-in-cellar\nthank you for that\n").out
    assert "purged xylophone-in-cellar" in shown and "Forgotten" not in shown
    held = [path for path in chats.memory.rglob("*") if path.is_file() and b"xylophone" in path.read_bytes()]
    assert held == []


def test_what_a_broken_store_could_not_keep_is_said_as_an_error(chats: Chats) -> None:
    chats.play("remember that the tram ends at the mill\n")
    for path in (chats.memory / ".memdir").glob("history.db*"):
        path.unlink()
    (chats.memory / ".memdir" / "history.db").mkdir()
    shown = chats.play("remember that the ferry leaves at six\n")
    told = shown.out + shown.err
    assert "'history.db' is refused: it is a folder" in told and "kept nothing" not in told and "Noted" not in told
