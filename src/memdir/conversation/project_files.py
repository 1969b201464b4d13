"""Load the instruction files of a session, such as CLAUDE.md, in order, and report which are not loaded and why.

From the lowest to the highest precedence:

    managed    CLAUDE.md in the machine's managed folder
    user       CLAUDE.md and rules/**/*.md in Claude Code's folder
    project    from / down to the working directory, in each folder: CLAUDE.md, .claude/CLAUDE.md,
               .claude/rules/**/*.md, and CLAUDE.local.md
    (the memory's index comes last and is not loaded here)

Instruction files come with a clone, so all of them are untrusted: every step is bounded, and a path is checked by its link
target. A file that may not be read is not opened, and the user is asked about a file outside the project (in the inbox, once
per real path) only if there is no other reason to refuse it. Parsing without disk access is in includes.
"""

import errno
import os
import re
import stat
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from memdir import files as guard
from memdir import limits
from memdir.conversation.includes import (
    expand_braces,
    find_mentions,
    holds_key,
    holds_secret,
    looks_secret,
    match_any,
    parse_rule,
    strip_comments,
)
from memdir.errors import PathError
from memdir.format.shown import TextVoice, show_line, show_text
from memdir.frozen import dataclass, replace
from memdir.project.paths import ProjectPaths, find_root, is_tracked, read_claude_settings
from memdir.project.settings import Environment
from memdir.records import InboxItem, InboxKind, InboxState, Origin, SkipReason
from memdir.text import one_line

if TYPE_CHECKING:
    from memdir.store.inbox import Inbox

DISABLED = "CLAUDE_CODE_DISABLE_CLAUDE_MDS"
KEY = "include:"  # prefix of the keys in the inbox
# O_PATH needs no permission to list a folder, only to traverse it.
_PASS = getattr(os, "O_PATH", os.O_RDONLY) | getattr(os, "O_DIRECTORY", 0) | guard.CLOEXEC
# Kernel files, and folders where a lookup can mount a remote file system.
_KERNEL = ("/proc", "/sys", "/dev", "/net", "/afs")
_BROKEN_SHARE = 0.02  # a Latin-1 text in a Western language has a smaller share of bytes that are not UTF-8
Approved = Callable[[Path], bool]


class InstructionLayer(SkipReason):
    """The sources of instruction files, from lowest to highest precedence."""

    MANAGED = "managed", "for all users of this machine, from its administrator"
    USER = "user", "the user's own, for every project"
    USER_RULE = "user_rule", "the user's own rule, for every project"
    ABOVE = "above", "from a folder above the project"
    PROJECT = "project", "from the project, shared with everybody who works on it"
    RULE = "rule", "a project rule, shared with everybody who works on it"
    LOCAL = "local", "the user's own, for this project only"


class NotLoadedReason(SkipReason):
    EXCLUDED = "excluded", "excluded by claudeMdExcludes"
    WORKTREE = "worktree", "the worktree has its own copy of the files of the repository around it"
    OUTSIDE = "outside", "outside the project; needs your approval"
    SECRET = "secret", "looks like a secret, and cannot be approved"
    MISSING = "missing", "not found"
    FOLDER = "folder", "is a folder"
    SPECIAL = "special", "is a device, a pipe, a socket or a kernel file"
    NOT_TEXT = "not_text", "is not a text file"
    TOO_LARGE = "too_large", f"is larger than {limits.FILE_BYTES:,} bytes"
    TOO_DEEP = "too_deep", f"is included more than {limits.INCLUDE_DEPTH} files deep"
    TOO_MANY = (
        "too_many",
        f"a limit is reached ({limits.INSTRUCTION_FILES} files, or the limit for bytes or mentions)",
    )
    CYCLE = "cycle", "includes the file that includes it"
    UNREADABLE = "unreadable", "cannot be read"


_OWN = (InstructionLayer.MANAGED, InstructionLayer.USER, InstructionLayer.USER_RULE)


@dataclass(frozen=True, slots=True)
class LoadedFile:
    """A loaded file. `real` is its resolved path and `by` the file that includes it, or ""."""

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
    def is_oversize(self) -> bool:
        return len(self.text) > limits.INSTRUCTION_CHARS


@dataclass(frozen=True, slots=True)
class LoadRefusal:
    path: str
    reason: NotLoadedReason
    by: str
    real: str = ""


