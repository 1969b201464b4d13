"""Claims and a project -> what came of each: present, moved, gone, passed, or not checkable.

All claims are looked up together: one listing, one pass over the files, and one over history for what was not found.
A thing is gone only if history shows that it was there; what was never there may be anything, and is not checkable.
A wrong alarm is worse than silence.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import date
from functools import cached_property

from memdir.frozen import dataclass, replace
from memdir.limits import VERIFY_GIT_SECONDS, VERIFY_PAST_SECONDS
from memdir.project.git import run_git
from memdir.verify import past
from memdir.verify.past import PathHistory, RemovedBy, WordTrace
from memdir.verify.project import (
    FoundWords,
    ProjectListing,
    ProjectManifests,
    fold_package,
    has_member,
    has_partial_history,
    look_up,
    read_entry,
    read_manifests,
)
from memdir.verify.records import CheckedClaim, Claim, ClaimKind, ClaimStatus
from memdir.verify.shapes import PARTS

# --- ground ---
# One project made ready for a set of claims: what costs a pass over files or history is done when first needed.
#
# It holds what the lookups share: the listing by last part, the wanted words, what history knows. It judges nothing.

NEVER = "never seen in this project"
_UNREAD = "the history could not be read to its end"
_NO_PAST = "no history to look in"
_OWN = frozenset({"self", "this", "cls", "super", "window", "document", "console", "process", "module", "exports"})


class VerifyContext:
    """A project, the claims that are looked up in it, and until when history may be searched."""

    def __init__(self, project: ProjectListing, claims: Sequence[Claim], seconds: float) -> None:
        self.project = project
        self.claims = tuple(claims)
        self.ends = time.monotonic() + seconds

    @cached_property
    def leaves(self) -> dict[str, list[str]]:
        """Files and folders by their last part."""
        found: dict[str, list[str]] = {}
        for path in (*self.project.entries, *self.project.folders):
            found.setdefault(path.rpartition("/")[2], []).append(path)
        return found

    @cached_property
    def stems(self) -> dict[str, str]:
        """The names of files and folders without what follows a dot, each with one of them."""
        return {leaf.partition(".")[0]: paths[0] for leaf, paths in self.leaves.items()}

    @cached_property
    def manifests(self) -> ProjectManifests:
        return read_manifests(self.project)

    @cached_property
    def lookup(self) -> FoundWords:
        """The words and flags of all claims, found in one pass."""
        words = {word for claim in self.claims for word in list_words(claim)}
        return look_up(self.project, words, {claim.text for claim in self.claims if claim.kind is ClaimKind.FLAG})

    @cached_property
    def is_whole(self) -> bool:
        """Whether every file was listed and searched, so that a word that was not found is not there."""
        return self.project.is_whole and self.lookup.is_whole

    @cached_property
    def has_past(self) -> bool:
        return bool(self.project.commit) and not has_partial_history(self.project.root)

    @cached_property
    def names(self) -> PathHistory:
        return past.read_names(self.project.root, self.ends) if self.has_past else PathHistory(is_whole=False)

    def follow(self, path: str) -> past.RemovedBy | None:
        """Where history took a path, if it did."""
        return past.follow(self.names, path, self.project.entries)

    def follow_all(self, paths: Iterable[str]) -> set[str]:
        """Files of another time under the names they have now."""
        return {gone.to if (gone := self.follow(path)) is not None and gone.to else path for path in paths}

    def not_found(self, claim: Claim, *, is_whole: bool = True) -> CheckedClaim:
        """What was never seen may be anything; it is no alarm."""
        note = NEVER if is_whole else _UNREAD
        return CheckedClaim(claim, ClaimStatus.UNKNOWN, note=note if self.has_past else _NO_PAST)


def list_words(claim: Claim) -> tuple[str, ...]:
    """The words a claim stands and falls with."""
    if claim.kind in (ClaimKind.CONSTANT, ClaimKind.VARIABLE):
        return tuple(PARTS.split(claim.text))
    if claim.kind is ClaimKind.SYMBOL:
        parts = [part.rstrip("!?") for part in PARTS.split(claim.text)]
        return tuple(part for part in parts if part and (part not in _OWN or len(parts) == 1))
    return (claim.text.replace("-", "_"),) if claim.kind is ClaimKind.PACKAGE else ()


# --- path_lookup ---
# Files and folders that memories name: there, moved to another place, or gone; and lines that a file no longer has.
#
# A path may be written from any folder down, so the end of a longer path will do. What git ignores may well lie on the
# writer's machine, and a file that is made from another on nobody's list: neither is an alarm.

_MANY = 200  # paths in one question to git


class PathLookup:
    def __init__(self, ground: VerifyContext) -> None:
        self.ground, self.project = ground, ground.project

    def check(self, claim: Claim) -> CheckedClaim:
        bare = self._make_relative(claim.text)
        if bare is None:
            return CheckedClaim(claim, ClaimStatus.UNKNOWN, note="outside the project")
        first, _, rest = bare.partition("/")
        for path in (bare, rest if first == self.project.root.name else ""):
            if path and (found := self.find_path(path)):
                # A path that is now the end of another, because it was moved there, is a move and no short form. A
                # name alone may well mean the file of that name that is there, whatever became of another one.
                gone = self.ground.follow(path) if found != path else None
                is_moved = gone is not None and bool(gone.to) and ("/" in path or gone.to.endswith(f"/{path}"))
                return _say_moved(claim, gone) if gone is not None and is_moved else self._check_line(claim, found)
        if any(bare.startswith(f"{at}/") for at in self.project.inner):
            return CheckedClaim(claim, ClaimStatus.UNKNOWN, note="inside another repository")
        return self._check_gone(claim, bare)

    def check_module(self, claim: Claim, path: str) -> CheckedClaim:
        """A module of Python by its path without an ending."""
        spellings = [f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py"]
        for spelling in spellings:
            if found := self.find_path(spelling):
                return CheckedClaim(claim, ClaimStatus.PRESENT, where=found)
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

    def _check_line(self, claim: Claim, path: str) -> CheckedClaim:
        entry = self.project.entries.get(path)
        data = read_entry(self.project.root, entry) if entry is not None and claim.extra.isdecimal() else None
        if data is not None:
            lines = data.count(b"\n") + (not data.endswith(b"\n"))
            if int(claim.extra[:9]) > lines:
                note = f"it has no line {claim.extra} any more, only {lines}"
                return CheckedClaim(claim, ClaimStatus.GONE, where=path, note=note)
        return CheckedClaim(claim, ClaimStatus.PRESENT, where=path)

    def _check_gone(self, claim: Claim, bare: str) -> CheckedClaim:
        if not self.project.is_whole:
            return CheckedClaim(claim, ClaimStatus.UNKNOWN, note="the project could not be listed whole")
        if self._is_elsewhere(claim.text, bare):
            return CheckedClaim(claim, ClaimStatus.UNKNOWN, note="git ignores it, or it is made from something else")
        for path in self._gone_leaves.get(bare.rpartition("/")[2], ()):
            if path == bare or path.endswith("/" + bare):
                gone = self.ground.follow(path) or self._follow_folder(path)
                if gone.to:
                    return _say_moved(claim, gone)
                return CheckedClaim(
                    claim, ClaimStatus.GONE, commit=gone.commit, came=self._find_heir(path, gone.commit)
                )
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

    def _follow_folder(self, folder: str) -> RemovedBy:
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
                return RemovedBy(commit, place)
        return RemovedBy(commit)

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


def _say_moved(claim: Claim, gone: RemovedBy) -> CheckedClaim:
    to = f"{gone.to}/" if claim.text.endswith("/") else gone.to
    return CheckedClaim(claim, ClaimStatus.MOVED, to=to, commit=gone.commit)


# --- word_lookup ---
# Symbols, constants and variables that memories name: defined or used, or gone, and then what came in their stead.
#
# A symbol that is still used but no longer defined is gone, if history shows where its definition went out. A dotted
# name
# stands and falls with its parts, and its last part with the body of the one before.

_HOPS = 3  # renames of a word that are followed, a pass over history each


class WordLookup:
    def __init__(self, ground: VerifyContext) -> None:
        self.ground, self.project = ground, ground.project
        self._left: dict[tuple[str, str], bool] = {}

    def check(self, claim: Claim) -> CheckedClaim:
        if claim.is_weak:
            return self._check_plain(claim)
        words = list_words(claim)
        answers = [self._check_word(claim, word) for word in words]
        for word, at in zip(words, answers, strict=True):
            if at.status is ClaimStatus.GONE:
                return replace(at, came=_word_lookup_spell(claim, word, at.came))
        unknown = next((at for at in answers if at.status is ClaimStatus.UNKNOWN), None)
        if unknown is not None or not answers:
            return unknown or self.ground.not_found(claim)
        return self._check_member(claim, words) or answers[-1]

    def _check_plain(self, claim: Claim) -> CheckedClaim:
        """A plain word in code: only what is or was defined by name, and the rest is a word like any other."""
        found, trace = self.ground.lookup.find(claim.text), self._find_trace(claim.text)
        if found.defined:
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=found.defined[0])
        if trace.named is not None and not found.code and self.ground.is_whole:
            return self._say_gone(claim, trace.named)
        return self.ground.not_found(claim)

    def _check_word(self, claim: Claim, word: str) -> CheckedClaim:
        found = self.ground.lookup.find(word)
        if found.defined:
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=found.defined[0])
        if not found.code and word in self.ground.stems:
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=self.ground.stems[word])
        trace = self._find_trace(word)
        if found.code and (trace.undefined is None or claim.kind is not ClaimKind.SYMBOL):
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=found.code[0])
        gone = trace.undefined if found.code else trace.vanished
        if gone is not None and self.ground.is_whole:
            return self._say_gone(claim, gone)
        if found.documents:
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=found.documents[0])
        return self.ground.not_found(claim, is_whole=self._traces[1])

    def _check_member(self, claim: Claim, words: Sequence[str]) -> CheckedClaim | None:
        """A member that its owner has lost, though the word is there; None where nothing speaks for that."""
        if not self._is_left_by_owner(claim, words):
            return None
        trace = self._find_trace(words[-1])
        homes = set(self.ground.lookup.find(words[-2]).code)
        if trace.undefined is None or not self.ground.follow_all(trace.files) & homes:
            return None
        gone = self._say_gone(claim, trace.undefined)
        return replace(gone, came=_word_lookup_spell(claim, words[-1], gone.came))

    def _say_gone(self, claim: Claim, gone: RemovedBy) -> CheckedClaim:
        return CheckedClaim(claim, ClaimStatus.GONE, commit=gone.commit, came=self._successors.get(gone.came, ""))

    def _is_left_by_owner(self, claim: Claim, words: Sequence[str]) -> bool:
        """Whether `Owner` is defined in the project, and nowhere with `member` in its body."""
        if claim.kind is not ClaimKind.SYMBOL or len(words) < 2:
            return False
        key = (words[-2], words[-1])
        if key not in self._left:
            owner = self.ground.lookup.find(words[-2])
            spelled = [word.encode("utf-8", "replace") for word in key]
            files = (read_entry(self.project.root, self.project.entries[path]) or b"" for path in owner.code)
            self._left[key] = bool(owner.defined) and not any(has_member(data, *spelled) for data in files)
        return self._left[key]

    # --- history ----------------------------------------------------------------------------------------------------

    def _find_trace(self, word: str) -> WordTrace:
        return self._traces[0].get(word, WordTrace())

    @cached_property
    def _traces(self) -> tuple[dict[str, WordTrace], bool]:
        """What history knows of the words that are not there, or are used and nowhere defined."""
        if not self.ground.has_past:
            return {}, False
        return past.read_words(self.project.root, set(self._list_doubtful()), self.ground.ends)

    def _list_doubtful(self) -> Iterator[str]:
        """Nothing is asked of history for what is defined: most memories need no look back at all."""
        for claim in self.ground.claims:
            words = list_words(claim)
            for word in words:
                if not self.ground.lookup.find(word).defined and word not in self.ground.stems:
                    yield word
            if self._is_left_by_owner(claim, words):
                yield words[-1]

    @cached_property
    def _successors(self) -> dict[str, str]:
        """Each word that came for another, to what it is called now; all together, so that a hop costs one pass."""
        traces = self._traces[0].values()
        came = {gone.came for at in traces for gone in (at.vanished, at.undefined, at.named) if gone and gone.came}
        leads = {word: word for word in came}
        for _ in range(_HOPS):
            found = look_up(self.project, set(leads.values()) - {""})
            lost = {word for word in leads.values() if word and not found.find(word).code}
            if not lost:
                break
            later = past.read_words(self.project.root, lost, self.ground.ends)[0]
            then = {word: at.vanished.came for word, at in later.items() if at.vanished is not None}
            leads = {word: then.get(to, "") if to in lost else to for word, to in leads.items()}
        else:
            found = look_up(self.project, set(leads.values()) - {""})
            leads = {word: to if to and found.find(to).code else "" for word, to in leads.items()}
        return leads


def _word_lookup_spell(claim: Claim, word: str, came: str) -> str:
    """What came, in the place of the part that is gone."""
    if not came or claim.text == word:
        return came
    return re.sub(rf"(?<![\w$]){re.escape(word)}(?![\w$])", lambda _: came, claim.text)


# --- tool_lookup ---
# Scripts, targets, flags, packages and branches that memories name.

_MERGES = 5_000  # looked at for a branch's name
_MANIFESTS = (
    "package.json", "Makefile", "makefile", "GNUmakefile", "*.mk", "justfile", "pyproject.toml", "setup.py",
    "setup.cfg", "requirements*.txt", "Cargo.toml", "go.mod", "Gemfile", "composer.json",
)  # fmt: skip


class ToolLookup:
    def __init__(self, ground: VerifyContext) -> None:
        self.ground, self.project = ground, ground.project

    def check_script(self, claim: Claim) -> CheckedClaim:
        if where := self.ground.manifests.scripts.get(claim.extra):
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=where)
        return self._say_gone(claim, self._lines_gone.get(claim.extra))

    def check_package(self, claim: Claim) -> CheckedClaim:
        if where := self.ground.manifests.packages.get(fold_package(claim.text)):
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=where)
        if found := self.ground.lookup.find(claim.text.replace("-", "_")).code:
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=found[0])
        return self._say_gone(claim, self._lines_gone.get(claim.text))

    def check_flag(self, claim: Claim) -> CheckedClaim:
        if where := self.ground.lookup.flags.get(claim.text):
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=where)
        return self._say_gone(claim, self._flags_gone.get(claim.text))

    def check_branch(self, claim: Claim) -> CheckedClaim:
        if claim.text in self._branches:
            return CheckedClaim(claim, ClaimStatus.PRESENT)
        for line in self._merges:
            commit, _, subject = line.partition(" ")
            if f"branch '{claim.text}'" in subject or subject.endswith(f"/{claim.text}"):
                return CheckedClaim(
                    claim, ClaimStatus.GONE, commit=commit, note=f"the branch was merged in {commit} and is gone"
                )
        return CheckedClaim(claim, ClaimStatus.UNKNOWN, note="no such branch here")

    def _say_gone(self, claim: Claim, gone: RemovedBy | None) -> CheckedClaim:
        if gone is None or not self.ground.is_whole:
            return self.ground.not_found(claim)
        return CheckedClaim(claim, ClaimStatus.GONE, commit=gone.commit)

    @cached_property
    def _branches(self) -> frozenset[str]:
        return frozenset(read_branches(self.project))

    @cached_property
    def _merges(self) -> tuple[str, ...]:
        """The newest merges, each with its commit and subject."""
        asked = ("log", "--merges", f"--max-count={_MERGES}", "--no-show-signature", "--format=%h %s", "HEAD", "--")
        code, output = run_git(self.project.root, asked, VERIFY_GIT_SECONDS) if self.ground.has_past else (1, "")
        return tuple(output.splitlines()) if code == 0 else ()

    @cached_property
    def _lines_gone(self) -> dict[str, RemovedBy]:
        """Scripts and packages that some commit took out of the manifests."""
        wanted: dict[str, re.Pattern[bytes]] = {}
        for claim in self.ground.claims:
            if claim.kind is ClaimKind.COMMAND and claim.extra not in self.ground.manifests.scripts:
                wanted.update(_spell_script(claim.extra))
            elif claim.kind is ClaimKind.PACKAGE:
                wanted[claim.text] = _spell_package(claim.text)
        return (
            past.read_git_lines(self.project.root, wanted, self.ground.ends, _MANIFESTS) if self.ground.has_past else {}
        )

    @cached_property
    def _flags_gone(self) -> dict[str, RemovedBy]:
        """Flags that some commit took out of code where they were quoted, as whatever parses flags has them."""
        missing = {at.text for at in self.ground.claims if at.kind is ClaimKind.FLAG} - set(self.ground.lookup.flags)
        wanted = {flag: re.compile(rb"[\"'`(|,]" + re.escape(flag.encode()) + rb"(?![\w-])") for flag in missing}
        return past.read_git_lines(self.project.root, wanted, self.ground.ends) if self.ground.has_past else {}


def read_branches(project: ProjectListing) -> Iterator[str]:
    """The branches of this repository and those known of its remotes, these without the remote's name too."""
    if project.is_git:
        arguments = ("for-each-ref", "--format=%(refname)", "refs/heads", "refs/remotes")
        _, output = run_git(project.root, arguments, VERIFY_GIT_SECONDS)
        for line in output.splitlines():
            kind, _, name = line.removeprefix("refs/").partition("/")
            yield name
            if kind == "remotes":
                yield name.partition("/")[2]


