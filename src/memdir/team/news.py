"""What came from others since somebody last looked: `<state>/team-news.json`, newest last; and how it is told.

A sync adds to it, whoever begins a session takes it out. What it tells is quoted text of others: one line each, cut,
with its author, and never as an instruction.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from memdir.errors import DiskError, PathError
from memdir.frozen import dataclass
from memdir.kept_team import NEWS, read_table, write_table
from memdir.limits import TEAM_NEWS
from memdir.text import one_line, shorten

_CHARS = 120  # of one memory's first line
_SHOWN = 10  # memories told one by one


@dataclass(frozen=True, slots=True)
class News:
    """One memory that others added, changed or took away."""

    name: str
    change: str
    author: str = ""
    line: str = ""
    at: datetime | None = None


def read_news(state: Path) -> tuple[News, ...]:
    """What nobody has looked at yet, oldest first; nothing where that cannot be read."""
    rows = read_table(state, NEWS).get("news")
    return tuple(found for row in rows if (found := _parse(row))) if isinstance(rows, list) else ()


def add_news(state: Path, news: Sequence[News]) -> None:
    """Keep what came; of one memory only the newest."""
    if not news:
        return
    names = {at.name for at in news}
    kept = [at for at in read_news(state) if at.name not in names]
    _write(state, [*kept, *news][-TEAM_NEWS:])


def mark_seen(state: Path) -> None:
    """Everything was told; best effort, since telling twice does no harm."""
    try:
        if read_news(state):
            _write(state, [])
    except (DiskError, PathError):
        pass


def render_news(news: Sequence[News], *, limit: int = _SHOWN) -> str:
    """What came, for the beginning of a session; empty for nothing."""
    if not news:
        return ""
    newest = list(reversed(news))
    lines = [_render(at) for at in newest[:limit]]
    if len(newest) > limit:
        lines.append(f"- and {len(newest) - limit} more (`memdir team log`)")
    return "\n".join(["New in team memory since the last session, written by others:", *lines]) + "\n"


def _render(at: News) -> str:
    by = f" by {one_line(at.author)}" if at.author else ""
    words = f": {shorten(one_line(at.line), _CHARS)}" if at.line and at.change != "deleted" else ""
    return f"- {one_line(at.name)} ({at.change}{by}){words}"


def _write(state: Path, news: Iterable[News]) -> None:
    write_table(state, NEWS, {"news": [render_row(at) for at in news]})


def render_row(at: News) -> dict[str, object]:
    when = at.at.isoformat(timespec="seconds") if at.at else None
    return {"name": at.name, "change": at.change, "author": at.author, "line": at.line, "at": when}


def _parse(row: object) -> News | None:
    if not isinstance(row, Mapping) or not isinstance(row.get("name"), str):
        return None
    name, change, author, line = (str(row.get(key) or "") for key in ("name", "change", "author", "line"))
    try:
        at = datetime.fromisoformat(str(row.get("at")))
    except ValueError:
        at = None
    return News(name, change, author, line, at)
