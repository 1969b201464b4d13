"""May what a model wrote be kept as it is? By where its words came from, not by what it says of itself.

A model can be talked into anything by the text it reads, so it is not asked. What rests on the person's own plain words
is kept. What carries text from tools, files, pages or quotes waits for a person, whatever its type. What rests on the
agent's own words may be a fact about the project, but no rule and no portrait of the person. A deletion needs a
person's word.
"""

from collections.abc import Mapping, Sequence

from memdir import frontmatter
from memdir.frozen import dataclass
from memdir.records import Kind
from memdir.rules import Wish, is_said
from memdir.staging import Staged
from memdir.taint import Sources, Trust, judge, split_sentences

FORGET = "forget"
_FACTS = (Kind.PROJECT, Kind.REFERENCE)


@dataclass(frozen=True, slots=True)
class Doubt:
    """A write that has to wait, why, and the words it rests on as far as that is known."""

    staged: Staged
    why: str
    quote: str = ""


def judge_staged(
    staged: Sequence[Staged], sources: Sources, evidence: Mapping[str, str], wishes: Sequence[Wish]
) -> tuple[Doubt, ...]:
    """The writes that may not be kept without a person."""
    doubts = []
    for at in staged:
        quote = evidence.get(at.name, "")
        if why := _find_doubt(at, sources, quote, wishes):
            doubts.append(Doubt(at, why, quote))
    return tuple(doubts)


def _find_doubt(staged: Staged, sources: Sources, quote: str, wishes: Sequence[Wish]) -> str:
    if staged.text is None:
        asked = any(wish.action == FORGET and is_said(wish, staged.before or "") for wish in wishes)
        return "" if asked else "nobody asked to forget it"
    added = _find_added(staged.before or "", staged.text)
    if not added:
        return "" if staged.before is None else "it only takes something away, and nobody asked for that"
    verdict = judge(added, quote, sources)
    if verdict.trust is Trust.PERSON:
        return ""
    kind = frontmatter.parse_fields(staged.text).kind
    return "" if verdict.trust is Trust.AGENT and kind in _FACTS else verdict.why


def _find_added(before: str, after: str) -> str:
    """What a write says that the memory did not say before: title, description and body, sentence by sentence."""
    old = set(split_sentences(_flatten(before)))
    return "\n".join(sentence for sentence in split_sentences(_flatten(after)) if sentence not in old)


def _flatten(text: str) -> str:
    fields = frontmatter.parse_fields(text)
    return "\n".join((fields.title, fields.description, frontmatter.split(text).body))
