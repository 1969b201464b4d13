"""The records of a dream: patches, patch sets and progress.

A patch set contains a patch for every change, with reason, evidence and the digests that its edits expect, and the items
that need review. It can be stored and applied later; its idempotency key in history allows that only once.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from memdir.dream.logs import LogSlice
from memdir.errors import FormatError, MemdirError, NotFoundError, StoppedError
from memdir.format import frontmatter
from memdir.format.frontmatter import digest_of
from memdir.frozen import dataclass, replace
from memdir.limits import DREAM_TURNS
from memdir.models.connection import sum_usage
from memdir.models.staged import StagedView
from memdir.records import (
    Change,
    Edit,
    Forget,
    InboxItem,
    InboxKind,
    IndexEdit,
    Model,
    Origin,
    Reply,
    Request,
    Rewrite,
    StoredMemory,
    Usage,
)
from memdir.store import state as kept_sets
from memdir.store.inbox import parse_edits, render_edits
from memdir.store.secrets import mask_model
from memdir.text import one_line, shorten

RULES, MODEL = "rules", "model"
RENAME = "rename"
VERB = WHO = "dream"
KEY = "dream:"

# The names of the memories that an inbox item concerns, and the item.
NamedItem = tuple[tuple[str, ...], InboxItem]


class PatchKind(StrEnum):
    """The kinds of patches that are made without a model."""

    DUPLICATE = "duplicate"
    DATE = "date"
    LONG_LINE = "long_line"
    DEAD_POINTER = "dead_pointer"
    MISSING_POINTER = "missing_pointer"


@dataclass(frozen=True, slots=True)
class Patch:
    """Edits that are applied together or not at all. The first name is the memory to keep."""

    kind: str
    names: tuple[str, ...]
    edits: tuple[Edit, ...]
    reason: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PatchSet:
    """The patches and proposals of a dream. `spared` counts changes that were omitted because the user undid them."""

    id: str
    at: datetime
    by: str
    patches: tuple[Patch, ...] = ()
    proposals: tuple[InboxItem, ...] = ()
    usage: Usage = Usage()
    logs: tuple[LogSlice, ...] = ()
    summary: str = ""
    error: str = ""
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


def list_changed(patch: Patch) -> list[str]:
    """Return the names of the memories that a patch rewrites or deletes."""
    return [edit.name for edit in patch.edits if isinstance(edit, Rewrite | Forget)]


def summarize(patches: Iterable[Patch]) -> str:
    """Return one line on merged, removed, added and changed memories."""
    parts: list[str] = []
    named: dict[str, list[str]] = {"added": [], "changed": []}
    lines = 0
    for patch in patches:
        gone = ", ".join(edit.name for edit in patch.edits if isinstance(edit, Forget))
        stays = next((name for name in patch.names if name not in gone.split(", ")), "")
        if gone and patch.kind == "overtaken":
            parts.append(f"removed {gone}, overtaken by {stays or 'the log'}")
        elif patch.kind == RENAME:
            parts.append(f"renamed {gone} to {stays}")
        elif gone:
            parts.append(f"merged {gone} into {stays}" if stays else f"removed {gone}")
        elif all(isinstance(edit, IndexEdit) for edit in patch.edits):
            lines += 1
        else:
            named["added" if patch.kind == "create" else "changed"] += patch.names
    parts += [f"{verb} {', '.join(dict.fromkeys(names))}" for verb, names in named.items() if names]
    return "; ".join([*parts, *([f"{lines} index line{'s' * (lines > 1)} repaired"] if lines else [])])


def describe_change(state: Path, change: Change) -> str:
    """Describe what a dream changed and how to undo it. Uses the stored patch set if it exists, else the files."""
    changed = {file.path.removesuffix(".md"): file.after is not None for file in change.files}
    try:
        applied = []
        for patch in load(state, change.origin.why.rpartition(" ")[2]).patches:
            gone = [edit.name for edit in patch.edits if isinstance(edit, Forget)]
            if all(name in changed for name in gone or list_changed(patch)):  # a rewrite may only guard a deletion
                applied.append(patch)
    except MemdirError:
        applied = [Patch("", (name,), () if is_there else (Forget(name),), "") for name, is_there in changed.items()]
    return f"{summarize(applied) or 'tidied'}; `memdir undo {change.id}` reverts it"


def make_key(edits: Sequence[Mapping[str, object]]) -> str:
    """Return the idempotency key of an inbox item. The same edits always get the same key."""
    return KEY + digest_of(repr(sorted(map(repr, edits))).encode("utf-8", "replace"))[:24]


def stamp(text: str, since: datetime) -> str:
    """Set the time from which a memory's age is counted, if its frontmatter can be changed."""
    try:
        return frontmatter.set_fields(text, {"modified": since.isoformat(timespec="seconds")})
    except FormatError:
        return text


