"""Memories of other tools, projects and machines, brought into this store.

    source --sources--> pile --readers--> candidates --planning--> steps --applying--> one change, and the inbox

One small reader a format: `claude_code` (memory directories), `own` (memdir's JSON lines), `instruction_files`
(AGENTS.md, GEMINI.md), `codex`, `mcp_memory`, `mem0`, `chatgpt`. `piles` reads folders and archives without trusting
them, `made` words what is no memory file yet, `facts` tells facts from instructions, `matching` knows what is there.

Nothing is written before `apply_import`; no tool's own files are ever changed.
"""

import io
import json
import os
import re
import sqlite3
import tarfile
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from memdir import guard
from memdir.dream.duplicates import MemoryFacts, has_own_fields, is_reworded, make_exact, unite
from memdir.errors import ConflictError, DiskError, FormatError, LockedError, MemdirError, NotFoundError, PathError
from memdir.extraction.find import compose_memory
from memdir.extraction.judge import doubt_credentials, mask_doubt, mask_words
from memdir.format import frontmatter, index
from memdir.format.drafts import check_description, make_slug
from memdir.format.frontmatter import translate_dialect
from memdir.frozen import dataclass, replace
from memdir.interfaces.derivable import find_derivable
from memdir.limits import DESCRIPTION_CHARS, TITLE_CHARS
from memdir.models.staged import StagedMemory
from memdir.recall.freshness import find_ages
from memdir.records import (
    Dialect,
    InboxItem,
    InboxKind,
    InboxState,
    Kind,
    Memory,
    Origin,
    Put,
    Rewrite,
    Scope,
    Signature,
)
from memdir.store import history
from memdir.store.batch import plan_batch
from memdir.store.contract import make_memory as contract_make_memory
from memdir.store.contract import read_time
from memdir.store.files import FileStore
from memdir.store.inbox import render_edits
from memdir.store.plan import (
    TEAM_FOLDER,
    FileChange,
    Finder,
    Overlay,
    StoreView,
    check_shared,
    decode,
    digest_of,
    encode,
    index_path,
    is_team,
    plan_put,
)
from memdir.store.secrets import find_secrets, render_findings
from memdir.text import find_forbidden, fold, one_line, shorten

__all__ = [
    "ImportAction",
    "ImportCandidate",
    "ImportFormat",
    "ImportPlan",
    "ImportResult",
    "ImportStep",
    "ReadSource",
    "apply_import",
    "plan_import",
]


# --- matching ---
# Is this known already? A candidate against the memories that are there, by the same rules by which a dream merges.
#
# To the letter, whatever its type; or in other words, with every number, date, name and negation the same. Memories
# are
# met in buckets, so the work grows with their number. It changes nothing.


class KnownMemories:
    """The memories of a store, and those that this import has added so far."""

    def __init__(self, facts: Iterable[MemoryFacts]) -> None:
        self.facts: dict[str, MemoryFacts] = {}
        self._exact: dict[str, str] = {}
        self._blocks: defaultdict[tuple[object, ...], list[str]] = defaultdict(list)
        for fact in facts:
            self.add(fact)

    def add(self, fact: MemoryFacts) -> None:
        """One more memory, or another text of one."""
        self.facts[fact.name] = fact
        if fact.exact:
            self._exact.setdefault(fact.exact, fact.name)
        for block in fact.blocks:
            self._blocks[block].append(fact.name)

    def find_same(self, fact: MemoryFacts) -> MemoryFacts | None:
        """The memory that says this to the letter."""
        name = self._exact.get(fact.exact) if fact.exact else None
        return self.facts[name] if name is not None else None

    def find_near(self, fact: MemoryFacts) -> MemoryFacts | None:
        """A memory that says nearly this, or this with a clause more or less."""
        names = dict.fromkeys(name for block in fact.blocks for name in self._blocks.get(block, ()))
        return next((self.facts[name] for name in names if is_reworded(self.facts[name], fact)), None)


# --- records ---
# What passes between the readers of other tools' memories and the plan: files, candidates, what becomes of them.


