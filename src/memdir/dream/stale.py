"""What may no longer hold: out-of-date claims, passed plans and old memories, each proposed for review.

- Claims that the project does not bear out, by the verdicts that `verify` has kept: a name that has moved is replaced,
  and for what is gone the memory gets a line that says so. No word of it is removed.
- Project memories in which every sentence has a date, and all of them passed a fortnight ago or earlier. A rule, a
  decision or an account of what happened does not expire.
- Memories that are old for their type, a few at a time: to approve one is to say that it still holds, which is
  recorded as a verification and makes it fresh again.

Age alone changes nothing and deletes nothing. Pinned memories are left alone.
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
# An account of the past: an auxiliary, or a verb in the past without one before it.
_PAST = re.compile(
    r"\b(?:was|were|had|did|used to)\b"
    r"|(?<!\bis )(?<!\bare )(?<!\bbe )(?<!\bbeen )(?<!\bhas )(?<!\bhave )\b(?!need|exceed)[a-z]{3,}ed\b",
)


def find_drifted(
    headers: Sequence[Header], verdicts: Mapping[str, Verdict], lives: HalfLives, now: datetime
) -> list[Header]:
    """What a model should look at: what is known to be out of date, then what is past its half-life, oldest first."""
    free = [header for header in headers if not header.pinned]
    stale = [at for at in free if at.name in verdicts and verdicts[at.name].stale]
    sound = {name for name, verdict in verdicts.items() if verdict.state is VerifyState.VERIFIED}
    old = [at for at in free if at not in stale and at.name not in sound and _weigh(at, at.modified, lives, now) < 0.5]
    return [*stale, *sorted(old, key=lambda at: at.modified)]


def render_passed(memory: StoredMemory, now: datetime) -> str:
    """That the last date of a project memory has passed, if it has."""
    days = _find_last_days(f"{memory.header.description}\n{memory.body}") if memory.header.kind is Kind.PROJECT else []
    last = max((day for day in days if day is not None), default=None)
    return "" if last is None or None in days or last >= now.date() else f"its last date, {last}, has passed"


def propose_expired(facts: Iterable[MemoryFacts], now: datetime) -> Iterator[NamedItem]:
    """Project memories whose dates have all passed, to be forgotten."""
    for fact in facts:
        memory, name = fact.memory, fact.name
        if memory.header.kind is Kind.PROJECT and _is_expired(fact, now):
            why = f"every date in {name} has passed, by more than {GRACE.days} days"
            quotes, key = [InboxQuote(fact.main, f"{name}.md")], _EXPIRED + memory.digest[:32]
            yield _make_item(memory, Forget(name, memory.digest), f"Over: {memory.header.title}", why, key, quotes, now)


def propose_repairs(
    memories: Iterable[StoredMemory], verdicts: Mapping[str, Verdict], now: datetime
) -> Iterator[NamedItem]:
    """For each memory with something out of date in it, the repair and its evidence."""
    for memory in memories:
        header, verdict = memory.header, verdicts.get(memory.header.name)
        if verdict is None or not verdict.stale or header.pinned or header.problem:
            continue
        edit = Rewrite(header.name, repair_text(memory.text, verdict.stale, now), memory.digest)
        found = "\n".join(sorted(f"{at.claim.text} {at.status} {at.to}" for at in verdict.stale))
        key = _REPAIR + digest_of(encode(f"{header.name}\n{found}"))[:24]
        lines = memory.text.split("\n")
        numbers = sorted({at.claim.line for at in verdict.stale if 0 < at.claim.line <= len(lines)})[:_QUOTED]
        quotes = [InboxQuote(shorten(one_line(lines[at - 1]), _CHARS), f"{header.file}:{at}") for at in numbers]
        yield _make_item(memory, edit, f"Out of date: {header.title}", render_caveat(verdict), key, quotes, now)


def propose_reviews(
    store: StoreBase, memories: Iterable[StoredMemory], verdicts: Mapping[str, Verdict], lives: HalfLives, now: datetime
) -> Iterator[NamedItem]:
    """The oldest by their types' half-lives, as many as fit beside those that are in the inbox already."""
    room = DREAM_REVIEWS - sum(item.key.startswith(_REVIEW) for item in store.inbox())
    known = {name for name, verdict in verdicts.items() if verdict.state is not VerifyState.UNCHECKED}
    limit = 0.5**DREAM_REVIEW_LIVES
    aged = [(_weigh(at.header, at.header.modified, lives, now), at) for at in memories if at.header.name not in known]
    for fresh, memory in sorted(aged, key=lambda pair: (pair[0], pair[1].header.name)):
        if room <= 0 or fresh > limit:
            return
        since = find_ages(store, (memory,), now=now)[memory.header.name]
        item = _make_review(memory, since, now) if _weigh(memory.header, since, lives, now) <= limit else None
        if item is not None and store.inbox_find(item[1].key) is None:
            room -= 1
            yield item


def repair_text(text: str, stale: Sequence[CheckedClaim], now: datetime) -> str:
    """The same text with moved names replaced, and below it a line on what else is out of date.

    A name is replaced only in the body, where it stands as the claim says.
    """
    start = len(text) - len(frontmatter.split_frontmatter(text).body)
    placed = [at for at in stale if at.claim.start >= start and text[at.claim.start : at.claim.end] == at.claim.text]
    moved = [at for at in placed if at.status is ClaimStatus.MOVED and at.to]
    for at in sorted(moved, key=lambda at: at.claim.start, reverse=True):
        text = text[: at.claim.start] + at.to + text[at.claim.end :]
    left = list(dict.fromkeys(render_claim(at) for at in stale if at not in moved))
    if not left:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    line = f"**Checked {now.astimezone():%Y-%m-%d}:** {'; '.join(left)}."
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
    """Return for each date in a text, `2027-05-03` or `2027-05`, the last day it can mean; None for an invalid one."""
    days: list[date | None] = []
    for match in _DAY.finditer(text):
        try:
            days.append(date(int(match[1]), int(match[2]), int(match[3] or 28)))
        except ValueError:
            days.append(None)
    return days


def _weigh(header: Header, since: datetime, lives: HalfLives, now: datetime) -> float:
    """How fresh a memory is; pinned and broken ones do not age."""
    is_ageless = header.pinned or header.problem
    return 1.0 if is_ageless else weigh_age(since, now, find_half_life(header.kind, lives))


def _make_review(memory: StoredMemory, since: datetime, now: datetime) -> NamedItem | None:
    header = memory.header
    try:
        text = frontmatter.set_fields(memory.text, {"verified": now.astimezone().isoformat(timespec="seconds")})
    except FormatError:
        return None
    kind = header.kind or "untyped"
    why = f"it is {days_old(since, now)} days old, long for a {kind} memory, and code cannot tell; approve if it holds"
    key = _REVIEW + digest_of(encode(f"{header.name}\n{memory.digest}"))[:24]
    quotes = [InboxQuote(shorten(one_line(memory.body), _CHARS), header.file)]
    edit = Rewrite(header.name, text, memory.digest)
    return _make_item(memory, edit, f"Still so? {header.title}", why, key, quotes, now)


def _make_item(
    memory: StoredMemory, edit: Edit, title: str, why: str, key: str, quotes: Sequence[InboxQuote], now: datetime
) -> NamedItem:
    name = memory.header.name
    payload = {"edits": render_edits([edit]), "evidence": render_evidence(quotes)}
    item = InboxItem(InboxKind.PROPOSAL, title, why, now, key=key, name=name, origin=BY_RULES, payload=payload)
    return (name,), item
