"""The records of a dream: patches, sets of them with their JSON form, and the progress of a run.

A patch set has a patch for every change, with its reason, its evidence and the digests that its edits expect, and the
items that need review. It can be kept and applied later, at most once: its mark in the history tells.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import TypeVar

from memdir.dream.logs import LogSlice
from memdir.errors import FormatError, MemdirError, NotFoundError, StoppedError
from memdir.frozen import dataclass, replace
from memdir.limits import DREAM_TURNS
from memdir.models.connection import add_usage
from memdir.models.staged import StagedView
from memdir.records import Edit, InboxItem, InboxKind, Memory, Model, Origin, Reply, Request, Usage
from memdir.store import state as kept_sets
from memdir.store.inbox import parse_edits, render_edits
from memdir.text import one_line, shorten

RULES, MODEL = "rules", "model"
VERB = WHO = "dream"

# An item for the inbox, with the memories it is about.
NamedItem = tuple[tuple[str, ...], InboxItem]


class PatchKind(StrEnum):
    """The kinds of patches made without a model."""

    DUPLICATE = "duplicate"
    REWORDING = "rewording"
    DATE = "date"
    LONG_LINE = "long_line"
    DEAD_POINTER = "dead_pointer"
    MISSING_POINTER = "missing_pointer"


@dataclass(frozen=True, slots=True)
class Patch:
    """Edits that are applied together or not at all; `names` are the memories they concern, the one that stays first."""

    kind: str
    names: tuple[str, ...]
    edits: tuple[Edit, ...]
    reason: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DreamChecks:
    """Counts before anything is applied. Of the `removed` sentences, `elsewhere` stand in another memory."""

    memories: int = 0
    sentences: int = 0
    removed: int = 0
    elsewhere: int = 0
    overtaken: int = 0


@dataclass(frozen=True, slots=True)
class PatchSet:
    """`spared` counts changes that are not made again because somebody undid them."""

    id: str
    at: datetime
    by: str
    patches: tuple[Patch, ...] = ()
    proposals: tuple[InboxItem, ...] = ()
    usage: Usage = Usage()
    checks: DreamChecks = DreamChecks()
    logs: tuple[LogSlice, ...] = ()
    summary: str = ""
    requests: int = 0
    calls: int = 0
    refused: int = 0
    spared: int = 0

    @property
    def mark(self) -> str:
        return f"dream:{self.id}"

    @property
    def is_empty(self) -> bool:
        return not self.patches and not self.proposals


def make_id(now: datetime) -> str:
    """A new id; ids sort by time."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def keep_set(state: Path, patches: PatchSet) -> None:
    kept_sets.write_set(state, patches.id, render_set(patches))


def load(state: Path, id: str) -> PatchSet:
    """The set that was kept under an id; raises NotFoundError or FormatError."""
    table = kept_sets.read_set(state, id)
    if table is None:
        shown = shorten(one_line(id), 60)
        hint = "`memdir dream --preview` makes one; only the last ones are kept, and a purge drops them all"
        raise NotFoundError(f"there is no dream {shown!r}", name=shown, hint=hint)
    return parse_set(table)


def list_sets(state: Path) -> tuple[PatchSet, ...]:
    """All sets that can be read, newest first."""
    found = []
    for id in kept_sets.list_sets(state):
        with suppress(NotFoundError, FormatError):
            found.append(load(state, id))
    return tuple(found)


def read_memories(view: StagedView) -> dict[str, Memory]:
    """Every memory that can be read, by its name, newest first."""
    found = {}
    for header in view.scan():
        with suppress(MemdirError):
            found[header.name] = view.read(header.name)
    return found


def render_set(patches: PatchSet) -> dict[str, object]:
    return {
        "id": patches.id,
        "at": patches.at.isoformat(),
        "by": patches.by,
        "patches": [
            {"kind": str(at.kind), "names": list(at.names), "edits": render_edits(at.edits)}
            | {"reason": at.reason, "evidence": list(at.evidence)}
            for at in patches.patches
        ],
        "proposals": [
            {"kind": at.kind.value, "title": at.title, "why": at.why, "at": at.at.isoformat(), "key": at.key}
            | {"name": at.name, "who": at.origin.who, "reason": at.origin.why, "payload": dict(at.payload)}
            for at in patches.proposals
        ],
        "usage": {key: getattr(patches.usage, key) for key in ("fresh", "cached", "stored", "output", "dollars")},
        "checks": {key: getattr(patches.checks, key) for key in DreamChecks.__slots__},
        # Without their text: that stands in the logs.
        "logs": [
            {key: getattr(at, key) for key in ("path", "start", "end", "digest", "mtime_ns")}
            | {"day": at.day.isoformat()}
            for at in patches.logs
        ],
        **{key: getattr(patches, key) for key in ("summary", "requests", "calls", "refused", "spared")},
    }


