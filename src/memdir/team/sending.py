"""What this member did since the last sync, laid on top of the branch as it now is: the files of a new commit. Pure.

Where only one side changed a file, that change stands; where both did, they are merged. What may not be shared stays
here: it is named in `withheld` and looked at again next time. A file of the branch that is refused is left as it is,
until somebody here writes one of the same name: then theirs is not merged with, but replaced.
"""

from collections.abc import Mapping

from memdir.frozen import dataclass, field
from memdir.index import INDEX_FILE
from memdir.secrets import render_findings
from memdir.store.plan import encode
from memdir.team.arriving import PLAIN_MODE, Ruling, judge_place
from memdir.team.ground import Ground
from memdir.team.merging import merge_index, merge_memory, tidy_index
from memdir.text import find_forbidden, fold


@dataclass(frozen=True, slots=True)
class Clash:
    """A file that both sides changed in different ways: where, and what each had."""

    path: str
    told: tuple[str, ...]
    ours: str
    theirs: str


@dataclass(frozen=True, slots=True)
class Outgoing:
    """`files` are to be written or, where None, taken out; `moved` are ours that took another's spelling."""

    files: Mapping[str, bytes | None] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)
    clashes: tuple[Clash, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)


def plan_sending(ground: Ground) -> Outgoing:
    """What this side adds to the branch."""
    plan = _Plan(ground)
    lost = [path for path in ground.theirs if path not in ground.ours and ground.point.find(path) is not None]
    gone = [path for path in lost if path not in ground.local.blocked]
    for path in sorted({*ground.ours, *gone}):
        if path != INDEX_FILE:
            plan.add(path)
    if ground.has_index:
        plan.add_index()
    return Outgoing(plan.files, plan.withheld, tuple(plan.clashes), plan.moved)


class _Plan:
    def __init__(self, ground: Ground) -> None:
        self.ground = ground
        self.files: dict[str, bytes | None] = {}
        self.withheld: dict[str, str] = {}
        self.clashes: list[Clash] = []
        self.moved: dict[str, str] = {}
        self._revived: list[str] = []  # names that one side took away and the other changed
        self._spellings = {fold(path): path for path in sorted(ground.theirs, reverse=True)}

    def add(self, path: str) -> None:
        """One file that is here, or was."""
        ground = self.ground
        mine, base, entry = ground.ours.get(path), ground.find_base(path), ground.theirs.get(path)
        if mine == base or mine == (entry.sha if entry else None):
            return
        data = ground.local.files.get(path)
        if data is not None and (why := ground.judge_own(path, data)):
            self.withheld[path] = why
            return
        target = path
        if entry is None and base is None:
            # Somebody else chose another spelling for the same name: it is one memory, by theirs.
            target = self._spellings.get(fold(path), path)
            entry = ground.theirs.get(target)
            if target in ground.ours and target != path:
                self.withheld[path] = f"it is another spelling of {target}"
                return
        if entry is not None and entry.sha != base:
            self._merge(path, target, data)
        else:
            self.files[target] = data
            if entry is None and base is not None and data is not None:
                self._revived.append(path.removesuffix(".md"))
                told = ("the others took it away, and it was changed here: the change stays",)
                self.clashes.append(Clash(path, told, data.decode("utf-8", "replace"), ""))

    def _merge(self, path: str, target: str, data: bytes | None) -> None:
        ground, entry = self.ground, self.ground.theirs[target]
        if ground.judge(target, entry).ruling is Ruling.REFUSE:
            if data is not None and target == path:
                self.files[path] = data
            elif data is not None:
                self.withheld[path] = f"{target}, another spelling of it, is refused here"
            return
        theirs = ground.read(entry.sha) or ""
        ours = None if data is None else data.decode("utf-8", "replace")
        merge = merge_memory(ground.read(ground.find_base(path)), ours, theirs)
        merged = None if merge.text is None else merge.text.encode("utf-8", "replace")
        if merged is not None and ground.judge_own(target, merged):
            # Together they are too long, or cannot be read any more: each keeps its own file.
            self.files[self._find_free(path)] = data
            merged = ground.blobs.get(entry.sha)
        if target != path:
            self.moved[path] = target
        if data is None:
            self._revived.append(path.removesuffix(".md"))
        if merge.clashes:
            self.clashes.append(Clash(target, merge.clashes, ours or "", theirs))
        if merged is not None and merged != ground.blobs.get(entry.sha):
            self.files[target] = merged

    def _find_free(self, path: str) -> str:
        taken = {fold(at) for at in (*self.ground.theirs, *self.ground.ours, *self.files)}
        stem = path.removesuffix(".md")
        return next(
            at for n in range(2, 10_000) if fold(at := f"{stem[:-6] if len(stem) > 90 else stem}-{n}.md") not in taken
        )

    def add_index(self) -> None:
        """The index, by line, with lines for what there will be and no others."""
        ground = self.ground
        ours, base = ground.local.index or "", ground.point.index or ""
        if ours == base and not self.files:
            return
        entry = ground.theirs.get(INDEX_FILE)
        readable = entry is not None and ground.judge(INDEX_FILE, entry).ruling is Ruling.ACCEPT
        there = ground.read(entry.sha) if entry is not None and readable else None
        theirs = base if there is None else there
        if why := _find_index_fault(ours, ground):
            self.withheld[INDEX_FILE] = why
            ours = base
        merged = merge_index(base, ours, theirs) if ours != base else theirs
        paths = {*ground.theirs, *self.files}
        names = [path.removesuffix(".md") for path in paths if self.files.get(path, b"") is not None]
        tidied = tidy_index(merged, names, theirs, revived=self._revived, known=(base, ours, theirs))
        if why := judge_place(INDEX_FILE, PLAIN_MODE, len(data := encode(tidied))):
            self.withheld[INDEX_FILE] = why
        elif tidied != (there or ""):
            self.files[INDEX_FILE] = data


def _find_index_fault(text: str, ground: Ground) -> str:
    if found := find_forbidden(text, lines=True):
        return f"it holds {found}"
    found_secrets = render_findings(ground.find(text))
    return f"it holds a secret: {found_secrets[0]}" if found_secrets else ""
