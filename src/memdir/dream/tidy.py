"""What can be put in order in a memory directory without a model, as a plan.

Patches are certain and meant to be applied, all as one change; proposals need review. Relative dates come first, then
duplicates, then the index: dead pointers are removed, missing ones added, long ones cut to a hook, after what only the
line says has been moved into its memory. A memory that was merged is left alone by what comes after, until the next
dream. Pinned memories, and those named in `keep`, are read and never changed.

Nothing is written here. No sentence is removed that another memory does not say or a person has not reviewed.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from memdir.dream.compare import find_words
from memdir.dream.duplicates import DuplicateMerge, MemoryFacts, add_to_main
from memdir.dream.records import NamedItem, Patch, PatchKind, read_memories
from memdir.dream.stale import propose_expired
from memdir.errors import FormatError, MemdirError
from memdir.format import frontmatter
from memdir.format.clip import find_long_lines
from memdir.format.index import INDEX_FILE, IndexLine, parse_index
from memdir.frozen import dataclass
from memdir.guard import check_path
from memdir.language.dates import make_absolute
from memdir.limits import INDEX_LINE_CHARS
from memdir.records import AddPointer, DropPointer, Edit, Kind, Memory, ReplaceLine, Rewrite
from memdir.store.contract import StoreBase, make_memory, read_time
from memdir.store.plan import TEAM_FOLDER, decode, encode, find_unfit, index_path
from memdir.text import fold, one_line, shorten

_HOOK_CHARS = 24  # characters a hook needs to be worth having


@dataclass(frozen=True, slots=True)
class TidyResult:
    patches: tuple[Patch, ...] = ()
    proposals: tuple[NamedItem, ...] = ()


def plan_tidy(store: StoreBase, *, now: datetime, keep: frozenset[str] = frozenset()) -> TidyResult:
    """What would be put in order in this directory as it is now."""
    headers = store.scan()
    memories = read_memories(store)
    pinned = keep | {header.name for header in headers if header.pinned}
    digests = {name: memory.digest for name, memory in memories.items()}
    indexes = _read_indexes(store)

    dated: dict[str, Patch] = {}
    for name, memory in memories.items():
        patch = _plan_dates(memory, now) if name not in pinned else None
        if patch is not None and isinstance(edit := patch.edits[0], Rewrite):
            dated[name] = patch
            memories[name] = make_memory(name, encode(edit.text), memory.header.signature, memory.header.scope)
    facts = {name: MemoryFacts(memory) for name, memory in memories.items() if not memory.header.problem}
    merge = DuplicateMerge(facts, headers, digests, _find_hooks(indexes, memories), pinned)
    merged = list(merge.run())
    lines: list[Patch] = []
    if not store.rules.skip_index:
        free = {fold(name): at.memory for name, at in facts.items() if name not in merge.touched}
        for folder, text in indexes.items():
            prefix = f"{folder}/" if folder else ""
            own = [name for name in memories if index_path(name)[0] == f"{prefix}{INDEX_FILE}"]
            fit = [at for at in own if at not in merge.gone and not find_unfit(memories[at].header, store.rules)]
            lines += _plan_long_lines(text, prefix, free, digests, pinned)
            lines += _plan_dead(text, prefix, own, store)
            lines += _plan_missing(text, prefix, sorted(fit))
    left = [fact for name, fact in sorted(merge.facts.items()) if name not in merge.touched | dated.keys() | pinned]
    return TidyResult((*dated.values(), *merged, *lines), tuple(propose_expired(left, now)))


def _read_indexes(store: StoreBase) -> dict[str, str]:
    """Each index by its folder, without those that cannot be read."""
    indexes: dict[str, str] = {}
    for folder in ("", TEAM_FOLDER):
        try:
            indexes[folder] = decode(store.read_bytes(f"{folder}/{INDEX_FILE}" if folder else INDEX_FILE) or b"")
        except MemdirError:
            continue
    return indexes


def _find_hooks(indexes: Mapping[str, str], memories: Mapping[str, Memory]) -> dict[str, tuple[str, ...]]:
    """What the indexes say of each memory they point to."""
    names = {fold(name): name for name in memories}
    hooks: defaultdict[str, list[str]] = defaultdict(list)
    for folder, text in indexes.items():
        for line in parse_index(text):
            name = names.get(fold(f"{folder}/{line.name}" if folder else line.name)) if line.is_pointer else None
            if name is not None:
                hooks[name] += [line.hook.rstrip("…")] if line.hook else []
    return {name: tuple(found) for name, found in hooks.items()}


def _plan_dates(memory: Memory, now: datetime) -> Patch | None:
    """Relative dates of a project memory made absolute, from the day on which it was written."""
    header = memory.header
    if header.kind is not Kind.PROJECT or header.problem:
        return None
    said = read_time(frontmatter.parse_fields(memory.text).modified)
    when = said if said is not None else header.modified.astimezone(now.tzinfo)
    body, in_body = make_absolute(memory.body, when)
    description, in_description = make_absolute(header.description, when)
    if not in_body and not in_description:
        return None
    try:
        text = frontmatter.replace_body(memory.text, body)
        text = frontmatter.set_fields(text, {"description": description}) if in_description else text
    except FormatError:
        return None
    replaced = dict.fromkeys(f"{at.was} → {at.now_text}" for at in (*in_body, *in_description))
    reason = f"dates of {header.name} said as of {when.date().isoformat()}, when it was written"
    edit = Rewrite(header.name, text, memory.digest)
    return Patch(PatchKind.DATE, (header.name,), (edit,), reason, ("; ".join(replaced),))


def _plan_long_lines(
    text: str, prefix: str, memories: Mapping[str, Memory], digests: Mapping[str, str], keep: frozenset[str]
) -> Iterator[Patch]:
    """Long pointers of one index. `memories` are by folded name, without those that are being changed already."""
    seen: set[str] = set()
    for line in find_long_lines(text):
        memory = memories.get(fold(prefix + line.name)) if line.is_pointer else None
        if memory is None or memory.header.name in seen:
            continue
        name, whole = memory.header.name, line.text.strip()
        seen.add(name)
        short, details = _shorten_line(line), tuple(_find_details(line, memory))
        if short == whole or (details and name in keep):
            continue
        edits: list[Edit] = [ReplaceLine(name, whole, short)]
        if details:
            try:
                moved = add_to_main(memory.text, "; ".join(details) + ".")
            except FormatError:
                continue
            edits.insert(0, Rewrite(name, moved, digests[name]))
        reason = f"the index line of {name} has {len(whole)} characters"
        evidence = "; ".join(details) or "the memory says all of it"
        yield Patch(PatchKind.LONG_LINE, (name,), tuple(edits), reason, (evidence,))


def _plan_dead(text: str, prefix: str, names: Iterable[str], store: StoreBase) -> Iterator[Patch]:
    """Lines without a file. A log is a file although no memory; so is what may not be read."""
    known = {fold(name) for name in names}
    for name in dict.fromkeys(prefix + line.name for line in parse_index(text) if line.is_pointer):
        if fold(name) not in known and _is_gone(store, f"{name}.md"):
            reason = f"the index points to {name}.md, which does not exist"
            yield Patch(PatchKind.DEAD_POINTER, (name,), (DropPointer(name),), reason, ("no such file",))


def _is_gone(store: StoreBase, path: str) -> bool:
    """Whether a path is allowed and has no file."""
    try:
        check_path(path)
        return store.read_bytes(path) is None
    except MemdirError:
        return False


def _plan_missing(text: str, prefix: str, names: Iterable[str]) -> Iterator[Patch]:
    pointed = {fold(prefix + line.name) for line in parse_index(text) if line.is_pointer}
    for name in names:
        if fold(name) not in pointed:
            reason = f"no line of the index points to {name}"
            yield Patch(PatchKind.MISSING_POINTER, (name,), (AddPointer(name),), reason, (f"{name}.md exists",))


def _shorten_line(line: IndexLine) -> str:
    """The line with its link as it stands and as much of its hook as fits."""
    whole = line.text.strip()
    if not line.hook:  # the older form: words, then the file in brackets
        start = whole.rfind("[")
        room = INDEX_LINE_CHARS - (len(whole) - start) - 1
        return f"{_cut(whole[:start].rstrip(), room)} {whole[start:]}" if start > 0 and room > _HOOK_CHARS else whole
    link = whole[: len(whole) - len(line.hook)]
    room = INDEX_LINE_CHARS - len(link)
    return link.rstrip(" —–:-") if room < _HOOK_CHARS else link + _cut(line.hook, room)


def _cut(words: str, room: int) -> str:
    """Cut at the end of a clause if there is one, else anywhere."""
    if len(words) <= room:
        return words
    for mark in ("; ", ". ", ", "):
        end = words.rfind(mark, 0, room)
        if end >= _HOOK_CHARS:
            return words[:end] + ("…" if mark == ", " else "")  # "on Fridays" is not all of "on Fridays, except …"
    return shorten(words, room)


def _find_details(line: IndexLine, memory: Memory) -> Iterator[str]:
    """The parts of a hook that the memory does not say, word for word."""
    body = frontmatter.split_frontmatter(memory.text).body
    said = find_words(f"{memory.header.title}. {memory.header.description}. {body}")
    for part in (line.hook or line.title).split("; "):
        plain = one_line(part).strip(" .;")
        if plain and not find_words(plain) <= said:
            yield plain
