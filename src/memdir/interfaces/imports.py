"""Memories of other tools, projects and machines, brought into a store.

    source --import_formats--> candidates --plan_import--> steps --apply_import--> one change, and the inbox

A candidate is new, the same as an existing memory, imported before, put into the inbox because it holds a secret, or
refused with the reason. An import that was undone counts as never made; a memory that
was imported and then changed or forgotten does not come back. The files of other tools are never changed.

The functions at the end make candidates from sentences and lists, and distinguish facts from instructions.
"""

import os
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from memdir import files, records
from memdir.conversation.chat_exports import ChatExport
from memdir.dream.duplicates import MemoryFacts, make_exact
from memdir.errors import ConflictError, DiskError, FormatError, LockedError, MemdirError, NotFoundError, PathError
from memdir.extraction.find import compose_memory
from memdir.extraction.provenance import doubt_credentials, mask_doubt, mask_words
from memdir.format import frontmatter, index
from memdir.format.frontmatter import (
    check_description,
    decode,
    digest_of,
    encode,
    make_slug,
    read_time,
    translate_dialect,
)
from memdir.format.frontmatter import make_memory as parse_memory
from memdir.frozen import dataclass, replace
from memdir.limits import DESCRIPTION_CHARS, TITLE_CHARS
from memdir.models.staged import StagedMemory
from memdir.records import Dialect, InboxItem, Kind, Origin, Put, Signature, StoredMemory
from memdir.store import plan as store_plan
from memdir.store.files import FileStore
from memdir.store.inbox import render_edits
from memdir.store.plan import FileChange, Finder, Overlay, StoreView, index_path
from memdir.store.secrets import find_secrets
from memdir.sync.plan import find_instruction
from memdir.text import find_forbidden, fold, one_line, shorten
from memdir.verify.derivable import find_derivable

VERB = "import"
_NO_SIGNATURE = Signature(0, 0, 0, 0)
_NAMES = 1_000
_PLACED = 100  # new index lines that are each put beside related ones; more are appended in their own order


class ImportFormat(StrEnum):
    """The tool whose memories these are."""

    CLAUDE_CODE = "claude-code"
    MEMDIR = "memdir"
    AGENTS_MD = "agents-md"
    GEMINI_MD = "gemini-md"
    CODEX = "codex"
    CLAUDE_MD = "claude-md"
    CURSOR_RULES = "cursor-rules"
    MCP_MEMORY = "mcp-memory"
    MEM0 = "mem0"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    OBSIDIAN = "obsidian"
    LOGSEQ = "logseq"
    BASIC_MEMORY = "basic-memory"
    NOTES = "notes"


