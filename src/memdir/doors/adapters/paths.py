"""The paths of the memory tool: `/memories/…` to names of memories and back. Pure.

A memory is a `.md` file whose name knows no dot, but models like `notes.txt` and `plan.xml` too. So a dot inside a name
is kept as `__`: `notes.txt` is the memory `notes__txt`. A path without a suffix means the memory of that name. Folders
are what they are. Whether a name may be written is the guard's question.
"""

import re
import unicodedata
from urllib.parse import unquote

from memdir.index import INDEX_FILE
from memdir.text import find_forbidden, one_line, shorten

ROOT = "/memories"
_DOT = re.compile(r"(?<=[^\W_])__(?=[^\W_])")
_DEEP = 3  # decodings after which a path that still changes is up to something


class RefusedError(Exception):
    """What a command answers when it does not do what was asked; the text is for the model."""


def parse_path(path: object, key: str = "path") -> tuple[str, ...]:
    """The segments below the root, none for the root itself; raises RefusedError for what is not below it."""
    if not isinstance(path, str) or not path:
        raise RefusedError(f"Error: The parameter `{key}` is missing. Please provide a path that begins with {ROOT}.")
    if path != ROOT and not path.startswith(f"{ROOT}/"):
        raise RefusedError(f"Error: The path {say(path)} is not in {ROOT}. Please provide a valid path.")
    if _climbs(path) or find_forbidden(path, lines=False):
        raise RefusedError(f"Error: The path {say(path)} leads out of {ROOT}. Please provide a valid path.")
    return tuple(segment for segment in path.removeprefix(ROOT).split("/") if segment)


def make_name(segments: tuple[str, ...]) -> str:
    """The name of the memory that a path means."""
    *folders, leaf = segments
    stem = leaf.removesuffix(".md")
    return "/".join([*folders, stem if "." not in stem else re.sub(r"(?<=\w)\.(?=\w)", "__", leaf)])


def show_name(name: str) -> str:
    """A memory's path below the root, as listings tell it."""
    folder, slash, leaf = name.rpartition("/")
    shown = _DOT.sub(".", leaf)
    return f"{folder}{slash}{shown}" if shown != leaf else f"{name}.md"


def is_index(segments: tuple[str, ...]) -> bool:
    return bool(segments) and segments[-1] == INDEX_FILE


def say(path: str) -> str:
    """A path as an answer repeats it."""
    return shorten(one_line(path), 300)


def _climbs(path: str) -> bool:
    """Whether any reading of the path has a segment that goes up: as it is, decoded, in full-width characters."""
    for _ in range(_DEEP):
        plain = unicodedata.normalize("NFKC", path).replace("\\", "/")
        if "\0" in plain or any(set(segment) == {"."} for segment in plain.split("/") if segment):
            return True
        decoded = unquote(plain, errors="replace")
        if decoded == path:
            return False
        path = decoded
    return True
