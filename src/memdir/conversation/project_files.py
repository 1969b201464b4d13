"""The instruction files around a session (the CLAUDE.md family): which are loaded, in which order, and which are not.

From the lowest to the highest; a later file is read as the more particular word:

    managed    CLAUDE.md in the machine's managed folder
    user       CLAUDE.md and rules/**/*.md in Claude Code's own folder
    project    from / down to the working directory, in each folder: CLAUDE.md, .claude/CLAUDE.md,
               .claude/rules/**/*.md, and the person's CLAUDE.local.md
    (the memory's index comes last and is no file of this package)

The rooms: blocks, comments, includes, globs, rules, secrecy and kinds are pure; ground finds the folders and what is
excluded, reading opens one file, loading puts a load together, loaded holds the records and renders them, asking puts
what waits for a person into the inbox.

Instruction files come with a clone, so everything here is untrusted: it is bounded, it is judged by where links really
lead, and it is only ever read. What a text says is not judged: whoever loads it decides what to believe.
"""

import errno
import os
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from enum import StrEnum
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from memdir import guard
from memdir.conversation.includes import (
    IncludeMention,
    expand_braces,
    find_mentions,
    holds_key,
    holds_secret,
    looks_secret,
    match_any,
    parse_rule,
    resolve_include,
    strip_comments,
)
from memdir.errors import PathError
from memdir.frozen import dataclass
from memdir.limits import (
    FILE_BYTES,
    INCLUDE_ASKS,
    INCLUDE_DEPTH,
    INCLUDE_TRIES,
    INSTRUCTION_CHARS,
    INSTRUCTION_FILES,
    INSTRUCTION_TOTAL_BYTES,
    RULE_DEPTH,
    RULE_ENTRIES,
)
from memdir.project.git import find_root, is_tracked
from memdir.project.paths import ProjectPaths, read_claude_settings
from memdir.project.settings import Environment
from memdir.records import InboxItem, InboxKind, InboxState, Origin
from memdir.text import one_line, printable

if TYPE_CHECKING:
    from memdir.store.inbox import Inbox

__all__ = [
    "DISABLED",
    "Approved",
    "InstructionLayer",
    "LoadRefusal",
    "LoadedFile",
    "LoadedFiles",
    "NotLoadedReason",
    "PendingRule",
    "approve_none",
    "ask_approval",
    "find_approved",
    "join_blocks",
    "load_for_reads",
    "load_project_files",
    "render_block",
    "render_files",
]


# --- loaded ---
# What came of loading instruction files: each file with its text and why it is there, each refusal with its reason.
#
# Records and their rendering; nothing here touches a disk. The rendering has no date and no order of its own, so the
# same
# files give the same bytes.


class InstructionLayer(StrEnum):
    """Whose instructions they are, from the lowest to the highest."""

    MANAGED = "managed"
    USER = "user"
    USER_RULE = "user_rule"
    ABOVE = "above"
    PROJECT = "project"
    RULE = "rule"
    LOCAL = "local"

    @property
    def words(self) -> str:
        return _LAYERS[self]


class NotLoadedReason(StrEnum):
    """Every reason why a file is not loaded."""

    EXCLUDED = "excluded"
    WORKTREE = "worktree"
    OUTSIDE = "outside"
    SECRET = "secret"
    MISSING = "missing"
    FOLDER = "folder"
    SPECIAL = "special"
    NOT_TEXT = "not_text"
    TOO_LARGE = "too_large"
    TOO_DEEP = "too_deep"
    TOO_MANY = "too_many"
    CYCLE = "cycle"
    UNREADABLE = "unreadable"

    @property
    def words(self) -> str:
        return _REASONS[self]


