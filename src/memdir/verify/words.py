"""One pass over a project's files for all wanted words at once, and the lines in which they are defined.

A file is cut into words with two passes of C code, so that a hundred memories cost little more than one. Only in files
that have a wanted word are lines looked at. What defines a word is told by the line's shape, for the common languages
together; a parser for each was measured and is not worth its weight (docs/decisions/0013).

Only regular files up to a size are read, and no link is followed.
"""

import os
import re
import stat
from collections.abc import Collection, Iterator
from pathlib import Path

from memdir.frozen import dataclass, field
from memdir.limits import VERIFY_BYTES, VERIFY_FILE_BYTES
from memdir.verify.project import Entry, Project

_KEPT = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$"
WORDS = bytes(at if at in _KEPT or at >= 128 else 32 for at in range(256))
_DASHED = bytes(at if at in _KEPT + b"-" or at >= 128 else 32 for at in range(256))
C_ENDINGS = (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".m", ".mm")
_FILES = 50  # places kept for one word
_DOCUMENTS = frozenset("md mdx rst txt adoc tex html htm po pot".split())
_LOGS = re.compile(
    r"(?:^|/)(?:change(?:s|log)|news|history|release[-_]?notes|upgrading|migration[-_]?guide|authors|contributors)\b[^/]*\Z",
    re.I,
)
_LOCKS = re.compile(
    r"(?:^|/)(?:package-lock\.json|yarn\.lock|pnpm-lock\.yaml|poetry\.lock|uv\.lock|Cargo\.lock|go\.sum|[^/]+\.min\.(?:js|css))\Z"
)

_BEFORE = (
    rb"(?:\b(?:def|class|function\*?|func|fn|interface|struct|enum|trait|type|typedef|macro_rules!|module|mod|namespace|union|"
    rb"protocol|extension|object|record|const|let|var|val|static|sub|defp|defmodule|package|import|as|"
    rb"constexpr|final|readonly|get|set)[ \t]+[*&]*|\#[ \t]*define[ \t]+|"
    rb"\bfunc[ \t]*\([^()\n]*\)[ \t]*|"  # a method of Go
    rb"\b[A-Z]\w*(?:\.|::)(?:prototype\.)?)"
)
# A word or two of types before a name, as C and Java have them; not what begins a statement.
_TYPE = (
    rb"(?!(?:if|elif|else|while|for|return|await|yield|throw|raise|assert|not|and|or|in|is|print|new|case|switch|del|echo|do|"
    rb"then|with|goto|from)\b)[\w@\"'*&<>\[\],:.]+[ \t]+"
)
_HEAD = rb"^[ \t]*(?:" + _TYPE + rb"){0,6}?[*&\"']*(?:[\w$]+(?:\.|::))*"
_TYPED = rb"^[ \t]*(?:" + _TYPE + rb"){1,6}?[*&]*"
_GIVEN = rb"[ \t]*(?:<[^<>\n]*>)?\((?:[^()\n]|\([^()\n]*\))*\)"  # what a function takes
_MARK = b"Q9_Z"  # stands for the word that is looked for, so that one pattern serves all words
# After a word that defines; at the head of a line before `=`, `:` or `(…) {`; after a type; alone in its line.
_FORMS = (
    _BEFORE + _MARK,
    _HEAD + _MARK + rb"[\"']?[ \t]*(?::(?!:)|=(?![=>~]))",
    _HEAD + _MARK + _GIVEN + rb"[ \t]*(?:\{|->|:|=>|const\b|throws\b)",
    _TYPED + _MARK + rb"[ \t]*\([^\n;]*\r?$",
    rb"^[ \t]*[\"']?" + _MARK + rb"[\"']?[ \t]*,?[ \t]*\r?$",
)
_DEFINES = re.compile(b"|".join(_FORMS))
_DEFINES_C = re.compile(b"|".join((*_FORMS, rb"^" + _MARK + rb"[ \t]*\([^\n;]*\r?$")))
_OWNED = re.compile(rb"([\w$]+)(?:<[^<>\n]*>)?[\])*]{0,3}(?:\.prototype)?(?:\.|::|->|#|\)[ \t]*)\Z")
_OWNING = re.compile(
    rb"\b(?:class|struct|interface|trait|impl|enum|type|object|module|extension|protocol|record|namespace|const|var|let|"
    rb"function)\b[^\n]{0,200}\Z"
)
_IN_WORDS = tuple(bytes((at,)) for at in _KEPT)
_LOOK_BACK = 80
_LINE_BYTES = 1_000  # of a line either side of a word; what is longer was not written by hand
_PLACES = 500  # of one word in one file that are looked at


@dataclass(frozen=True, slots=True)
class Found:
    """Where a word stands: files of code, of documents, and the code files that define it."""

    code: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    defined: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Lookup:
    """What the pass found; a word that is nowhere is not in it. A flag has one file.

    It is not whole where the project is too large to be searched.
    """

    words: dict[str, Found] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    is_whole: bool = True

    def find(self, word: str) -> Found:
        return self.words.get(word, Found())


def is_document(path: str) -> bool:
    """Text for people, where a word may be told about long after it is gone."""
    return path.rpartition(".")[2].lower() in _DOCUMENTS or is_log(path)


def is_log(path: str) -> bool:
    """Text about the past."""
    return bool(_LOGS.search(path))


def is_searched(path: str) -> bool:
    return not _LOCKS.search(path)


