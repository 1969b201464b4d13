"""Files and folders that memories name: there, moved to another place, or gone; and lines that a file no longer has.

A path may be written from any folder down, so the end of a longer path will do. What git ignores may well lie on the
writer's machine, and a file that is made from another on nobody's list: neither is an alarm.
"""

from collections import Counter
from functools import cached_property

from memdir.gitroot import run_git
from memdir.limits import VERIFY_GIT_SECONDS
from memdir.verify.ground import Ground
from memdir.verify.past import Gone
from memdir.verify.records import Checked, Claim, ClaimKind, Status
from memdir.verify.words import read_entry

_MANY = 200  # paths in one question to git


class PathLookup:
    def __init__(self, ground: Ground) -> None:
        self.ground, self.project = ground, ground.project

    def check(self, claim: Claim) -> Checked:
        bare = self._make_relative(claim.text)
        if bare is None:
            return Checked(claim, Status.UNKNOWN, note="outside the project")
        first, _, rest = bare.partition("/")
        for path in (bare, rest if first == self.project.root.name else ""):
            if path and (found := self.find_path(path)):
                # A path that is now the end of another, because it was moved there, is a move and no short form. A
                # name alone may well mean the file of that name that is there, whatever became of another one.
                gone = self.ground.follow(path) if found != path else None
                is_moved = gone is not None and bool(gone.to) and ("/" in path or gone.to.endswith(f"/{path}"))
                return _say_moved(claim, gone) if gone is not None and is_moved else self._check_line(claim, found)
        if any(bare.startswith(f"{at}/") for at in self.project.inner):
            return Checked(claim, Status.UNKNOWN, note="inside another repository")
        return self._check_gone(claim, bare)

    def check_module(self, claim: Claim, path: str) -> Checked:
        """A module of Python by its path without an ending."""
        spellings = [f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py"]
        for spelling in spellings:
            if found := self.find_path(spelling):
                return Checked(claim, Status.PRESENT, where=found)
        answers = [self._check_gone(claim, spelling) for spelling in spellings]
        return next((at for at in answers if at.is_stale), answers[0])

    def find_path(self, path: str) -> str:
        """The file or folder a path means: as it stands, or as the end of a longer one; empty if there is none."""
        if self.project.has(path):
            return path
        tails = [at for at in self.ground.leaves.get(path.rpartition("/")[2], ()) if at.endswith("/" + path)]
        return min(tails, key=lambda at: (at.count("/"), at)) if tails else ""

    def _make_relative(self, text: str) -> str | None:
        path = text.removeprefix("./").rstrip("/")
        if path.startswith("/"):
            root = f"{self.project.root}/"
            return path.removeprefix(root) if path.startswith(root) else None
        return path

    def _check_line(self, claim: Claim, path: str) -> Checked:
        entry = self.project.entries.get(path)
        data = read_entry(self.project.root, entry) if entry is not None and claim.extra.isdecimal() else None
        if data is not None:
            lines = data.count(b"\n") + (not data.endswith(b"\n"))
            if int(claim.extra[:9]) > lines:
                note = f"it has no line {claim.extra} any more, only {lines}"
                return Checked(claim, Status.GONE, where=path, note=note)
        return Checked(claim, Status.PRESENT, where=path)

    def _check_gone(self, claim: Claim, bare: str) -> Checked:
        if not self.project.is_whole:
            return Checked(claim, Status.UNKNOWN, note="the project could not be listed whole")
        if self._is_elsewhere(claim.text, bare):
            return Checked(claim, Status.UNKNOWN, note="git ignores it, or it is made from something else")
        for path in self._gone_leaves.get(bare.rpartition("/")[2], ()):
            if path == bare or path.endswith("/" + bare):
                gone = self.ground.follow(path) or self._follow_folder(path)
                if gone.to:
                    return _say_moved(claim, gone)
                return Checked(claim, Status.GONE, commit=gone.commit, came=self._find_heir(path, gone.commit))
        return self.ground.not_found(claim, is_whole=self.ground.names.is_whole)

    def _is_elsewhere(self, text: str, bare: str) -> bool:
        """Whether a missing path may well be there on another machine: ignored, or a product of a file that is here."""
        stem, dot, _ = bare.rpartition(".")
        if dot and "/" not in bare and any(leaf.startswith(f"{stem}.") for leaf in self.ground.leaves):
            return True
        return _spell(text, bare) in self._ignored

    @cached_property
    def _ignored(self) -> frozenset[str]:
        """The missing paths of all claims that git ignores, asked together."""
        claims = [claim.text for claim in self.ground.claims if claim.kind is ClaimKind.PATH]
        bared = [(text, bare) for text in claims if (bare := self._make_relative(text)) and not self.find_path(bare)]
        missing = sorted({_spell(text, bare) for text, bare in bared}) if self.project.is_git else []
        found: list[str] = []
        for start in range(0, len(missing), _MANY):
            some = missing[start : start + _MANY]
            asked = ("-c", "core.quotePath=false", "check-ignore", "--no-index", "--", *some)
            found += run_git(self.project.root, asked, VERIFY_GIT_SECONDS)[1].splitlines()
        return frozenset(found)

    @cached_property
    def _gone_leaves(self) -> dict[str, list[str]]:
        """Paths and folders that history took away, by their last part, the newest first."""
        found: dict[str, list[str]] = {}
        for path in (*self.ground.names.gone, *self._gone_folders):
            found.setdefault(path.rpartition("/")[2], []).append(path)
        return found

    @cached_property
    def _gone_folders(self) -> dict[str, list[str]]:
        """Folders that are no more, each with the files that history took out of it."""
        found: dict[str, list[str]] = {}
        for path in self.ground.names.gone:
            folder = path.rpartition("/")[0]
            while folder:
                if folder not in self.project.folders:
                    found.setdefault(folder, []).append(path)
                folder = folder.rpartition("/")[0]
        return found

    def _follow_folder(self, folder: str) -> Gone:
        """Where most of a folder's files went."""
        places: Counter[str] = Counter()
        files = self._gone_folders[folder]
        for path in files:
            gone = self.ground.follow(path)
            tail = path[len(folder) :]
            if gone is not None and gone.to.endswith(tail):
                places[gone.to.removesuffix(tail)] += 1
        commit = self.ground.names.gone[files[0]].commit
        if places:
            place, count = places.most_common(1)[0]
            if 2 * count > len(files) and place in self.project.folders:
                return Gone(commit, place)
        return Gone(commit)

    def _find_heir(self, path: str, commit: str) -> str:
        """A file of the same name, or the only one of its kind and folder, that came with this commit and is there."""
        folder, _, leaf = path.rpartition("/")
        ending = leaf.rpartition(".")[2]
        came = [at for at in self.ground.names.added.get(commit, ()) if at in self.project.entries]
        same = [at for at in came if at.rpartition("/")[2] == leaf]
        near = [at for at in came if at.rpartition("/")[0] == folder and at.rpartition(".")[2] == ending]
        return same[0] if len(same) == 1 else near[0] if len(near) == 1 and not same else ""


def _spell(text: str, bare: str) -> str:
    """A path as git is asked for it: from here, so that nothing in it is taken for a flag or a pattern."""
    return f"./{bare}/" if text.endswith("/") else f"./{bare}"


def _say_moved(claim: Claim, gone: Gone) -> Checked:
    to = f"{gone.to}/" if claim.text.endswith("/") else gone.to
    return Checked(claim, Status.MOVED, to=to, commit=gone.commit)
