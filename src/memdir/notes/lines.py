"""Lists that rules keep inside notes: lines with a key, the latest of a key last, within a bound.

Pure. The file is the only state: what was written before is read back from its lines. Lines that rules did not write,
a person's or a model's, stay where they are and are never dropped. The same things noted twice leave the same list:
each goes to the end when it is noted, and the order of the last mentions is the same both times.
"""

import re
from collections.abc import Callable, Iterable

from memdir.tokens import estimate_tokens

KeyOf = Callable[[str], str]
_QUOTED = re.compile(r"- `([^`]*)`")


def quoted_key(line: str) -> str:
    """The key of a line such as "- `make test`: ok"; empty for a line of somebody else's."""
    match = _QUOTED.match(line)
    return match[1] if match else ""


class KeyedLines:
    """The lines of one section."""

    def __init__(self, text: str, key_of: KeyOf = quoted_key) -> None:
        self._key_of = key_of
        self._lines: dict[str, str] = {}
        for number, line in enumerate(text.split("\n") if text else ()):
            # No key of ours begins with a NUL.
            self._lines[key_of(line) or f"\0{number}"] = line

    def find(self, key: str) -> str:
        return self._lines.get(key, "")

    def put(self, line: str) -> None:
        """The newest line of its key: it goes to the end."""
        key = self._key_of(line)
        self._lines.pop(key, None)
        self._lines[key] = line

    def change(self, line: str) -> None:
        """Another text for a line that stays in its place."""
        self._lines[self._key_of(line)] = line

    def list_own(self) -> list[str]:
        return [line for key, line in self._lines.items() if not key.startswith("\0")]

    def render(self, tokens: int, is_minor: Callable[[str], bool] = lambda line: False) -> str:
        """The list within the bound: the oldest go first, minor ones before all others."""
        over = sum(map(_weigh, self._lines.values())) - tokens
        dropped: set[str] = set()
        for wanted in (True, False):
            for key, line in self._lines.items():
                if over <= 0:
                    break
                if not key.startswith("\0") and key not in dropped and is_minor(line) is wanted:
                    dropped.add(key)
                    over -= _weigh(line)
        return "\n".join(line for key, line in self._lines.items() if key not in dropped).strip("\n")


def replace_group(text: str, prefix: str, lines: Iterable[str]) -> str:
    """The text with all lines of a prefix taken out and these put at the end."""
    kept = [line for line in text.split("\n") if not line.startswith(prefix)] if text else []
    return "\n".join([*kept, *(f"{prefix}{line}" for line in lines)]).strip("\n")


def sort_groups(text: str, prefixes: tuple[str, ...]) -> str:
    """The text with the lines of these prefixes at its end, group by group."""
    lines = text.split("\n") if text else []
    kept = [line for line in lines if not line.startswith(prefixes)]
    return "\n".join([*kept, *(line for at in prefixes for line in lines if line.startswith(at))]).strip("\n")


def _weigh(line: str) -> int:
    return estimate_tokens(line) + 1
