"""Records as rows of JSON: one shape each, used by every verb (docs/json.md has the schemas)."""

import os
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memdir.age import render_age
from memdir.records import Act, Header, Scope
from memdir.store.files import FileStore

if TYPE_CHECKING:
    from memdir.clip import Fill
    from memdir.doors.cli.output import Output

Row = dict[str, Any]
NO_TYPE = "none"  # how a missing or unknown type is called where a word is needed


def make_time(when: datetime) -> str:
    try:
        when = when.astimezone(UTC)
    except OverflowError:  # a file may claim to be of the first or last hours of the calendar
        pass
    return when.isoformat(timespec="milliseconds")


def show_time(out: "Output", when: datetime, now: datetime) -> str:
    """Words for a person, the very time for a pipe."""
    return render_age(when, now.astimezone()) if out.is_table else make_time(when)


def make_row(header: Header, store: FileStore) -> Row:
    """A memory, as `list --json` prints it."""
    return {
        "name": header.name,
        "path": os.path.join(store.root, header.file),
        "title": header.title,
        "description": header.description,
        "type": header.kind.value if header.kind else None,
        "scope": header.scope.value,
        "modified": make_time(header.modified),
        "pinned": header.pinned,
        "author": find_author(header, store),
    }


def find_author(header: Header, store: FileStore) -> str | None:
    """Who changed a team's memory last; None for any other, and where nobody knows."""
    if header.scope is not Scope.TEAM:
        return None
    try:
        at = os.stat(store.state / "team-authors.json")
    except OSError:
        return None
    return _read_authors(store.state, at.st_mtime_ns, at.st_size, at.st_ino).get(header.name)


@lru_cache(maxsize=2)
def _read_authors(state: Path, *_: int) -> dict[str, str]:
    """Read once for a list of many, and again when the file is another."""
    # Imported here: most lists have no team's memory in them.
    from memdir.authors import read_authors

    return {name: author.name for name, author in read_authors(state).items()}


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


def make_skip_rows() -> list[Row]:
    """The closed list of why recall brings nothing."""
    # Imported here: a list of memories has no use for it.
    from memdir.gates import Skip

    return [{"reason": skip.value, "words": skip.words} for skip in Skip]


def make_all_skip_rows() -> dict[str, list[Row]]:
    """The closed lists of why recall brings nothing, a turn is not learned from, and there is no dream."""
    # Imported here: only `status` tells them all, and counting sessions needs rooms that a list has no use for.
    from memdir.dream_gates import DreamSkip
    from memdir.extract_gates import ExtractSkip

    learning = [{"reason": skip.value, "words": skip.words} for skip in ExtractSkip]
    dreams = [{"reason": skip.value, "words": skip.words} for skip in DreamSkip]
    return {"recall": make_skip_rows(), "extract": learning, "dream": dreams}


def make_fill_row(fill: "Fill") -> Row:
    return {"lines": fill.lines, "bytes": fill.bytes, "share": round(fill.share, 4)}
