"""Import the memories of other tools, projects and machines into a store, and export a directory as one archive.

    source --import_formats--> candidates --plan_import--> steps --apply_import--> one change, and the inbox

A candidate is new, the same as an existing memory, imported before, sent to the inbox because it contains a secret or an
instruction, or refused with a reason. An undone import counts as never made. A memory that was imported and then changed
or forgotten is not imported again. The files of other tools are never changed.

Before the export, the functions at the end build candidates from sentences and lists.
"""

import io
import re
import tarfile
from collections import defaultdict
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from enum import StrEnum

from memdir import files, records
from memdir.conversation.chat_exports import ChatExport
from memdir.dream.duplicates import MemoryFacts, make_exact
from memdir.errors import DiskError, FormatError, LockedError, MemdirError, NotFoundError, PathError
from memdir.extraction.find import compose_memory
from memdir.extraction.provenance import doubt_credentials, mask_doubt, mask_words
from memdir.format import frontmatter, index
from memdir.format.fields import list_set
from memdir.format.frontmatter import (
    check_description,
    decode,
    digest_of,
    encode,
    follow_dialect,
    make_slug,
    read_time,
)
from memdir.format.frontmatter import make_memory as parse_memory
from memdir.frozen import dataclass, replace
from memdir.language.instructions import find_instruction
from memdir.limits import DESCRIPTION_CHARS, TITLE_CHARS
from memdir.models.staged import StagedMemory
from memdir.operations.write import WriteContext, carry_out
from memdir.records import TEAM_FOLDER, Dialect, InboxItem, Kind, Origin, Put, Scope, Signature, StoredMemory
from memdir.store import plan as store_plan
from memdir.store.facts import find_ages, find_authors
from memdir.store.files import FileStore
from memdir.store.history import MemorySource
from memdir.store.inbox import render_edits
from memdir.store.plan import FileChange, Finder, Overlay, StoreView, index_path, is_team
from memdir.store.secrets import find_secrets, render_findings
from memdir.text import find_forbidden, fold, one_line, shorten

VERB = "import"
AUTHOR = "MEMDIR.author"  # a record of a member's header in an exported archive
_NO_SIGNATURE = Signature(0, 0, 0, 0)
_PLACED = 100  # Up to this number, new index lines are inserted next to related ones; more are appended.


class ImportFormat(StrEnum):
    CLAUDE_CODE = "claude-code"
    MEM0 = "mem0"
    CHATGPT = "chatgpt"
    CLAUDE = "claude"
    NOTES = "notes"


@dataclass(frozen=True, slots=True)
class ImportCandidate:
    """A memory of another tool, converted to a memory file, with its source.

    `is_whole` marks a file of a memory directory, which is kept byte for byte. `name` is a suggestion; if empty, it is
    made from the title. `author` is as an archive states it. A candidate with a `refusal` has no text; `said` contains an
    excerpt.
    """

    source: str
    text: str = ""
    name: str = ""
    hook: str = ""
    said: str = ""
    modified: datetime | None = None
    author: str = ""
    is_whole: bool = False
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class ReadSource:
    """The candidates of a source in order, with its index and, if there is one, the chat export."""

    format: ImportFormat
    candidates: tuple[ImportCandidate, ...]
    index: str = ""
    export: ChatExport | None = None


class ImportAction(StrEnum):
    NEW = "new"
    SAME = "same"
    MERGED = "merged"  # Always 0: imports no longer merge, but readers of the JSON expect the key.
    BEFORE = "before"
    WAITING = "waiting"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ImportStep:
    """A candidate and the action for it, `fate`. `name` is the memory's name in the store; `why` explains the action."""

    candidate: ImportCandidate
    fate: ImportAction
    name: str = ""
    why: str = ""
    text: str = ""
    item: InboxItem | None = None


@dataclass(frozen=True, slots=True)
class ImportPlan:
    """The planned steps of an import into a store."""

    found: ReadSource
    steps: tuple[ImportStep, ...]

    def count(self, fate: ImportAction) -> int:
        return sum(step.fate is fate for step in self.steps)


