"""`context`: what a session is given, from where and why, and what it is not given."""

import os
from pathlib import Path

import pytest

from clihelp import Cli
from homes import write


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = Cli(tmp_path)
    write(cli.project / "CLAUDE.md", "<!-- note -->\nUse tabs. @docs/style.md @~/.ssh/id_rsa @~/notes.md\n")
    write(cli.project / "docs" / "style.md", "Short lines.\n")
    write(cli.project / ".claude" / "rules" / "ts.md", "---\npaths: 'src/**/*.ts'\n---\nNo any.\n")
    write(cli.project / "src" / "CLAUDE.md", "Source rules.\n")
    write(cli.home / ".claude" / "CLAUDE.md", "Be brief.\n")
    write(cli.home / "notes.md", "From elsewhere.\n")
    return cli


def test_it_lists_what_was_loaded_why_and_how_large(cli: Cli) -> None:
    told = cli("context", "--json").json
    assert [(Path(row["path"]).name, row["layer"], row["depth"], row["added"]) for row in told["files"]] == [
        ("CLAUDE.md", "user", 0, False),
        ("CLAUDE.md", "project", 0, False),
        ("style.md", "project", 1, False),
    ]
    row = told["files"][2]
    assert row["by"] == str(cli.project / "CLAUDE.md") and row["chars"] == row["bytes"] == 13 and row["tokens"] > 0
    assert told["memory"] and all(row["tokens"] for row in told["memory"]) and told["disabled"] is None
    assert told["total"]["chars"] == sum(row["chars"] for row in (*told["files"], *told["memory"]))
    assert [rule["paths"] for rule in told["pending"]] == [["src/**/*.ts"]]
    assert {Path(row["path"]).name: row["reason"] for row in told["refused"]} == {
        "id_rsa": "secret",
        "notes.md": "outside",
    }


def test_a_file_shows_what_reading_it_would_add(cli: Cli) -> None:
    told = cli("context", "--json", "--file", "src/app.ts").json
    assert [Path(row["path"]).name for row in told["files"] if row["added"]] == ["ts.md", "CLAUDE.md"]
    assert told["pending"] == [], "a rule that was loaded waits no longer"
    assert "added" in cli("context", "--file", "src/app.ts").out


def test_people_are_told_in_lines(cli: Cli) -> None:
    out = cli("context").out
    for words in (
        "tokens",
        "instruction files",
        "memory",
        "rules for certain files",
        "not loaded",
        "looks like a secret",
    ):
        assert words in out
    assert "id_rsa" in out and "memdir inbox show" in out


def test_a_person_approves_a_file_outside_and_it_is_loaded(cli: Cli) -> None:
    item = next(row["inbox"] for row in cli("context", "--json").json["refused"] if row["inbox"])
    assert cli("context", "--json").json["refused"][-1]["inbox"] == item
    assert "notes.md" in cli("inbox", "show", str(item)).out
    assert cli("inbox", "approve", str(item)).code == 0
    told = cli("context", "--json").json
    assert Path(told["files"][-1]["path"]).name == "notes.md"
    assert [row["reason"] for row in told["refused"]] == ["secret"]


def test_hostile_names_reach_the_terminal_harmless(cli: Cli) -> None:
    write(cli.project / "CLAUDE.md", "@\x1b[2Jx.md @a\u202eb.md\n")
    os.symlink("nowhere", cli.project / "CLAUDE.local.md")
    out = cli("context").out
    assert "\x1b" not in out and "\u202e" not in out
