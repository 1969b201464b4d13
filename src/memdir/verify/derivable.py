"""Find text that the project already contains, which need not be remembered.

The rules are narrow, because false warnings teach people to ignore the correct ones:

- a sentence of five words or more that is also in an instruction file, compared without markup and punctuation;
- a text of which more than half the sentences, apart from Why and How, only give the path of a tracked file ("the parser is
  in src/parser.py");
- a sentence that is the subject of one of the last commits.

It warns and never refuses, reads a limited part of a limited number of files, follows no link out of the root, and never
raises. Without git, or if git is too slow, it finds less.
"""

import re
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from memdir.files import read_head
from memdir.format.document import MemoryDocument, PartKind
from memdir.project.hosts import HOSTS
from memdir.project.paths import run_git
from memdir.text import CJK, fold_words, shorten

_FILES = (
    *(host.instructions for host in HOSTS.values() if host.instructions),
    *"CLAUDE.local.md .claude/CLAUDE.md .windsurfrules .clinerules .github/copilot-instructions.md".split(),
)
_FOLDERS = ((".claude/rules", ".md"), (".cursor/rules", ".mdc"))
_FILE_BYTES = 262_144  # at most, read of an instruction file
_FOLDER_FILES, _ENTRIES = 200, 2_000  # at most, read and listed in a folder of rules
_LAYOUT_CHARS = 300  # a longer sentence says more than the path of a file
_COMMITS = 2_000
_WORDS = 5
_SHOWN = 60

# A line of a paragraph that continues on the next line.
_WRAPPED = re.compile(
    r"^(?![ \t>]*#{1,6}[ \t])(.*\S)[ \t]*\n(?=[ \t>]*\S)(?![ \t>]*(?:[-*+]|\d+[.)]|#{1,6})[ \t])", re.MULTILINE
)
_CJK = re.compile(rf"[{CJK}]")
_TYPED = re.compile(r"^[a-z]+(?:\([^)]*\))?!?:\s+")  # "fix(parser): " before a commit subject

_PATH = r"[`\"'*]*(?:\./)?(?P<path>[\w@.+~-]*[\w@+~-](?:/[\w@.+~-]+)*/?)[`\"'*]*"
_PLACED = (
    r"(?:(?:is|are|lives?|lies|lie|sits?|resides?|stays?|belongs?|goes|"
    r"(?:is |are |can be )?(?:located|found|defined|implemented|stored|kept|declared|placed))"
    r"\s+(?:in|at|under|inside|within)|"
    r"(?:liegt|steht|ist|befindet\s+sich)\s+in|(?:se\s+trouve|est|est\s+définie?)\s+dans|(?:está|se\s+encuentra)\s+en)"
)
_THING = r"(?:[\w`'’-]+\s+){0,5}[\w`'’-]+"
_END = r"(?:\s+(?:file|folder|directory|module|package))?[.\s*_]*"
_LAYOUT = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_THING}\s+{_PLACED}\s+(?:the\s+(?:file|folder|directory)\s+)?{_PATH}{_END}",
        rf"(?:the\s+file\s+)?{_PATH}\s+(?:contains|holds|has|defines|implements|enthält|contient|contiene)\s+{_THING}[.\s*_]*",
        rf"(?:{_THING}\s*(?::|->|→|=>)\s*)?{_PATH}{_END}",
        rf"[^\s]{{1,20}}在\s*{_PATH}\s*(?:里|中|内)?[。\s]*",
        rf"[^\s]{{1,20}}は\s*{_PATH}\s*に(?:ある|あります)[。\s]*",
    )
)


Reason = tuple[str, str]  # why a text need not be remembered, and where the project contains it


