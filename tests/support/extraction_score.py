"""How well the local extractor hears what the labelled corpus asks for: counts, never texts.

A want is found when a wish of its message says what the label asks for and has its type; of a forget the type does not
count. Every wish that finds no want is a false one, in a message with nothing to save and in one with wants alike.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime

from extraction_corpus import Row, Want, is_met
from memdir.extraction.find import MemoryRequest, find_requests
from memdir.frozen import dataclass, field
from memdir.records import Message

Cell = tuple[str, str]  # language, category


@dataclass(frozen=True, slots=True)
class Score:
    wanted: Counter[Cell] = field(default_factory=Counter)
    found: Counter[Cell] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)

    @property
    def precision(self) -> float:
        right = self.found.total()
        return right / ((right + self.false.total()) or 1)

    def recall(self, languages: Iterable[str] = (), categories: Iterable[str] = ()) -> float:
        """Of all wants, or of those in some languages and categories."""
        cells = [cell for cell in self.wanted if _is_in(cell[0], languages) and _is_in(cell[1], categories)]
        return sum(self.found[cell] for cell in cells) / (sum(self.wanted[cell] for cell in cells) or 1)

    def count(self, languages: Iterable[str] = (), categories: Iterable[str] = ()) -> str:
        cells = [cell for cell in self.wanted if _is_in(cell[0], languages) and _is_in(cell[1], categories)]
        return f"{sum(self.found[cell] for cell in cells)}/{sum(self.wanted[cell] for cell in cells)}"


def score(rows: Iterable[Row]) -> Score:
    total = Score()
    for row in rows:
        left = hear(row.text, row.when, row.before)
        for want in row.want:
            cell = (row.lang, want.category)
            total.wanted[cell] += 1
            match = next((wish for wish in left if answers(wish, want)), None)
            if match is not None:
                total.found[cell] += 1
                left.remove(match)
        total.false[row.lang] += len(left)
    return total


def hear(text: str, when: datetime, before: str | None) -> list[MemoryRequest]:
    said = [Message("assistant", before, id="a", at=when)] if before is not None else []
    return list(find_requests([*said, Message("user", text, id="u", at=when)], now=when))


def answers(wish: MemoryRequest, want: Want) -> bool:
    if wish.action != want.action or (wish.action == "save" and wish.kind is not want.kind):
        return False
    return is_met(want, f"{wish.title}\n{wish.description}\n{wish.body}")


def _is_in(one: str, wanted: Iterable[str]) -> bool:
    return not wanted or one in tuple(wanted)