class ImportFormat(StrEnum):
    """Whose memories these are."""

    CLAUDE_CODE = "claude-code"
    MEMDIR = "memdir"
    AGENTS_MD = "agents-md"
    GEMINI_MD = "gemini-md"
    CODEX = "codex"
    MCP_MEMORY = "mcp-memory"
    MEM0 = "mem0"
    CHATGPT = "chatgpt"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file of a source: its path below the source's root, its bytes, and when they were written."""

    path: str
    data: bytes
    modified: datetime | None = None

    @property
    def text(self) -> str:
        return self.data.decode("utf-8-sig", "replace").replace("\r\n", "\n")


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """The files of a source, and by path why some were not read. `where` is what the person named."""

    where: str
    files: tuple[SourceFile, ...]
    refused: tuple[tuple[str, str], ...] = ()
    is_folder: bool = False

    def find(self, path: str) -> SourceFile | None:
        return next((file for file in self.files if file.path == path), None)


@dataclass(frozen=True, slots=True)
class ImportCandidate:
    """One thing that another tool remembers, as a whole file in the flat dialect, and where it stood.

    `is_whole` marks a file of a memory directory: its bytes are kept. `name` is wanted, not promised; empty, the title
    makes one. With a `refusal` there is no text, and `said` shows what it was about.
    """

    source: str
    text: str = ""
    name: str = ""
    hook: str = ""
    said: str = ""
    modified: datetime | None = None
    is_whole: bool = False
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class ReadSource:
    """What a reader found: candidates in their own order, and the index they were listed in, if there was one."""

    format: ImportFormat
    candidates: tuple[ImportCandidate, ...]
    index: str = ""


class ImportAction(StrEnum):
    """What becomes of a candidate."""

    NEW = "new"
    SAME = "same"
    MERGED = "merged"
    BEFORE = "before"
    WAITING = "waiting"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ImportStep:
    """One candidate and what becomes of it: `name` is the memory it is or goes into, `why` says it in words."""

    candidate: ImportCandidate
    fate: ImportAction
    name: str = ""
    why: str = ""
    text: str = ""
    item: InboxItem | None = None


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """What an import would do to one store. `merges` are texts for memories that exist, each with what it was."""

    found: ReadSource
    steps: tuple[ImportStep, ...]
    merges: Sequence[tuple[str, str, str]] = ()

    def count(self, fate: ImportAction) -> int:
        return sum(step.fate is fate for step in self.steps)


@dataclass(frozen=True, slots=True)
class ImportResult:
    """What an import came to: the change, or None if nothing was to do; who lost to somebody quicker; what waits now."""

    change: int | None
    dropped: tuple[str, ...] = ()
    waiting: tuple[InboxItem, ...] = ()


# --- planning ---
# What an import would do to a store, candidate by candidate, before anything is done.
#
# A candidate is new, the same as a memory that is there, nearly the same and merged into it, was imported before,
# waits
# in the inbox because it holds a secret, or is refused with the reason. An import that was undone counts as never
# made;
# a memory that was imported and then changed or forgotten does not come back.

VERB = "import"
_NOWHERE = Signature(0, 0, 0, 0)
_NAMES = 1_000


class _Nothing:
    """A view of no files: whether a name is free is known already."""

    def read_bytes(self, path: str) -> None:
        return None

    def list_files(self, folder: str) -> tuple[str, ...]:
        return ()


def plan_import(
    store: FileStore, found: ReadSource, *, now: datetime, origin: Origin, since: datetime | None = None
) -> ImportPlan:
    """The steps for all candidates, in their order; those older than `since` are left out."""
    wanted = [at for at in found.candidates if since is None or at.modified is None or at.modified >= since]
    return _Planning(store, now, origin).run(replace(found, candidates=tuple(wanted)))


