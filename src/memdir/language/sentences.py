"""Split a text into sentences."""

import re
from collections.abc import Iterator

from memdir.frozen import dataclass

# A sentence ends before a space or a line end; not after a title or an abbreviation, nor inside `1.5` or `e.g.`.
_SENTENCE = re.compile(
    r"(?<=[.!?…])(?<!\b[A-Z]\.)(?<!\b[DM]r\.)(?<!\bM[rs]s\.)(?<!\bMs\.)(?<!\bSt\.)(?<!\bNo\.)(?<!\bNr\.)(?<!\bvs\.)"
    r"(?<!\bbzw\.)(?<!\bca\.)(?<!\b[^\W\d]\.[^\W\d]\.)(?<!\betc\.)(?<!\bapprox\.)(?<!\bProf\.)[\"'”’»)*_`]*[ \t]+(?=\S)|"
    r"(?<=[。！？])[」』”]*|\n+"
)
# Marks of lists, headings and quotations at the start of a line are not part of a sentence.
_LEAD = re.compile(r"[\s>]*+(?:(?:[-*+•・]|#{1,6}|\d{1,3}[.)、．])\s++)?\s*+")

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


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a message. In `hidden`, quotes and code are masked without changing the length.

    `begins` means that it starts a line, and `bullet` that this line is a list item.
    """

    text: str
    hidden: str
    begins: bool = False
    bullet: bool = False


def find_sentences(text: str) -> Iterator[tuple[int, int]]:
    """Yield the start and end of each sentence, without list markers or heading markers."""
    start = 0
    for stop in (*_SENTENCE.finditer(text), None):
        end = stop.start() if stop else len(text)
        lead = _LEAD.match(text, start, end)
        begin = lead.end() if lead else start
        if re.search(r"\w", text[begin:end]):
            yield begin, begin + len(text[begin:end].rstrip())
        start = stop.end() if stop else end


def split_sentences(text: str) -> list[Sentence]:
    """Split a typed message into sentences. Recognises list items, abbreviations and quotes."""
    return list(_split(text.replace("\u2019", "'").replace("\u02bc", "'").replace("\xa0", " ").replace("\u202f", " ")))


def split_items(text: str) -> list[str]:
    """Split "1) this, 2) that" into its parts. Other text is returned as one part."""
    parts = [part for item in _ITEMS.split(text) if (part := item.strip(" ,;"))]
    return parts if len(_ITEMS.findall(text)) > 1 else [text]


def _split(text: str) -> Iterator[Sentence]:
    masked = _QUOTED.sub(lambda quote: quote[0][0] + "§" * (len(quote[0]) - 2) + quote[0][-1], text)
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
