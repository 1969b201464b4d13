"""`prompt`, and what `show` has in common with it."""

import json
from pathlib import Path

import pytest

from clihelp import Cli, memory_text


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def plant_team(cli: Cli) -> None:
    cli.file("team/tracker", memory_text("Tracker"))
    (cli.memory / "team" / "MEMORY.md").write_text("- [Tracker](tracker.md) — bugs\n", encoding="utf-8")


def test_the_prompt_is_the_guidance_and_then_the_index(cli: Cli) -> None:
    cli.save()
    whole = cli("prompt").out
    guidance, index = cli("prompt", "--part", "guidance").out, cli("prompt", "--part", "index").out
    assert whole == f"{guidance}\n{index}" and "(terse-replies.md)" in index and "terse-replies" not in guidance
    assert str(cli.memory) in guidance


def test_missing_directories_are_made_and_told_on_standard_error(cli: Cli) -> None:
    memory = cli.memory
    first = cli("prompt", "--mode", "team")
    made = [memory, memory / "team", cli.home / ".claude" / "memory"]
    assert first.err.splitlines() == [
        f"memdir: created {path}, because the prompt lists only existing directories" for path in made
    ]
    assert all(path.stat().st_mode & 0o777 == 0o700 for path in made)
    assert cli("prompt", "--mode", "team").err == "" and first.code == 0
    assert cli("prompt", "--mode", "daily_log", "--json").json["made"] == [str(memory / "logs")]


def test_with_memory_off_nothing_is_printed_or_made(cli: Cli) -> None:
    told = cli("prompt", CLAUDE_CODE_DISABLE_AUTO_MEMORY="1")
    assert (told.code, told.out) == (0, "") and "memory is off (CLAUDE_CODE_DISABLE_AUTO_MEMORY)" in told.err
    row = cli("prompt", "--agent", "a", "--scope", "user", "--json", CLAUDE_CODE_DISABLE_AUTO_MEMORY="1").json
    assert row["mode"] == "off" and row["guidance"] == "" == row["index"] and row["made"] == []
    assert not cli.memory.exists() and not (cli.home / ".claude" / "agent-memory").exists()


def test_json_counts_tokens_part_by_part(cli: Cli) -> None:
    cli.save()
    row = cli("prompt", "--json", "--part", "index").json
    assert row["guidance"] == "\n\n".join(at["text"] for at in row["parts"])
    assert 0 < row["tokens"]["guidance"] < 1_600 and all(at["tokens"] > 0 for at in row["parts"])
    assert abs(sum(at["tokens"] for at in row["parts"]) - row["tokens"]["guidance"]) < 30
    assert [at["scope"] for at in row["indexes"]] == ["private", "user"]


def test_an_agent_is_told_of_its_own_directory(cli: Cli) -> None:
    told = cli("prompt", "--agent", "plugin:reviewer", "--scope", "project")
    path = cli.project / ".claude" / "agent-memory" / "plugin-reviewer"
    assert path.is_dir() and str(path) in told.out and str(cli.memory) not in told.out
    assert cli("prompt", "--mode", "agent", "--agent", "plugin:reviewer", "--scope", "project").out == told.out


def test_a_bad_agent_name_is_refused(cli: Cli) -> None:
    assert "refused" in cli("prompt", "--agent", "../x", "--scope", "user").refusal


@pytest.mark.parametrize(
    "argv",
    [
        ["--agent", "a"],
        ["--scope", "user"],
        ["--mode", "agent"],
        ["--mode", "team", "--agent", "a", "--scope", "user"],
        ["--mode", "loud"],
    ],
)
def test_options_that_do_not_go_together_are_wrong_use(cli: Cli, argv: list[str]) -> None:
    assert cli("prompt", *argv).code == 2


def test_a_pipe_gets_the_same_bytes_from_every_process(cli: Cli) -> None:
    cli.save()
    cli("prompt")
    days = (("2026-03-05", "1"), ("2030-01-01", "2"))
    told = [cli.real("prompt", MEMDIR_NOW=now, PYTHONHASHSEED=seed) for now, seed in days]
    assert told[0].data == told[1].data == cli("prompt").data and told[0].err == ""


def test_show_has_the_team_index_when_there_is_a_team(cli: Cli) -> None:
    cli.save()
    plant_team(cli)
    assert [at["scope"] for at in cli("show", "--json").json["indexes"]] == ["private", "user"]
    told = cli("show", MEMDIR_TEAM="1")
    assert "(tracker.md)" in told.out and f"team: {cli.memory / 'team' / 'MEMORY.md'}" in told.out
    rows = cli("show", "--json", MEMDIR_TEAM="1").json["indexes"]
    assert [at["scope"] for at in rows] == ["private", "team", "user"] and rows[1]["dead"] == 0


def test_show_says_when_the_switch_for_instruction_files_keeps_indexes_out(cli: Cli) -> None:
    cli.save()
    told = cli("show", CLAUDE_CODE_DISABLE_CLAUDE_MDS="1").out
    assert told == "CLAUDE_CODE_DISABLE_CLAUDE_MDS is set: a session loads no index\n"
    assert cli("show", "--json", CLAUDE_CODE_DISABLE_CLAUDE_MDS="1").json["indexes"] == []


def test_show_makes_nothing(cli: Cli) -> None:
    cli("show", MEMDIR_TEAM="1", MEMDIR_DAILY_LOG="1")
    assert not cli.memory.exists()


def test_show_keeps_what_is_used(cli: Cli) -> None:
    text = (
        "---\nname: M{n}\ndescription: Number {n} of the zebra list\nmetadata:\n  modified: 20{y:02}-01-01\n---\n\nx\n"
    )
    for n in range(230):
        cli.file(f"m{n}", text.format(n=n, y=99 - n // 3))
    lines = "".join(f"- [M{n}](m{n}.md)\n" for n in range(230))
    (cli.memory / "MEMORY.md").write_text(lines, encoding="utf-8")
    assert "(m229.md)" not in cli("show").out
    cli("recall", "what is number 229 of the zebra list?", "--limit", "1")
    surfaced = json.loads(cli("why", "m229", "--json").out)
    assert "(m229.md)" in cli("show").out, surfaced
