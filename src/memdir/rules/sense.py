"""What a sentence says, as far as words tell: its subject, its values, what it rejects, whether it is negated.

Two sentences are about the same only if their names and versions agree; a date, a weekday or a number is a value,
    which
a newer sentence may change. It compares words and knows no synonyms: where it is in doubt,
    two sentences are different.
"""

import re
from enum import IntEnum
from functools import cache

from memdir.frozen import dataclass
from memdir.rules.chinese import CHINESE
from memdir.rules.english import ENGLISH
from memdir.rules.french import FRENCH
from memdir.rules.german import GERMAN
from memdir.rules.japanese import JAPANESE
from memdir.rules.spanish import SPANISH
from memdir.search.terms import parse_terms
from memdir.tongues import TONGUES as CALENDARS

_CONTRAST = re.compile(
    r"(?:[,;]?\s*\b(?:and |but |und |et |y )?(?:not|never|nicht|pas|no|nie)\b|\b(?:instead of|rather than|in place of|"
    r"statt|anstatt|au lieu de|"
    r"plutôt que|en vez de|en lugar de|no longer)\b|[，,]?(?:不要再?用?|不用|而不是|别用)|じゃなくて|"
    r"ではなく)\s*(?P<rejected>[^,;.。，]+)",
    re.IGNORECASE,
)
_SCOPE = re.compile(r"\b(?:in|for|on|im|für|bei|dans|pour|en|para)\s+(?P<scope>[^,;.]+)", re.IGNORECASE)
_VERSION = re.compile(r"\b(?:[A-Za-z][\w.+#-]*\s+v?\d+(?:\.\d+)*|v\d+(?:\.\d+)*|\d+\.\d+(?:\.\d+)*)\b")
_DATE = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b|\b\d{4}-Q[1-4]\b|\bQ[1-4] \d{4}\b")
_NUMBER = re.compile(r"(?<![\w.-])\d+(?:[.,:]\d+)*(?![\w-])")
_COUNTS = frozenset("one two three four five six seven eight nine ten twelve fifteen twenty".split())
# Words that say how, not what about: two sentences are not alike for having them.
_LIGHT = frozenset(
    "user users alway never onli pleas use do make have go get should must need want happen start keep just instead "
    "now again ever also like "
    "benutz nutz verwend utilis utiliz usar uso usa prefer everi each all ani still day time code thing way und der "
    "die das nicht immer nur bitt ich wir dass ist sind ein eine "
    "le la les un une de des du que et est sont ne pas toujour jamai je nous on el los las y es son no siempr nunca "
    "yo se en con para por mi".split()
)
_NAME = re.compile(r"(?<=[a-z,] )[A-Z]\w+")  # "Go" and "Make" inside a sentence are names, however light the word
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=\S)|(?<=[。！？])|\n+")


class Relation(IntEnum):
    """What a new sentence is to an old one, weakest first."""

    OTHER = 0
    EXTENDS = 1
    CONTRADICTS = 2
    SAME = 3


@dataclass(frozen=True, slots=True)
class Sense:
    terms: frozenset[str]
    values: frozenset[str]
    versions: frozenset[str]
    rejected: frozenset[str]
    scope: frozenset[str]
    negated: bool


def split_text(text: str) -> list[str]:
    """A body's sentences, list marks and empty ones left out."""
    parts = (part.strip() for part in _SENTENCE.split(text))
    return [part for part in parts if any(char.isalnum() for char in part)]


def find_terms(text: str) -> frozenset[str]:
    """The words that say what a text is about."""
    found = [term for term in parse_terms(text) if term not in _LIGHT and not term.isdigit()]
    found += [name.casefold() for name in _NAME.findall(text) if name.casefold() in _LIGHT]
    if not text.isascii():
        # of a CJK run the pairs count; a single character says too little
        found = [term for term in found if term.isascii() or len(term) > 1 or not _is_cjk(term)]
    return frozenset(found)


