"""What a sync stands on: the files here, the branch there, and what they were when they were last the same. Pure.

Ground      all of it, and the questions both directions ask of it
find_needed which objects have to be read before anything can be planned
"""

from collections.abc import Callable, Mapping
from functools import cached_property

from memdir.frozen import dataclass, field
from memdir.index import INDEX_FILE
from memdir.limits import TEAM_ENTRIES
from memdir.secrets import mask
from memdir.store.plan import Finder, decode
from memdir.team.arriving import ACCEPTED, Ruling, Verdict, find_twins, judge_place, judge_text
from memdir.team.objects import Entry, hash_blob
from memdir.team.point import Point

_INDEX_LINES = 2 * TEAM_ENTRIES  # a line each, and headings; every line is looked at
Blobs = Mapping[str, bytes]
# Whether a person has let this version of a file in: path, object -> yes.
Approved = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class Local:
    """The team's folder here: files by path, the index or None, and what lies there that may not be touched."""

    files: Mapping[str, bytes]
    index: str | None = None
    blocked: Mapping[str, str] = field(default_factory=dict)


class Ground:
    """One look at both sides. `common` stands in for the point where the branch's history was rewritten.

    `seen` are files here that the branch has had as they are since the point, path -> object: a sync was killed after
    its push, or a person let an older version in. What the branch made of them since is then no clash with them.
    """

    def __init__(
        self,
        local: Local,
        point: Point,
        theirs: Mapping[str, Entry],
        blobs: Blobs,
        *,
        find: Finder,
        common: Mapping[str, Entry] | None = None,
        seen: Mapping[str, str] | None = None,
        has_index: bool = True,
    ) -> None:
        self.local = local
        self.point = point
        self.theirs = theirs
        self.blobs = dict(blobs)
        self.find = find
        self.common = common
        self.seen = seen or {}
        self.has_index = has_index
        self._verdicts: dict[tuple[str, str], Verdict] = {}

    @cached_property
    def ours(self) -> Mapping[str, str]:
        """Path -> object of the files here."""
        return {path: hash_blob(data) for path, data in self.local.files.items()}

    @cached_property
    def twins(self) -> Mapping[str, str]:
        return find_twins(self.theirs, self.local.files)

    def find_base(self, path: str) -> str | None:
        """The object a file was when both sides were the same; None if it was not there, or not known."""
        if path in self.seen:
            return self.seen[path]
        if self.common is None or self.point.find(path) is None:
            return self.point.find(path)
        entry = self.common.get(path)
        return entry.sha if entry else None

    def read(self, sha: str | None) -> str | None:
        """The text of an object; None for none, or one that is not there."""
        data = None if sha is None else self.blobs.get(sha)
        return None if data is None else decode(data)

    def judge(self, path: str, entry: Entry) -> Verdict:
        """What may become of a file of the branch."""
        key = (path, entry.sha)
        if key not in self._verdicts:
            self._verdicts[key] = self._judge(path, entry)
        return self._verdicts[key]

    def judge_own(self, path: str, data: bytes) -> str:
        """Why a file here is not sent; empty if it may be."""
        if why := judge_place(path, "100644", len(data)):
            return why
        verdict = judge_text(path, data, self.find)
        return verdict.why if verdict.ruling is Ruling.REFUSE else ""

    def show(self, path: str) -> str:
        """A path as it may be told: without a secret that somebody made a name of."""
        return mask(path, self.find(path))

    def _judge(self, path: str, entry: Entry) -> Verdict:
        why = "" if entry.is_text else "its name is not UTF-8"
        why = why or judge_place(path, entry.mode, entry.size) or self.local.blocked.get(path, "")
        if not why and path in self.twins:
            why = f"it is another spelling of {self.twins[path]}"
        if not why and entry.sha not in self.blobs:
            why = "it could not be read"
        if not why and path == INDEX_FILE and self.blobs[entry.sha].count(b"\n") > _INDEX_LINES:
            why = f"it has more than {_INDEX_LINES:,} lines"
        if why:
            return Verdict(Ruling.REFUSE, why)
        return ACCEPTED if path == INDEX_FILE else judge_text(path, self.blobs[entry.sha], self.find)


def find_needed(
    local: Local, point: Point, theirs: Mapping[str, Entry], common: Mapping[str, Entry] | None
) -> dict[str, int]:
    """The objects that have to be read, with their sizes as far as the branch tells them."""
    ours = {path: hash_blob(data) for path, data in local.files.items()}
    needed: dict[str, int] = {}
    for path, entry in theirs.items():
        is_other = path == INDEX_FILE or (entry.sha != ours.get(path) and entry.is_text)
        if is_other and not judge_place(path, entry.mode, entry.size):
            needed[entry.sha] = entry.size
        if path not in ours and (base := point.find(path)) is not None:
            needed.setdefault(base, 0)
    for path, sha in ours.items():
        base = point.find(path)
        if base is not None and base != sha:
            needed.setdefault(base, 0)
        if common is not None and path in common:
            needed.setdefault(common[path].sha, 0)
    return needed