@dataclass(frozen=True, slots=True)
class PendingRule:
    """A rule that applies only to files below `base` that match its patterns."""

    path: str
    real: str
    layer: InstructionLayer
    base: str
    paths: tuple[str, ...]
    globs: tuple[str, ...]
    free: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LoadedFiles:
    """The result of a load, from lowest to highest precedence. `disabled` is the setting that turns loading off."""

    files: tuple[LoadedFile, ...] = ()
    refusals: tuple[LoadRefusal, ...] = ()
    pending: tuple[PendingRule, ...] = ()
    disabled: str = ""

    @property
    def asks(self) -> tuple[LoadRefusal, ...]:
        """Return the refused files that the user could approve."""
        return tuple(refusal for refusal in self.refusals if refusal.reason is NotLoadedReason.OUTSIDE)


def load_project_files(
    environment: Environment, paths: ProjectPaths, cwd: Path, *, approved: Approved = lambda _: False
) -> LoadedFiles:
    """Load the files for the start of a session. `approved` decides about files outside the project."""
    if environment.disable_claude_mds:
        return LoadedFiles(disabled=DISABLED)
    context = make_load_context(environment, cwd, paths.root.path)
    loader = InstructionLoader(context, approved)
    machine, own = "it is in the machine's managed folder", "it is in your Claude Code folder"
    loader.add_file(os.path.join(context.managed, "CLAUDE.md"), InstructionLayer.MANAGED, machine)
    loader.add_file(os.path.join(context.claude_home, "CLAUDE.md"), InstructionLayer.USER, own)
    loader.add_rules(os.path.join(context.claude_home, "rules"), InstructionLayer.USER_RULE, context.top, own)
    for folder in (*map(str, reversed(Path(context.cwd).parents)), context.cwd):
        why = f"it is in {'the working directory' if folder == context.cwd else folder}"
        _add_folder(loader, context, folder, why)
    return loader.finish()


def load_for_reads(
    environment: Environment,
    paths: ProjectPaths,
    cwd: Path,
    files: Sequence[Path],
    loaded: LoadedFiles,
    *,
    approved: Approved = lambda _: False,
) -> LoadedFiles:
    """Load the rules and instruction files that apply once an agent reads `files`."""
    if loaded.disabled:
        return LoadedFiles(disabled=loaded.disabled)
    context = make_load_context(environment, cwd, paths.root.path)
    loader = InstructionLoader(context, approved, seen=[file.real for file in loaded.files])
    # Links of folders are followed, as in the paths of the context.
    parts = [os.path.split(os.path.join(context.cwd, file)) for file in files]
    read_paths = [os.path.join(os.path.realpath(folder), name) for folder, name in parts]
    _add_matching(loader, loaded.pending, read_paths)
    pending = len(loader.finish().pending)
    nested = {str(parent) for file in read_paths for parent in Path(file).parents if is_below(str(parent), context.cwd)}
    for folder in sorted(nested - {context.cwd}):
        _add_folder(loader, context, folder, f"a file below {folder} was read")
    _add_matching(loader, loader.finish().pending[pending:], read_paths)
    return loader.finish()


def render_files(loaded: LoadedFiles) -> str:
    """Render the files as blocks in order, or return "" if there are none."""
    # A line break in a path cannot begin another block.
    return "\n".join(
        f"Contents of {show_line(file.path)} ({show_line(file.what)}):\n\n{show_text(file.text, TextVoice.FILE).strip()}\n"
        for file in loaded.files
    )


def find_approved(store: "Inbox") -> Approved:
    """Return a function that tells whether the user approved a path. Its first call reads the inbox."""
    keys: list[frozenset[str]] = []

    def approved(path: Path) -> bool:
        if not keys:
            keys.append(frozenset(item.key for item in store.inbox(InboxState.APPROVED)))
        return f"{KEY}{path}" in keys[0]

    return approved


