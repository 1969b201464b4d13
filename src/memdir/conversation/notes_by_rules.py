"""Notes without a model: what can be taken from the messages of a conversation by built-in patterns; no disk access.

    Session Title          the first request
    Current State          the last request and answer, open steps of a plan, open questions, failing commands
    Task specification     the requests
    Files and Functions    files written and read
    Workflow               commands, each with its last result
    Errors & Corrections   what failed, what was done then, and whether it works since; what the person declined
    Worklog                one line a turn

New messages are merged into the existing notes. The file is the only state: lines written here are recognised by a key
and updated, lines of a person or a model stay and are never dropped. The same messages twice give the same notes, and
every list has a limit. Sections that the template does not have are left out. Texts are quoted from the conversation
and shortened, not interpreted. Each host names its tools and reports their results differently, so tables say what a
call did; of an unknown tool only the name is noted. A result that reports nothing counts as a success.
"""

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import chain, islice

from memdir.conversation.notes_file import Notes
from memdir.conversation.tool_calls import (
    COMMAND_KEYS,
    EDITOR_VERBS,
    EDITORS,
    PATCHED,
    PATH_KEYS,
    SHELLS,
    WRITERS,
    parse_steps,
    plain_name,
)
from memdir.conversation.typed import strip_host_text
from memdir.frozen import dataclass
from memdir.limits import NOTES_RULES_TOKENS
from memdir.records import Message, ToolCall
from memdir.text import blank_fences, estimate_tokens, one_line, shorten

TITLE, STATE, TASK, FILES = "Session Title", "Current State", "Task specification", "Files and Functions"
WORKFLOW, ERRORS, WORKLOG = "Workflow", "Errors & Corrections", "Worklog"
KNOWN = (TITLE, STATE, TASK, FILES, WORKFLOW, ERRORS, WORKLOG)
_TITLE_CHARS, _REQUEST_CHARS, _FIRST_CHARS, _ANSWER_CHARS = 80, 160, 1_200, 300
_STEPS, _QUESTIONS, _FAILING, _AFTER, _NAMED_FILES = 15, 5, 5, 3, 4
_GROUPS = ("- Last request: ", "- Last answer: ", "- To do: ", "- Open question: ", "- Failing: ")
_REQUEST, _ANSWER, _STEP, _QUESTION, _FAILS = _GROUPS
_OPEN, _WORKS = "open", "works since"
_NO_REASON = " (declined): no reason was given"
_ERROR_LINE = re.compile(r"- `([^`]*)` \((open|works since|declined)(?:; after ((?:`[^`]*`(?:, )?)+))?\): (.*)")
_STAMP = r"(?:\d{4}-\d\d-\d\d \d\d:\d\d )?"
_TASK_START, _TASK_LINE = re.compile(rf"- {_STAMP}“.*”"), re.compile(rf"(- {_STAMP}“.*”)\Z")
_WORK_LINE = re.compile(rf"(- {_STAMP}(?:“.*?” → |went on → |\(the conversation was compacted\)))")
_COMPACTED = "This session is being continued from a previous conversation"
# From the beginning of a sentence only: a long one without an end would else be read again from each of its letters.
_ASKING = re.compile(r"(?<![^.!?。！？\n])[^.!?。！？\n]{3,}+[?？](?=[\s\"'”’)»]|$)")
_QUOTED, _BACKTICKED = re.compile(r"- `([^`]*)`"), re.compile(r"`([^`]*)`")
COMMAND_CHARS, ERROR_CHARS, PATH_CHARS = 200, 240, 160
_READERS = frozenset("read readfile view viewfile viewimage notebookread openfile cat readmanyfiles".split())
_PLANS = {"todowrite": "todos", "updateplan": "plan", "writetodos": "todos", "managetodolist": "todoList"}
_STEP_KEYS = ("content", "step", "description", "title")
_ASKERS = frozenset("askuserquestion askuser requestuserinput".split())
_DONE = frozenset("completed complete done cancelled canceled deleted".split())
# Programs that only read: of their commands the oldest are dropped first.
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
_COMPLAINT = re.compile(
    r"error|exception|fatal|fail|not found|no such|denied|cannot|can't|unable|invalid|missing|refused|timed? ?out", re.I
)
_WRAPPER = re.compile(
    r"</?tool_use_error>|^(?:Wall time|Chunk ID|Total output lines|Output|Command|Directory):.*$", re.M
)


class CallState(StrEnum):
    OK = "ok"
    FAILED = "failed"
    DECLINED = "declined by the person"
    RUNNING = "still running"


