"""`history`, `diff`, `undo`, `restore`."""

from pathlib import Path

import pytest

from clihelp import Cli


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def body_of(cli: Cli, name: str = "terse-replies") -> str:
    return str(cli("read", name, "--json").json["body"]).partition("\n")[0]


# --- history --------------------------------------------------------------------------------------------------------


def test_a_directory_without_a_past_has_an_empty_history(cli: Cli) -> None:
    assert cli("history").code == 0 and cli("history", "--json").json == []
    assert not (cli.home / ".claude").exists(), "looking makes nothing"


def test_history_says_who_did_what_when(cli: Cli) -> None:
    cli.save()
    cli("pin", "terse-replies")
    cli("undo")
    rows = cli("history", "--json").json
    assert [(at["id"], at["verb"], at["who"], at["names"]) for at in rows] == [
        (3, "undo", "person", ["terse-replies"]),
        (2, "pin", "person", ["terse-replies"]),
        (1, "save", "person", ["terse-replies"]),
    ]
    assert (rows[0]["undoes"], rows[1]["undone_by"]) == (2, 3)
    lines = cli("history").lines
    assert lines[0].split("\t")[6] == "undoes 2" and lines[1].split("\t")[6] == "undone by 3"
    assert all(line.count("\t") == 6 for line in lines)


def test_history_of_one_memory_and_of_a_forgotten_one(cli: Cli) -> None:
    cli.save("a")
    cli.save("b")
    cli("forget", "a")
    assert [at["verb"] for at in cli("history", "a", "--json").json] == ["forget", "save"]
    assert [at["verb"] for at in cli("history", "--limit", "1", "--json").json] == ["forget"]
    assert len(cli("history", "--limit", "0", "--json").json) == 3
    assert cli("history", "never-was").refusal


def test_an_edit_from_outside_is_in_the_history(cli: Cli) -> None:
    cli.save()
    path = cli.memory / "terse-replies.md"
    path.write_text(path.read_text(encoding="utf-8") + "By hand.\n", encoding="utf-8")
    rows = cli("history", "--json").json
    assert rows[0]["who"] == "outside" and rows[0]["names"] == ["terse-replies"]
    assert "+By hand." in cli("diff").lines


def test_user_memory_has_its_own_history(cli: Cli) -> None:
    cli.save("ours", "Text.", "--scope", "user")
    assert cli("history", "--json").json == []
    assert len(cli("history", "--scope", "user", "--json").json) == 1
    assert len(cli("history", "ours", "--json").json) == 1, "a name is looked for in both"


# --- diff -----------------------------------------------------------------------------------------------------------


def test_a_diff_is_of_the_last_change_of_an_change_or_of_a_memory(cli: Cli) -> None:
    cli.save("a", "Old words.")
    cli("edit", "a", "--body", "New words.")
    cli.save("b")
    assert "+name: b" in cli("diff").lines
    assert {"-Old words.", "+New words."} <= set(cli("diff", "a").lines)
    first = cli("diff", "1").lines
    assert "--- (no file)" in first and "+++ a.md" in first and any(line.startswith("+- [a](a.md)") for line in first)


def test_a_diff_in_json_holds_the_change_and_each_file(cli: Cli) -> None:
    cli.save()
    told = cli("diff", "1", "--json").json
    assert told["change"]["id"] == 1 and [at["path"] for at in told["diffs"]] == ["terse-replies.md", "MEMORY.md"]
    assert told["diffs"][0]["before"] is None and "+name: terse-replies" in told["diffs"][0]["diff"]


@pytest.mark.parametrize("what", ["7", "9" * 18, "9" * 40])
def test_an_change_that_is_not_there_is_refused(cli: Cli, what: str) -> None:
    assert cli("diff", what).refusal
    cli.save()
    assert "no change" in cli("diff", what).refusal


def test_nothing_to_compare_is_refused(cli: Cli) -> None:
    assert "no changes yet" in cli("diff").refusal


def test_what_was_purged_is_not_shown(cli: Cli) -> None:
    cli.save("a")
    cli.save("b")
    cli("forget", "a", "--purge", "--yes")
    told = cli("diff", "1")
    assert told.code == 0 and "purged" in told.out and "summary" not in told.out


