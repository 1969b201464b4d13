"""Whether the agent itself wrote memory: seen in the calls of its tools, by the paths they name.

If it did, nobody needs to extract the same again. Each host has its own tools, so this is a table: which tools write,
where their input names the file. In a shell command the target of a redirection or of a writing program counts, not a
file that is only read. A call that failed wrote nothing.

What it does not do: touch the disk. Links are not followed, so a caller gives a directory in each of its spellings; and
a script that hides its target from a reader of the command is not found out (history tells of its write).
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from memdir.records import Message, ToolCall
from memdir.shell_words import Step, parse_steps

# Tools that write the file they name, in small letters without `_` and `-`: hosts spell them in many ways.
WRITERS = frozenset(
    "write edit multiedit notebookedit "  # Claude Code
    "writefile replace savefile "  # Gemini
    "editfile searchreplace strreplace deletefile delete reapply "  # Cursor
    "createfile replacestringinfile multireplacestringinfile inserteditintofile "  # VS Code
    "applypatch updatefile patchfile".split()
)
PATH_KEYS = ("file_path", "notebook_path", "path", "filePath", "target_file", "target_notebook", "absolute_path")
EDITORS = frozenset(("strreplacebasededittool", "strreplaceeditor", "texteditor"))
EDITOR_VERBS = frozenset(("create", "str_replace", "insert", "delete", "rename"))
SHELLS = frozenset(
    "bash shell localshell execcommand shellcommand containerexec runshellcommand runterminalcmd runterminalcommand "
    "runinterminal runcommand terminal powershell".split()
)
_FOLDER_KEYS = ("workdir", "working_directory", "cwd")
COMMAND_KEYS = ("command", "cmd", "script", "input")
PATCHED = re.compile(r"^\*\*\* (?:(?:Add|Update|Delete) File|Move to): (.+?)\s*$", re.MULTILINE)
_OWN_TOOL = re.compile(
    r"(?:^|[^a-z])memdir[^a-z]+(?:memory[^a-z]+)?(?:save|update|remember|forget|edit|delete|write|log)(?![a-z])"
    r"|^memory_(?:save|update|forget|log)$"  # as hosts call it that leave the server's name out
)
_OWN_VERBS = frozenset("save remember forget edit restore undo promote demote log".split())

_ALL, _LAST, _IN_PLACE = "all", "last", "in place"
# Programs that write, and which of their arguments they write to.
_PROGRAMS = {
    **dict.fromkeys("tee touch rm rmdir unlink shred truncate mv trash".split(), _ALL),
    **dict.fromkeys("cp install ln rsync".split(), _LAST),
    **dict.fromkeys("sed gsed perl ruby awk gawk".split(), _IN_PLACE),
}
_SCRIPTS = re.compile(r"python[\d.]*|node|ruby|perl|deno|bun|php")
_SCRIPT_WRITES = re.compile(r"write|unlink|remove|rename|rmtree|open\([^)]*,\s*(?:mode=)?[\"'][wax]", re.IGNORECASE)


def find_written_memory(
    messages: Iterable[Message], directories: Iterable[Path | str], *, cwd: str = "", home: str = ""
) -> tuple[str, ...]:
    """What the agent wrote in these directories by its own tools: paths, or the name of the tool where it names none.

    Relative paths count from `cwd`, `~` and `$HOME` are `home`; without them such paths are passed over.
    """
    messages = tuple(messages)
    failed = {message.answers for message in messages if message.role == "tool" and message.failed}
    eye = _Eye([os.path.normpath(directory) for directory in directories], cwd, home)
    calls = (call for message in messages if message.role == "assistant" for call in message.calls)
    found = (path for call in calls if not call.id or call.id not in failed for path in _find_written(call, eye))
    return tuple(dict.fromkeys(found))


class _Eye:
    """Tells whether a path, as it stands in a call, is in one of the directories."""

    def __init__(self, directories: Sequence[str], cwd: str, home: str) -> None:
        self.directories, self.cwd, self.home = directories, cwd, home

    def find(self, text: str, cwd: str | None = None) -> str | None:
        """The whole path if it lies in a directory, or is one."""
        path = self.expand(text, self.cwd if cwd is None else cwd)
        is_inside = any(path == at or path.startswith(os.path.join(at, "")) for at in self.directories)
        return path if path and is_inside else None

    def expand(self, text: str, cwd: str) -> str:
        text = text.removeprefix("file://")
        for start in ("~/", "$HOME/", "${HOME}/"):
            if self.home and text.startswith(start):
                text = os.path.join(self.home, text[len(start) :])
        if not os.path.isabs(text):
            text = os.path.join(cwd, text) if cwd and not text.startswith(("~", "$")) else ""
        return os.path.normpath(text) if text else ""

    def is_named_in(self, text: str) -> bool:
        return any(directory in text for directory in self.directories) or any(
            self.home and directory.startswith(self.home) and f"{mark}{directory[len(self.home) :]}" in text
            for directory in self.directories
            for mark in ("~", "$HOME", "${HOME}")
        )


def plain_name(tool: str) -> str:
    """A tool's name as the tables have it: small letters, without its server."""
    return re.sub(r"[^a-z]", "", tool.rsplit("__", 1)[-1].rsplit(".", 1)[-1].lower())


