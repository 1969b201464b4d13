"""What tidying yields: patches, which the dream applies, and proposals, which wait for a person."""

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path

from memdir.dream.logs import LogSlice
from memdir.errors import FormatError, NotFoundError, StoppedError
from memdir.frozen import dataclass, replace
from memdir.limits import DREAM_TURNS
from memdir.models.connection import add_usage
from memdir.records import Edit, InboxItem, InboxKind, Model, Origin, Reply, Request, Usage
from memdir.store import state as kept_dreams
from memdir.store.inbox import InboxQuote, parse_edits, render_edits, render_evidence
from memdir.text import one_line, shorten

# --- records ---

KEY_PREFIX = "tidy:"


class PatchKind(StrEnum):
    DUPLICATE = "duplicate"
    REWORDING = "rewording"
    DATE = "date"
    LONG_LINE = "long_line"
    DEAD_POINTER = "dead_pointer"
    MISSING_POINTER = "missing_pointer"


class ProposalKind(StrEnum):
    EXPIRED = "expired"


@dataclass(frozen=True, slots=True)
class TidyPatch:
    """Edits that stand or fall together; `names` are the memories they concern, the one that stays first."""

    kind: PatchKind
    names: tuple[str, ...]
    edits: tuple[Edit, ...]
    reason: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a person should decide. `key` knows the texts, not the names: it is asked anew when they change."""

    kind: ProposalKind
    names: tuple[str, ...]
    title: str
    why: str
    edits: tuple[Edit, ...]
    evidence: tuple[InboxQuote, ...]
    key: str


@dataclass(frozen=True, slots=True)
class TidyResult:
    patches: tuple[TidyPatch, ...] = ()
    proposals: tuple[Proposal, ...] = ()


def make_item(proposal: Proposal, *, at: datetime, origin: Origin) -> InboxItem:
    payload = {"edits": render_edits(proposal.edits), "evidence": render_evidence(proposal.evidence)}
    return InboxItem(
        kind=InboxKind.PROPOSAL,
        title=proposal.title,
        why=proposal.why,
        at=at,
        key=KEY_PREFIX + proposal.key,
        name=proposal.names[0],
        origin=origin,
        payload=payload,
    )


# --- progress ---
# How far a dream has come, and whether it is still wanted. It counts and tells; it prints nothing.


class DreamPhase(StrEnum):
    """Where a dream is. Rules tidy first; a model then goes through four steps; at the end it is applied."""

    TIDY = "tidy"
    ORIENT = "orient"
    GATHER = "gather"
    CONSOLIDATE = "consolidate"
    PRUNE = "prune"
    CHECK = "check"
    APPLY = "apply"


_ORDER = tuple(DreamPhase)


@dataclass(frozen=True, slots=True)
class ProgressStep:
    """`files` are memories touched so far, `share` how much of the way is behind, from 0 to 1."""

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
    """For whoever does not look on."""


def go_on() -> bool:
    """For whoever never cancels."""
    return False


class DreamProgress:
    """The progress of one dream: every step is told, and asked whether to go on."""

    def __init__(self, on_progress: OnProgress = say_nothing, cancelled: Cancelled = go_on) -> None:
        self.now = ProgressStep(DreamPhase.TIDY)
        self._on_progress = on_progress
        self._cancelled = cancelled

    def enter(self, phase: DreamPhase) -> None:
        """The next phase; nothing goes back to an earlier one."""
        if _ORDER.index(phase) >= _ORDER.index(self.now.phase):
            self.now = replace(self.now, phase=phase)
        self.tell()

    def touch(self, files: int) -> None:
        self.now = replace(self.now, files=files)
        self.tell()

    def count_call(self) -> None:
        self.now = replace(self.now, calls=self.now.calls + 1)

    def tell(self) -> None:
        self.check()
        self._on_progress(self.now)

    def check(self) -> None:
        if self._cancelled():
            raise StoppedError("the dream was cancelled", hint="nothing was changed")

    def wrap(self, model: Model) -> Model:
        """The same model, counted, and told when the answer is not wanted any more."""

        def ask(request: Request) -> Reply:
            self.check()
            reply = model(replace(request, cancelled=self._cancelled))
            usage = add_usage(self.now.usage, reply.usage)
            self.now = replace(self.now, turns=self.now.turns + 1, usage=usage)
            self.tell()
            return reply

        return ask


# --- sets ---
# What a dream wants to change, as a record that can be kept, looked at and applied later.
#
# A set has a patch for every change, with its reason, what it rests on, and the digests that its edits expect; and the
# things that wait for a person. It is applied at most once: its mark in the history tells.

RULES, MODEL = "rules", "model"
VERB = "dream"


@dataclass(frozen=True, slots=True)
class Patch:
    """Edits that stand or fall together, why, and what they rest on; `names` are the memories they concern."""

    kind: str
    names: tuple[str, ...]
    edits: tuple[Edit, ...]
    reason: str
    evidence: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DreamChecks:
    """What was counted before anything is applied: memories and sentences there are, and sentences that go.

    Of those that go, `elsewhere` stand in another memory and `overtaken` gave way to a newer one.
    """

    memories: int = 0
    sentences: int = 0
    removed: int = 0
    elsewhere: int = 0
    overtaken: int = 0


@dataclass(frozen=True, slots=True)
class PatchSet:
    """`spared` counts changes that are not made again because somebody took them back."""

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
        return make_set_mark(self.id)

    @property
    def is_empty(self) -> bool:
        return not self.patches and not self.proposals


def make_id(now: datetime) -> str:
    """Sorts by time, and no two are the same."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def make_set_mark(id: str) -> str:
    return f"dream:{id}"


