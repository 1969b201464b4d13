"""What each reader makes of another tool's memories; tests/data/import/README.md says where the samples are from."""

import json
from pathlib import Path
from typing import Any

import pytest

from clihelp import Cli
from homes import write
from importers import sample


def steps(cli: Cli, *argv: str) -> list[dict[str, Any]]:
    told = cli("import", *argv, "--json")
    assert told.code == 0, told.err
    found: list[dict[str, Any]] = told.json["steps"]
    return found


def new(cli: Cli, *argv: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in steps(cli, *argv) if row["fate"] == "new"}


def test_mem0_rows_keep_their_type_and_their_date(cli: Cli) -> None:
    rows = steps(cli, sample(cli, "mem0.json"), "--apply")
    assert [(row["fate"], row["type"]) for row in rows] == [
        ("new", "user"),
        ("new", "feedback"),
        ("new", "project"),
        ("refused", None),
    ]
    listed = {row["description"]: row["modified"] for row in cli("list", "--json").json}
    assert listed["Works as a data engineer in the payments team"] == "2025-11-03T18:00:00.000+00:00"
    assert listed["Prefers short answers without a closing summary"].startswith("2025-12-24")


def test_mem0_as_lines_or_as_a_list_is_the_same(cli: Cli) -> None:
    rows = json.loads(Path(sample(cli, "mem0.json")).read_text(encoding="utf-8"))["results"]
    write(cli.home / "list.json", json.dumps(rows))
    write(cli.home / "lines.jsonl", "\n".join(map(json.dumps, rows)))
    wanted = new(cli, str(cli.home / "mem0.json"))
    assert set(new(cli, str(cli.home / "list.json"))) == set(new(cli, str(cli.home / "lines.jsonl"))) == set(wanted)


def test_chatgpts_memories_are_about_the_user_unless_they_say_how_to_answer(cli: Cli) -> None:
    found = steps(cli, sample(cli, "chatgpt.txt"))
    assert [row["type"] for row in found] == ["user", "feedback", "user", "reference"]
    assert found[2]["modified"].startswith("2025-04-05")
    bullets = write(cli.home / "b.txt", "- User is learning Rust on weekends.\n- User lives in a small town.\n")
    assert len(steps(cli, str(bullets), "--from", "chatgpt")) == 2


def test_a_made_memory_follows_the_dialect_of_the_directory(cli: Cli) -> None:
    cli.file(
        "n", "---\nname: n\ndescription: Deploys happen on Tuesdays only\nmetadata:\n  type: project\n---\n\nBody.\n"
    )
    (row, *_) = new(cli, sample(cli, "mem0.json")).values()
    assert "\nmetadata:\n  type: user\n  modified:" in row["text"]


def test_an_obsidian_vault_comes_in_whole_with_its_dates_and_tags(cli: Cli, tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    (vault / ".obsidian").mkdir(parents=True)
    note = "---\ncreated: 2024-05-06\ntags: [work, people]\naliases:\n  - Ops\n---\n# Who runs ops\n\nDana runs operations and is on call on Mondays. See [[Deploys]].\n"
    write(vault / "a" / "b" / "c" / "d" / "e" / "f" / "Who runs ops.md", note)
    write(vault / "Daily" / "2024-05-06.md", "- went for a walk\n")
    write(vault / "Empty.md", "# Empty\n")
    write(vault / ".trash" / "Gone.md", "Something that was thrown away.\n")
    write(vault / "team" / "Kitchen rota.md", "The kitchen is cleaned by whoever leaves last on Fridays.\n")
    rows = steps(cli, str(vault))
    assert {row["name"]: row["fate"] for row in rows if row["name"]} == {"who-runs-ops": "new", "kitchen-rota": "new"}
    assert {row["why"] for row in rows if row["fate"] == "refused"} == {"it contains no text", "daily notes are skipped; pass this file to import it"}  # fmt: skip
    (ops,) = [row for row in rows if row["name"] == "who-runs-ops"]
    assert (
        ops["modified"].startswith("2024-05-06") and "tags: [work, people]" in ops["text"] and "  - Ops" in ops["text"]
    )
    assert "created: 2024-05-06" in ops["text"] and "See [[Deploys]]." in ops["text"]
    cli("import", str(vault), "--apply")
    assert "2 years" in cli("recall", "who runs operations and is on call?").out or "days ago" in cli("recall", "who is on call on Mondays?").out  # fmt: skip
    assert cli("undo").code == 0 and cli("list", "--json").json == []


def test_a_plain_folder_of_notes_and_a_single_note_are_recognised(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "plain" / "Ideas.md", "Sell the old espresso machine before the move in June.\n")
    assert cli("import", str(tmp_path / "plain"), "--json").json["format"] == "notes"
    assert cli("import", str(tmp_path / "plain" / "Ideas.md"), "--json").json["counts"]["new"] == 1


@pytest.mark.parametrize("name", ["CLAUDE.md", "AGENTS.md", ".cursorrules", "QWEN.md", "GEMINI.md"])
def test_an_instruction_file_or_a_project_with_one_is_refused(cli: Cli, tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "other" / name, "- The billing service is owned by Dana's team since the audit in 2025.\n")
    for source in (path, tmp_path / "other"):
        assert "agents load instruction files themselves" in cli("import", str(source)).refusal
