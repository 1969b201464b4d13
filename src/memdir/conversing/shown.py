"""What a conversation is shown besides memories: instructions, the index, instruction files, the change of the day.

Each is computed once and stays the same until the conversation is cleared or compacted, because it is the beginning of
every request, and a provider caches by it. What is said in the person's place stands in the block that hosts use for
such things, so that nobody learns from it as from the person's own words.
"""

import threading
from collections.abc import Iterable, Sequence
from datetime import date
from pathlib import Path

from memdir.conversing.ground import CLEARS, ERA, Ground, insist, read_count
from memdir.conversing.plain import read_messages
from memdir.daily_log import find_date_change
from memdir.errors import MemdirError
from memdir.frozen import replace
from memdir.instructions import Instructions, build_instructions
from memdir.opening import Opened
from memdir.project_files import Loaded, ask, find_approved, load_for_reads, load_project_files, render_files
from memdir.prompt_cache import InstructionsCache, session_instructions
from memdir.records import Message
from memdir.reminder import wrap

_DAY, _NOTES = "day", "notes"


class Shown:
    """Of one conversation; safe to use from several threads."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._lock = threading.RLock()
        self._told = InstructionsCache()
        self._files: Loaded | None = None
        self._known: Loaded | None = None  # with what reading files has added
        record = ground.file.read()
        self._day = _parse_day(record.extra.get(_DAY))
        self._era, self._clears = read_count(record, ERA), read_count(record, CLEARS)

    def instructions(self) -> str:
        return self._tell().guidance

    def context(self) -> str:
        parts = (render_files(self._load()), self._tell().index)
        text = "\n".join(part for part in parts if part)
        return wrap(text) if text else ""

    def note_read(self, paths: Sequence[Path]) -> str:
        """What reading these files adds to the instruction files."""
        opened = self._ground.opened
        if opened is None or not paths:
            return ""
        with self._lock:
            known = self._known or self._load()
            approved = find_approved(opened.private)
            added = load_for_reads(
                opened.environment, opened.places, self._cwd(opened), paths, known, approved=approved
            )
            here = {file.real for file in added.files}
            pending = {rule.real: rule for rule in (*known.pending, *added.pending) if rule.real not in here}
            self._known = replace(known, files=(*known.files, *added.files), pending=tuple(pending.values()))
        text = render_files(added)
        return wrap(text) if text else ""

    def date_notice(self) -> str:
        """Once for each change; the first day of a conversation is none."""
        now = self._ground.clock()
        today = now.astimezone().date()
        with self._lock:
            last, self._day = self._day, today
        if last != today:
            self._keep(**{_DAY: today.isoformat()})
        return find_date_change(last, now, logs=self._ground.is_logging)

    def read_messages(self, messages: Iterable[object]) -> tuple[Message, ...]:
        return read_messages(messages, self._era)

    def begin_anew(self, *, cleared: bool) -> None:
        with self._lock:
            self._told.drop()
            self._files = self._known = None
            self._era, self._clears = self._era + 1, self._clears + cleared
            counts: dict[str, object] = {ERA: self._era, CLEARS: self._clears}
        self._keep(**counts | ({_NOTES: None} if cleared else {}))

    def _tell(self) -> Instructions:
        ground = self._ground
        if ground.opened is not None:
            return session_instructions(ground.opened, ground.file.id)
        return self._told.take(lambda: build_instructions(ground.stores))

    def _load(self) -> Loaded:
        opened = self._ground.opened
        if opened is None:
            return Loaded()
        with self._lock:
            if self._files is None:
                approved = find_approved(opened.private)
                self._files = load_project_files(
                    opened.environment, opened.places, self._cwd(opened), approved=approved
                )
                if self._ground.on:
                    ask(opened.private, self._files.asks, self._ground.clock(), session=self._ground.file.id)
            return self._files

    def _cwd(self, opened: Opened) -> Path:
        return self._ground.cwd or opened.places.root.path

    def _keep(self, **facts: object) -> None:
        """Best effort: where nothing can be kept, the process still knows."""
        if not self._ground.on:
            return
        try:
            insist(lambda: self._ground.file.change(lambda at: replace(at, extra={**at.extra, **facts})))
        except MemdirError:
            pass


def _parse_day(value: object) -> date | None:
    try:
        return date.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