def _spell_script(extra: str) -> Iterator[tuple[str, re.Pattern[bytes]]]:
    """How a script stands in its manifest; a module stands in none."""
    tool, _, name = extra.partition(":")
    spelled = re.escape(name.encode("utf-8", "replace"))
    if tool == "npm":
        yield extra, re.compile(rb"\"" + spelled + rb"\"[ \t]*:")
    elif tool in ("make", "just"):
        yield extra, re.compile(rb"(?m)^[-+]?@?" + spelled + rb"(?:[ \t][^\n:=]*)?::?(?!=)")
    elif tool == "script":
        yield extra, re.compile(rb"(?m)^[-+]?[\"']?" + spelled + rb"[\"']?[ \t]*=")


def _spell_package(name: str) -> re.Pattern[bytes]:
    parts = [re.escape(part.encode("utf-8", "replace")) for part in re.split("[-_]", name)]
    return re.compile(rb"(?<![\w@/-])" + b"[-_]".join(parts) + rb"(?![\w/-])", re.IGNORECASE)


# --- looking ---


@dataclass(frozen=True, slots=True)
class LookupContext:
    """What a claim is compared with beside the project: the day, and which memory a link means or meant."""

    today: date
    find_memory: Callable[[str], str | None] = lambda link: None
    had_memory: Callable[[str], bool] = lambda link: False


