"""The records of a dream: patches, sets of them with their JSON form, and the progress of a run.

A patch set has a patch for every change, with its reason, its evidence and the digests that its edits expect, and the
items that need review. It can be kept and applied later, at most once: its mark in the history tells.
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
from memdir.text import one_line, shorten

RULES, MODEL = "rules", "model"
VERB = WHO = "dream"
KEY = "dream:"

# An item for the inbox, with the memories it is about.
NamedItem = tuple[tuple[str, ...], InboxItem]


class PatchKind(StrEnum):
    """The kinds of patches made without a model."""

    DUPLICATE = "duplicate"
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
class PatchSet:
    """`spared` counts changes that are not made again because somebody undid them; `error` says how the model failed."""

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


def summarize(patches: Iterable[Patch]) -> str:
    """What was merged into what, removed, added and changed, in one line."""
    parts: list[str] = []
    named: dict[str, list[str]] = {"added": [], "changed": []}
    lines = 0
    for patch in patches:
        gone = ", ".join(edit.name for edit in patch.edits if isinstance(edit, Forget))
        stays = next((name for name in patch.names if name not in gone.split(", ")), "")
        if gone and patch.kind == "overtaken":
            parts.append(f"removed {gone}, overtaken by {stays or 'the log'}")
        elif gone:
            parts.append(f"merged {gone} into {stays}" if stays else f"removed {gone}")
        elif all(isinstance(edit, IndexEdit) for edit in patch.edits):
            lines += 1
        else:
            named["added" if patch.kind == "create" else "changed"] += patch.names
    parts += [f"{verb} {', '.join(dict.fromkeys(names))}" for verb, names in named.items() if names]
    return "; ".join([*parts, *([f"{lines} index lines repaired"] if lines else [])])


def describe_change(state: Path, change: Change) -> str:
    """What a dream's change did and how to undo it, by its kept set, or by its files if that is gone."""
    changed = {at.path.removesuffix(".md"): at.after is not None for at in change.files}
    try:
        kept = load(state, change.origin.why.rpartition(" ")[2]).patches
        done = [
            at for at in kept if all(edit.name in changed for edit in at.edits if isinstance(edit, Rewrite | Forget))
        ]
    except MemdirError:
        done = [Patch("", (name,), () if is_there else (Forget(name),), "") for name, is_there in changed.items()]
    return f"{summarize(done) or 'tidied'}; `memdir undo {change.id}` takes it back"


def make_key(edits: Sequence[Mapping[str, object]]) -> str:
    """The key of an item of the inbox: the same edits are proposed once."""
    return KEY + digest_of(repr(sorted(map(repr, edits))).encode("utf-8", "replace"))[:24]


def stamp(text: str, since: datetime) -> str:
    """The text with the time from which its age counts, where its head can hold it."""
    try:
        return frontmatter.set_fields(text, {"modified": since.isoformat(timespec="seconds")})
    except FormatError:
        return text


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


def read_memories(view: StagedView) -> dict[str, StoredMemory]:
    """Every memory that can be read, by its name, newest first."""
    found = {}
    for header in view.scan():
        with suppress(MemdirError):
            found[header.name] = view.read(header.name)
    return found


_PLAIN = ("summary", "error", "requests", "calls", "refused", "spared")
_LOG = ("path", "start", "end", "digest", "mtime_ns")  # without its text: that stands in the log
_USAGE = ("fresh", "cached", "output", "stored", "dollars")


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
        "logs": [{**_take(at, _LOG), "day": at.day.isoformat()} for at in patches.logs],
        "usage": _take(patches.usage, _USAGE),
        **_take(patches, _PLAIN),
    }


def _take(record: object, fields: Iterable[str]) -> dict[str, object]:
    return {key: getattr(record, key) for key in fields}


def parse_set(table: Mapping[str, Any]) -> PatchSet:
    """A set as it was kept; raises FormatError for one that is damaged, because it would be applied."""
    try:
        return PatchSet(
            table["id"],
            datetime.fromisoformat(table["at"]),
            table["by"],
            tuple(
                Patch(at["kind"], tuple(at["names"]), parse_edits(at["edits"]), at["reason"], tuple(at["evidence"]))
                for at in table["patches"]
            ),
            tuple(map(_parse_item, table["proposals"])),
            usage=Usage(**table["usage"]),
            logs=tuple(LogSlice(date.fromisoformat(at.pop("day")), text="", **at) for at in map(dict, table["logs"])),
            **{key: table[key] for key in _PLAIN},
        )
    except (KeyError, TypeError, ValueError) as error:
        hint = "dream again: `memdir dream --preview`"
        raise FormatError("this dream cannot be understood", field=one_line(str(error)), hint=hint) from None


def _parse_item(row: Mapping[str, Any]) -> InboxItem:
    at, origin = datetime.fromisoformat(row["at"]), Origin(row["who"], row["reason"])
    kind, title, why, key, name = (row[field] for field in ("kind", "title", "why", "key", "name"))
    return InboxItem(InboxKind(kind), title, why, at, key, name, origin, row["payload"])


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

    def add(self, usage: Usage | None) -> None:
        """Count what a request cost that failed."""
        self.now = replace(self.now, usage=sum_usage(self.now.usage, usage or Usage()))

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
            usage = sum_usage(self.now.usage, reply.usage)
            self._report(replace(self.now, turns=self.now.turns + 1, usage=usage))
            return reply

        return ask