@dataclass(frozen=True, slots=True)
class ImportCandidate:
    """One memory of another tool as a whole file in the flat dialect, and where it was found.

    `is_whole` marks a file of a memory directory: its bytes are kept. `name` is a suggestion; if it is empty, the title
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
    """What a reader found: candidates in their order, the index that listed them, and the export they are from, if any."""

    format: ImportFormat
    candidates: tuple[ImportCandidate, ...]
    index: str = ""
    export: ChatExport | None = None


class ImportAction(StrEnum):
    """What becomes of a candidate."""

    NEW = "new"
    SAME = "same"
    MERGED = "merged"  # Always 0: imports no longer merge, but readers of the JSON expect the key.
    BEFORE = "before"
    WAITING = "waiting"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ImportStep:
    """A candidate and what becomes of it: `name` is the memory it is or goes into, `why` the reason in words."""

    candidate: ImportCandidate
    fate: ImportAction
    name: str = ""
    why: str = ""
    text: str = ""
    item: InboxItem | None = None


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The steps of an import into one store."""

    found: ReadSource
    steps: tuple[ImportStep, ...]

    def count(self, fate: ImportAction) -> int:
        return sum(step.fate is fate for step in self.steps)


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The change, None if there was nothing to do; memories that others changed meanwhile; new items of the inbox."""

    change: int | None
    dropped: tuple[str, ...] = ()
    waiting: tuple[InboxItem, ...] = ()


def plan_import(
    store: FileStore, found: ReadSource, *, now: datetime, origin: Origin, since: datetime | None = None
) -> ImportPlan:
    """The steps for all candidates, in their order; those older than `since` are left out."""
    wanted = [at for at in found.candidates if since is None or at.modified is None or at.modified >= since]
    return _Planning(store, now, origin).run(replace(found, candidates=tuple(wanted)))


class _EmptyView:  # a store without files: whether a name is free is known already
    def read_bytes(self, path: str) -> None:
        return None

    def list_files(self, folder: str) -> tuple[str, ...]:
        return ()


class KnownMemories:
    """The memories of a store and those added by this import, by their text."""

    def __init__(self, facts: Iterable[MemoryFacts]) -> None:
        self._exact: dict[str, MemoryFacts] = {}
        for fact in facts:
            self.add(fact)

    def add(self, fact: MemoryFacts) -> None:
        if fact.exact:
            self._exact.setdefault(fact.exact, fact)

    def find_same(self, fact: MemoryFacts) -> MemoryFacts | None:
        return self._exact.get(fact.exact)


class _Planning:
    def __init__(self, store: FileStore, now: datetime, origin: Origin) -> None:
        self._store, self._now, self._origin = store, now, origin
        self._find_secrets: Finder = store.rules.find or find_secrets
        self._memories = dict(_read_all(store))
        self._known = KnownMemories(MemoryFacts(at) for at in self._memories.values() if at.header.kind is not None)
        self._taken = {fold(at.path.removesuffix(".md")) for at in store.look()}
        self._past = _find_past(store)
        nested = sum(at.header.dialect is Dialect.NESTED for at in self._memories.values())
        self._dialect = Dialect.NESTED if nested * 2 > len(self._memories) else Dialect.FLAT

    def run(self, found: ReadSource) -> ImportPlan:
        steps = [self._plan_step(candidate) for candidate in found.candidates]
        return ImportPlan(found, tuple(steps))

    def _plan_step(self, candidate: ImportCandidate) -> ImportStep:
        if candidate.refusal:
            return ImportStep(candidate, ImportAction.REFUSED, why=candidate.refusal)
        try:
            encode(candidate.text + candidate.hook)
        except UnicodeEncodeError:  # JSON may spell half of a character
            shown = replace(candidate, text="", said=candidate.source)
            return ImportStep(shown, ImportAction.REFUSED, why="it is not valid Unicode")
        text = candidate.text if candidate.is_whole else translate_dialect(candidate.text, self._dialect)
        text = store_plan.resolve_text(text, candidate.modified.astimezone()) if candidate.modified else text
        if "pinned" in text and frontmatter.parse_fields(text).pinned:
            text = frontmatter.set_fields(
                text, {"pinned": None}
            )  # what comes first in every index a person decides here
        fact = self._make_fact(candidate.name or make_slug(frontmatter.parse_fields(text).title), text)
        if (same := self._known.find_same(fact)) is not None and not self._is_second(candidate, same):
            return ImportStep(candidate, ImportAction.SAME, same.name, f"{same.name} says the same")
        if (before := self._past.get(_make_key(fact.memory))) is not None:
            return ImportStep(candidate, ImportAction.BEFORE, before, "changed or forgotten since")
        if (waiting := self._doubt(candidate, fact, text)) is not None:
            return waiting
        return self._add(candidate, fact, text)

    def _is_second(self, candidate: ImportCandidate, same: MemoryFacts) -> bool:
        # Two files of the imported directory that say the same are both kept; a dream may merge them.
        return candidate.is_whole and same.name not in self._memories

    def _add(self, candidate: ImportCandidate, fact: MemoryFacts, text: str) -> ImportStep:
        try:
            name = self._find_free(fact.name)
            rules = replace(self._store.rules, skip_index=True)
            store_plan.check_shared(store_plan.plan_put(_EmptyView(), name, text, "", self._now, rules), rules)
        except MemdirError as error:
            return ImportStep(candidate, ImportAction.REFUSED, why=f"{error}")
        self._taken.add(fold(name))
        self._known.add(self._make_fact(name, text))
        why = f"{fact.name} is taken by another memory" if name != fact.name else ""
        return ImportStep(candidate, ImportAction.NEW, name, why, text)

    def _doubt(self, candidate: ImportCandidate, fact: MemoryFacts, text: str) -> ImportStep | None:
        """Put into the inbox what holds a secret, without it, or reads like an order; not again if it was decided about."""
        doubt = doubt_credentials(StagedMemory(fact.name, text, None, None), self._store.rules.find)
        order = find_instruction(text) if doubt is None else ""
        if doubt is None and not order:
            return None
        name, body, why = fact.name, text, order
        if doubt is not None:
            masked = mask_doubt(doubt, self._store.rules.find)
            name, body, why = masked.staged.name, masked.staged.text or "", masked.why
        said = encode(f"{name}\n{make_exact(frontmatter.split_frontmatter(body).body)}")
        key = f"{VERB}:{digest_of(said)[:32]}"
        known = self._store.inbox_find(key)
        if known is not None and known.state is not records.InboxState.WAITING:
            return ImportStep(candidate, ImportAction.BEFORE, name, f"{known.state.value} in the inbox")
        source = mask_words(candidate.source, self._store.rules.find)
        kind = records.InboxKind.MEMORY
        payload = {"edits": render_edits([Put(name, body)]), "evidence": [], "source": source}
        item = InboxItem(kind, f"import {name}", why, self._now, key, name, self._origin, payload)
        return ImportStep(candidate, ImportAction.WAITING, name, why, body, None if known is not None else item)

    def _find_free(self, name: str) -> str:
        for number in range(1, _NAMES):
            folder, slash, leaf = name.rpartition("/")
            free = name if number == 1 else f"{folder}{slash}{leaf[:90]}-{number}"
            if fold(free) not in self._taken:
                return free
        raise ConflictError("a thousand memories have this name")

    def _make_fact(self, name: str, text: str) -> MemoryFacts:
        return MemoryFacts(parse_memory(name, encode(text), _NO_SIGNATURE, self._store.scope))


def _read_all(store: FileStore) -> Iterable[tuple[str, StoredMemory]]:
    for header in store.scan():
        with suppress(MemdirError):
            yield header.name, store.read(header.name)


def _find_past(store: FileStore) -> dict[str, str]:
    """What earlier imports added, without those that were undone: the name by the text's key."""
    past: dict[str, str] = {}
    for change in store.changes():
        if change.verb != VERB or change.undone_by is not None:
            continue
        for file in change.files:
            if file.splice is None and file.before is None and file.after is not None:
                name = file.path.removesuffix(".md")
                with suppress(NotFoundError):  # purged
                    memory = parse_memory(name, store.read_content(file.after), _NO_SIGNATURE, store.scope)
                    past[_make_key(memory)] = name
    return past


