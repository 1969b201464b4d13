"""A sentence or a list from somewhere else, as a candidate: worded like a memory, dated like its source.

Nothing is added that was not said. What recall could not find again is refused with the reason; whether it holds a
secret or is known already is not asked here.
"""

import re
from collections.abc import Sequence
from datetime import datetime

from memdir import frontmatter
from memdir.drafts import check_description
from memdir.errors import FormatError
from memdir.importing.records import Candidate
from memdir.limits import DESCRIPTION_CHARS, TITLE_CHARS
from memdir.records import Dialect, Kind
from memdir.rules import compose
from memdir.store.contract import read_time
from memdir.text import one_line, shorten

_DESCRIPTION = 140
_JUDGED = 1_000  # characters that tell of which sort a text is
_SENTENCE = 4_000  # what is longer is no statement to take apart: it is kept as it is
_YEARS = range(1970, 9999)  # that every clock and every disk knows, in all zones
_MANNER = re.compile(
    r"\b(?:prefer|want|like|ask|expect|appreciate|request|value)(?:s|ed|ing)?\b.*\b(?:answers?|responses?|repl(?:y|ies)|"
    r"code|comments?|styles?|tone|commits?|format(?:ting)?|explanations?|summar(?:y|ies)|tests?|reviews?|"
    r"pull requests?|document\w*|output|chatgpt|assistants?|agents?)\b",
    re.IGNORECASE,
)
_ADDRESS = re.compile(r"(https?://\S*\w/?)\.\n")  # a full stop behind an address would be taken for a part of it
_ORDER = re.compile(r"(?:always|never|do not|don't|please|avoid|use|prefer|make sure)\b", re.IGNORECASE)
_LINK = re.compile(
    r"\bhttps?://|\b(?:tracked|documented|found|lives?) (?:in|at|on)\b|\btracks? .*\bin\b", re.IGNORECASE
)
_PLAN = re.compile(
    r"\b(?:project|release|deadline|launch|milestone|sprint|deploy\w*|decided|freeze|migrat\w+|roadmap|Q[1-4]|20\d\d-\d\d)\b",
    re.IGNORECASE,
)


def guess_kind(said: str, default: Kind) -> Kind:
    """What sort of thing a sentence says, told of a person in the third person or not."""
    said = said[:_JUDGED]
    if _ORDER.match(said) or _MANNER.search(said):
        return Kind.FEEDBACK
    if _LINK.search(said):
        return Kind.REFERENCE
    return Kind.PROJECT if _PLAN.search(said) else default


def make_sentence(said: str, source: str, *, now: datetime, at: datetime | None, kind: Kind | None) -> Candidate:
    """A candidate from one statement in somebody's own words."""
    if len(said) > _SENTENCE:
        return make_memory(kind or guess_kind(said, Kind.PROJECT), said[:200], said, said.strip(), source, at=at)
    try:
        draft = compose(said, now=(at or now).astimezone(), kind=kind, secrets=True)
        body = _ADDRESS.sub(r"\1\n", draft.body) if _ADDRESS.search(said + ".\n") else draft.body
        return make_memory(draft.kind, draft.title, draft.description, body, source, at=at)
    except FormatError as error:
        return refuse(source, said, str(error), at)


def make_list(
    kind: Kind,
    title: str,
    lines: Sequence[str],
    source: str,
    *,
    at: datetime | None,
    description: str = "",
    name: str = "",
) -> Candidate:
    """A candidate from several statements about one thing, each kept as a line of a list."""
    body = "\n".join(f"- {one_line(line)}" for line in lines)
    told = description or f"{title}: {'; '.join(one_line(line).rstrip('.') for line in lines)}"
    return make_memory(kind, title, told, body, source, at=at, name=name)


def make_memory(
    kind: Kind, title: str, description: str, body: str, source: str, *, at: datetime | None, name: str = ""
) -> Candidate:
    """A candidate from its parts; refused if no description could be made by which recall could judge."""
    told = shorten(one_line(description), DESCRIPTION_CHARS if len(description) <= _DESCRIPTION else _DESCRIPTION)
    fields = {"name": shorten(one_line(title), TITLE_CHARS), "description": told.rstrip(" ."), "type": kind.value}
    if at is not None:
        fields["modified"] = at.isoformat(timespec="seconds")
    try:
        check_description(fields["description"], kind)
        text = frontmatter.compose(fields, body, Dialect.FLAT)
    except FormatError as error:
        return refuse(source, title, str(error), at)
    return Candidate(source, text, name, modified=at)


def read_when(text: str) -> datetime | None:
    """A time that a source gives, None if it is none or none that could be kept."""
    when = read_time(text)
    return when if when is not None and when.year in _YEARS else None


def refuse(source: str, said: str, why: str, at: datetime | None = None) -> Candidate:
    return Candidate(source, said=shorten(one_line(said), 120), modified=at, refusal=why)
