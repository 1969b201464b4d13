"""`memdir extract`: a transcript, all of them, or what waits; and `worker`, which does the last quietly."""

import json
from pathlib import Path
from typing import Any

import pytest

from claude_client import make_client
from clihelp import Cli
from homes import write
from memdir.store import sessions
from servers import AnthropicServer, OpenAIServer
from tables import read_rows

ROWS = read_rows("cli_extract")
ASKED = "please remember that we deploy on Tuesdays only, because support is fully staffed then"


def write_talk(folder: Path, *said: str, name: str = "talk.json") -> Path:
    rows = [
        row for text in said for row in ({"role": "user", "content": text}, {"role": "assistant", "content": "Ok."})
    ]
    path = folder / name
    path.write_text(json.dumps(rows), encoding="utf-8")
    return path


def write_session(cli: Cli, number: int, text: str) -> Path:
    """A transcript where Claude Code would leave it."""
    folder = cli.memory.parent
    folder.mkdir(parents=True, exist_ok=True)
    record: dict[str, Any] = {"type": "user", "uuid": f"u{number}", "parentUuid": None, "sessionId": f"s{number}"}
    record |= {"cwd": str(cli.project), "timestamp": f"2026-03-0{number}T12:00:00Z"}
    record |= {"message": {"role": "user", "content": text}}
    path = folder / f"s{number}.jsonl"
    path.write_text(json.dumps(record) + "\n", encoding="utf-8")
    return path


def names(cli: Cli) -> list[str]:
    return [row["name"] for row in cli("list", "--json").json]


def test_a_transcript_of_the_real_client_is_shown_and_then_learned_from_once(tmp_path: Path) -> None:
    (tmp_path / "client").mkdir()
    with AnthropicServer(["Noted."]) as server:
        client = make_client(tmp_path / "client", server.url)
        assert client(ASKED).out == "Noted."
    cli = Cli(tmp_path)
    path = str(client.transcript)
    shown = cli("extract", path, "--dry-run")
    assert shown.code == 0 and "would create" in shown.out and "asked for" in shown.out
    assert "we deploy on Tuesdays only" in shown.out and ASKED[:40] in shown.out
    assert names(cli) == []
    done = cli("extract", path)
    assert done.code == 0 and "[Memory saved: " in done.out
    (name,) = names(cli)
    again = cli("extract", path)
    assert (again.code, again.out) == (0, "nothing new to learn from\n")
    assert names(cli) == [name]
    told = cli("history", name, "--json").json[0]
    assert (told["who"], told["session"]) == ("extractor", client.transcript.stem)


def test_a_dry_run_tells_what_and_why_as_json(cli: Cli) -> None:
    told = cli("extract", str(write_talk(cli.project, ASKED)), "--dry-run", "--json").json
    assert told["dry_run"] is True and told["estimate"]["messages"] == 2
    (row,) = told["conversations"]
    assert row["written"] and row["reasons"][0]["quote"] == ASKED and "Tuesdays" in row["reasons"][0]["text"]
    assert names(cli) == []


def test_a_long_conversation_without_anything_to_learn_says_so_once(cli: Cli) -> None:
    """F3. Of a transcript of 200 MB each of 1,400 pieces said it."""
    rows = [{"role": role, "content": f"{text} {number}?"} for number in range(400)
            for role, text in (("user", "what is in file"), ("assistant", "A table, and column"))]  # fmt: skip
    path = write(cli.project / "talk.json", json.dumps(rows))
    told = cli("extract", str(path), "--dry-run", "--json").json
    assert len(told["conversations"]) == told["estimate"]["pieces"] > 1
    assert cli("extract", str(path), "--dry-run").out == "talk.json: found nothing worth saving\n"


def test_all_past_conversations_of_the_project_in_order_and_only_once(cli: Cli) -> None:
    write_session(cli, 1, ASKED)
    write_session(cli, 3, "remember that the staging database is reset every Sunday")
    assert cli("extract", "--all", "--since", "2026-03-02").code == 0
    assert len(names(cli)) == 1
    told = cli("extract", "--all", "--json").json
    assert len(names(cli)) == 2 and [row["session"] for row in told["conversations"]] == ["s1"]
    assert cli("extract", "--all").out == "nothing new to learn from\n"


def test_what_waits_in_the_queue_is_worked_off(cli: Cli) -> None:
    path = write_session(cli, 1, ASKED)
    state = cli.memory / ".memdir"
    sessions.enqueue(state, sessions.QueuedTurn("s1", str(path)))
    sessions.enqueue(state, sessions.QueuedTurn("s1", str(path)))
    sessions.enqueue(state, sessions.QueuedTurn("gone", str(path.with_name("gone.jsonl"))))
    done = cli("extract")
    assert done.code == 0 and "[Memory saved: " in done.out
    assert sessions.read_queue(state) == () and len(names(cli)) == 1
    assert cli("extract").out == "no queued turns\n"


def test_the_worker_is_quiet(cli: Cli) -> None:
    path = write_session(cli, 1, ASKED)
    sessions.enqueue(cli.memory / ".memdir", sessions.QueuedTurn("s1", str(path)))
    done = cli.real("worker")
    assert (done.code, done.out, done.err) == (0, "", "")
    assert len(names(cli)) == 1
    assert "worker" not in cli("--help").out


def test_inside_a_program_that_memdir_started_the_worker_does_nothing(cli: Cli) -> None:
    sessions.enqueue(cli.memory / ".memdir", sessions.QueuedTurn("s1", str(write_session(cli, 1, ASKED))))
    assert cli("worker", MEMDIR_INSIDE="1").code == 0
    assert names(cli) == []


def test_a_headless_turn_keeps_only_what_was_asked_for(cli: Cli) -> None:
    path = write_session(cli, 1, "I'm a backend developer with ten years of Go")
    sessions.enqueue(cli.memory / ".memdir", sessions.QueuedTurn("s1", str(path), headless=True))
    cli("extract")
    assert names(cli) == []


def test_a_model_is_asked_when_there_is_one_and_its_cost_is_told_before(tmp_path: Path) -> None:
    with OpenAIServer([json.dumps({"operations": []}), json.dumps({"follow": [1]})]) as server:
        cli = Cli(tmp_path, MEMDIR_MODEL="openai:scripted", MEMDIR_MODEL_URL=server.url, MEMDIR_MODEL_KEY="k")
        write_session(cli, 1, ASKED)
        refused = cli("extract", "--all")
        assert refused.code == 1 and "tokens" in refused.err and "--yes" in refused.err
        assert server.requests == []
        told = cli("extract", "--all", "--yes", "--json").json
        assert server.problems == []
    (row,) = told["conversations"]
    assert (row["by"], row["requests"]) == ("model", 2) and row["tokens"]["fresh"] > 0
    assert len(names(cli)) == 1, "what was asked for is kept although the model missed it"


@pytest.mark.parametrize(("argv", "code", "words"), ROWS["what_cannot_be_done_is_said"])
def test_what_cannot_be_done_is_said(cli: Cli, argv: list[str], code: int, words: str) -> None:
    write_talk(cli.project, ASKED)
    done = cli("extract", *argv)
    assert done.code == code and words in done.err and done.err.count("\n") <= 3


def test_a_whole_run_is_undone_at_once(cli: Cli) -> None:
    talk = write_talk(cli.project, ASKED, "remember that the staging database is reset every Sunday")
    cli("extract", str(talk))
    assert len(names(cli)) == 2
    assert cli("undo").code == 0
    assert names(cli) == []
