"""What a sentence claims, in a form that can be looked up: its telling words, and what must match to the letter.

Telling words are compared by stems cut short, so that inflection does not matter in any of the Latin languages; Chinese
and Japanese by pairs of characters without grammar. Addresses, paths, commands, identifiers and mails are `exact`: a
memory that names one has it from somewhere. Names and numbers stand between the two.
"""

import re
import unicodedata
from functools import cache
from itertools import pairwise

from memdir.frozen import dataclass
from memdir.search.terms import make_term
from memdir.taint.frames import SMALL, SMALL_CJK
from memdir.taint.leads import NEGATION, ORDER, REPORT

KEY_LETTERS = 6  # of a stem: "summaries" and "summarizing" are the same word

_WIDE = r"\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WIDE_RUN = re.compile(rf"[{_WIDE}]+")
_HIRAGANA = re.compile(r"[\u3040-\u309f]+")
_WORD = re.compile(rf"(?:(?![{_WIDE}])[^\W\d_])+")
_TOKEN = re.compile(rf"[{_WIDE}]|(?:(?![{_WIDE}])\w)+")
_REPLY = re.compile(r"^\s*(?:no|nope|nein|nee|non)\s*[,:;.!–—]\s*", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\w.])\d++(?:[.,]\d++)*+(?!\w{0,20}[A-Za-z_]{3})")
_DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b|\d{4}年\d{1,2}月\d{1,2}日")
_EXACT = re.compile(
    r"""
      [A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s<>"'`）」，。、]+
    | (?<![\w.+-])[\w.+-]{1,64}@[\w-]{1,63}\.[\w.-]{0,100}\w
    | (?<![\w.-])(?:[A-Za-z0-9-]{1,63}\.){1,6}(?:com|org|net|io|dev|ai|app|co|de|fr|es|cn|jp|eu|uk|us|info|
        biz|xyz|sh|me|ru|example|
        invalid|test|local|internal|corp|evil)\b(?:/[^\s<>"'`）」，。、]*)?
    | (?<![\w.])\d{1,3}(?:\.\d{1,3}){3}\b(?::\d+)?
    | (?<![\w/.])(?:~|\.{1,2})?/[\w.@~+-]+(?:/[\w.@~+*-]*)*
    | (?<![\w/.@+-])[\w.@+-]{1,100}(?:/[\w.@+*-]+)+
    | (?<![\w-])--?[A-Za-z][\w-]*(?:=[^\s`,;]+)?
    | \b[A-Za-z]+_\w+\b | \b[a-z]+[A-Z]\w*\b | \b(?=\w*\d)(?=\w*[A-Za-z])[A-Za-z0-9]{6,}\b
    | (?<![\w-])[\w-]{1,80}\.(?:md|py|js|ts|tsx|json|ya?ml|toml|sh|go|rs|java|sql|txt|env|cfg|ini|lock|pem|key|
        csv|html?)\b
    """,
    re.VERBOSE | re.ASCII,
)
_CODE = re.compile(r"`([^`\n]+)`")
_CAPITAL = re.compile(r"(?<![\w.])[A-ZÀ-ÖØ-Þ][\w’'-]*")
_SENTENCE = re.compile(r"(?<=[.!?…])[\"'”’»)*_]*\s+(?=\S)|(?<=[。！？；])|\n+")
_MARKS = re.compile(r"\A[\s>]*+(?:[-*+•・]|#{1,6}|\d{1,3}[.)、．])?\s*+")
_LANGUAGES = {
    "en": "the of and to is that for with are this you from it when before after all never always should",
    "de": "der die das und ist nicht ein eine für mit auf zu von den dem immer wenn werden soll nie wird sich im",
    "fr": "le la les des et est une pour que dans pas sur au ne qui avec du ce toujours jamais doit sont",
    "es": "el los las que una por con para es del en se al siempre nunca debe como y sin lo",
}


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence: what it says, ready to be looked up."""

    text: str
    keys: frozenset[str]
    exact: frozenset[str]
    names: frozenset[str]
    numbers: frozenset[str]
    days: frozenset[str]
    language: str
    negated: bool
    orders: bool


def parse_claim(text: str) -> Claim:
    exact = find_exact(text)
    language = guess_language(text)
    names = frozenset() if language == "de" else find_names(text)
    numbers = frozenset(_NUMBER.findall(_DAY.sub(" ", _EXACT.sub(" ", text))))
    days = frozenset(_DAY.findall(text))
    return Claim(text, find_keys(text), exact, names, numbers, days, language, is_negated(text), _matches(ORDER, text))


def split_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a text, list marks and headings' marks left out."""
    found = (_MARKS.sub("", part).strip() for part in _SENTENCE.split(text))
    return tuple(part for part in found if re.search(r"\w", part))


