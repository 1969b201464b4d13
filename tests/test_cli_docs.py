"""docs/cli.md is made from the commands and in step with them."""

import shlex
import subprocess
import sys
from pathlib import Path

import click

from clihelp import SOURCE
from memdir.interfaces.cli import VERBS, CliVerb, app
from memdir.interfaces.cli.reference import render_reference, walk_commands

DOCS = Path(__file__).parent.parent / "docs"


def test_the_page_is_in_step() -> None:
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == render_reference(), (
        "run: python -m memdir.interfaces.cli.reference > docs/cli.md"
    )


def test_the_module_prints_the_page() -> None:
    command = [sys.executable, "-m", "memdir.interfaces.cli.reference"]
    ended = subprocess.run(command, env={"PYTHONPATH": str(SOURCE)}, capture_output=True, check=True)
    assert ended.stdout == render_reference().encode()


def test_every_command_is_on_it_with_an_example_of_its_own() -> None:
    page = render_reference()
    context = click.Context(app, info_name="memdir")
    for verb in [verb for verbs in VERBS.values() for verb in verbs]:
        for path, command in walk_commands(app.get_command(context, verb), f"memdir {verb}"):
            assert f"### `{path}`" in page
            if isinstance(command, click.Group):
                continue
            assert isinstance(command, CliVerb) and command.help and command.examples
            assert all(path in example for example in command.examples)
            assert all(at.help for at in command.params if isinstance(at, click.Option)), path


def test_every_example_is_understood() -> None:
    """Each example parses: its options exist and its required ones are there."""
    for verb in [verb for verbs in VERBS.values() for verb in verbs]:
        context = click.Context(app, info_name="memdir")
        for path, command in walk_commands(app.get_command(context, verb), f"memdir {verb}"):
            for example in command.examples if isinstance(command, CliVerb) else ():
                plain = example.replace('eval "$(', "").replace(')"', "")
                words = shlex.split(plain.replace("\\\n", " "))
                stop = next((at for at, word in enumerate(words) if word in ("<", ">")), len(words))
                command.make_context(path, words[len(path.split()) : stop], resilient_parsing=False)
