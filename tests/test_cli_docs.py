"""docs/cli.md is made from the commands and in step with them."""

import shlex
import subprocess
import sys
from pathlib import Path

import click

from cli_reference import list_commands, render_reference
from clihelp import SOURCE
from memdir.interfaces.cli.app import CliVerb

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_is_in_step() -> None:
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == render_reference(), (
        "run: python scripts/cli_reference.py > docs/cli.md"
    )


def test_the_script_prints_the_page() -> None:
    command = [sys.executable, str(DOCS.parent / "scripts" / "cli_reference.py")]
    ended = subprocess.run(command, env={"PYTHONPATH": str(SOURCE)}, capture_output=True, check=True)
    assert ended.stdout == render_reference().encode()


def test_every_command_is_on_it_with_an_example_of_its_own() -> None:
    page = render_reference()
    for path, command in list_commands():
        assert f"### `memdir {path}`" in page
        if isinstance(command, click.Group):
            continue
        assert isinstance(command, CliVerb) and command.help and command.examples
        assert all(f"memdir {path}" in example for example in command.examples)
        assert all(at.help for at in command.params if isinstance(at, click.Option)), path


def test_every_example_is_understood() -> None:
    """Each example parses: its options exist and its required ones are there."""
    for path, command in list_commands():
        for example in command.examples if isinstance(command, CliVerb) else ():
            plain = example.replace('eval "$(', "").replace(')"', "")
            words = shlex.split(plain.replace("\\\n", " "))
            stop = next((at for at, word in enumerate(words) if word in ("<", ">")), len(words))
            command.make_context(path, words[len(path.split()) + 1 : stop], resilient_parsing=False)
