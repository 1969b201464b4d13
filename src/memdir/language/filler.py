"""The content words of a description: how many it has, and how many of them say something.

Stop words, words that the type already says and empty words ("important info") of six languages are in
`data/filler.toml`. Words are counted; what they mean is not judged.
"""

import re
import unicodedata

from memdir.frozen import dataclass, once
from memdir.language import read_section

_CJK = r"\u3005\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f\U00020000-\U0003ffff"
_UNSPACED = r"\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"  # Thai, Lao, Burmese, Khmer: no spaces between words either
_SPACED = rf"(?:(?![{_CJK}{_UNSPACED}])[^\W_])+"
_TOKEN = rf"[{_CJK}]+|[{_UNSPACED}]+|{_SPACED}(?:['.:-]{_SPACED})*"
_HAN = r"[\u3005\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]+"
_KATAKANA = r"[\u30a0-\u30ff\uff66-\uff9f]+"
_HIRAGANA = r"[\u3040-\u309f]+"
_ELIDED = r"^(?:[ldjmtsnc]|qu|jusqu|lorsqu|puisqu)'(?=\w)|'(?:s|re|ve|ll|m|d)$"


@dataclass(frozen=True, slots=True)
class WordCount:
    """Content words of a text, and how many of them are not empty."""

    words: int
    telling: int


def count_content(text: str) -> WordCount:
    """Count the different words of a text without stop words and type words, and those of them that are not empty."""
    folded = unicodedata.normalize("NFKC", text).casefold().replace("’", "'")
    patterns = read_section("filler", "cjk")
    spaced: set[str] = set()
    words = telling = 0
    for token in re.findall(_TOKEN, folded):
        if re.match(rf"[{_CJK}]", token):
            rest = re.sub(patterns["grammar"], " ", token)
            words += _count_cjk(rest)
            telling += _count_cjk(re.sub(patterns["empty"], " ", rest))
        elif re.match(rf"[{_UNSPACED}]", token):
            many = max(1, len(token) // 4)
            words, telling = words + many, telling + many
        else:
            spaced.add(re.sub(_ELIDED, "", token))
    content = spaced - _read_words("stop") - _read_words("type")
    return WordCount(words + len(content), telling + len(content - _read_words("empty")))


@once
def _read_words(section: str) -> frozenset[str]:
    return frozenset(" ".join(read_section("filler", section).values()).split())


def _count_cjk(text: str) -> int:
    """About how many words: two Han characters make one, a run of katakana is one, hiragana is mostly grammar."""
    han = sum((len(run) + 1) // 2 for run in re.findall(_HAN, text))
    return han + len(re.findall(_KATAKANA, text)) + sum(len(run) // 4 for run in re.findall(_HIRAGANA, text))
