"""Notes without a model: what can be told from the messages of a conversation by rules alone.

    Session Title          the first request
    Current State          the last request and answer, what of a plan is not done, what was asked and not answered,
                           which commands fail
    Task specification     the requests
    Files and Functions    files written and read
    Workflow               commands, each with how it last ended
    Errors & Corrections   what failed, what was done then, and whether it works since; what the person declined
    Worklog                a line a turn

Pure. New messages are worked into the notes there are: what a person or a model wrote stays, the same messages twice
leave the same notes, and every list has a bound. Sections that the template does not have are left out. Nothing here
understands what was said; it is told in the words of the conversation, cut short.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime

from memdir.frozen import dataclass
from memdir.limits import NOTES_RULES_TOKENS
from memdir.notes.calls import Act, Deed, Ending, State, describe_call, read_ending
from memdir.notes.lines import KeyedLines, quoted_key, replace_group, sort_groups
from memdir.notes.template import Notes
from memdir.query import strip_host_text
from memdir.records import Message, ToolCall
from memdir.text import one_line, shorten

TITLE, STATE, TASK, FILES = "Session Title", "Current State", "Task specification", "Files and Functions"
WORKFLOW, ERRORS, WORKLOG = "Workflow", "Errors & Corrections", "Worklog"
KNOWN = (TITLE, STATE, TASK, FILES, WORKFLOW, ERRORS, WORKLOG)
_TITLE_CHARS, _REQUEST_CHARS, _FIRST_CHARS, _ANSWER_CHARS = 80, 160, 1_200, 300
_STEPS, _QUESTIONS, _FAILING, _AFTER, _NAMED = 15, 5, 5, 3, 4
_REQUEST, _ANSWER, _STEP, _QUESTION, _FAILS = (
    "- Last request: ",
    "- Last answer: ",
    "- To do: ",
    "- Open question: ",
    "- Failing: ",
)
_GROUPS = (_REQUEST, _ANSWER, _STEP, _QUESTION, _FAILS)
_OPEN, _WORKS = "open", "works since"
_NO_REASON = " (declined): no reason was given"
_ERROR_LINE = re.compile(r"- `([^`]*)` \((open|works since|declined)(?:; after ((?:`[^`]*`(?:, )?)+))?\): (.*)")
_STAMP = r"(?:\d{4}-\d\d-\d\d \d\d:\d\d )?"
_TASK_LINE = re.compile(rf"- {_STAMP}“.*”")
_WORK_LINE = re.compile(rf"- {_STAMP}(?:“.*?” → |went on → |\(the conversation was compacted\))")
_COMPACTED = "This session is being continued from a previous conversation"
_FENCED = re.compile(r"^ {0,3}(```|~~~).*?(?:^ {0,3}\1|\Z)", re.MULTILINE | re.DOTALL)
_ASKING = re.compile(r"[^.!?。！？\n]{3,}[?？](?=[\s\"'”’)»]|$)")


@dataclass(frozen=True, slots=True)
class Turn:
    """What the person said, if these messages have it, and all that followed."""

    request: str
    at: datetime | None
    messages: tuple[Message, ...]


def update_by_rules(notes: Notes, messages: Sequence[Message], *, root: str = "", apart: Sequence[str] = ()) -> Notes:
    """The notes with these messages worked in. What names a place in `apart` (the memory directories) is left out."""
    digest = _Digest(notes, root, apart)
    for turn in split_turns(messages):
        digest.take(turn)
    return notes.with_texts(digest.render())


def split_turns(messages: Iterable[Message]) -> Iterator[Turn]:
    """Turns: each begins with something the person said; the first may go on with an earlier one."""
    request, at = "", None
    part: list[Message] = []
    for message in messages:
        said = strip_host_text(message.text) if message.role == "user" and not message.is_meta else ""
        if said:
            if request or part:
                yield Turn(request, at, tuple(part))
            request, at, part = said, message.at, []
        elif message.role != "user" or message.text.startswith(_COMPACTED):
            at = at or message.at
            part.append(message)
    if request or part:
        yield Turn(request, at, tuple(part))


class _Digest:
    """The sections while messages are worked in."""

    def __init__(self, notes: Notes, root: str, apart: Sequence[str]) -> None:
        texts = {name: at.text for name in KNOWN if (at := notes.find(name))}
        self._known = frozenset(texts)
        self._root, self._apart = root, tuple(at for at in apart if at)
        self._title, self._state, task = (texts.get(name, "") for name in (TITLE, STATE, TASK))
        first, _, rest = task.partition("\n\n")
        is_list = _TASK_LINE.match(first)
        self._first, self._tasks = (
            ("", KeyedLines(task, _task_key)) if is_list else (first, KeyedLines(rest, _task_key))
        )
        self._files = KeyedLines(texts.get(FILES, ""))
        self._commands = KeyedLines(texts.get(WORKFLOW, ""))
        self._errors = KeyedLines(texts.get(ERRORS, ""), _error_key)
        self._work = KeyedLines(texts.get(WORKLOG, ""), _work_key)
        self._looking = {key for line in self._commands.list_own() if _is_looking(key := quoted_key(line))}

    def render(self) -> dict[str, str]:
        failing = [quoted_key(line) for line in self._errors.list_own() if f"` ({_OPEN}" in line][-_FAILING:]
        state = sort_groups(replace_group(self._state, _FAILS, (f"`{key}`" for key in failing)), _GROUPS)
        tasks = self._tasks.render(NOTES_RULES_TOKENS - 300)
        texts = {
            TITLE: self._title,
            STATE: state,
            TASK: "\n\n".join(filter(None, (self._first, tasks))),
            FILES: self._files.render(NOTES_RULES_TOKENS, lambda line: line.endswith(f": {Act.READ}")),
            WORKFLOW: self._commands.render(NOTES_RULES_TOKENS, lambda line: quoted_key(line) in self._looking),
            ERRORS: self._errors.render(NOTES_RULES_TOKENS, lambda line: f"` ({_OPEN}" not in line),
            WORKLOG: self._work.render(NOTES_RULES_TOKENS),
        }
        return {name: text for name, text in texts.items() if name in self._known}

    # --- one turn ---------------------------------------------------------------------------------------------------

    def take(self, turn: Turn) -> None:
        if turn.request:
            self._take_request(turn)
        endings = {at.answers: read_ending(at) for at in turn.messages if at.role == "tool"}
        answer, runs, failed = "", 0, 0
        written: list[str] = []
        for message in turn.messages:
            if message.is_meta:
                continue
            if message.role == "assistant" and message.text.strip():
                answer = message.text
                self._ask(_find_questions(answer))
            for call in message.calls:
                ending = endings.get(call.id)
                for deed in () if self._is_apart(call) else describe_call(call, self._root):
                    self._take_deed(deed, ending)
                    runs += deed.act is Act.RUN
                    failed += ending is not None and ending.state is State.FAILED
                    written += [deed.what] if deed.act is Act.WRITTEN and _is_done(ending) else []
        self._note_work(turn, answer, written, runs, failed)
        for message in turn.messages:
            if message.is_meta and message.text.startswith(_COMPACTED):
                self._work.put(f"- {_stamp(message.at)}(the conversation was compacted)")

    def _take_request(self, turn: Turn) -> None:
        line = shorten(one_line(turn.request), _REQUEST_CHARS)
        self._title = self._title or _plain(shorten(one_line(turn.request), _TITLE_CHARS))
        whole = shorten(one_line(turn.request), _FIRST_CHARS)
        if not self._first and not self._tasks.list_own():
            self._first = _plain(whole)
        elif _plain(whole) != self._first and _says_something(line):
            self._tasks.put(f"- {_stamp(turn.at)}“{line}”")
        for error in self._errors.list_own():
            if error.endswith(_NO_REASON):
                self._errors.change(f"{error.removesuffix(_NO_REASON)} (declined): the person then said “{line}”")
        self._state = replace_group(self._state, _REQUEST, [line])
        self._ask(())

    def _note_work(self, turn: Turn, answer: str, written: list[str], runs: int, failed: int) -> None:
        names = list(dict.fromkeys(written))
        shown = ", ".join(f"`{name}`" for name in names[:_NAMED])
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
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

    # --- one deed ---------------------------------------------------------------------------------------------------

    def _take_deed(self, deed: Deed, ending: Ending | None) -> None:
        if deed.act is Act.PLANNED:
            self._state = replace_group(self._state, _STEP, deed.items[:_STEPS])
        elif deed.act is Act.ASKED:
            self._ask(() if ending else deed.items)
        elif deed.act is Act.RUN:
            self._commands.put(f"- `{deed.what}`: {ending.words if ending else 'no result yet'}")
            self._looking |= {deed.what} if deed.is_minor else set()
        elif deed.act in (Act.READ, Act.WRITTEN) and _is_done(ending):
            was_written = self._files.find(deed.what).endswith(f": {Act.WRITTEN}")
            self._files.put(f"- `{deed.what}`: {Act.WRITTEN if was_written else deed.act}")
        if ending is not None:
            self._take_ending(deed, ending)

    def _take_ending(self, deed: Deed, ending: Ending) -> None:
        if ending.state is State.DECLINED:
            self._errors.put(f"- `{deed.key}`{_NO_REASON}")
            return
        if ending.state is State.OK and not deed.is_minor:
            self._follow(deed)
        if ending.state is State.FAILED:
            self._errors.put(_render_error(deed.key, _OPEN, (), ending.error))
        elif ending.state is State.OK and (found := _parse_error(self._errors.find(deed.key))) and found[1] == _OPEN:
            self._errors.change(_render_error(found[0], _WORKS, found[2], found[3]))

    def _follow(self, deed: Deed) -> None:
        """What is done after an error may be what put it right."""
        for line in self._errors.list_own():
            found = _parse_error(line)
            if found is None or found[1] != _OPEN or found[0] == deed.key or len(found[2]) >= _AFTER:
                continue
            after = tuple(dict.fromkeys((*found[2], deed.key)))
            self._errors.change(_render_error(found[0], _OPEN, after, found[3]))

    def _ask(self, questions: Sequence[str]) -> None:
        self._state = replace_group(self._state, _QUESTION, list(questions)[:_QUESTIONS])

    def _is_apart(self, call: ToolCall) -> bool:
        return bool(self._apart) and any(at in str(dict(call.input)) for at in self._apart)


def _render_error(key: str, state: str, after: Sequence[str], error: str) -> str:
    done = f"; after {', '.join(f'`{at}`' for at in after)}" if after else ""
    return f"- `{key}` ({state}{done}): {error}"


def _parse_error(line: str) -> tuple[str, str, tuple[str, ...], str] | None:
    match = _ERROR_LINE.fullmatch(line)
    return (match[1], match[2], tuple(re.findall(r"`([^`]*)`", match[3] or "")), match[4]) if match else None


def _error_key(line: str) -> str:
    return match[1] if (match := _ERROR_LINE.fullmatch(line)) else ""


def _task_key(line: str) -> str:
    return line if _TASK_LINE.fullmatch(line) else ""


def _work_key(line: str) -> str:
    match = _WORK_LINE.match(line)
    return match[0] if match else ""


def _is_looking(command: str) -> bool:
    return any(deed.is_minor for deed in describe_call(ToolCall("", "bash", {"command": command})))


def _is_done(ending: Ending | None) -> bool:
    return ending is None or ending.state in (State.OK, State.RUNNING)


def _find_questions(text: str) -> list[str]:
    bare = _FENCED.sub("", text)
    return [shorten(one_line(match[0].strip(" -*>#")), 200) for match in _ASKING.finditer(bare)]


def _says_something(line: str) -> bool:
    return len(line.split()) > 2 or (not line.isascii() and len(line) > 5)


def _stamp(at: datetime | None) -> str:
    return f"{at:%Y-%m-%d %H:%M} " if at else ""


def _plain(text: str) -> str:
    """A text that begins a paragraph: none of the signs that would make a heading, a list or a fence of it."""
    return re.sub(r"^([#>*+\-=`~_|]|\d+[.)])", r"\\\1", text)