def test_a_missing_line_end_is_said(cli: Cli) -> None:
    cli.save()
    path = cli.memory / "terse-replies.md"
    path.write_bytes(path.read_bytes().rstrip(b"\n"))
    assert "\\ No newline at end of file" in cli("diff").lines


# --- undo -----------------------------------------------------------------------------------------------------------


def test_undo_takes_back_the_last_change_and_says_what_it_put_back(cli: Cli) -> None:
    cli.save("terse-replies", "One.")
    cli("edit", "terse-replies", "--body", "Two.")
    told = cli("undo")
    assert told.lines[0].startswith("undone: change 2 (edit terse-replies, ")
    assert told.lines[1:] == ["  terse-replies is as before change 2", "`memdir undo 3` reverts this undo"]
    assert body_of(cli) == "One."
    cli("undo", "3")
    assert body_of(cli) == "Two."


def test_undoing_a_save_and_a_forget(cli: Cli) -> None:
    cli.save()
    cli("forget", "terse-replies")
    told = cli("undo", "--json").json
    assert {(at["path"], at["change"]) for at in told["changes"]} == {
        ("terse-replies.md", "created"),
        ("MEMORY.md", "changed"),
    }
    assert (told["undone"]["id"], told["change"]) == (2, 3)
    lines = cli("undo").lines
    assert "  terse-replies was deleted again (change 1 created it)" in lines


def test_an_undo_against_a_later_change_is_a_named_conflict(cli: Cli) -> None:
    cli.save("terse-replies", "One.")
    cli("edit", "terse-replies", "--body", "Two.")
    cli("edit", "terse-replies", "--body", "Three.")
    told = cli("undo", "2").refusal
    assert "cannot undo: terse-replies was changed since then" in told and "memdir history terse-replies" in told
    assert body_of(cli) == "Three."


def test_an_undo_twice_or_of_nothing_is_refused(cli: Cli) -> None:
    assert "nothing to undo" in cli("undo").refusal
    cli.save()
    cli("undo", "1")
    assert "already undone" in cli("undo", "1").refusal and "no change 99" in cli("undo", "99").refusal
    assert "no change" in cli("undo", str(2**63 - 1)).refusal


def test_undo_after_an_edit_by_hand_is_a_conflict(cli: Cli) -> None:
    cli.save()
    path = cli.memory / "terse-replies.md"
    path.write_text(path.read_text(encoding="utf-8") + "By hand.\n", encoding="utf-8")
    assert "was changed since" in cli("undo").refusal and "By hand." in path.read_text(encoding="utf-8")


def test_undo_and_restore_are_refused_while_memory_is_off(cli: Cli) -> None:
    cli.save()
    assert "memory is off" in cli("undo", CLAUDE_CODE_SIMPLE="1").refusal
    assert "memory is off" in cli("restore", "terse-replies", CLAUDE_CODE_SIMPLE="1").refusal


# --- restore --------------------------------------------------------------------------------------------------------


def test_a_forgotten_memory_is_restored(cli: Cli) -> None:
    cli.save("terse-replies", "One.")
    cli("forget", "terse-replies")
    told = cli("restore", "terse-replies")
    assert told.code == 0 and told.lines[0].startswith("restored terse-replies as change 1 left it")
    assert body_of(cli) == "One." and "(terse-replies.md)" in (cli.memory / "MEMORY.md").read_text(encoding="utf-8")


def test_any_version_can_be_restored(cli: Cli) -> None:
    for number, words in enumerate(("One.", "Two.", "Three.")):
        cli.save("terse-replies", words, *(["--replace"] if number else []))
    row = cli("restore", "terse-replies", "--to", "1", "--json").json
    assert (row["action"], row["version"], row["change"]) == ("restored", 1, 4) and body_of(cli) == "One."
    cli("restore", "terse-replies", "--to", "3")
    assert body_of(cli) == "Three."
    same = cli("restore", "terse-replies", "--to", "3", "--json").json
    assert (same["action"], same["change"]) == ("unchanged", None)
    assert "nothing to restore" in cli("restore", "terse-replies", "--to", "3").out


def test_a_version_that_never_was_is_refused(cli: Cli) -> None:
    cli.save("a")
    cli.save("b")
    assert "no version that old" in cli("restore", "b", "--to", "1").refusal
    assert cli("restore", "b").refusal and cli("restore", "never-was").refusal
