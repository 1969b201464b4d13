"""Propose to review memories that may be outdated: false claims, expired plans and old memories.

- Claims that the project contradicts, according to the stored verdicts of `verify`: a name that has moved is replaced,
  and a line about missing ones is added to the memory. Nothing is removed.
- Project memories in which every sentence has a date, and all dates passed at least a fortnight ago. Rules, decisions
  and accounts of past events do not expire.
- Memories that are old for their type, a few at a time: approving one marks it as verified and so makes it fresh.

Age alone changes and deletes nothing. Pinned memories are left alone.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta

from memdir.dream.duplicates import MemoryFacts, is_prose
from memdir.dream.records import RULES, WHO, NamedItem
from memdir.errors import FormatError
from memdir.format import frontmatter
from memdir.format.age import HalfLives, days_old, find_half_life, weigh_age
from memdir.format.document import PartKind
from memdir.format.frontmatter import digest_of, encode
from memdir.limits import DREAM_REVIEW_LIVES, DREAM_REVIEWS
from memdir.records import Edit, Forget, Header, InboxItem, InboxKind, Kind, Origin, Rewrite, StoredMemory
from memdir.store.contract import StoreBase
from memdir.store.facts import find_ages
from memdir.store.inbox import InboxQuote, render_edits, render_evidence
from memdir.text import one_line, shorten
from memdir.verify.records import (
    CheckedClaim,
    ClaimStatus,
    Verdict,
    VerifyState,
    mark_verified,
    render_caveat,
    render_claim,
)

BY_RULES = Origin(WHO, f"by {RULES}")
GRACE = timedelta(days=14)
_REPAIR, _REVIEW, _EXPIRED = "dream:repair:", "dream:review:", "tidy:"
_QUOTED = 3  # lines of a memory shown as evidence
_CHARS = 200
_DAY = re.compile(r"(?<![\w.-])(\d{4})-(\d\d)(?:-(\d\d))?(?![\w-])")
_LASTING = re.compile(
    r"\b(?:since|always|never|must|should|decid\w+|because|so that|rules?|polic(?:y|ies)|prefers?|whenever|each|every|if|"
    r"requires?|needs?|lessons?|remember)\b",
    re.IGNORECASE,
)
# A report of the past: an auxiliary verb, or a past tense without an auxiliary before it.
_PAST = re.compile(
    r"\b(?:was|were|had|did|used to)\b"
    r"|(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bbeen )(?<!\bhas )(?<!\bhave )\b(?!need|exceed)[a-z]{3,}ed\b"
)


def find_drifted(
    headers: Sequence[Header], verdicts: Mapping[str, Verdict], lives: HalfLives, now: datetime
) -> list[Header]:
    """Return the memories that a model should check: outdated ones, then those past their half-life."""
    free = [header for header in headers if not header.pinned]
    stale = [header for header in free if header.name in verdicts and verdicts[header.name].stale]
    sound = {name for name, verdict in verdicts.items() if verdict.state is VerifyState.VERIFIED}
    rest = (header for header in free if header not in stale and header.name not in sound)
    old = [header for header in rest if _freshness(header, header.modified, lives, now) < 0.5]
    return [*stale, *sorted(old, key=lambda header: header.modified)]


def render_passed(memory: StoredMemory, now: datetime) -> str:
    """Return a note that all dates in a project memory have passed, or ""."""
    days = _find_last_days(f"{memory.header.description}\n{memory.body}") if memory.header.kind is Kind.PROJECT else []
    last = max((day for day in days if day is not None), default=None)
    return "" if last is None or None in days or last >= now.date() else f"its last date, {last}, has passed"


def propose_expired(facts: Iterable[MemoryFacts], now: datetime) -> Iterator[NamedItem]:
    """Propose forgetting project memories whose dates have all passed."""
    for fact in facts:
        memory, name = fact.memory, fact.name
        if memory.header.kind is Kind.PROJECT and _is_expired(fact, now):
            why = f"every date in {name} has passed, by more than {GRACE.days} days"
            quotes, key = [InboxQuote(fact.main, f"{name}.md")], _EXPIRED + memory.digest[:32]
            yield _make_item(memory, Forget(name, memory.digest), f"Over: {memory.header.title}", why, key, quotes, now)


def propose_repairs(
    memories: Iterable[StoredMemory], verdicts: Mapping[str, Verdict], now: datetime
) -> Iterator[NamedItem]:
    """Propose a repair for each memory with an outdated claim."""
    for memory in memories:
        header, verdict = memory.header, verdicts.get(memory.header.name)
        if verdict is None or not verdict.stale or header.pinned or header.problem:
            continue
        edit = Rewrite(header.name, repair_text(memory.text, verdict.stale, now), memory.digest)
        claims = "\n".join(sorted(f"{claim.claim.text} {claim.status} {claim.to}" for claim in verdict.stale))
        key = _REPAIR + digest_of(encode(f"{header.name}\n{claims}"))[:24]
        lines = memory.text.split("\n")
        numbers = sorted({check.claim.line for check in verdict.stale if 0 < check.claim.line <= len(lines)})[:_QUOTED]
        quotes = [InboxQuote(shorten(one_line(lines[line - 1]), _CHARS), f"{header.file}:{line}") for line in numbers]
        yield _make_item(memory, edit, f"Out of date: {header.title}", render_caveat(verdict), key, quotes, now)


def propose_reviews(
    store: StoreBase, memories: Iterable[StoredMemory], verdicts: Mapping[str, Verdict], lives: HalfLives, now: datetime
) -> Iterator[NamedItem]:
    """Propose to review the oldest memories relative to their half-life, up to the inbox limit."""
    room = DREAM_REVIEWS - sum(item.key.startswith(_REVIEW) for item in store.inbox())
    known = {name for name, verdict in verdicts.items() if verdict.state is not VerifyState.UNCHECKED}
    limit = 0.5**DREAM_REVIEW_LIVES
    unknown = (memory for memory in memories if memory.header.name not in known)
    aged = [(_freshness(memory.header, memory.header.modified, lives, now), memory) for memory in unknown]
    for fresh, memory in sorted(aged, key=lambda pair: (pair[0], pair[1].header.name)):
        if room <= 0 or fresh > limit:
            return
        since = find_ages(store, (memory,), now=now)[memory.header.name]
        item = _make_review(memory, since, now) if _freshness(memory.header, since, lives, now) <= limit else None
        if item is not None and store.inbox_find(item[1].key) is None:
            room -= 1
            yield item


def repair_text(text: str, stale: Sequence[CheckedClaim], now: datetime) -> str:
    """Replace renamed things in the body of a memory, and append a line about other outdated claims."""
    start = len(text) - len(frontmatter.split_frontmatter(text).body)
    in_body = [check for check in stale if check.claim.start >= start]
    moved = [check for check in in_body if check.status is ClaimStatus.MOVED and check.to]
    moved = [check for check in moved if text[check.claim.start : check.claim.end] == check.claim.text]
    for check in sorted(moved, key=lambda check: check.claim.start, reverse=True):
        text = text[: check.claim.start] + check.to + text[check.claim.end :]
    notes = list(dict.fromkeys(render_claim(check) for check in stale if check not in moved))
    if not notes:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    line = f"**Checked {now.astimezone():%Y-%m-%d}:** {'; '.join(notes)}."
    return text.rstrip() + newline * 2 + line + newline


def _is_expired(fact: MemoryFacts, now: datetime) -> bool:
    if len(fact.document.parts) > 1 or not is_prose(fact.main):
        return False
    limit = (now - GRACE).date()
    sentences = [part for sentence in fact.document.list_sentences(PartKind.FACT) for part in sentence.split("; ")]
    for sentence in sentences:
        days = _find_last_days(sentence)
        if not days or any(day is None or day >= limit for day in days):
            return False
        if _LASTING.search(sentence) or _PAST.search(sentence):
            return False
    return bool(sentences)


def _find_last_days(text: str) -> list[date | None]:
    """Return each date in a text, with None for an invalid one. A month without a day becomes its 28th."""
    days: list[date | None] = []
    for match in _DAY.finditer(text):
        try:
            days.append(date(int(match[1]), int(match[2]), int(match[3] or 28)))
        except ValueError:
            days.append(None)
    return days


def _freshness(header: Header, since: datetime, lives: HalfLives, now: datetime) -> float:
    """Return the freshness of a memory from 1 (new) to 0. Pinned and broken memories do not age."""
    is_ageless = header.pinned or header.problem
    return 1.0 if is_ageless else weigh_age(since, now, find_half_life(header.kind, lives))


def _make_review(memory: StoredMemory, since: datetime, now: datetime) -> NamedItem | None:
    header = memory.header
    try:
        edit = mark_verified(memory, now)
    except FormatError:
        return None
    kind = header.kind or "untyped"
    why = f"it is {days_old(since, now)} days old, long for a {kind} memory, and code cannot tell; approve if it holds"
    key = _REVIEW + digest_of(encode(f"{header.name}\n{memory.digest}"))[:24]
    quotes = [InboxQuote(shorten(one_line(memory.body), _CHARS), header.file)]
    return _make_item(memory, edit, f"Still so? {header.title}", why, key, quotes, now)


def _make_item(
    memory: StoredMemory, edit: Edit, title: str, why: str, key: str, quotes: Sequence[InboxQuote], now: datetime
) -> NamedItem:
    name = memory.header.name
    payload = {"edits": render_edits([edit]), "evidence": render_evidence(quotes)}
    item = InboxItem(InboxKind.PROPOSAL, title, why, now, key=key, name=name, origin=BY_RULES, payload=payload)
    return (name,), item