@dataclass(frozen=True, slots=True)
class ImportResult:
    """The change, or None if nothing was written, the memories that changed since planning, and new inbox items."""

    change: int | None
    dropped: tuple[str, ...] = ()
    waiting: tuple[InboxItem, ...] = ()


def plan_import(
    store: FileStore, found: ReadSource, *, now: datetime, origin: Origin, since: datetime | None = None
) -> ImportPlan:
    """Return the steps for all candidates in order, except those older than `since`."""
    recent = [item for item in found.candidates if since is None or item.modified is None or item.modified >= since]
    return _Planning(store, now, origin).run(replace(found, candidates=tuple(recent)))


class _EmptyView:  # A store without files, to plan names that are known to be free.
    def read_bytes(self, path: str) -> None:
        return None

    def list_files(self, folder: str, *, alike: str = "", most: int | None = None) -> tuple[str, ...]:
        return ()


class _Planning:
    def __init__(self, store: FileStore, now: datetime, origin: Origin) -> None:
        self._store, self._now, self._origin = store, now, origin
        self._find_secrets: Finder = store.rules.find or find_secrets
        self._memories = store.read_many(header.name for header in store.scan())
        facts = [MemoryFacts(memory) for memory in self._memories.values() if memory.header.kind is not None]
        # Maps an exact text to the first memory with it, in the store or in this import.
        self._known = {fact.exact: fact for fact in reversed(facts) if fact.exact}
        self._taken = {fold(file.path.removesuffix(".md")) for file in store.list_entries()}
        self._past = _find_past_imports(store)
        self._dialect = store_plan.find_dialect(store, "")

    def run(self, found: ReadSource) -> ImportPlan:
        steps = [self._plan_step(candidate) for candidate in found.candidates]
        return ImportPlan(found, tuple(steps))

    def _plan_step(self, candidate: ImportCandidate) -> ImportStep:
        if candidate.refusal:
            return ImportStep(candidate, ImportAction.REFUSED, why=candidate.refusal)
        try:
            encode(candidate.text + candidate.hook)
        except UnicodeEncodeError:  # JSON may contain half of a surrogate pair.
            shown = replace(candidate, text="", said=candidate.source)
            return ImportStep(shown, ImportAction.REFUSED, why="invalid Unicode")
        text = candidate.text if candidate.is_whole else follow_dialect(candidate.text, self._dialect)
        text = store_plan.resolve_text(text, candidate.modified.astimezone()) if candidate.modified else text
        fields = frontmatter.parse_fields(text)
        if removed := {row.key: None for row, _ in list_set(fields) if row.is_personal}:
            # Remove the fields that show a memory at every start or action; only the user may set them.
            text = frontmatter.set_fields(text, removed)
        fact = self._make_fact(candidate.name or make_slug(frontmatter.parse_fields(text).title), text)
        same = self._known.get(fact.exact)
        # Keep both of two equal files of the imported directory; a dream may merge them.
        if same is not None and not (candidate.is_whole and same.name not in self._memories):
            return ImportStep(candidate, ImportAction.SAME, same.name, f"{same.name} says the same")
        if (before := self._past.get(_make_key(fact.memory))) is not None:
            return ImportStep(candidate, ImportAction.BEFORE, before, "changed or forgotten since")
        if (waiting := self._plan_review(candidate, fact, text)) is not None:
            return waiting
        return self._add(candidate, fact, text)

    def _add(self, candidate: ImportCandidate, fact: MemoryFacts, text: str) -> ImportStep:
        try:
            name = next(free for free in store_plan.number_names(fact.name) if fold(free) not in self._taken)
            rules = replace(self._store.rules, skip_index=True)
            store_plan.check_changes(store_plan.plan_put(_EmptyView(), name, text, "", self._now, rules), rules)
        except MemdirError as error:
            return ImportStep(candidate, ImportAction.REFUSED, why=f"{error}")
        self._taken.add(fold(name))
        added = self._make_fact(name, text)
        if added.exact:
            self._known.setdefault(added.exact, added)
        why = f"{fact.name} is taken by another memory" if name != fact.name else ""
        return ImportStep(candidate, ImportAction.NEW, name, why, text)

    def _plan_review(self, candidate: ImportCandidate, fact: MemoryFacts, text: str) -> ImportStep | None:
        """Return a step that puts a text with an instruction or a (masked) secret into the inbox, else None.

        A text already decided in the inbox is not proposed again.
        """
        doubt = doubt_credentials(StagedMemory(fact.name, text, None, None), self._store.rules.find)
        order = find_instruction(text) if doubt is None else ""
        if doubt is None and not order:
            return None
        name, body, why = fact.name, text, order
        if doubt is not None:
            masked = mask_doubt(doubt, self._store.rules.find)
            name, body, why = masked.staged.name, masked.staged.text or "", masked.why
        identity = encode(f"{name}\n{make_exact(frontmatter.split_frontmatter(body).body)}")
        key = f"{VERB}:{digest_of(identity)[:32]}"
        known = self._store.inbox_find(key)
        if known is not None and known.state is not records.InboxState.WAITING:
            return ImportStep(candidate, ImportAction.BEFORE, name, f"{known.state.value} in the inbox")
        source = mask_words(candidate.source, self._store.rules.find)
        kind = records.InboxKind.MEMORY
        payload = {"edits": render_edits([Put(name, body)]), "evidence": [], "source": source}
        item = InboxItem(kind, f"import {name}", why, self._now, key, name, self._origin, payload)
        return ImportStep(candidate, ImportAction.WAITING, name, why, body, None if known is not None else item)

    def _make_fact(self, name: str, text: str) -> MemoryFacts:
        return MemoryFacts(parse_memory(name, encode(text), _NO_SIGNATURE, self._store.scope))


