"""Git's history as a stream: `git log` with settings nobody can change, cut at its commits, within a time.

Nothing of the repository is run to show a patch, and nobody's settings change what is parsed. It does not understand
what it streams.
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

from memdir.frozen import dataclass, field
from memdir.project.settings import git_environ
from memdir.verify.project import WORDS, is_defined, is_document

# --- gitlog ---

DONE = b"\x02"  # the last piece of a stream that was read to its end
_BLOCK = 1 << 20
_COMMIT_BYTES = 64 << 20  # of one commit's patch; a longer one is cut
_QUIET = (
    "--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}",
    "-c", "core.quotePath=false",
)  # fmt: skip
# A first commit takes nothing away, and its patch is the whole project.
_LOG = (
    "log", "--min-parents=1", "--no-show-signature", "--no-diff-merges", "--no-ext-diff", "--no-textconv", "--no-color",
    "-M", "-l1000", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", "--inter-hunk-context=0",
)  # fmt: skip


def stream_names(root: Path, ends: float) -> Iterator[bytes]:
    """What each commit added, deleted and renamed, as git writes it with -z, word by word."""
    arguments = (*_LOG, "--name-status", "-z", "--diff-filter=ADR", "--format=%x01%h", "HEAD", "--")
    return _split_stream(_stream(root, arguments, ends), b"\0")


def stream_patches(root: Path, ends: float, globs: tuple[str, ...] = ()) -> Iterator[bytes]:
    """Each commit's patch without context, its short name in the first line; with `globs` of such files alone."""
    wanted = tuple(f":(top,glob)**/{glob}" for glob in globs)
    return _split_stream(_stream(root, (*_LOG, "-p", "-U0", "--format=%x01%h", "HEAD", "--", *wanted), ends), b"\n\x01")


def find_commit(patch: bytes) -> str:
    return patch[: patch.find(b"\n")].lstrip(b"\x01\n").decode("ascii", "replace")


def decode_path(path: bytes) -> str:
    text = path.rstrip(b"\t\r").decode("utf-8", "replace")
    return text[1:-1] if text.startswith('"') and text.endswith('"') else text


def _stream(root: Path, arguments: tuple[str, ...], ends: float) -> Iterator[bytes]:
    """What git prints, block by block, until it is done or the time is over; an empty block says that it was done."""
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
    """The pieces between marks; DONE after the last one says that all was read."""
    rest: list[bytes] = []
    size = 0
    tail = b""
    for block in blocks:
        if not block:
            yield b"".join(rest) + tail
            yield DONE
            return
        *whole, last = (tail + block).split(mark)
        for piece in whole:
            yield b"".join(rest) + piece
            rest, size = [], 0
        keep = len(mark) - 1
        tail = last[len(last) - keep :] if keep else b""
        body = last[: len(last) - keep] if keep else last
        if size < _COMMIT_BYTES:
            rest.append(body)
            size += len(body)


# --- successors ---
# What took a word's place in a commit: told by lines that differ in nothing else, or by the definition that came.
#
# Pure: it is given the hunks of one patch. What it answers is evidence, not proof, and is told as such.

_TOKENS = re.compile(rb"[A-Za-z_$][\w$]*|\d+|[^\s\w]")
_IDENTIFIER = re.compile(rb"[A-Za-z_$][\w$]{2,}")
_PAIRS = 400  # lines of one hunk that are compared; more is a rewrite
_LIKE = 0.6
# A name after a word that defines, a constant, or a function that is assigned.
_NAMING = re.compile(
    rb"^[ \t]*(?:(?:export|default|pub(?:\([^()]*\))?|async|static|public|private|abstract|final)[ \t]+)*"
    rb"(?:def|class|function|func|fn|interface|struct|enum|trait|type|const)[ \t]+(?:\([^()\n]*\)[ \t]*)?"
    rb"([A-Za-z_$][\w$]*)|^([A-Z][A-Z0-9_]{2,})[ \t]*="
    rb"|^[ \t]*(?:[\w$]+[ \t.])*([A-Za-z_$][\w$]*)[ \t]*[=:][ \t]*(?:async[ \t]+)?function\b"
)


@dataclass(frozen=True, slots=True)
class DiffHunk:
    """The lines that one place of a file lost and won."""

    path: str
    minus: tuple[bytes, ...]
    plus: tuple[bytes, ...]


