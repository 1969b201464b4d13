"""Find memory writes in an agent's tool calls, to check them beforehand or detect them afterwards.

`find_written_memory` finds the writes in the calls of a conversation, so that nothing is extracted twice. Each host has its
own tools, so tables list the tools that write and the input keys that contain the path. In shell commands, the targets of
redirections and of programs that write are found. Failed calls are ignored. Links are not followed, so callers pass every
path of a directory. Scripts that hide their targets are not recognised, but their changes still appear in the history.

`find_writes` and `judge_write` check a call before it runs. This is a check, not a sandbox. The store, the scan before a
sync and the history find what it misses.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import accumulate, islice, pairwise
from pathlib import Path

from memdir import files
from memdir.errors import PathError
from memdir.files import STATE, read_small
from memdir.format.frontmatter import parse_fields
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass
from memdir.limits import FILE_BYTES, LOG_BYTES
from memdir.project.hosts import EDITOR_VERBS, EDITORS, PATCHED, PATH_KEYS, SHELLS, WRITERS, plain_name
from memdir.records import LOGS_FOLDER, TEAM_FOLDER, Kind, Message, ToolCall, make_log_path
from memdir.store.secrets import SecretFinding, render_findings

RECENT_TOOLS = 10  # max tools that are listed for a model that selects memories
_SECTION = re.compile(r"^\*\*\* (?=(?:Add|Update|Delete) File: )", re.MULTILINE)
_OLD_KEYS, _NEW_KEYS = ("old_string", "oldString", "old_str"), ("new_string", "newString", "new_str")
_OWN_TOOL = re.compile(
    r"(?:^|[^a-z])memdir[^a-z]+(?:memory[^a-z]+)?(?:save|update|remember|forget|edit|delete|write|log)(?![a-z])"
    r"|^memory_(?:save|update|forget|log)$"  # the tool name in hosts that omit the server's name
)
_OWN_VERBS = frozenset("save remember forget edit restore undo promote demote log".split())
_ALL, _LAST, _IN_PLACE = "all", "last", "in place"
# Programs that write, and the arguments they write to.
_PROGRAMS = {
    **dict.fromkeys("tee touch rm rmdir unlink shred truncate mv trash".split(), _ALL),
    **dict.fromkeys("cp install ln rsync".split(), _LAST),
    **dict.fromkeys("sed gsed perl ruby awk gawk".split(), _IN_PLACE),
}
_IN_PLACE_OPTION = re.compile(r"--in-place|-[a-zA-Z]*i")
_SCRIPTS = re.compile(r"python[\d.]*|node|ruby|perl|deno|bun|php")
_SCRIPT_WRITES = re.compile(r"write|unlink|remove|rename|rmtree|open\([^)]*,\s*(?:mode=)?[\"'][wax]", re.IGNORECASE)
COMMAND_CHARS = 100_000  # a longer command contains a file; its start shows the program
_HEREDOC = re.compile(r"<<-?\s*(['\"]?)(\w+)\1([^\n]*)\n.*?^\s*\2\s*$", re.DOTALL | re.MULTILINE)
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=.*", re.DOTALL)
_RUNNERS = frozenset(
    "sudo env command nohup time nice exec xargs stdbuf uvx pipx uv poetry run builtin then do else".split()
)
_VALUED = frozenset("-u -g -n -I -P -L -C -o -e".split())  # options of runners that take a value
_SHELLS = frozenset("sh bash zsh dash ksh fish".split())
_BREAKS = frozenset((";", "&&", "||", "|", "&", "|&", ";;", "(", ")", "{", "}"))
_ROUGH = re.compile(r"[;|&<>]+|[^\s;|&<>]+")
_REDIRECTION = re.compile(r"&?\d*>{1,2}[|&]?")

FindSecrets = Callable[[str], Sequence[SecretFinding]]


@dataclass(frozen=True, slots=True)
class MemoryRoot:
    """A memory directory. `is_shared` means that other people can read it, `has_logs` that it contains daily logs."""

    root: Path
    is_shared: bool = False
    has_logs: bool = False


@dataclass(frozen=True, slots=True)
class FileWrite:
    """A file that a tool call would write. `text` is its full new text if `is_whole` is set."""

    directory: MemoryRoot
    path: str
    text: str
    is_whole: bool
    is_append: bool = False

    @property
    def is_shared(self) -> bool:
        return self.directory.is_shared or _fold_first(self.path) == TEAM_FOLDER


@dataclass(frozen=True, slots=True)
class WriteVerdict:
    """The result of a check: the reasons to refuse the call, and warnings for the agent."""

    refused: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command with its arguments and the files that its output is redirected or appended to."""

    words: tuple[str, ...]
    replaced: tuple[str, ...] = ()
    appended: tuple[str, ...] = ()

    @property
    def program(self) -> str:
        return os.path.basename(self._plain_words[0]) if self._plain_words else ""

    @property
    def arguments(self) -> tuple[str, ...]:
        return self._plain_words[1:]

    @property
    def script(self) -> str:
        """Return the script passed to a shell with `-c`, or ""."""
        options = pairwise(self.arguments if self.program in _SHELLS else ())
        return next((text for option, text in options if re.fullmatch(r"-[a-z]*c", option)), "")

    def find_verb(self, program: str) -> str:
        """Return the subcommand if this runs `program`, directly or as a Python module. Otherwise, return ""."""
        words = self._plain_words
        if len(words) > 2 and re.fullmatch(r"python[\d.]*", self.program) and words[1:3] == ("-m", program):
            words = words[2:]
        elif self.program != program:
            return ""
        if {"--help", "--dry-run"} & set(words):
            return ""
        return next((word for word in words[1:] if not word.startswith("-")), "")

    @property
    def _plain_words(self) -> tuple[str, ...]:
        """Return the words without variable assignments and wrappers such as `env`."""
        words = self.words
        while words and (_ASSIGNMENT.fullmatch(words[0]) or os.path.basename(words[0]) in _RUNNERS):
            is_runner, words = not _ASSIGNMENT.fullmatch(words[0]), words[1:]
            while is_runner and len(words) > 1 and words[0].startswith("-"):
                words = words[2:] if words[0] in _VALUED else words[1:]
        return words


