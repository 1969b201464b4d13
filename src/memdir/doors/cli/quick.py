"""`memdir recall`, taken apart by hand: agents call it all the time, and importing click takes as long as recalling.

One grammar with two readers: what this one does not understand to the letter (help, mistakes, options of another verb)
it leaves to click. A test plays the two against each other.
"""

import re
from typing import Any

from memdir.frozen import dataclass
from memdir.limits import SELECTED

_FLAGS = {"--explain": "explain", "--no-semantic": "no_semantic", "--json": "as_json"}
_VALUES = {"--session": "session", "--tools": "tools", "--limit": "limit"}
_NUMBER = re.compile(r"[1-9][0-9]{0,8}")


@dataclass(frozen=True, slots=True)
class Wish:
    """A call of `recall`, as it was typed."""

    query: tuple[str, ...]
    session: str = ""
    tools: str = ""
    limit: int = SELECTED
    explain: bool = False
    no_semantic: bool = False
    as_json: bool = False


def parse_recall(argv: list[str]) -> tuple[str | None, Wish] | None:
    """The directory given and the wish; None for any other call, and for one that click should look at."""
    directory, rest = _take_directory(argv)
    if rest[:1] != ["recall"]:
        return None
    options: dict[str, Any] = {}
    words: list[str] = []
    rest = rest[1:]
    while rest:
        word = rest.pop(0)
        name, is_joined, value = word.partition("=")
        if word == "--":
            words += rest
            break
        if word in _FLAGS:
            options[_FLAGS[word]] = True
        elif name in _VALUES:
            if not is_joined:
                if not rest or rest[0].startswith("-"):
                    return None
                value = rest.pop(0)
            if name == "--limit" and not _NUMBER.fullmatch(value):
                return None
            options[_VALUES[name]] = int(value) if name == "--limit" else value
        elif word.startswith("-") and word != "-":
            return None
        else:
            words.append(word)
    return (directory, Wish(tuple(words), **options)) if words else None


def _take_directory(argv: list[str]) -> tuple[str | None, list[str]]:
    """The only option before the verb that is understood here."""
    if argv[:1] == ["--dir"] and len(argv) > 1 and not argv[1].startswith("-"):
        return argv[1], argv[2:]
    if argv and argv[0].startswith("--dir="):
        return argv[0].removeprefix("--dir="), argv[1:]
    return None, argv