def _find_past_imports(store: FileStore) -> dict[str, str]:
    """Return names of memories from earlier imports that were not undone, by the key of their text."""
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
    # Ignore the frontmatter, because its dialect may change between two imports.
    return f"{fold(memory.header.title)}\n{make_exact(memory.body)}"


def apply_import(store: FileStore, plan: ImportPlan, *, origin: Origin) -> ImportResult:
    """Write all memories of a plan as one change. If it raises, nothing was written.

    Memories that others changed since are left out and reported. If there is no index, the source's is copied with its
    order, headings and prose; otherwise lines are added. Files keep the modification time of their source.
    """
    new = [step for step in plan.steps if step.fate is ImportAction.NEW]
    dropped: list[str] = []

    def planner(view: StoreView) -> list[FileChange]:
        dropped.clear()
        return _plan_changes(store, plan, new, view, dropped)

    context = WriteContext(origin, store.clock())
    change = carry_out(store, planner, (), context, verb=VERB).check_written().change if new else None
    written = [step for step in new if step.name not in dropped]
    _keep_times(store, written)
    sources = {
        (f"{step.name}.md", digest_of(encode(step.text))): MemorySource(step.candidate.modified, step.candidate.author)
        for step in written
        if step.candidate.author and step.candidate.modified is not None
    }
    store.note_sources(sources)
    items = [step.item for step in plan.steps if step.item is not None]
    return ImportResult(change, tuple(dropped), store.inbox_add(items) if items else ())


def list_prose(store: FileStore, plan: ImportPlan) -> list[str]:
    """Return the headings and prose that would be copied from the source's index."""
    new = [step for step in plan.steps if step.fate is ImportAction.NEW]
    changed = _plan_changes(store, plan, new, store, [])
    indexes = [change for change in changed if change.path == index.INDEX_FILE]
    texts = [decode(change.after or b"") for change in indexes if not (change.before or b"").strip()]
    lines = [line for text in texts for line in index.parse_index(text)]
    return [line.text.rstrip("\r\n") for line in lines if not line.is_pointer and line.text.strip()]