class _Planning:
    """One plan while it is made."""

    def __init__(self, store: FileStore, now: datetime, origin: Origin) -> None:
        self._store, self._now, self._origin = store, now, origin
        self._memories = dict(_read_all(store))
        self._known = KnownMemories(MemoryFacts(at) for at in self._memories.values() if at.header.kind is not None)
        self._taken = {fold(at.path.removesuffix(".md")) for at in store.look()}
        self._past = _find_past(store)
        self._merges: dict[str, str] = {}
        nested = sum(at.header.dialect is Dialect.NESTED for at in self._memories.values())
        self._dialect = Dialect.NESTED if nested * 2 > len(self._memories) else Dialect.FLAT

    def run(self, found: ReadSource) -> ImportPlan:
        steps = tuple(self._place(candidate) for candidate in found.candidates)
        texts = {
            step.name: self._known.facts[step.name].memory.text for step in steps if step.fate is ImportAction.MERGED
        }
        final = tuple(
            replace(step, text=texts[step.name]) if step.fate is ImportAction.NEW and step.name in texts else step
            for step in steps
        )
        merges = [(name, text, self._memories[name].digest) for name, text in self._merges.items()]
        return ImportPlan(found, final, merges)

    def _place(self, candidate: ImportCandidate) -> ImportStep:
        if candidate.refusal:
            return ImportStep(candidate, ImportAction.REFUSED, why=candidate.refusal)
        if not _is_text(candidate.text + candidate.hook):
            return ImportStep(
                replace(candidate, text="", said=candidate.source), ImportAction.REFUSED, why="it is not valid Unicode"
            )
        text = candidate.text if candidate.is_whole else translate_dialect(candidate.text, self._dialect)
        fact = self._make_fact(candidate.name or make_slug(frontmatter.parse_fields(text).title), text)
        if (same := self._known.find_same(fact)) is not None and not self._is_second(candidate, same):
            return ImportStep(candidate, ImportAction.SAME, same.name, f"{same.name} says the same")
        if _make_key(fact.memory) in self._past:
            return ImportStep(
                candidate, ImportAction.BEFORE, self._past[_make_key(fact.memory)], "changed or forgotten since"
            )
        if (waiting := self._doubt(candidate, fact, text)) is not None:
            return waiting
        return self._merge(candidate, fact) or self._add(candidate, fact, text)

    def _is_second(self, candidate: ImportCandidate, same: MemoryFacts) -> bool:
        """Two files of one directory that say the same are two files; a dream may make them one."""
        return candidate.is_whole and same.name not in self._memories

    def _merge(self, candidate: ImportCandidate, fact: MemoryFacts) -> ImportStep | None:
        near = self._known.find_near(fact)
        if near is None or self._is_second(candidate, near) or has_own_fields(fact, near):
            return None
        try:
            text = unite(near, fact, self._find_hooks(candidate))
        except FormatError:
            return None
        if text == near.memory.text:
            return ImportStep(candidate, ImportAction.SAME, near.name, f"{near.name} says the same in other words")
        if near.memory.header.pinned:
            return None
        self._known.add(self._make_fact(near.name, text))
        if near.name in self._memories:
            self._merges[near.name] = text
        return ImportStep(candidate, ImportAction.MERGED, near.name, f"{near.name} says nearly the same", text)

    def _find_hooks(self, candidate: ImportCandidate) -> tuple[str, ...]:
        """What an index said of it, unless that holds a secret: the file alone was searched for one."""
        hook, find = candidate.hook, self._store.rules.find or find_secrets
        return (hook,) if hook and not find(hook) else ()

    def _add(self, candidate: ImportCandidate, fact: MemoryFacts, text: str) -> ImportStep:
        try:
            name = self._find_free(fact.name)
            rules = replace(self._store.rules, skip_index=True)
            check_shared(plan_put(_Nothing(), name, text, "", rules), rules)
        except MemdirError as error:
            return ImportStep(candidate, ImportAction.REFUSED, why=f"{error}")
        self._taken.add(fold(name))
        self._known.add(self._make_fact(name, text))
        why = f"{fact.name} is taken by another memory" if name != fact.name else ""
        return ImportStep(candidate, ImportAction.NEW, name, why, text)

    def _doubt(self, candidate: ImportCandidate, fact: MemoryFacts, text: str) -> ImportStep | None:
        """A candidate with a secret waits, without the secret; one that was decided about is not asked again."""
        doubt = doubt_credentials(StagedMemory(fact.name, text, None, None), self._store.rules.find)
        if doubt is None:
            return None
        masked = mask_doubt(doubt, self._store.rules.find)
        name, body = masked.staged.name, masked.staged.text or ""
        key = f"{VERB}:{digest_of(encode(name + chr(10) + make_exact(frontmatter.split_frontmatter(body).body)))[:32]}"
        known = self._store.inbox_find(key)
        if known is not None and known.state is not InboxState.WAITING:
            return ImportStep(candidate, ImportAction.BEFORE, name, f"{known.state.value} in the inbox")
        source = mask_words(candidate.source, self._store.rules.find)
        payload = {"edits": render_edits([Put(name, body)]), "evidence": [], "source": source}
        kind = InboxKind.MEMORY
        item = InboxItem(kind, f"import {name}", masked.why, self._now, key, name, self._origin, payload)
        return ImportStep(candidate, ImportAction.WAITING, name, masked.why, body, None if known is not None else item)

    def _find_free(self, name: str) -> str:
        for number in range(1, _NAMES):
            folder, slash, leaf = name.rpartition("/")
            free = name if number == 1 else f"{folder}{slash}{leaf[:90]}-{number}"
            if fold(free) not in self._taken:
                return free
        raise ConflictError("a thousand memories have this name")

    def _make_fact(self, name: str, text: str) -> MemoryFacts:
        return MemoryFacts(contract_make_memory(name, encode(text), _NOWHERE, self._store.scope))


