"""What this member's files were when they were last in step with the team's branch: `<state>/team-point.json`.

The difference between the point and the files is what this member did; the difference between the point and the branch
is what the others did. It moves only after the files were written. Names stand in it as digests, so it tells nothing of
a memory that was purged.

    pending   a point that becomes the true one if the act with its mark has happened: a killed sync is told by it
"""

from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from memdir.frozen import dataclass, field
from memdir.kept_team import POINT, read_table, write_table


@dataclass(frozen=True, slots=True)
class Point:
    """`head` is the commit, `files` digest of a path -> object, `index` the index as it was, None if there was none."""

    head: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    index: str | None = None
    mark: str = ""

    def find(self, path: str) -> str | None:
        """The object a file was."""
        return self.files.get(hash_path(path))


def hash_path(path: str) -> str:
    return sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def read_point(state: Path) -> tuple[Point, Point | None]:
    """The point, and one that a sync was on its way to."""
    table = read_table(state, POINT)
    pending = table.get("pending")
    return _parse(table), _parse(pending) if isinstance(pending, dict) else None


def write_point(state: Path, point: Point, pending: Point | None = None) -> None:
    more = {"pending": _render(pending)} if pending is not None else {}
    write_table(state, POINT, {**_render(point), **more})


def _parse(table: Mapping[str, object]) -> Point:
    files, head, index, mark = (table.get(key) for key in ("files", "head", "index", "mark"))
    rows = files.items() if isinstance(files, dict) else ()
    return Point(
        head if isinstance(head, str) else "",
        {key: value for key, value in rows if isinstance(value, str)},
        index if isinstance(index, str) else None,
        mark if isinstance(mark, str) else "",
    )


def _render(point: Point) -> dict[str, object]:
    return {"head": point.head, "files": dict(point.files), "index": point.index, "mark": point.mark}