def _find_written(call: ToolCall, eye: _Eye) -> Iterator[str]:
    name = plain_name(call.name)
    texts = {key: value for key, value in call.input.items() if isinstance(value, str)}
    if _OWN_TOOL.search(call.name.lower()):
        yield call.name
    elif name == "memory" and texts.get("command") in EDITOR_VERBS:
        yield texts.get("path") or texts.get("old_path") or call.name
    elif name in EDITORS and texts.get("command") not in EDITOR_VERBS:
        return
    elif name in SHELLS:
        yield from _find_in_shell(call.input, eye)
    elif name in WRITERS or name in EDITORS:
        paths = [texts[key] for key in PATH_KEYS if key in texts]
        paths += [path for text in texts.values() if "***" in text for path in PATCHED.findall(text)]
        yield from filter(None, (eye.find(path) for path in paths))


def _find_in_shell(input: Mapping[str, object], eye: _Eye) -> Iterator[str]:
    cwd = next((at for key in _FOLDER_KEYS if isinstance(at := input.get(key), str)), eye.cwd)
    for key in COMMAND_KEYS:
        command = input.get(key)
        if isinstance(command, list):
            words = tuple(word for word in command if isinstance(word, str))
            yield from _find_in_steps([Step(words)], "\n".join(words), cwd, eye)
        elif isinstance(command, str):
            yield from _find_in_steps(parse_steps(command), command, cwd, eye)


def _find_in_steps(steps: Iterable[Step], whole: str, cwd: str, eye: _Eye) -> Iterator[str]:
    if "*** Begin Patch" in whole:
        yield from filter(None, (eye.find(path, cwd) for path in PATCHED.findall(whole)))
    for step in steps:
        program, rest = step.program, step.arguments
        if program in ("cd", "pushd") and rest:
            cwd = eye.expand(rest[0], cwd) or cwd
        if script := step.script:
            yield from _find_in_steps(parse_steps(script), script, cwd, eye)
        if (verb := step.find_verb("memdir")) in _OWN_VERBS:
            yield f"memdir {verb}"
        targets = (*step.targets, *_list_targets(program, rest))
        yield from filter(None, (eye.find(target, cwd) for target in targets))
        if _SCRIPTS.fullmatch(program) and _SCRIPT_WRITES.search(whole) and eye.is_named_in(whole):
            yield f"{program} script"


def _list_targets(program: str, arguments: Sequence[str]) -> Iterator[str]:
    """Which arguments a program writes to."""
    way = _PROGRAMS.get(program)
    plain = [word for word in arguments if not word.startswith("-")]
    if way == _ALL or (way == _IN_PLACE and any(_is_in_place(word) for word in arguments)):
        yield from plain
    elif way == _LAST and plain:
        yield plain[-1]
        yield from (word.partition("=")[2] for word in arguments if word.startswith("--target-directory="))
        yield from (after for word, after in pairwise(arguments) if word == "-t")
    elif program == "dd":
        yield from (word.removeprefix("of=") for word in plain if word.startswith("of="))


def _is_in_place(word: str) -> bool:
    return word.startswith("--in-place") or bool(re.match(r"-[a-zA-Z]*i", word))