def _is_text(text: str) -> bool:
    """Whether a file could hold this: JSON may spell half of a character."""
    try:
        encode(text)
    except UnicodeEncodeError:
        return False
    return True


def _read_all(store: FileStore) -> Iterable[tuple[str, Memory]]:
    for header in store.scan():
        try:
            yield header.name, store.read(header.name)
        except MemdirError:
            continue


def _find_past(store: FileStore) -> dict[str, str]:
    """What earlier imports brought, those that were undone left out: the text's key, and the name it came under."""
    past: dict[str, str] = {}
    for change in store.changes():
        if change.verb != VERB or change.undone_by is not None:
            continue
        for file in change.files:
            if file.splice is None and file.before is None and file.after is not None:
                name = file.path.removesuffix(".md")
                try:
                    data = store.read_content(file.after)
                except NotFoundError:  # purged
                    continue
                past[_make_key(contract_make_memory(name, data, _NOWHERE, store.scope))] = name
    return past


def _make_key(memory: Memory) -> str:
    """By what a memory says, not by how its head is written: a dialect may change between two imports."""
    return f"{fold(memory.header.title)}\n{make_exact(memory.body)}"


# --- applying ---
# An import carried out: all its memories as one change, so that one `undo` takes it back; what holds a secret waits.
#
# An index that is not there yet is taken over as it was, with its order, headings and prose; to one that is there
# lines
# are added. An import says nothing new: files that do not tell their own time keep the time they had at their source.

_PLACED = 100  # new lines that are each put beside their relatives; more go to the end of the list in their own order


def apply_import(store: FileStore, plan: ImportPlan, *, origin: Origin) -> ImportResult:
    """Do it; raises, and then nothing was done. What somebody else changed meanwhile is left out and named."""
    new = [step for step in plan.steps if step.fate is ImportAction.NEW]
    dropped: list[str] = []

    def planner(view: StoreView) -> list[FileChange]:
        dropped.clear()
        return _plan(store, plan, new, view, dropped)

    change = store.carry_out(planner, verb=VERB, origin=origin).change if new or plan.merges else None
    _keep_times(store, [step for step in new if step.name not in dropped])
    items = [step.item for step in plan.steps if step.item is not None]
    return ImportResult(change, tuple(dropped), store.inbox_add(items) if items else ())


def _plan(
    store: FileStore, plan: ImportPlan, new: Sequence[ImportStep], view: StoreView, dropped: list[str]
) -> list[FileChange]:
    now, rules, overlay = store.clock(), store.rules, Overlay(view)
    rewrites = [Rewrite(*merge) for merge in plan.merges]
    merged = plan_batch(overlay, rewrites, now, rules, drop_conflicts=True, keep_pinned=True)
    overlay.put(merged.changes)
    free = _leave_out_taken(new, overlay)
    overlay.put([FileChange(f"{step.name}.md", None, encode(step.text)) for step in free])
    dropped += [*merged.dropped, *sorted({step.name for step in new} - {step.name for step in free})]
    if not rules.skip_index:
        overlay.put(_plan_indexes(store, plan, free, overlay))
    return list(overlay.list_changes())


def _leave_out_taken(new: Sequence[ImportStep], view: StoreView) -> list[ImportStep]:
    """The steps whose names are still free. Each folder is listed once: a large import fills one with thousands."""
    listed: dict[str, set[str]] = {}
    free = []
    for step in new:
        folder, _, leaf = step.name.rpartition("/")
        if folder not in listed:
            listed[folder] = {fold(at) for at in view.list_files(folder)}
        if fold(f"{leaf}.md") not in listed[folder]:
            free.append(step)
    return free


