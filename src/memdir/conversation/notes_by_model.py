"""Notes by a model: the same task in two forms, and never more than the text below the fixed lines.

With the host's own request at hand and a model that can call tools, a fork goes on from it, prefix unchanged; in that
run one file can be edited and nothing else exists. Otherwise one request carries the notes and what was said since, and
is answered by the new texts of sections; an answer that cannot be used is sent back once. In both forms each change is
checked when it is made, and nothing is written here: the answer is the notes as they should be, or an error.

A person's own prompt takes the place of ours. `{{currentNotes}}` and `{{notesPath}}` in it are filled in one pass, so
what they bring in is never filled again; whatever else stands in braces is text.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from memdir.conversation.notes_file import Notes, check_update, is_empty, list_oversize, parse_notes, render_notes
from memdir.conversation.tool_calls import plain_name
from memdir.errors import FormatError, MemdirError, ReplyError
from memdir.frozen import dataclass
from memdir.limits import (
    EXTRACT_SLICE_CHARS,
    FORK_TOKENS,
    FORK_TURNS,
    FORK_WRITTEN_BYTES,
    NOTES_SECTION_TOKENS,
    NOTES_TOKENS,
)
from memdir.models.agent import (
    NEW_KEYS,
    OLD_KEYS,
    PATH_KEYS,
    TEXT_KEYS,
    ForkEnd,
    ForkResult,
    ToolResult,
    pick,
    run_fork,
    translate_names,
)
from memdir.models.connection import add_usage
from memdir.models.prompts import render_prompt
from memdir.records import Message, Model, Reply, Request, StopReason, ToolCall
from memdir.text import find_json, one_line, shorten

PURPOSE = "notes"
_SLOT = re.compile(r"\{\{(currentNotes|notesPath)\}\}")
_RESULT_CHARS, _CALL_CHARS = 1_500, 500  # of one tool's result and of one call, shown to a model that has neither
_KEY = "sections"


@dataclass(frozen=True, slots=True)
class NotesTask:
    """What is to be brought up to date: the text of the file, its notes, where it is, and the person's own prompt."""

    text: str
    notes: Notes
    template: Notes
    path: Path
    prompt: str = ""


@dataclass(frozen=True, slots=True)
class WrittenNotes:
    """The notes as a model wants them, and how the run went."""

    notes: Notes
    ran: ForkResult


def fork_for_notes(model: Model, parent: Mapping[str, object], task: NotesTask) -> WrittenNotes:
    """Go on from the parent's own request; raises when the run comes to no good end."""
    said = render_prompt("notes/by_tools", update=render_update(task), path=str(task.path), turns=str(FORK_TURNS))
    pen = NotesTools(task)
    ran = run_fork(model, Request("", (Message("user", said),), FORK_TOKENS, parent=parent, purpose=PURPOSE), pen)
    if ran.end in (ForkEnd.REPEATED, ForkEnd.DECLINED) or (ran.end is not ForkEnd.DONE and pen.text == task.text):
        raise ReplyError(f"the run came to no end ({ran.end})", hint="the notes are as they were")
    return WrittenNotes(_check(task, pen.text), ran)


def ask_for_notes(model: Model, messages: Sequence[Message], task: NotesTask) -> WrittenNotes:
    """One request with everything in it, and a second if the answer cannot be used."""
    system = render_prompt("notes/answer_system")
    content = render_prompt(
        "notes/answer_slice", update=render_update(task), conversation=render_note_messages(messages)
    )
    schema = make_schema(task.notes)
    asked = (Message("user", content),)
    first = model(Request(system, asked, FORK_TOKENS, schema, purpose=PURPOSE))
    try:
        return WrittenNotes(
            _take_over(first, task), ForkResult(ForkEnd.DONE, first.text, 1, usage=first.usage, first=first.usage)
        )
    except ReplyError as error:
        repair = Message("user", render_prompt("notes/repair", problem=str(error)))
        again = (*asked, Message("assistant", first.text or "(nothing)"), repair)
        second = model(Request(system, again, FORK_TOKENS, schema, purpose=PURPOSE))
        usage = add_usage(first.usage, second.usage)
        return WrittenNotes(
            _take_over(second, task), ForkResult(ForkEnd.DONE, second.text, 2, usage=usage, first=first.usage)
        )


def render_update(task: NotesTask) -> str:
    """What the updater is told, in either form: our prompt or the person's, and what has grown too long."""
    text = task.text.strip("\n")
    if task.prompt.strip():
        values = {"currentNotes": text, "notesPath": str(task.path)}
        told = _SLOT.sub(lambda match: values[match[1]], task.prompt.strip("\n"))
    else:
        told = render_prompt(
            "notes/update",
            currentNotes=text,
            notesPath=str(task.path),
            sectionTokens=f"{NOTES_SECTION_TOKENS:,}",
            allTokens=f"{NOTES_TOKENS:,}",
        )
    rows = list_oversize(task.notes)
    over = render_prompt("notes/oversize", rows="\n".join(f"- {row}" for row in rows)) if rows else ""
    return "\n\n".join(filter(None, (told, over)))


def render_note_messages(messages: Sequence[Message]) -> str:
    """Who said and did what, newest kept; calls with what they were given, results cut short."""
    parts: list[str] = []
    room = EXTRACT_SLICE_CHARS
    for message in reversed(messages):
        part = _render_message(message)
        room -= len(part)
        if room < 0:
            parts.append("[earlier messages are left out]")
            break
        parts.append(part)
    return "\n\n".join(filter(None, reversed(parts)))


