"""Read a project: its files, the words and definitions in them, and the scripts in its manifests.

The files are those that git lists, or a limited number of files outside git. No code of the repository is run: no hook,
no file monitor, no filter. `stat` shows whether a file has changed, because git would run a clean filter. If the
listing is incomplete, nothing may be reported as gone. Ignored files are not listed, but `has` finds them.

One pass over the files finds all words: each file is split into words by C code, so that a hundred memories take little
more time than one, and lines are read only in files with a wanted word. Definitions are recognised by the form of the line,
for all common languages together. A parser for each was measured and is not worth its size (docs/decisions/0013). Only
regular files up to a maximum size are read, and links are not followed.
"""

import hashlib
import os
import re
import stat
import time
from collections.abc import Collection, Iterator
from pathlib import Path

from memdir.files import read_small
from memdir.frozen import dataclass, field, replace
from memdir.limits import VERIFY_BYTES, VERIFY_FILE_BYTES, VERIFY_FILES, VERIFY_GIT_SECONDS
from memdir.project.paths import find_git_dir, run_git
from memdir.text import as_table, parse_json

_ENTRY = re.compile(r"([HSMRCK?]) (?:(\d{6}) [0-9a-f]+ \d\t)?(.+)", re.DOTALL)
_SKIPPED = frozenset({".git", "node_modules", "__pycache__", ".venv", "venv", ".tox", "target", "dist", "build"})
_CONFIG_BYTES = 262_144
_PLAIN_FILES = 20_000  # outside git the root may be a home directory
_PLAIN_SECONDS = 5.0
_NO_LISTING = "git does not list the project's files: it is missing, too slow, or does not trust this folder"

_KEPT = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_$"
WORDS = bytes(at if at in _KEPT or at >= 128 else 32 for at in range(256))
_DASHED = bytes(at if at in _KEPT + b"-" or at >= 128 else 32 for at in range(256))
_C_ENDINGS = (".c", ".h", ".cc", ".cpp", ".cxx", ".hpp", ".m", ".mm")
_FILES = 50  # files kept for one word
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
_PARAMETERS = rb"[ \t]*(?:<[^<>\n]*>)?\((?:[^()\n]|\([^()\n]*\))*\)"  # the parameters of a function
_MARK = b"Q9_Z"  # stands for the word that is looked up, so that one pattern serves all words
# A definition: after a keyword; at the start of a line, before `=`, `:` or `(…) {`; after a type; alone in its line.
_FORMS = (
    _BEFORE + _MARK,
    _HEAD + _MARK + rb"[\"']?[ \t]*(?::(?!:)|=(?![=>~]))",
    _HEAD + _MARK + _PARAMETERS + rb"[ \t]*(?:\{|->|:|=>|const\b|throws\b)",
    _TYPED + _MARK + rb"[ \t]*\([^\n;]*\r?$",
    rb"^[ \t]*[\"']?" + _MARK + rb"[\"']?[ \t]*,?[ \t]*\r?$",
)
_DEFINES = re.compile(b"|".join(_FORMS))
_DEFINES_C = re.compile(b"|".join((*_FORMS, rb"^" + _MARK + rb"[ \t]*\([^\n;]*\r?$")))
_IN_WORDS = tuple(bytes((at,)) for at in _KEPT)
_LINE_BYTES = 1_000  # read of a line on either side of a word; longer lines are generated
_PLACES = 500  # occurrences of a word that are examined in one file

_TARGETS = re.compile(
    r"^\.PHONY[ \t]*:[ \t]*(.+)$"
    r"|^@?([A-Za-z0-9_./%-]+(?:[ \t]+[A-Za-z0-9_./%-]+)*)(?:[ \t]+[^:=\n]*)?[ \t]*::?(?!=)",
    re.MULTILINE,
)
_SCRIPTED = re.compile(r"(?:^|/)package\.json\Z")
_MAKEFILE = re.compile(r"(?:^|/)(?:GNUm|M|m)akefile\Z|\.mk\Z")
_JUSTFILE = re.compile(r"(?:^|/)\.?[Jj]ustfile\Z")
_MANIFESTS = 400  # read at most; the largest monorepos have as many packages


@dataclass(frozen=True, slots=True)
class ProjectFile:
    """A file with the metadata that reveals whether it has changed."""

    path: str
    mode: int
    size: int
    mtime_ns: int


