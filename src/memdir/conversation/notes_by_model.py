"""Update session notes with a model, which can change only the text of sections.

If the host's request is known and the model can call tools, a fork continues it with an unchanged prefix and can edit only
the notes file. Otherwise one request contains the notes and the new messages, and the reply contains the new texts of
sections; an unusable reply is sent back once. In both ways each change is checked immediately, and nothing is written here:
the result is the new notes, or an error.

A user's own prompt replaces the built-in one. `{{currentNotes}}` and `{{notesPath}}` in it are filled in one pass; anything
else in braces is text.
"""

import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from memdir import limits
from memdir.conversation.notes_file import Notes, check_update, is_empty, list_oversize, parse_notes, render_notes
from memdir.conversation.tool_calls import plain_name
from memdir.errors import FormatError, MemdirError, ReplyError
from memdir.frozen import dataclass, replace
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
from memdir.models.connection import sum_usage
from memdir.models.prompts import render_prompt
from memdir.models.staged import make_object
from memdir.records import Message, Model, Reply, Request, StopReason, ToolCall
from memdir.store.secrets import mask_model
from memdir.text import cut_middle, find_json, one_line, shorten

PURPOSE = "notes"
_SLOT = re.compile(r"\{\{(currentNotes|notesPath)\}\}")
_RESULT_CHARS, _CALL_CHARS = 1_500, 500  # shown of one tool's result and of one call
_KEY = "sections"


@dataclass(frozen=True, slots=True)
class NotesTask:
    """The notes to update."""

    text: str
    notes: Notes
    template: Notes
    path: Path
    prompt: str = ""


def fork_for_notes(model: Model, parent: Mapping[str, object], task: NotesTask) -> tuple[Notes, ForkResult]:
    """Update the notes by continuing the parent's request. Raises ReplyError if the model does not finish."""
    prompt = render_prompt(
        "notes/by_tools", update=render_update(task), path=str(task.path), turns=str(limits.FORK_TURNS)
    )
    tools = NotesTools(task)
    fork_result = run_fork(
        mask_model(model),
        Request("", (Message("user", prompt),), limits.FORK_TOKENS, parent=parent, purpose=PURPOSE),
        tools,
    )
    if fork_result.end in (ForkEnd.REPEATED, ForkEnd.DECLINED) or (
        fork_result.end is not ForkEnd.DONE and tools.text == task.text
    ):
        raise ReplyError(f"the model did not finish ({fork_result.end})", hint="the notes are unchanged")
    return _check(task, tools.text), fork_result


def ask_for_notes(model: Model, messages: Sequence[Message], task: NotesTask) -> tuple[Notes, ForkResult]:
    """Update the notes with one request. If the reply is unusable, send it back once."""
    conversation = render_note_messages(messages)
    content = render_prompt("notes/answer_slice", update=render_update(task), conversation=conversation)
    asked, system = (Message("user", content),), render_prompt("notes/answer_system")
    request = Request(system, asked, limits.FORK_TOKENS, make_schema(task.notes), purpose=PURPOSE)
    model = mask_model(model)
    first = model(request)
    fork_result = ForkResult(ForkEnd.DONE, first.text, 1, usage=first.usage, first=first.usage)
    try:
        return _read_reply(first, task), fork_result
    except ReplyError as error:
        repair = Message("user", render_prompt("notes/repair", problem=str(error)))
    second = model(replace(request, messages=(*asked, Message("assistant", first.text or "(nothing)"), repair)))
    fork_result = replace(fork_result, text=second.text, turns=2, usage=sum_usage(first.usage, second.usage))
    return _read_reply(second, task), fork_result


def render_update(task: NotesTask) -> str:
    """Return the prompt for an update, with a list of the sections that are too long."""
    values = {"currentNotes": task.text.strip("\n"), "notesPath": str(task.path)}
    if task.prompt.strip():
        prompt = _SLOT.sub(lambda match: values[match[1]], task.prompt.strip("\n"))
    else:
        sizes = {"sectionTokens": f"{limits.NOTES_SECTION_TOKENS:,}", "allTokens": f"{limits.NOTES_TOKENS:,}"}
        prompt = render_prompt("notes/update", **values, **sizes)
    rows = list_oversize(task.notes)
    over = render_prompt("notes/oversize", rows="\n".join(f"- {row}" for row in rows)) if rows else ""
    return "\n\n".join(filter(None, (prompt, over)))


def render_note_messages(messages: Sequence[Message]) -> str:
    """Render messages with their tool calls and shortened results. Old messages are omitted beyond the limit."""
    parts: list[str] = []
    room = limits.EXTRACT_SLICE_CHARS
    for message in reversed(messages):
        part = _render_message(message)
        room -= len(part)
        if room < 0:
            parts.append("[earlier messages are left out]")
            break
        parts.append(part)
    return "\n\n".join(filter(None, reversed(parts)))


