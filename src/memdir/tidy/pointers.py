"""The index put in order, line by line: dead pointers out, missing ones in, over-long ones cut to a hook.

What a long line says that its memory does not is first moved into the memory. Prose and headings are not touched.
"""

from collections.abc import Iterable, Iterator, Mapping

from memdir import frontmatter
from memdir.clip import find_long_lines
from memdir.errors import FormatError, MemdirError, PathError
from memdir.guard import check_path
from memdir.index import Line, parse_index
from memdir.limits import INDEX_LINE_CHARS
from memdir.records import AddPointer, DropPointer, Edit, Memory, ReplaceLine, Rewrite
from memdir.store.contract import Verbs
from memdir.text import fold, one_line, shorten
from memdir.tidy.facts import find_words
from memdir.tidy.records import Patch, PatchKind
from memdir.tidy.uniting import add_to_main

_HOOK_ROOM = 24  # characters a hook needs to be worth having


def plan_long_lines(
    text: str, prefix: str, memories: Mapping[str, Memory], digests: Mapping[str, str], keep: frozenset[str]
) -> Iterator[Patch]:
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
        yield Patch(PatchKind.LONG_LINE, (memory.header.name,), tuple(edits), reason, moved_words)


def plan_dead(text: str, prefix: str, alive: Iterable[str], store: Verbs) -> Iterator[Patch]:
    """Lines without a file. A log is no memory and yet a file; so is what may not be read."""
    known = {fold(name) for name in alive}
    names = dict.fromkeys(prefix + line.name for line in parse_index(text) if line.is_pointer)
    for name in names:
        if fold(name) not in known and _may_be_named(name) and not _exists(store, f"{name}.md"):
            reason = f"the index points to {name}.md, which does not exist"
            yield Patch(PatchKind.DEAD_POINTER, (name,), (DropPointer(name),), reason, "no such file")


def plan_missing(text: str, prefix: str, names: Iterable[str]) -> Iterator[Patch]:
    pointed = {fold(prefix + line.name) for line in parse_index(text) if line.is_pointer}
    for name in names:
        if fold(name) not in pointed:
            reason = f"no line of the index points to {name}"
            yield Patch(PatchKind.MISSING_POINTER, (name,), (AddPointer(name),), reason, f"{name}.md exists")


def _exists(store: Verbs, path: str) -> bool:
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


def _shorten_line(line: Line) -> str:
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


def _find_details(line: Line, memory: Memory) -> Iterator[str]:
    """The parts of a hook that the memory does not say, word for word."""
    body = frontmatter.split(memory.text).body
    said = find_words(f"{memory.header.title}. {memory.header.description}. {body}")
    hook = line.hook or line.title
    for part in hook.split("; "):
        plain = one_line(part).strip(" .;")
        if plain and not find_words(plain) <= said:
            yield plain