class EffectKind(StrEnum):
    READ = "read"
    WRITTEN = "written"
    RUN = "run"
    PLANNED = "planned"
    ASKED = "asked"
    OTHER = "other"


@dataclass(frozen=True, slots=True)
class CallEffect:
    """One thing that a call did. `what` is a path, a command or a tool's name; `items` are steps or questions."""

    kind: EffectKind
    what: str
    items: tuple[str, ...] = ()
    is_minor: bool = False

    @property
    def key(self) -> str:
        """The same for the same effect when it is repeated."""
        return {EffectKind.READ: "read ", EffectKind.WRITTEN: "write "}.get(self.kind, "") + self.what


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """How a call ended: the state, the exit code if known, and for a failure the most informative line."""

    state: CallState
    code: int | None = None
    error: str = ""

    @property
    def words(self) -> str:
        has_code = self.state is CallState.FAILED and self.code is not None
        return f"exit {self.code}" if has_code else self.state.value


@dataclass(frozen=True, slots=True)
class NotesTurn:
    """A message of the person, empty if it is not among these messages, and what followed it."""

    request: str
    at: datetime | None
    messages: tuple[Message, ...]


def update_by_rules(notes: Notes, messages: Sequence[Message], *, root: str = "", apart: Sequence[str] = ()) -> Notes:
    """The notes with these messages merged in. Calls that name a path in `apart` are left out."""
    sections = _Sections(notes, root, apart)
    for turn in split_turns(messages):
        sections.add(turn)
    return notes.with_texts(sections.render())


def split_turns(messages: Iterable[Message]) -> Iterator[NotesTurn]:
    """Turns, each beginning with a message of the person; the first may continue an earlier one."""
    request, at = "", None
    part: list[Message] = []
    for message in messages:
        said = strip_host_text(message.text) if message.role == "user" and not message.is_meta else ""
        if said:
            if request or part:
                yield NotesTurn(request, at, tuple(part))
            request, at, part = said, message.at, []
        elif message.role != "user" or message.text.startswith(_COMPACTED):
            at = at or message.at
            part.append(message)
    if request or part:
        yield NotesTurn(request, at, tuple(part))


def describe_effects(call: ToolCall, root: str = "") -> tuple[CallEffect, ...]:
    """What a call did; paths below `root` are shown relative to it."""
    name = plain_name(call.name)
    if name in SHELLS:
        # Codex patches files through its shell.
        patched = tuple(CallEffect(EffectKind.WRITTEN, show_path(path, root)) for path in _list_patched(call.input))
        return patched or tuple(_describe_command(call.input))
    if name in _PLANS:
        return (CallEffect(EffectKind.PLANNED, call.name, tuple(_list_steps(call.input.get(_PLANS[name])))),)
    if name in _ASKERS:
        return (CallEffect(EffectKind.ASKED, call.name, tuple(_list_questions(call.input))),)
    if name in WRITERS or (name in EDITORS and call.input.get("command") in EDITOR_VERBS):
        paths = [*_list_paths(call.input), *_list_patched(call.input)]
        return tuple(CallEffect(EffectKind.WRITTEN, show_path(path, root)) for path in dict.fromkeys(paths))
    if name in _READERS or name in EDITORS:
        shown = (show_path(path, root) for path in _list_paths(call.input))
        return tuple(CallEffect(EffectKind.READ, path, is_minor=True) for path in shown)
    return (CallEffect(EffectKind.OTHER, _quote(call.name, 60), is_minor=True),)


def read_ending(result: Message) -> CallOutcome:
    """How the call with this result ended."""
    text = result.text
    edges = text if len(text) < 1200 else f"{text[:600]}\n{text[-600:]}"
    if result.failed and _DECLINED.search(edges):
        return CallOutcome(CallState.DECLINED)
    code = _find_code(text)
    if result.failed or code:
        return CallOutcome(CallState.FAILED, code, find_error(text))
    return CallOutcome(CallState.RUNNING if _RUNNING.search(edges[:600]) else CallState.OK, code)


def find_error(text: str) -> str:
    """The most informative line of a failure's output."""
    head, tail = text[:20_000], text[20_000:][-20_000:]
    cleaned = _EXIT.sub("", _WRAPPER.sub("", f"{head}\n{tail}"))
    lines = [line.strip() for line in cleaned.splitlines() if line.strip()]
    named = [line for line in lines if _NAMED.search(line)]
    complaints = (line for line in lines if _COMPLAINT.search(line))
    # The end of a traceback names the error; otherwise the first complaint is the cause of the others.
    best = named[-1] if named else next(chain(complaints, lines, ["no output"]))
    return _quote(best, ERROR_CHARS)


