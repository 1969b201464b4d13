"""Does a path match a pattern: `*`, `?`, `[…]`, `**` for any folders, `{a,b}` for either. Pure, and never slow.

Patterns come with a clone, so nothing here is turned into a regular expression: both levels, folders and characters, go
back to the latest star only, and the time is bounded by the two lengths multiplied. Braces have a budget.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import TypeVar

from memdir.limits import GLOB_CHARS, GLOB_PATTERNS

Item = TypeVar("Item")
_ANY = ("**", "**/*", "/**", "*/**")


def match_any(patterns: Iterable[str], path: str) -> str | None:
    """The first of these patterns, braces expanded already, that matches; path and patterns start from one place."""
    parts = _split(path)
    return next((pattern for pattern in patterns if _match_path(_split(pattern), parts)), None)


def matches_all(patterns: Sequence[str]) -> bool:
    """Whether one of the patterns lets everything through."""
    return any(pattern in _ANY for pattern in patterns)


def expand_braces(patterns: Iterable[str]) -> tuple[str, ...]:
    """All patterns without braces, at most so many; patterns that would go beyond that are left out whole."""
    done: list[str] = []
    for pattern in patterns:
        made = _expand(pattern, GLOB_PATTERNS - len(done)) if len(pattern) <= GLOB_CHARS else None
        done += made or ()
    return tuple(done)


def _expand(pattern: str, room: int) -> list[str] | None:
    done: list[str] = []
    waiting = [pattern]
    while waiting:
        if len(done) + len(waiting) > room:
            return None
        text = waiting.pop()
        group = _find_group(text)
        if group is None:
            done.append(text)
        else:
            start, end, choices = group
            waiting += [text[:start] + choice + text[end:] for choice in reversed(choices)]
    return done


def _find_group(text: str) -> tuple[int, int, list[str]] | None:
    """The first outermost `{a,b}`: where it starts and ends, and its choices. Braces without a comma are letters."""
    depth, start, commas = 0, 0, list[int]()
    for at, char in enumerate(text):
        if char == "{":
            depth += 1
            if depth == 1:
                start, commas = at, []
        elif char == "," and depth == 1:
            commas.append(at)
        elif char == "}" and depth:
            depth -= 1
            if depth == 0 and commas:
                cuts = [start, *commas, at]
                return start, at + 1, [text[a + 1 : b] for a, b in pairwise(cuts)]
    return None


def _split(path: str) -> list[str]:
    parts = [part for part in path.split("/") if part not in ("", ".")]
    return [*parts, "**"] if path.endswith("/") else parts


def _match_path(pattern: Sequence[str], parts: Sequence[str]) -> bool:
    # A `**` at the end stands for something below, not for the folder itself.
    if pattern and pattern[-1] == "**":
        pattern = [*pattern, "*"]
    return _match(pattern, parts, lambda item: item == "**", _match_name)


def _match_name(pattern: str, name: str) -> bool:
    if "*" not in pattern and "?" not in pattern and "[" not in pattern:
        return pattern == name
    return _match(_tokenise(pattern), name, lambda token: token == "*", _match_char)


def _match(
    pattern: Sequence[Item],
    items: Sequence[str],
    is_star: Callable[[Item], bool],
    fits: Callable[[Item, str], bool],
) -> bool:
    at = read = resumed = 0
    star = -1
    while read < len(items):
        if at < len(pattern) and is_star(pattern[at]):
            star, resumed = at, read
            at += 1
        elif at < len(pattern) and fits(pattern[at], items[read]):
            at, read = at + 1, read + 1
        elif star >= 0:
            resumed += 1
            at, read = star + 1, resumed
        else:
            return False
    return all(is_star(item) for item in pattern[at:])


def _tokenise(pattern: str) -> list[str]:
    """One letter, `*`, `?`, or a whole `[set]`; a bracket that does not close is a letter."""
    tokens: list[str] = []
    at = 0
    while at < len(pattern):
        end = pattern.find("]", at + 2) if pattern[at] == "[" else -1
        stop = end + 1 if end > 0 else at + 1
        tokens.append(pattern[at:stop])
        at = stop
    return tokens


def _match_char(token: str, char: str) -> bool:
    if token == "?":
        return True
    if len(token) < 3:
        return token == char
    body = token[1:-1]
    negated = body[0] in "!^" and len(body) > 1
    body = body[1:] if negated else body
    found = char in body or any(
        body[at - 1] <= char <= body[at + 1] for at in range(1, len(body) - 1) if body[at] == "-"
    )
    return found is not negated