@dataclass(frozen=True, slots=True)
class ProjectListing:
    """The files of a project. `key` changes whenever a listed file or the commit changes.
    `inner` are folders whose files are not listed. `problem` explains why there is no listing."""

    root: Path
    entries: dict[str, ProjectFile]
    folders: frozenset[str]
    commit: str
    key: str
    inner: tuple[str, ...] = ()
    is_git: bool = False
    is_whole: bool = True
    problem: str = ""

    def has(self, path: str) -> bool:
        """Return whether a file or folder exists inside the root. Includes files that git ignores."""
        bare = path.strip("/")
        if bare in self.entries or bare in self.folders:
            return True
        if not bare or "\0" in bare or ".." in bare.split("/"):
            return False
        path, root = f"{self.root}/{bare}", os.path.realpath(self.root)
        return f"{os.path.realpath(os.path.dirname(path))}/".startswith(f"{root}/") and os.path.lexists(path)


@dataclass(frozen=True, slots=True)
class WordPlaces:
    """The code files and documents that contain a word, and the code files that define it."""

    code: tuple[str, ...] = ()
    documents: tuple[str, ...] = ()
    defined: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FoundWords:
    """The files in which words and flags were found. Incomplete if the project is too large to search."""

    words: dict[str, WordPlaces] = field(default_factory=dict)
    flags: dict[str, str] = field(default_factory=dict)
    is_whole: bool = True

    def find(self, word: str) -> WordPlaces:
        return self.words.get(word, WordPlaces())


_PROBE_SECONDS = 5.0


def open_project(root: Path, seconds: float = VERIFY_GIT_SECONDS) -> ProjectListing:
    """List a project's files. If this fails, the result is empty and marked as incomplete."""
    ends = time.monotonic() + seconds
    if find_git_dir(root) is None:
        return _make_listing(root, *_walk(root, min(ends, time.monotonic() + _PLAIN_SECONDS)))
    # A repository's config may include a file at which git waits for ever: if this call fails, no other is made.
    if run_git(root, ("rev-parse", "--git-dir"), min(seconds, _PROBE_SECONDS))[0] != 0:
        return replace(_make_listing(root, {}, (), False), problem=_NO_LISTING)
    code, output = run_git(root, ("ls-files", "-z", "-t", "--stage", "--others", "--exclude-standard"), seconds)
    if code != 0:
        return replace(_make_listing(root, {}, (), False), is_git=True, problem=_NO_LISTING)
    arguments = ("rev-parse", "--verify", "--quiet", "HEAD^{commit}")
    head, commit = run_git(root, arguments, max(0.1, ends - time.monotonic()))
    listing = _make_listing(root, *_read_listing(root, output), commit=commit.strip() if head == 0 else "")
    return replace(listing, is_git=True)


def has_partial_history(root: Path) -> bool:
    """Return whether git may have to download missing history, also if its configuration cannot be read."""
    folder = find_git_dir(root)
    config = read_small(folder / "config", _CONFIG_BYTES).data if folder else None
    return config is None or b"promisor" in config.lower() or b"partialclone" in config.lower()


def is_document(path: str) -> bool:
    """Return whether a file is documentation, which may mention a word long after its removal."""
    return path.rpartition(".")[2].lower() in _DOCUMENTS or bool(_LOGS.search(path))


def look_up(project: ProjectListing, words: Collection[str], flags: Collection[str] = ()) -> FoundWords:
    """Return the files that contain each word, and the first file that contains each flag in any spelling."""
    targets = {word.encode("utf-8", "replace"): word for word in words}
    dashed = _spell_flags(flags)
    hits_by_word: dict[str, tuple[list[str], list[str], list[str]]] = {}
    flag_files: dict[str, str] = {}
    left = VERIFY_BYTES
    for path, entry in project.entries.items() if targets or dashed else ():
        data = None if _LOCKS.search(path) else read_entry(project.root, entry)
        if data is None:
            continue
        left -= len(data)
        if left < 0:
            break
        if _LOGS.search(path):
            continue
        if dashed:
            for spelled in dashed.keys() & set(data.translate(_DASHED).split()):
                flag_files.setdefault(dashed[spelled], path)
        is_prose = is_document(path)
        for hit in targets.keys() & set(data.translate(WORDS).split()):
            code, documents, defined = hits_by_word.setdefault(targets[hit], ([], [], []))
            (documents if is_prose else code).append(path)
            if not is_prose and is_defined(data, hit, is_c=path.endswith(_C_ENDINGS)):
                defined.append(path)
    places = {word: WordPlaces(*(tuple(paths[:_FILES]) for paths in hits)) for word, hits in hits_by_word.items()}
    return FoundWords(places, flag_files, left >= 0)


def is_defined(data: bytes, word: bytes, *, is_c: bool = False) -> bool:
    """Return whether a line defines a word. In C, the type may be on the line above."""
    defines = _DEFINES_C if is_c else _DEFINES
    return any(
        defines.search(data[begin:place] + _MARK + data[place + len(word) : end])
        for begin, place, end in _find_word(data, word)
    )


