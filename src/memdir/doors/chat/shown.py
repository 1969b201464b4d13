"""What commands show of memory: what is loaded, what was spent; and an editor on a file."""

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from memdir.doors.chat.talk import Talk
from memdir.errors import SettingsError
from memdir.index import INDEX_FILE
from memdir.project_files import load_project_files
from memdir.records import Usage


def show_loaded(talk: Talk, toggles: Sequence[str]) -> str:
    """The memories, instruction files and switches of this conversation."""
    opened = talk.opened
    switch = opened.places.switch
    lines = [] if switch.on else [f"Memory is off here ({switch.rule})."]
    for store in opened.stores:
        count = len(store.scan())
        lines.append(f"{store.scope.value:8} {count:4} {'memory' if count == 1 else 'memories'}  {store.root}")
    files = load_project_files(opened.environment, opened.places, talk.cwd).files
    lines += [f"file     {file.path}  ({file.what})" for file in files]
    states = [f"{key} {'on' if opened.settings.flag(key) else 'off'}" for key in toggles]
    private = "this conversation is private" if talk.session.is_private else ""
    return "\n".join([*lines, "switches " + ", ".join(states), *filter(None, [private])])


def show_cost(spent: Mapping[str, Usage]) -> str:
    """What models took, by purpose."""
    if not spent:
        return "No model was asked."
    return "\n".join(f"{purpose or 'other'}: {_render(usage)}" for purpose, usage in spent.items())


def open_in_editor(talk: Talk, name: str) -> None:
    """A memory in the person's editor, checked when it comes back; the index as the plain file it is."""
    if name:
        talk.run_verb("edit", name)
        return
    _run_editor(talk, talk.opened.private.root / INDEX_FILE)


def _run_editor(talk: Talk, path: Path) -> None:
    environment = talk.opened.environment
    try:
        words = shlex.split(environment.editor)
    except ValueError:
        words = []
    if not words:
        raise SettingsError("no editor is set", key="EDITOR", hint=f"set VISUAL or EDITOR; the index is {path}")
    if not path.is_file():
        raise SettingsError("there is no index yet", key=str(path), hint="it comes with the first memory")
    try:
        subprocess.run([*words, str(path)], env=dict(environment.inherited), check=False)
    except OSError as error:
        raise SettingsError(f"the editor {words[0]} cannot be started", key="EDITOR", hint="set EDITOR") from error


def _render(usage: Usage) -> str:
    cached = f", {usage.cached / usage.input:.0%} of it cached" if usage.input else ""
    dollars = "" if usage.dollars is None else f", ${usage.dollars:.4f}"
    return f"{usage.input:,} tokens in{cached}, {usage.output:,} out{dollars}"
