"""Find removed things in git's history: renamed files, and words that were removed or replaced.

There are two passes from the newest commit back, within a time limit. The first reads only file names, with git's rename
detection. The second reads the patches for all words at once. If several commits removed a thing, the newest counts.
`git log` is streamed with fixed settings, and no code of the repository is run. The replacement of a word is an assumption,
based on a line with no other difference or on a definition added by the same commit.
"""

import difflib
import os
import re
import selectors
import subprocess
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

from memdir.frozen import dataclass
from memdir.project.settings import git_environ
from memdir.verify.project import WORDS, is_defined, is_document

_DONE = b"\x02"  # follows the last piece of a stream that was read to its end
_BLOCK = 1 << 20
_COMMIT_BYTES = 64 << 20  # a longer patch of a commit is cut
_QUIET = (
    "--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}",
    "-c", "core.quotePath=false",
)  # fmt: skip
# A first commit removes nothing, and its patch is the full project.
_LOG = (
    "log", "--min-parents=1", "--no-show-signature", "--no-diff-merges", "--no-ext-diff", "--no-textconv", "--no-color",
    "-M", "-l1000", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", "--inter-hunk-context=0",
)  # fmt: skip
_TOKENS = re.compile(rb"[A-Za-z_$][\w$]*|\d+|[^\s\w]")
_IDENTIFIER = re.compile(rb"[A-Za-z_$][\w$]{2,}")
_PAIRS = 400  # max lines of a hunk that are compared; a longer hunk is a rewrite
_LIKE = 0.6  # min ratio at which two names are similar
# A name after a defining keyword, a constant, or an assigned function.
_NAMING = re.compile(
    rb"^[ \t]*(?:(?:export|default|pub(?:\([^()]*\))?|async|static|public|private|abstract|final)[ \t]+)*"
    rb"(?:def|class|function|func|fn|interface|struct|enum|trait|type|const)[ \t]+(?:\([^()\n]*\)[ \t]*)?"
    rb"([A-Za-z_$][\w$]*)|^([A-Z][A-Z0-9_]{2,})[ \t]*="
    rb"|^[ \t]*(?:[\w$]+[ \t.])*([A-Za-z_$][\w$]*)[ \t]*[=:][ \t]*(?:async[ \t]+)?function\b"
)


@dataclass(frozen=True, slots=True)
class RemovedBy:
    """The commit that removed something, with its new name or its likely replacement."""

    commit: str
    to: str = ""
    came: str = ""


@dataclass(frozen=True, slots=True)
class WordTrace:
    """The newest commits that removed a word, a definition of it, and a definition by keyword such as `def`."""

    vanished: RemovedBy | None = None
    undefined: RemovedBy | None = None
    named: RemovedBy | None = None


@dataclass(frozen=True, slots=True)
class _Hunk:
    path: str
    minus: tuple[bytes, ...]
    plus: tuple[bytes, ...]


def read_names(root: Path, ends: float) -> tuple[dict[str, RemovedBy], bool]:
    """Return the commits that renamed or deleted each path, and whether the complete history was read."""
    gone: dict[str, RemovedBy] = {}
    arguments = (*_LOG, "--name-status", "-z", "--diff-filter=DR", "--format=%x01%h", "HEAD", "--")
    tokens = _split_stream(_stream(root, arguments, ends), b"\0")
    commit = ""
    for token in tokens:
        word = token.lstrip(b"\n")
        if word == _DONE:
            return gone, True
        if word.startswith(b"\x01"):
            commit = word[1:].decode("ascii", "replace")
        elif word[:1] == b"R":
            old, new = _decode_path(next(tokens, b"")), _decode_path(next(tokens, b""))
            gone.setdefault(old, RemovedBy(commit, new))
        elif word == b"D":
            gone.setdefault(_decode_path(next(tokens, b"")), RemovedBy(commit))
    return gone, False


def follow(gone: Mapping[str, RemovedBy], path: str, existing: Collection[str]) -> RemovedBy | None:
    """Return the last rename or removal of a path, or None. Follows several renames in a row."""
    removal, visited = gone.get(path), {path}
    while removal is not None and removal.to and removal.to not in existing and removal.to not in visited:
        visited.add(removal.to)
        later = gone.get(removal.to)
        if later is None:
            break
        removal = later
    return removal if removal is None or not removal.to or removal.to in existing else RemovedBy(removal.commit)