def check_claims(
    claims: Sequence[Claim],
    project: ProjectListing | None,
    around: LookupContext,
    *,
    seconds: float = VERIFY_PAST_SECONDS,
) -> tuple[CheckedClaim, ...]:
    """One answer a claim, in their order; without a project only dates and links can be checked."""
    look = _open_lookup([claim for claim in claims if not claim.reason], project, seconds)
    return tuple(_check_alone(claim, around) or look(claim) for claim in claims)


def drop_weak(checked: Iterable[CheckedClaim]) -> tuple[CheckedClaim, ...]:
    """Without the weak claims that the project knows nothing of: they were something else."""
    return tuple(
        at for at in checked if not (at.claim.is_weak and at.status is ClaimStatus.UNKNOWN and not at.claim.reason)
    )


def _check_alone(claim: Claim, around: LookupContext) -> CheckedClaim | None:
    """What no project is needed for."""
    if claim.reason:
        return CheckedClaim(claim, ClaimStatus.UNKNOWN, note=claim.reason)
    if claim.kind is ClaimKind.DATE:
        return CheckedClaim(
            claim, ClaimStatus.PASSED if date.fromisoformat(claim.text) < around.today else ClaimStatus.PRESENT
        )
    return _check_link(claim, around) if claim.kind is ClaimKind.LINK else None


