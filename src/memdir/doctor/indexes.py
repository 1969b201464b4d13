"""What is wrong with an index: lines that lead nowhere, memories without a line, and more of it than is loaded."""

from collections import Counter
from collections.abc import Iterator, Sequence

from memdir.clip import find_long_lines
from memdir.doctor.files import is_about_person
from memdir.doctor.findings import Finding
from memdir.index import parse_index
from memdir.limits import INDEX_BYTES, INDEX_LINE_CHARS, INDEX_LINES
from memdir.records import Header
from memdir.store.files import FileStore
from memdir.store.plan import index_path
from memdir.store.shared import find_unfit
from memdir.text import fold

FIX = "`memdir doctor --fix`"


def check_index(store: FileStore, headers: Sequence[Header], folder: str) -> Iterator[Finding]:
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
                yield Finding("dead_pointer", file, message, FIX, line.number + 1, fixable=True)
            elif pointed[line.text.strip()] == 2:
                yield Finding("duplicate", file, f"the line for {name} stands twice", "take one out", line.number + 1)
    targets = {fold(prefix + line.name) for line in lines if line.is_pointer}
    for header in mine:
        if fold(header.name) not in targets and not is_about_person(store, header):
            yield _tell_orphan(store, header, file)
    yield from _check_size(text, file, len(lines))


def _tell_orphan(store: FileStore, header: Header, file: str) -> Finding:
    if why := find_unfit(header, store.rules):
        fix = f"`memdir demote {header.name}`, or `memdir edit` it"
        return Finding("orphan", header.file, f"no line in {file} may point to it: {why}, and others read that", fix)
    return Finding("orphan", header.file, f"no line in {file} points to it", FIX, fixable=True)


def _check_size(text: str, file: str, count: int) -> Iterator[Finding]:
    size = len(text.encode("utf-8", "surrogateescape"))
    if count > INDEX_LINES or size > INDEX_BYTES:
        message = f"{count} lines and {size:,} bytes; {INDEX_LINES} lines and {INDEX_BYTES:,} bytes are loaded"
        yield Finding("oversize_index", file, message, "shorten lines and move detail into topic files")
    for line in find_long_lines(text):
        length = len(line.text.rstrip("\r\n"))
        message = f"{length} characters, {INDEX_LINE_CHARS} are enough for a pointer"
        yield Finding("long_line", file, message, "move the detail into its topic file", line.number + 1)