def read_entry(root: Path, entry: ProjectFile) -> bytes | None:
    """Return the bytes of a text file, or None if it is binary, a link, too large or unreadable."""
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


def read_scripts(project: ProjectListing) -> dict[str, str]:
    """Return scripts and targets by `tool:name`, such as npm:build, with the files that define them."""
    scripts: dict[str, str] = {}
    paths = [path for path in project.entries if any(kind.search(path) for kind in (_SCRIPTED, _MAKEFILE, _JUSTFILE))]
    for path in sorted(paths, key=lambda path: (path.count("/"), path))[:_MANIFESTS]:
        text = (read_entry(project.root, project.entries[path]) or b"").decode("utf-8", "replace")
        for script in _read_scripts(path, text):
            scripts.setdefault(script, path)
    return scripts


def _read_scripts(path: str, text: str) -> Iterator[str]:
    if _MAKEFILE.search(path) or _JUSTFILE.search(path):
        tool = "just" if _JUSTFILE.search(path) else "make"
        for match in _TARGETS.finditer(text):
            yield from (f"{tool}:{name}" for name in (match[1] or match[2]).split())
        return
    yield from (f"npm:{name}" for name in as_table(as_table(parse_json(text)).get("scripts")))


def _read_listing(root: Path, output: str) -> tuple[dict[str, ProjectFile], tuple[str, ...], bool]:
    entries: dict[str, ProjectFile] = {}
    inner: list[str] = []
    listed = output.split("\0")
    for line in listed[:VERIFY_FILES]:
        match = _ENTRY.match(line)
        if match is None:
            continue
        tag, mode, path = match.groups()
        if mode == "160000" or path.endswith("/"):
            inner.append(path.rstrip("/"))
        elif entry := _stat(root, path):
            entries[path] = entry
        elif tag == "S":  # a sparse checkout leaves it out, but it exists
            entries[path] = ProjectFile(path, 0, 0, 0)
    return entries, tuple(inner), len(listed) <= VERIFY_FILES


def _walk(root: Path, ends: float) -> tuple[dict[str, ProjectFile], tuple[str, ...], bool]:
    entries: dict[str, ProjectFile] = {}
    top = len(str(root).rstrip("/")) + 1
    for folder, folders, names in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in _SKIPPED)
        for name in names:
            path = os.path.join(folder, name)[top:]
            if entry := _stat(root, path):
                entries[path] = entry
        if len(entries) > _PLAIN_FILES or time.monotonic() > ends:
            return entries, (), False
    return entries, (), True


def _stat(root: Path, path: str) -> ProjectFile | None:
    try:
        facts = os.lstat(f"{root}/{path}")
    except (OSError, ValueError):
        return None
    return None if stat.S_ISDIR(facts.st_mode) else ProjectFile(path, facts.st_mode, facts.st_size, facts.st_mtime_ns)


def _make_listing(
    root: Path, entries: dict[str, ProjectFile], inner: tuple[str, ...], is_whole: bool, *, commit: str = ""
) -> ProjectListing:
    folders: set[str] = set()
    for path in entries:
        folder = path.rpartition("/")[0]
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    digest = hashlib.sha256(f"{root}\0{commit}\0".encode("utf-8", "replace"))
    for path in sorted(entries):
        entry = entries[path]
        digest.update(f"{path}\0{entry.size} {entry.mtime_ns} {entry.mode}\0".encode("utf-8", "replace"))
    key = digest.hexdigest()[:32]
    return ProjectListing(root, entries, frozenset(folders.union(inner)), commit, key, inner, is_whole=is_whole)


def _find_word(data: bytes, word: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield the offsets of each occurrence of a word: start of the line, start of the word, and end of the line."""
    place, count = data.find(word), 0
    while place >= 0 and count < _PLACES:
        after = place + len(word)
        if data[place - 1 : place] not in _IN_WORDS and data[after : after + 1] not in _IN_WORDS:
            begin = data.rfind(b"\n", max(0, place - _LINE_BYTES), place) + 1 or max(0, place - _LINE_BYTES)
            end = data.find(b"\n", after, after + _LINE_BYTES)
            yield begin, place, min(len(data), after + _LINE_BYTES) if end < 0 else end
            count += 1
        place = data.find(word, after)


def _spell_flags(flags: Collection[str]) -> dict[bytes, str]:
    """Return the spellings of flags in code: as typed, without dashes, or as an identifier."""
    spelled: dict[bytes, str] = {}
    for flag in flags:
        bare = flag.lstrip("-")
        head, *rest = bare.replace("_", "-").split("-")
        camel = head + "".join(part.capitalize() for part in rest)
        forms = (flag, bare, bare.replace("-", "_"), camel) if rest else (flag,)
        for form in forms:
            spelled[form.encode("utf-8", "replace")] = flag
    return spelled