def ask_approval(
    store: "Inbox", refusals: Iterable[LoadRefusal], now: datetime, *, session: str = ""
) -> tuple[InboxItem, ...]:
    """Add requests for approval to the inbox. Return all pending ones for these files."""
    by_key = {f"{KEY}{refusal.real}": refusal for refusal in refusals if refusal.real}
    if not by_key:
        return ()
    items = {item.key: item for item in store.inbox(None)}
    waiting = [item for key in by_key if (item := items.get(key)) and item.state is InboxState.WAITING]
    new = [
        InboxItem(
            InboxKind.APPROVAL,
            title=f"May {one_line(refusal.real)} be read? It is outside the project.",
            why=f"requested by {one_line(refusal.by)}; if you approve, every session here sends it to its model",
            at=now,
            key=key,
            origin=Origin("instructions", "an instruction file names it", session),
            payload={"path": refusal.path, "real": refusal.real, "by": refusal.by},
        )
        for key, refusal in islice(
            ((key, refusal) for key, refusal in by_key.items() if key not in items), limits.INCLUDE_ASKS
        )
    ]
    return (*waiting, *(store.inbox_add(new) if new else ()))


def _add_folder(loader: "InstructionLoader", context: "LoadContext", folder: str, why: str) -> None:
    """Add the instruction files of one folder. Skips files that a nested worktree also contains."""
    shared = [os.path.join(folder, name) for name in ("CLAUDE.md", ".claude/CLAUDE.md", ".claude/rules")]
    is_above, is_outer = not is_below(folder, context.top), bool(context.outer) and is_below(folder, context.outer)
    if is_above and is_outer:
        for path in filter(os.path.lexists, shared):
            loader.refuse(path, NotLoadedReason.WORKTREE, why)
    else:
        for path in shared[:2]:
            loader.add_file(path, InstructionLayer.ABOVE if is_above else InstructionLayer.PROJECT, why)
        loader.add_rules(shared[2], InstructionLayer.ABOVE if is_above else InstructionLayer.RULE, folder, why)
    loader.add_file(os.path.join(folder, "CLAUDE.local.md"), InstructionLayer.LOCAL, why)


def _add_matching(loader: "InstructionLoader", rules: Sequence[PendingRule], paths: Sequence[str]) -> None:
    for rule in rules:
        below = ((path, os.path.relpath(path, rule.base)) for path in paths if is_below(path, rule.base))
        if match := next(((path, glob) for path, relative in below if (glob := match_any(rule.globs, relative))), None):
            loader.add_pending(rule, f"{match[0]} was read, and `{match[1]}` matches it")


@dataclass(frozen=True, slots=True)
class LoadContext:
    """The resolved paths for a load, and the patterns of excluded files.

    `top` is the work tree, and `outer` another repository around it, if any. Files in the folders `free` need no
    approval. `excludes` are the user's patterns, and `committed` the patterns in the project's repository.
    """

    cwd: str
    top: str
    outer: str
    free: tuple[str, ...]
    home: str
    managed: str
    claude_home: str
    excludes: tuple[str, ...]
    committed: tuple[str, ...]

    def has_excluded(self, layer: InstructionLayer, *paths: str) -> bool:
        patterns = self.excludes if layer in _OWN else (*self.excludes, *self.committed)
        return layer is not InstructionLayer.MANAGED and any(match_any(patterns, path) for path in paths)