def find_writes(call: ToolCall, directories: Sequence[MemoryRoot], *, cwd: str, home: str) -> Iterator[FileWrite]:
    """Yield the files in the memory directories that a tool call would write."""
    spellings = {
        os.path.normpath(path): directory
        for directory in directories
        for path in (directory.root, os.path.realpath(directory.root))
    }
    messages = [Message("assistant", "", calls=(call,))]
    changed = find_written_memory(messages, list(spellings), cwd=cwd, home=home, appends=False)
    for written in find_written_memory(messages, list(spellings), cwd=cwd, home=home):
        # Use the longest path, because one directory may be inside another.
        around = [spelling for spelling in spellings if written.startswith(os.path.join(spelling, ""))]
        if spelling := max(around, key=len, default=""):
            text, is_whole = _read_text(call.input, written)
            before = (read_small(written, LOG_BYTES).data or b"").decode("utf-8", "replace")
            is_append = written not in changed or (is_whole and text.startswith(before)) or not os.path.lexists(written)
            yield FileWrite(spellings[spelling], os.path.relpath(written, spelling), text, is_whole, is_append)


def judge_write(write: FileWrite, find_secrets: FindSecrets, *, today: date) -> WriteVerdict:
    """Check whether a file may be written, and return reasons against it and warnings.

    In memory that other people read (of a team or repository), secrets, user memories and invalid names are refused; in
    the user's own memory they cause a warning. State files, and paths that leave the directory through a link, are always
    refused. Of the daily logs, only today's may be written, and only appended to.
    """
    if _fold_first(write.path) == STATE:
        return WriteVerdict(f"{write.path} is a memdir state file; use `memdir` commands instead")
    if write.directory.has_logs and _fold_first(write.path) == LOGS_FOLDER:
        log = make_log_path(today)
        if write.path != log or not write.is_append:
            return WriteVerdict(f"logs are append-only: add lines at the end of {log}, or use `memdir log TEXT`")
    steps = accumulate(write.path.split("/"), os.path.join, initial=str(write.directory.root))
    if link := next(filter(os.path.islink, islice(steps, 1, None)), ""):
        return WriteVerdict(f"{link} is a symbolic link: the text would be written outside the memory directory")
    if write.is_shared and write.is_whole and len(write.text) > FILE_BYTES:
        # Check this before searching for secrets, which would take too long for a hook.
        return WriteVerdict(f"{write.path} would be larger than {FILE_BYTES:,} bytes, the limit of a memory")
    problems = [*_find_problems(write), *render_findings(find_secrets(write.text), place=write.path)]
    if not problems or not write.is_shared:
        return WriteVerdict(warnings=tuple(problems))
    return WriteVerdict(f"this memory is shared with others, and {'; '.join(problems)}")


def _fold_first(path: str) -> str:
    return path.split("/", 1)[0].casefold()


