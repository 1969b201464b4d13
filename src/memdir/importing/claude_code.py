"""A memory directory, Claude Code's or memdir's own, of another project or machine: whole files, kept to the letter.

A file without a type or a head gets one made from its own words, since nothing without them may be written; every other
byte stays. Names outside the grammar become slugs. What a team shares there is left out unless it is asked for: here it
would be shared again.
"""

import re
from collections.abc import Iterator

from memdir import frontmatter, index
from memdir.drafts import check_description, make_slug
from memdir.errors import FormatError, PathError
from memdir.guard import check_name
from memdir.importing.made import guess_kind, read_when, refuse
from memdir.importing.records import Candidate, File, Format, Found, Pile
from memdir.limits import FILE_BYTES, NAME_DEPTH
from memdir.records import Dialect, Kind
from memdir.store.plan import TEAM_FOLDER, decode
from memdir.store.shared import is_team
from memdir.text import fold, one_line, shorten

TEAM = "a team shares it there; --with-team takes it along, and then it is shared from here"
_SENTENCE = re.compile(r"(?<=[.!?。！？])\s+")


def read_directory(pile: Pile, *, with_team: bool = False) -> Found:
    """Every memory of a directory, in the order of its index."""
    files = list(_find_memories(pile))
    listed = next((decode(file.data) for path, file in files if path == index.INDEX_FILE), "")
    lines = [line for line in index.parse_index(listed) if line.is_pointer]
    places = {fold(line.name): (line.number, line.hook) for line in reversed(lines)}
    found = [
        (places.get(fold(path[:-3]), (len(lines) + at + 10**6, "")), path, file)
        for at, (path, file) in enumerate(files)
        if not _is_index(path)
    ]
    candidates = [
        _make(path, file, hook, with_team) for (_, hook), path, file in sorted(found, key=lambda at: at[0][0])
    ]
    refused = [refuse(path, path, why) for path, why in pile.refused if path.endswith(".md")]
    return Found(Format.CLAUDE_CODE, (*candidates, *refused), listed)


def has_memories(pile: Pile) -> bool:
    """Whether this looks like a memory directory: an index of pointers, or files with a memory's head."""
    for path, file in _find_memories(pile):
        if _is_index(path) and any(line.is_pointer for line in index.parse_index(file.text)):
            return True
        if not _is_index(path) and frontmatter.parse_fields(decode(file.data)).description:
            return True
    return False


def _find_memories(pile: Pile) -> Iterator[tuple[str, File]]:
    """The memory files with their paths below the directory itself, wherever in the pile that begins."""
    base = _find_base(pile)
    for file in pile.files:
        if file.path.startswith(base) and file.path.endswith(".md"):
            path = file.path[len(base) :]
            if path.partition("/")[0].casefold() != "logs" or "/" not in path:
                yield path, file


def _find_base(pile: Pile) -> str:
    """The folder of the outermost index; else `memory/` if there is one; else the folder that all files share."""
    indexes = [file.path for file in pile.files if file.path.rpartition("/")[2] == index.INDEX_FILE]
    if indexes:
        return min(indexes, key=lambda path: (path.count("/"), path)).removesuffix(index.INDEX_FILE)
    if any(file.path.startswith("memory/") for file in pile.files):
        return "memory/"
    paths = [file.path for file in pile.files if file.path.endswith(".md")]
    first = f"{paths[0].partition('/')[0]}/" if paths else ""
    return first if first != f"{TEAM_FOLDER}/" and all(path.startswith(first) for path in paths) else ""


def _is_index(path: str) -> bool:
    return path.rpartition("/")[2][:-3].casefold() == index.INDEX_FILE[:-3].casefold()


def _make(path: str, file: File, hook: str, with_team: bool) -> Candidate:
    text = decode(file.data)
    fields = frontmatter.parse_fields(text)
    when = read_when(fields.modified) or file.modified
    if is_team(path) and not with_team:
        return refuse(path, fields.title or path, TEAM, when)
    if len(file.data) > FILE_BYTES:
        return refuse(path, fields.title or path, f"it is larger than {FILE_BYTES:,} bytes", when)
    try:
        whole = complete(text, fields, path)
    except FormatError as error:
        return refuse(path, fields.title or path, str(error), when)
    return Candidate(path, whole, _make_name(path[:-3]), hook, modified=when, is_whole=True)


def _make_name(path: str) -> str:
    """The file's own name where that is one, else the nearest that is."""
    try:
        check_name(path)
    except PathError:
        return "/".join(make_slug(part) for part in path.split("/")[-NAME_DEPTH:])
    return path


def complete(text: str, fields: frontmatter.Fields, path: str) -> str:
    """The text with type and description; the very same if it has them."""
    said = _find_sentence(text) or fields.title
    description = fields.description
    try:
        check_description(description, fields.kind)
    except FormatError:
        description = shorten(one_line(f"{description}: {said}" if description else said), 300)
    kind = fields.kind or guess_kind(f"{fields.title}. {said}", Kind.PROJECT)
    if not fields.problem and description == fields.description:
        return text
    if fields.dialect is None:
        wanted = {"name": fields.title or path.rpartition("/")[2][:-3], "description": description, "type": kind.value}
        return frontmatter.compose(wanted, text, Dialect.FLAT)
    changes = {"name": fields.title or path.rpartition("/")[2][:-3], "description": description, "type": kind.value}
    return frontmatter.set_fields(text, changes)


def _find_sentence(text: str) -> str:
    """The first sentence of the body that is no heading."""
    for line in frontmatter.split(text).body.splitlines():
        bare = line.strip().lstrip("-*+> ").strip()
        if bare and not bare.startswith(("#", "```", "|")):
            return _SENTENCE.split(bare)[0].strip("*_ ")
    return ""
