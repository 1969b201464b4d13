"""A host's own messages and requests as memdir takes them. Pure.

Hosts keep messages in their provider's shape, often with objects of its SDK in between, and go on changing the very
lists they hand over. So everything is copied to plain tables and lists at once, as the SDK would send it.
"""

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

from memdir.frozen import replace
from memdir.records import Message
from memdir.transcripts.plain import make_messages


def copy_plain(value: Any) -> Any:
    """The value in tables, lists and scalars that nobody else holds; an SDK's objects as they go over the wire."""
    if isinstance(value, Mapping):
        return {key: copy_plain(at) for key, at in value.items()}
    if isinstance(value, list | tuple):
        return [copy_plain(at) for at in value]
    dump = getattr(value, "model_dump", None)
    return dump(mode="json", exclude_unset=True) if dump is not None else value


def read_messages(messages: Iterable[object], era: int = 0) -> tuple[Message, ...]:
    """Messages of any of the known shapes; what is none is left out.

    `era` counts how often the conversation was cleared or compacted. A message without an id is known by its text and
    place, and both may come again in a new era; so there it gets an id that says which.
    """
    found: list[Message] = []
    for given in messages:
        if isinstance(given, Message):
            found.append(given)
        elif isinstance(table := copy_plain(given), dict):
            found += make_messages(table)
    return tuple(_name(at, number, era) for number, at in enumerate(found)) if era else tuple(found)


def _name(message: Message, number: int, era: int) -> Message:
    if message.id:
        return message
    return replace(message, id=f"{era}.{number}.{zlib.crc32(message.text.encode('utf-8', 'surrogatepass')):08x}")
