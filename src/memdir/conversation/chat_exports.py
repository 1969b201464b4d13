"""Read data exports of ChatGPT and Claude: a zip file or folder with conversations, memories and instructions.

    conversations.json, conversations-000.json, …   a tree of messages (ChatGPT) or a list of messages (Claude) for each
    memories.json, memories/*.json, projects.json, projects/*.json   Claude only

ChatGPT does not export a list of memories. They are in the newest `model_set_context` of the conversations, or in calls of its tool
`bio`. The custom instructions are the newest `user_editable_context`. A file is decoded one conversation at a time. Archives
are read in memory, within limits, and never unpacked to disk.
"""

import json
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import closing, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from memdir.conversation.lines import list_blocks
from memdir.errors import FormatError
from memdir.frozen import dataclass
from memdir.limits import EXPORT_BYTES, EXPORT_RATIO, IMPORT_FILES
from memdir.records import Message
from memdir.text import as_table, as_text

CHATGPT, CLAUDE = "chatgpt", "claude"
_CHATS = re.compile(r"(?:.*/)?conversations(?:-\d+)?\.json")
_MEMORIES = re.compile(r"(?:.*/)?(?:memories\.json|memories/[^/]+\.json)")
_PROJECTS = re.compile(r"(?:.*/)?(?:projects\.json|projects/[^/]+\.json)")
_FENCED = re.compile(r"```\n?(.*?)\n?```", re.DOTALL)
_SPACE = re.compile(r"[\s,]*")
_HINT = "request a new export, and pass its zip file or the folder you unpacked it to"
_DAMAGE = (zipfile.BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError)
Table = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ExportedChat:
    id: str
    title: str
    at: datetime | None
    messages: tuple[Message, ...]


@dataclass(frozen=True, slots=True)
class ExportedNote:
    """A memory of a service or an instruction by the user; `kind` is memory, list, about, style or project."""

    kind: str
    title: str
    text: str
    source: str
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ChatExport:
    """A data export with its service and notes. `chats` is the number of conversations."""

    path: Path
    service: str
    notes: tuple[ExportedNote, ...]
    chats: int

    def read_chats(self) -> Iterator[ExportedChat]:
        """Yield the conversations in export order. Skips those without a user message."""
        for _, row in _read_rows(self.path, _CHATS):
            chat = _read_chat(row)
            if any(message.role == "user" for message in chat.messages):
                yield chat


def find_export(path: Path) -> ChatExport | None:
    """Return the export at a path, or None if it is not one. Raises FormatError if it is damaged or too large."""
    if not _has_chats(path):
        return None
    service, chats, notes = "", 0, _ChatGptNotes()
    for name, row in _read_rows(path, _CHATS):
        service = service or (CHATGPT if "mapping" in row else CLAUDE if "chat_messages" in row else "")
        if not service:
            raise FormatError(f"{name} contains no ChatGPT or Claude conversations", hint=_HINT)
        chats += 1
        if service == CHATGPT:
            notes.read(row, name)
    entries = notes.list() if service == CHATGPT else list(_read_claude_notes(path))
    return ChatExport(path, service or CLAUDE, tuple(entries), chats)


def _has_chats(path: Path) -> bool:
    try:
        return any(_CHATS.fullmatch(name) for name in _list_names(path))
    except _DAMAGE:
        return False


def _list_names(path: Path) -> list[str]:
    if path.is_dir():
        files = (file for folder in ("", "memories", "projects") for file in sorted((path / folder).glob("*.json")))
        return [file.relative_to(path).as_posix() for file in files if file.is_file() and not file.is_symlink()]
    if path.suffix.lower() == ".json" or not path.is_file():  # opening a FIFO would block, and a device may have no end
        return [path.name] if path.is_file() else []
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()[:IMPORT_FILES]


def _read_rows(path: Path, pattern: re.Pattern[str]) -> Iterator[tuple[str, Table]]:
    """Yield the objects in files whose names match, with the file name. Values of other types are ignored."""
    names, total = [name for name in _list_names(path) if pattern.fullmatch(name)], 0
    for name in sorted(names):
        try:
            data = _read_member(path, name, EXPORT_BYTES - total)
        except _DAMAGE as error:
            raise FormatError(f"{path.name} is damaged at {name}: {error}", hint=_HINT) from None
        total += len(data)
        yield from (
            (name, row) for row in _decode(data.decode("utf-8-sig", "replace"), name) if isinstance(row, Mapping)
        )