def _plan_changes(
    store: FileStore, plan: ImportPlan, new: Sequence[ImportStep], view: StoreView, dropped: list[str]
) -> list[FileChange]:
    rules, overlay = store.rules, Overlay(view)
    # List each folder once, because it may contain thousands of files.
    folders = {step.name.rpartition("/")[0] for step in new}
    taken = {folder: {fold(file) for file in overlay.list_files(folder)} for folder in folders}
    paths = [(step, *step.name.rpartition("/")) for step in new]
    free = [step for step, folder, _, leaf in paths if fold(f"{leaf}.md") not in taken[folder]]
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
        content = view.read_bytes(path)
        text = decode(content or b"")
        theirs = plan.found.index if path == index.INDEX_FILE and not text.strip() else ""
        if theirs and not find_forbidden(theirs, lines=True) and not find(theirs):
            # Leave out the lines of memories that were not imported.
            names = {fold(step.name) for step in steps}
            lines = index.parse_index(theirs)
            prose = [line for line in lines if not line.is_pointer and not find_instruction(line.text)]
            text = "".join(line.text for line in lines if line in prose or fold(line.name) in names)
            # A memory without a line there gets none here; a renamed memory with a line gets a new one.
            steps = [step for step in steps if step.candidate.hook or step.name != step.candidate.name]
        after = encode(_add_lines(text, steps, find))
        changes += [FileChange(path, content, after)] if after != (content or b"") else []
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
    """Set file times if the text does not contain one; ignores errors, because the memories are already written."""
    now = store.clock().timestamp()
    times = [
        (step.name, when)
        for step in steps
        if step.candidate.modified is not None and not frontmatter.parse_fields(step.text).modified
        if 0 < (when := step.candidate.modified.timestamp()) <= now
    ]
    if not times:
        return
    with suppress(OSError, PathError, DiskError, LockedError):
        with files.open_root(store.root) as root:
            for name, when in times:
                files.set_time(root, f"{name}.md", int(when * 1e9))
        store.note_outside()