def read_words(root: Path, words: Collection[str], ends: float) -> tuple[dict[str, WordTrace], bool]:
    """Return the commits that removed each word, and whether enough history was read. Ignores documentation files."""
    pending = {word.encode("utf-8", "replace") for word in words}
    traces_by_word: dict[bytes, WordTrace] = {}
    is_whole = False
    for patch in _stream_patches(root, ends) if pending else (_DONE,):
        hits = pending & set(patch.translate(WORDS).split())
        if hits:
            _read_commit(patch, hits, traces_by_word)
            traces = ((word, traces_by_word.get(word, WordTrace())) for word in hits)
            pending -= {word for word, trace in traces if trace.vanished is not None and trace.undefined is not None}
        if patch == _DONE or not pending:
            is_whole = True
            break
    return {word.decode("utf-8", "replace"): trace for word, trace in traces_by_word.items()}, is_whole


def read_git_lines(
    root: Path, patterns: Mapping[str, re.Pattern[bytes]], ends: float, globs: tuple[str, ...] = ()
) -> dict[str, RemovedBy]:
    """Return, by key, the newest commit that removed a line matching the key's pattern and added none."""
    left = dict(patterns)
    removals: dict[str, RemovedBy] = {}
    for patch in _stream_patches(root, ends, globs) if patterns else ():
        hunks = list(_read_hunks(patch)) if any(pattern.search(patch) for pattern in left.values()) else []
        minus, plus = _join_sides(hunks)
        for key, pattern in list(left.items()):
            if pattern.search(minus) and not pattern.search(plus):
                removals[key] = RemovedBy(_find_commit(patch))
                del left[key]
        if not left:
            break
    return removals


def _read_commit(patch: bytes, hits: Collection[bytes], traces: dict[bytes, WordTrace]) -> None:
    """Add a commit to the history of these words. Newer commits take precedence."""
    hunks = [hunk for hunk in _read_hunks(patch) if not is_document(hunk.path)]
    minus, plus = _join_sides(hunks)
    fewer, more = (Counter(side.translate(WORDS).split()) for side in (minus, plus))
    for word in hits:
        trace = traces.get(word, WordTrace())
        is_vanished = trace.vanished is None and fewer[word] > more[word]
        is_undefined = (
            trace.undefined is None
            and fewer[word] > 0
            and is_defined(minus, word, is_c=True)
            and not is_defined(plus, word, is_c=True)
        )
        if not is_vanished and not is_undefined:
            continue
        removal = RemovedBy(_find_commit(patch), came=_find_successor(word, hunks, fewer, more))
        named = trace.named
        if is_undefined and any(word == _find_name(line) for hunk in hunks for line in hunk.minus):
            named = removal
        traces[word] = WordTrace(
            removal if is_vanished else trace.vanished, removal if is_undefined else trace.undefined, named
        )


def _find_successor(word: bytes, hunks: Sequence[_Hunk], fewer: Counter[bytes], more: Counter[bytes]) -> str:
    """Return the identifier that replaced a word in most lines, or ""."""
    votes: Counter[bytes] = Counter()
    for hunk in hunks:
        if not any(word in line for line in hunk.minus) or len(hunk.minus) > _PAIRS or len(hunk.plus) > _PAIRS:
            continue
        added = [_TOKENS.findall(line) for line in hunk.plus]
        for line in hunk.minus:
            if word in line:
                weight = 4 if is_defined(line, word) else 2
                votes.update(dict.fromkeys(_find_swapped(word, _TOKENS.findall(line), added), weight))
        votes.update(dict.fromkeys(_find_new_definitions(word, hunk), 1))
    fresh = {other: count for other, count in votes.items() if more[other] > fewer[other] and other != word}
    best = sorted(fresh, key=lambda other: (-fresh[other], other))[:2]
    if not best or (len(best) == 2 and fresh[best[0]] == fresh[best[1]] and not _is_similar(word, best[0])):
        return ""
    return best[0].decode("utf-8", "replace")


def _find_swapped(word: bytes, tokens: list[bytes], added: Sequence[list[bytes]]) -> set[bytes]:
    swapped: set[bytes] = set()
    for other in added:
        if len(other) == len(tokens):
            pairs = {(mine, theirs) for mine, theirs in zip(tokens, other, strict=True) if mine != theirs}
            replacements = {theirs for mine, theirs in pairs if mine == word}
            if len(replacements) == 1 and len(pairs) <= 2 and _IDENTIFIER.fullmatch(next(iter(replacements))):
                swapped |= replacements
    return swapped


