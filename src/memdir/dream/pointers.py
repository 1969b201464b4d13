"""The dream by rules: what can be put in order in a memory directory without a model, as a plan.

Patches are certain and meant to be applied, all as one change; proposals wait in the inbox. Dates come first, then
duplicates, then the index; a memory that was merged is left alone by what comes after, until the next dream. Pinned
memories, named in `keep` or by their own head, are read and never changed.

It does not write, knows no lock and no gates: `dream` does that. No sentence goes that another memory does not say, or
that a person has not seen in the inbox.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime

from memdir.dream.compare import find_words
from memdir.dream.duplicates import DuplicateMerge, MemoryFacts, add_to_main
from memdir.dream.records import PatchKind, TidyPatch, TidyResult
from memdir.dream.stale import find_expired, plan_dates
from memdir.errors import FormatError, MemdirError, PathError
from memdir.format import frontmatter
from memdir.format.clip import find_long_lines
from memdir.format.index import INDEX_FILE, IndexLine, parse_index
from memdir.guard import check_path
from memdir.limits import INDEX_LINE_CHARS
from memdir.records import AddPointer, DropPointer, Edit, Header, Memory, ReplaceLine, Rewrite
from memdir.store.contract import StoreBase, make_memory
from memdir.store.plan import TEAM_FOLDER, decode, encode, find_unfit, index_path
from memdir.text import fold, one_line, shorten

__all__ = [
    "plan_tidy",
]


# --- pointers ---
# The index put in order, line by line: dead pointers out, missing ones in, over-long ones cut to a hook.
#
# What a long line says that its memory does not is first moved into the memory. Prose and headings are not touched.

_HOOK_ROOM = 24  # characters a hook needs to be worth having


def plan_long_lines(
    text: str, prefix: str, memories: Mapping[str, Memory], digests: Mapping[str, str], keep: frozenset[str]
) -> Iterator[TidyPatch]:
    """Long pointers of one index. `memories` are by folded name, without those that are being changed already."""
    seen: set[str] = set()
    for line in find_long_lines(text):
        memory = memories.get(fold(prefix + line.name)) if line.is_pointer else None
        if memory is None or memory.header.name in seen:
            continue
        seen.add(memory.header.name)
        short = _shorten_line(line)
        details = tuple(_find_details(line, memory))
        if short == line.text.strip() or (details and memory.header.name in keep):
            continue
        edits: list[Edit] = []
        if details:
            try:
                moved = add_to_main(memory.text, "; ".join(details) + ".")
            except FormatError:
                continue
            edits.append(Rewrite(memory.header.name, moved, digests[memory.header.name]))
        edits.append(ReplaceLine(memory.header.name, line.text.strip(), short))
        reason = f"the index line of {memory.header.name} has {len(line.text.strip())} characters"
        moved_words = "; ".join(details) or "the memory says all of it"
        yield TidyPatch(PatchKind.LONG_LINE, (memory.header.name,), tuple(edits), reason, moved_words)


def plan_dead(text: str, prefix: str, alive: Iterable[str], store: StoreBase) -> Iterator[TidyPatch]:
    """Lines without a file. A log is no memory and yet a file; so is what may not be read."""
    known = {fold(name) for name in alive}
    names = dict.fromkeys(prefix + line.name for line in parse_index(text) if line.is_pointer)
    for name in names:
        if fold(name) not in known and _may_be_named(name) and not _exists(store, f"{name}.md"):
            reason = f"the index points to {name}.md, which does not exist"
            yield TidyPatch(PatchKind.DEAD_POINTER, (name,), (DropPointer(name),), reason, "no such file")


def plan_missing(text: str, prefix: str, names: Iterable[str]) -> Iterator[TidyPatch]:
    pointed = {fold(prefix + line.name) for line in parse_index(text) if line.is_pointer}
    for name in names:
        if fold(name) not in pointed:
            reason = f"no line of the index points to {name}"
            yield TidyPatch(PatchKind.MISSING_POINTER, (name,), (AddPointer(name),), reason, f"{name}.md exists")


def _exists(store: StoreBase, path: str) -> bool:
    try:
        return store.read_bytes(path) is not None
    except MemdirError:
        return True


def _may_be_named(name: str) -> bool:
    try:
        check_path(f"{name}.md")
    except PathError:
        return False
    return True


def _shorten_line(line: IndexLine) -> str:
    """The line with its link as it stands and as much of its hook as has room."""
    whole = line.text.strip()
    if not line.hook:  # the older form: words, then the file in brackets
        start = whole.rfind("[")
        room = INDEX_LINE_CHARS - (len(whole) - start) - 1
        return f"{_cut(whole[:start].rstrip(), room)} {whole[start:]}" if start > 0 and room > _HOOK_ROOM else whole
    link = whole[: len(whole) - len(line.hook)]
    room = INDEX_LINE_CHARS - len(link)
    if room < _HOOK_ROOM:
        return link.rstrip(" —–:-")
    return link + _cut(line.hook, room)


def _cut(words: str, room: int) -> str:
    """Up to a place where it can end, else shortened."""
    if len(words) <= room:
        return words
    for mark in ("; ", ". ", ", "):
        end = words.rfind(mark, 0, room)
        if end >= _HOOK_ROOM:
            return words[:end] + ("…" if mark == ", " else "")  # "on Fridays" is not all of "on Fridays, except …"
    return shorten(words, room)


def _find_details(line: IndexLine, memory: Memory) -> Iterator[str]:
    """The parts of a hook that the memory does not say, word for word."""
    body = frontmatter.split_frontmatter(memory.text).body
    said = find_words(f"{memory.header.title}. {memory.header.description}. {body}")
    hook = line.hook or line.title
    for part in hook.split("; "):
        plain = one_line(part).strip(" .;")
        if plain and not find_words(plain) <= said:
            yield plain


# --- tidy ---


def plan_tidy(store: StoreBase, *, now: datetime, keep: frozenset[str] = frozenset()) -> TidyResult:
    """What the rules would do to this directory as it is now."""
    headers = store.scan()
    memories = _read_all(store, headers)
    pinned = keep | {header.name for header in headers if header.pinned}
    digests = {name: memory.digest for name, memory in memories.items()}
    indexes = _read_indexes(store)

    dated = _date(memories, now, pinned)
    facts = {name: MemoryFacts(memory) for name, memory in memories.items() if not memory.header.problem}
    merging = DuplicateMerge(facts, headers, digests, _find_hooks(indexes, memories), pinned)
    merged = list(merging.run())
    lines: list[TidyPatch] = []
    if not store.rules.skip_index:
        lines = list(_order_indexes(store, indexes, memories, digests, merging, pinned))
    left = [fact for name, fact in sorted(merging.facts.items()) if name not in merging.touched and name not in dated]
    return TidyResult((*dated.values(), *merged, *lines), find_expired(left, now=now, keep=pinned))


def _read_all(store: StoreBase, headers: Sequence[Header]) -> dict[str, Memory]:
    memories: dict[str, Memory] = {}
    for header in headers:
        try:
            memories[header.name] = store.read(header.name)
        except MemdirError:
            continue
    return memories


def _read_indexes(store: StoreBase) -> dict[str, str]:
    """Each index by its folder; one that may not be read is not put in order either."""
    indexes: dict[str, str] = {}
    for folder in ("", TEAM_FOLDER):
        try:
            indexes[folder] = decode(store.read_bytes(f"{folder}/{INDEX_FILE}" if folder else INDEX_FILE) or b"")
        except MemdirError:
            continue
    return indexes


def _date(memories: dict[str, Memory], now: datetime, pinned: frozenset[str]) -> dict[str, TidyPatch]:
    """Patches for dates; what follows sees the memories as these leave them."""
    dated: dict[str, TidyPatch] = {}
    for name, memory in memories.items():
        patch = plan_dates(memory, now) if name not in pinned else None
        if patch is not None and isinstance(edit := patch.edits[0], Rewrite):
            dated[name] = patch
            memories[name] = make_memory(name, encode(edit.text), memory.header.signature, memory.header.scope)
    return dated


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


def _order_indexes(
    store: StoreBase,
    indexes: Mapping[str, str],
    memories: Mapping[str, Memory],
    digests: Mapping[str, str],
    merging: DuplicateMerge,
    pinned: frozenset[str],
) -> Iterator[TidyPatch]:
    free = {fold(name): at for name, at in memories.items() if name not in merging.touched and not at.header.problem}
    for folder, text in indexes.items():
        prefix = f"{folder}/" if folder else ""
        file = f"{prefix}{INDEX_FILE}"
        mine = [name for name in memories if index_path(name)[0] == file]
        yield from plan_long_lines(text, prefix, free, digests, pinned)
        yield from plan_dead(text, prefix, mine, store)
        fit = [at for at in mine if at not in merging.gone and not find_unfit(memories[at].header, store.rules)]
        yield from plan_missing(text, prefix, sorted(fit))
