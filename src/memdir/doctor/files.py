"""What is wrong with memory files one by one: what cannot be read, heads, names, copies, links."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from memdir.doctor.findings import Finding
from memdir.guard import find_refusal
from memdir.links import find_links, find_target, make_targets
from memdir.records import Header, Kind, Memory
from memdir.store.files import FileStore
from memdir.store.shared import is_shared
from memdir.text import fold, one_line, shorten


def check_entries(store: FileStore) -> Iterator[Finding]:
    """Files that look like memories and may not be read, or not be written."""
    for found in store.look():
        stem = found.path.removesuffix(".md")
        if "larger" in found.refusal:
            yield Finding("oversize_file", found.path, f"not read: {found.refusal}", "split it or move it elsewhere")
        elif found.refusal:
            yield Finding("special_file", found.path, f"not read: {found.refusal}", "replace it by a plain file")
        elif reason := next((at for at in map(find_refusal, stem.split("/")) if at), ""):
            yield Finding("bad_name", found.path, f"it can be read but not written: {reason}", "rename the file")


def check_headers(headers: Sequence[Header]) -> Iterator[Finding]:
    for header in headers:
        if "type" in header.problem:
            fix = "set type: to user, feedback, project or reference"
            yield Finding("unknown_type", header.file, f"{header.problem}; it is still listed and recalled", fix)
        elif header.problem:
            fix = f"`memdir edit {header.name}`: name, description and type between two --- lines"
            yield Finding("broken_frontmatter", header.file, header.problem, fix)


def check_shared(store: FileStore, headers: Sequence[Header]) -> Iterator[Finding]:
    """Memories about a person where others will read them; only a file put there by hand can be one."""
    for header in headers:
        if is_about_person(store, header):
            message = "it is about a person, and lies where others read it"
            yield Finding("about_person", header.file, message, f"`memdir demote {header.name}` makes it yours again")


def is_about_person(store: FileStore, header: Header) -> bool:
    """Whether others can read something here that is about a person."""
    return header.kind is Kind.USER and is_shared(header.file, store.rules)


def check_duplicates(memories: Sequence[Memory]) -> Iterator[Finding]:
    """Two files of one name but for case and the like, or of one text."""
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


def check_links(memories: Sequence[Memory]) -> Iterator[Finding]:
    targets = make_targets([memory.header for memory in memories])
    for memory in memories:
        for link, line in find_links(memory.text):
            if find_target(link, targets) is None:
                shown = shorten(one_line(link), 60)
                message = f"[[{shown}]] names no memory here"
                yield Finding("unresolved_link", memory.header.file, message, "correct it, or leave it for later", line)