def make_load_context(environment: Environment, cwd: Path, root: Path) -> LoadContext:
    """Return the paths and exclusion patterns for a load below `root`."""
    real_cwd = os.path.realpath(cwd)
    top, main = str(find_root(cwd, worktree="own").path), str(find_root(cwd).path)
    home = os.path.realpath(environment.home)
    # A home directory in git is not a project; otherwise every file below it could include all others.
    free = tuple(dict.fromkeys(folder for folder in (top, str(root)) if not is_below(home, folder))) or (real_cwd,)

    def list_patterns(table: Mapping[str, object]) -> list[str]:
        value = table.get("claudeMdExcludes")
        patterns = [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
        homed = (f"{environment.home}/{pattern[2:]}" if pattern.startswith("~/") else pattern for pattern in patterns)
        return [pattern for pattern in homed if pattern.startswith(("/", "**"))]

    claude = read_claude_settings(environment, Path(top))
    own, local = [*list_patterns(claude.policy), *list_patterns(claude.user)], list_patterns(claude.local)
    is_committed = bool(local) and is_tracked(Path(top), ".claude/settings.local.json")
    return LoadContext(
        cwd=real_cwd,
        top=top,
        # A bare repository has no work tree around its worktrees.
        outer=main if main != top and is_below(top, main) and os.path.lexists(os.path.join(main, ".git")) else "",
        free=free,
        home=str(environment.home),
        managed=os.path.realpath(environment.managed_dir),
        claude_home=os.path.realpath(environment.claude_home),
        excludes=expand_braces([*own, *([] if is_committed else local)]),
        committed=expand_braces([*list_patterns(claude.project), *(local if is_committed else [])]),
    )


@dataclass(frozen=True, slots=True)
class _QueuedFile:
    """A file to load. `chain` lists the files that include it."""

    file: LoadedFile
    free: tuple[str, ...]
    chain: tuple[str, ...]


class InstructionLoader:
    """Collect files, refusals and pending rules. Limits apply to any input, and no input raises an error.

    Includes are followed breadth first, so a file named twice is loaded at its lowest depth.
    """

    def __init__(self, context: LoadContext, approved: Approved, *, seen: Iterable[str] = ()) -> None:
        self._context, self._approved, self._seen = context, approved, set(seen)
        self._files: list[LoadedFile] = []
        self._refusals: dict[tuple[str, NotLoadedReason], LoadRefusal] = {}
        self._pending: dict[str, PendingRule] = {}
        self._tries, self._bytes, self._count = limits.INCLUDE_TRIES, limits.INSTRUCTION_TOTAL_BYTES, 0

    def finish(self) -> LoadedFiles:
        loaded, deep = {file.real for file in self._files}, NotLoadedReason.TOO_DEEP
        refusals = tuple(
            refusal for refusal in self._refusals.values() if refusal.reason is not deep or refusal.real not in loaded
        )
        return LoadedFiles(tuple(self._files), refusals, tuple(self._pending.values()))

    def add_file(self, path: str, layer: InstructionLayer, why: str) -> None:
        """Add the file at a standard location with its includes. Missing files are ignored."""
        if os.path.lexists(path) and (node := self._open_direct(path, layer, why, ())) is not None:
            self._add_with_includes(node)

    def add_rules(self, folder: str, layer: InstructionLayer, base: str, why: str) -> None:
        """Add the rules in a folder. Those with patterns remain pending."""
        for path, free in self._list_rules(folder, layer, why):
            if (node := self._open_direct(path, layer, why, free)) is None:
                continue
            real, rule = node.file.real, parse_rule(node.file.text)
            if rule.paths:  # only its frontmatter was read, so do not count it as loaded
                self._seen.discard(real)
                self._count -= 1
                self._pending.setdefault(real, PendingRule(path, real, layer, base, rule.paths, rule.globs, free))
            else:
                self._add_with_includes(replace(node, file=replace(node.file, text=rule.body)))

    def add_pending(self, rule: PendingRule, why: str) -> None:
        if (node := self._open_direct(rule.path, rule.layer, why, rule.free)) is not None:
            self._add_with_includes(replace(node, file=replace(node.file, text=parse_rule(node.file.text).body)))

    def refuse(self, path: str, reason: NotLoadedReason, by: str, real: str = "") -> None:
        plain = os.path.normpath(path)
        self._refusals.setdefault((plain, reason), LoadRefusal(plain, reason, by, real))

    def _open_direct(self, path: str, layer: InstructionLayer, why: str, more: tuple[str, ...]) -> _QueuedFile | None:
        real, problem = find_include_target(path)
        if real in self._seen:
            return None
        free = ("/",) if layer in _OWN else self._context.free
        is_linked = real != path
        reason = self._find_refusal(path, real, layer, (*free, *more), is_named=is_linked, problem=problem)
        text = self._read(path, real, why, reason, is_named=is_linked)
        return None if text is None else _QueuedFile(LoadedFile(path, real, layer, why, text), free, (real,))

    def _find_refusal(
        self, path: str, real: str, layer: InstructionLayer, free: tuple[str, ...], *,
        is_named: bool, problem: NotLoadedReason | None,
    ) -> NotLoadedReason | None:  # fmt: skip
        """Return why a file may not be opened, or None. `is_named` means that a link or an include points to it."""
        if self._context.has_excluded(layer, os.path.normpath(path), real):
            return NotLoadedReason.EXCLUDED
        if is_named and (looks_secret(path) or looks_secret(real)):
            return NotLoadedReason.SECRET
        is_free = not is_named or any(is_below(real, folder) for folder in free)
        return problem or (None if is_free or self._approved(Path(real)) else NotLoadedReason.OUTSIDE)

    def _read(self, path: str, real: str, by: str, reason: NotLoadedReason | None, *, is_named: bool) -> str | None:
        is_full = self._count >= limits.INSTRUCTION_FILES or self._bytes <= 0
        data = reason or (NotLoadedReason.TOO_MANY if is_full else read_bytes(real))
        if isinstance(data, bytes):
            self._bytes -= len(data)
            text = decode_text(data)
            if self._bytes < 0:
                data = NotLoadedReason.TOO_MANY
            elif text is None:
                data = NotLoadedReason.NOT_TEXT
            elif holds_secret(text) if is_named else holds_key(text):
                data = NotLoadedReason.SECRET
            else:
                self._seen.add(real)
                self._count += 1
                return strip_comments(text)
        self.refuse(path, data, by, real)
        return None

    def _add_with_includes(self, root: _QueuedFile) -> None:
        """Add a file with all its includes to the result. Includes come first."""
        children: dict[str, list[_QueuedFile]] = {}
        waiting = deque([root])
        while waiting:
            node = waiting.popleft()
            included = [child for mention in self._list_mentions(node) if (child := self._include(node, mention))]
            children[node.file.real] = included
            waiting.extend(included)
        stack = [root]
        while stack:
            node = stack.pop()
            self._files.append(node.file)
            stack.extend(reversed(children[node.file.real]))

    def _list_mentions(self, node: _QueuedFile) -> Iterator[tuple[str, ...]]:
        """Yield the includes of a file up to the limit. The first one beyond it is recorded as refused."""
        for mention in find_mentions(node.file.text):
            if self._tries <= 0:
                self.refuse(self._resolve(node, mention[0]), NotLoadedReason.TOO_MANY, node.file.path)
                return
            self._tries -= 1
            yield mention

    def _include(self, node: _QueuedFile, spellings: tuple[str, ...]) -> _QueuedFile | None:
        by, layer = node.file.path, node.file.layer
        path, real, problem = "", "", None
        for spelling in spellings:  # use the first path that exists, or else the last path
            path = self._resolve(node, spelling)
            if looks_secret(path):  # do not even check whether it exists
                self.refuse(path, NotLoadedReason.SECRET, by)
                return None
            real, problem = find_include_target(path)
            if problem is not NotLoadedReason.MISSING:
                break
        if problem is NotLoadedReason.MISSING and not re.search(r"[/.]", spellings[-1]):
            return None  # `@name` may be a mention of a person
        if real in self._seen:
            if real in node.chain:
                self.refuse(path, NotLoadedReason.CYCLE, by, real)
            return None
        reason = self._find_refusal(path, real, layer, node.free, is_named=True, problem=problem)
        if reason is None and node.file.depth >= limits.INCLUDE_DEPTH:
            reason = NotLoadedReason.TOO_DEEP
        if (text := self._read(path, real, by, reason, is_named=True)) is None:
            return None
        free = self._context.free
        if layer in _OWN:  # files of the user may include any file, but files included from elsewhere may not
            own = self._context.managed if layer is InstructionLayer.MANAGED else self._context.claude_home
            free = ("/",) if is_below(real, own) else (own, os.path.dirname(real))
        file = LoadedFile(os.path.normpath(path), real, layer, f"included by {by}", text, node.file.depth + 1, by)
        return _QueuedFile(file, free, (*node.chain, real))

    def _resolve(self, node: _QueuedFile, spelling: str) -> str:
        """Return the absolute path of an `@path` in a file. Links and `..` are not resolved."""
        if spelling.startswith("~/"):
            return os.path.join(self._context.home, spelling[2:].lstrip("/"))
        return os.path.join(os.path.dirname(node.file.real), spelling)

    def _list_rules(self, folder: str, layer: InstructionLayer, why: str) -> list[tuple[str, tuple[str, ...]]]:
        """Return the rule files below a folder by name, with the folders their links may point to."""
        rules: list[tuple[str, tuple[str, ...]]] = []
        remaining = limits.RULE_ENTRIES
        waiting: list[tuple[str, int, tuple[str, ...]]] = [(folder, 0, ())]
        visited: set[str] = set()
        while waiting:
            path, depth, allowed = waiting.pop()
            real = find_real(path)
            if real is None or real in visited or not os.path.isdir(real):
                continue
            visited.add(real)
            free = self._find_rule_folders(path, real, layer, allowed)
            if isinstance(free, NotLoadedReason):
                self.refuse(path, free, why, real)
                continue
            names: list[str] = []
            with suppress(OSError), os.scandir(real) as entries:
                names = sorted(entry.name for entry in islice(entries, max(remaining, 0)))
            remaining -= len(names) or 1
            for name in names:
                if name.startswith("."):
                    continue
                if name.endswith(".md"):
                    rules.append((os.path.join(path, name), free))
                elif depth < limits.RULE_DEPTH and remaining > 0:
                    waiting.append((os.path.join(path, name), depth + 1, free))
        if remaining <= 0:
            self.refuse(folder, NotLoadedReason.TOO_MANY, why)
        return sorted(rules)

    def _find_rule_folders(
        self, path: str, real: str, layer: InstructionLayer, allowed: tuple[str, ...]
    ) -> tuple[str, ...] | NotLoadedReason:
        """Return the folders that links of a rule may point to, or why the rule cannot be opened."""
        if layer in _OWN:
            return ("/",)
        if is_kernel(real):
            return NotLoadedReason.SPECIAL
        if path != real and looks_secret(os.path.join(real, "rules.md")):
            return NotLoadedReason.SECRET
        if path == real or any(is_below(real, folder) for folder in (*self._context.free, *allowed)):
            return allowed
        return (real,) if self._approved(Path(real)) else NotLoadedReason.OUTSIDE


def find_include_target(path: str) -> tuple[str, NotLoadedReason | None]:
    """Return the real path of a file, and why it cannot be read or None. Does not open the file."""
    plain = os.path.normpath(path)
    real = plain if is_kernel(plain) else find_real(path)
    if real is None or is_kernel(real):
        return real or plain, NotLoadedReason.SPECIAL if real else NotLoadedReason.UNREADABLE
    try:
        facts = os.lstat(real)
    except OSError as error:
        is_missing = error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
        return real, NotLoadedReason.MISSING if is_missing else NotLoadedReason.UNREADABLE
    kind = stat.S_IFMT(facts.st_mode)
    if kind == stat.S_IFREG:
        return real, NotLoadedReason.TOO_LARGE if facts.st_size > limits.FILE_BYTES else None
    # A link that remains after following all links is circular.
    problems = {stat.S_IFDIR: NotLoadedReason.FOLDER, stat.S_IFLNK: NotLoadedReason.UNREADABLE}
    return real, problems.get(kind, NotLoadedReason.SPECIAL)


def find_real(path: str) -> str | None:
    """Resolve all links in a path. Returns None if they form a loop or change during the lookup."""
    try:
        return os.path.realpath(path)
    except (OSError, RecursionError):
        return None


def read_bytes(real: str) -> bytes | NotLoadedReason:
    """Return the bytes of a regular file, or why it cannot be read. Does not follow links."""
    data = b""
    try:
        folder = os.open("/", _PASS)
        try:
            *folders, leaf = PurePosixPath(real).parts[1:]
            for name in folders:
                following = os.open(name, _PASS | guard.NOFOLLOW, dir_fd=folder)
                os.close(folder)
                folder = following
            with guard.open_plain(folder, leaf, real) as handle:
                while len(data) <= limits.FILE_BYTES and (chunk := os.read(handle, 65_536)):
                    data += chunk
        finally:
            os.close(folder)
    except (OSError, PathError):
        return NotLoadedReason.UNREADABLE
    return data if len(data) <= limits.FILE_BYTES else NotLoadedReason.TOO_LARGE


def decode_text(data: bytes) -> str | None:
    """Decode UTF-8 and replace invalid bytes. Returns None for binary data."""
    if b"\0" in data:
        return None
    text = data.decode("utf-8-sig", "replace").replace("\r\n", "\n")
    return text if text.count("\ufffd") <= max(len(text) * _BROKEN_SHARE, 4) else None


def is_kernel(path: str) -> bool:
    return any(is_below(path, tree) for tree in _KERNEL)


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is `folder` or inside it. Both must be resolved."""
    return path == folder or path.startswith(os.path.join(folder, ""))
