"""Past and running conversations of coding agents, read as messages.

    lines.py    lines forwards and backwards, records; bounded and forgiving
    blocks.py   a message's content: texts, calls, results
    formats.py  whose transcript it is; head and tail of it
    chain.py    which records of a Claude Code transcript are the conversation as it stands
    claude.py   those records as messages
    codex.py    Codex rollouts as messages
    gemini.py   Gemini CLI's chats as messages
    plain.py    [{"role", "content"}] as messages
    listing.py  all transcripts of a project

Damage costs what is damaged and raises nothing. A file that is not there or is no transcript is one clear error. Memory
does not grow with what is said in a file, only by some bytes for each record. Nothing here learns from a message.
"""

from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from memdir.frozen import dataclass
from memdir.records import Message
from memdir.transcripts import formats
from memdir.transcripts.chain import Way, find_way
from memdir.transcripts.claude import read_way
from memdir.transcripts.codex import read_rollout
from memdir.transcripts.formats import Format, TranscriptInfo, check_format, describe, find_format
from memdir.transcripts.gemini import read_chat
from memdir.transcripts.lines import open_transcript
from memdir.transcripts.listing import list_transcripts
from memdir.transcripts.plain import read_plain

__all__ = [
    "Format",
    "Slice",
    "TranscriptInfo",
    "describe",
    "find_format",
    "list_transcripts",
    "read_messages",
    "read_slice",
    "read_tail",
]


@dataclass(frozen=True, slots=True)
class Slice:
    """What was said since the cursor; without `found` the cursor is gone, and this is the recent window."""

    messages: tuple[Message, ...]
    found: bool


def read_messages(path: str | Path, *, after: str = "", since_compaction: bool = False) -> Iterator[Message]:
    """The conversation, first to last, one message at a time; with `after` what follows that one, all if it is gone.

    What was said before a compaction counts, unless `since_compaction`. Raises NotFoundError, DiskError or FormatError
    before the first message, and nothing else.
    """
    with open_transcript(path) as file:
        host = check_format(file, path)
        if host is Format.CLAUDE:
            is_agent = formats.is_agent_file(path)
            way = find_way(file, after=after, is_agent=is_agent, since_compaction=since_compaction)
            yield from read_way(file, way)
        elif host is Format.GEMINI and after:
            new = _read_after(file, after)
            yield from new if new is not None else read_chat(file)
        elif host:
            yield from _read_other(file, host)


def read_tail(path: str | Path, count: int) -> tuple[Message, ...]:
    """The last messages, at most so many; of a host's transcript only the end is read."""
    with open_transcript(path) as file:
        host = check_format(file, path)
        way = Way([])
        if host is Format.CLAUDE and count > 0:
            way = find_way(file, count=count, is_agent=formats.is_agent_file(path))
        return _read_last(file, host, way, max(count, 0))


def read_slice(path: str | Path, *, after: str, window: int) -> Slice:
    """What follows the message `after`; where that is gone, or was never known, the last `window` messages.

    Of a long Claude Code session only what was added is read. Codex's messages have no ids: the answer is the window.
    """
    with open_transcript(path) as file:
        host = check_format(file, path)
        way = Way([])
        if host is Format.CLAUDE:
            is_agent = formats.is_agent_file(path)
            way = find_way(file, after=after, is_agent=is_agent) if after else way
            if way.found:
                return Slice(tuple(read_way(file, way)), True)
            way = find_way(file, count=window, is_agent=is_agent) if window > 0 else way
        new = _read_after(file, after) if host is Format.GEMINI and after else None
        return Slice(_read_last(file, host, way, window), False) if new is None else Slice(tuple(new), True)


def _read_last(file: BinaryIO, host: Format | None, way: Way, count: int) -> tuple[Message, ...]:
    if host is None or count <= 0:
        return ()
    messages = read_way(file, way) if host is Format.CLAUDE else _read_other(file, host, count)
    return tuple(deque(messages, maxlen=count))


def _read_after(file: BinaryIO, after: str) -> list[Message] | None:
    """The messages of a chat after one of them; None if it is gone."""
    new: list[Message] | None = None
    for message in read_chat(file):
        if message.id == after:
            new = []
        elif new is not None:
            new.append(message)
    return new


def _read_other(file: BinaryIO, host: Format, count: int = 0) -> Iterator[Message]:
    if host is Format.GEMINI:
        return read_chat(file, count=count)
    return read_rollout(file, count=count) if host is Format.CODEX else read_plain(file)