_LAYERS = {
    InstructionLayer.MANAGED: "for everybody on this machine, from its administrator",
    InstructionLayer.USER: "the person's own, for every project",
    InstructionLayer.USER_RULE: "a rule of the person's own, for every project",
    InstructionLayer.ABOVE: "of a folder above the project",
    InstructionLayer.PROJECT: "of the project, shared by all who work on it",
    InstructionLayer.RULE: "a rule of the project, shared by all who work on it",
    InstructionLayer.LOCAL: "the person's own, for this project only",
}
_REASONS = {
    NotLoadedReason.EXCLUDED: "claudeMdExcludes names it",
    NotLoadedReason.WORKTREE: "the worktree has its own copy of what the repository around it checks in",
    NotLoadedReason.OUTSIDE: "it lies outside the project and waits for a person's approval",
    NotLoadedReason.SECRET: "it looks like a secret; no approval changes that",
    NotLoadedReason.MISSING: "there is no such file",
    NotLoadedReason.FOLDER: "it is a folder",
    NotLoadedReason.SPECIAL: "it is a device, a pipe, a socket or a file of the kernel",
    NotLoadedReason.NOT_TEXT: "it is not a text file",
    NotLoadedReason.TOO_LARGE: f"it is larger than {FILE_BYTES:,} bytes",
    NotLoadedReason.TOO_DEEP: f"it is included more than {INCLUDE_DEPTH} files deep",
    NotLoadedReason.TOO_MANY: f"the limits of one load are reached ({INSTRUCTION_FILES} files, and bytes and mentions alike)",
    NotLoadedReason.CYCLE: "it includes the file that includes it",
    NotLoadedReason.UNREADABLE: "it could not be read",
}


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """One file as a session is given it. `path` is where it was found, `real` where its links lead.

    `by` is the file that includes it, empty for one that is loaded for its place. `why` says it in words.
    """

    path: str
    real: str
    layer: InstructionLayer
    why: str
    text: str
    depth: int = 0
    by: str = ""

    @property
    def what(self) -> str:
        return f"{self.layer.words}; included by {self.by}" if self.by else self.layer.words

    @property
    def chars(self) -> int:
        return len(self.text)

    @property
    def bytes(self) -> int:
        return len(self.text.encode("utf-8", "replace"))

    @property
    def is_oversize(self) -> bool:
        return self.chars > INSTRUCTION_CHARS


@dataclass(frozen=True, slots=True)
class LoadRefusal:
    """A file that was asked for and not loaded; `by` says what asked. `real` is empty where nobody looked."""

    path: str
    reason: NotLoadedReason
    by: str
    real: str = ""


@dataclass(frozen=True, slots=True)
class PendingRule:
    """A rule that is loaded when a file is read that one of its patterns, relative to `base`, matches.

    `free` are approved folders outside the project that its links may lead to.
    """

    path: str
    real: str
    layer: InstructionLayer
    base: str
    paths: tuple[str, ...]
    globs: tuple[str, ...]
    free: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """All of one load, lowest first. `disabled` says what switched it off, empty if nothing did."""

    files: tuple[LoadedFile, ...] = ()
    refusals: tuple[LoadRefusal, ...] = ()
    pending: tuple[PendingRule, ...] = ()
    disabled: str = ""

    @property
    def asks(self) -> tuple[LoadRefusal, ...]:
        """What waits for a person's word."""
        return tuple(refusal for refusal in self.refusals if refusal.reason is NotLoadedReason.OUTSIDE)


def render_files(loaded: LoadedFiles) -> str:
    """The files as blocks, in order; empty when there are none."""
    return join_blocks(render_block(file.path, file.what, file.text) for file in loaded.files)


def render_block(path: str, what: str, text: str) -> str:
    """One block. A line break in a path cannot begin another, and no character of the text is an unseen one."""
    return f"Contents of {one_line(path)} ({one_line(what)}):\n\n{printable(text).strip()}\n"


def join_blocks(blocks: Iterable[str]) -> str:
    return "\n".join(blocks)


# --- kinds ---
# Is a file text: by its name, before it is opened, and by its bytes. Pure.
#
# An unknown ending is refused: what a model is given word for word should be something a person would read. A name
# without an ending (README, Makefile) is judged by its bytes alone.

