"""Exports of ChatGPT and Claude: previewed, imported, learned from, resumed, undone; bad ones refused in one line."""

import json
import zipfile
from pathlib import Path

import pytest

from chat_exports import MEMORY, make_chatgpt, make_files, make_told, write_folder, write_zip
from clihelp import Cli
from loads import scaled
from memdir.conversation.chat_exports import find_export
from memdir.store.files import FileStore
from servers.messages_server import AnthropicServer

DATA = Path(__file__).parents[1] / "data" / "chat_export"


def descriptions(cli: Cli) -> str:
    return "\n".join(row["description"] for row in cli("list", "--json").json)


def test_a_chatgpt_export_gives_memories_and_custom_instructions_at_once(cli: Cli, tmp_path: Path) -> None:
    path = write_zip(tmp_path / "export.zip", make_files("chatgpt", 50))
    shown = cli("import", str(path), "--json").json
    assert shown["format"] == "chatgpt" and shown["counts"]["new"] == 3 and shown["applied"] is False
    assert (shown["conversations"]["all"], shown["conversations"]["new"]) == (50, 50)
    texts = {row["type"]: row["text"] for row in shown["steps"]}
    assert "I teach physics at a school in Graz." in texts["user"] + "".join(r["text"] for r in shown["steps"])
    assert "Answer in short sentences. Version 49." in texts["feedback"], "the newest instructions count"
    assert any(MEMORY.rstrip(".") in row["text"] for row in shown["steps"])
    assert "moon" not in str(shown) and "raw JSON" not in str(shown) and "mapping" not in str(shown["steps"])
    told = cli("import", str(path), "--apply")
    assert "3 new" in told.out and "reverts it" in told.out and "50 conversations with" in told.out
    assert cli("undo").code == 0 and cli("list", "--json").json == []


def test_a_claude_export_as_a_folder_gives_its_memories_and_project_instructions(cli: Cli, tmp_path: Path) -> None:
    path = write_folder(tmp_path / "data", make_files("claude", 3))
    shown = cli("import", str(path), "--json").json
    assert shown["format"] == "claude" and shown["counts"]["new"] == 4
    titles = {row["title"]: row["type"] for row in shown["steps"]}
    assert titles == {"Work context": "user", "Personal context": "user", "Rota app": "project", "Instructions of Rota app": "feedback"}  # fmt: skip


@pytest.mark.parametrize("service", ["chatgpt", "claude"])
def test_without_a_model_only_what_was_asked_for_is_learned_and_one_line_undoes_it(
    cli: Cli, tmp_path: Path, service: str
) -> None:
    path = write_zip(tmp_path / "export.zip", make_files(service, 50))
    told = cli("import", str(path), "--learn", "--apply", "--model", "none")
    assert "learned from 50 conversations: 5 memories; `memdir undo --session" in told.out
    assert descriptions(cli).count("reviewed by the team in room") == 5 and "moon" not in descriptions(cli)
    again = cli("import", str(path), "--learn", "--apply", "--model", "none")
    assert "no new conversations" in again.out and "nothing was changed" in again.out
    assert cli("undo", "--session", f"{service}:*").out == f"undone: 5 changes of {service}:*\n"
    assert "room" not in descriptions(cli)
    later = cli("import", str(path), "--learn", "--apply", MEMDIR_NOW="2026-03-06T12:00:00Z")
    assert "learned from 50 conversations: 5 memories" in later.out, "what was undone can be imported again"
    assert "no changes in conversation x" in cli("undo", "--session", "x").refusal


def test_an_interrupted_run_goes_on_where_it_stopped(cli: Cli, tmp_path: Path) -> None:
    path = write_zip(tmp_path / "export.zip", make_files("chatgpt", 30))
    cli("import", str(path), "--learn", "--apply", "--since", "2023-11-15")
    state = FileStore(cli.memory).state / "imported-chats"
    first = state.read_text(encoding="utf-8").splitlines()
    assert 1 < len(first) < 30
    assert f"learned from {31 - len(first)} conversations" in cli("import", str(path), "--learn", "--apply").out
    assert len(set(state.read_text(encoding="utf-8").splitlines())) == 31


@pytest.mark.slow
def test_thousands_of_conversations_are_read_previewed_and_learned_from(cli: Cli, tmp_path: Path) -> None:
    count = scaled(5_000)
    path = write_zip(tmp_path / "export.zip", make_files("chatgpt", count))
    shown = cli("import", str(path), "--json").json
    assert shown["conversations"]["new"] == count and shown["conversations"]["messages"] == count * 6 + count // 7
    done = cli("import", str(path), "--learn", "--apply", "--json").json
    assert done["conversations"]["learned"] == count and len(done["conversations"]["written"]) == count // 10
    assert f"undone: {count // 10} changes" in cli("undo", "--session", "chatgpt:*").out


