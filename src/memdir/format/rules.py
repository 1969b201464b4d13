"""Find the standing rules: memories that a conversation has from its start, whatever its prompts are about.

A rule is written, with `always: true` in the field `when:`, or recognised from its header: a memory about the user, or
feedback on how to work together (answers, plans, questions, commits, reviews, dependencies). A header that names a path, a
command or a symbol is not recognised, nor is feedback with other entries in `when:`, because these are shown at the action,
nor a memory with `always: false`.
Shared memories are never rules, because only the user decides what every conversation starts with.
"""

from collections.abc import Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, TypeVar

from memdir.frozen import compile_late
from memdir.limits import RECOGNISED_RULES, RULES
from memdir.records import Header, Kind, Scope

if TYPE_CHECKING:
    from memdir.format.fields import FrontmatterFields

# How certain a rule is.
WRITTEN, ABOUT_USER, GENERAL = 3, 2, 1
OWN_SCOPES = (Scope.PRIVATE, Scope.USER, Scope.AGENT)
# A name in code, a path, a flag or a call.
_CODE = compile_late(
    r"`|\w_\w|::|\w\(|[{}<>=$*]|(?:^|\s)--?[a-zA-Z]|\w/\w+/|/\w+\.\w|\b[a-z]{2,}[A-Z][a-z]|\b[A-Z]\w+\.[a-z]\w|\w\.(?!com\b)[a-z]{2,5}\b"
)
Item = TypeVar("Item")


def judge_rule(fields: "Header | FrontmatterFields") -> int:
    """Return how certain it is that a memory with this header is a rule, or 0. Does not check whose memory it is."""
    if fields.when.always:
        return WRITTEN
    may_be = fields.kind is Kind.USER or (fields.kind is Kind.FEEDBACK and not fields.when.has_patterns)
    text = f"{fields.title}\n{fields.description}"
    if fields.when.always is False or not may_be or _CODE.search(text):
        return 0
    return ABOUT_USER if fields.kind is Kind.USER else GENERAL if _find_general()(text) else 0


def choose_rules(rows: Iterable[tuple[int, bool, float, Item]], limit: int = RULES) -> list[Item]:
    """Return the rules, best first, from rows of certainty, pinned, time and item.

    Written rules come before recognised ones, then pinned ones, then the newest.
    """
    ranked = sorted(rows, key=lambda row: row[:3], reverse=True)
    written = sum(row[0] == WRITTEN for row in ranked)
    return [row[3] for row in ranked if row[0]][: min(limit, written + RECOGNISED_RULES)]


def find_rules(headers: Iterable[Header], limit: int = RULES) -> tuple[Header, ...]:
    """Return the headers of the standing rules, best first."""
    own = (header for header in headers if header.scope in OWN_SCOPES)
    rows = ((judge_rule(header), header.pinned, header.modified.timestamp(), header) for header in own)
    return tuple(choose_rules(rows, limit))


@cache
def _find_general() -> Callable[[str], object]:
    # Imported here: the words are data, which few processes need.
    from memdir.language import compile_any

    return compile_any("working").search
