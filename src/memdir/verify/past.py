"""What git's history says of things that are not there any more: where a file went, when a word vanished, what came.

Two passes, each over the whole history from the newest commit back, within a time. The first reads names alone, with
git's own detection of renames. The second reads the patches, for all wanted words at once; a commit that has none of
them is not looked into. The newest commit that takes a thing out is the one that ended it.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from memdir.frozen import dataclass, field
from memdir.verify.gitlog import DONE, decode_path, find_commit, stream_names, stream_patches
from memdir.verify.successors import Hunk, find_names, find_successor, read_hunks
from memdir.verify.words import WORDS, is_defined, is_document


@dataclass(frozen=True, slots=True)
class Gone:
    """The commit that ended a thing, its new name if git saw one, and what came with that commit."""

    commit: str
    to: str = ""
    came: str = ""


@dataclass(frozen=True, slots=True)
class Names:
    """Each path that some commit renamed or deleted, with the newest such commit; and what each commit added.

    `is_whole` says that the whole history was read.
    """

    gone: dict[str, Gone] = field(default_factory=dict)
    added: dict[str, list[str]] = field(default_factory=dict)
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class Trace:
    """What history knows of a word: the newest commit that took out some of it, its definition, its named definition.

    A named definition is one after `def`, `class`, `function` and their like. `files` are where it was defined.
    """

    vanished: Gone | None = None
    undefined: Gone | None = None
    named: Gone | None = None
    files: tuple[str, ...] = ()


def read_names(root: Path, ends: float) -> Names:
    """The renames and deletions of the whole history."""
    names = Names(is_whole=False)
    tokens = stream_names(root, ends)
    commit, plus = "", list[str]()
    for token in tokens:
        word = token.lstrip(b"\n")
        if word == DONE:
            return Names(names.gone, names.added, True)
        if word.startswith(b"\x01"):
            commit, plus = word[1:].decode("ascii", "replace"), []
        elif word[:1] == b"R":
            old, new = decode_path(next(tokens, b"")), decode_path(next(tokens, b""))
            names.gone.setdefault(old, Gone(commit, new))
        elif word == b"D":
            names.gone.setdefault(decode_path(next(tokens, b"")), Gone(commit))
        elif word == b"A":
            plus.append(decode_path(next(tokens, b"")))
            names.added[commit] = plus
    return names


def follow(names: Names, path: str, has: Collection[str]) -> Gone | None:
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
    return found if not found.to or found.to in has else Gone(found.commit)


def read_words(root: Path, words: Collection[str], ends: float) -> tuple[dict[str, Trace], bool]:
    """What history knows of each word, and whether all that is needed of it was read. Documents do not count."""
    wanted = {word.encode("utf-8", "replace") for word in words}
    found: dict[bytes, Trace] = {}
    for patch in stream_patches(root, ends) if wanted else (DONE,):
        hits = wanted & set(patch.translate(WORDS).split())
        if hits:
            _read_commit(patch, hits, found)
            wanted -= {word for word in hits if _is_settled(found.get(word))}
        if patch == DONE or not wanted:
            return _decode_all(found), True
    return _decode_all(found), False


def read_lines(
    root: Path, wanted: Mapping[str, re.Pattern[bytes]], ends: float, globs: tuple[str, ...] = ()
) -> dict[str, Gone]:
    """For each thing the newest commit that took out a line of its pattern and put none in."""
    left = dict(wanted)
    found: dict[str, Gone] = {}
    for patch in stream_patches(root, ends, globs) if wanted else ():
        hunks = list(read_hunks(patch)) if any(pattern.search(patch) for pattern in left.values()) else []
        minus, plus = (b"\n".join(lines) for lines in _sides(hunks))
        for key, pattern in list(left.items()):
            if pattern.search(minus) and not pattern.search(plus):
                found[key] = Gone(find_commit(patch))
                del left[key]
        if not left:
            break
    return found


def _is_settled(trace: Trace | None) -> bool:
    return trace is not None and trace.vanished is not None and trace.undefined is not None


def _read_commit(patch: bytes, hits: Collection[bytes], found: dict[bytes, Trace]) -> None:
    """Add to what is known of these words; what a newer commit has settled stays."""
    hunks = [hunk for hunk in read_hunks(patch) if not is_document(hunk.path)]
    minus, plus = (b"\n".join(lines) for lines in _sides(hunks))
    fewer, more = (Counter(side.translate(WORDS).split()) for side in (minus, plus))
    for word in hits:
        trace = found.get(word, Trace())
        is_vanished = trace.vanished is None and fewer[word] > more[word]
        is_undefined = trace.undefined is None and fewer[word] > 0 and _is_undefined(word, minus, plus)
        if is_vanished or is_undefined:
            gone = Gone(find_commit(patch), came=find_successor(word, hunks, fewer, more))
            found[word] = Trace(
                gone if is_vanished else trace.vanished,
                gone if is_undefined else trace.undefined,
                gone if is_undefined and _is_named(word, hunks) else trace.named,
                _list_defining(word, hunks) if is_undefined else trace.files,
            )


def _is_undefined(word: bytes, minus: bytes, plus: bytes) -> bool:
    return is_defined(minus, word, is_c=True) and not is_defined(plus, word, is_c=True)


def _is_named(word: bytes, hunks: Sequence[Hunk]) -> bool:
    return any(word in find_names(line) for at in hunks for line in at.minus)


def _list_defining(word: bytes, hunks: Sequence[Hunk]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(at.path for at in hunks if is_defined(b"\n".join(at.minus), word, is_c=True)))


def _sides(hunks: Sequence[Hunk]) -> tuple[list[bytes], list[bytes]]:
    """All lines that were taken out, and all that were put in."""
    return [line for at in hunks for line in at.minus], [line for at in hunks for line in at.plus]


def _decode_all(found: Mapping[bytes, Trace]) -> dict[str, Trace]:
    return {word.decode("utf-8", "replace"): trace for word, trace in found.items()}