def _check_link(claim: Claim, around: LookupContext) -> CheckedClaim:
    name = around.find_memory(claim.text)
    if name is not None:
        return CheckedClaim(claim, ClaimStatus.PRESENT, where=f"{name}.md")
    if around.had_memory(claim.text):
        return CheckedClaim(claim, ClaimStatus.GONE, note="the memory it links to was forgotten")
    return CheckedClaim(claim, ClaimStatus.UNKNOWN, note="no memory of that name")


def _open_lookup(
    claims: Sequence[Claim], project: ProjectListing | None, seconds: float
) -> Callable[[Claim], CheckedClaim]:
    if project is None:
        return lambda claim: CheckedClaim(claim, ClaimStatus.UNKNOWN, note="no project to look in")
    ground = VerifyContext(project, claims, seconds)
    paths, words, tools = PathLookup(ground), WordLookup(ground), ToolLookup(ground)

    def check_command(claim: Claim) -> CheckedClaim:
        tool, _, name = claim.extra.partition(":")
        return paths.check_module(claim, name.replace(".", "/")) if tool == "module" else tools.check_script(claim)

    special = {
        ClaimKind.PATH: paths.check,
        ClaimKind.COMMAND: check_command,
        ClaimKind.PACKAGE: tools.check_package,
        ClaimKind.FLAG: tools.check_flag,
        ClaimKind.BRANCH: tools.check_branch,
    }
    return lambda claim: special.get(claim.kind, words.check)(claim)