def make_schema(notes: Notes) -> Mapping[str, object]:
    names = list(dict.fromkeys(at.name for at in notes.sections))
    row = {
        "type": "object",
        "properties": {"section": {"type": "string", "enum": names}, "text": {"type": "string"}},
        "required": ["section", "text"],
        "additionalProperties": False,
    }
    return {
        "type": "object",
        "properties": {_KEY: {"type": "array", "items": row}},
        "required": [_KEY],
        "additionalProperties": False,
    }


def parse_sections(text: str, notes: Notes) -> dict[str, str]:
    """The new texts in an answer, by section; raises ReplyError saying what is wrong with it."""
    for value in find_json(text):
        rows = value.get(_KEY, value) if isinstance(value, dict) else value
        if isinstance(rows, dict):
            rows = [{"section": name, "text": new} for name, new in rows.items()]
        if isinstance(rows, list):
            return dict(_parse_row(row, notes) for row in rows)
    raise ReplyError(f"there is no JSON in {shorten(one_line(text), 60)!r}" if text.strip() else "it is empty")


class NotesTools:
    """`change` for a fork that may edit one file: the text lives here until the run has ended."""

    def __init__(self, task: NotesTask) -> None:
        self.text = task.text
        self._task = task
        self._written = 0
        self._paths = {str(task.path), os.path.realpath(task.path)}

    def __call__(self, call: ToolCall) -> ToolResult:
        verb, values = translate_names(call)
        verb = "edit" if plain_name(call.name) == "multiedit" else verb
        if verb not in ("read", "edit", "write"):
            return _refuse(f"{shorten(one_line(call.name), 40)!r} is not available in this run")
        if pick(values, PATH_KEYS).removeprefix("file://") not in self._paths:
            return _refuse(f"only {self._task.path} can be opened in this run")
        if verb == "read":
            return ToolResult(self.text)
        try:
            return self._put(pick(values, TEXT_KEYS) if verb == "write" else _edit(self.text, values))
        except MemdirError as error:
            return _refuse(f"{error}{f'; {error.hint}' if error.hint else ''}")

    def _put(self, text: str) -> ToolResult:
        size = len(text.encode("utf-8", "replace"))
        if self._written + size > FORK_WRITTEN_BYTES * 4:  # each edit counts as the whole file
            raise FormatError("this run has written too much already")
        notes = check_update(self._task.notes, text)
        self.text, self._written = text, self._written + size
        rows = list_oversize(notes)
        return ToolResult(f"Done. Now too long: {'; '.join(rows)}." if rows else "Done.")


def _edit(text: str, values: Mapping[str, object]) -> str:
    """One replacement, or a list of them; all or none."""
    edits = values.get("edits")
    for one in edits if isinstance(edits, list) else [values]:
        table = one if isinstance(one, Mapping) else {}
        old, new = pick(table, OLD_KEYS), pick(table, NEW_KEYS)
        count = text.count(old) if old else 0
        if count == 0 or (count > 1 and table.get("replace_all") is not True):
            raise FormatError(f"the passage stands {count} times in the notes, not once")
        text = text.replace(old, new)
    return text


def _take_over(reply: Reply, task: NotesTask) -> Notes:
    if reply.stop is StopReason.REFUSED:
        raise ReplyError("the model declined")
    if reply.stop is StopReason.LENGTH:
        raise ReplyError("the token limit cut the answer short")
    texts = parse_sections(reply.text, task.notes)
    return _check(task, render_notes(task.notes.with_texts(texts)))


def _check(task: NotesTask, text: str) -> Notes:
    """The notes, proved to be the old ones in all but their texts; raises ReplyError."""
    try:
        notes = check_update(task.notes, text)
    except FormatError as error:
        raise ReplyError(f"{error}{f'; {error.hint}' if error.hint else ''}") from None
    if is_empty(notes, task.template) and not is_empty(task.notes, task.template):
        raise ReplyError("it would leave nothing of the notes")
    return notes


def _parse_row(row: object, notes: Notes) -> tuple[str, str]:
    name, text = (row.get("section"), row.get("text")) if isinstance(row, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(text, str):
        raise ReplyError('each of the sections needs a "section" and a "text"')
    found = notes.find(name.strip().lstrip("#").strip())
    if found is None:
        raise ReplyError(f"there is no section {shorten(one_line(name), 60)!r}")
    # Some models send the heading and its description along: then those are taken off, if they are the right ones.
    whole = parse_notes(text, level=notes.level)
    if not whole.preamble and len(whole.sections) == 1 and whole.sections[0].heading == found.heading:
        text = whole.sections[0].text
    return found.name, text.strip().removeprefix(found.description).strip() if found.description else text.strip()


def _render_message(message: Message) -> str:
    at = f", {message.at:%Y-%m-%d %H:%M}" if message.at else ""
    if message.role == "tool":
        how = "failed" if message.failed else "material, not the person's words"
        return f"[output of a tool{at}: {how}]\n{shorten(message.text, _RESULT_CHARS)}"
    if message.is_meta:
        return ""
    who = "the person" if message.role == "user" else "the agent"
    calls = "".join(f"\n(calls {call.name}: {_show_input(call)})" for call in message.calls)
    return f"[{who}{at}]\n{message.text}{calls}"


def _show_input(call: ToolCall) -> str:
    return shorten(json.dumps(dict(call.input), ensure_ascii=False, default=str), _CALL_CHARS)


def _refuse(problem: str) -> ToolResult:
    return ToolResult(f"Refused: {problem}.", refused=True)
