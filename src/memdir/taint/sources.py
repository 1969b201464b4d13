"""The text of a slice of conversation, sorted by whose words it is, ready to be searched by telling words.

The person's are what they typed themselves, in plain words. The agent's are what it wrote. All else is foreign: results
of tools, what the host put in, and whatever the person quoted or pasted.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from memdir.frozen import dataclass
from memdir.records import Message
from memdir.taint.claims import find_keys, fold_text, guess_language, split_sentences
from memdir.taint.reminders import strip_reminders
from memdir.taint.split import split_message

WINDOW = 4  # sentences of the person in which a claim may find its words: a wish and its reason, not a whole letter
FOREIGN_WINDOW = 2
PROSE_WORDS = 5  # a foreign sentence of so many words has a language


class Trust(StrEnum):
    """Whose words a memory rests on."""

    PERSON = "person"
    AGENT = "agent"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Passage:
    """A few sentences of one message."""

    message: str
    text: str
    keys: frozenset[str]


@dataclass(frozen=True, slots=True)
class Shelf:
    """All passages of one kind, where each key stands, and the whole text for what must match to the letter."""

    passages: tuple[Passage, ...]
    places: Mapping[str, tuple[int, ...]]
    text: str
    languages: frozenset[str]

    def find_best(self, keys: Collection[str]) -> tuple[Passage | None, int]:
        """The passage that holds most of the keys, and how many."""
        counts: Counter[int] = Counter()
        for key in keys:
            counts.update(self.places.get(key, ()))
        if not counts:
            return None, 0
        # The shorter of equals: it says nothing else.
        place = max(counts, key=lambda at: (counts[at], -len(self.passages[at].keys), -at))
        return self.passages[place], counts[place]

    def find_all(self, key: str) -> Iterator[Passage]:
        return (self.passages[place] for place in self.places.get(key, ()))


@dataclass(frozen=True, slots=True)
class Sources:
    """Who said what in a slice."""

    person: Shelf
    agent: Shelf
    foreign: Shelf


def trace(messages: Sequence[Message], believed: Iterable[tuple[str, str]] = ()) -> Sources:
    """Sort the words of a slice by whose they are; `believed` are texts, each with its name, that count as a person's.

    Those are not looked through for quotes: what is remembered already is nobody's paste.
    """
    texts: Mapping[Trust, list[tuple[str, str]]] = {trust: [] for trust in Trust}
    texts[Trust.PERSON].extend(believed)
    for place, message in enumerate(messages):
        name = message.id or str(place)
        for trust, text in _sort_message(message):
            texts[trust].append((name, text))
    return Sources(
        _make_shelf(texts[Trust.PERSON], WINDOW),
        _make_shelf(texts[Trust.AGENT], FOREIGN_WINDOW),
        _make_shelf(texts[Trust.FOREIGN], FOREIGN_WINDOW),
    )


def _sort_message(message: Message) -> Iterator[tuple[Trust, str]]:
    if message.role == "assistant":
        yield Trust.AGENT, message.text
    elif message.role != "user" or message.is_meta or message.answers:
        yield Trust.FOREIGN, message.text
    else:
        for span in split_message(strip_reminders(message.text)):
            yield Trust.PERSON if span.plain else Trust.FOREIGN, span.text


def _make_shelf(texts: Iterable[tuple[str, str]], width: int) -> Shelf:
    passages: list[Passage] = []
    languages: set[str] = set()
    whole: list[str] = []
    for name, text in texts:
        sentences = split_sentences(text)
        passages += _make_passages(name, sentences, width)
        languages |= {guess_language(at) for at in sentences if len(at.split()) >= PROSE_WORDS or not at.isascii()}
        whole.append(fold_text(text))
    places: dict[str, list[int]] = defaultdict(list)
    for number, passage in enumerate(passages):
        for key in passage.keys:
            places[key].append(number)
    frozen = {key: tuple(numbers) for key, numbers in places.items()}
    return Shelf(tuple(passages), frozen, "\n".join(whole), frozenset(languages - {""}))


def _make_passages(name: str, sentences: Sequence[str], width: int) -> Iterator[Passage]:
    """Every sentence alone, and every run of neighbours up to the width."""
    keys = [find_keys(sentence) for sentence in sentences]
    for start in range(len(sentences)):
        for end in range(start + 1, min(start + width, len(sentences)) + 1):
            both = frozenset[str]().union(*keys[start:end])
            if both:
                yield Passage(name, "\n".join(sentences[start:end]), both)
