"""`history`, `diff`, `undo`, `restore`."""

import pytest

from clihelp import Cli


def test_a_directory_without_a_past_has_an_empty_history(cli: Cli) -> None:
    assert cli("history").code == 0 and cli("history", "--json").json == []
    assert not (cli.home / ".claude").exists(), "looking makes nothing"


def test_history_of_one_memory_and_of_a_forgotten_one(cli: Cli) -> None:
    cli.save("a")
    cli.save("b")
    cli("forget", "a")
    assert [at["verb"] for at in cli("history", "a", "--json").json] == ["forget", "save"]
    assert [at["verb"] for at in cli("history", "--limit", "1", "--json").json] == ["forget"]
    assert len(cli("history", "--limit", "0", "--json").json) == 3
    assert cli("history", "never-was").refusal


def test_a_diff_is_of_the_last_change_of_an_change_or_of_a_memory(cli: Cli) -> None:
    cli.save("a", "Old words.")
    cli("edit", "a", "--body", "New words.")
    cli.save("b")
    assert "+name: b" in cli("diff").lines
    assert {"-Old words.", "+New words."} <= set(cli("diff", "a").lines)
    first = cli("diff", "1").lines
    assert "--- (no file)" in first and "+++ a.md" in first and any(line.startswith("+- [a](a.md)") for line in first)


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


def test_an_undo_twice_or_of_nothing_is_refused(cli: Cli) -> None:
    assert "no changes to undo" in cli("undo").refusal
    cli.save()
    cli("undo", "1")
    assert "already undone" in cli("undo", "1").refusal and "no change 99" in cli("undo", "99").refusal
    assert "no change" in cli("undo", str(2**63 - 1)).refusal


def test_a_version_that_never_was_is_refused(cli: Cli) -> None:
    cli.save("a")
    cli.save("b")
    assert "no older version" in cli("restore", "b", "--to", "1").refusal
    assert cli("restore", "b").refusal and cli("restore", "never-was").refusal
