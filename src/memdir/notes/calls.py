"""What an agent did, told from the calls of its tools and their results: files, commands, plans, questions.

Pure. Each host names its tools and reports their ends in its own way (Claude Code, Codex, Gemini and kin), so this is
tables. A call of an unknown tool is known by its name alone. Whether a command went well is what its result says; a
result that says nothing counts as well done.
"""

import os
import re
from collections.abc import Iterator, Mapping
from enum import StrEnum

from memdir.frozen import dataclass
from memdir.own_writes import COMMAND_KEYS, EDITOR_VERBS, EDITORS, PATCHED, PATH_KEYS, SHELLS, WRITERS, plain_name
from memdir.records import Message, ToolCall
from memdir.shell_words import parse_steps
from memdir.text import one_line, shorten

COMMAND_CHARS, ERROR_CHARS, PATH_CHARS = 200, 240, 160
_READERS = frozenset("read readfile view viewfile viewimage notebookread openfile cat readmanyfiles".split())
_PLANS = {"todowrite": "todos", "updateplan": "plan", "writetodos": "todos", "managetodolist": "todoList"}
_ASKERS = frozenset("askuserquestion askuser requestuserinput".split())
_DONE = frozenset("completed complete done cancelled canceled deleted".split())
# Programs that only look: of their commands the older ones are the first to go.
_LOOKERS = frozenset(
    "ls cat cd pwd echo head tail less wc grep rg find fd tree file stat which sed awk sort du df env date".split()
)
_GIT_LOOKS = frozenset("status log diff show branch blame remote".split())
_EXIT = re.compile(r"^(?:Exit code|Exit Code|Process exited with code|exit status):? +(-?\d+)\s*$", re.MULTILINE)
_RUNNING = re.compile(r"Process running with session ID|Command running in background|running in the background")
_DECLINED = re.compile(
    r"doesn't want to (?:proceed|take this action)|user (?:rejected|declined|denied|cancelled)|rejected by user|"
    r"Request interrupted|haven't granted|Permission to use \S+ .{0,80}denied|cancelled by (?:the )?user"
)
_NAMED = re.compile(
    r"^\S*(?:Error|Exception|Panic)\b.{0,2}\S|^E {2,}\S|^panicked at|^fatal: |^error(?:\[\w+\])?: ", re.I
)
_TELLING = re.compile(
    r"error|exception|fatal|fail|not found|no such|denied|cannot|can't|unable|invalid|missing|refused|timed? ?out", re.I
)
_WRAPPER = re.compile(
    r"</?tool_use_error>|^(?:Wall time|Chunk ID|Total output lines|Output|Command|Directory):.*$", re.M
)


class State(StrEnum):
    """How a call ended."""

    OK = "ok"
    FAILED = "failed"
    DECLINED = "declined by the person"
    RUNNING = "still running"


class Act(StrEnum):
    READ = "read"
    WRITTEN = "written"
    RUN = "run"
    PLANNED = "planned"
    ASKED = "asked"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class Deed:
    """One thing a call did: to a file, with a command, or by a tool's name. `items` are steps or questions."""

    act: Act
    what: str
    items: tuple[str, ...] = ()
    is_minor: bool = False

    @property
    def key(self) -> str:
        """What the same deed is known by when it is done again."""
        return f"{'read' if self.act is Act.READ else 'write'} {self.what}" if self.act in _FILES else self.what


_FILES = (Act.READ, Act.WRITTEN)


@dataclass(frozen=True, slots=True)
class Ending:
    """How it ended: the state, the exit code if one was told, and for a failure the line that says most."""

    state: State
    code: int | None = None
    error: str = ""

    @property
    def words(self) -> str:
        if self.state is State.FAILED and self.code is not None:
            return f"exit {self.code}"
        return self.state.value


def describe_call(call: ToolCall, root: str = "") -> tuple[Deed, ...]:
    """What a call did; paths below `root` are told from there."""
    name = plain_name(call.name)
    if name in SHELLS:
        # Codex patches files through its shell.
        patched = tuple(Deed(Act.WRITTEN, show_path(path, root)) for path in _list_patched(call.input))
        return patched or tuple(_describe_command(call.input))
    if name in _PLANS:
        return (Deed(Act.PLANNED, call.name, tuple(_list_steps(call.input.get(_PLANS[name])))),)
    if name in _ASKERS:
        return (Deed(Act.ASKED, call.name, tuple(_list_questions(call.input))),)
    if name in WRITERS or (name in EDITORS and call.input.get("command") in EDITOR_VERBS):
        paths = [*_list_paths(call.input), *_list_patched(call.input)]
        return tuple(Deed(Act.WRITTEN, show_path(path, root)) for path in dict.fromkeys(paths))
    if name in _READERS or name in EDITORS:
        return tuple(Deed(Act.READ, show_path(path, root), is_minor=True) for path in _list_paths(call.input))
    return (Deed(Act.OTHER, _quote(call.name, 60), is_minor=True),)