def show_path(path: str, root: str = "") -> str:
    plain = path.removeprefix("file://")
    if root and plain.startswith(os.path.join(root, "")):
        plain = plain[len(os.path.join(root, "")) :]
    return _quote(plain, PATH_CHARS)


def _find_code(text: str) -> int | None:
    """The exit code in the first or the last lines of a result, where hosts write it."""
    match = _EXIT.search("\n".join(text.split("\n", 8)[:8])) or _EXIT.search("\n".join(text[-400:].split("\n")[-6:]))
    return int(match[1]) if match and len(match[1]) < 12 else None


def _describe_command(given: Mapping[str, object]) -> Iterator[CallEffect]:
    for key in COMMAND_KEYS:
        command = given.get(key)
        if isinstance(command, list):
            words = [word for word in command if isinstance(word, str)]
            # `bash -lc "…"` was added by the host.
            is_wrapped = len(words) == 3 and re.fullmatch(r"-[a-z]*c", words[1])
            command = words[2] if is_wrapped else " ".join(words)
        if isinstance(command, str) and command.strip():
            only_looks = not any(
                step.targets
                or not (step.program in _LOOKERS or (step.program == "git" and set(step.arguments[:1]) <= _GIT_LOOKS))
                for step in parse_steps(command)
            )
            yield CallEffect(EffectKind.RUN, _quote(command, COMMAND_CHARS), is_minor=only_looks)
            return


def _list_paths(given: Mapping[str, object]) -> Iterator[str]:
    values = (given.get(key) for key in PATH_KEYS)
    yield from islice((value for value in values if isinstance(value, str) and value.strip()), 1)


def _list_patched(given: Mapping[str, object]) -> Iterator[str]:
    for value in given.values():
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and "*** " in text:
                yield from PATCHED.findall(text)


def _list_steps(rows: object) -> Iterator[str]:
    """The steps of a plan that are not done."""
    for row in rows if isinstance(rows, list) else ():
        status = str(row.get("status", "")).lower() if isinstance(row, dict) else "done"
        text = "" if status in _DONE else next((at for key in _STEP_KEYS if isinstance(at := row.get(key), str)), "")
        if text.strip():
            yield shorten(one_line(text), 200) + (" (begun)" if status.replace("-", "_") == "in_progress" else "")


def _list_questions(given: Mapping[str, object]) -> Iterator[str]:
    rows = given.get("questions")
    for row in rows if isinstance(rows, list) else [given]:
        text = row.get("question") if isinstance(row, dict) else row
        if isinstance(text, str) and text.strip():
            yield shorten(one_line(text), 200)


def _quote(text: str, chars: int) -> str:
    """Text that can be put between backticks on one line."""
    return shorten(one_line(text.replace("`", "'")), chars)


def quoted_key(line: str) -> str:
    """The key of a line such as "- `make test`: ok"; empty for a line that was not written here."""
    return match[1] if (match := _QUOTED.match(line)) else ""


class KeyedLines:
    """The lines of one section, by their key, the first group of `key`; each moves to the end when written again."""

    def __init__(self, text: str, key: re.Pattern[str] = _QUOTED) -> None:
        self._key = key
        self._lines: dict[str, str] = {}
        for number, line in enumerate(text.split("\n") if text else ()):
            # Keys of other lines begin with NUL.
            self._lines[self._find_key(line) or f"\0{number}"] = line

    def _find_key(self, line: str) -> str:
        return match[1] if (match := self._key.match(line)) else ""

    def find(self, key: str) -> str:
        return self._lines.get(key, "")

    def put(self, line: str) -> None:
        """Write a line at the end, in place of the one with its key."""
        self._lines.pop(self._find_key(line), None)
        self.change(line)

    def change(self, line: str) -> None:
        """Change a line where it is."""
        self._lines[self._find_key(line)] = line

    def list_own(self) -> list[str]:
        return [line for key, line in self._lines.items() if not key.startswith("\0")]

    def render(self, tokens: int, is_minor: Callable[[str], bool] = lambda line: False) -> str:
        """The lines within the limit: the oldest are dropped first, minor ones before all others."""
        over = sum(map(_weigh, self._lines.values())) - tokens
        dropped: set[str] = set()
        for wanted in (True, False):
            for key, line in self._lines.items():
                if over <= 0:
                    break
                if not key.startswith("\0") and key not in dropped and is_minor(line) is wanted:
                    dropped.add(key)
                    over -= _weigh(line)
        return "\n".join(line for key, line in self._lines.items() if key not in dropped).strip("\n")