_ENDINGS = frozenset(
    """
    md mdx mdc markdown mkd txt text rst adoc asciidoc org tex bib textile wiki pod
    json jsonc json5 jsonl ndjson yaml yml toml ini cfg conf config properties csv tsv xml xsd xsl xslt dtd svg plist
    env html htm xhtml css scss sass less styl vue svelte astro
    py pyi pyx ipynb js mjs cjs jsx ts mts cts tsx java kt kts scala groovy gradle clj cljs cljc edn
    c h cc cpp cxx hh hpp hxx m mm cs fs fsi fsx vb go rs swift d zig nim v vala cr jl r rmd lua pl pm t raku rb
    erb rake gemspec php phtml ex exs eex heex erl hrl elm hs lhs ml mli re rei rkt scm lisp el ss sml dart pas pp ada
    adb ads f f90 f95 for cob sol move cairo asm s wat cu glsl hlsl wgsl vert frag metal sv svh vhd vhdl tcl
    sh bash zsh fish ps1 psm1 psd1 bat cmd awk sed nu
    sql psql ddl graphql gql proto thrift avsc prisma tf hcl nix bzl bazel cmake mk mak make just dockerfile
    ejs hbs mustache jinja jinja2 j2 njk liquid pug haml slim tmpl tpl template example sample dist
    diff patch log lock editorconfig gitignore gitattributes gitmodules dockerignore npmignore eslintrc prettierrc
    babelrc nvmrc feature robot http rest
    """.split()
)
_BROKEN_SHARE = 0.02  # an old Latin-1 text in a Western language has less than this of letters that are no UTF-8


def has_text_name(path: str) -> bool:
    name = path.rpartition("/")[2]
    return "." not in name[1:] or name.rpartition(".")[2].casefold() in _ENDINGS


def decode_text(data: bytes) -> str | None:
    """The bytes as text, odd ones as U+FFFD; None when it is no text."""
    if b"\0" in data:
        return None
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return text if text.count("\ufffd") <= max(len(text) * _BROKEN_SHARE, 4) else None


# --- reading ---
# Looking at and reading one file whose path somebody else wrote.
#
# A path is judged by where it really leads, and then opened there: from the file system's root, one folder after
# the other, following no link. A link put in between the two steps makes the second one fail; it leads nowhere.
#
# It does not decide which files may be read; `loading` does, with what it learns here.

# O_PATH needs no right to list a folder, only to pass through it.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | guard.CLOEXEC
# Files of the kernel, which only look like files; and folders where a mere look can mount something from far away.
_KERNEL = ("/proc", "/sys", "/dev", "/net", "/afs")


@dataclass(frozen=True, slots=True)
class IncludeTarget:
    """Where a path leads, and why the file there cannot be read: None if nothing speaks against it yet."""

    real: str
    problem: NotLoadedReason | None = None


def find_include_target(path: str) -> IncludeTarget:
    """Where a path leads and what is there, without opening it."""
    plain = os.path.normpath(path)
    if is_kernel(plain):
        return IncludeTarget(plain, NotLoadedReason.SPECIAL)
    real = find_real(path)
    if real is None:
        return IncludeTarget(plain, NotLoadedReason.UNREADABLE)
    if is_kernel(real):
        return IncludeTarget(real, NotLoadedReason.SPECIAL)
    try:
        facts = os.lstat(real)
    except OSError as error:
        gone = error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
        return IncludeTarget(real, NotLoadedReason.MISSING if gone else NotLoadedReason.UNREADABLE)
    return IncludeTarget(real, _find_problem(facts))


def find_real(path: str) -> str | None:
    """A path with all its links followed; None for a chain without end, or one that changes under our eyes."""
    try:
        return os.path.realpath(path)
    except (OSError, RecursionError):
        return None