def parse_set(table: Mapping[str, object]) -> PatchSet:
    """A set as it was kept; raises FormatError for one that is damaged, because it would be applied."""
    try:
        return PatchSet(
            id=_take(table, "id", str),
            at=datetime.fromisoformat(_take(table, "at", str)),
            by=_take(table, "by", str),
            patches=tuple(_parse_patch(row) for row in _take_all(table, "patches", dict)),
            proposals=tuple(_parse_item(row) for row in _take_all(table, "proposals", dict)),
            usage=_parse_usage(_take(table, "usage", dict)),
            checks=DreamChecks(*(_take(_take(table, "checks", dict), key, int) for key in DreamChecks.__slots__)),
            logs=tuple(_parse_log(row) for row in _take_all(table, "logs", dict)),
            summary=_take(table, "summary", str),
            **{key: _take(table, key, int) for key in ("requests", "calls", "refused", "spared")},
        )
    except ValueError:
        raise _refuse("time") from None


def _parse_patch(row: Mapping[str, object]) -> Patch:
    names, evidence = _take_all(row, "names", str), _take_all(row, "evidence", str)
    return Patch(_take(row, "kind", str), names, parse_edits(row.get("edits")), _take(row, "reason", str), evidence)


def _parse_item(row: Mapping[str, object]) -> InboxItem:
    kind, title, why, at, key, name, who, reason = (
        _take(row, field, str) for field in ("kind", "title", "why", "at", "key", "name", "who", "reason")
    )
    payload = _take(row, "payload", dict)
    return InboxItem(InboxKind(kind), title, why, datetime.fromisoformat(at), key, name, Origin(who, reason), payload)


def _parse_log(row: Mapping[str, object]) -> LogSlice:
    start, end, mtime = (_take(row, key, int) for key in ("start", "end", "mtime_ns"))
    day = date.fromisoformat(_take(row, "day", str))
    return LogSlice(day, _take(row, "path", str), start, end, "", _take(row, "digest", str), mtime)


def _parse_usage(row: Mapping[str, object]) -> Usage:
    dollars = row.get("dollars")
    fresh, cached, output, stored = (_take(row, key, int) for key in ("fresh", "cached", "output", "stored"))
    return Usage(fresh, cached, output, stored, float(dollars) if isinstance(dollars, int | float) else None)


_T = TypeVar("_T")


def _take(row: Mapping[str, object], field: str, kind: type[_T]) -> _T:
    """A field of exactly this type."""
    found = row.get(field)
    if type(found) is not kind:
        raise _refuse(field)
    return found


def _take_all(row: Mapping[str, object], field: str, kind: type[_T]) -> tuple[_T, ...]:
    return tuple(_take({field: at}, field, kind) for at in _take(row, field, list))


def _refuse(field: str) -> FormatError:
    return FormatError("this dream cannot be understood", field=field, hint="dream again: `memdir dream --preview`")


class DreamPhase(StrEnum):
    """Where a dream is. Patterns tidy first; a model then goes through four phases; at the end it is applied."""

    TIDY = "tidy"
    ORIENT = "orient"
    GATHER = "gather"
    CONSOLIDATE = "consolidate"
    PRUNE = "prune"
    CHECK = "check"
    APPLY = "apply"


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """`files` are memories touched so far, `share` how much is done, from 0 to 1."""

    phase: DreamPhase
    files: int = 0
    usage: Usage = Usage()
    turns: int = 0
    calls: int = 0

    @property
    def share(self) -> float:
        if self.phase in (DreamPhase.CHECK, DreamPhase.APPLY):
            return 0.9 if self.phase is DreamPhase.CHECK else 0.95
        return 0.0 if self.phase is DreamPhase.TIDY else 0.05 + 0.85 * min(1.0, self.turns / DREAM_TURNS)


OnProgress = Callable[[ProgressStep], None]
Cancelled = Callable[[], bool]


def say_nothing(progress: ProgressStep) -> None:
    """The default of `on_progress`."""


def go_on() -> bool:
    """The default of `cancelled`."""
    return False


class DreamProgress:
    """The progress of one dream: every step is reported, and asks whether to go on."""

    def __init__(self, on_progress: OnProgress = say_nothing, cancelled: Cancelled = go_on) -> None:
        self.now, self._on_progress, self._cancelled = ProgressStep(DreamPhase.TIDY), on_progress, cancelled

    def enter(self, phase: DreamPhase) -> None:
        """Enter a phase; an earlier one than the present is ignored."""
        phases = list(DreamPhase)
        self._report(replace(self.now, phase=max(phase, self.now.phase, key=phases.index)))

    def touch(self, files: int) -> None:
        self._report(replace(self.now, files=files))

    def count_call(self) -> None:
        self.now = replace(self.now, calls=self.now.calls + 1)

    def _report(self, step: ProgressStep) -> None:
        self.now = step
        self.check()
        self._on_progress(step)

    def check(self) -> None:
        if self._cancelled():
            raise StoppedError("the dream was cancelled", hint="nothing was changed")

    def wrap(self, model: Model) -> Model:
        """The same model, its requests counted and cancelled with the dream."""

        def ask(request: Request) -> Reply:
            self.check()
            reply = model(replace(request, cancelled=self._cancelled))
            usage = add_usage(self.now.usage, reply.usage)
            self._report(replace(self.now, turns=self.now.turns + 1, usage=usage))
            return reply

        return ask