def _plan_indexes(store: FileStore, plan: ImportPlan, new: Sequence[ImportStep], view: StoreView) -> list[FileChange]:
    find = store.rules.find or find_secrets
    by_index: defaultdict[str, list[ImportStep]] = defaultdict(list)
    for step in new:
        by_index[index_path(step.name)[0]].append(step)
    changes = []
    for path, steps in by_index.items():
        found = view.read_bytes(path)
        text = decode(found or b"")
        taken = plan.found.index if path == index.INDEX_FILE and not text.strip() else ""
        if taken and not find_forbidden(taken, lines=True) and not find(taken):
            text = _take_over(taken, steps)
            # What had no line there gets none here; what had one and is called otherwise here gets it again.
            steps = [step for step in steps if step.candidate.hook or step.name != step.candidate.name]
        after = encode(_add_lines(text, steps, find))
        changes += [FileChange(path, found, after)] if after != (found or b"") else []
    return changes


def _take_over(text: str, steps: Sequence[ImportStep]) -> str:
    """An index as it was, without the lines of memories that did not come along."""
    here = {fold(step.name) for step in steps}
    lines = index.parse_index(text)
    return "".join(line.text for line in lines if not line.is_pointer or fold(line.name) in here)


def _add_lines(text: str, steps: Sequence[ImportStep], find: Finder) -> str:
    lines = []
    for step in steps:
        fields, short = frontmatter.parse_fields(step.text), index_path(step.name)[1]
        if index.find_lines(text, short):
            continue
        hook = step.candidate.hook if not find(step.candidate.hook) else ""
        line = index.render_line(fields.title or short, short, hook or fields.description)
        if len(steps) > _PLACED:
            lines.append(line)
        else:
            words = f"{fields.title} {fields.description} {short}"
            text = index.add_line(text, line, kind=fields.kind or Kind.PROJECT, words=words)
    return index.append_pointer(text, "\n".join(lines)) if lines else text


def _keep_times(store: FileStore, steps: Sequence[ImportStep]) -> None:
    """Give files the time they had; best effort, since the memories themselves are safe by now."""
    times = [(step.name, at) for step in steps if (at := _find_time(step, store.clock())) is not None]
    if not times:
        return
    try:
        root = guard.open_root(store.root)
        try:
            for name, when in times:
                guard.set_time(root, f"{name}.md", int(when.timestamp() * 1e9))
        finally:
            os.close(root)
        store.notice()
    except (OSError, PathError, DiskError, LockedError):
        pass


def _find_time(step: ImportStep, now: datetime) -> datetime | None:
    """The time of a file that does not tell its own; none that is yet to come, or before there were files."""
    when = step.candidate.modified
    if when is None or frontmatter.parse_fields(step.text).modified:
        return None
    return when if 0 < when.timestamp() <= now.timestamp() else None


# --- made ---
# A sentence or a list from somewhere else, as a candidate: worded like a memory, dated like its source.
#
# Nothing is added that was not said. What recall could not find again is refused with the reason; whether it holds a
# secret or is known already is not asked here.

