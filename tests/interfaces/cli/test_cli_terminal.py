"""On a real terminal: colour, tables that fit, questions, and nothing that the content could do to it."""

import os
import re
import select
import signal
import sys
from pathlib import Path

import pytest

from cli_terminal import Terminal, show
from clihelp import Cli, memory_text

COLOR = re.compile(r"\x1b\[[0-9;]*m")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path, TERM="xterm-256color", LC_ALL="C.UTF-8")


def test_content_cannot_change_on_the_terminal(cli: Cli) -> None:
    evil = "\x1b]0;owned\x07\x1b[2J\x1b[5mblink[/bold][red]markup\u202e"
    cli.file("evil", memory_text(f'"{evil}"', f'"{evil} some words"', f"{evil}\n"))
    for argv in (
        ["list"],
        ["read", "evil"],
        ["read", "evil", "--raw"],
        ["list", "--json"],
        ["doctor"],
        ["read", f"no{evil}"],
    ):
        _, text = show(cli, *argv)
        rest = COLOR.sub("", text)
        assert "\x1b" not in rest and "\x07" not in text and "\u202e" not in text and "\x1b[5m" not in text, argv
    assert "[red]markup" in show(cli, "read", "evil")[1], "it is not read as markup"


def test_no_color_and_never_are_honoured(cli: Cli) -> None:
    cli.save()
    for argv, variables in (
        (["list"], {"NO_COLOR": "1"}),
        (["--color", "never", "list"], {}),
        (["list"], {"TERM": "dumb"}),
    ):
        code, text = show(cli, *argv, **variables)
        assert code == 0 and "\x1b" not in text and "NAME" in text
    assert COLOR.search(show(cli, "--color", "always", "list", NO_COLOR="1")[1])
    assert not COLOR.search(show(cli, "demo", NO_COLOR="1")[1])


def test_colour_in_a_pipe_only_when_asked_for(cli: Cli) -> None:
    cli.save()
    assert "\x1b" not in cli.real("list").out and COLOR.search(cli.real("--color", "always", "list").out)


def test_diffs_are_coloured(cli: Cli) -> None:
    cli.save()
    code, text = show(cli, "diff")
    assert code == 0 and "\x1b[32m+name: terse-replies" in text


def test_a_purge_asks_first(cli: Cli) -> None:
    cli.save()
    terminal = Terminal(cli, "forget", "terse-replies", "--purge")
    terminal.read_until("[y/N]")
    terminal.type("n\n")
    code, _ = terminal.end()
    assert code != 0 and len(cli("list", "--json").json) == 1
    terminal = Terminal(cli, "forget", "terse-replies", "--purge")
    terminal.read_until("[y/N]")
    terminal.type("y\n")
    code, text = terminal.end()
    assert code == 0 and "purged" in text and cli("list", "--json").json == []


@pytest.mark.parametrize(("answer", "is_saved"), [("m", False), ("k", True), ("n", None)])
def test_a_secret_is_asked_about(cli: Cli, answer: str, is_saved: bool | None) -> None:
    terminal = Terminal(cli, "remember", "the admin password is hunter2000")
    terminal.read_until("[m]: ")
    terminal.type(f"{answer}\n")
    code, text = terminal.end()
    assert code == (130 if is_saved is None else 0), text
    (row,) = cli("list", "--json").json or [None]
    assert (row is None) == (is_saved is None)
    if row is not None:
        assert ("hunter2000" in cli("read", row["name"]).out) == is_saved and row["name"].startswith("admin-password")


def test_one_of_several_is_chosen(cli: Cli) -> None:
    for name in ("deploy-day", "deploy-key"):
        cli("remember", "--name", name, f"the {name} of the deploy is known to operations")
    terminal = Terminal(cli, "forget", "deploy")
    terminal.read_until("(0 for none): ")
    terminal.type("2\n")
    assert terminal.end()[0] == 0
    assert len(cli("list", "--json").json) == 1


def test_an_interrupt_is_quiet_and_130(cli: Cli) -> None:
    cli.save()
    terminal = Terminal(cli, "forget", "terse-replies", "--purge")
    terminal.read_until("[y/N]")
    # Again until it is heard: one that comes just before the read begins is noted but does not end the read.
    while terminal.process.poll() is None:
        os.kill(terminal.process.pid, signal.SIGINT)
        select.select([terminal.main], [], [], 0.2)
    code, text = terminal.end()
    assert code == 130 and "Traceback" not in text and len(cli("list", "--json").json) == 1


def test_a_real_editor_session_has_the_terminal(cli: Cli) -> None:
    cli.save()
    checks = "import sys; assert sys.stdin.isatty() and sys.stdout.isatty()"
    script = f"{checks}; open(sys.argv[-1], 'a', encoding='utf-8').write('more\\n')"
    code, text = show(cli, "edit", "terse-replies", EDITOR=f'{sys.executable} -c "{script}"')
    assert code == 0 and "changed" in text and "more" in cli("read", "terse-replies").out