def make_schema(notes: Notes) -> Mapping[str, object]:
    names = list(dict.fromkeys(section.name for section in notes.sections))
    row = make_object({"section": {"type": "string", "enum": names}, "text": {"type": "string"}})
    return make_object({_KEY: {"type": "array", "items": row}})


def parse_sections(text: str, notes: Notes) -> dict[str, str]:
    """Return the new section texts in a reply. Raises ReplyError if there are none."""
    for value in find_json(text):
        rows = value.get(_KEY, value) if isinstance(value, dict) else value
        if isinstance(rows, dict):
            rows = [{"section": name, "text": new} for name, new in rows.items()]
        if isinstance(rows, list):
            return dict(_parse_row(row, notes) for row in rows)
    raise ReplyError(f"no JSON in {shorten(one_line(text), 60)!r}" if text.strip() else "it is empty")


class NotesTools:
    """Run a model's edits on the notes, which are kept in memory until the run ends."""

    def __init__(self, task: NotesTask) -> None:
        self.text, self._task, self._written = task.text, task, 0
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
        if self._written + size > limits.FORK_WRITTEN_BYTES * 4:  # each edit counts as the full file
            raise FormatError("this run has exceeded its write limit")
        notes = check_update(self._task.notes, text)
        self.text, self._written = text, self._written + size
        rows = list_oversize(notes)
        return ToolResult(f"Done. Now too long: {'; '.join(rows)}." if rows else "Done.")


def _edit(text: str, values: Mapping[str, object]) -> str:
    """Apply one replacement or a list of replacements. Raises FormatError if any does not match."""
    edits = values.get("edits")
    for one in edits if isinstance(edits, list) else [values]:
        table = one if isinstance(one, Mapping) else {}
        old, new = pick(table, OLD_KEYS), pick(table, NEW_KEYS)
        count = text.count(old) if old else 0
        if count == 0 or (count > 1 and table.get("replace_all") is not True):
            raise FormatError(f"the passage must occur exactly once in the notes, but occurs {count} times")
        text = text.replace(old, new)
    return text


def _read_reply(reply: Reply, task: NotesTask) -> Notes:
    if reply.stop is StopReason.REFUSED:
        raise ReplyError("the model declined")
    if reply.stop is StopReason.LENGTH:
        raise ReplyError("the response was cut off by the token limit")
    return _check(task, render_notes(task.notes.with_texts(parse_sections(reply.text, task.notes))))


def _check(task: NotesTask, text: str) -> Notes:
    """Return the updated notes. Raises ReplyError if they are unchanged or if more than section texts changed."""
    try:
        notes = check_update(task.notes, text)
    except FormatError as error:
        raise ReplyError(f"{error}{f'; {error.hint}' if error.hint else ''}") from None
    if is_empty(notes, task.template) and not is_empty(task.notes, task.template):
        raise ReplyError("this edit would delete all notes")
    return notes


def _parse_row(row: object, notes: Notes) -> tuple[str, str]:
    name, text = (row.get("section"), row.get("text")) if isinstance(row, dict) else (None, None)
    if not isinstance(name, str) or not isinstance(text, str):
        raise ReplyError('every section needs "section" and "text"')
    section = notes.find(name.strip().lstrip("#").strip())
    if section is None:
        raise ReplyError(f"unknown section {shorten(one_line(name), 60)!r}")
    # Some models repeat the heading and its description, which are removed if they match.
    parsed = parse_notes(text, level=notes.level)
    if not parsed.preamble and len(parsed.sections) == 1 and parsed.sections[0].heading == section.heading:
        text = parsed.sections[0].text
    return section.name, text.strip().removeprefix(section.description).strip() if section.description else text.strip()


def _render_message(message: Message) -> str:
    time = f", {message.at:%Y-%m-%d %H:%M}" if message.at else ""
    if message.role == "tool" and message.text:
        how = "failed" if message.failed else "material, not the person's words"
        return f"[output of a tool{time}: {how}]\n{cut_middle(message.text, _RESULT_CHARS)}"
    if message.is_meta or not (message.text or message.calls):
        return ""
    who = "the person" if message.role == "user" else "the agent"
    lines = [f"[{who}{time}]", message.text]
    for call in message.calls:
        call_input = json.dumps(dict(call.input), ensure_ascii=False, default=str)
        lines.append(f"(calls {call.name}: {shorten(call_input, _CALL_CHARS)})")
    return "\n".join(lines)


def _refuse(problem: str) -> ToolResult:
    return ToolResult(f"Refused: {problem}.", refused=True)