def _make_key(memory: StoredMemory) -> str:
    # Without the frontmatter: its dialect may change between two imports.
    return f"{fold(memory.header.title)}\n{make_exact(memory.body)}"


def apply_import(store: FileStore, plan: ImportPlan, *, origin: Origin) -> ImportResult:
    """Write all memories of a plan as one change; if it raises, nothing was written.

    What somebody else changed meanwhile is left out and named. A missing index is taken over from the source with its
    order, headings and prose; to an existing one lines are added. Files keep the time they had at their source.
    """
    new = [step for step in plan.steps if step.fate is ImportAction.NEW]
    dropped: list[str] = []

    def planner(view: StoreView) -> list[FileChange]:
        dropped.clear()
        return _plan(store, plan, new, view, dropped)

    change = store.carry_out(planner, verb=VERB, origin=origin).change if new else None
    _keep_times(store, [step for step in new if step.name not in dropped])
    items = [step.item for step in plan.steps if step.item is not None]
    return ImportResult(change, tuple(dropped), store.inbox_add(items) if items else ())


def preview_index(store: FileStore, plan: ImportPlan) -> tuple[int, int]:
    """How many of the new memories a session would load in the index, and how many would not fit into it."""
    new = [step for step in plan.steps if step.fate is ImportAction.NEW]
    changed = {at.path: at.after for at in _plan(store, plan, new, store, []) if at.after is not None}
    fitting = 0
    for path in {index_path(step.name)[0] for step in new}:
        clip = index.clip_index(decode(changed.get(path, b"")), order="file")
        names = {fold(index_path(step.name)[1]) for step in new if index_path(step.name)[0] == path}
        fitting += sum(line.is_pointer and line.key in names for line in index.parse_index(clip.text))
    return fitting, len(new) - fitting


def list_prose(store: FileStore, plan: ImportPlan) -> list[str]:
    """Headings and prose that would be taken over from the source's index."""
    new = [step for step in plan.steps if step.fate is ImportAction.NEW]
    changed = _plan(store, plan, new, store, [])
    texts = [
        decode(at.after or b"") for at in changed if at.path == index.INDEX_FILE and not (at.before or b"").strip()
    ]
    lines = [line for text in texts for line in index.parse_index(text)]
    return [line.text.rstrip("\r\n") for line in lines if not line.is_pointer and line.text.strip()]


def _plan(
    store: FileStore, plan: ImportPlan, new: Sequence[ImportStep], view: StoreView, dropped: list[str]
) -> list[FileChange]:
    rules, overlay = store.rules, Overlay(view)
    # Each folder is listed once: it may hold thousands.
    folders = {step.name.rpartition("/")[0] for step in new}
    taken = {folder: {fold(at) for at in overlay.list_files(folder)} for folder in folders}
    free = [at for at in new if fold(f"{at.name.rpartition('/')[2]}.md") not in taken[at.name.rpartition("/")[0]]]
    overlay.put([FileChange(f"{step.name}.md", None, encode(step.text)) for step in free])
    dropped += sorted({step.name for step in new} - {step.name for step in free})
    if not rules.skip_index:
        overlay.put(_plan_indexes(store, plan, free, overlay))
    return list(overlay.list_changes())