def _read_member(path: Path, name: str, limit: int) -> bytes:
    if path.suffix.lower() == ".json" or path.is_dir():
        with open(path if path.is_file() else path / name, "rb") as file:
            data = file.read(limit + 1)
    else:
        with zipfile.ZipFile(path) as archive, closing(archive.open(name)) as member:
            info = archive.getinfo(name)
            is_bomb = info.file_size > EXPORT_RATIO * max(info.compress_size, 1_000)
            if is_bomb or info.file_size > limit:
                raise FormatError(f"{path.name} unpacks to too many bytes for an export", hint=_HINT)
            data = member.read(limit + 1)
    if len(data) > limit:
        hint = "pass a folder with one of its conversation files at a time"
        raise FormatError(f"{path.name} is larger than {EXPORT_BYTES:,} bytes", hint=hint)
    return data


def _decode(text: str, name: str) -> Iterator[Any]:
    """Yield the values of a JSON list one at a time. Any other JSON value is yielded itself."""
    decoder, offset = json.JSONDecoder(), _SPACE.match(text).end()  # type: ignore[union-attr]
    is_list = text[offset : offset + 1] == "["
    offset = _SPACE.match(text, offset + is_list).end()  # type: ignore[union-attr]
    try:
        while offset < len(text) and text[offset] != "]":
            value, offset = decoder.raw_decode(text, offset)
            yield value
            offset = _SPACE.match(text, offset).end()  # type: ignore[union-attr]
        if is_list and offset >= len(text):
            raise ValueError("truncated")
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{name} is not complete JSON: {error}", hint=_HINT) from None


def _read_chat(row: Table) -> ExportedChat:
    messages = tuple(_read_tree(row) if "mapping" in row else _read_list(row))
    id = _read_text(row, "conversation_id") or _read_text(row, "id") or _read_text(row, "uuid")
    updated = (
        _time(row.get("update_time"))
        or _time(row.get("updated_at"))
        or max((m.at for m in messages if m.at), default=None)
    )
    return ExportedChat(id, _read_text(row, "title") or _read_text(row, "name"), updated, messages)


def _read_text(row: Table, key: str) -> str:
    return as_text(row.get(key))


def _time(value: object) -> datetime | None:
    with suppress(ValueError, OverflowError, OSError):
        if isinstance(value, int | float) and not isinstance(value, bool) and value > 0:
            return datetime.fromtimestamp(value, UTC)
        if isinstance(value, str) and value:
            return datetime.fromisoformat(value).astimezone(UTC)
    return None


# ChatGPT.


def _list_branch(row: Table) -> list[Table]:
    """Return the messages from the start to the last one the user saw, without those on other branches."""
    nodes = {key: node for key, node in as_table(row.get("mapping")).items() if isinstance(node, dict)}
    node_id = row.get("current_node")
    if node_id not in nodes:
        node_id = next((key for key in reversed(nodes) if not nodes[key].get("children")), None)
    messages: list[Table] = []
    while isinstance(node_id, str) and (node := nodes.pop(node_id, None)) is not None:
        message = node.get("message")
        messages += [message] if isinstance(message, Mapping) else []
        node_id = node.get("parent")
    return messages[::-1]


def _join_parts(message: Table) -> str:
    parts = as_table(message.get("content")).get("parts")
    return "\n".join(part for part in parts if isinstance(part, str)) if isinstance(parts, list) else ""


def _read_tree(row: Table) -> Iterator[Message]:
    for message in _list_branch(row):
        role = _read_text(as_table(message.get("author")), "role")
        is_hidden = as_table(message.get("metadata")).get("is_visually_hidden_from_conversation") is True
        is_said = as_table(message.get("content")).get("content_type") in ("text", "multimodal_text") and not is_hidden
        text, sent_at, id = _join_parts(message).strip(), _time(message.get("create_time")), _read_text(message, "id")
        if not text or role not in ("user", "assistant", "tool"):
            continue
        if role == "tool":
            yield Message("tool", text, id, sent_at)
        elif is_said and message.get("recipient") in (None, "all"):
            yield Message(role, text, id, sent_at)


