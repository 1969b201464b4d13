"""What the scanner is made of and what it answers. A finding says what and where; it never holds the value."""

from memdir.frozen import dataclass


def make_rule(id_: str, what: str, pattern: str, *hints: str, bits: float = 2.0) -> "Rule":
    """A row of the tables of vendors' tokens."""
    return Rule(id_, what, pattern, hints, bits)


@dataclass(frozen=True, slots=True)
class Rule:
    """One shape of secret: a pattern for the value, or with a group `value` for what surrounds it too.

    `hints` are words in lower case, one of which the text must hold before the pattern is even made. `bits` is the
    entropy a value must have at least, by character. The scanner itself sees that a match is no part of a longer word,
    unless `inside` says that the pattern does so.
    """

    id: str
    what: str
    pattern: str
    hints: tuple[str, ...] = ()
    bits: float = 0.0
    inside: bool = False


@dataclass(frozen=True, slots=True)
class Allow:
    """A value that is no secret although a rule finds it, and why. With `rule`, for that rule only.

    The pattern is searched in the value, or with `on_line` in the line the value begins on.
    """

    pattern: str
    why: str
    rule: str = ""
    on_line: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """A secret in a text: which rule, in words what it is, and where. Lines count from 1, characters from 0."""

    rule: str
    what: str
    line: int
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Hit:
    """A match in some reading of a text, before it is known where it stands in the text itself."""

    rule: str
    what: str
    start: int
    end: int