def _plan_indexes(store: FileStore, plan: ImportPlan, new: Sequence[ImportStep], view: StoreView) -> list[FileChange]:
    find = store.rules.find or find_secrets
    by_index: defaultdict[str, list[ImportStep]] = defaultdict(list)
    for step in new:
        by_index[index_path(step.name)[0]].append(step)
    changes = []
    for path, steps in by_index.items():
        found = view.read_bytes(path)
        text = decode(found or b"")
        theirs = plan.found.index if path == index.INDEX_FILE and not text.strip() else ""
        if theirs and not find_forbidden(theirs, lines=True) and not find(theirs):
            # Without the lines of memories that were not imported.
            names = {fold(step.name) for step in steps}
            lines = index.parse_index(theirs)
            prose = [line for line in lines if not line.is_pointer and not find_instruction(line.text)]
            text = "".join(line.text for line in lines if line in prose or fold(line.name) in names)
            # A memory without a line there gets none here; one with a line and another name here gets a new one.
            steps = [step for step in steps if step.candidate.hook or step.name != step.candidate.name]
        after = encode(_add_lines(text, steps, find))
        changes += [FileChange(path, found, after)] if after != (found or b"") else []
    return changes


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
    """Set the times of files whose text does not state one; errors are ignored, since the memories are written."""
    now = store.clock().timestamp()
    times = [
        (step.name, at)
        for step in steps
        if step.candidate.modified is not None and not frontmatter.parse_fields(step.text).modified
        if 0 < (at := step.candidate.modified.timestamp()) <= now
    ]
    if not times:
        return
    with suppress(OSError, PathError, DiskError, LockedError):
        root = files.open_root(store.root)
        try:
            for name, when in times:
                files.set_time(root, f"{name}.md", int(when * 1e9))
        finally:
            os.close(root)
        store.notice()


_DESCRIPTION = 140
_JUDGED = 1_000  # characters by which the type is guessed
_SENTENCE = 4_000  # longer text is kept as it is
_YEARS = range(1970, 9999)  # that every file system can store, in all time zones
_STYLE = re.compile(
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
    """The type of memory that a sentence makes."""
    said = said[:_JUDGED]
    if _ORDER.match(said) or _STYLE.search(said):
        return Kind.FEEDBACK
    return Kind.REFERENCE if _LINK.search(said) else Kind.PROJECT if _PLAN.search(said) else default


def make_sentence(said: str, source: str, *, now: datetime, at: datetime | None, kind: Kind | None) -> ImportCandidate:
    """A candidate from one statement."""
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
    """A candidate from several statements about one thing, as a list."""
    body = "\n".join(f"- {one_line(line)}" for line in lines)
    shown = description or f"{title}: {'; '.join(one_line(line).rstrip('.') for line in lines)}"
    return make_memory(kind, title, shown, body, source, at=at, name=name)


def make_memory(
    kind: Kind, title: str, description: str, body: str, source: str, *, at: datetime | None, name: str = ""
) -> ImportCandidate:
    """A candidate from its parts; refused if no usable description can be made."""
    shown = shorten(one_line(description), DESCRIPTION_CHARS if len(description) <= _DESCRIPTION else _DESCRIPTION)
    fields = {"name": shorten(one_line(title), TITLE_CHARS), "description": shown.rstrip(" ."), "type": kind.value}
    if at is not None:
        fields["modified"] = at.isoformat(timespec="seconds")
    try:
        check_description(fields["description"], kind)
        text = frontmatter.compose_file(fields, body, Dialect.FLAT)
    except FormatError as error:
        return refuse(source, title, str(error), at)
    return ImportCandidate(source, text, name, modified=at)


def read_when(text: str) -> datetime | None:
    """The time that a source gives; None if it is no time, or one that cannot be stored."""
    when = read_time(text)
    return when if when is not None and when.year in _YEARS else None


def refuse(source: str, said: str, why: str, at: datetime | None = None) -> ImportCandidate:
    return ImportCandidate(source, said=shorten(one_line(said), 120), modified=at, refusal=why)


# Which lines of an instruction file are facts worth a memory: no instructions, nothing that the project shows. What is left
# names somebody, a date, a decision, a reason, or something outside the project.
_INSTRUCTION = re.compile(
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
    """The reason why a line is no fact to remember; empty if it is one. `source` is the file it stands in."""
    words = _CODE.sub(" ", said).split()
    if _INSTRUCTION.match(said) or (_DUTY.search(said) and not re.search(r"\bbecause\b|\b20\d\d\b", said)):
        return "it is an instruction, and belongs into an instruction file"
    if len(words) + len(_WIDE.findall(said)) // 2 < _WORDS:
        return "too little is said in words"
    if not _OUTSIDE.search(said):
        return "the project itself shows it"
    for reason in find_derivable(said, root, timeout=2.0):
        with suppress(OSError):
            if (root / reason.source).samefile(source):
                continue
        return f"{reason.what} ({reason.source})"
    return ""