def read_hunks(chunk: bytes) -> Iterator[DiffHunk]:
    old, path = "", ""
    minus: list[bytes] = []
    plus: list[bytes] = []
    for line in chunk.split(b"\n"):
        first = line[:1]
        if line.startswith((b"@@ ", b"diff --git ")):
            if minus or plus:
                yield DiffHunk(path or old, tuple(minus), tuple(plus))
            minus, plus = [], []
        elif line.startswith(b"--- ") and not minus and not plus:
            old, path = decode_path(line[6:]), ""
        elif line.startswith(b"+++ ") and not plus and not minus:
            path = "" if line[4:].startswith(b"/dev/null") else decode_path(line[6:])
        elif first == b"-":
            minus.append(line[1:])
        elif first == b"+":
            plus.append(line[1:])
    if minus or plus:
        yield DiffHunk(path or old, tuple(minus), tuple(plus))


def find_successor(word: bytes, hunks: Sequence[DiffHunk], fewer: Counter[bytes], more: Counter[bytes]) -> str:
    """The identifier that took this word's place in most lines; empty if none did."""
    votes: Counter[bytes] = Counter()
    for hunk in hunks:
        if not any(word in line for line in hunk.minus) or len(hunk.minus) > _PAIRS or len(hunk.plus) > _PAIRS:
            continue
        added = [_TOKENS.findall(line) for line in hunk.plus]
        for line in hunk.minus:
            if word in line:
                weight = 4 if is_defined(line, word) else 2
                votes.update(dict.fromkeys(_find_swapped(word, _TOKENS.findall(line), added), weight))
        votes.update(dict.fromkeys(_find_heirs(word, hunk), 1))
    fresh = {other: count for other, count in votes.items() if more[other] > fewer[other] and other != word}
    best = sorted(fresh, key=lambda other: (-fresh[other], other))[:2]
    if not best or (len(best) == 2 and fresh[best[0]] == fresh[best[1]] and not _is_like(word, best[0])):
        return ""
    return best[0].decode("utf-8", "replace")


def _find_swapped(word: bytes, tokens: list[bytes], added: Sequence[list[bytes]]) -> set[bytes]:
    """What stands in the word's place in an added line that is otherwise the same."""
    swapped: set[bytes] = set()
    for other in added:
        if len(other) != len(tokens):
            continue
        pairs = {(mine, theirs) for mine, theirs in zip(tokens, other, strict=True) if mine != theirs}
        meant = {theirs for mine, theirs in pairs if mine == word}
        if len(meant) == 1 and len(pairs) <= 2 and _IDENTIFIER.fullmatch(next(iter(meant))):
            swapped |= meant
    return swapped


def _find_heirs(word: bytes, hunk: DiffHunk) -> Iterator[bytes]:
    """Definitions that came where this one went, if they are like it or the only ones."""
    if not any(is_defined(line, word) for line in hunk.minus):
        return
    went = {name for line in hunk.minus for name in find_defined_names(line)}
    came = {name for line in hunk.plus for name in find_defined_names(line)} - went
    if len(came) == 1 and len(went) == 1:
        yield next(iter(came))
    else:
        yield from (name for name in came if _is_like(word, name))


def find_defined_names(line: bytes) -> Iterator[bytes]:
    """The name that a line defines, if it does so by name."""
    match = _NAMING.match(line)
    if match:
        yield match[1] or match[2] or match[3]


def _is_like(one: bytes, other: bytes) -> bool:
    first, second = one.decode("utf-8", "replace").lower(), other.decode("utf-8", "replace").lower()
    return difflib.SequenceMatcher(None, first, second).ratio() >= _LIKE


# --- past ---
# What git's history says of things that are not there any more: where a file went, when a word vanished, what came.
#
# Two passes, each over the whole history from the newest commit back, within a time. The first reads names alone, with
# git's own detection of renames. The second reads the patches, for all wanted words at once; a commit that has none of
# them is not looked into. The newest commit that takes a thing out is the one that ended it.


@dataclass(frozen=True, slots=True)
class RemovedBy:
    """The commit that ended a thing, its new name if git saw one, and what came with that commit."""

    commit: str
    to: str = ""
    came: str = ""


@dataclass(frozen=True, slots=True)
class PathHistory:
    """Each path that some commit renamed or deleted, with the newest such commit; and what each commit added.

    `is_whole` says that the whole history was read.
    """

    gone: dict[str, RemovedBy] = field(default_factory=dict)
    added: dict[str, list[str]] = field(default_factory=dict)
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class WordTrace:
    """What history knows of a word: the newest commit that took out some of it, its definition, its named definition.

    A named definition is one after `def`, `class`, `function` and their like. `files` are where it was defined.
    """

    vanished: RemovedBy | None = None
    undefined: RemovedBy | None = None
    named: RemovedBy | None = None
    files: tuple[str, ...] = ()


