"""Ask a model, in one request, about the sentences that a dream removed or added.

For each removed sentence, the model chooses one of three answers: a source still says it, a newer source supersedes it,
or neither. The answer names the source, so that a report can name it too. Each source is shown only once, with its day.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import TypeGuard

from memdir.errors import BudgetError, ModelError, ReplyError
from memdir.extraction.provenance import PURPOSE, render_today
from memdir.frozen import dataclass
from memdir.limits import DREAM_OPINION_CHARS, OPINION_TOKENS
from memdir.models.prompts import render_prompt
from memdir.models.staged import make_object
from memdir.records import Message, Model, Request, StopReason
from memdir.text import find_json, one_line

_SOURCE_CHARS = DREAM_OPINION_CHARS // 4  # max length of one memory; the user's own text is shown in full


class JudgeAnswer(StrEnum):
    ELSEWHERE = "elsewhere"
    OVERTAKEN = "overtaken"
    NEITHER = "neither"


@dataclass(frozen=True, slots=True)
class JudgeSource:
    """A text on which the judge may base an answer. `name` is its memory, or "" for text that the user typed."""

    name: str
    label: str
    text: str


@dataclass(frozen=True, slots=True)
class JudgeCase:
    """The removed or added sentences of one memory, and the sources for judging them."""

    name: str
    label: str
    sentences: tuple[str, ...]
    sources: tuple[JudgeSource, ...]
    is_removal: bool = False


@dataclass(frozen=True, slots=True)
class Judged:
    """The judge's answers by case number and sentence. `follows` are the added sentences that a source supports."""

    removed: Mapping[tuple[int, str], tuple[JudgeAnswer, JudgeSource]]
    follows: frozenset[tuple[int, str]] = frozenset()


_NOTHING = Judged({})
_ROW = {
    "sentence": {"type": "integer"},
    "answer": {"type": "string", "enum": [answer.value for answer in JudgeAnswer]},
    "source": {"type": "integer"},
}
_SCHEMA = make_object(
    {
        "removed": {"type": "array", "items": make_object(_ROW)},
        "follow": {"type": "array", "items": {"type": "integer"}},
    }
)


def show_day(at: datetime) -> str:
    return f"{at:%A, %Y-%m-%d}"


def ask_judge(reader: Model, cases: Sequence[JudgeCase], *, now: datetime) -> Judged:
    """Ask about all cases that have sources, in one request. If the request fails, no sentence counts as supported."""
    asked = [number for number, case in enumerate(cases) if case.sources and case.sentences]
    if not asked:
        return _NOTHING
    sources = list(dict.fromkeys(source for number in asked for source in cases[number].sources))
    numbers = {source: number for number, source in enumerate(sources, 1)}
    sentences = [(number, sentence) for number in asked for sentence in cases[number].sentences]
    shown = "\n\n".join(f"[{numbers[source]}] {source.label}:\n{_shorten_source(source)}" for source in sources)
    content = render_prompt(
        "dream/judge", today=render_today(now), sources=shown, cases="\n\n".join(_render_cases(cases, asked, numbers))
    )
    messages = (Message("user", content),)
    try:
        reply = reader(Request(render_prompt("dream/judge_system"), messages, OPINION_TOKENS, _SCHEMA, purpose=PURPOSE))
        if reply.stop is StopReason.REFUSED:
            return _NOTHING
        return _parse_answers(reply.text, cases, sentences, sources)
    except (ModelError, BudgetError):
        return _NOTHING


def _shorten_source(source: JudgeSource) -> str:
    return source.text[:_SOURCE_CHARS] if source.name else source.text


def _render_cases(
    cases: Sequence[JudgeCase], asked: Iterable[int], numbers: Mapping[JudgeSource, int]
) -> Iterator[str]:
    count = 0
    for case in (cases[number] for number in asked):
        listed = ", ".join(str(numbers[source]) for source in case.sources)
        lines = [f"{case.label} (sources {listed}):"]
        for sentence in case.sentences:
            count += 1
            lines.append(f"{count}. {one_line(sentence)}")
        yield "\n".join(lines)


def _parse_answers(
    text: str, cases: Sequence[JudgeCase], sentences: Sequence[tuple[int, str]], sources: Sequence[JudgeSource]
) -> Judged:
    """Return the valid answers in a reply. Answers that name a source of another case are ignored."""
    table = next((value for value in find_json(text) if isinstance(value, dict)), None)
    if table is None:
        raise ReplyError("the model did not return a JSON object when judging the dream")
    removed, rows = dict[tuple[int, str], tuple[JudgeAnswer, JudgeSource]](), table.get("removed")
    for row in rows if isinstance(rows, list) else []:
        if not isinstance(row, dict):
            continue
        number, source, answer = row.get("sentence"), row.get("source"), str(row.get("answer"))
        if not (_is_position(number, sentences) and _is_position(source, sources) and answer in list(JudgeAnswer)):
            continue
        key, named = sentences[number - 1], sources[source - 1]
        if cases[key[0]].is_removal and named in cases[key[0]].sources:
            removed[key] = JudgeAnswer(answer), named
    listed = table.get("follow")
    supported = [number for number in listed if _is_position(number, sentences)] if isinstance(listed, list) else []
    return Judged(removed, frozenset(sentences[number - 1] for number in supported))


def _is_position(number: object, rows: Sequence[object]) -> TypeGuard[int]:
    return type(number) is int and 0 < number <= len(rows)