_DESCRIPTION = 140
_JUDGED = 1_000  # The type is guessed from this many characters.
_SENTENCE = 4_000  # Longer text is kept unchanged.
_YEARS = range(1970, 9999)  # Every file system can store these in all time zones.
_STYLE = re.compile(
    r"\b(?:prefer|want|like|ask|expect|appreciate|request|value)(?:s|ed|ing)?\b.*\b(?:answers?|responses?|repl(?:y|ies)|"
    r"code|comments?|styles?|tone|commits?|format(?:ting)?|explanations?|summar(?:y|ies)|tests?|reviews?|"
    r"pull requests?|document\w*|output|chatgpt|assistants?|agents?)\b",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(https?://\S*\w/?)\.\n")  # A full stop after a URL would be read as part of it.
_ORDER = re.compile(r"(?:always|never|do not|don't|please|avoid|use|prefer|make sure)\b", re.IGNORECASE)
_LINK = re.compile(
    r"\bhttps?://|\b(?:tracked|documented|found|lives?) (?:in|at|on)\b|\btracks? .*\bin\b", re.IGNORECASE
)
_PLAN = re.compile(
    r"\b(?:project|release|deadline|launch|milestone|sprint|deploy\w*|decided|freeze|migrat\w+|roadmap|Q[1-4]|20\d\d-\d\d)\b",
    re.IGNORECASE,
)


def guess_kind(text: str, default: Kind) -> Kind:
    text = text[:_JUDGED]
    if _ORDER.match(text) or _STYLE.search(text):
        return Kind.FEEDBACK
    return Kind.REFERENCE if _LINK.search(text) else Kind.PROJECT if _PLAN.search(text) else default


def make_sentence(text: str, source: str, *, now: datetime, at: datetime | None, kind: Kind | None) -> ImportCandidate:
    if len(text) > _SENTENCE:
        return make_memory(kind or guess_kind(text, Kind.PROJECT), text[:200], text, text.strip(), source, at=at)
    try:
        draft = compose_memory(text, now=(at or now).astimezone(), kind=kind, secrets=True)
        body = _ADDRESS.sub(r"\1\n", draft.body) if _ADDRESS.search(text + ".\n") else draft.body
        return make_memory(draft.kind, draft.title, draft.description, body, source, at=at)
    except FormatError as error:
        return refuse(source, text, str(error), at)


def make_memory(
    kind: Kind, title: str, description: str, body: str, source: str, *, at: datetime | None, name: str = ""
) -> ImportCandidate:
    """Make a candidate from its parts; it is refused if the description is not good enough for recall."""
    summary = shorten(one_line(description), DESCRIPTION_CHARS if len(description) <= _DESCRIPTION else _DESCRIPTION)
    fields = {"name": shorten(one_line(title), TITLE_CHARS), "description": summary.rstrip(" ."), "type": kind.value}
    if at is not None:
        fields["modified"] = at.isoformat(timespec="seconds")
    try:
        check_description(fields["description"], kind)
        text = frontmatter.compose_file(fields, body, Dialect.FLAT)
    except FormatError as error:
        return refuse(source, title, str(error), at)
    return ImportCandidate(source, text, name, modified=at)


def read_when(text: str) -> datetime | None:
    """Parse a time in a source; return None if it is invalid or not every file system can store it."""
    when = read_time(text)
    return when if when is not None and when.year in _YEARS else None


def refuse(source: str, excerpt: str, why: str, at: datetime | None = None) -> ImportCandidate:
    return ImportCandidate(source, said=shorten(one_line(excerpt), 120), modified=at, refusal=why)


# Export: one archive of the complete directory, byte for byte the same for the same memories. File times are
# the times that ages are counted from, so a copy is as old as its original. Secrets are included, because a backup must be
# complete; the result lists their locations for a warning.


@dataclass(frozen=True, slots=True)
class ExportResult:
    """The archive, its memories, unreadable files with the reason, and a description of its secrets."""

    data: bytes
    names: tuple[str, ...]
    unread: tuple[tuple[str, str], ...] = ()
    secrets: tuple[str, ...] = ()


def export(store: FileStore, *, now: datetime, scope: Scope | None = None) -> ExportResult:
    """Export the memories of a store, or only its private or team memories."""

    def is_selected(path: str) -> bool:
        return scope not in (Scope.PRIVATE, Scope.TEAM) or is_team(path) is (scope is Scope.TEAM)

    memories: list[StoredMemory] = []
    files: dict[str, bytes] = {}
    unread = [(file.path, file.refusal) for file in store.list_entries() if file.refusal and is_selected(file.path)]
    for header in store.scan():
        if is_selected(header.file):
            try:
                memory, content = store.read(header.name), store.read_bytes(header.file)
            except MemdirError as error:
                unread.append((header.file, str(error)))
                continue
            if content is not None:
                memories.append(memory)
                files[header.file] = content
    authors = find_authors(store, [memory.name for memory in memories])
    sources = {
        f"{name}.md": MemorySource(since, authors.get(name, ""))
        for name, since in find_ages(store, memories, now=now).items()
    }
    for path in filter(is_selected, (index.INDEX_FILE, f"{TEAM_FOLDER}/{index.INDEX_FILE}")):
        with suppress(MemdirError):
            if (content := store.read_bytes(path)) is not None:
                files[path] = content
    find = store.rules.find or find_secrets
    secrets = [
        finding for memory in memories for finding in render_findings(find(memory.text), place=memory.header.file)
    ]
    names = tuple(memory.header.name for memory in memories)
    return ExportResult(_pack(files, sources), names, tuple(unread), tuple(secrets))


def _pack(files: dict[str, bytes], sources: dict[str, MemorySource]) -> bytes:
    buffer, newest = (
        io.BytesIO(),
        max((source.since for source in sources.values()), default=datetime.fromtimestamp(0, UTC)),
    )
    with tarfile.open(fileobj=buffer, mode="w:", format=tarfile.PAX_FORMAT) as archive:
        for path, data in sorted(files.items()):
            member, (since, who) = tarfile.TarInfo(path), sources.get(path, MemorySource(newest))
            member.size, member.mode, member.mtime = len(data), 0o600, int(since.timestamp())
            member.pax_headers = {AUTHOR: who} if who else {}
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()