def keep_set(state: Path, patches: PatchSet) -> None:
    kept_dreams.write_set(state, patches.id, render_set(patches))


def load(state: Path, id: str) -> PatchSet:
    """The set that was kept under an id; raises NotFoundError or FormatError."""
    table = kept_dreams.read_set(state, id)
    if table is None:
        shown = shorten(one_line(id), 60)
        hint = "`memdir dream --preview` makes one; only the last ones are kept, and a purge drops them all"
        raise NotFoundError(f"there is no dream {shown!r}", name=shown, hint=hint)
    return parse_set(table)


def list_sets(state: Path) -> tuple[PatchSet, ...]:
    """All sets that can be read, newest first."""
    found = []
    for id in kept_dreams.list_sets(state):
        try:
            found.append(load(state, id))
        except (NotFoundError, FormatError):
            continue
    return tuple(found)


# --- as JSON --------------------------------------------------------------------------------------------------------


def render_set(patches: PatchSet) -> dict[str, object]:
    usage, checks = patches.usage, patches.checks
    return {
        "id": patches.id,
        "at": patches.at.isoformat(),
        "by": patches.by,
        "patches": [
            {
                "kind": at.kind,
                "names": list(at.names),
                "edits": render_edits(at.edits),
                "reason": at.reason,
                "evidence": list(at.evidence),
            }
            for at in patches.patches
        ],
        "proposals": [_render_item(at) for at in patches.proposals],
        "usage": {
            "fresh": usage.fresh,
            "cached": usage.cached,
            "stored": usage.stored,
            "output": usage.output,
            "dollars": usage.dollars,
        },
        "checks": {
            "memories": checks.memories,
            "sentences": checks.sentences,
            "removed": checks.removed,
            "elsewhere": checks.elsewhere,
            "overtaken": checks.overtaken,
        },
        "logs": [_render_log(at) for at in patches.logs],
        "summary": patches.summary,
        "requests": patches.requests,
        "calls": patches.calls,
        "refused": patches.refused,
        "spared": patches.spared,
    }


