"""The messages of a transcript after one of them, and whether it is there; else the last ones."""

from pathlib import Path
from typing import NamedTuple

from memdir.conversation.transcripts import read_messages, read_tail
from memdir.records import Message


class Slice(NamedTuple):
    messages: tuple[Message, ...]
    found: bool


def read_slice(path: Path, *, after: str, window: int) -> Slice:
    found = bool(after) and any(message.id == after for message in read_messages(path))
    return Slice(tuple(read_messages(path, after=after)) if found else read_tail(path, window), found)