def make_id(now: datetime) -> str:
    """Return a new ID that sorts chronologically."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def keep_set(state: Path, patches: PatchSet) -> None:
    kept_sets.write_set(state, patches.id, render_set(patches))


def load(state: Path, id: str) -> PatchSet:
    """Return the stored patch set with this ID. Raises NotFoundError or FormatError."""
    table = kept_sets.read_set(state, id)
    if table is None:
        name = shorten(one_line(id), 60)
        hint = "`memdir dream --preview` creates one; only the latest are kept, and a purge deletes them all"
        raise NotFoundError(f"dream not found: {name!r}", name=name, hint=hint)
    return parse_set(table)


def list_sets(state: Path) -> tuple[PatchSet, ...]:
    sets = []
    for id in kept_sets.list_sets(state):
        with suppress(NotFoundError, FormatError):
            sets.append(load(state, id))
    return tuple(sets)


def read_memories(view: StagedView) -> dict[str, StoredMemory]:
    """Return all readable memories by name, newest first."""
    memories = {}
    for header in view.scan():
        with suppress(MemdirError):
            memories[header.name] = view.read(header.name)
    return memories


_PLAIN = ("summary", "error", "requests", "calls", "refused", "spared")
_LOG = ("path", "start", "end", "digest", "mtime_ns")  # without its text, which is in the log


def render_set(patches: PatchSet) -> dict[str, object]:
    return {
        "id": patches.id,
        "at": patches.at.isoformat(),
        "by": patches.by,
        "patches": [
            {"kind": str(patch.kind), "names": list(patch.names), "edits": render_edits(patch.edits)}
            | {"reason": patch.reason, "evidence": list(patch.evidence)}
            for patch in patches.patches
        ],
        "proposals": [
            {"kind": item.kind.value, "title": item.title, "why": item.why, "at": item.at.isoformat(), "key": item.key}
            | {"name": item.name, "who": item.origin.who, "reason": item.origin.why, "payload": dict(item.payload)}
            for item in patches.proposals
        ],
        "logs": [{**_read_fields(log, _LOG), "day": log.day.isoformat()} for log in patches.logs],
        "usage": _read_fields(patches.usage, ("fresh", "cached", "output", "stored", "dollars")),
        **_read_fields(patches, _PLAIN),
    }


def _read_fields(record: object, fields: Iterable[str]) -> dict[str, object]:
    return {key: getattr(record, key) for key in fields}


def parse_set(table: Mapping[str, Any]) -> PatchSet:
    """Parse a stored patch set. Raises FormatError if it is damaged."""
    try:
        return PatchSet(
            table["id"],
            datetime.fromisoformat(table["at"]),
            table["by"],
            tuple(
                Patch(one["kind"], tuple(one["names"]), parse_edits(one["edits"]), one["reason"], (*one["evidence"],))
                for one in table["patches"]
            ),
            tuple(map(_parse_item, table["proposals"])),
            usage=Usage(**table["usage"]),
            logs=tuple(LogSlice(**{**row, "day": date.fromisoformat(row["day"])}, text="") for row in table["logs"]),
            **{key: table[key] for key in _PLAIN},
        )
    except (KeyError, TypeError, ValueError) as error:
        hint = "dream again: `memdir dream --preview`"
        raise FormatError("this dream is corrupt", field=one_line(str(error)), hint=hint) from None


def _parse_item(row: Mapping[str, Any]) -> InboxItem:
    created_at, origin = datetime.fromisoformat(row["at"]), Origin(row["who"], row["reason"])
    kind, title, why, key, name = (row[field] for field in ("kind", "title", "why", "key", "name"))
    return InboxItem(InboxKind(kind), title, why, created_at, key, name, origin, row["payload"])


class DreamPhase(StrEnum):
    TIDY = "tidy"
    ORIENT = "orient"
    GATHER = "gather"
    CONSOLIDATE = "consolidate"
    PRUNE = "prune"
    CHECK = "check"
    APPLY = "apply"


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """The progress of a dream. `files` are the memories changed so far."""

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
    """Do nothing. This is the default for `on_progress`."""


def never_cancelled() -> bool:
    return False


class DreamProgress:
    """Report the progress of a dream and check whether it was cancelled."""

    def __init__(self, on_progress: OnProgress = say_nothing, cancelled: Cancelled = never_cancelled) -> None:
        self.now, self._on_progress, self._cancelled = ProgressStep(DreamPhase.TIDY), on_progress, cancelled

    def enter(self, phase: DreamPhase) -> None:
        """Start a phase. Does nothing if a later phase has already started."""
        phases = list(DreamPhase)
        self._report(replace(self.now, phase=max(phase, self.now.phase, key=phases.index)))

    def touch(self, files: int) -> None:
        self._report(replace(self.now, files=files))

    def add(self, usage: Usage | None) -> None:
        """Add the cost of a failed request."""
        self.now = replace(self.now, usage=sum_usage(self.now.usage, usage or Usage()))

    def _report(self, step: ProgressStep) -> None:
        self.now = step
        self.check()
        self._on_progress(step)

    def check(self) -> None:
        if self._cancelled():
            raise StoppedError("the dream was cancelled", hint="no changes were made")

    def wrap(self, model: Model) -> Model:
        """Return a model that counts requests and stops when the dream is cancelled."""

        def ask(request: Request) -> Reply:
            self.check()
            reply = mask_model(model)(replace(request, cancelled=self._cancelled))
            usage = sum_usage(self.now.usage, reply.usage)
            self._report(replace(self.now, turns=self.now.turns + 1, usage=usage))
            return reply

        return ask