def parse_sense(sentence: str) -> Sense:
    """Values and versions first: what they say must not be counted as subject too."""
    dates = frozenset(_DATE.findall(sentence))
    rest = _DATE.sub(" ", sentence)
    days = frozenset(found.casefold() for found in _compile_days().findall(rest))
    rest = _compile_days().sub(" ", rest)
    versions = frozenset(_fold_version(found) for found in _VERSION.findall(rest))
    rest = _VERSION.sub(lambda found: re.sub(r"\d", " ", found[0]), rest)
    numbers = frozenset(_NUMBER.findall(rest)) | {
        word for word in re.findall(r"[a-z]+", rest.lower()) if word in _COUNTS
    }
    rest = re.sub(rf"\b(?:{'|'.join(_COUNTS)})\b", " ", _NUMBER.sub(" ", rest), flags=re.IGNORECASE)
    contrast = _CONTRAST.search(rest)
    apart = contrast if contrast and contrast.start() > 0 else None
    main = rest[: apart.start()] + " " + rest[apart.end() :] if apart else rest
    scope = _SCOPE.search(rest)
    return Sense(
        terms=find_terms(main),
        values=dates | days | numbers,
        versions=versions,
        rejected=find_terms(apart["rejected"]) if apart else frozenset(),
        scope=find_terms(scope["scope"]) if scope else frozenset(),
        negated=_is_negated(main),
    )


def relate(new: Sense, old: Sense) -> Relation:
    """Whether a new sentence says what an old one says, changes it, says more, or is about something else."""
    if new.versions != old.versions or not new.terms or not old.terms:
        return Relation.OTHER
    if _rejects(new, old):
        return Relation.CONTRADICTS
    shared, either = new.terms & old.terms, new.terms | old.terms
    likeness = len(shared) / len(either)
    same_values = new.values == old.values
    if new.terms <= old.terms and new.values <= old.values and new.negated == old.negated and likeness >= _ALIKE:
        return Relation.SAME
    if likeness >= _SAME or (likeness >= _ALIKE and len(shared) >= _SHARED and not same_values and old.values):
        return Relation.SAME if same_values and new.negated == old.negated else Relation.CONTRADICTS
    covers = old.terms <= new.terms and len(old.terms) >= _SHARED and old.values <= new.values
    return Relation.EXTENDS if covers and likeness >= _ALIKE and new.negated == old.negated else Relation.OTHER


def measure_cover(target: frozenset[str], terms: frozenset[str]) -> float:
    return len(target & terms) / len(target) if target else 0.0


_SAME = 0.8
_ALIKE = 0.6
_SHARED = 2
_SMALL = 4


def _rejects(new: Sense, old: Sense) -> bool:
    """ "pnpm, not npm" against "use npm": the old one asserts what the new one rejects, and nothing much else."""
    if not new.rejected or old.negated or not new.rejected <= old.terms or len(old.terms) > _SMALL:
        return False
    return new.scope <= old.scope if new.scope else True


def _is_negated(text: str) -> bool:
    clause = re.split(r"[,;，；]", text.strip())[0]
    return _compile_negations().search(clause) is not None


def _is_cjk(term: str) -> bool:
    return "\u3040" <= term <= "\u9fff"


def _fold_version(text: str) -> str:
    return re.sub(r"\s+v?", " ", text.casefold())


@cache
def _compile_days() -> re.Pattern[str]:
    spaced = "|".join(name for tongue in CALENDARS if tongue.spaced for name in tongue.weekdays)
    return re.compile(rf"\b(?:{spaced})s?\b|(?:周|週|星期)[一二三四五六日天]|[月火水木金土日]曜日?", re.IGNORECASE)


@cache
def _compile_negations() -> re.Pattern[str]:
    tongues = (ENGLISH, GERMAN, FRENCH, SPANISH, CHINESE, JAPANESE)
    return re.compile("|".join(tongue.negates for tongue in tongues), re.IGNORECASE)