def _find_problems(write: FileWrite) -> Iterator[str]:
    stem, suffix = os.path.splitext(write.path)
    if write.path.split("/")[-1] == INDEX_FILE:
        return
    if suffix != ".md":
        yield f"{write.path} is not a Markdown file, so recall cannot find it"
        return
    if write.path.split("/", 1)[0] != LOGS_FOLDER:
        try:
            files.check_name(stem)
        except PathError as error:
            yield f"{error.path} is not a valid memory name: {error.reason}"
    if write.is_shared and write.is_whole and parse_fields(write.text).kind is Kind.USER:
        yield "it is a user memory, which cannot be shared"


def _read_text(arguments: Mapping[str, object], path: str) -> tuple[str, bool]:
    """Return the text a call writes, and whether it is the complete text of the file."""
    if (complete := _pick(arguments, ("content", "file_text", "new_source"))) is not None:
        return complete, True
    edits = arguments.get("edits") or arguments.get("replacements")
    rows = [row for row in edits if isinstance(row, dict)] if isinstance(edits, list) else [arguments]
    data = read_small(path, FILE_BYTES).data
    text = (data or b"").decode("utf-8", "replace")
    if patch := next((text for text in _list_texts(arguments) if "*** Begin Patch" in text), ""):
        patched = _apply_patch(patch, path, text)
        return ("\n".join(_list_texts(arguments)), False) if patched is None else (patched, True)
    for row in rows:
        old, new = _pick(row, _OLD_KEYS), _pick(row, _NEW_KEYS)
        if old is None or new is None or (old and old not in text):
            return "\n".join(_list_texts(arguments)), False
        text = new if not old else text.replace(old, new, -1 if row.get("replace_all") is True else 1)
    return text, data is not None


def _apply_patch(patch: str, path: str, text: str) -> str | None:
    """Return the text of a file after a Codex patch, or None if it cannot be determined."""
    text = f"{text}\n" if text and not text.endswith("\n") else text
    for section in _SECTION.split(patch)[1:]:
        head, *lines = section.split("\n")
        verb, _, name = head.partition(" File: ")
        if verb not in ("Add", "Update") or not path.endswith(f"/{name.strip().lstrip('./')}"):
            continue
        text = "" if verb == "Add" else text
        for hunk in "\n".join(lines).split("\n@@"):
            rows = [row for row in hunk.split("\n") if row[:1] in ("+", "-", " ")]
            old, new = ("".join(f"{row[1:]}\n" for row in rows if row[0] != mark) for mark in "+-")
            if old not in text:
                return None
            text = text.replace(old, new, 1) if old else text + new
        return text
    return None


def _pick(row: Mapping[str, object], keys: Sequence[str]) -> str | None:
    return next((value for key in keys if isinstance(value := row.get(key), str)), None)


def _list_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        value = [item for key, item in value.items() if key not in (*_OLD_KEYS, "description")]
    for item in value if isinstance(value, list) else ():
        yield from _list_texts(item)


def find_written_memory(
    messages: Iterable[Message],
    directories: Iterable[Path | str],
    *,
    cwd: str = "",
    home: str = "",
    appends: bool = True,
) -> tuple[str, ...]:
    """Return the paths in these directories that the agent wrote with its tools, or the tool's name if it has no path.

    Relative paths, and those with `~` or `$HOME`, are skipped unless `cwd` or `home` is given. Without `appends`, files
    that a shell command only appends to are omitted.
    """
    messages = tuple(messages)
    failed = {message.answers for message in messages if message.role == "tool" and message.failed}
    lookup = _Lookup(tuple(os.path.normpath(directory) for directory in directories), cwd, home, appends)
    calls = (call for message in messages if message.role == "assistant" for call in message.calls)
    paths = (path for call in calls if not call.id or call.id not in failed for path in _find_written(call, lookup))
    return tuple(dict.fromkeys(paths))


@dataclass(frozen=True, slots=True)
class _Lookup:
    directories: tuple[str, ...]
    cwd: str
    home: str
    appends: bool = True

    def find(self, text: str, cwd: str | None = None) -> str | None:
        """Return the absolute path if it is in one of the directories, or None."""
        path = self.expand(text, self.cwd if cwd is None else cwd)
        is_inside = any(
            path == directory or path.startswith(os.path.join(directory, "")) for directory in self.directories
        )
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
        below = [
            directory[len(self.home) :]
            for directory in self.directories
            if self.home and directory.startswith(self.home)
        ]
        spellings = (f"{mark}{rest}" for rest in below for mark in ("~", "$HOME", "${HOME}"))
        return any(spelling in text for spelling in (*self.directories, *spellings))


def list_recent_tools(messages: Sequence[Message]) -> tuple[str, ...]:
    """Return the names of the tools called in these messages, most recent first."""
    calls = [call.name for message in messages for call in message.calls]
    return tuple(dict.fromkeys(reversed(calls)))[:RECENT_TOOLS]


