"""What a language says of relative dates: the shape of the tables that `phrases` reads. It holds no language itself.

A form is (pattern, what it means, a number[, words put behind the date]). In a pattern a space is any white space
within a paragraph, `{N}` a number, `{W}` a weekday, `{A}` a short weekday; its first letter may be a capital unless
it starts with `=`. The first form that matches counts, so longer ones stand first.

Decided here, where people disagree, and the same in all six languages:
- "next Thursday" is the coming one, as "this Thursday" is. Speakers split over it near the day itself, and the
  earlier date does less harm when it is a deadline. "Thursday next week" is the one of next week.
- The end of a week is its Friday: it is said of work. On a weekend it is the Friday to come.
- A span is not made more exact than it was said: "in two months" is a month, "two years ago" a year.
- "since Thursday" looks back, whatever a bare weekday does elsewhere.
"""

from collections.abc import Mapping
from enum import StrEnum

from memdir.frozen import dataclass, field


class What(StrEnum):
    """What a form stands for; the number beside it is a step, or the sign of one that the text counts out."""

    DAY = "day"
    WEEKDAY = "weekday"  # bare: the coming one
    SHORT = "short"  # bare and abbreviated: the coming one, and only behind a preposition
    COMING = "coming"
    PREVIOUS = "previous"
    IN_WEEK = "in week"  # a weekday of the last, this or the next week
    DAYS = "days"
    WEEKS = "weeks"
    MONTHS = "months"
    YEARS = "years"
    WEEK = "week"
    MONTH = "month"
    QUARTER = "quarter"
    YEAR = "year"
    WEEK_END = "week end"
    MONTH_END = "month end"
    QUARTER_END = "quarter end"
    YEAR_END = "year end"


Whats = tuple[What, ...]
Form = tuple[str, What, int] | tuple[str, What, int, str]
Vetoes = Mapping[Whats, str]

PERIODS: Whats = (What.WEEK, What.MONTH, What.QUARTER, What.YEAR)
ENDS: Whats = (What.WEEK_END, What.MONTH_END, What.QUARTER_END, What.YEAR_END)
OFFSETS: Whats = (What.DAYS, What.WEEKS, What.MONTHS, What.YEARS)
BARE: Whats = (What.WEEKDAY, What.SHORT)
NAMED: Whats = (*BARE, What.COMING, What.PREVIOUS)


@dataclass(frozen=True, slots=True, eq=False)  # each is one of a kind; its patterns are kept by identity
class Tongue:
    """One language.

    stems           small letters of which every form holds one: a text without any of them need not be looked at
    before, after   contexts that veto a form, as regular expressions that touch it
    follows         what must follow a form, where a language is that strict
    prepositions    what stands before -> what then stands before a date, a month or year, a week
    glue            what is put before when nothing stands there: "day", "offset", "span", "year", "week"
    opens           prepositions that free a weekday at the start of a clause from `follows`
    past            prepositions that turn a bare weekday into the previous one
    habit           words that make the weekdays of a whole sentence a habit
    verbs           verbs after which a period at the start of a clause is seen to be the subject: no glue
    needs           (words, expected, unexpected): words counted only where their language shows in the same line
    """

    forms: tuple[Form, ...]
    weekdays: tuple[str, ...]
    numbers: Mapping[str, int]
    stems: tuple[str, ...]
    before: Vetoes = field(default_factory=dict)
    after: Vetoes = field(default_factory=dict)
    follows: Vetoes = field(default_factory=dict)
    prepositions: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    glue: Mapping[str, str] = field(default_factory=dict)
    opens: tuple[str, ...] = ()
    past: tuple[str, ...] = ()
    short: tuple[str, ...] = ()
    habit: str = "(?!)"
    verbs: str = "(?!)"
    needs: tuple[str, str, str] = ("(?!)", "", "")
    week: str = "{}"
    year: str = "{}"
    spaced: bool = True


def periods(step: int, *, week: str, month: str, quarter: str, year: str) -> tuple[Form, ...]:
    """The four forms of one step: last, this or next."""
    patterns = (week, month, quarter, year)
    return tuple((pattern, what, step) for pattern, what in zip(patterns, PERIODS, strict=True))


def count_words(words: str, start: int = 1) -> dict[str, int]:
    """Number words in order, from `start` on."""
    return {word: count for count, word in enumerate(words.split(), start)}


def split(words: str) -> tuple[str, ...]:
    """Stems, divided by commas."""
    return tuple(words.split(","))


def keep(words: str) -> dict[str, tuple[str, str, str]]:
    """Prepositions that stand before a date as they stood before its words."""
    return {word: (word, word, word) for word in words.split()}
