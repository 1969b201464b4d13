"""What is wrong in a memory directory, in one line each with the fix. It repairs derived state and nothing else.

Memories themselves are never changed here: index lines and the header cache can be rebuilt, topic files cannot.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence

from memdir.clip import find_long_lines
from memdir.dream_lock import FILE as DREAM_LOCK
from memdir.dream_lock import find_holder
from memdir.errors import MemdirError
from memdir.frozen import dataclass
from memdir.guard import find_refusal
from memdir.index import parse_index
from memdir.limits import INDEX_BYTES, INDEX_LINE_CHARS, INDEX_LINES
from memdir.links import find_links, find_target, make_targets
from memdir.records import Header, Memory, Origin
from memdir.store.files import FileStore
from memdir.store.plan import TEAM_FOLDER, index_path
from memdir.text import fold, one_line, shorten

DOCTOR = Origin(who="doctor", why="derived state repaired")

# Every kind of finding, with how grave it is.
LEVELS = {
    "broken_frontmatter": "error",
    "unknown_type": "warning",
    "bad_name": "warning",
    "special_file": "warning",
    "oversize_file": "warning",
    "duplicate": "warning",
    "dead_pointer": "warning",
    "orphan": "warning",
    "oversize_index": "warning",
    "slug_collision": "error",
    "setting": "warning",
    "history": "error",
    "dream_lock": "warning",
    "long_line": "advice",
    "unresolved_link": "advice",
}


@dataclass(frozen=True, slots=True)
class Finding:
    kind: str
    where: str
    message: str
    fix: str
    line: int | None = None
    fixable: bool = False

    @property
    def level(self) -> str:
        return LEVELS[self.kind]


def examine(store: FileStore, *, skip_index: bool = False) -> tuple[Finding, ...]:
    """Everything that is wrong with one directory, in the order of `LEVELS`."""
    headers = store.scan()
    memories = list(_read_all(store, headers))
    checks: list[Callable[[], Iterator[Finding]]] = [
        lambda: _check_entries(store),
        lambda: _check_headers(headers),
        lambda: _check_duplicates(memories),
        lambda: _check_links(memories),
        lambda: _check_history(store),
        lambda: _check_dream(store),
    ]
    if not skip_index:
        checks += [lambda: _check_index(store, headers, ""), lambda: _check_index(store, headers, TEAM_FOLDER)]
    found = [finding for check in checks for finding in check()]
    order = list(LEVELS)
    return tuple(sorted(found, key=lambda at: (order.index(at.kind), at.where, at.line or 0)))


def repair(store: FileStore, findings: Sequence[Finding]) -> int:
    """Rebuild what can be rebuilt, each as an act that can be undone; answers how many findings that settled."""
    orphans = [finding.where.removesuffix(".md") for finding in findings if finding.kind == "orphan"]
    dead = [finding.message.split("`")[1].removesuffix(".md") for finding in findings if finding.kind == "dead_pointer"]
    if orphans:
        store.add_pointers(orphans, origin=DOCTOR)
    if dead:
        store.drop_pointers(dead, origin=DOCTOR)
    return len(orphans) + len(dead)


def count_kinds(findings: Sequence[Finding]) -> dict[str, int]:
    counts = Counter(finding.kind for finding in findings)
    return {kind: counts[kind] for kind in LEVELS}


def _read_all(store: FileStore, headers: Sequence[Header]) -> Iterator[Memory]:
    for header in headers:
        try:
            yield store.read(header.name)
        except MemdirError:
            continue


def _check_entries(store: FileStore) -> Iterator[Finding]:
    for found in store.look():
        stem = found.path.removesuffix(".md")
        if "larger" in found.refusal:
            yield Finding("oversize_file", found.path, f"not read: {found.refusal}", "split it or move it elsewhere")
        elif found.refusal:
            yield Finding("special_file", found.path, f"not read: {found.refusal}", "replace it by a plain file")
        elif reason := next((at for at in map(find_refusal, stem.split("/")) if at), ""):
            yield Finding("bad_name", found.path, f"it can be read but not written: {reason}", "rename the file")


def _check_headers(headers: Sequence[Header]) -> Iterator[Finding]:
    for header in headers:
        if "type" in header.problem:
            fix = "set type: to user, feedback, project or reference"
            yield Finding("unknown_type", header.file, f"{header.problem}; it is still listed and recalled", fix)
        elif header.problem:
            fix = f"`memdir edit {header.name}`: name, description and type between two --- lines"
            yield Finding("broken_frontmatter", header.file, header.problem, fix)


def _check_duplicates(memories: Sequence[Memory]) -> Iterator[Finding]:
    names: defaultdict[str, list[str]] = defaultdict(list)
    bodies: defaultdict[str, list[str]] = defaultdict(list)
    for memory in memories:
        names[fold(memory.header.name)].append(memory.header.name)
        if memory.body.strip():
            bodies[" ".join(memory.body.split())].append(memory.header.name)
    for same in [*names.values(), *bodies.values()]:
        first, *others = sorted(same)
        for other in others:
            what = "the same name as" if fold(other) == fold(first) else "the same text as"
            yield Finding(
                "duplicate", f"{other}.md", f"{what} {first}.md", f"`memdir forget {other}` if it says no more"
            )


def _check_links(memories: Sequence[Memory]) -> Iterator[Finding]:
    targets = make_targets([memory.header for memory in memories])
    for memory in memories:
        for link, line in find_links(memory.text):
            if find_target(link, targets) is None:
                shown = shorten(one_line(link), 60)
                message = f"[[{shown}]] names no memory here"
                yield Finding("unresolved_link", memory.header.file, message, "correct it, or leave it for later", line)


def _check_index(store: FileStore, headers: Sequence[Header], folder: str) -> Iterator[Finding]:
    text = store.index(folder)
    file = f"{folder}/MEMORY.md" if folder else "MEMORY.md"
    prefix = f"{folder}/" if folder else ""
    lines = parse_index(text)
    mine = [header for header in headers if index_path(header.name)[0] == file]
    alive = {fold(header.name) for header in mine}
    pointed: Counter[str] = Counter()
    for line in lines:
        if line.is_pointer:
            name = prefix + line.name
            pointed[line.text.strip()] += 1
            if fold(name) not in alive:
                message = f"points to `{name}.md`, which does not exist"
                yield Finding("dead_pointer", file, message, "`memdir doctor --fix`", line.number + 1, fixable=True)
            elif pointed[line.text.strip()] == 2:
                yield Finding("duplicate", file, f"the line for {name} stands twice", "take one out", line.number + 1)
    targets = {fold(prefix + line.name) for line in lines if line.is_pointer}
    for header in mine:
        if fold(header.name) not in targets:
            yield Finding(
                "orphan", header.file, f"no line in {file} points to it", "`memdir doctor --fix`", fixable=True
            )
    yield from _check_size(text, file, len(lines))


def _check_size(text: str, file: str, count: int) -> Iterator[Finding]:
    size = len(text.encode("utf-8", "surrogateescape"))
    if count > INDEX_LINES or size > INDEX_BYTES:
        message = f"{count} lines and {size:,} bytes; {INDEX_LINES} lines and {INDEX_BYTES:,} bytes are loaded"
        yield Finding("oversize_index", file, message, "shorten lines and move detail into topic files")
    for line in find_long_lines(text):
        length = len(line.text.rstrip("\r\n"))
        message = f"{length} characters, {INDEX_LINE_CHARS} are enough for a pointer"
        yield Finding("long_line", file, message, "move the detail into its topic file", line.number + 1)


def _check_dream(store: FileStore) -> Iterator[Finding]:
    holder = find_holder(store.root, now=store.clock())
    if holder is not None and holder.is_late:
        since = f"{holder.since.astimezone():%Y-%m-%d %H:%M}"
        message = f"process {holder.pid} dreams since {since}, and nobody else can meanwhile"
        yield Finding("dream_lock", DREAM_LOCK, message, "look what it does; the lock ends with its process")


def _check_history(store: FileStore) -> Iterator[Finding]:
    try:
        store.acts(limit=1)
    except MemdirError as error:
        yield Finding("history", str(store.state), str(error), error.hint or "move history.db away")
