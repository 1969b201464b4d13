"""Sentences, small words, scripts, and the patterns that are tried before the language of a text is known."""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import chain

from memdir.frozen import dataclass
from memdir.language import CODES, read_section

# Characters of Chinese and Japanese, for use inside a character class.
HIRAGANA = r"\u3040-\u309f"
KANA = r"\u3040-\u30ff"
CJK = rf"\u3005{KANA}\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"

_QUOTED = re.compile(
    r"`[^`\n]*`|\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|„[^“”\n]{1,300}[“”]|«[^»\n]{1,300}»|「[^」\n]{1,300}」|"
    r"『[^』\n]{1,300}』|《[^》\n]{1,300}》|‘[^’\n]{1,80}’|(?<!\w)'[^'\n]{1,80}'(?!\w)"
)
_END = re.compile(
    r"(?!(?<=\d\.)\s+(?:[a-zäöüß]|Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|Dez))(?<=[.!?…])"
    r"(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)(?<!\bz\.B\.)(?<!\bca\.)(?<!\bp\.ej\.)(?<!\bapprox\.)"
    r"[\"'”’)»]*\s+|(?<=[。！？])[」』”]*\s*|\s*\n\s*"
)
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d{1,2}[.)])\s+")
_ITEMS = re.compile(r"(?:^|(?<=[\s,;:]))(?:\(?\d{1,2}\)|\d{1,2}[.])\s+")
_TEXT_END = re.compile(r"(?<=[.!?…])[\"'”’»)*_]*\s+(?=\S)|(?<=[。！？；])|\n+")
_MARKS = re.compile(r"\A[\s>]*+(?:[-*+•・]|#{1,6}|\d{1,3}[.)、．])?\s*+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence of a message; `hidden` has its quotes and code masked and the same length as `text`.

    `begins` says that it opens a line, `bullet` that the line is an item of a list.
    """

    text: str
    hidden: str
    begins: bool = False
    bullet: bool = False


def split_sentences(text: str) -> list[Sentence]:
    """The sentences of a message as somebody typed it: list items, abbreviations and quotes are seen."""
    return list(_split(text.replace("\u2019", "'").replace("\u02bc", "'").replace("\xa0", " ").replace("\u202f", " ")))


def split_text(text: str) -> tuple[str, ...]:
    """The sentences of a memory's text, as they are compared: without marks of lists and headings."""
    found = (_MARKS.sub("", part).strip() for part in _TEXT_END.split(text))
    return tuple(part for part in found if re.search(r"\w", part))


def split_items(text: str) -> list[str]:
    """The parts of "1) this, 2) that"; a text without such numbers is one part."""
    parts = [part for item in _ITEMS.split(text) if (part := item.strip(" ,;"))]
    return parts if len(_ITEMS.findall(text)) > 1 else [text]


def _split(text: str) -> Iterator[Sentence]:
    masked = _QUOTED.sub(lambda found: found[0][0] + "§" * (len(found[0]) - 2) + found[0][-1], text)
    start, begins = 0, True
    for stop in [*_END.finditer(masked), None]:
        end = stop.start() if stop else len(masked)
        bullet = _BULLET.match(text[start:end]) if begins else None
        start += bullet.end() if bullet else 0
        start += len(text[start:end]) - len(text[start:end].lstrip())
        part = text[start:end].rstrip()
        if part:
            yield Sentence(part, masked[start:end].rstrip(), begins, bullet is not None)
        start = stop.end() if stop else len(masked)
        begins = bool(stop and "\n" in stop[0])


@cache
def compile_any(name: str) -> re.Pattern[str]:
    """A pattern over all languages, from `data/any.toml`; letters match in both cases."""
    return re.compile(_read_patterns()[name], re.IGNORECASE)


@cache
def load_words(name: str) -> frozenset[str]:
    """Words of no single language, from `data/any.toml`."""
    return frozenset(read_section("any", "words")[name])


@cache
def load_small_words() -> frozenset[str]:
    """Words that claim nothing, of the four languages whose words stand apart."""
    return frozenset(chain.from_iterable(read_section(code, "words").get("small", ()) for code in CODES))


@cache
def load_usual_words() -> Mapping[str, frozenset[str]]:
    """The commonest words of the same languages, by which they are recognized."""
    tables = {code: read_section(code, "words") for code in CODES}
    return {code: frozenset(table["usual"]) for code, table in tables.items() if "usual" in table}


@cache
def load_today() -> Mapping[str, str]:
    """Patterns for a part of today, and how a date stands in their place: "on {}"."""
    return dict(read_section(code, "words")["today"] for code in CODES)


@cache
def _read_patterns() -> Mapping[str, str]:
    return read_section("any", "patterns")