def replace_group(text: str, prefix: str, lines: Iterable[str]) -> str:
    """The text with all lines of a prefix replaced by these, at the end."""
    kept = [line for line in text.split("\n") if not line.startswith(prefix)] if text else []
    return "\n".join([*kept, *(f"{prefix}{line}" for line in lines)]).strip("\n")


def sort_groups(text: str, prefixes: tuple[str, ...]) -> str:
    """The text with the lines of these prefixes at its end, group by group."""
    lines = text.split("\n") if text else []
    kept = [line for line in lines if not line.startswith(prefixes)]
    return "\n".join([*kept, *(line for at in prefixes for line in lines if line.startswith(at))]).strip("\n")


def _weigh(line: str) -> int:
    return estimate_tokens(line) + 1


class _Sections:
    """The sections while messages are merged in."""

    def __init__(self, notes: Notes, root: str, apart: Sequence[str]) -> None:
        texts = {name: at.text for name in KNOWN if (at := notes.find(name))}
        self._known = frozenset(texts)
        self._root, self._apart = root, tuple(at for at in apart if at)
        self._title, self._state, task = (texts.get(name, "") for name in (TITLE, STATE, TASK))
        first, _, rest = task.partition("\n\n")
        self._first, tasks = ("", task) if _TASK_START.match(first) else (first, rest)
        self._tasks = KeyedLines(tasks, _TASK_LINE)
        self._files = KeyedLines(texts.get(FILES, ""))
        self._commands = KeyedLines(texts.get(WORKFLOW, ""))
        self._errors = KeyedLines(texts.get(ERRORS, ""), _ERROR_LINE)
        self._work = KeyedLines(texts.get(WORKLOG, ""), _WORK_LINE)
        keys = map(quoted_key, self._commands.list_own())
        self._reading = {key for key in keys if any(at.is_minor for at in _describe_command({"command": key}))}

    def render(self) -> dict[str, str]:
        failing = [quoted_key(line) for line in self._errors.list_own() if f"` ({_OPEN}" in line][-_FAILING:]
        texts = {
            TITLE: self._title,
            STATE: sort_groups(replace_group(self._state, _FAILS, (f"`{key}`" for key in failing)), _GROUPS),
            TASK: "\n\n".join(filter(None, (self._first, self._tasks.render(NOTES_RULES_TOKENS - 300)))),
            FILES: self._files.render(NOTES_RULES_TOKENS, lambda line: line.endswith(f": {EffectKind.READ}")),
            WORKFLOW: self._commands.render(NOTES_RULES_TOKENS, lambda line: quoted_key(line) in self._reading),
            ERRORS: self._errors.render(NOTES_RULES_TOKENS, lambda line: f"` ({_OPEN}" not in line),
            WORKLOG: self._work.render(NOTES_RULES_TOKENS),
        }
        return {name: text for name, text in texts.items() if name in self._known}

    def add(self, turn: NotesTurn) -> None:
        if turn.request:
            self._add_request(turn)
        outcomes = {at.answers: read_ending(at) for at in turn.messages if at.role == "tool"}
        answer, runs, failed = "", 0, 0
        written: list[str] = []
        for message in turn.messages:
            if message.is_meta:
                continue
            if message.role == "assistant" and message.text.strip():
                answer = message.text
                asked = (match[0].strip(" -*>#") for match in _ASKING.finditer(blank_fences(answer)))
                self._ask([shorten(one_line(text), 200) for text in asked])
            for call in message.calls:
                outcome = outcomes.get(call.id)
                for effect in () if self._is_apart(call) else describe_effects(call, self._root):
                    self._add_effect(effect, outcome)
                    runs += effect.kind is EffectKind.RUN
                    failed += outcome is not None and outcome.state is CallState.FAILED
                    written += [effect.what] if effect.kind is EffectKind.WRITTEN and _is_done(outcome) else []
        self._add_work(turn, answer, written, runs, failed)
        for message in turn.messages:
            if message.is_meta and message.text.startswith(_COMPACTED):
                self._work.put(f"- {_stamp(message.at)}(the conversation was compacted)")

    def _add_request(self, turn: NotesTurn) -> None:
        line = shorten(one_line(turn.request), _REQUEST_CHARS)
        self._title = self._title or _plain(shorten(one_line(turn.request), _TITLE_CHARS))
        whole = shorten(one_line(turn.request), _FIRST_CHARS)
        if not self._first and not self._tasks.list_own():
            self._first = _plain(whole)
        elif _plain(whole) != self._first and (len(line.split()) > 2 or (not line.isascii() and len(line) > 5)):
            self._tasks.put(f"- {_stamp(turn.at)}“{line}”")
        for error in self._errors.list_own():
            if error.endswith(_NO_REASON):
                self._errors.change(f"{error.removesuffix(_NO_REASON)} (declined): the person then said “{line}”")
        self._state = replace_group(self._state, _REQUEST, [line])
        self._ask(())

    def _add_work(self, turn: NotesTurn, answer: str, written: list[str], runs: int, failed: int) -> None:
        names = list(dict.fromkeys(written))
        shown = ", ".join(f"`{name}`" for name in names[:_NAMED_FILES])
        more = f" and {len(names) - _NAMED_FILES} more" if len(names) > _NAMED_FILES else ""
        parts = [
            f"wrote {shown}{more}" if names else "",
            f"{runs} command{'s' if runs != 1 else ''}" if runs else "",
            f"{failed} failed" if failed else "",
            f"“{shorten(one_line(answer), _REQUEST_CHARS)}”" if answer else "",
        ]
        if answer:
            self._state = replace_group(self._state, _ANSWER, [shorten(one_line(answer), _ANSWER_CHARS)])
        if turn.request or any(parts):
            asked = f"“{shorten(one_line(turn.request), _REQUEST_CHARS)}”" if turn.request else "went on"
            self._work.put(f"- {_stamp(turn.at)}{asked} → {'; '.join(filter(None, parts)) or 'nothing yet'}")

    def _add_effect(self, effect: CallEffect, outcome: CallOutcome | None) -> None:
        if effect.kind is EffectKind.PLANNED:
            self._state = replace_group(self._state, _STEP, effect.items[:_STEPS])
        elif effect.kind is EffectKind.ASKED:
            self._ask(() if outcome else effect.items)
        elif effect.kind is EffectKind.RUN:
            self._commands.put(f"- `{effect.what}`: {outcome.words if outcome else 'no result yet'}")
            self._reading |= {effect.what} if effect.is_minor else set()
        elif effect.kind in (EffectKind.READ, EffectKind.WRITTEN) and _is_done(outcome):
            was_written = self._files.find(effect.what).endswith(f": {EffectKind.WRITTEN}")
            self._files.put(f"- `{effect.what}`: {EffectKind.WRITTEN if was_written else effect.kind}")
        if outcome is None:
            return
        if outcome.state is CallState.DECLINED:
            self._errors.put(f"- `{effect.key}`{_NO_REASON}")
        elif outcome.state is CallState.FAILED:
            self._errors.put(_render_error(effect.key, _OPEN, (), outcome.error))
        elif outcome.state is CallState.OK:
            self._add_success(effect)

    def _add_success(self, effect: CallEffect) -> None:
        """Mark an error of the same effect as fixed; for other open errors this may have been the fix."""
        for line in self._errors.list_own():
            key, state, after, error = _parse_error(line)
            if state != _OPEN:
                continue
            if key == effect.key:
                self._errors.change(_render_error(key, _WORKS, after, error))
            elif not effect.is_minor and len(after) < _AFTER:
                after = tuple(dict.fromkeys((*after, effect.key)))
                self._errors.change(_render_error(key, _OPEN, after, error))

    def _ask(self, questions: Sequence[str]) -> None:
        self._state = replace_group(self._state, _QUESTION, list(questions)[:_QUESTIONS])

    def _is_apart(self, call: ToolCall) -> bool:
        return bool(self._apart) and any(at in str(dict(call.input)) for at in self._apart)


def _render_error(key: str, state: str, after: Sequence[str], error: str) -> str:
    done = f"; after {', '.join(f'`{at}`' for at in after)}" if after else ""
    return f"- `{key}` ({state}{done}): {error}"


def _parse_error(line: str) -> tuple[str, str, tuple[str, ...], str]:
    """Key, state, what was done since, and the error; all empty for a line of another form."""
    match = _ERROR_LINE.fullmatch(line)
    return (match[1], match[2], tuple(_BACKTICKED.findall(match[3] or "")), match[4]) if match else ("", "", (), "")


def _is_done(outcome: CallOutcome | None) -> bool:
    return outcome is None or outcome.state in (CallState.OK, CallState.RUNNING)


def _stamp(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M} " if at else ""


def _plain(text: str) -> str:
    """A text that begins a paragraph: a sign that would begin a heading, a list or a fence is escaped."""
    return re.sub(r"^([#>*+\-=`~_|]|\d+[.)])", r"\\\1", text)
