"""One load: each file is looked at, judged, read and stripped; what it includes comes after it; all within one budget.

Includes are followed breadth first, so a file that is named twice is loaded where it is nearest and a budget is spent
on what the first files name; in the result each file stands before what it includes.

The order of the judgement is the point of this room: what may not be read is not opened, and a person is asked about a
file outside the project only when nothing else speaks against it.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from memdir.frozen import dataclass
from memdir.limits import (
    INCLUDE_DEPTH,
    INCLUDE_TRIES,
    INSTRUCTION_FILES,
    INSTRUCTION_TOTAL_BYTES,
    RULE_DEPTH,
    RULE_ENTRIES,
)
from memdir.project_files.comments import strip_comments
from memdir.project_files.ground import Excludes, Ground
from memdir.project_files.includes import Mention, find_mentions, resolve
from memdir.project_files.kinds import decode_text, has_text_name
from memdir.project_files.loaded import Layer, Loaded, LoadedFile, PendingRule, Reason, Refusal
from memdir.project_files.reading import Target, find_real, find_target, is_below, is_kernel, read_bytes
from memdir.project_files.rules import parse_rule
from memdir.project_files.secrecy import holds_key, holds_secret, looks_secret

Approved = Callable[[Path], bool]
_OWN = (Layer.MANAGED, Layer.USER, Layer.USER_RULE)


@dataclass(frozen=True, slots=True)
class _Node:
    """A file on its way into the result: `free` is where its includes need no approval, `chain` who includes it."""

    file: LoadedFile
    free: tuple[str, ...]
    chain: tuple[str, ...]


class Load:
    """Collects files, refusals and pending rules; nothing it is given makes it raise or run on without end."""

    def __init__(self, ground: Ground, excludes: Excludes, approved: Approved, *, seen: Iterable[str] = ()) -> None:
        self._ground = ground
        self._excludes = excludes
        self._approved = approved
        self._seen = set(seen)
        self._awaited: set[str] = set()
        self._files: list[LoadedFile] = []
        self._refusals: dict[tuple[str, Reason], Refusal] = {}
        self._pending: list[PendingRule] = []
        self._tries = INCLUDE_TRIES
        self._bytes = INSTRUCTION_TOTAL_BYTES
        self._count = 0

    def finish(self) -> Loaded:
        loaded = {file.real for file in self._files}
        refusals = (at for at in self._refusals.values() if at.reason is not Reason.TOO_DEEP or at.real not in loaded)
        return Loaded(tuple(self._files), tuple(refusals), tuple(self._pending))

    def add_file(self, path: str, layer: Layer, why: str, *, free: tuple[str, ...] = ()) -> None:
        """A file that is loaded for its place, and what it includes; nothing if there is none."""
        if os.path.lexists(path):
            node = self._admit_direct(path, layer, why, free)
            if node is not None:
                self._grow(node)

    def add_rules(self, folder: str, layer: Layer, base: str, why: str) -> None:
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

    def refuse(self, path: str, reason: Reason, by: str, real: str = "") -> None:
        plain = os.path.normpath(path)
        self._refusals.setdefault((plain, reason), Refusal(plain, reason, by, real))

    def _await(self, rule: PendingRule) -> None:
        """Keep a rule for later. It was read for its head only, so it counts as not loaded."""
        self._seen.discard(rule.real)
        self._count -= 1
        if rule.real not in self._awaited:
            self._awaited.add(rule.real)
            self._pending.append(rule)

    def _admit_direct(self, path: str, layer: Layer, why: str, more: tuple[str, ...]) -> _Node | None:
        target = find_target(path)
        if target.real in self._seen:
            return None
        free = ("/",) if layer in _OWN else (*self._ground.free, *more)
        is_linked = target.real != path
        reason = self._judge(path, target, layer, free, is_named=is_linked)
        text = self._read(target.real, is_named=is_linked) if reason is None else reason
        if isinstance(text, Reason):
            self.refuse(path, text, why, target.real)
            return None
        file = LoadedFile(path, target.real, layer, why, text)
        return _Node(file, ("/",) if layer in _OWN else self._ground.free, (target.real,))

    def _judge(
        self, path: str, target: Target, layer: Layer, free: tuple[str, ...], *, is_named: bool
    ) -> Reason | None:
        """Why a file may not be opened. `is_named`: a link or an include says where it is, not its place."""
        if self._excludes.has(layer, os.path.normpath(path), target.real):
            return Reason.EXCLUDED
        if is_named and (looks_secret(path) or looks_secret(target.real)):
            return Reason.SECRET
        if target.problem is not None:
            return target.problem
        if not has_text_name(target.real):
            return Reason.NOT_TEXT
        if is_named and not any(is_below(target.real, folder) for folder in free):
            return None if self._approved(Path(target.real)) else Reason.OUTSIDE
        return None

    def _read(self, real: str, *, is_named: bool) -> str | Reason:
        if self._count >= INSTRUCTION_FILES or self._bytes <= 0:
            return Reason.TOO_MANY
        data = read_bytes(real)
        if isinstance(data, Reason):
            return data
        self._bytes -= len(data)
        if self._bytes < 0:
            return Reason.TOO_MANY
        text = decode_text(data)
        if text is None:
            return Reason.NOT_TEXT
        if holds_secret(text) if is_named else holds_key(text):
            return Reason.SECRET
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

    def _spend(self, node: _Node) -> Iterator[Mention]:
        """The mentions of a file, as long as the budget lasts; the first one beyond it is refused by name."""
        for mention in find_mentions(node.file.text):
            if self._tries <= 0:
                self.refuse(self._resolve(node, mention.spellings[0]), Reason.TOO_MANY, node.file.path)
                return
            self._tries -= 1
            yield mention

    def _include(self, node: _Node, mention: Mention) -> _Node | None:
        path, target = self._choose(node, mention)
        if target is None:
            self.refuse(path, Reason.SECRET, node.file.path)
            return None
        if target.problem is Reason.MISSING and not mention.is_path:
            return None
        if target.real in self._seen:
            if target.real in node.chain:
                self.refuse(path, Reason.CYCLE, node.file.path, target.real)
            return None
        reason = self._judge(path, target, node.file.layer, node.free, is_named=True)
        if reason is None and node.file.depth >= INCLUDE_DEPTH:
            reason = Reason.TOO_DEEP
        text = self._read(target.real, is_named=True) if reason is None else reason
        if isinstance(text, Reason):
            self.refuse(path, text, node.file.path, target.real)
            return None
        why = f"included by {node.file.path}"
        plain = os.path.normpath(path)
        file = LoadedFile(plain, target.real, node.file.layer, why, text, node.file.depth + 1, node.file.path)
        return _Node(file, self._find_free(file), (*node.chain, target.real))

    def _choose(self, node: _Node, mention: Mention) -> tuple[str, Target | None]:
        """The spelling that leads to something, else the last; no target for a path that must not even be looked at."""
        path, target = "", None
        for spelling in mention.spellings:
            path = self._resolve(node, spelling)
            if looks_secret(path):
                return path, None
            target = find_target(path)
            if target.problem is not Reason.MISSING:
                break
        return path, target

    def _resolve(self, node: _Node, spelling: str) -> str:
        return resolve(spelling, os.path.dirname(node.file.real), self._ground.home)

    def _find_free(self, file: LoadedFile) -> tuple[str, ...]:
        """What a person's own file names is the person's choice; what such a file names in turn is not, elsewhere."""
        if file.layer not in _OWN:
            return self._ground.free
        own = self._ground.managed if file.layer is Layer.MANAGED else self._ground.claude_home
        return ("/",) if is_below(file.real, own) else (own, os.path.dirname(file.real))

    def _list_rules(self, folder: str, layer: Layer, why: str) -> list[tuple[str, tuple[str, ...]]]:
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
            if isinstance(free, Reason):
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
            self.refuse(folder, Reason.TOO_MANY, why)
        return sorted(found)

    def _find_rule_free(self, path: str, real: str, layer: Layer, allowed: tuple[str, ...]) -> tuple[str, ...] | Reason:
        """The folders outside the project that rules in this one may lie in, or why it is not looked into."""
        if layer in _OWN:
            return ("/",)
        if is_kernel(real):
            return Reason.SPECIAL
        if path != real and looks_secret(os.path.join(real, "rules.md")):
            return Reason.SECRET
        if path == real or any(is_below(real, at) for at in (*self._ground.free, *allowed)):
            return allowed
        return (real,) if self._approved(Path(real)) else Reason.OUTSIDE


def _with_text(node: _Node, text: str) -> _Node:
    file = node.file
    return _Node(LoadedFile(file.path, file.real, file.layer, file.why, text), node.free, node.chain)


def _list_names(folder: str, limit: int) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            return sorted(entry.name for entry in islice(entries, max(limit, 0)))
    except OSError:
        return []
