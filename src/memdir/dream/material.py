"""What a model is shown at the beginning of a dream: the manifest, the logs, what may have drifted, and some texts.

Everything is bounded. Logs are taken whole lines at a time, oldest first, and exactly those that were shown are marked
as distilled when the dream has been applied. Nothing is written here, and no transcript is read.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from memdir.age import HALF_LIVES, HalfLives
from memdir.daily_log import LogSlice, list_undistilled, mark_distilled
from memdir.dream.drifting import find_drifted
from memdir.errors import MemdirError
from memdir.frozen import dataclass, field, replace
from memdir.limits import (
    DREAM_DRIFTED,
    DREAM_LOG_CHARS,
    DREAM_TEXT_CHARS,
    MANIFEST_ENTRIES,
)
from memdir.manifest import render_manifest
from memdir.records import Header, Message
from memdir.search.terms import parse_terms
from memdir.staging import Ground
from memdir.store.contract import Verbs
from memdir.store.files import FileStore
from memdir.store.plan import digest_of
from memdir.verify.records import Verdict, render_caveat

NONE = "(none)"
_ENTRY = re.compile(r"^- (?:\d{1,2}:\d{2} )?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a dream goes by besides the memory: the project's files, the folders of its transcripts, how types age."""

    project: Path | None = None
    transcripts: tuple[Path, ...] = ()
    half_lives: HalfLives = field(default_factory=lambda: HALF_LIVES)


NOWHERE = Surroundings()


@dataclass(frozen=True, slots=True)
class Material:
    """What the model begins with."""

    headers: tuple[Header, ...]
    logs: tuple[LogSlice, ...]
    drifted: tuple[Header, ...]
    caveats: Mapping[str, str] = field(default_factory=dict)

    def render_manifest(self) -> str:
        return render_manifest(self.headers, MANIFEST_ENTRIES) or NONE

    def render_logs(self) -> str:
        return "\n\n".join(f"[{at.day.isoformat()}]\n{at.text.rstrip()}" for at in self.logs) or NONE

    def render_drifted(self) -> str:
        """With what is known to be out of date in each."""
        told = [(f"- {at.file}, of {at.modified:%Y-%m-%d}", self.caveats.get(at.name, "")) for at in self.drifted]
        return "\n".join(f"{line}: {why}" if why else line for line, why in told) or NONE

    def list_messages(self) -> Iterator[Message]:
        """The logs, entry by entry, for whoever asks where a text came from: an entry is the agent's own note."""
        for at in self.logs:
            for number, entry in enumerate(_ENTRY.split(at.text)):
                if entry.strip():
                    yield Message("user", entry.strip(), f"{at.day.isoformat()}:{number}")


def gather(
    store: Verbs, ground: Ground, verdicts: Mapping[str, Verdict], *, lives: HalfLives = HALF_LIVES, now: datetime
) -> Material:
    headers = ground.scan()
    logs = tuple(_take_logs(store)) if isinstance(store, FileStore) else ()
    drifted = tuple(find_drifted(headers, verdicts, lives, now)[:DREAM_DRIFTED])
    caveats = {at.name: render_caveat(verdicts[at.name]) for at in drifted if at.name in verdicts}
    return Material(headers, logs, drifted, caveats)


def mark_read(store: FileStore, logs: Sequence[LogSlice]) -> None:
    """These logs have become memories. What was marked further meanwhile is not set back."""
    if logs:
        begun = {(at.day, at.start) for at in list_undistilled(store)}
        mark_distilled(store, [at for at in logs if (at.day, at.start) in begun])


def render_texts(material: Material, ground: Ground) -> str:
    """Whole memories within the room there is: those closest to the logs first, then what drifted, then the newest."""
    ordered = [*_find_closest(material), *material.drifted, *material.headers]
    texts, room = [], DREAM_TEXT_CHARS
    for header in dict.fromkeys(ordered):
        text = _read(ground, header)
        if text and len(text) <= room:
            pinned = " (pinned)" if header.pinned else ""
            texts.append(f"{header.file}{pinned}:\n{text.rstrip()}")
            room -= len(text)
    return "\n\n".join(texts) or NONE


def _take_logs(store: FileStore) -> Iterator[LogSlice]:
    room = DREAM_LOG_CHARS
    for log in list_undistilled(store):
        if len(log.text) > room:
            if part := _cut(store, log, room):
                yield part
            return
        room -= len(log.text)
        yield log


def _cut(store: FileStore, log: LogSlice, room: int) -> LogSlice | None:
    """The first whole entries that fit; None if not even one does."""
    starts = [at.start() for at in _ENTRY.finditer(log.text) if at.start() <= room]
    end = max(starts, default=0)
    data = _read_bytes(store, log.path)
    if not end or data is None:
        return None
    size = log.start + len(log.text[:end].encode("utf-8"))
    if data[log.start : size].decode("utf-8", "replace") != log.text[:end]:
        return None  # it is no valid text, so characters cannot be counted as bytes: it waits until it fits whole
    return replace(log, end=size, text=log.text[:end], digest=digest_of(data[:size]))


def _read_bytes(store: FileStore, path: str) -> bytes | None:
    try:
        return store.read_bytes(path)
    except MemdirError:
        return None


def _find_closest(material: Material) -> list[Header]:
    """Memories that share words with the logs, those with the rarer ones first."""
    said = {term for log in material.logs for term in parse_terms(log.text)}
    terms = {at: said & set(parse_terms(f"{at.title} {at.description} {at.name}")) for at in material.headers}
    counts = Counter(term for own in terms.values() for term in own)
    scores = {header: sum(1 / counts[term] for term in own) for header, own in terms.items() if own}
    return sorted(scores, key=lambda at: -scores[at])


def _read(ground: Ground, header: Header) -> str:
    try:
        return ground.read(header.name).text
    except MemdirError:
        return ""
