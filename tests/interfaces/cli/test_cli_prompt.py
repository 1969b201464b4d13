"""`prompt`, and what `show` has in common with it."""

from clihelp import Cli
from tables import read_rows

ROWS = read_rows("cli_prompt")


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


def test_show_says_when_the_switch_for_instruction_files_keeps_indexes_out(cli: Cli) -> None:
    cli.save()
    told = cli("show", CLAUDE_CODE_DISABLE_CLAUDE_MDS="1").out
    assert told == "CLAUDE_CODE_DISABLE_CLAUDE_MDS is set: a session loads no index\n"
    assert cli("show", "--json", CLAUDE_CODE_DISABLE_CLAUDE_MDS="1").json["indexes"] == []
