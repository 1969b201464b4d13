"""Update session notes with a model, which can change only the text of sections.

One request contains the notes and the new messages, and the reply the new texts of sections; an unusable reply is sent back
once. Nothing is written here: the result is the new notes, or an error.

A user's own prompt replaces the built-in one. `{{currentNotes}}` and `{{notesPath}}` in it are filled in one pass; anything
else in braces is text.
"""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from memdir import limits
from memdir.conversation.notes_file import Notes, check_notes, is_empty, list_oversize, parse_notes
from memdir.errors import FormatError, ReplyError
from memdir.frozen import dataclass
from memdir.models.agent import ForkEnd, ForkResult
from memdir.models.connection import sum_usage
from memdir.models.prompts import render_prompt
from memdir.models.staged import ask_repairing, check_reply, make_object
from memdir.records import Message, Model, Reply, Request
from memdir.store.secrets import mask_model
from memdir.text import cut_middle, find_rows, one_line, shorten

PURPOSE = "notes"
_SLOT = re.compile(r"\{\{(currentNotes|notesPath)\}\}")
_RESULT_CHARS, _CALL_CHARS = 1_500, 500  # max characters shown of a tool result and of a call
_KEY = "sections"


@dataclass(frozen=True, slots=True)
class NotesTask:
    text: str
    notes: Notes
    template: Notes
    path: Path
    prompt: str = ""


def ask_for_notes(model: Model, messages: Sequence[Message], task: NotesTask) -> tuple[Notes, ForkResult]:
    """Update the notes with one request. If the reply is unusable, send it back once."""
    conversation = render_note_messages(messages)
    content = render_prompt("notes/answer_slice", update=render_update(task), conversation=conversation)
    asked, system = (Message("user", content),), render_prompt("notes/answer_system")
    request = Request(system, asked, limits.FORK_TOKENS, make_schema(task.notes), purpose=PURPOSE)
    updated: list[Notes] = []

    def read(reply: Reply) -> Sequence[str]:
        updated.append(_read_reply(reply, task))
        return ()

    replies, _ = ask_repairing(mask_model(model), request, read, "notes/repair")
    usage, first = sum_usage(*(reply.usage for reply in replies)), replies[0].usage
    return updated[0], ForkResult(ForkEnd.DONE, replies[-1].text, len(replies), usage=usage, first=first)


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
    return dict(_parse_row(row, notes) for row in find_rows(text, _KEY))


def _read_reply(reply: Reply, task: NotesTask) -> Notes:
    """Return the updated notes. Raises ReplyError if the reply cannot be used or would delete all notes."""
    try:
        notes = task.notes.with_texts(parse_sections(check_reply(reply), task.notes))
        check_notes(notes)
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