def parse_set(table: Mapping[str, object]) -> PatchSet:
    """A set as it was kept; one that cannot be understood is refused, because it would be carried out."""
    try:
        return PatchSet(
            id=_text(table, "id"),
            at=datetime.fromisoformat(_text(table, "at")),
            by=_text(table, "by"),
            patches=tuple(_parse_patch(row) for row in _rows(table, "patches")),
            proposals=tuple(_parse_item(row) for row in _rows(table, "proposals")),
            usage=_parse_usage(_table(table, "usage")),
            checks=DreamChecks(*(_count(_table(table, "checks"), key) for key in DreamChecks.__slots__)),
            logs=tuple(_parse_log(row) for row in _rows(table, "logs")),
            summary=_text(table, "summary"),
            requests=_count(table, "requests"),
            calls=_count(table, "calls"),
            refused=_count(table, "refused"),
            spared=_count(table, "spared"),
        )
    except ValueError:
        raise _refusal("time") from None


def _parse_patch(row: Mapping[str, object]) -> Patch:
    names, edits, evidence = _texts(row, "names"), parse_edits(row.get("edits")), _texts(row, "evidence")
    return Patch(_text(row, "kind"), names, edits, _text(row, "reason"), evidence)


def _render_item(item: InboxItem) -> dict[str, object]:
    return {
        "kind": item.kind.value,
        "title": item.title,
        "why": item.why,
        "at": item.at.isoformat(),
        "key": item.key,
        "name": item.name,
        "who": item.origin.who,
        "reason": item.origin.why,
        "payload": dict(item.payload),
    }


def _parse_item(row: Mapping[str, object]) -> InboxItem:
    return InboxItem(
        InboxKind(_text(row, "kind")),
        _text(row, "title"),
        _text(row, "why"),
        datetime.fromisoformat(_text(row, "at")),
        key=_text(row, "key"),
        name=_text(row, "name"),
        origin=Origin(_text(row, "who"), _text(row, "reason")),
        payload=_table(row, "payload"),
    )


def _render_log(log: LogSlice) -> dict[str, object]:
    """Without its text: that stands in the log."""
    facts = {"path": log.path, "start": log.start, "end": log.end, "digest": log.digest, "mtime_ns": log.mtime_ns}
    return {"day": log.day.isoformat(), **facts}


def _parse_log(row: Mapping[str, object]) -> LogSlice:
    start, end, mtime = (_count(row, key) for key in ("start", "end", "mtime_ns"))
    day = date.fromisoformat(_text(row, "day"))
    return LogSlice(day, _text(row, "path"), start, end, "", _text(row, "digest"), mtime)


def _parse_usage(row: Mapping[str, object]) -> Usage:
    dollars = row.get("dollars")
    fresh, cached, output, stored = (_count(row, key) for key in ("fresh", "cached", "output", "stored"))
    return Usage(fresh, cached, output, stored, float(dollars) if isinstance(dollars, int | float) else None)


def _text(row: Mapping[str, object], field: str) -> str:
    found = row.get(field)
    if not isinstance(found, str):
        raise _refusal(field)
    return found


def _texts(row: Mapping[str, object], field: str) -> tuple[str, ...]:
    found = row.get(field)
    if not isinstance(found, list) or not all(isinstance(at, str) for at in found):
        raise _refusal(field)
    return tuple(found)


def _count(row: Mapping[str, object], field: str) -> int:
    found = row.get(field)
    if type(found) is not int:
        raise _refusal(field)
    return found


def _table(row: Mapping[str, object], field: str) -> Mapping[str, object]:
    found = row.get(field)
    if not isinstance(found, dict):
        raise _refusal(field)
    return found


def _rows(row: Mapping[str, object], field: str) -> Sequence[Mapping[str, object]]:
    found = row.get(field)
    if not isinstance(found, list) or not all(isinstance(at, dict) for at in found):
        raise _refusal(field)
    return found


def _refusal(field: str) -> FormatError:
    return FormatError("this dream cannot be understood", field=field, hint="dream again: `memdir dream --preview`")
