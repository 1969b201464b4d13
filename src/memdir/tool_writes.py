"""What an agent's tool is about to write into memory, and whether it may.

    find_writes(call, grounds, ...)   the files a call would write below memory directories, and the text where it tells
    judge(write)                      why it may not be, or what is to be said of it

Memory that others read (a team's, a project's committed one) is closed to secrets, to types that are somebody's own and
to names that no store would take: such a call is refused. In a person's own memory the same is only said. What belongs
to memdir itself, and a path that leaves by a link, is refused everywhere.

It is a look before the tool runs, not containment: the tool opens the file itself, later. What slips past is met again
by the store, by the scan before a sync, and by history.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from memdir import guard
from memdir.errors import PathError
from memdir.frontmatter import parse_fields
from memdir.frozen import dataclass
from memdir.index import INDEX_FILE
from memdir.limits import FILE_BYTES
from memdir.own_writes import COMMAND_KEYS, find_written_memory
from memdir.paths import STATE
from memdir.records import Kind, Message, ToolCall
from memdir.secrets import Finding, render_findings
from memdir.small_files import read_small
from memdir.store.plan import TEAM_FOLDER

_NEW = ("new_string", "newString", "new_str")
_OLD = ("old_string", "oldString", "old_str")
_WHOLE = ("content", "file_text", "new_source")
FindSecrets = Callable[[str], Sequence[Finding]]


@dataclass(frozen=True, slots=True)
class Ground:
    """A memory directory; `is_shared`: others read all of it."""

    root: Path
    is_shared: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """One file that would be written: below which directory, its path there, and what of its text is known."""

    ground: Ground
    path: str
    text: str
    is_whole: bool

    @property
    def is_shared(self) -> bool:
        return self.ground.is_shared or _fold_first(self.path) == TEAM_FOLDER


@dataclass(frozen=True, slots=True)
class Verdict:
    """`refused` says why the call may not be; `said` is what its writer should know."""

    refused: str = ""
    said: tuple[str, ...] = ()


def find_writes(call: ToolCall, grounds: Sequence[Ground], *, cwd: str, home: str) -> Iterator[Write]:
    """Every file of these directories that the call would write; nothing for a call that only reads."""
    spelled = {os.path.normpath(spelling): at for at in grounds for spelling in (at.root, os.path.realpath(at.root))}
    message = Message("assistant", "", calls=(call,))
    for found in find_written_memory([message], list(spelled), cwd=cwd, home=home):
        # The longest first: one directory may lie inside another.
        for spelling in sorted(spelled, key=len, reverse=True):
            if found.startswith(os.path.join(spelling, "")):
                text, is_whole = _read_text(call.input, found)
                yield Write(spelled[spelling], os.path.relpath(found, spelling), text, is_whole)
                break


def judge(write: Write, find_secrets: FindSecrets) -> Verdict:
    """Whether it may be written, by the rules above."""
    parts = write.path.split("/")
    if _fold_first(write.path) == STATE:
        return Verdict(f"{write.path} is memdir's own file; `memdir` itself changes it")
    if link := _find_link(write.ground.root, parts):
        return Verdict(f"{link} is a symbolic link: what is written there lands outside the memory directory")
    if write.is_shared and write.is_whole and len(write.text) > FILE_BYTES:
        # Before it is searched: that would take longer than there is time, and then nothing would be said at all.
        return Verdict(f"{write.path} would be larger than a memory can be ({FILE_BYTES:,} bytes)")
    problems = [*_find_faults(write), *render_findings(find_secrets(write.text), place=write.path)]
    if not problems:
        return Verdict()
    if not write.is_shared:
        return Verdict(said=tuple(problems))
    return Verdict(f"others read this memory, and {'; '.join(problems)}")


def _fold_first(path: str) -> str:
    """The first folder as a disk sees it that does not tell capitals from small letters."""
    return path.split("/", 1)[0].casefold()


def _find_faults(write: Write) -> Iterator[str]:
    """What no store would have taken."""
    stem, suffix = os.path.splitext(write.path)
    if write.path.split("/")[-1] == INDEX_FILE:
        return
    if suffix != ".md":
        yield f"{write.path} is no Markdown file, so nothing will find it again"
        return
    if write.path.split("/", 1)[0] != "logs":
        try:
            guard.check_name(stem)
        except PathError as error:
            yield f"{error.path} is no name for a memory: {error.reason}"
    if write.is_shared and write.is_whole and parse_fields(write.text).kind is Kind.USER:
        yield "its type is `user`, which is about one person only"


def _find_link(root: Path, parts: Sequence[str]) -> str:
    for depth in range(1, len(parts) + 1):
        path = os.path.join(root, *parts[:depth])
        if os.path.islink(path):
            return path
    return ""


def _read_text(given: Mapping[str, object], path: str) -> tuple[str, bool]:
    """The text a file would have after the call; where that cannot be told, all that the call says."""
    for key in _WHOLE:
        if isinstance(text := given.get(key), str):
            return text, True
    edits = given.get("edits") or given.get("replacements")
    rows = [row for row in edits if isinstance(row, dict)] if isinstance(edits, list) else [given]
    data = read_small(path, FILE_BYTES).data
    text = (data or b"").decode("utf-8", "replace")
    for row in rows:
        old, new = _pick(row, _OLD), _pick(row, _NEW)
        if old is None or new is None or (old and old not in text):
            return "\n".join(_list_texts(given)), False
        text = new if not old else text.replace(old, new, -1 if row.get("replace_all") is True else 1)
    return text, data is not None


def _pick(row: Mapping[str, object], keys: Sequence[str]) -> str | None:
    return next((value for key in keys if isinstance(value := row.get(key), str)), None)


def _list_texts(value: object) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, at in value.items():
            if key not in (*_OLD, "description") or key in COMMAND_KEYS:
                yield from _list_texts(at)
    elif isinstance(value, list):
        for at in value:
            yield from _list_texts(at)