def read_bytes(real: str) -> bytes | NotLoadedReason:
    """The bytes of a regular file at a path without links, or why not; a larger one is not read to its end."""
    try:
        folder = os.open("/", _PASS)
        try:
            *folders, leaf = PurePosixPath(real).parts[1:]
            for name in folders:
                following = os.open(name, _PASS | guard.NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = following
            with guard.open_plain(folder, leaf, real) as handle:
                return _read_within(handle)
        finally:
            os.close(folder)
    except (OSError, PathError):
        return NotLoadedReason.UNREADABLE


def is_kernel(path: str) -> bool:
    return any(is_below(path, tree) for tree in _KERNEL)


def is_below(path: str, folder: str) -> bool:
    """Whether a path is the folder or lies in it; both without links."""
    return path == folder or path.startswith(os.path.join(folder, ""))


def _find_problem(facts: os.stat_result) -> NotLoadedReason | None:
    if stat.S_ISDIR(facts.st_mode):
        return NotLoadedReason.FOLDER
    if stat.S_ISLNK(facts.st_mode):
        return NotLoadedReason.UNREADABLE  # a link that still stands after all were followed leads in a circle
    if not stat.S_ISREG(facts.st_mode):
        return NotLoadedReason.SPECIAL
    return NotLoadedReason.TOO_LARGE if facts.st_size > FILE_BYTES else None


def _read_within(handle: int) -> bytes | NotLoadedReason:
    chunks: list[bytes] = []
    left = FILE_BYTES + 1
    while left > 0 and (chunk := os.read(handle, min(left, 65_536))):
        chunks.append(chunk)
        left -= len(chunk)
    return b"".join(chunks) if left > 0 else NotLoadedReason.TOO_LARGE


# --- ground ---
# The ground on which instruction files are looked for: the folders on the way, which of them count, what is excluded.
#
# Everything here is found once for a load, from the working directory and the settings files; no instruction file is
# opened.

EXCLUDES_KEY = "claudeMdExcludes"
_LOCAL = ".claude/settings.local.json"


@dataclass(frozen=True, slots=True)
class LoadContext:
    """Paths without links. `free` are the folders in which the project's files may include what they like.

    `outer` is the work tree of the repository around a worktree that is nested in it; empty elsewhere.
    """

    cwd: str
    top: str
    outer: str
    free: tuple[str, ...]
    home: str
    managed: str
    claude_home: str

    def list_folders(self) -> tuple[str, ...]:
        """From the root of the file system to the working directory."""
        return (*(str(folder) for folder in reversed(Path(self.cwd).parents)), self.cwd)

    def is_above(self, folder: str) -> bool:
        """Whether a folder is outside the project, on the way to it."""
        return not is_below(folder, self.top) and not (self.outer and is_below(folder, self.outer))

    def is_copied(self, folder: str) -> bool:
        """Whether what is checked in there is a second copy of what the worktree itself has."""
        return bool(self.outer) and is_below(folder, self.outer) and not is_below(folder, self.top)


@dataclass(frozen=True, slots=True)
class ExcludePatterns:
    """Patterns for whole paths. Those that came with a clone do not reach the person's own files."""

    own: tuple[str, ...] = ()
    committed: tuple[str, ...] = ()

    def has(self, layer: InstructionLayer, *paths: str) -> bool:
        if layer is InstructionLayer.MANAGED:
            return False
        committed = () if layer in (InstructionLayer.USER, InstructionLayer.USER_RULE) else self.committed
        return any(match_any((*self.own, *committed), path) for path in paths)


def make_load_context(environment: Environment, cwd: Path, root: Path) -> LoadContext:
    """`root` is the project's, as its memory is keyed by."""
    here = os.path.realpath(cwd)
    top = str(find_root(cwd, worktree="own").path)
    main = str(find_root(cwd).path)
    home = os.path.realpath(environment.home)
    # A home kept in git is nobody's project: else whatever lies below it could include all the rest.
    free = tuple(dict.fromkeys(folder for folder in (top, str(root)) if not is_below(home, folder))) or (here,)
    return LoadContext(
        cwd=here,
        top=top,
        # A bare repository has no work tree, so nothing around its worktrees is checked in.
        outer=main if main != top and is_below(top, main) and os.path.lexists(os.path.join(main, ".git")) else "",
        free=free,
        home=str(environment.home),
        managed=os.path.realpath(environment.managed_dir),
        claude_home=os.path.realpath(environment.claude_home),
    )


def read_excludes(environment: Environment, ground: LoadContext) -> ExcludePatterns:
    """`claudeMdExcludes` of all four settings files together; what is no list of texts counts for nothing."""
    top = Path(ground.top)
    claude = read_claude_settings(environment, top)
    local = tuple(_list_patterns(claude.local.get(EXCLUDES_KEY), ground.home))
    is_committed = bool(local) and is_tracked(top, _LOCAL)
    own = [*_list_patterns(claude.policy.get(EXCLUDES_KEY), ground.home), *(() if is_committed else local)]
    own += _list_patterns(claude.user.get(EXCLUDES_KEY), ground.home)
    committed = [*_list_patterns(claude.project.get(EXCLUDES_KEY), ground.home), *(local if is_committed else ())]
    return ExcludePatterns(expand_braces(own), expand_braces(committed))


def _list_patterns(value: object, home: str) -> Iterator[str]:
    """Only patterns for whole paths, as Claude Code compares them."""
    for pattern in value if isinstance(value, list) else ():
        if isinstance(pattern, str) and pattern.startswith(("/", "**", "~/")):
            yield f"{home}/{pattern[2:]}" if pattern.startswith("~/") else pattern


def find_nested(ground: LoadContext, files: Iterable[str]) -> tuple[str, ...]:
    """The folders below the working directory on the way to these files, outermost first, each once."""
    found: dict[str, None] = {}
    for file in files:
        parents = [str(parent) for parent in reversed(Path(file).parents)]
        found.update(dict.fromkeys(at for at in parents if at != ground.cwd and is_below(at, ground.cwd)))
    return tuple(sorted(found))


# --- loading ---
# One load: each file is looked at, judged, read and stripped; what it includes comes after it; all within one budget.
#
# Includes are followed breadth first, so a file that is named twice is loaded where it is nearest and a budget is
# spent
# on what the first files name; in the result each file stands before what it includes.
#
# The order of the judgement is the point of this room: what may not be read is not opened, and a person is asked about
#  a
# file outside the project only when nothing else speaks against it.

Approved = Callable[[Path], bool]
_OWN = (InstructionLayer.MANAGED, InstructionLayer.USER, InstructionLayer.USER_RULE)


@dataclass(frozen=True, slots=True)
class _Node:
    """A file on its way into the result: `free` is where its includes need no approval, `chain` who includes it."""

    file: LoadedFile
    free: tuple[str, ...]
    chain: tuple[str, ...]


class InstructionLoader:
    """Collects files, refusals and pending rules; nothing it is given makes it raise or run on without end."""

    def __init__(
        self, ground: LoadContext, excludes: ExcludePatterns, approved: Approved, *, seen: Iterable[str] = ()
    ) -> None:
        self._ground = ground
        self._excludes = excludes
        self._approved = approved
        self._seen = set(seen)
        self._awaited: set[str] = set()
        self._files: list[LoadedFile] = []
        self._refusals: dict[tuple[str, NotLoadedReason], LoadRefusal] = {}
        self._pending: list[PendingRule] = []
        self._tries = INCLUDE_TRIES
        self._bytes = INSTRUCTION_TOTAL_BYTES
        self._count = 0

    def finish(self) -> LoadedFiles:
        loaded = {file.real for file in self._files}
        refusals = (
            at for at in self._refusals.values() if at.reason is not NotLoadedReason.TOO_DEEP or at.real not in loaded
        )
        return LoadedFiles(tuple(self._files), tuple(refusals), tuple(self._pending))

    def add_file(self, path: str, layer: InstructionLayer, why: str, *, free: tuple[str, ...] = ()) -> None:
        """A file that is loaded for its place, and what it includes; nothing if there is none."""
        if os.path.lexists(path):
            node = self._admit_direct(path, layer, why, free)
            if node is not None:
                self._grow(node)

    def add_rules(self, folder: str, layer: InstructionLayer, base: str, why: str) -> None:
        """The rules below a folder: those for every file at once, the others to wait for theirs."""
        for path, free in self._list_rules(folder, layer, why):
            node = self._admit_direct(path, layer, why, free)
            if node is None:
                continue
            rule = parse_rule(node.file.text)
            if rule.paths:
                self._await(PendingRule(path, node.file.real, layer, base, rule.paths, rule.globs, free))
            else:
                self._grow(_with_text(node, rule.body))

    def add_pending(self, rule: PendingRule, why: str) -> None:
        """A rule whose time has come."""
        node = self._admit_direct(rule.path, rule.layer, why, rule.free)
        if node is not None:
            self._grow(_with_text(node, parse_rule(node.file.text).body))

    def refuse(self, path: str, reason: NotLoadedReason, by: str, real: str = "") -> None:
        plain = os.path.normpath(path)
        self._refusals.setdefault((plain, reason), LoadRefusal(plain, reason, by, real))

    def _await(self, rule: PendingRule) -> None:
        """Keep a rule for later. It was read for its head only, so it counts as not loaded."""
        self._seen.discard(rule.real)
        self._count -= 1
        if rule.real not in self._awaited:
            self._awaited.add(rule.real)
            self._pending.append(rule)

    def _admit_direct(self, path: str, layer: InstructionLayer, why: str, more: tuple[str, ...]) -> _Node | None:
        target = find_include_target(path)
        if target.real in self._seen:
            return None
        free = ("/",) if layer in _OWN else (*self._ground.free, *more)
        is_linked = target.real != path
        reason = self._judge(path, target, layer, free, is_named=is_linked)
        text = self._read(target.real, is_named=is_linked) if reason is None else reason
        if isinstance(text, NotLoadedReason):
            self.refuse(path, text, why, target.real)
            return None
        file = LoadedFile(path, target.real, layer, why, text)
        return _Node(file, ("/",) if layer in _OWN else self._ground.free, (target.real,))

    def _judge(
        self, path: str, target: IncludeTarget, layer: InstructionLayer, free: tuple[str, ...], *, is_named: bool
    ) -> NotLoadedReason | None:
        """Why a file may not be opened. `is_named`: a link or an include says where it is, not its place."""
        if self._excludes.has(layer, os.path.normpath(path), target.real):
            return NotLoadedReason.EXCLUDED
        if is_named and (looks_secret(path) or looks_secret(target.real)):
            return NotLoadedReason.SECRET
        if target.problem is not None:
            return target.problem
        if not has_text_name(target.real):
            return NotLoadedReason.NOT_TEXT
        if is_named and not any(is_below(target.real, folder) for folder in free):
            return None if self._approved(Path(target.real)) else NotLoadedReason.OUTSIDE
        return None

    def _read(self, real: str, *, is_named: bool) -> str | NotLoadedReason:
        if self._count >= INSTRUCTION_FILES or self._bytes <= 0:
            return NotLoadedReason.TOO_MANY
        data = read_bytes(real)
        if isinstance(data, NotLoadedReason):
            return data
        self._bytes -= len(data)
        if self._bytes < 0:
            return NotLoadedReason.TOO_MANY
        text = decode_text(data)
        if text is None:
            return NotLoadedReason.NOT_TEXT
        if holds_secret(text) if is_named else holds_key(text):
            return NotLoadedReason.SECRET
        self._seen.add(real)
        self._count += 1
        return strip_comments(text)

    def _grow(self, root: _Node) -> None:
        """Put a file and all it includes into the result, each before its own includes."""
        children: dict[str, list[_Node]] = {}
        waiting = deque([root])
        while waiting:
            node = waiting.popleft()
            found = [child for at in self._spend(node) if (child := self._include(node, at)) is not None]
            children[node.file.real] = found
            waiting.extend(found)
        stack = [root]
        while stack:
            node = stack.pop()
            self._files.append(node.file)
            stack.extend(reversed(children[node.file.real]))

    def _spend(self, node: _Node) -> Iterator[IncludeMention]:
        """The mentions of a file, as long as the budget lasts; the first one beyond it is refused by name."""
        for mention in find_mentions(node.file.text):
            if self._tries <= 0:
                self.refuse(self._resolve(node, mention.spellings[0]), NotLoadedReason.TOO_MANY, node.file.path)
                return
            self._tries -= 1
            yield mention

    def _include(self, node: _Node, mention: IncludeMention) -> _Node | None:
        path, target = self._choose(node, mention)
        if target is None:
            self.refuse(path, NotLoadedReason.SECRET, node.file.path)
            return None
        if target.problem is NotLoadedReason.MISSING and not mention.is_path:
            return None
        if target.real in self._seen:
            if target.real in node.chain:
                self.refuse(path, NotLoadedReason.CYCLE, node.file.path, target.real)
            return None
        reason = self._judge(path, target, node.file.layer, node.free, is_named=True)
        if reason is None and node.file.depth >= INCLUDE_DEPTH:
            reason = NotLoadedReason.TOO_DEEP
        text = self._read(target.real, is_named=True) if reason is None else reason
        if isinstance(text, NotLoadedReason):
            self.refuse(path, text, node.file.path, target.real)
            return None
        why = f"included by {node.file.path}"
        plain = os.path.normpath(path)
        file = LoadedFile(plain, target.real, node.file.layer, why, text, node.file.depth + 1, node.file.path)
        return _Node(file, self._find_free(file), (*node.chain, target.real))

    def _choose(self, node: _Node, mention: IncludeMention) -> tuple[str, IncludeTarget | None]:
        """The spelling that leads to something, else the last; no target for a path that must not even be looked at."""
        path, target = "", None
        for spelling in mention.spellings:
            path = self._resolve(node, spelling)
            if looks_secret(path):
                return path, None
            target = find_include_target(path)
            if target.problem is not NotLoadedReason.MISSING:
                break
        return path, target

    def _resolve(self, node: _Node, spelling: str) -> str:
        return resolve_include(spelling, os.path.dirname(node.file.real), self._ground.home)

    def _find_free(self, file: LoadedFile) -> tuple[str, ...]:
        """What a person's own file names is the person's choice; what such a file names in turn is not, elsewhere."""
        if file.layer not in _OWN:
            return self._ground.free
        own = self._ground.managed if file.layer is InstructionLayer.MANAGED else self._ground.claude_home
        return ("/",) if is_below(file.real, own) else (own, os.path.dirname(file.real))

    def _list_rules(self, folder: str, layer: InstructionLayer, why: str) -> list[tuple[str, tuple[str, ...]]]:
        """Every rule file below a folder, by name, with the folders that its links may lead to."""
        found: list[tuple[str, tuple[str, ...]]] = []
        left = RULE_ENTRIES
        waiting: list[tuple[str, int, tuple[str, ...]]] = [(folder, 0, ())]
        visited: set[str] = set()
        while waiting:
            path, depth, allowed = waiting.pop()
            real = find_real(path)
            if real is None or real in visited or not os.path.isdir(real):
                continue
            visited.add(real)
            free = self._find_rule_free(path, real, layer, allowed)
            if isinstance(free, NotLoadedReason):
                self.refuse(path, free, why, real)
                continue
            names = _list_names(real, left)
            left -= len(names) or 1
            for name in names:
                if name.startswith("."):
                    continue
                if name.endswith(".md"):
                    found.append((os.path.join(path, name), free))
                elif depth < RULE_DEPTH and left > 0:
                    waiting.append((os.path.join(path, name), depth + 1, free))
        if left <= 0:
            self.refuse(folder, NotLoadedReason.TOO_MANY, why)
        return sorted(found)

    def _find_rule_free(
        self, path: str, real: str, layer: InstructionLayer, allowed: tuple[str, ...]
    ) -> tuple[str, ...] | NotLoadedReason:
        """The folders outside the project that rules in this one may lie in, or why it is not looked into."""
        if layer in _OWN:
            return ("/",)
        if is_kernel(real):
            return NotLoadedReason.SPECIAL
        if path != real and looks_secret(os.path.join(real, "rules.md")):
            return NotLoadedReason.SECRET
        if path == real or any(is_below(real, at) for at in (*self._ground.free, *allowed)):
            return allowed
        return (real,) if self._approved(Path(real)) else NotLoadedReason.OUTSIDE


def _with_text(node: _Node, text: str) -> _Node:
    file = node.file
    return _Node(LoadedFile(file.path, file.real, file.layer, file.why, text), node.free, node.chain)


def _list_names(folder: str, limit: int) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, max(limit, 0)))
    except OSError:
        return []