def read_ending(result: Message) -> Ending:
    """How the call of this result ended."""
    text = result.text
    edges = text if len(text) < 1200 else f"{text[:600]}\n{text[-600:]}"
    if result.failed and _DECLINED.search(edges):
        return Ending(State.DECLINED)
    code = _find_code(text)
    if result.failed or code:
        return Ending(State.FAILED, code, find_error(text))
    return Ending(State.RUNNING if _RUNNING.search(edges[:600]) else State.OK, code)


def find_error(text: str) -> str:
    """The line of a failure's output that says most about it."""
    head, tail = text[:20_000], text[20_000:][-20_000:]
    cleaned = _EXIT.sub("", _WRAPPER.sub("", f"{head}\n{tail}"))
    lines = [line.strip() for line in cleaned.splitlines() if line.strip()]
    named = [line for line in lines if _NAMED.search(line)]
    telling = [line for line in lines if _TELLING.search(line)]
    # The end of a traceback names the error; elsewhere the first complaint is the cause of the others.
    best = named[-1] if named else telling[0] if telling else lines[0] if lines else "no output"
    return _quote(best, ERROR_CHARS)


def show_path(path: str, root: str = "") -> str:
    plain = path.removeprefix("file://")
    if root and plain.startswith(os.path.join(root, "")):
        plain = plain[len(os.path.join(root, "")) :]
    return _quote(plain, PATH_CHARS)


def _find_code(text: str) -> int | None:
    """An exit code where hosts put it: in the first lines of a result, or in the last."""
    lines = text.split("\n", 8)
    match = _EXIT.search("\n".join(lines[:8])) or _EXIT.search("\n".join(text[-400:].split("\n")[-6:]))
    return int(match[1]) if match and len(match[1]) < 12 else None


def _describe_command(given: Mapping[str, object]) -> Iterator[Deed]:
    for key in COMMAND_KEYS:
        command = given.get(key)
        if isinstance(command, list):
            words = [word for word in command if isinstance(word, str)]
            # `bash -lc "…"` is the host's way to run it, not what was run.
            is_wrapped = len(words) == 3 and re.fullmatch(r"-[a-z]*c", words[1])
            command = words[2] if is_wrapped else " ".join(words)
        if isinstance(command, str) and command.strip():
            yield Deed(Act.RUN, _quote(command, COMMAND_CHARS), is_minor=_only_looks(command))
            return


def _only_looks(command: str) -> bool:
    steps = parse_steps(command)
    return not any(step.targets for step in steps) and all(
        step.program in _LOOKERS or (step.program == "git" and set(step.arguments[:1]) <= _GIT_LOOKS) for step in steps
    )


def _list_paths(given: Mapping[str, object]) -> Iterator[str]:
    for key in PATH_KEYS:
        value = given.get(key)
        if isinstance(value, str) and value.strip():
            yield value
            return


def _list_patched(given: Mapping[str, object]) -> Iterator[str]:
    for value in given.values():
        parts = value if isinstance(value, list) else [value]
        for text in parts:
            if isinstance(text, str) and "*** " in text:
                yield from PATCHED.findall(text)


def _list_steps(rows: object) -> Iterator[str]:
    """What of a plan is not done yet."""
    for row in rows if isinstance(rows, list) else ():
        if not isinstance(row, dict) or str(row.get("status", "")).lower() in _DONE:
            continue
        text = next(
            (at for key in ("content", "step", "description", "title") if isinstance(at := row.get(key), str)), ""
        )
        if text.strip():
            mark = " (begun)" if str(row.get("status", "")).lower().replace("-", "_") == "in_progress" else ""
            yield f"{shorten(one_line(text), 200)}{mark}"


def _list_questions(given: Mapping[str, object]) -> Iterator[str]:
    rows = given.get("questions")
    for row in rows if isinstance(rows, list) else [given]:
        text = row.get("question") if isinstance(row, dict) else row
        if isinstance(text, str) and text.strip():
            yield shorten(one_line(text), 200)


def _quote(text: str, chars: int) -> str:
    """Text that can stand between backticks on one line."""
    return shorten(one_line(text.replace("`", "'")), chars)