_DESCRIPTION = 140
_JUDGED = 1_000  # characters that tell of which sort a text is
_SENTENCE = 4_000  # what is longer is no statement to take apart: it is kept as it is
_YEARS = range(1970, 9999)  # that every clock and every disk knows, in all zones
_MANNER = re.compile(
    r"\b(?:prefer|want|like|ask|expect|appreciate|request|value)(?:s|ed|ing)?\b.*\b(?:answers?|responses?|repl(?:y|ies)|"
    r"code|comments?|styles?|tone|commits?|format(?:ting)?|explanations?|summar(?:y|ies)|tests?|reviews?|"
    r"pull requests?|document\w*|output|chatgpt|assistants?|agents?)\b",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(https?://\S*\w/?)\.\n")  # a full stop behind an address would be taken for a part of it
_ORDER = re.compile(r"(?:always|never|do not|don't|please|avoid|use|prefer|make sure)\b", re.IGNORECASE)
_LINK = re.compile(
    r"\bhttps?://|\b(?:tracked|documented|found|lives?) (?:in|at|on)\b|\btracks? .*\bin\b", re.IGNORECASE
)
_PLAN = re.compile(
    r"\b(?:project|release|deadline|launch|milestone|sprint|deploy\w*|decided|freeze|migrat\w+|roadmap|Q[1-4]|20\d\d-\d\d)\b",
    re.IGNORECASE,
)


def guess_kind(said: str, default: Kind) -> Kind:
    """What sort of thing a sentence says, told of a person in the third person or not."""
    said = said[:_JUDGED]
    if _ORDER.match(said) or _MANNER.search(said):
        return Kind.FEEDBACK
    if _LINK.search(said):
        return Kind.REFERENCE
    return Kind.PROJECT if _PLAN.search(said) else default


def make_sentence(said: str, source: str, *, now: datetime, at: datetime | None, kind: Kind | None) -> ImportCandidate:
    """A candidate from one statement in somebody's own words."""
    if len(said) > _SENTENCE:
        return make_memory(kind or guess_kind(said, Kind.PROJECT), said[:200], said, said.strip(), source, at=at)
    try:
        draft = compose_memory(said, now=(at or now).astimezone(), kind=kind, secrets=True)
        body = _ADDRESS.sub(r"\1\n", draft.body) if _ADDRESS.search(said + ".\n") else draft.body
        return make_memory(draft.kind, draft.title, draft.description, body, source, at=at)
    except FormatError as error:
        return refuse(source, said, str(error), at)


def make_list(
    kind: Kind,
    title: str,
    lines: Sequence[str],
    source: str,
    *,
    at: datetime | None,
    description: str = "",
    name: str = "",
) -> ImportCandidate:
    """A candidate from several statements about one thing, each kept as a line of a list."""
    body = "\n".join(f"- {one_line(line)}" for line in lines)
    told = description or f"{title}: {'; '.join(one_line(line).rstrip('.') for line in lines)}"
    return make_memory(kind, title, told, body, source, at=at, name=name)


def make_memory(
    kind: Kind, title: str, description: str, body: str, source: str, *, at: datetime | None, name: str = ""
) -> ImportCandidate:
    """A candidate from its parts; refused if no description could be made by which recall could judge."""
    told = shorten(one_line(description), DESCRIPTION_CHARS if len(description) <= _DESCRIPTION else _DESCRIPTION)
    fields = {"name": shorten(one_line(title), TITLE_CHARS), "description": told.rstrip(" ."), "type": kind.value}
    if at is not None:
        fields["modified"] = at.isoformat(timespec="seconds")
    try:
        check_description(fields["description"], kind)
        text = frontmatter.compose_file(fields, body, Dialect.FLAT)
    except FormatError as error:
        return refuse(source, title, str(error), at)
    return ImportCandidate(source, text, name, modified=at)


def read_when(text: str) -> datetime | None:
    """A time that a source gives, None if it is none or none that could be kept."""
    when = read_time(text)
    return when if when is not None and when.year in _YEARS else None


def refuse(source: str, said: str, why: str, at: datetime | None = None) -> ImportCandidate:
    return ImportCandidate(source, said=shorten(one_line(said), 120), modified=at, refusal=why)


# --- facts ---
# Which lines of an instruction file are facts worth a memory: neither orders, nor to be seen in the code.
#
# Precision over recall: an instruction belongs into an instruction file, where an agent reads it anyway, and what the
# project shows need not be remembered. What is left names somebody, a date, a decision, a reason, or a place outside.

_FACTS_ORDER = re.compile(
    r"(?:always|never|do(?:n't| not)?|please|make sure|ensure|be sure|avoid|use|run|prefer|keep|write|add|follow|check|"
    r"read|see|call|create|put|place|include|update|remove|delete|commit|push|test|format|lint|install|build|start|stop|"
    r"set|name|import|export|return|document|verify|ask|only|no|must|should|when|before|after|if|refer|limit|apply|"
    r"respect|wrap|handle|validate|mark|move|rename|store|treat|respond|answer|reply|explain|think|plan)\b",
    re.IGNORECASE,
)
_DUTY = re.compile(r"\b(?:must|should|shall|need(?:s)? to|have to|are required|is required|has to)\b", re.IGNORECASE)
_OUTSIDE = re.compile(
    r"https?://|\b(?:i|i'm|my|me|we|our|us|user|customer|client|team|manager|owner|owned|maintain\w*|contact|because|"
    r"decided|decision|deadline|until|since|legacy|deprecated|frozen|freeze|on[- ]call|slack|jira|linear|notion|"
    r"grafana|sentry|confluence|dashboard|legal|compliance|contract|budget|launch|20\d\d)\b",
    re.IGNORECASE,
)
_CODE = re.compile(r"`[^`]*`|\$\s?\w+ |(?:\w+/)+\w+|--\w+")
_WIDE = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]")
_WORDS = 5


def find_import_refusal(said: str, root: Path, source: Path) -> str:
    """Why a line is no fact to remember; empty if it is one. `source` is the file it stands in."""
    words = _CODE.sub(" ", said).split()
    if _FACTS_ORDER.match(said) or (_DUTY.search(said) and not re.search(r"\bbecause\b|\b20\d\d\b", said)):
        return "it is an instruction, and belongs into an instruction file"
    if len(words) + len(_WIDE.findall(said)) // 2 < _WORDS:
        return "too little is said in words"
    if not _OUTSIDE.search(said):
        return "the project itself shows it"
    for reason in find_derivable(said, root, timeout=2.0):
        if not _is_same(root / reason.source, source):
            return f"{reason.what} ({reason.source})"
    return ""


def _is_same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False


# --- exporting ---
# A memory directory as one file to carry away: an archive, one Markdown text, or JSON lines.
#
# The archive holds the whole directory, index included, and is the same to the byte for the same memories; it can be
# in
# either dialect. It and the JSON lines can be imported again without loss; the Markdown is for reading. Times are
# those
# from which a memory's age counts, so a copy is as old as what it was made from.
#
# Reads only. Secrets are not taken out, since a backup that lacks them is none; their places are named for a warning.

VERSION = 1  # of the rows of JSON lines
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")


class ExportFormat(StrEnum):
    """`claude-code` and `flat` are archives in which every memory is told in that dialect."""

    TAR = "tar"
    MARKDOWN = "markdown"
    JSONL = "jsonl"
    CLAUDE_CODE = "claude-code"
    FLAT = "flat"

    @property
    def is_text(self) -> bool:
        return self in (ExportFormat.MARKDOWN, ExportFormat.JSONL)


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The file, the memories in it, what could not be read and why, and in words which secrets it holds."""

    data: bytes
    names: tuple[str, ...]
    unread: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Content:
    """What is to be carried: memories with their bytes, in index order, and the indexes by their path."""

    memories: Sequence[Memory]
    data: Mapping[str, bytes]
    indexes: Mapping[str, bytes]
    ages: Mapping[str, datetime]


def export(
    store: FileStore,
    format: ExportFormat,
    *,
    now: datetime,
    scope: Scope | None = None,
    with_history: bool = False,
) -> ExportResult:
    """All memories of a store, or only those of a scope: private ones, or what a team shares."""
    content, unread = _read(store, now, scope)
    if format is ExportFormat.MARKDOWN:
        data = _render_markdown(content).encode("utf-8", "replace")
    elif format is ExportFormat.JSONL:
        data = _render_rows(content)
    else:
        data = _pack(content, format, _copy_history(store) if with_history else None)
    names = tuple(at.header.name for at in content.memories)
    return ExportResult(data, names, unread, tuple(_find_secrets(store, content.memories)))


def _read(store: FileStore, now: datetime, scope: Scope | None) -> tuple[_Content, tuple[tuple[str, str], ...]]:
    memories: list[Memory] = []
    data: dict[str, bytes] = {}
    unread = [(at.path, at.refusal) for at in store.look() if at.refusal and _is_meant(at.path, scope)]
    for header in store.scan():
        if not _is_meant(header.file, scope):
            continue
        try:
            memory, found = store.read(header.name), store.read_bytes(header.file)
        except MemdirError as error:
            unread.append((header.file, str(error)))
            continue
        if found is not None:
            memories.append(memory)
            data[header.name] = found
    paths = [path for path in (index.INDEX_FILE, f"{TEAM_FOLDER}/{index.INDEX_FILE}") if _is_meant(path, scope)]
    indexes = {path: found for path in paths if (found := _read_index(store, path)) is not None}
    places = _find_places(indexes)
    memories.sort(key=lambda at: (places.get(fold(at.header.name), len(places)), at.header.name))
    return _Content(memories, data, indexes, find_ages(store, memories, now=now)), tuple(unread)


def _is_meant(path: str, scope: Scope | None) -> bool:
    return scope not in (Scope.PRIVATE, Scope.TEAM) or is_team(path) is (scope is Scope.TEAM)


def _read_index(store: FileStore, path: str) -> bytes | None:
    try:
        return store.read_bytes(path)
    except MemdirError:
        return None


def _find_places(indexes: Mapping[str, bytes]) -> dict[str, int]:
    """By name, where in its index a memory stands; the main one comes first."""
    names = []
    for path, data in indexes.items():
        folder = path.removesuffix(index.INDEX_FILE)
        names += [fold(f"{folder}{line.name}") for line in index.parse_index(decode(data)) if line.is_pointer]
    return {name: at for at, name in reversed(list(enumerate(names)))}


# --- archives -------------------------------------------------------------------------------------------------------


def _pack(content: _Content, format: ExportFormat, past: bytes | None) -> bytes:
    buffer = io.BytesIO()
    newest = max(content.ages.values(), default=None)
    files = [(path, data, newest) for path, data in content.indexes.items()]
    for name, data in content.data.items():
        files.append((f"{name}.md", _tell(data, format), content.ages[name]))
    if past is not None:
        files.append((f".memdir/{history.FILE}", past, newest))
    with tarfile.open(fileobj=buffer, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        for path, data, when in sorted(files, key=lambda file: file[0]):
            member = tarfile.TarInfo(path)
            member.size, member.mode = len(data), 0o600
            member.mtime = int(when.timestamp()) if when is not None else 0
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def _tell(data: bytes, format: ExportFormat) -> bytes:
    if format is ExportFormat.TAR:
        return data
    return encode(
        translate_dialect(decode(data), Dialect.NESTED if format is ExportFormat.CLAUDE_CODE else Dialect.FLAT)
    )


def _copy_history(store: FileStore) -> bytes | None:
    """The history as one whole database, copied while others may be writing it."""
    path = store.state / history.FILE
    if path.is_symlink() or not path.is_file():
        return None
    with (
        closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as source,
        closing(sqlite3.connect(":memory:")) as copy,
    ):
        source.backup(copy)
        return copy.serialize()


# --- texts ----------------------------------------------------------------------------------------------------------


def _render_rows(content: _Content) -> bytes:
    """One JSON object a line: the indexes, then the memories in their order."""
    rows: list[dict[str, object]] = []
    hooks: dict[str, str] = {}
    for path, data in content.indexes.items():
        folder = path.removesuffix(index.INDEX_FILE)
        rows.append({"memdir": VERSION, "index": folder.rstrip("/"), "text": decode(data)})
        lines = index.parse_index(decode(data))
        hooks |= {fold(f"{folder}{line.name}"): line.hook for line in reversed(lines) if line.is_pointer}
    for memory in content.memories:
        header = memory.header
        rows.append(
            {
                "memdir": VERSION,
                "name": header.name,
                "title": header.title,
                "description": header.description,
                "type": header.kind.value if header.kind else None,
                "scope": header.scope.value,
                "pinned": header.pinned,
                "modified": content.ages[header.name].isoformat(),
                "hook": hooks.get(fold(header.name), ""),
                "text": decode(content.data[header.name]),
            }
        )
    return "".join(f"{json.dumps(row)}\n" for row in rows).encode("ascii")


def _render_markdown(content: _Content) -> str:
    """One document to read: each memory a section, its own headings below that."""
    parts = ["# Memories\n"]
    for memory in content.memories:
        header, when = memory.header, content.ages[memory.header.name]
        facts = (str(header.kind or "no type"), header.scope.value, when.date().isoformat(), f"`{header.file}`")
        parts.append(f"\n## {header.title}\n\n*{' · '.join(facts)}*\n")
        parts += [f"\n> {header.description}\n"] if header.description else []
        parts.append(f"\n{_lower_headings(memory.body).strip()}\n")
    return "".join(parts)


def _lower_headings(body: str) -> str:
    lines, is_code = [], False
    for line in body.replace("\r\n", "\n").split("\n"):
        is_code ^= bool(_FENCE.match(line))
        lines.append(f"##{line}" if re.match(r"#{1,4} ", line) and not is_code else line)
    return "\n".join(lines)


def _find_secrets(store: FileStore, memories: Iterable[Memory]) -> Iterable[str]:
    """Which memories hold a secret, by rule and place."""
    for memory in memories:
        yield from render_findings((store.rules.find or find_secrets)(memory.text), place=memory.header.file)
