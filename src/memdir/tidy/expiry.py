"""Project memories whose time is over: every date in them has passed, and nothing in them holds longer than that.

They are proposed and never dropped: that a freeze is over does not mean that nobody asks about it any more. A memory
counts as over only if each of its sentences speaks of a time that ended a fortnight ago or earlier, by a word of
planning and in the present tense; a rule, a decision or an account of what happened is not over.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta

from memdir.records import Forget, Kind
from memdir.store.payloads import Quote
from memdir.tidy.contradictions import cut_sentences
from memdir.tidy.facts import Fact
from memdir.tidy.quantities import find_day
from memdir.tidy.records import Proposal, ProposalKind
from memdir.tidy.tokens import Sort, is_past_tense

GRACE = timedelta(days=14)

# What plans and deadlines are told by, as lemmas in the form in which words are compared.
_PLANNED = frozenset(
    "freeze deadline due until by demo launch release start end meeting meet visit review rollout go sprint pilot "
    "audit workshop migrate migration move cut expire renew deliver hand present ship open close away vacation leave "
    "trip maintenance outage downtime window event conference interview test submit stop switch switch-off show".split()
)
_LASTING = frozenset(
    "since always never must should decide because so-that rule policy from-now prefer whenever each if require need "
    "lesson remember".split()
)


def find_expired(facts: Iterable[Fact], *, now: datetime, keep: frozenset[str] = frozenset()) -> tuple[Proposal, ...]:
    return tuple(
        _propose(fact)
        for fact in facts
        if fact.memory.header.kind is Kind.PROJECT and fact.name not in keep and is_expired(fact, now)
    )


def is_expired(fact: Fact, now: datetime) -> bool:
    sentences = [] if fact.parts else list(cut_sentences(fact.tokens))
    limit = (now - GRACE).date()
    for sentence in sentences:
        keys = {token.key for token in sentence} | {token.word for token in sentence}
        days = [find_day(token.key) for token in sentence if token.sort is Sort.DATE]
        if not days or any(day is None or day >= limit for day in days):
            return False
        if not _LASTING.isdisjoint(keys) or _PLANNED.isdisjoint(keys) or is_past_tense(sentence):
            return False
    return bool(sentences)


def _propose(fact: Fact) -> Proposal:
    header = fact.memory.header
    why = f"every date in {header.name} has passed, by more than {GRACE.days} days"
    edit = Forget(header.name, fact.memory.digest)
    evidence = (Quote(fact.main, f"{header.name}.md"),)
    title = f"Over: {header.title}"
    return Proposal(ProposalKind.EXPIRED, (header.name,), title, why, (edit,), evidence, fact.memory.digest[:32])
