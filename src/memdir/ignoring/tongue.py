"""What one language brings for hearing "leave memory alone": its patterns as text, compiled when they are needed.

Before a sentence is looked at, the words for memory in it become one sign: `¤` where the agent's own is meant for sure
("your memory", "saved memories"), `°` where it could be the machine's ("memory"); and words that may stand anywhere
("please") are taken out. A request is then a core at the start of a clause, with leads before it (this time, could you)
and a tail after it. That is what tells it from a sentence about something else: in "the linter ignores memory", "don't
ignore memory" and "they are fast and don't use memory" the words are there, but not at that place; in "ignore memory
leaks" the tail is wrong.
"""

import re
from functools import cache

from memdir.frozen import dataclass

MEM = "[¤°]"
# Where a clause may begin: the sentence, or after a comma, dash, colon or bracket.
_CLAUSE = r"(?:^|[,;:(—–，、；：（]|\s-\s)\s*[¿¡]?"
# Where one may end.
END = r"\s*(?:$|[,;:)—–，、；：）]|\s-\s)"


@dataclass(frozen=True, slots=True)
class Tongue:
    """The patterns of one language; each is tried on one sentence in lower case.

    cues     one of them is in every request; a text without is not looked at
    owned    words for the agent's own memory, which become `¤`
    bare     words for memory of any kind, which become `°`
    fill     words that are taken out before
    leads    what may stand before a core
    cores    the requests
    stops    requests that hold for the conversation by what they say ("stop using…")
    again    requests that take an earlier one back
    free     requests so plain that they may stand anywhere in a sentence
    tail     what must follow any of these
    lasting  words that make a core hold for the conversation
    asks     words that make a question a request
    doubts   words that make a core with `°` mean the machine's memory
    """

    cues: str
    owned: str
    bare: str
    leads: str
    cores: tuple[str, ...]
    again: tuple[str, ...]
    tail: str
    lasting: str
    asks: str
    fill: str = ""
    stops: tuple[str, ...] = ()
    free: tuple[str, ...] = ()
    doubts: str = ""


def any_of(words: str) -> str:
    """A pattern for any of the words, which are separated by commas and may be patterns themselves."""
    return f"(?:{'|'.join(' '.join(word.split()) for word in words.split(','))})"


def mark(sentence: str, tongue: Tongue) -> str:
    """The sentence with its signs, and without what may stand anywhere."""
    signed = compile_pattern(tongue.owned).sub("¤", sentence.replace("¤", " ").replace("°", " "))
    signed = compile_pattern(tongue.bare).sub("°", signed)
    return " ".join(compile_pattern(tongue.fill).sub(" ", signed).split()) if tongue.fill else signed


@cache
def compile_pattern(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


@cache
def compile_requests(tongue: Tongue) -> re.Pattern[str]:
    """All requests at the start of a clause, any number of leads before them, as the groups again, stop and ask."""
    groups = [f"(?P<again>{'|'.join(tongue.again)})", f"(?P<ask>{'|'.join(tongue.cores)})"]
    groups += [f"(?P<stop>{'|'.join(tongue.stops)})"] if tongue.stops else []
    return re.compile(rf"{_CLAUSE}(?:{tongue.leads}[\s,，、]*)*(?:{'|'.join(groups)}){tongue.tail}")


@cache
def compile_free(tongue: Tongue) -> re.Pattern[str]:
    return re.compile(f"(?:{'|'.join(tongue.free)}){tongue.tail}")