# --- project_files ---

DISABLED = "CLAUDE_CODE_DISABLE_CLAUDE_MDS"


def approve_none(_: Path) -> bool:
    """The answer where nobody can be asked."""
    return False


def load_project_files(
    environment: Environment, places: ProjectPaths, cwd: Path, *, approved: Approved = approve_none
) -> LoadedFiles:
    """Everything a session starts with. `approved` is asked, by real path, about files outside the project."""
    if environment.disable_claude_mds:
        return LoadedFiles(disabled=DISABLED)
    ground = make_load_context(environment, cwd, places.root.path)
    load = InstructionLoader(ground, read_excludes(environment, ground), approved)
    why = "it lies in the machine's managed folder"
    load.add_file(os.path.join(ground.managed, "CLAUDE.md"), InstructionLayer.MANAGED, why)
    why = "it lies in the person's own folder of Claude Code"
    load.add_file(os.path.join(ground.claude_home, "CLAUDE.md"), InstructionLayer.USER, why)
    load.add_rules(os.path.join(ground.claude_home, "rules"), InstructionLayer.USER_RULE, ground.top, why)
    for folder in ground.list_folders():
        why = f"it lies in {'the working directory' if folder == ground.cwd else folder}"
        _add_folder(load, ground, folder, why)
    return load.finish()