def _find_new_definitions(word: bytes, hunk: _Hunk) -> set[bytes]:
    """Return the names that a hunk defines in place of `word`: the only new name, or all that are similar."""
    if not any(is_defined(line, word) for line in hunk.minus):
        return set()
    removed = {name for line in hunk.minus if (name := _find_name(line))}
    added = {name for line in hunk.plus if (name := _find_name(line))} - removed
    return added if len(added) == 1 and len(removed) == 1 else {name for name in added if _is_similar(word, name)}


def _find_name(line: bytes) -> bytes:
    match = _NAMING.match(line)
    return match[1] or match[2] or match[3] if match else b""


def _is_similar(one: bytes, other: bytes) -> bool:
    first, second = one.decode("utf-8", "replace").lower(), other.decode("utf-8", "replace").lower()
    return difflib.SequenceMatcher(None, first, second).ratio() >= _LIKE


def _read_hunks(patch: bytes) -> Iterator[_Hunk]:
    old, path = "", ""
    minus: list[bytes] = []
    plus: list[bytes] = []
    for line in (*patch.split(b"\n"), b"@@ "):
        first = line[:1]
        if line.startswith((b"@@ ", b"diff --git ")):
            if minus or plus:
                yield _Hunk(path or old, tuple(minus), tuple(plus))
            minus, plus = [], []
        elif line.startswith(b"--- ") and not minus and not plus:
            old, path = _decode_path(line[6:]), ""
        elif line.startswith(b"+++ ") and not plus and not minus:
            path = "" if line[4:].startswith(b"/dev/null") else _decode_path(line[6:])
        elif first == b"-":
            minus.append(line[1:])
        elif first == b"+":
            plus.append(line[1:])


def _join_sides(hunks: Sequence[_Hunk]) -> tuple[bytes, bytes]:
    return b"\n".join(line for hunk in hunks for line in hunk.minus), b"\n".join(
        line for hunk in hunks for line in hunk.plus
    )


def _find_commit(patch: bytes) -> str:
    return patch[: patch.find(b"\n")].lstrip(b"\x01\n").decode("ascii", "replace")


def _decode_path(path: bytes) -> str:
    text = path.rstrip(b"\t\r").decode("utf-8", "replace")
    return text[1:-1] if text.startswith('"') and text.endswith('"') else text


def _stream_patches(root: Path, ends: float, globs: tuple[str, ...] = ()) -> Iterator[bytes]:
    """Yield the patch of each commit without context lines, starting with the short hash."""
    pathspecs = tuple(f":(top,glob)**/{glob}" for glob in globs)
    return _split_stream(
        _stream(root, (*_LOG, "-p", "-U0", "--format=%x01%h", "HEAD", "--", *pathspecs), ends), b"\n\x01"
    )


def _stream(root: Path, arguments: tuple[str, ...], ends: float) -> Iterator[bytes]:
    """Yield git's output in blocks until it ends or the time is up. An empty block follows if git succeeded."""
    try:
        process = subprocess.Popen(
            ("git", "-C", str(root), *_QUIET, *arguments),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=git_environ(),
        )  # fmt: skip
    except (OSError, ValueError):
        return
    with process, selectors.DefaultSelector() as waiting:
        assert process.stdout is not None
        waiting.register(process.stdout, selectors.EVENT_READ)
        is_done = False
        try:
            while waiting.select(max(0.0, ends - time.monotonic())):
                block = os.read(process.stdout.fileno(), _BLOCK)
                if not block:
                    is_done = process.wait(max(0.1, ends - time.monotonic())) == 0
                    break
                yield block
        except subprocess.TimeoutExpired:
            pass
        finally:
            process.kill()
    if is_done:
        yield b""


def _split_stream(blocks: Iterator[bytes], mark: bytes) -> Iterator[bytes]:
    """Yield the parts of the output between marks, and _DONE at its end."""
    rest: list[bytes] = []
    size = 0
    tail = b""
    for block in blocks:
        if not block:
            yield b"".join(rest) + tail
            yield _DONE
            return
        *pieces, last = (tail + block).split(mark)
        for piece in pieces:
            yield b"".join(rest) + piece
            rest, size = [], 0
        split = len(last) - len(mark) + 1  # the end may be the beginning of a mark
        body, tail = (last[:split], last[split:]) if split > 0 else (b"", last)
        if size < _COMMIT_BYTES:
            rest.append(body)
            size += len(body)
