"""A message as sentences, with what stands in quotes or code hidden from the rules but not from the memory.

`hidden` has the same length as `text`, so that a place in one is a place in the other.
"""

import re
from collections.abc import Iterator

from memdir.frozen import dataclass

_QUOTED = re.compile(
    r"`[^`\n]*`|\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|„[^“”\n]{1,300}[“”]|«[^»\n]{1,300}»|「[^」\n]{1,300}」|"
    r"『[^』\n]{1,300}』|"
    r"《[^》\n]{1,300}》|‘[^’\n]{1,80}’|(?<!\w)'[^'\n]{1,80}'(?!\w)"
)
_END = re.compile(
    r"(?!(?<=\d\.)\s+(?:[a-zäöüß]|Jan|Feb|Mär|Apr|Mai|Jun|Jul|Aug|Sep|Okt|Nov|"
    r"Dez))(?<=[.!?…])(?<!\be\.g\.)(?<!\bi\.e\.)(?<!\betc\.)(?<!\bvs\.)(?<!\bz\.B\.)(?<!\bca\.)(?<!\bp\.ej\.)(?<!\ba"
    r"pprox\.)[\"'”’)»]*\s+|"
    r"(?<=[。！？])[」』”]*\s*|\s*\n\s*"
)
_BULLET = re.compile(r"^\s*(?:[-*+•]|\d{1,2}[.)])\s+")
_ITEMS = re.compile(r"(?:^|(?<=[\s,;:]))(?:\(?\d{1,2}\)|\d{1,2}[.])\s+")


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence; `begins` says that it opens a line, `bullet` that the line is an item of a list."""

    text: str
    hidden: str
    begins: bool = False
    bullet: bool = False


def split_sentences(text: str) -> list[Sentence]:
    return list(_split(_smooth(text)))


def split_items(text: str) -> list[str]:
    """The parts of "1) this, 2) that"; a text without such numbers is one part."""
    parts = [part.strip(" ,;") for part in _ITEMS.split(text)]
    parts = [part for part in parts if part]
    return parts if len(_ITEMS.findall(text)) > 1 else [text]


def _smooth(text: str) -> str:
    return text.replace("\u2019", "'").replace("\u02bc", "'").replace("\xa0", " ").replace("\u202f", " ")


def _split(text: str) -> Iterator[Sentence]:
    masked = _QUOTED.sub(lambda found: found[0][0] + "§" * (len(found[0]) - 2) + found[0][-1], text)
    place, begins = 0, True
    for stop in [*_END.finditer(masked), None]:
        end = stop.start() if stop else len(masked)
        part, hidden = text[place:end], masked[place:end]
        bullet = _BULLET.match(part) if begins else None
        if bullet:
            part, hidden = part[bullet.end() :], hidden[bullet.end() :]
        lead = len(part) - len(part.lstrip())
        part, hidden = part[lead:].rstrip(), hidden[lead:].rstrip()
        if part:
            yield Sentence(part, hidden, begins, bullet is not None)
        place = stop.end() if stop else len(masked)
        begins = bool(stop and "\n" in stop[0])