class _ChatGptNotes:
    """Collect the newest memories and custom instructions from the conversations."""

    def __init__(self) -> None:
        self._newest: dict[str, tuple[datetime, ExportedNote]] = {}
        self._saved: dict[str, ExportedNote] = {}

    def read(self, row: Table, source: str) -> None:
        for message in _list_branch(row):
            content = as_table(message.get("content"))
            sent_at = _time(message.get("create_time")) or _time(row.get("update_time"))
            self._keep_newest("list", "Memories of ChatGPT", _read_text(content, "model_set_context"), source, sent_at)
            if content.get("content_type") == "user_editable_context":
                plain = as_table(as_table(message.get("metadata")).get("user_context_message_data"))
                about = _read_text(plain, "about_user_message") or _unwrap(_read_text(content, "user_profile"))
                style = _read_text(plain, "about_model_message") or _unwrap(_read_text(content, "user_instructions"))
                self._keep_newest("about", "About the person", about, source, sent_at)
                self._keep_newest("style", "How to answer", style, source, sent_at)
            elif message.get("recipient") == "bio" and (text := _join_parts(message).strip()):
                self._saved.setdefault(text, ExportedNote("memory", "", text, source, sent_at))

    def _keep_newest(self, kind: str, title: str, text: str, source: str, sent_at: datetime | None) -> None:
        when = sent_at or datetime.fromtimestamp(0, UTC)
        if text.strip() and (kind not in self._newest or when >= self._newest[kind][0]):
            self._newest[kind] = when, ExportedNote(kind, title, text.strip(), source, sent_at)

    def list(self) -> list[ExportedNote]:
        newest = [note for _, note in self._newest.values()]
        return newest + ([] if "list" in self._newest else list(self._saved.values()))


def _unwrap(text: str) -> str:
    """Return the user's text without the sentence and the code fence that ChatGPT puts around it."""
    fenced = _FENCED.search(text)
    return (fenced[1] if fenced else text).strip()


# Claude.


def _read_list(row: Table) -> Iterator[Message]:
    for message in list_blocks(row.get("chat_messages")):
        blocks = list_blocks(message.get("content"))
        texts = [_read_text(block, "text") for block in blocks if block.get("type") == "text"]
        text = "\n".join(texts) or _read_text(message, "text")
        role = {"human": "user", "assistant": "assistant"}.get(_read_text(message, "sender"))
        if role and text.strip():
            yield Message(role, text.strip(), _read_text(message, "uuid"), _time(message.get("created_at")))


def _read_claude_notes(path: Path) -> Iterator[ExportedNote]:
    projects = {_read_text(row, "uuid"): (name, row) for name, row in _read_rows(path, _PROJECTS)}
    for name, row in _read_rows(path, _MEMORIES):
        yield from _split_sections(_read_text(row, "conversations_memory"), name)
        for id, text in as_table(row.get("project_memories")).items():
            if isinstance(text, str) and text.strip():
                title = _read_text(projects[id][1], "name") if id in projects else ""
                yield ExportedNote("project", title or "A project of Claude", text.strip(), name)
    for name, row in projects.values():
        if text := _read_text(row, "prompt_template").strip():
            yield ExportedNote(
                "style", f"Instructions of {_read_text(row, 'name')}", text, name, _time(row.get("updated_at"))
            )


def _split_sections(text: str, source: str) -> Iterator[ExportedNote]:
    """Yield the sections of the memory text. Each begins with a heading or a line in bold."""
    title, lines = "About the person", list[str]()
    for line in [*text.splitlines(), "**"]:
        heading = re.fullmatch(r"\s*(?:#+\s*(.+?)|\*\*(.*?):?\*\*)\s*", line) if line != "**" else None
        if heading or line == "**":
            if body := "\n".join(lines).strip():
                yield ExportedNote("about", title, body, source)
            title, lines = (heading[1] or heading[2] if heading else title), []
        else:
            lines.append(line)
