"""`memdir notes`: show, update."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from clihelp import Cli
from homes import write
from note_taker import serve_note_taker
from transcript_writer import Claude


@pytest.fixture
def cli(tmp_path: Path) -> Iterator[Cli]:
    with serve_note_taker() as variables:
        yield Cli(tmp_path, **variables)


def transcript(cli: Cli, session: str = "1f2e-aa", request: str = "Write a parser for the access log") -> Path:
    """A past conversation of this project, where its host keeps it."""
    talk = Claude()
    talk.user(request)
    talk.call("t1", "msg-a")
    talk.result("t1", "Exit code 1\nerror: no such file", failed=True)
    talk.assistant("It is written. Shall I test it?")
    for record in talk.records:
        record.update(cwd=str(cli.project), sessionId=session)
    return talk.write(cli.memory.parent / f"{session}.jsonl")


def test_the_newest_conversation_is_noted_and_shown(cli: Cli) -> None:
    transcript(cli)
    told = cli("notes", "update")
    assert told.code == 0 and "4 messages noted by model" in told.out
    path = cli.memory.parent / "1f2e-aa" / "session-memory" / "summary.md"
    assert path.stat().st_mode & 0o777 == 0o600
    assert cli("notes").data == cli("notes", "show", "--session", "1f2e-aa").data == path.read_bytes()
    text = cli("notes").out
    assert "Last: Write a parser for the access log" in text
    assert "no messages since" in cli("notes", "update").out


def test_a_transcript_and_a_session_can_be_named(cli: Cli) -> None:
    transcript(cli, "aa", "The first one of them")
    other = transcript(cli, "bb", "The second one of them")
    assert cli("notes", "update", "--session", "aa", "--json").json["session"] == "aa"
    row = cli("notes", "update", "--transcript", str(other), "--json").json
    assert (row["session"], row["by"], row["changed"], row["messages"]) == ("bb", "model", True, 4)
    assert row["requests"] == 1 and row["spent"]["output"] > 0
    assert "first" in cli("notes", CLAUDE_SESSION_ID="aa").out


def test_what_is_not_there_is_said_in_one_line(cli: Cli) -> None:
    assert "no session of this project has notes" in cli("notes").refusal
    assert "no notes of session 'x'" in cli("notes", "--session", "x").refusal
    assert "no conversation of this project found" in cli("notes", "update").refusal
    assert "no transcript of session 'x'" in cli("notes", "update", "--session", "x").refusal


def test_the_setting_and_the_pause_are_heeded(cli: Cli) -> None:
    transcript(cli)
    assert "switched off" in cli("notes", "update", MEMDIR_NOTES="0").refusal
    assert "paused" in cli("notes", "update", MEMDIR_PAUSED="1").refusal
    assert "memory is off" in cli("notes", "update", CLAUDE_CODE_SIMPLE="1").refusal
    write(cli.project / ".memdir.toml", "notes = false\n")
    assert "switched off" in cli("notes", "update").refusal


def test_without_a_model_there_are_no_notes_and_status_says_so(cli: Cli) -> None:
    transcript(cli)
    assert "session notes need a model" in cli("notes", "update", "--model", "none").refusal
    assert "session notes need a model" in cli("status", MEMDIR_MODEL="none").out
    assert "session notes" not in cli("status").out


def test_an_own_template_and_prompt_are_found(cli: Cli) -> None:
    transcript(cli)
    config = cli.home / ".claude" / "session-memory" / "config"
    write(config / "template.md", "# Worklog\n_Mine_\n\n# Thoughts\n")
    write(config / "prompt.md", "Mine {{currentNotes}}")
    cli("notes", "update")
    shown = cli("notes", "--json").json
    assert [(at["name"], at["description"]) for at in shown["sections"]] == [("Worklog", "Mine"), ("Thoughts", "")]
    assert "access log" in shown["sections"][0]["text"] and not shown["empty"] and shown["oversize"] == []


def test_of_a_long_transcript_the_last_piece_is_noted_and_then_the_next_turn_alone(cli: Cli) -> None:
    talk = Claude()
    for turn in range(300):
        talk.user(f"Look at part {turn} of the harbour: {'quay ' * 1_000}")
        talk.assistant(f"Part {turn} is done. {'Crane. ' * 1_000}")
    path = cli.memory.parent / "long.jsonl"
    for record in talk.records:
        record.update(cwd=str(cli.project), sessionId="long")
    talk.write(path)
    update = ("notes", "update", "--transcript", str(path))
    assert 0 < cli(*update, "--json").json["messages"] < 600
    assert "Last: Look at part 299" in cli("notes", "show", "--transcript", str(path)).out
    talk.user("And now the lighthouse")
    talk.records[-1].update(cwd=str(cli.project), sessionId="long")
    talk.write(path)
    assert cli(*update, "--json").json["messages"] == 1
    assert "Last: And now the lighthouse" in cli("notes", "show", "--transcript", str(path)).out