def find_derivable(text: str, root: Path, *, timeout: float = 2.0) -> tuple[Reason, ...]:
    """Return the reasons why a text need not be remembered. `timeout` is the limit for git in seconds."""
    sentences = list(_list_sentences(text))
    # At least five words; two Chinese or Japanese characters count as one word.
    keys = {fold_words(sentence): sentence for sentence in sentences}
    long = {
        key: sentence for key, sentence in keys.items() if 2 * len(key.split()) - len(_CJK.findall(key)) >= 2 * _WORDS
    }
    ends = time.monotonic() + timeout
    return (
        *_find_in_instructions(dict(long), root),
        *_find_layout(list(_list_sentences(text, PartKind.FACT)), root, ends),
        *_find_in_commits(long, root, ends),
    )


def _find_in_instructions(ours: dict[str, str], root: Path) -> Iterator[Reason]:
    if not ours:
        return
    # Skip links to files outside the root, and unreadable files.
    names = [name for name in _list_instructions(root) if _is_inside(root, root / name)]
    for name, reading in zip(names, [read_head(root / name, _FILE_BYTES) for name in names], strict=True):
        text = reading.data.decode("utf-8", "replace") if reading.data else ""
        theirs = {fold_words(sentence) for sentence in _list_sentences(text)} if text else set()
        for key in [key for key in ours if key in theirs]:
            yield f"“{shorten(ours.pop(key), _SHOWN)}” is already in an instruction file", name


def _find_layout(sentences: list[str], root: Path, ends: float) -> Iterator[Reason]:
    paths = [path for sentence in sentences if (path := _find_described_path(sentence))]
    if not paths or 2 * len(paths) <= len(sentences):
        return
    for path in dict.fromkeys(paths):
        spec = f":(literal){path}" if "/" in path else f":(glob)**/{path}"
        if tracked := _run_git(root, ends, "ls-files", "-z", "--", spec).split("\0")[0]:
            source = tracked if tracked.endswith(path.rstrip("/")) else path
            yield "it only gives the path of a tracked file", source


def _find_in_commits(ours: dict[str, str], root: Path, ends: float) -> Iterator[Reason]:
    if not ours:
        return
    log = _run_git(root, ends, "log", f"--max-count={_COMMITS}", "--no-show-signature", "--format=%h %s")
    for line in log.splitlines():
        commit, _, subject = line.partition(" ")
        for key in {fold_words(subject), fold_words(_TYPED.sub("", subject))}:
            if key in ours:
                yield f"“{shorten(ours.pop(key), _SHOWN)}” is the subject of a commit", f"commit {commit}"


def _find_described_path(sentence: str) -> str:
    """Return the path in a sentence that only describes a location, or ""."""
    patterns = _LAYOUT if len(sentence) <= _LAYOUT_CHARS else ()
    match = next((match for pattern in patterns if (match := pattern.fullmatch(sentence.strip()))), None)
    path = match["path"].rstrip(".") if match else ""
    return path if ("/" in path or "." in path.strip(".")) and ".." not in path.split("/") else ""


def _list_sentences(text: str, kind: PartKind | None = None) -> Iterator[str]:
    """Yield the sentences in Markdown text. Sentences can span the lines of a paragraph."""
    for part in MemoryDocument(text).parts:
        if kind is None or part.kind is kind:
            joined = MemoryDocument(_WRAPPED.sub(r"\1 ", text[part.inner : part.end]))
            yield from (sentence.strip("*_ ") for sentence in joined.list_sentences())


def _list_instructions(root: Path) -> Iterator[str]:
    yield from _FILES
    for folder, ending in _FOLDERS:
        if _is_inside(root, root / folder):
            files = sorted(path for path in islice((root / folder).rglob("*"), _ENTRIES) if path.suffix == ending)
            yield from (path.relative_to(root).as_posix() for path in files[:_FOLDER_FILES])


def _is_inside(root: Path, path: Path) -> bool:
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):  # a loop of links, or a NUL in the path
        return False


def _run_git(root: Path, ends: float, *arguments: str) -> str:
    code, output = run_git(root, arguments, max(0.0, ends - time.monotonic()))
    return output if code == 0 else ""