def find_keys(text: str) -> frozenset[str]:
    """The telling words of a text, each as the key by which its forms are the same."""
    return frozenset(key for word in _WORD.findall(_fold(text)) if (key := make_key(word))) | _find_pairs(text)


def find_order(text: str) -> frozenset[tuple[str, str]]:
    """Which word follows which: two texts of the same words can say opposite things."""
    words = _TOKEN.findall(_fold(text))
    return frozenset(pairwise(words))


@cache
def _find_pairs_of(run: str) -> frozenset[str]:
    kept: set[str] = set()
    for part in re.split(SMALL_CJK, run):
        for word in _HIRAGANA.split(part):  # hiragana is grammar for the most part
            kept |= {word[at : at + 2] for at in range(len(word) - 1)} if len(word) > 1 else {word}
    return frozenset(kept - {""})


def _find_pairs(text: str) -> frozenset[str]:
    if text.isascii():
        return frozenset()
    return frozenset().union(*(_find_pairs_of(run) for run in _WIDE_RUN.findall(unicodedata.normalize("NFKC", text))))


def make_key(word: str) -> str:
    """Empty for a word that claims nothing."""
    if word in SMALL or (len(word) < 2 and word.isascii()):
        return ""
    plain = word if word.isascii() else _strip_accents(word)
    return make_term(plain)[:KEY_LETTERS] if plain not in SMALL else ""


def find_exact(text: str) -> frozenset[str]:
    """Addresses, mails, paths, flags, identifiers, files and code, each in the form in which it is compared."""
    found = {_trim(match) for match in _EXACT.findall(text)}
    for code in _CODE.findall(text):
        found.add(_trim(code))
    return frozenset(at for at in found if len(at) > 1)


def find_names(text: str) -> frozenset[str]:
    """Words written like names: with a capital in the middle of a sentence, unless most words have one."""
    bare = _EXACT.sub(" ", _CODE.sub(" ", text))
    words = _WORD.findall(bare)
    capitals = [at[0] for at in _CAPITAL.finditer(bare) if at.start() > len(bare) - len(bare.lstrip(" *_\"'“(["))]
    shouted = {word for word in capitals if word.isupper() and len(word) > 1}
    named = capitals if len(capitals) * 2 < len(words) else shouted
    return frozenset(fold for word in named if (fold := _fold(word).strip("'’-")) not in SMALL and len(fold) > 1)


def guess_language(text: str) -> str:
    """zh, ja, or one of four told by their small words; empty if nothing tells."""
    wide = sum(map(len, _WIDE_RUN.findall(text)))
    words = _WORD.findall(_fold(text))
    if wide * 3 > len("".join(words)):
        return "ja" if _HIRAGANA.search(text) else "zh"
    counts = {name: sum(map(small.__contains__, words)) for name, small in _small_words().items()}
    best = max(counts, key=lambda name: counts[name])
    return best if counts[best] > 0 and sum(count == counts[best] for count in counts.values()) == 1 else ""


@cache
def _small_words() -> dict[str, frozenset[str]]:
    return {name: frozenset(words.split()) for name, words in _LANGUAGES.items()}


def is_negated(text: str) -> bool:
    """Whether it denies something; a "No," at its beginning denies what was said before it, not what follows."""
    return _matches(NEGATION, _REPLY.sub("", text))


def is_hearsay(text: str) -> bool:
    """A question, or what a page or a file says: the person does not say it themselves."""
    return text.rstrip().endswith(("?", "？", "か。", "か", "吗。", "吗")) or _matches(REPORT, text)


def _matches(pattern: str, text: str) -> bool:
    return _compile(pattern).search(text) is not None


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


def fold_text(text: str) -> str:
    """A text as exact things are looked up in it."""
    return " ".join(_fold(text).split())


def _fold(text: str) -> str:
    return text.lower() if text.isascii() else unicodedata.normalize("NFKC", text).casefold().replace("’", "'")


def _strip_accents(word: str) -> str:
    parts = unicodedata.normalize("NFKD", word)
    return "".join(char for char in parts if not unicodedata.combining(char))


def _trim(thing: str) -> str:
    plain = " ".join(_fold(thing).split()).rstrip(".,;:!?)]}'\"/")
    return re.sub(r"\A(?:[a-z]+://)?(?:www\.)?", "", plain)
