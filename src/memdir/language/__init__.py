"""Patterns and word lists for six natural languages: relative dates, requests and sentences.

The words and patterns are data, one file per language in `data/`, read when a text first needs them: a prompt that does not
mention memory reads none. `dates` and `requests` each read their own section of a file.
"""

import os
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

from memdir.frozen import dataclass
from memdir.text import CJK, HAN, HIRAGANA, KATAKANA, fold

CODES = ("en", "de", "fr", "es", "zh", "ja")
_FOLDER = os.path.join(os.path.dirname(__file__), "data")
_SLOT = re.compile(r"\{\{(\w+)\}\}")


def read_section(code: str, name: str, **known: str) -> dict[str, Any]:
    """Return a section of a language file as a dict. Arrays become tuples.

    `{{name}}` in a string is replaced by that entry of the section's `parts` or of `known`. A part may use earlier parts.
    """
    section = dict(read_file(code)[name])
    parts = dict(known)
    for part, text in section.pop("parts", {}).items():
        parts[part] = _fill(text, parts)
    return {key: _fill(value, parts) for key, value in section.items()}


def read_sections(name: str, **known: str) -> dict[str, dict[str, Any]]:
    return {code: read_section(code, name, **known) for code in CODES}


@cache
def read_file(code: str) -> dict[str, Any]:
    """Return the data file of a language, or `any` for data that applies to all of them."""
    import tomllib

    with open(os.path.join(_FOLDER, f"{code}.toml"), "rb") as file:
        return tomllib.load(file)


def _fill(value: Any, parts: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _SLOT.sub(lambda slot: parts[slot[1]], value.replace("\n", ""))
    if isinstance(value, list):
        return tuple(_fill(item, parts) for item in value)
    return {key: _fill(item, parts) for key, item in value.items()} if isinstance(value, dict) else value


# --- words ---------------------------------------------------------------------------------------------
# Stop words, content words, scripts, and patterns that are tried before the language of a text is known.

_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer: no spaces between words either
_SPACED = rf"(?:(?![{CJK}{_UNSPACED}])[^\W_])+"
_TOKEN = rf"[{CJK}]+|[{_UNSPACED}]+|{_SPACED}(?:['.:-]{_SPACED})*"
_ELIDED = r"^(?:[ldjmtsnc]|qu|jusqu|lorsqu|puisqu)'(?=\w)|'(?:s|re|ve|ll|m|d)$"


@dataclass(frozen=True, slots=True)
class WordCount:
    """The number of content words in a text. `telling` is the number of specific words among them."""

    words: int
    telling: int


def count_content(text: str) -> WordCount:
    """Count the distinct words of a text without stop words, and the specific words among them."""
    folded = fold(text).replace("’", "'")
    patterns = read_section("filler", "cjk")
    spaced: set[str] = set()
    words = telling = 0
    for token in re.findall(_TOKEN, folded):
        if re.match(rf"[{CJK}]", token):
            rest = re.sub(patterns["grammar"], " ", token)
            words += _count_cjk(rest)
            telling += _count_cjk(re.sub(patterns["empty"], " ", rest))
        elif re.match(rf"[{_UNSPACED}]", token):
            many = max(1, len(token) // 4)
            words, telling = words + many, telling + many
        else:
            spaced.add(re.sub(_ELIDED, "", token))
    content = spaced - _read_filler("stop") - _read_filler("type")
    return WordCount(words + len(content), telling + len(content - _read_filler("empty")))


def _count_cjk(text: str) -> int:
    """Estimate the number of words in Chinese or Japanese text."""
    han, katakana, hiragana = (re.findall(rf"[{script}]+", text) for script in (HAN, KATAKANA, HIRAGANA))
    return sum((len(run) + 1) // 2 for run in han) + len(katakana) + sum(len(run) // 4 for run in hiragana)


@cache
def compile_any(name: str) -> re.Pattern[str]:
    """Compile a pattern from `data/any.toml`, which applies to all languages and ignores case."""
    return re.compile(read_section("any", "patterns")[name], re.IGNORECASE)


@cache
def load_words(name: str) -> frozenset[str]:
    return frozenset(read_section("any", "words")[name])


@cache
def load_stop_words(code: str) -> frozenset[str]:
    return frozenset(read_section("filler", "stop").get(code, "").split())


@cache
def _read_filler(section: str) -> frozenset[str]:
    return frozenset(" ".join(read_section("filler", section).values()).split())
