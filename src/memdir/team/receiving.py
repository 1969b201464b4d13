"""What the branch holds that is not here: which of it comes in, what waits, what is refused; and the next point. Pure.

Nothing here is overwritten that was not sent: a file that stays back, for whatever reason, is merged with what came
and keeps what it had. What is refused or waits leaves the file here as it was. An index is taken over line by line,
and only lines for memories that are here.
"""

from collections.abc import Mapping
from enum import StrEnum

from memdir import index
from memdir.frontmatter import parse_fields
from memdir.frozen import dataclass, field
from memdir.index import INDEX_FILE
from memdir.records import Kind
from memdir.store.plan import encode
from memdir.team.arriving import PLAIN_MODE, Ruling, judge_line, judge_place
from memdir.team.ground import Approved, Ground
from memdir.team.merging import merge_index, merge_memory, tidy_index
from memdir.team.objects import Entry
from memdir.team.point import Point, hash_path
from memdir.team.sending import Outgoing
from memdir.text import fold

GONE = "gone"  # in the place of an object, for a file that somebody took away


class Change(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What a person has to let in: path, object (`gone` for a deletion), why, and the text."""

    path: str
    sha: str
    why: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Incoming:
    """`files` are to be written here, None for deleted; `received` says which of them others changed, and how."""

    files: Mapping[str, bytes | None]
    point: Point
    received: Mapping[str, Change] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    waiting: tuple[Waiting, ...] = ()


def plan_receiving(
    ground: Ground, branch: Mapping[str, Entry], sent: Outgoing | None, *, head: str, review: bool, approved: Approved
) -> Incoming:
    """What has to happen here so that the files say what the branch says. `branch` is its tree after what was sent."""
    plan = _Plan(ground, branch, sent, review=review, approved=approved)
    for path in sorted({*branch, *ground.ours, *_find_known(ground)}):
        if path != INDEX_FILE:
            plan.add(path)
    text = plan.add_index() if ground.has_index else ground.point.index
    point = Point(head, plan.point, text)
    return Incoming(plan.files, point, plan.received, plan.refused, tuple(plan.waiting))


def _find_known(ground: Ground) -> list[str]:
    return [path for path in ground.theirs if ground.point.find(path) is not None]


class _Plan:
    def __init__(
        self, ground: Ground, branch: Mapping[str, Entry], sent: Outgoing | None, *, review: bool, approved: Approved
    ) -> None:
        self.ground = ground
        self.branch = branch
        self.sent = sent
        self.review = review
        self.approved = approved
        self.files: dict[str, bytes | None] = {}
        self.point: dict[str, str] = {}
        self.received: dict[str, Change] = {}
        self.refused: dict[str, str] = {}
        self.waiting: list[Waiting] = []

    def add(self, path: str) -> None:
        entry, mine = self.branch.get(path), self.ground.ours.get(path)
        if self.sent is not None and path in self.sent.moved:
            self.files[path] = None
        elif entry is None:
            self._add_absent(path, mine)
        elif entry.sha == mine:
            self.point[hash_path(path)] = entry.sha
        else:
            self._add_other(path, entry)

    def _add_absent(self, path: str, mine: str | None) -> None:
        """A file that is not in the branch."""
        base = self.ground.find_base(path)
        if mine is None or base is None or self._is_back(path):
            return
        if self.review and not self.approved(path, GONE + base):
            self.waiting.append(Waiting(path, GONE + base, "somebody took it away", None))
            self._keep_point(path)
            return
        self._write(path, None)

    def _add_other(self, path: str, entry: Entry) -> None:
        """A file that the branch has in another version, or that is not here."""
        verdict = self.ground.judge(path, entry)
        if verdict.ruling is Ruling.REFUSE:
            self.refused[self.ground.show(path)] = verdict.why
            self._keep_point(path)
            return
        why = (
            verdict.why
            if verdict.ruling is Ruling.HOLD
            else "this team looks at what others write"
            if self.review
            else ""
        )
        is_known = entry.sha == self.ground.point.find(path)  # it came in before, and was changed here since
        if why and not is_known and not self.approved(path, entry.sha):
            self.waiting.append(Waiting(path, entry.sha, why, self.ground.read(entry.sha)))
            self._keep_point(path)
            return
        data = self.ground.blobs[entry.sha]
        if self._is_back(path):
            ours = self.ground.local.files.get(path)
            text = None if ours is None else ours.decode("utf-8", "surrogateescape")
            merged = merge_memory(self.ground.read(self.ground.find_base(path)), text, self.ground.read(entry.sha)).text
            if merged is not None and parse_fields(merged).kind is Kind.USER:
                # Somebody made a memory about a person of it here, which no act may write: it has to wait for him.
                self.refused[path] = "here it is about a person: demote it, and what others wrote comes in"
                self._keep_point(path)
                return
            self._write(path, None if merged is None else encode(merged))
        else:
            self._write(path, data)
        self.point[hash_path(path)] = entry.sha

    def _is_back(self, path: str) -> bool:
        """Whether what this member did to a file stays here for now."""
        if self.ground.ours.get(path) == self.ground.find_base(path):
            return False
        return self.sent is None or path in self.sent.withheld

    def _keep_point(self, path: str) -> None:
        base = self.ground.seen.get(path) or self.ground.point.find(path)
        if base is not None:
            self.point[hash_path(path)] = base

    def _write(self, path: str, data: bytes | None) -> None:
        before = self.ground.local.files.get(path)
        if before != data:
            self.files[path] = data
            kind = Change.DELETED if data is None else Change.ADDED if before is None else Change.CHANGED
            self.received[path] = kind

    def add_index(self) -> str | None:
        """The index here after the sync; answers what of the branch's it goes by."""
        ground, entry = self.ground, self.branch.get(INDEX_FILE)
        verdict = ground.judge(INDEX_FILE, entry) if entry is not None else None
        if verdict is not None and verdict.ruling is Ruling.REFUSE:
            self.refused[INDEX_FILE] = verdict.why
        theirs = ground.read(entry.sha) if entry is not None and INDEX_FILE not in self.refused else None
        ours, base = ground.local.index or "", ground.point.index or ""
        names = self._list_names()
        # A branch without an index that can be read says nothing about ours.
        seen = base if theirs is None else self._filter(theirs, ours, names)
        merged = merge_index(base, ours, seen)
        revived = [path.removesuffix(".md") for path, how in self.received.items() if how is Change.ADDED]
        revived = [name for name in revived if ground.find_base(f"{name}.md") is not None]
        wanted = tidy_index(merged, names, seen, revived=revived, known=(seen, base))
        why = judge_place(INDEX_FILE, PLAIN_MODE, len(encode(wanted)))
        if why and wanted != ours:
            self.refused[INDEX_FILE] = f"with ours {why}"
        if (why or list(ground.find(wanted))) and wanted != ours:
            # Lines that are harmless one by one can be a secret together: then only the lines that were here stay.
            wanted = tidy_index(ours, names, ours)
            seen = base
        if wanted != ours:
            self.files[INDEX_FILE] = encode(wanted)
        return seen

    def _list_names(self) -> list[str]:
        """The memories that will be here."""
        there = {path for path in self.ground.ours if self.files.get(path, b"") is not None}
        there |= {path for path, data in self.files.items() if data is not None}
        return [path.removesuffix(".md") for path in there]

    def _filter(self, text: str, ours: str, names: list[str]) -> str:
        """What of the branch's index may stand here: lines that are here already, and harmless ones."""
        mine = {line.text.rstrip("\r\n") for line in index.parse_index(ours)}
        alive = {fold(name) for name in names}
        kept = []
        for line in index.parse_index(text):
            is_blank, is_ours = not line.text.strip(), line.text.rstrip("\r\n") in mine
            why = "" if is_blank or is_ours else judge_line(line.text, self.ground.find)
            if why:
                self.refused[f"{INDEX_FILE} line {line.number + 1}"] = why
            # A line for what is not here waits with it; and where a team looks first, so does prose.
            waits = fold(line.name) not in alive if line.is_pointer else self.review and not is_blank
            if is_ours or not (why or waits):
                kept.append(line.text)
        return "".join(kept)
