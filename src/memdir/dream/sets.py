"""What a dream wants to change, as a record that can be kept, looked at and applied later.

A set has a patch for every change, with its reason, what it rests on, and the digests that its edits expect; and the
things that wait for a person. It is applied at most once: its mark in the history tells.
"""

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path

from memdir import kept_dreams
from memdir.daily_log import LogSlice
from memdir.errors import FormatError, NotFoundError
from memdir.frozen import dataclass
from memdir.records import Edit, InboxItem, InboxKind, Origin, Usage
from memdir.store.payloads import parse_edits, render_edits
from memdir.text import one_line, shorten

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
class Checks:
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
    checks: Checks = Checks()
    logs: tuple[LogSlice, ...] = ()
    summary: str = ""
    requests: int = 0
    calls: int = 0
    refused: int = 0
    spared: int = 0

    @property
    def mark(self) -> str:
        return make_mark(self.id)

    @property
    def is_empty(self) -> bool:
        return not self.patches and not self.proposals


def make_id(now: datetime) -> str:
    """Sorts by time, and no two are the same."""
    return f"{now.astimezone(UTC):%Y%m%d-%H%M%S}-{os.urandom(3).hex()}"


def make_mark(id: str) -> str:
    return f"dream:{id}"


def keep(state: Path, patches: PatchSet) -> None:
    kept_dreams.write_set(state, patches.id, render_set(patches))


def load(state: Path, id: str) -> PatchSet:
    """The set that was kept under an id; raises NotFoundError or FormatError."""
    table = kept_dreams.read_set(state, id)
    if table is None:
        shown = shorten(one_line(id), 60)
        hint = "`memdir dream --preview` makes one; only the last ones are kept, and a purge drops them all"
        raise NotFoundError(f"there is no dream {shown!r}", name=shown, hint=hint)
    return parse_set(table)


def list_kept(state: Path) -> tuple[PatchSet, ...]:
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
            checks=Checks(*(_count(_table(table, "checks"), key) for key in Checks.__slots__)),
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