def read_names(root: Path, ends: float) -> PathHistory:
    """The renames and deletions of the whole history."""
    names = PathHistory(is_whole=False)
    tokens = stream_names(root, ends)
    commit, plus = "", list[str]()
    for token in tokens:
        word = token.lstrip(b"\n")
        if word == DONE:
            return PathHistory(names.gone, names.added, True)
        if word.startswith(b"\x01"):
            commit, plus = word[1:].decode("ascii", "replace"), []
        elif word[:1] == b"R":
            old, new = decode_path(next(tokens, b"")), decode_path(next(tokens, b""))
            names.gone.setdefault(old, RemovedBy(commit, new))
        elif word == b"D":
            names.gone.setdefault(decode_path(next(tokens, b"")), RemovedBy(commit))
        elif word == b"A":
            plus.append(decode_path(next(tokens, b"")))
            names.added[commit] = plus
    return names


def follow(names: PathHistory, path: str, has: Collection[str]) -> RemovedBy | None:
    """Where a path went, over any number of renames; None if history never took it away."""
    found = names.gone.get(path)
    first, seen = found, {path}
    while found is not None and found.to and found.to not in has and found.to not in seen:
        seen.add(found.to)
        later = names.gone.get(found.to)
        if later is None:
            break
        found = later
    if found is None or first is None:
        return None
    return found if not found.to or found.to in has else RemovedBy(found.commit)


def read_words(root: Path, words: Collection[str], ends: float) -> tuple[dict[str, WordTrace], bool]:
    """What history knows of each word, and whether all that is needed of it was read. Documents do not count."""
    wanted = {word.encode("utf-8", "replace") for word in words}
    found: dict[bytes, WordTrace] = {}
    for patch in stream_patches(root, ends) if wanted else (DONE,):
        hits = wanted & set(patch.translate(WORDS).split())
        if hits:
            _read_commit(patch, hits, found)
            wanted -= {word for word in hits if _is_settled(found.get(word))}
        if patch == DONE or not wanted:
            return _decode_all(found), True
    return _decode_all(found), False


def read_git_lines(
    root: Path, wanted: Mapping[str, re.Pattern[bytes]], ends: float, globs: tuple[str, ...] = ()
) -> dict[str, RemovedBy]:
    """For each thing the newest commit that took out a line of its pattern and put none in."""
    left = dict(wanted)
    found: dict[str, RemovedBy] = {}
    for patch in stream_patches(root, ends, globs) if wanted else ():
        hunks = list(read_hunks(patch)) if any(pattern.search(patch) for pattern in left.values()) else []
        minus, plus = (b"\n".join(lines) for lines in _sides(hunks))
        for key, pattern in list(left.items()):
            if pattern.search(minus) and not pattern.search(plus):
                found[key] = RemovedBy(find_commit(patch))
                del left[key]
        if not left:
            break
    return found


def _is_settled(trace: WordTrace | None) -> bool:
    return trace is not None and trace.vanished is not None and trace.undefined is not None


def _read_commit(patch: bytes, hits: Collection[bytes], found: dict[bytes, WordTrace]) -> None:
    """Add to what is known of these words; what a newer commit has settled stays."""
    hunks = [hunk for hunk in read_hunks(patch) if not is_document(hunk.path)]
    minus, plus = (b"\n".join(lines) for lines in _sides(hunks))
    fewer, more = (Counter(side.translate(WORDS).split()) for side in (minus, plus))
    for word in hits:
        trace = found.get(word, WordTrace())
        is_vanished = trace.vanished is None and fewer[word] > more[word]
        is_undefined = trace.undefined is None and fewer[word] > 0 and _is_undefined(word, minus, plus)
        if is_vanished or is_undefined:
            gone = RemovedBy(find_commit(patch), came=find_successor(word, hunks, fewer, more))
            found[word] = WordTrace(
                gone if is_vanished else trace.vanished,
                gone if is_undefined else trace.undefined,
                gone if is_undefined and _is_named(word, hunks) else trace.named,
                _list_defining(word, hunks) if is_undefined else trace.files,
            )


def _is_undefined(word: bytes, minus: bytes, plus: bytes) -> bool:
    return is_defined(minus, word, is_c=True) and not is_defined(plus, word, is_c=True)


def _is_named(word: bytes, hunks: Sequence[DiffHunk]) -> bool:
    return any(word in find_defined_names(line) for at in hunks for line in at.minus)


def _list_defining(word: bytes, hunks: Sequence[DiffHunk]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(at.path for at in hunks if is_defined(b"\n".join(at.minus), word, is_c=True)))


def _sides(hunks: Sequence[DiffHunk]) -> tuple[list[bytes], list[bytes]]:
    """All lines that were taken out, and all that were put in."""
    return [line for at in hunks for line in at.minus], [line for at in hunks for line in at.plus]


def _decode_all(found: Mapping[bytes, WordTrace]) -> dict[str, WordTrace]:
    return {word.decode("utf-8", "replace"): trace for word, trace in found.items()}