def look_up(project: Project, words: Collection[str], flags: Collection[str] = ()) -> Lookup:
    """Every wanted word with its places; a flag with the first file that has it, spelled or as an identifier."""
    wanted = {word.encode("utf-8", "replace"): word for word in words}
    dashed = _spell_flags(flags)
    code: dict[str, list[str]] = {}
    documents: dict[str, list[str]] = {}
    defined: dict[str, list[str]] = {}
    seen: dict[str, str] = {}
    left = VERIFY_BYTES
    for path, data in _read_files(project) if wanted or dashed else ():
        left -= len(data)
        if left < 0:
            break
        if dashed:
            for spelled in dashed.keys() & set(data.translate(_DASHED).split()):
                if not is_log(path):
                    seen.setdefault(dashed[spelled], path)
        hits = wanted.keys() & set(data.translate(WORDS).split())
        if not hits or is_log(path):
            continue
        into = documents if is_document(path) else code
        for hit in hits:
            _keep(into, wanted[hit], path)
        if into is code:
            for hit in hits:
                if is_defined(data, hit, is_c=path.endswith(C_ENDINGS)):
                    _keep(defined, wanted[hit], path)
    names = code.keys() | documents.keys()
    made = {
        at: Found(tuple(code.get(at, ())), tuple(documents.get(at, ())), tuple(defined.get(at, ()))) for at in names
    }
    return Lookup(made, seen, left >= 0)


def is_defined(data: bytes, word: bytes, *, is_c: bool = False) -> bool:
    """Whether some line defines this word. In C a name may begin its line, the type standing above it."""
    defines = _DEFINES_C if is_c else _DEFINES
    return any(
        defines.search(data[begin:place] + _MARK + data[place + len(word) : end])
        for begin, place, end in _find_word(data, word)
    )


def has_member(data: bytes, owner: bytes, member: bytes) -> bool:
    """Whether a file has a member of this owner: named with it, or in the lines indented below its definition."""
    places = [place for _, place, _ in _find_word(data, member)]
    for place in places:
        before = _OWNED.search(data[max(0, place - _LOOK_BACK) : place])
        if before is not None and before[1] == owner:
            return True
    if not places:
        return False
    for begin, place, end in _find_word(data, owner):
        if _OWNING.search(data[begin:place]):
            until = _find_end(data, begin, end)
            if any(begin <= at < until for at in places):
                return True
    return False


def _find_word(data: bytes, word: bytes) -> Iterator[tuple[int, int, int]]:
    """Where a whole word stands: the beginning of its line, its own place, the end of its line. Long lines are cut."""
    place, count = data.find(word), 0
    while place >= 0 and count < _PLACES:
        after = place + len(word)
        if data[place - 1 : place] not in _IN_WORDS and data[after : after + 1] not in _IN_WORDS:
            begin = data.rfind(b"\n", max(0, place - _LINE_BYTES), place) + 1 or max(0, place - _LINE_BYTES)
            end = data.find(b"\n", after, after + _LINE_BYTES)
            yield begin, place, min(len(data), after + _LINE_BYTES) if end < 0 else end
            count += 1
        place = data.find(word, after)


def _find_end(data: bytes, begin: int, end: int) -> int:
    """Where the lines end that are indented deeper than the one that begins here; its closing brackets are not one."""
    indent = len(data[begin:end]) - len(data[begin:end].lstrip(b" \t"))
    while end < len(data):
        begin, end = end + 1, data.find(b"\n", end + 1)
        end = len(data) if end < 0 else end
        line = data[begin:end]
        bare = line.lstrip(b" \t")
        if bare.rstrip() and len(line) - len(bare) <= indent and bare[:1] not in b")]}{>#/*":
            return begin
    return len(data)


def _keep(into: dict[str, list[str]], word: str, path: str) -> None:
    places = into.setdefault(word, [])
    if len(places) < _FILES:
        places.append(path)


def _spell_flags(flags: Collection[str]) -> dict[bytes, str]:
    """How a flag may stand in code: as typed, without its dashes, or as the identifier a library makes of it."""
    spelled: dict[bytes, str] = {}
    for flag in flags:
        bare = flag.lstrip("-")
        head, *rest = bare.replace("_", "-").split("-")
        camel = head + "".join(part.capitalize() for part in rest)
        forms = (flag, bare, bare.replace("-", "_"), camel) if rest else (flag,)
        for form in forms:
            spelled[form.encode("utf-8", "replace")] = flag
    return spelled


def _read_files(project: Project) -> Iterator[tuple[str, bytes]]:
    for path, entry in project.entries.items():
        if is_searched(path) and (data := read_entry(project.root, entry)) is not None:
            yield path, data


def read_entry(root: Path, entry: Entry) -> bytes | None:
    """A text file's bytes; None for links, data, and what is too large or cannot be read."""
    if not stat.S_ISREG(entry.mode) or entry.size > VERIFY_FILE_BYTES:
        return None
    try:
        handle = os.open(f"{root}/{entry.path}", os.O_RDONLY | os.O_NONBLOCK | getattr(os, "O_NOFOLLOW", 0))
    except (OSError, ValueError):
        return None
    try:
        data = os.read(handle, VERIFY_FILE_BYTES + 1)
    except OSError:
        return None
    finally:
        os.close(handle)
    return None if b"\0" in data[:8_000] else data
