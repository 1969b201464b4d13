"""Records as rows of JSON: one shape each, used by every verb (docs/json.md has the schemas)."""

from datetime import UTC, datetime
from typing import Any

from memdir.clip import Fill
from memdir.records import Act, Header
from memdir.store.files import FileStore

Row = dict[str, Any]


def make_time(when: datetime) -> str:
    try:
        when = when.astimezone(UTC)
    except OverflowError:  # a file may claim to be of the first or last hours of the calendar
        pass
    return when.isoformat(timespec="milliseconds")


def make_row(header: Header, store: FileStore) -> Row:
    """A memory, as `list --json` prints it."""
    return {
        "name": header.name,
        "path": str(store.root / header.file),
        "title": header.title,
        "description": header.description,
        "type": header.kind.value if header.kind else None,
        "scope": header.scope.value,
        "modified": make_time(header.modified),
        "pinned": header.pinned,
    }


def make_act_row(act: Act) -> Row:
    return {
        "id": act.id,
        "at": make_time(act.at),
        "verb": act.verb,
        "who": act.origin.who,
        "why": act.origin.why,
        "session": act.origin.session,
        "names": list(find_names(act)),
        "changes": [{"path": at.path, "before": at.before, "after": at.after} for at in act.changes],
        "undoes": act.undoes,
        "undone_by": act.undone_by,
    }


def find_names(act: Act) -> tuple[str, ...]:
    """The memories an act changed; for one that changed an index alone, the index."""
    paths = [change.path for change in act.changes]
    topics = [path for path in paths if not path.endswith("MEMORY.md")]
    return tuple(path.removesuffix(".md") for path in topics) or tuple(paths)


def make_fill_row(fill: Fill) -> Row:
    return {"lines": fill.lines, "bytes": fill.bytes, "share": round(fill.share, 4)}
