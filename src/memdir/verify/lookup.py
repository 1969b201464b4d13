"""Look up claims in a project, to determine whether each is present, moved, gone, passed or not checkable.

All claims are looked up together: with one listing, one pass over the files, and one pass over the history for missing
things. A thing is gone only if history shows that it existed. Names that never existed are not checkable, because they
may refer to something else. A false alarm is worse than a missing one.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from datetime import date
from functools import cached_property

from memdir.frozen import dataclass, replace
from memdir.limits import VERIFY_GIT_SECONDS
from memdir.project.paths import run_git
from memdir.verify import past, project
from memdir.verify.claims import PARTS
from memdir.verify.past import RemovedBy, WordTrace
from memdir.verify.project import FoundWords, ProjectListing, look_up, read_entry
from memdir.verify.records import CheckedClaim, Claim, ClaimKind, ClaimStatus

NEVER = "never seen in this project"
_UNREAD = "the history could not be read to its end"
_NO_PAST = "no history to look in"
_OWN = frozenset({"self", "this", "cls", "super", "window", "document", "console", "process", "module", "exports"})
_MANY = 200  # max paths in one git call
_MANIFESTS = ("package.json", "Makefile", "makefile", "GNUmakefile", "*.mk", "justfile")


@dataclass(frozen=True, slots=True)
class LookupContext:
    """The date, and functions that look up the memories that links refer to."""

    today: date
    find_memory: Callable[[str], str | None] = lambda link: None
    had_memory: Callable[[str], bool] = lambda link: False


def check_claims(
    claims: Sequence[Claim], project: ProjectListing | None, context: LookupContext, *, seconds: float
) -> tuple[CheckedClaim, ...]:
    """Return one result per claim, in order. Without a project, only dates and links are checked."""
    check = _make_check([claim for claim in claims if not claim.reason], project, seconds)
    return tuple(_check_without_project(claim, context) or check(claim) for claim in claims)


def _check_without_project(claim: Claim, context: LookupContext) -> CheckedClaim | None:
    if claim.reason:
        return CheckedClaim(claim, ClaimStatus.UNKNOWN, note=claim.reason)
    if claim.kind is ClaimKind.DATE:
        is_past = date.fromisoformat(claim.text) < context.today
        return CheckedClaim(claim, ClaimStatus.PASSED if is_past else ClaimStatus.PRESENT)
    if claim.kind is not ClaimKind.LINK:
        return None
    if (name := context.find_memory(claim.text)) is not None:
        return CheckedClaim(claim, ClaimStatus.PRESENT, where=f"{name}.md")
    if context.had_memory(claim.text):
        return CheckedClaim(claim, ClaimStatus.GONE, note="the memory it links to was forgotten")
    return CheckedClaim(claim, ClaimStatus.UNKNOWN, note="no memory of that name")


def _make_check(
    claims: Sequence[Claim], project: ProjectListing | None, seconds: float
) -> Callable[[Claim], CheckedClaim]:
    if project is None:
        return lambda claim: CheckedClaim(claim, ClaimStatus.UNKNOWN, note="no project to look in")
    context = _ProjectContext(project, claims, seconds)
    paths, words, tools = _PathLookup(context), _WordLookup(context), _ToolLookup(context)

    def check_command(claim: Claim) -> CheckedClaim:
        tool, _, name = claim.extra.partition(":")
        return paths.check_module(claim, name.replace(".", "/")) if tool == "module" else tools.check_script(claim)

    special = {ClaimKind.PATH: paths.check, ClaimKind.COMMAND: check_command, ClaimKind.FLAG: tools.check_flag}
    return lambda claim: special.get(claim.kind, words.check)(claim)


class _ProjectContext:
    """A project and the claims to look up. Its files and history are read only when needed."""

    def __init__(self, project: ProjectListing, claims: Sequence[Claim], seconds: float) -> None:
        self.project = project
        self.claims = tuple(claims)
        self.ends = time.monotonic() + seconds

    @cached_property
    def leaves(self) -> dict[str, list[str]]:
        """Return the files and folders by their last path segment."""
        return _group_by_leaf((*self.project.entries, *self.project.folders))

    @cached_property
    def stems(self) -> dict[str, str]:
        """Return a file or folder for each name without extensions."""
        return {leaf.partition(".")[0]: paths[0] for leaf, paths in self.leaves.items()}

    @cached_property
    def scripts(self) -> dict[str, str]:
        return project.read_scripts(self.project)

    @cached_property
    def lookup(self) -> FoundWords:
        words = {word for claim in self.claims for word in _list_words(claim)}
        return look_up(self.project, words, {claim.text for claim in self.claims if claim.kind is ClaimKind.FLAG})

    @cached_property
    def is_whole(self) -> bool:
        """Return whether all files were searched. Otherwise, a word may exist although it was not found."""
        return self.project.is_whole and self.lookup.is_whole

    @cached_property
    def has_past(self) -> bool:
        return bool(self.project.commit) and not project.has_partial_history(self.project.root)

    @cached_property
    def gone_paths(self) -> tuple[dict[str, RemovedBy], bool]:
        """Return the renamed and deleted paths, and whether the complete history was read."""
        return past.read_names(self.project.root, self.ends) if self.has_past else ({}, False)

    def follow(self, path: str) -> RemovedBy | None:
        """Return the commit that moved or removed a path, or None."""
        return past.follow(self.gone_paths[0], path, self.project.entries)

    def not_found(self, claim: Claim, *, is_whole: bool = True) -> CheckedClaim:
        """Report that a name was found neither in the project nor in its history, so the claim is not checkable."""
        note = NEVER if is_whole else _UNREAD
        return CheckedClaim(claim, ClaimStatus.UNKNOWN, note=note if self.has_past else _NO_PAST)


def _list_words(claim: Claim) -> tuple[str, ...]:
    if claim.kind in (ClaimKind.CONSTANT, ClaimKind.VARIABLE):
        return tuple(PARTS.split(claim.text))
    if claim.kind is ClaimKind.SYMBOL:
        parts = [part.rstrip("!?") for part in PARTS.split(claim.text)]
        return tuple(part for part in parts if part and (part not in _OWN or len(parts) == 1))
    return ()


def _group_by_leaf(paths: Iterable[str]) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for path in paths:
        groups.setdefault(path.rpartition("/")[2], []).append(path)
    return groups


class _Lookup:
    def __init__(self, context: _ProjectContext) -> None:
        self.context, self.project = context, context.project


class _PathLookup(_Lookup):
    """Look up files and folders. A claim can be the end of a longer path."""

    def check(self, claim: Claim) -> CheckedClaim:
        bare = self._make_relative(claim.text)
        if bare is None:
            return CheckedClaim(claim, ClaimStatus.UNKNOWN, note="outside the project")
        first, _, rest = bare.partition("/")
        for path in (bare, rest if first == self.project.root.name else ""):
            if path and (existing := self._find_path(path)):
                # A path that only matches the end of a longer one may have been moved there. A bare file name counts as
                # moved only if the file kept its name; otherwise it may mean the existing file.
                gone = self.context.follow(path) if existing != path else None
                if gone is not None and gone.to and ("/" in path or gone.to.endswith(f"/{path}")):
                    return _report_moved(claim, gone)
                return self._check_line(claim, existing)
        if any(bare.startswith(f"{folder}/") for folder in self.project.inner):
            return CheckedClaim(claim, ClaimStatus.UNKNOWN, note="inside another repository")
        return self._check_gone(claim, bare)

    def check_module(self, claim: Claim, path: str) -> CheckedClaim:
        """Look up a Python module by its path without the extension."""
        spellings = [f"{path}.py", f"{path}/__main__.py", f"{path}/__init__.py"]
        for spelling in spellings:
            if existing := self._find_path(spelling):
                return CheckedClaim(claim, ClaimStatus.PRESENT, where=existing)
        results = [self._check_gone(claim, spelling) for spelling in spellings]
        return next((result for result in results if result.is_stale), results[0])

    def _find_path(self, path: str) -> str:
        """Return the file or folder that matches a path exactly or ends with it, or ""."""
        if self.project.has(path):
            return path
        tails = [tail for tail in self.context.leaves.get(path.rpartition("/")[2], ()) if tail.endswith("/" + path)]
        return min(tails, key=lambda tail: (tail.count("/"), tail)) if tails else ""

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
        stem, dot, _ = bare.rpartition(".")
        is_built = dot and "/" not in bare and any(leaf.startswith(f"{stem}.") for leaf in self.context.leaves)
        if is_built or _spell_for_git(claim.text, bare) in self._ignored:
            return CheckedClaim(claim, ClaimStatus.UNKNOWN, note="git ignores it, or it is made from something else")
        for path in self._gone_leaves.get(bare.rpartition("/")[2], ()):
            if path == bare or path.endswith("/" + bare):
                gone = self.context.follow(path) or self._follow_folder(path)
                if gone.to:
                    return _report_moved(claim, gone)
                return CheckedClaim(claim, ClaimStatus.GONE, commit=gone.commit)
        return self.context.not_found(claim, is_whole=self.context.gone_paths[1])

    @cached_property
    def _ignored(self) -> frozenset[str]:
        claims = [claim.text for claim in self.context.claims if claim.kind is ClaimKind.PATH]
        bared = [(text, bare) for text in claims if (bare := self._make_relative(text)) and not self._find_path(bare)]
        missing = sorted({_spell_for_git(text, bare) for text, bare in bared}) if self.project.is_git else []
        ignored: list[str] = []
        for start in range(0, len(missing), _MANY):
            some = missing[start : start + _MANY]
            arguments = ("-c", "core.quotePath=false", "check-ignore", "--no-index", "--", *some)
            ignored += run_git(self.project.root, arguments, VERIFY_GIT_SECONDS)[1].splitlines()
        return frozenset(ignored)

    @cached_property
    def _gone_leaves(self) -> dict[str, list[str]]:
        return _group_by_leaf((*self.context.gone_paths[0], *self._gone_folders))

    @cached_property
    def _gone_folders(self) -> dict[str, list[str]]:
        folders: dict[str, list[str]] = {}
        for path in self.context.gone_paths[0]:
            folder = path.rpartition("/")[0]
            while folder:
                if folder not in self.project.folders:
                    folders.setdefault(folder, []).append(path)
                folder = folder.rpartition("/")[0]
        return folders

    def _follow_folder(self, folder: str) -> RemovedBy:
        targets: Counter[str] = Counter()
        files = self._gone_folders[folder]
        for path in files:
            gone = self.context.follow(path)
            tail = path[len(folder) :]
            if gone is not None and gone.to.endswith(tail):
                targets[gone.to.removesuffix(tail)] += 1
        commit = self.context.gone_paths[0][files[0]].commit
        target, count = targets.most_common(1)[0] if targets else ("", 0)
        return RemovedBy(commit, target if 2 * count > len(files) and target in self.project.folders else "")


def _spell_for_git(text: str, bare: str) -> str:
    """Return a path relative to the root in a form that git does not parse as an option or a pattern."""
    return f"./{bare}/" if text.endswith("/") else f"./{bare}"


def _report_moved(claim: Claim, gone: RemovedBy) -> CheckedClaim:
    to = f"{gone.to}/" if claim.text.endswith("/") else gone.to
    return CheckedClaim(claim, ClaimStatus.MOVED, to=to, commit=gone.commit)


class _WordLookup(_Lookup):
    """Look up symbols, constants and variables."""

    def check(self, claim: Claim) -> CheckedClaim:
        if claim.is_weak:
            return self._check_plain(claim)
        words = _list_words(claim)
        results = [self._check_word(claim, word) for word in words]
        for word, result in zip(words, results, strict=True):
            if result.status is ClaimStatus.GONE:
                return replace(result, came=_replace_part(claim, word, result.came))
        unknown = next((result for result in results if result.status is ClaimStatus.UNKNOWN), None)
        if unknown is not None or not results:
            return unknown or self.context.not_found(claim)
        return results[-1]

    def _check_plain(self, claim: Claim) -> CheckedClaim:
        """Look up a plain word in code. It is checkable only if it is or was defined by name."""
        usage, trace = self.context.lookup.find(claim.text), self._find_trace(claim.text)
        if usage.defined:
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=usage.defined[0])
        if trace.named is not None and not usage.code and self.context.is_whole:
            return self._report_gone(claim, trace.named)
        return self.context.not_found(claim)

    def _check_word(self, claim: Claim, word: str) -> CheckedClaim:
        usage = self.context.lookup.find(word)
        if usage.defined:
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=usage.defined[0])
        if not usage.code and word in self.context.stems:
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=self.context.stems[word])
        trace = self._find_trace(word)
        if usage.code and (trace.undefined is None or claim.kind is not ClaimKind.SYMBOL):
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=usage.code[0])
        gone = trace.undefined if usage.code else trace.vanished
        if gone is not None and self.context.is_whole:
            return self._report_gone(claim, gone)
        if usage.documents:
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=usage.documents[0])
        return self.context.not_found(claim, is_whole=self._traces[1])

    def _report_gone(self, claim: Claim, gone: RemovedBy) -> CheckedClaim:
        return CheckedClaim(claim, ClaimStatus.GONE, commit=gone.commit, came=self._successors.get(gone.came, ""))

    def _find_trace(self, word: str) -> WordTrace:
        return self._traces[0].get(word, WordTrace())

    @cached_property
    def _traces(self) -> tuple[dict[str, WordTrace], bool]:
        """Return the history of words that are missing or no longer defined, and whether it is complete."""
        if not self.context.has_past:
            return {}, False
        words = {word for claim in self.context.claims for word in _list_words(claim)}
        doubtful = {
            word for word in words if not self.context.lookup.find(word).defined and word not in self.context.stems
        }
        return past.read_words(self.project.root, doubtful, self.context.ends)

    @cached_property
    def _successors(self) -> dict[str, str]:
        """Return the current name of each replacement word: itself, its own replacement, or "" if both are gone."""
        traces = self._traces[0].values()
        came = {gone.came for one in traces for gone in (one.vanished, one.undefined, one.named) if gone and gone.came}
        first = look_up(self.project, came)
        lost = {word for word in came if not first.find(word).code}
        later = past.read_words(self.project.root, lost, self.context.ends)[0]
        then = {word: trace.vanished.came for word, trace in later.items() if trace.vanished is not None}
        second = look_up(self.project, {word for word in then.values() if word})
        kept = {word: to for word, to in then.items() if second.find(to).code}
        return {word: kept.get(word, "") if word in lost else word for word in came}


def _replace_part(claim: Claim, word: str, replacement: str) -> str:
    if not replacement or claim.text == word:
        return replacement
    return re.sub(rf"(?<![\w$]){re.escape(word)}(?![\w$])", lambda _: replacement, claim.text)


class _ToolLookup(_Lookup):
    """Look up the scripts of manifests and the command-line options in code."""

    def check_script(self, claim: Claim) -> CheckedClaim:
        return self._report(claim, self.context.scripts.get(claim.extra), lambda: self._scripts_gone.get(claim.extra))

    def check_flag(self, claim: Claim) -> CheckedClaim:
        return self._report(claim, self.context.lookup.flags.get(claim.text), lambda: self._flags_gone.get(claim.text))

    def _report(self, claim: Claim, where: str | None, find_gone: Callable[[], RemovedBy | None]) -> CheckedClaim:
        if where:
            return CheckedClaim(claim, ClaimStatus.PRESENT, where=where)
        gone = find_gone()
        if gone is None or not self.context.is_whole:
            return self.context.not_found(claim)
        return CheckedClaim(claim, ClaimStatus.GONE, commit=gone.commit)

    @cached_property
    def _scripts_gone(self) -> dict[str, RemovedBy]:
        extras = {claim.extra for claim in self.context.claims if claim.kind is ClaimKind.COMMAND}
        patterns = {extra: _compile_script(extra) for extra in extras - set(self.context.scripts)}
        return self._find_gone({extra: pattern for extra, pattern in patterns.items() if pattern}, _MANIFESTS)

    @cached_property
    def _flags_gone(self) -> dict[str, RemovedBy]:
        """Return the command-line options that a commit removed from code."""
        missing = {claim.text for claim in self.context.claims if claim.kind is ClaimKind.FLAG} - set(
            self.context.lookup.flags
        )
        return self._find_gone(
            {flag: re.compile(rb"[\"'`(|,]" + re.escape(flag.encode()) + rb"(?![\w-])") for flag in missing}
        )

    def _find_gone(self, wanted: dict[str, re.Pattern[bytes]], globs: tuple[str, ...] = ()) -> dict[str, RemovedBy]:
        has_past, root, ends = self.context.has_past, self.project.root, self.context.ends
        return past.read_git_lines(root, wanted, ends, globs) if has_past else {}


def _compile_script(extra: str) -> re.Pattern[bytes] | None:
    """Return a pattern for a script in its manifest, or None for modules."""
    tool, _, name = extra.partition(":")
    spelled = re.escape(name.encode("utf-8", "replace"))
    make = rb"(?m)^[-+]?@?" + spelled + rb"(?:[ \t][^\n:=]*)?::?(?!=)"
    patterns = {"npm": rb"\"" + spelled + rb"\"[ \t]*:", "make": make, "just": make}
    return re.compile(patterns[tool]) if tool in patterns else None
