"""The program as a whole: what it says without a verb, exit codes, errors, cleaning."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest

from cli_reference import list_commands
from clihelp import SOURCE, Cli, memory_text
from memdir import __version__
from memdir.errors import LockedError, MemdirError, NotFoundError, ReplyError
from memdir.interfaces.cli import NEXT, TableColumn, cut_width, measure_width, render_columns, render_error, render_json
from tables import read_rows

ROWS = read_rows("cli")


def test_without_a_verb_it_says_what_is_where_and_what_to_try(cli: Cli) -> None:
    told = cli()
    assert told.code == 0 and told.err == ""
    assert str(cli.project) in told.out and "memdir remember TEXT" in told.out
    assert not (cli.home / ".claude").exists(), "looking makes nothing"


def test_without_a_verb_a_broken_setting_is_told_and_is_no_failure(cli: Cli) -> None:
    told = cli(MEMDIR_INDEX_ORDER="sideways")
    assert told.code == 0 and "index_order" in told.out and "Try:" in told.out


def test_the_version_is_printed(cli: Cli) -> None:
    assert cli("--version").out == f"memdir {__version__}\n"


def test_wrong_use_is_two_and_one_line(cli: Cli) -> None:
    for argv in ROWS["wrong_use_is_two_and_one_line"]:
        told = cli(*argv)
        assert told.code == 2 and told.err.startswith("memdir: ") and told.err.count("\n") == 1, argv
        assert "--help` shows how" in told.err and told.out == ""


def test_a_near_miss_of_a_verb_is_corrected(cli: Cli) -> None:
    assert "did you mean list?" in cli("lst").err
    assert "did you mean sync?" in cli("team", "snyc").err


def test_a_verb_that_has_verbs_of_its_own_names_them(cli: Cli) -> None:
    assert "needs one of: init, join," in cli("team").err


def test_a_number_that_is_none_is_called_that(cli: Cli) -> None:
    assert "'x' is not a whole number" in cli("undo", "x").err


def test_an_option_of_the_program_behind_the_verb_says_where_it_goes(cli: Cli) -> None:
    assert "goes before the command: `memdir --dir … list`" in cli("list", "--dir", "/x/y").err


def test_every_verb_has_help_with_an_example() -> None:
    for path, command in list_commands():
        if isinstance(command, click.Group):
            continue
        text = command.get_help(click.Context(command, info_name=path))
        assert ("Example" in text and "\n  memdir" in text.partition("Example")[2]) or "eval" in text, path
        assert command.short_help or len(command.get_short_help_str(80)) < 80


def test_help_is_shown_for_short_and_long(cli: Cli) -> None:
    assert cli("-h").out == cli("--help").out and "Everyday" in cli("--help").out
    assert cli("save", "--help").code == 0


def test_another_directory_can_be_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    assert "notes does not exist yet" in cli("--dir", str(tmp_path / "elsewhere" / "notes"), "list").err
    saved = cli("--dir", str(tmp_path / "elsewhere" / "notes"), "save", "--type", "user", "--title", "Who I am",
                "--description", "Writes Rust daily and is new to Python", "--body", "So.")  # fmt: skip
    assert saved.code == 0 and (tmp_path / "elsewhere" / "notes" / "who-i-am.md").is_file()
    relative = cli("--dir", "../../../elsewhere/notes", "list", "--json")
    assert [row["name"] for row in relative.json] == ["who-i-am"]
    assert cli("list", "--json").json == []


@pytest.mark.parametrize("place", ["", "/", "/etc", "a\0b", "//server/share"])
def test_a_directory_that_may_not_be_one_is_refused(cli: Cli, place: str) -> None:
    assert "refused" in cli("--dir", place, "list").refusal


def test_a_vanished_working_directory_is_one_line(cli: Cli, tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    code = "import os, sys; os.rmdir(os.getcwd()); from memdir.interfaces.cli import run; sys.exit(run(['list']))"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=gone, env=cli.environ(), capture_output=True, text=True, encoding="utf-8"
    )
    assert ended.returncode == 1 and ended.stderr.startswith("memdir: ") and ended.stderr.count("\n") == 1


def test_every_error_of_the_tree_has_words_for_what_to_do_next() -> None:
    def below(kind: type[MemdirError]) -> list[type[MemdirError]]:
        return [kind, *(found for sub in kind.__subclasses__() for found in below(sub))]

    for kind in below(MemdirError):
        assert next(NEXT[at] for at in kind.__mro__ if at in NEXT)
    assert render_error(LockedError("held")) == "held; try again in a moment"
    assert render_error(NotFoundError("no.", hint="look\nelsewhere")) == "no; look elsewhere"
    assert "without a model" in render_error(ReplyError("not JSON"))


def test_an_endless_argument_does_not_fill_the_screen(cli: Cli) -> None:
    told = cli("config", "get", "x" * 100_000)
    assert len(told.refusal) < 2_100


@pytest.mark.parametrize("verb", ["read", "pin", "forget", "edit", "restore", "history", "diff"])
@pytest.mark.parametrize(
    "name", ["\x1b[31mred", "a\0b", "../../etc/passwd", "\u202egnp.exe", "a\nb", "", "x" * 5_000, "/etc/passwd"]
)
def test_a_hostile_name_is_one_clean_line(cli: Cli, verb: str, name: str) -> None:
    cli.save()
    told = cli(verb, name).refusal
    assert "\x1b" not in told and "\0" not in told and "\u202e" not in told


@pytest.mark.parametrize("field", ["--name", "--title", "--description", "--body", "--why", "--how"])
@pytest.mark.parametrize("bad", ROWS["no_control_character_is_saved_from_any_argument"])
def test_no_control_character_is_saved_from_any_argument(cli: Cli, field: str, bad: str) -> None:
    values = {
        "--type": "feedback",
        "--name": "n",
        "--title": "T",
        "--description": "No summary after a reply",
        "--body": "b",
    }
    argv = [part for pair in {**values, field: bad}.items() for part in pair]
    told = cli("save", *argv).refusal
    assert "\x1b" not in told and "\0" not in told and "\u202e" not in told
    assert cli("list", "--json").json == []


def test_while_memory_is_off_it_is_neither_written_nor_learned_but_read_and_forgotten(cli: Cli) -> None:
    cli.save()
    cli.save("terse-replies", "Another text.", "--replace")
    (cli.project / "talk.json").write_text('[{"role": "user", "content": "remember that x is y"}]', encoding="utf-8")
    cli.variables["CLAUDE_CODE_DISABLE_AUTO_MEMORY"] = "1"
    for argv in ROWS["while_memory_is_off"]:
        assert "memory is off here (CLAUDE_CODE_DISABLE_AUTO_MEMORY)" in cli(*argv).refusal, argv
    assert len(cli("list", "--json").json) == 1 and cli("forget", "terse-replies").code == 0


def test_bytes_that_are_not_utf8_in_an_argument_are_refused(cli: Cli) -> None:
    told = cli.real(
        "save", "--type", "user", "--name", b"n\xff", "--description", "Likes short plain answers", "--body", "b"
    )
    assert told.code == 1 and told.err.count("\n") == 1


HOSTILE = "\x1b]0;owned\x07\x1b[31m\x9b2J\u202eevil\u2066\x7f"


def test_controls_in_a_stored_file_never_reach_the_output(cli: Cli) -> None:
    cli.save("ally")
    cli.file("evil", memory_text(f'"{HOSTILE}"', f'"{HOSTILE} one two three"', f"{HOSTILE}\r\nmore\n[[{HOSTILE}]]\n"))
    cli.file(f"e{HOSTILE}e", "no frontmatter at all\n")
    (cli.memory / "MEMORY.md").write_text(f"- [x{HOSTILE}](evil.md)\n{HOSTILE}\n", encoding="utf-8")
    for argv in (
        ["list"], ["list", "--json"], ["read", "evil"], ["read", "evil", "--json"], ["show"], ["show", "--json"],
        ["history"], ["history", "--json"], ["diff"], ["diff", "--json"], ["status"], ["status", "--json"],
        ["doctor"], ["doctor", "--json"], ["forget", "evil"], ["diff"], ["undo"], ["read", "e"], [],
    ):  # fmt: skip
        for color in ("never", "always"):
            told = cli("--color", color, *argv)
            text = told.out + told.err
            assert not any(at in text for at in "\x07\x9b\u202e\u2066\x7f\r"), (argv, color)
            assert "\x1b]" not in text and "\x1b[2J" not in text and "\x1b[31m\\x9b" not in text
            assert color == "always" or "\x1b" not in text


def test_raw_bytes_go_into_a_pipe_and_not_elsewhere(cli: Cli) -> None:
    data = memory_text("Odd").encode() + b"\x1b[31m\xff\r\n"
    cli.file("odd", data)
    assert cli.real("read", "odd", "--raw").data == data
    assert b"\x1b" not in cli.real("read", "odd").data


def test_json_escapes_what_changes_on_a_terminal_and_stays_the_same_text() -> None:
    text = render_json({"a": "\x9b\u202eé\U000e0041\x00\ud800"})
    assert "é" in text and not any(at in text for at in "\x9b\u202e\x00")
    assert "\\u009b\\u202eé\\udb40\\udc41\\u0000" in text


def test_a_stream_that_is_not_utf8_gets_escapes_and_valid_json(cli: Cli) -> None:
    cli.file("umlaut", memory_text("Größe", "Die Größe von 日本 in Zahlen und Wörtern"))
    for argv in (["list"], ["read", "umlaut"], ["list", "--json"]):
        told = cli.real(*argv, PYTHONIOENCODING="ascii")
        assert told.code == 0 and told.err == "" and told.data.isascii()
    assert told.json[0]["title"] == "Größe"


def test_a_pipe_closed_early_is_quiet(cli: Cli) -> None:
    for number in range(300):
        cli.file(f"m{number}", memory_text(f"M{number}", "words " * 150))
    read, write = os.pipe()
    with subprocess.Popen(
        cli.command("list", "--json"), cwd=cli.project, env=cli.environ(), stdout=write, stderr=subprocess.PIPE
    ) as child:
        os.close(write)
        os.read(read, 10)
        os.close(read)
        _, err = child.communicate()
    assert err == b"" and child.returncode == 0


def test_no_standard_output_at_all_is_no_failure(cli: Cli) -> None:
    command = ["sh", "-c", 'exec "$@" >&-', "sh", *map(str, cli.command("list"))]
    ended = subprocess.run(command, cwd=cli.project, env=cli.environ(), stderr=subprocess.PIPE)
    assert ended.returncode == 0 and ended.stderr == b""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_behind_the_output_is_one_line(cli: Cli) -> None:
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            cli.command("where"), cwd=cli.project, env=cli.environ(), stdout=full, stderr=subprocess.PIPE
        )
    assert ended.returncode == 1 and ended.stderr.startswith(b"memdir: ") and ended.stderr.count(b"\n") == 1


def test_listing_loads_nothing_it_does_not_need(cli: Cli) -> None:
    code = (
        "import sys; from memdir.interfaces.cli import run; run(['list']); print(sorted(sys.modules), file=sys.stderr)"
    )
    env = {**cli.environ(), "PYTHONPATH": str(SOURCE)}
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=cli.project, env=env, capture_output=True, text=True, encoding="utf-8"
    )
    for name in ROWS["listing_loads_nothing_it_does_not_need"]:
        assert f"'{name}'" not in ended.stderr, name
    assert "'memdir.interfaces.cli.read'" in ended.stderr


def test_width_is_counted_as_a_terminal_does() -> None:
    assert [measure_width(text) for text in ("abc", "日本", "e\u0301", "a\u200db")] == [3, 4, 1, 2]
    assert cut_width("日本語", 5) == "日本…" and cut_width("abc", 3) == "abc" and cut_width("abcd", 3) == "ab…"


def test_columns_fit_and_only_those_that_may_are_cut() -> None:
    columns = (TableColumn("NAME", is_cut=True), TableColumn("TYPE"), TableColumn("TEXT", is_cut=True))
    table = render_columns(columns, [["n" * 50, "feedback", "t" * 200], ["日本", "user", "short"]], 60)
    assert all(measure_width("".join(row)) <= 60 for row in table)
    assert [row[1].strip() for row in table] == ["TYPE", "feedback", "user"]
    narrow = render_columns(columns, [["n" * 50, "feedback", "t" * 200]], 10)
    assert narrow[1][1].strip() == "feedback"
