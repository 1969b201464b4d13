"""May this come into the team's folder, or leave it? The same questions in both directions, of every single file.

Refused: a name outside the grammar or another spelling of one that is there, whatever is not a plain file, too much of
it, control characters, a head that cannot be read, a memory about a person, a secret. What is refused stays where it
is, on either side: it is neither copied, nor changed, nor taken away. What speaks to the agent like an instruction is
not refused but waits for a person.

It does not know who wrote a file, and believes nobody: a teammate's machine may be anybody's.
"""

from collections.abc import Iterable
from enum import StrEnum
from urllib.parse import unquote

from memdir import frontmatter, index
from memdir.errors import PathError
from memdir.frozen import dataclass
from memdir.guard import check_name
from memdir.index import INDEX_FILE
from memdir.limits import DESCRIPTION_CHARS, FILE_BYTES, INDEX_FILE_BYTES, TITLE_CHARS
from memdir.records import Kind
from memdir.secrets import render_findings
from memdir.store.plan import TEAM_FOLDER, Finder
from memdir.team.instructing import find_instruction
from memdir.text import find_forbidden, fold, one_line, shorten

PLAIN_MODE = "100644"
_MODES = {
    "120000": "it is a symbolic link",
    "160000": "it is another repository",
    "040000": "it is a folder",
    "100755": "it is a program",
}


class Ruling(StrEnum):
    """Whether something may come in: yes, only by a person's word, no."""

    ACCEPT = "accept"
    HOLD = "hold"
    REFUSE = "refuse"


@dataclass(frozen=True, slots=True)
class Verdict:
    ruling: Ruling
    why: str = ""


ACCEPTED = Verdict(Ruling.ACCEPT)


def judge_place(path: str, mode: str, size: int) -> str:
    """Why a file cannot be a memory by its name, kind or size; empty if it can. The index is one of its own."""
    if mode != PLAIN_MODE:
        return _MODES.get(mode, "it is no plain file")
    if not path.endswith(".md"):
        return "it is no memory: its name does not end in .md"
    if size > (limit := INDEX_FILE_BYTES if path == INDEX_FILE else FILE_BYTES):
        return f"it is larger than {limit:,} bytes"
    if path == INDEX_FILE:
        return ""
    try:
        check_name(f"{TEAM_FOLDER}/{path.removesuffix('.md')}")
    except PathError as error:
        return error.reason
    return ""


def judge_text(path: str, data: bytes, find: Finder) -> Verdict:
    """What may become of a memory file by its content."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return _refuse("it is not UTF-8")
    if why := _find_fault(path, text):
        return _refuse(why)
    if secrets := (*render_findings(find(text)), *render_findings(find(path.removesuffix(".md")), place="its name")):
        return _refuse(f"it holds a secret: {', '.join(secrets[:3])}")
    if why := find_instruction(text):
        return Verdict(Ruling.HOLD, why)
    return ACCEPTED


def judge_line(line: str, find: Finder) -> str:
    """Why a line of somebody else's index is left out; empty if it may stand."""
    if found := find_forbidden(line, lines=True):
        return f"it holds {found}"
    if _leads_outside(line):
        return "it points outside of the team's folder"
    if secrets := render_findings(find(line)):
        return f"it holds a secret: {secrets[0]}"
    return find_instruction(line)


def find_twins(paths: Iterable[str], ours: Iterable[str]) -> dict[str, str]:
    """Paths that are another spelling of one that is there -> that one; ours comes before, then the alphabet."""
    mine = set(ours)
    seen: dict[str, str] = {}
    twins: dict[str, str] = {}
    for path in sorted(paths, key=lambda at: (at not in mine, at)):
        first = seen.setdefault(fold(path), path)
        if first != path:
            twins[path] = first
    return twins


def _find_fault(path: str, text: str) -> str:
    if found := find_forbidden(text, lines=True):
        return f"it holds {found}"
    fields = frontmatter.parse_fields(text)
    if fields.problem:
        return shorten(one_line(fields.problem), 200)
    if fields.kind is None:
        return "it has no type that memdir knows"
    if fields.kind is Kind.USER:
        return "it is about a person: a `user` memory never leaves its owner"
    if not fields.description or len(fields.description) > DESCRIPTION_CHARS or len(fields.title) > TITLE_CHARS:
        return "its title or description is missing or too long"
    if find_forbidden(fields.title + fields.description, lines=False):
        return "its title or description holds a control character"
    return "" if path != INDEX_FILE else "it is the index"


def _leads_outside(line: str) -> bool:
    """Whether a list item's link goes to a file, but to none below the index."""
    for part in line.split("](")[1:]:
        target = unquote(unquote(part.split(")", 1)[0].strip().strip("<>").split("#", 1)[0]))
        folded = fold(target).replace("\\", "/")
        climbs = ".." in folded.split("/") or folded.startswith(("/", "~", "file:")) or folded[1:3] == ":/"
        if climbs or (folded.endswith(".md") and "://" not in folded and not _is_name(target)):
            return True
    return False


def _is_name(target: str) -> bool:
    line = index.parse_index(f"- [x]({target})")[0]
    return line.is_pointer


def _refuse(why: str) -> Verdict:
    return Verdict(Ruling.REFUSE, why)