def load_for_reads(
    environment: Environment,
    places: ProjectPaths,
    cwd: Path,
    files: Sequence[Path],
    loaded: LoadedFiles,
    *,
    approved: Approved = approve_none,
) -> LoadedFiles:
    """What reading these files adds: rules whose `paths:` match, and the files of folders on the way to them."""
    if loaded.disabled:
        return LoadedFiles(disabled=loaded.disabled)
    ground = make_load_context(environment, cwd, places.root.path)
    seen = [file.real for file in loaded.files]
    load = InstructionLoader(ground, read_excludes(environment, ground), approved, seen=seen)
    paths = [_find_place(ground.cwd, file) for file in files]
    _add_matching(load, loaded.pending, paths)
    known = len(load.finish().pending)
    for folder in find_nested(ground, paths):
        _add_folder(load, ground, folder, f"a file below {folder} was read")
    _add_matching(load, load.finish().pending[known:], paths)
    return load.finish()


def _add_folder(load: InstructionLoader, ground: LoadContext, folder: str, why: str) -> None:
    """The files of one folder; around a nested worktree only those that the worktree has no copy of."""
    above = ground.is_above(folder)
    shared = [os.path.join(folder, name) for name in ("CLAUDE.md", ".claude/CLAUDE.md", ".claude/rules")]
    if ground.is_copied(folder):
        for path in filter(os.path.lexists, shared):
            load.refuse(path, NotLoadedReason.WORKTREE, why)
    else:
        for path in shared[:2]:
            load.add_file(path, InstructionLayer.ABOVE if above else InstructionLayer.PROJECT, why)
        load.add_rules(shared[2], InstructionLayer.ABOVE if above else InstructionLayer.RULE, folder, why)
    load.add_file(os.path.join(folder, "CLAUDE.local.md"), InstructionLayer.LOCAL, why)


