"""Whether the agent itself wrote memory: seen in the calls of its tools, by the paths they name.

If it did, nobody needs to extract the same again. Each host has its own tools, so this is a table: which tools write,
where their input names the file. In a shell command the target of a redirection or of a writing program counts, not a
file that is only read. A call that failed wrote nothing.

What it does not do: touch the disk. Links are not followed, so a caller gives a directory in each of its spellings; and
a script that hides its target from a reader of the command is not found out (history tells of its write).
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path

from memdir import guard
from memdir.errors import PathError
from memdir.files import read_small
from memdir.format.frontmatter import parse_fields
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass
from memdir.guard import STATE
from memdir.limits import FILE_BYTES
from memdir.records import Kind, Message, ToolCall
from memdir.store.plan import TEAM_FOLDER
from memdir.store.secret_text import SecretFinding
from memdir.store.secrets import render_findings

# --- shell_words ---
# A shell command as steps: the programs it runs, their words, and where their output goes.
#
# Enough of the shell's grammar to see what a command writes to: quotes, redirections, here-documents, `;`, `&&`, `|`,
# assignments before a program, and programs that only run another. What it does not do: expand, substitute or run
# anything. A command that does not parse gives the steps that could be told apart by a rougher look.

COMMAND_CHARS = 100_000  # a longer one is a script with a file in it; its start says what it runs
_HERE = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n.*?^\s*\2\s*$", re.DOTALL | re.MULTILINE)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_RUNNERS = frozenset(
    "sudo env command nohup time nice exec xargs stdbuf uvx pipx uv poetry run builtin then do else".split()
)
_VALUED = frozenset("-u -g -n -I -P -L -C -o -e".split())  # options of those that take the next word
_SHELLS = frozenset("sh bash zsh dash ksh fish".split())
_BREAKS = frozenset((";", "&&", "||", "|", "&", "|&", ";;", "(", ")", "{", "}"))
_ROUGH = re.compile(r"[;|&<>]+|[^\s;|&<>]+")
_GOES_TO = re.compile(r"&?\d*>{1,2}[|&]?")


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """One program with its words; `targets` are the files its output goes to."""

    words: tuple[str, ...]
    targets: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        return os.path.basename(self._bare[0]) if self._bare else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        return self._bare[1:]

    @property
    def script(self) -> str:
        """The command given to a shell with -c, in whatever bundle of options."""
        if self.program in _SHELLS:
            for option, text in pairwise(self.arguments):
                if re.fullmatch(r"-[a-z]*c", option):
                    return text
        return ""

    def find_verb(self, program: str) -> str:
        """The first word that is no option, if this runs `program`, by its name or as a module of Python."""
        words = self._bare
        if len(words) > 2 and re.fullmatch(r"python[\d.]*", self.program) and words[1:3] == ("-m", program):
            words = words[2:]
        elif self.program != program:
            return ""
        if {"--help", "--dry-run"} & set(words):
            return ""
        return next((word for word in words[1:] if not word.startswith("-")), "")

    @property
    def _bare(self) -> tuple[str, ...]:
        """Without assignments, and without programs that only run the next."""
        words = self.words
        while words and (_ASSIGNMENT.fullmatch(words[0]) or os.path.basename(words[0]) in _RUNNERS):
            is_runner, words = not _ASSIGNMENT.fullmatch(words[0]), words[1:]
            while is_runner and len(words) > 1 and words[0].startswith("-"):
                words = words[2:] if words[0] in _VALUED else words[1:]
        return words


def parse_steps(command: str) -> list[ShellCommand]:
    """The steps of a command, in order."""
    text = _HERE.sub(r"\3\n", command[:COMMAND_CHARS]).replace("\\\n", " ")
    found: list[ShellCommand] = []
    for line in _split_lines(text):
        found += _group(line)
    return found


def _split_lines(text: str) -> Iterator[list[str]]:
    """The words of each line, or of several where a quote goes on over their ends."""
    pending = ""
    lines = text.split("\n")
    for number, line in enumerate(lines):
        pending = f"{pending}\n{line}" if pending else line
        words = _split(pending)
        if words is None and number < len(lines) - 1 and len(pending) < COMMAND_CHARS // 10:
            continue
        yield words if words is not None else _ROUGH.findall(pending.replace('"', "").replace("'", ""))
        pending = ""


def _split(text: str) -> list[str] | None:
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:  # a quote that is not closed, so far
        return None


def _group(words: list[str]) -> Iterator[ShellCommand]:
    own: list[str] = []
    targets: list[str] = []
    is_target = False
    for word in words:
        if is_target:
            targets.append(word)
            is_target = False
        elif _GOES_TO.fullmatch(word):
            is_target = not word.endswith("&")
            if own and own[-1].isdigit():
                own.pop()
        elif word in _BREAKS:
            if own or targets:
                yield ShellCommand(tuple(own), tuple(targets))
            own, targets = [], []
        else:
            own.append(word)
    if own or targets:
        yield ShellCommand(tuple(own), tuple(targets))


# --- own_writes ---

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
            yield from _find_in_steps([ShellCommand(words)], "\n".join(words), cwd, eye)
        elif isinstance(command, str):
            yield from _find_in_steps(parse_steps(command), command, cwd, eye)


def _find_in_steps(steps: Iterable[ShellCommand], whole: str, cwd: str, eye: _Eye) -> Iterator[str]:
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


# --- tool_writes ---
# What an agent's tool is about to write into memory, and whether it may.
#
#     find_writes(call, grounds, ...)   the files a call would write below memory directories, and the text where it
# tells
#     judge(write)                      why it may not be, or what is to be said of it
#
# Memory that others read (a team's, a project's committed one) is closed to secrets, to types that are somebody's own
# and
# to names that no store would take: such a call is refused. In a person's own memory the same is only said. What
# belongs
# to memdir itself, and a path that leaves by a link, is refused everywhere.
#
# It is a look before the tool runs, not containment: the tool opens the file itself, later. What slips past is met
# again
# by the store, by the scan before a sync, and by history.

_NEW = ("new_string", "newString", "new_str")
_OLD = ("old_string", "oldString", "old_str")
_WHOLE = ("content", "file_text", "new_source")
FindSecrets = Callable[[str], Sequence[SecretFinding]]


@dataclass(frozen=True, slots=True)
class MemoryRoot:
    """A memory directory; `is_shared`: others read all of it."""

    root: Path
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class FileWrite:
    """One file that would be written: below which directory, its path there, and what of its text is known."""

    ground: MemoryRoot
    path: str
    text: str
    is_whole: bool

    @property
    def is_shared(self) -> bool:
        return self.ground.is_shared or _fold_first(self.path) == TEAM_FOLDER


@dataclass(frozen=True, slots=True)
class WriteVerdict:
    """`refused` says why the call may not be; `said` is what its writer should know."""

    refused: str = ""
    said: tuple[str, ...] = ()


def find_writes(call: ToolCall, grounds: Sequence[MemoryRoot], *, cwd: str, home: str) -> Iterator[FileWrite]:
    """Every file of these directories that the call would write; nothing for a call that only reads."""
    spelled = {os.path.normpath(spelling): at for at in grounds for spelling in (at.root, os.path.realpath(at.root))}
    message = Message("assistant", "", calls=(call,))
    for found in find_written_memory([message], list(spelled), cwd=cwd, home=home):
        # The longest first: one directory may lie inside another.
        for spelling in sorted(spelled, key=len, reverse=True):
            if found.startswith(os.path.join(spelling, "")):
                text, is_whole = _read_text(call.input, found)
                yield FileWrite(spelled[spelling], os.path.relpath(found, spelling), text, is_whole)
                break


def judge_write(write: FileWrite, find_secrets: FindSecrets) -> WriteVerdict:
    """Whether it may be written, by the rules above."""
    parts = write.path.split("/")
    if _fold_first(write.path) == STATE:
        return WriteVerdict(f"{write.path} is memdir's own file; `memdir` itself changes it")
    if link := _find_link(write.ground.root, parts):
        return WriteVerdict(f"{link} is a symbolic link: what is written there lands outside the memory directory")
    if write.is_shared and write.is_whole and len(write.text) > FILE_BYTES:
        # Before it is searched: that would take longer than there is time, and then nothing would be said at all.
        return WriteVerdict(f"{write.path} would be larger than a memory can be ({FILE_BYTES:,} bytes)")
    problems = [*_find_faults(write), *render_findings(find_secrets(write.text), place=write.path)]
    if not problems:
        return WriteVerdict()
    if not write.is_shared:
        return WriteVerdict(said=tuple(problems))
    return WriteVerdict(f"others read this memory, and {'; '.join(problems)}")


def _fold_first(path: str) -> str:
    """The first folder as a disk sees it that does not tell capitals from small letters."""
    return path.split("/", 1)[0].casefold()


def _find_faults(write: FileWrite) -> Iterator[str]:
    """What no store would have taken."""
    stem, suffix = os.path.splitext(write.path)
    if write.path.split("/")[-1] == INDEX_FILE:
        return
    if suffix != ".md":
        yield f"{write.path} is no Markdown file, so nothing will find it again"
        return
    if write.path.split("/", 1)[0] != "logs":
        try:
            guard.check_name(stem)
        except PathError as error:
            yield f"{error.path} is no name for a memory: {error.reason}"
    if write.is_shared and write.is_whole and parse_fields(write.text).kind is Kind.USER:
        yield "its type is `user`, which is about one person only"


def _find_link(root: Path, parts: Sequence[str]) -> str:
    for depth in range(1, len(parts) + 1):
        path = os.path.join(root, *parts[:depth])
        if os.path.islink(path):
            return path
    return ""


def _read_text(given: Mapping[str, object], path: str) -> tuple[str, bool]:
    """The text a file would have after the call; where that cannot be told, all that the call says."""
    for key in _WHOLE:
        if isinstance(text := given.get(key), str):
            return text, True
    edits = given.get("edits") or given.get("replacements")
    rows = [row for row in edits if isinstance(row, dict)] if isinstance(edits, list) else [given]
    data = read_small(path, FILE_BYTES).data
    text = (data or b"").decode("utf-8", "replace")
    for row in rows:
        old, new = _pick(row, _OLD), _pick(row, _NEW)
        if old is None or new is None or (old and old not in text):
            return "\n".join(_list_texts(given)), False
        text = new if not old else text.replace(old, new, -1 if row.get("replace_all") is True else 1)
    return text, data is not None


def _pick(row: Mapping[str, object], keys: Sequence[str]) -> str | None:
    return next((value for key in keys if isinstance(value := row.get(key), str)), None)


def _list_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, at in value.items():
            if key not in (*_OLD, "description") or key in COMMAND_KEYS:
                yield from _list_texts(at)
    elif isinstance(value, list):
        for at in value:
            yield from _list_texts(at)