def test_with_a_model_it_is_estimated_and_agreed_to_first(cli: Cli, tmp_path: Path) -> None:
    path = write_zip(tmp_path / "export.zip", make_files("claude", 5))
    told = cli("import", str(path), "--learn", "--apply", "--model", "ollama:qwen3:8b")
    assert told.code == 1 and "5 conversations, 30 messages in 5 requests to ollama:qwen3:8b: about" in told.err
    assert "--yes continues" in told.err


@pytest.mark.slow
def test_conversations_of_a_year_are_learned_from_by_a_capable_model(cli: Cli, tmp_path: Path) -> None:
    """Conversations by one author; the answers of a reader who saw nothing but the requests (tests/data/chat_export)."""
    chats = json.loads((DATA / "conversations.json").read_text(encoding="utf-8"))
    path = write_zip(tmp_path / "export.zip", make_told(chats))
    answers = iter(map(json.loads, (DATA / "answers.jsonl").read_text(encoding="utf-8").splitlines()))
    with AnthropicServer(lambda body: next(answers)) as server:
        told = cli(
            "import", str(path), "--learn", "--apply", "--yes", MEMDIR_MODEL="anthropic:any",
            MEMDIR_MODEL_URL=server.url, ANTHROPIC_API_KEY="sk-test-12345",
        )  # fmt: skip
    assert "learned from 10 conversations: 32 memories" in told.out and next(answers, None) is None
    known = {row["name"]: row for row in cli("list", "--json").json}
    assert len(known) == 31 and {"nut-allergy", "no-flying", "one-command-at-a-time", "nell-birthday"} <= set(known)
    assert "hospital pharmacy" in known["work-role"]["description"], "a later conversation replaced the job"
    texts = "\n".join(at.read_text(encoding="utf-8") for at in cli.memory.glob("*.md"))
    # What only stood in a pasted mail and a pasted page.
    assert [word for word in ("harrowpike", "nestmirror", "8443", "1,145", "table form") if word in texts.lower()] == []
    assert "pesto" in texts, "a search phrase may name what the person did not"
    found = cli("recall", "book me the cheapest way to Lisbon in May", "--json", MEMDIR_MODEL="none").json
    assert [row["name"] for row in found["memories"]] == ["no-flying"]
    assert "undone" in cli("undo", "--session", "claude:*").out and cli("list", "--json").json == []


def test_bad_archives_are_refused_in_one_line(cli: Cli, tmp_path: Path) -> None:
    whole = write_zip(tmp_path / "whole.zip", make_files("chatgpt", 3)).read_bytes()
    (tmp_path / "half.zip").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "flipped.zip").write_bytes(whole[:200] + bytes(60) + whole[260:])
    write_zip(tmp_path / "cut.zip", {"conversations.json": '[{"mapping": {}, "id": "a"}, {"mapp'})
    write_zip(tmp_path / "other.zip", {"conversations.json": [{"id": 1}]})
    write_zip(tmp_path / "empty.zip", {"readme.txt": "nothing"})
    with zipfile.ZipFile(tmp_path / "bomb.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", b"[" + b" " * 30_000_000 + b"]")
    for name, words in (
        ("half.zip", "damaged"),
        ("flipped.zip", "damaged"),
        ("cut.zip", "is not complete JSON"),
        ("other.zip", "no ChatGPT or Claude conversations"),
        ("empty.zip", "unknown format"),
        ("bomb.zip", "unpacks to too many"),
    ):
        told = cli("import", str(tmp_path / name))
        assert told.code == 1 and words in told.refusal and told.err.count("\n") == 1, name


def test_odd_rows_cost_only_themselves(tmp_path: Path) -> None:
    odd: list[object] = [None, 3, [], {"mapping": None, "id": "x"}, {"mapping": {"a": 5}, "current_node": "a"}]
    loop = make_chatgpt(1)
    loop["mapping"]["root"]["parent"] = "u0"
    path = write_zip(tmp_path / "odd.zip", {"conversations.json": [loop, *odd, make_chatgpt(2)]})
    export = find_export(path)
    assert export is not None and [chat.id for chat in export.read_chats()] == ["c-1", "c-2"]


def test_a_split_export_is_read_whole_and_in_order(tmp_path: Path) -> None:
    files = {f"conversations-{part:03}.json": [make_chatgpt(part)] for part in range(3)}
    export = find_export(write_zip(tmp_path / "split.zip", files))
    assert export is not None and [chat.title for chat in export.read_chats()] == ["Talk 0", "Talk 1", "Talk 2"]
    assert [message.role for message in next(export.read_chats()).messages] == ["user", "assistant"] * 3