def _add_matching(load: InstructionLoader, rules: Sequence[PendingRule], paths: Sequence[str]) -> None:
    for rule in rules:
        for path in paths:
            if is_below(path, rule.base) and (glob := match_any(rule.globs, os.path.relpath(path, rule.base))):
                load.add_pending(rule, f"{path} was read, and `{glob}` matches it")
                break


def _find_place(cwd: str, file: Path) -> str:
    """A file's path with the links of its folders followed, as the ground's own paths are."""
    path = os.path.join(cwd, file)
    return os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))


# --- asking ---
# Files outside the project wait in the inbox until a person has said yes or no, once for each file.
#
# An item is known by the file's real path, so a link that is later turned elsewhere asks again. A clone can fill the
# inbox only so far: beyond a few new questions in one load, a file stays refused without asking.

KEY = "include:"


def find_approved(store: "Inbox") -> Approved:
    """What a person has allowed so far; the inbox is read once, when first asked."""
    keys: list[frozenset[str]] = []

    def approved(path: Path) -> bool:
        if not keys:
            keys.append(frozenset(item.key for item in store.inbox(InboxState.APPROVED)))
        return f"{KEY}{path}" in keys[0]

    return approved


def ask_approval(
    store: "Inbox", refusals: Iterable[LoadRefusal], now: datetime, *, session: str = ""
) -> tuple[InboxItem, ...]:
    """Put what is asked for the first time into the inbox; answers what now waits for these files, new or not."""
    wanted = {f"{KEY}{refusal.real}": refusal for refusal in refusals if refusal.real}
    if not wanted:
        return ()
    known = {item.key: item for item in store.inbox(None)}
    fresh = [key for key in wanted if key not in known][:INCLUDE_ASKS]
    waiting = [item for key in wanted if (item := known.get(key)) and item.state is InboxState.WAITING]
    made = store.inbox_add([_make_item(key, wanted[key], now, session) for key in fresh]) if fresh else ()
    return (*waiting, *made)


def _make_item(key: str, refusal: LoadRefusal, now: datetime, session: str) -> InboxItem:
    return InboxItem(
        InboxKind.APPROVAL,
        title=f"May {one_line(refusal.real)} be read? It lies outside the project.",
        why=f"asked for by {one_line(refusal.by)}; once allowed, every session here gives it to its model",
        at=now,
        key=key,
        origin=Origin("instructions", "an instruction file names it", session),
        payload={"path": refusal.path, "real": refusal.real, "by": refusal.by},
    )
