"""The labelled messages that the local extractor is fitted to and measured by: `data/extraction.jsonl`.

A third of them, chosen by the hash of the text, is only measured: whoever writes rules reads `read_tuning` and never
the rest. A row's `want` is what a demanding user would expect to be saved; it is empty where nothing is.

How the labels are meant:
- a cue beats its content: "remember that I am a nurse" is a request, "I am a nurse" is identity;
- `kind`: how to work is feedback, who the user is user, ongoing work with its dates and reasons project, where to look
  outside reference. Of a forget it is only a guess at what is forgotten, and does not count;
- `must`: each string stands in what is saved (title, description and body), or one of several set apart by `|`;
  `not`: none of these does;
- a request to ignore memory wants nothing; its note begins with "ignore memory".

It judges one text against one label, and knows nothing of the extractor.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from memdir.frozen import dataclass
from memdir.records import Kind

CORPUS = Path(__file__).parents[1] / "data" / "extraction.jsonl"
FRESH = CORPUS.with_name("extraction_fresh.jsonl")
THIRD = CORPUS.with_name("extraction_third.jsonl")
_PARTS = 3


@dataclass(frozen=True, slots=True)
class Want:
    """One thing worth saving, or one to be forgotten."""

    kind: Kind
    category: str
    action: str
    must: tuple[str, ...]
    unwanted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A message as a person typed it, and what is to be kept of it."""

    id: str
    lang: str
    when: datetime
    before: str | None
    text: str
    want: tuple[Want, ...]
    note: str


def read_corpus() -> tuple[Row, ...]:
    """All of it: for checks of the labels, not for eyes."""
    return tuple(_parse_row(json.loads(line)) for line in CORPUS.read_text(encoding="utf-8").splitlines())


def read_fresh() -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Phrasings written apart from the corpus: the odd rows are fitted to, the even ones check what came of it."""
    return _read_halves(FRESH)


def read_third() -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    """Messages by somebody who had not seen the rules; halved likewise, and the even texts are for no eyes."""
    return _read_halves(THIRD)


def read_tuning() -> tuple[Row, ...]:
    """The two thirds that rules may be fitted to."""
    return tuple(row for row in read_corpus() if not is_measured(row.text))


def read_measured() -> tuple[Row, ...]:
    """The third that is measured and never looked at."""
    return tuple(row for row in read_corpus() if is_measured(row.text))


def is_measured(text: str) -> bool:
    return int(hashlib.sha256(text.encode("utf-8")).hexdigest(), 16) % _PARTS == 0


def is_met(want: Want, saved: str) -> bool:
    """Whether a saved text holds all that the label asks for and nothing that it rules out; case does not count."""
    folded = saved.casefold()
    has_all = all(any(way.casefold() in folded for way in one.split("|")) for one in want.must)
    return has_all and not any(one.casefold() in folded for one in want.unwanted)


def _read_halves(path: Path) -> tuple[tuple[Row, ...], tuple[Row, ...]]:
    rows = tuple(_parse_row(json.loads(line)) for line in path.read_text(encoding="utf-8").splitlines())
    return rows[::2], rows[1::2]


def _parse_row(fields: Mapping[str, Any]) -> Row:
    return Row(
        id=fields["id"],
        lang=fields["lang"],
        when=datetime.fromisoformat(fields["date"]),
        before=fields.get("before"),
        text=fields["text"],
        want=tuple(_parse_want(one) for one in fields["want"]),
        note=fields["note"],
    )


def _parse_want(fields: Mapping[str, Any]) -> Want:
    return Want(
        kind=Kind(fields["kind"]),
        category=fields["category"],
        action=fields["action"],
        must=tuple(fields["must"]),
        unwanted=tuple(fields["not"]),
    )