def _find_written(call: ToolCall, lookup: _Lookup) -> Iterator[str]:
    name = plain_name(call.name)
    texts = {key: value for key, value in call.input.items() if isinstance(value, str)}
    if _OWN_TOOL.search(call.name.lower()):
        yield call.name
    elif name == "memory" and texts.get("command") in EDITOR_VERBS:
        yield texts.get("path") or texts.get("old_path") or call.name
    elif name in EDITORS and texts.get("command") not in EDITOR_VERBS:
        return
    elif name in SHELLS:
        yield from _find_in_shell(call.input, lookup)
    elif name in WRITERS or name in EDITORS:
        paths = [texts[key] for key in PATH_KEYS if key in texts]
        paths += [path for text in texts.values() if "***" in text for path in PATCHED.findall(text)]
        yield from filter(None, (lookup.find(path) for path in paths))


def _find_in_shell(input: Mapping[str, object], lookup: _Lookup) -> Iterator[str]:
    folder = _pick(input, ("workdir", "working_directory", "cwd"))
    cwd = lookup.cwd if folder is None else folder
    for key in ("command", "cmd", "script", "input"):
        command = input.get(key)
        if isinstance(command, list):
            words = tuple(word for word in command if isinstance(word, str))
            yield from _find_in_steps([ShellCommand(words)], "\n".join(words), cwd, lookup)
        elif isinstance(command, str):
            yield from _find_in_steps(parse_steps(command), command, cwd, lookup)


def _find_in_steps(steps: Iterable[ShellCommand], text: str, cwd: str, lookup: _Lookup) -> Iterator[str]:
    if "*** Begin Patch" in text:
        yield from filter(None, (lookup.find(path, cwd) for path in PATCHED.findall(text)))
    for step in steps:
        program, rest = step.program, step.arguments
        if program in ("cd", "pushd") and rest:
            cwd = lookup.expand(rest[0], cwd) or cwd
        if script := step.script:
            yield from _find_in_steps(parse_steps(script), script, cwd, lookup)
        if (verb := step.find_verb("memdir")) in _OWN_VERBS:
            yield f"memdir {verb}"
        if lookup.appends:
            targets = (*step.replaced, *step.appended, *_list_targets(program, rest))
        else:
            is_append = program == "tee" and {"-a", "--append"} & set(rest)
            targets = (*step.replaced, *(() if is_append else _list_targets(program, rest)))
        yield from filter(None, (lookup.find(target, cwd) for target in targets))
        if _SCRIPTS.fullmatch(program) and _SCRIPT_WRITES.search(text) and lookup.is_named_in(text):
            yield f"{program} script"


def _list_targets(program: str, arguments: Sequence[str]) -> Iterator[str]:
    which = _PROGRAMS.get(program)
    plain = [word for word in arguments if not word.startswith("-")]
    if which == _ALL or (which == _IN_PLACE and any(map(_IN_PLACE_OPTION.match, arguments))):
        yield from plain
    elif which == _LAST and plain:
        yield plain[-1]
        yield from (word.partition("=")[2] for word in arguments if word.startswith("--target-directory="))
        yield from (after for word, after in pairwise(arguments) if word == "-t")
    elif program == "dd":
        yield from (word.removeprefix("of=") for word in plain if word.startswith("of="))


def parse_steps(command: str) -> list[ShellCommand]:
    """Return the commands in a shell script. Nothing is expanded or run."""
    text = _HEREDOC.sub(r"\3\n", command[:COMMAND_CHARS]).replace("\\\n", " ")
    return [step for words in _split_lines(text) for step in _group_words(words)]


def _split_lines(text: str) -> Iterator[list[str]]:
    """Yield the words of each line. A quoted string can span lines."""
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
    """Split a line into words. Returns None if a quote is not closed."""
    lexer = shlex.shlex(text, posix=True, punctuation_chars=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    with suppress(ValueError):
        return list(lexer)
    return None


def _group_words(words: list[str]) -> Iterator[ShellCommand]:
    own: list[str] = []
    replaced: list[str] = []
    appended: list[str] = []
    into: list[str] | None = None
    for word in (*words, ";"):
        if into is not None:
            into.append(word)
            into = None
        elif _REDIRECTION.fullmatch(word):
            into = None if word.endswith("&") else appended if ">>" in word else replaced
            if own and own[-1].isdigit():
                own.pop()
        elif word in _BREAKS:
            if own or replaced or appended:
                yield ShellCommand(tuple(own), tuple(replaced), tuple(appended))
            own, replaced, appended = [], [], []
        else:
            own.append(word)
