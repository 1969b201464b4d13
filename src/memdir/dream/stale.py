"""What may no longer hold: memories whose claims the project does not bear out, and memories that have grown old.

The first are proposed for repair, with what was found: a name that has moved is replaced, and of what is gone the
memory gets a line that says so; nothing it says is taken out. The second are proposed for review, a few at a time: to
approve is to say that it still holds, which is written down as a verification, and makes it young again. Types age by
their half-lives. Age alone changes nothing and deletes nothing: all of this waits for a person.

Verdicts are those that `verify` has kept. Pinned memories are left alone.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta

from memdir.dream.compare import find_last_days, is_prose
from memdir.dream.duplicates import MemoryFacts
from memdir.dream.records import PatchKind, Proposal, ProposalKind, TidyPatch
from memdir.errors import FormatError
from memdir.extraction.provenance import split_judged
from memdir.format import frontmatter
from memdir.format.age import HalfLives, days_old, find_half_life, weigh_age
from memdir.language.dates import make_absolute
from memdir.limits import DREAM_REVIEW_LIVES, DREAM_REVIEWS
from memdir.recall.freshness import find_since
from memdir.records import Forget, Header, InboxItem, InboxKind, Kind, Memory, Origin, Rewrite
from memdir.store.contract import StoreBase, read_time
from memdir.store.files import FileStore
from memdir.store.inbox import InboxQuote, render_edits, render_evidence
from memdir.store.plan import digest_of, encode
from memdir.text import one_line, shorten
from memdir.verify.records import (
    CheckedClaim,
    ClaimStatus,
    Verdict,
    VerifyState,
    find_verdicts,
    render_caveat,
    render_claim,
)

# --- drifting ---

REPAIR, REVIEW = "dream:repair:", "dream:review:"
_QUOTED = 3  # lines of a memory shown as evidence
_CHARS = 200

Item = tuple[tuple[str, ...], InboxItem]


def read_memory_verdicts(store: StoreBase, memories: Sequence[Memory]) -> dict[str, Verdict]:
    """What is known of these texts."""
    digests = {memory.header.name: memory.digest for memory in memories}
    return find_verdicts(store, digests) if isinstance(store, FileStore) else {}


def find_drifted(
    headers: Sequence[Header], verdicts: Mapping[str, Verdict], lives: HalfLives, now: datetime
) -> list[Header]:
    """What a model should look at: what is known to be out of date, then what is past its half-life, oldest first."""
    free = [header for header in headers if not header.pinned]
    stale = [at for at in free if at.name in verdicts and verdicts[at.name].stale]
    sound = {name for name, verdict in verdicts.items() if verdict.state is VerifyState.VERIFIED}
    old = [at for at in free if at not in stale and at.name not in sound and _weigh(at, at.modified, lives, now) < 0.5]
    return [*stale, *sorted(old, key=lambda at: at.modified)]


def propose_repairs(
    memories: Sequence[Memory], verdicts: Mapping[str, Verdict], now: datetime, who: Origin
) -> Iterator[Item]:
    """For each memory with something out of date in it, the repair and what speaks for it."""
    for memory in memories:
        verdict = verdicts.get(memory.header.name)
        if verdict is None or not verdict.stale or memory.header.pinned or memory.header.problem:
            continue
        text = repair_text(memory.text, verdict.stale, now)
        found = "\n".join(sorted(f"{at.claim.text} {at.status} {at.to}" for at in verdict.stale))
        key = REPAIR + digest_of(encode(f"{memory.header.name}\n{found}"))[:24]
        title = f"Out of date: {memory.header.title}"
        yield _make_item(memory, text, title, render_caveat(verdict), key, _quote(memory, verdict.stale), now, who)


def propose_reviews(
    store: StoreBase,
    memories: Sequence[Memory],
    verdicts: Mapping[str, Verdict],
    lives: HalfLives,
    now: datetime,
    who: Origin,
) -> Iterator[Item]:
    """The oldest by their types' half-lives, as many as there is room for among those that wait."""
    room = DREAM_REVIEWS - sum(item.key.startswith(REVIEW) for item in store.inbox())
    known = {name for name, verdict in verdicts.items() if verdict.state is not VerifyState.UNCHECKED}
    limit = 0.5**DREAM_REVIEW_LIVES
    aged = [(_weigh(at.header, at.header.modified, lives, now), at) for at in memories if at.header.name not in known]
    for fresh, memory in sorted(aged, key=lambda pair: (pair[0], pair[1].header.name)):
        if room <= 0 or fresh > limit:
            return
        since = find_since(store, memory, now=now)
        item = _review(memory, since, now, who) if _weigh(memory.header, since, lives, now) <= limit else None
        if item is not None and store.inbox_find(item[1].key) is None:
            room -= 1
            yield item


def repair_text(text: str, stale: Sequence[CheckedClaim], now: datetime) -> str:
    """The same text with moved names in their new place, and below it a line on what else is out of date."""
    start = len(text) - len(frontmatter.split_frontmatter(text).body)
    moved = [at for at in stale if _can_replace(text, at, start)]
    for at in sorted(moved, key=lambda at: at.claim.start, reverse=True):
        text = text[: at.claim.start] + at.to + text[at.claim.end :]
    left = list(dict.fromkeys(render_claim(at) for at in stale if at not in moved))
    if not left:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    line = f"**Checked {now.astimezone():%Y-%m-%d}:** {'; '.join(left)}."
    return text.rstrip() + newline * 2 + line + newline


def _can_replace(text: str, at: CheckedClaim, start: int) -> bool:
    """A moved name that stands in the body as the claim says; heads are not rewritten blindly."""
    claim = at.claim
    return (
        at.status is ClaimStatus.MOVED
        and bool(at.to)
        and claim.start >= start
        and text[claim.start : claim.end] == claim.text
    )


def _weigh(header: Header, since: datetime, lives: HalfLives, now: datetime) -> float:
    """How fresh; pinned and broken ones do not age."""
    if header.pinned or header.problem:
        return 1.0
    return weigh_age(since, now, find_half_life(header.kind, lives))


def _review(memory: Memory, since: datetime, now: datetime, who: Origin) -> Item | None:
    try:
        text = frontmatter.set_fields(memory.text, {"verified": now.astimezone().isoformat(timespec="seconds")})
    except FormatError:
        return None
    kind = memory.header.kind or "untyped"
    why = f"it is {days_old(since, now)} days old, long for a {kind} memory, and code cannot tell; approve if it holds"
    key = REVIEW + digest_of(encode(f"{memory.header.name}\n{memory.digest}"))[:24]
    quotes = [InboxQuote(shorten(one_line(memory.body), _CHARS), memory.header.file)]
    return _make_item(memory, text, f"Still so? {memory.header.title}", why, key, quotes, now, who)


def _quote(memory: Memory, stale: Sequence[CheckedClaim]) -> list[InboxQuote]:
    lines = memory.text.split("\n")
    numbers = sorted({at.claim.line for at in stale if 0 < at.claim.line <= len(lines)})[:_QUOTED]
    return [InboxQuote(shorten(one_line(lines[at - 1]), _CHARS), f"{memory.header.file}:{at}") for at in numbers]


def _make_item(
    memory: Memory, text: str, title: str, why: str, key: str, quotes: Sequence[InboxQuote], now: datetime, who: Origin
) -> Item:
    edit = Rewrite(memory.header.name, text, memory.digest)
    payload = {"edits": render_edits([edit]), "evidence": render_evidence(quotes)}
    name = memory.header.name
    return (name,), InboxItem(InboxKind.PROPOSAL, title, why, now, key=key, name=name, origin=who, payload=payload)


# --- expiry ---
# Project memories whose time is over: every date in them has passed, and nothing in them holds longer than that.
#
# They are proposed and never dropped: that a freeze is over does not mean that nobody asks about it any more. A memory
# counts as over only if each of its sentences speaks of a time that ended a fortnight ago or earlier, by a word of
# planning and in the present tense; a rule, a decision or an account of what happened is not over.

GRACE = timedelta(days=14)

_PLANNED = re.compile(
    r"\b(?:fr(?:ee|o)z|deadline|due|until|by|demo|launch|releas|start|begin|end|finish|meet|visit|review|rollout|go|goes|"
    r"sprint|pilot|audit|workshop|migrat|mov|cut|expir|renew|deliver|hand|present|ship|open|clos|away|vacation|leav|trip|"
    r"maintenance|outage|downtime|window|event|conference|interview|test|submit|stop|switch|turn|show)"
    r"(?:e|s|es|ed|ing|ings)?\b",
    re.IGNORECASE,
)
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


def find_expired(
    facts: Iterable[MemoryFacts], *, now: datetime, keep: frozenset[str] = frozenset()
) -> tuple[Proposal, ...]:
    return tuple(
        _propose(fact)
        for fact in facts
        if fact.memory.header.kind is Kind.PROJECT and fact.name not in keep and is_expired(fact, now)
    )


def is_expired(fact: MemoryFacts, now: datetime) -> bool:
    if fact.parts or not is_prose(fact.main):
        return False
    limit = (now - GRACE).date()
    sentences = [part for sentence in split_judged(fact.main) for part in sentence.split("; ")]
    for sentence in sentences:
        days = find_last_days(sentence)
        if not days or any(day is None or day >= limit for day in days):
            return False
        if _LASTING.search(sentence) or not _PLANNED.search(sentence) or _PAST.search(sentence):
            return False
    return bool(sentences)


def _propose(fact: MemoryFacts) -> Proposal:
    header = fact.memory.header
    why = f"every date in {header.name} has passed, by more than {GRACE.days} days"
    edit = Forget(header.name, fact.memory.digest)
    evidence = (InboxQuote(fact.main, f"{header.name}.md"),)
    title = f"Over: {header.title}"
    return Proposal(ProposalKind.EXPIRED, (header.name,), title, why, (edit,), evidence, fact.memory.digest[:32])


# --- dates ---
# Relative dates in project memories made absolute, from the day on which the memory was written.
#
# Which day that is the memory's own head says, else the time of its file. `memdir.language.dates` does the rewriting.


def plan_dates(memory: Memory, now: datetime) -> TidyPatch | None:
    if memory.header.kind is not Kind.PROJECT or memory.header.problem:
        return None
    when = _find_time(memory, now)
    body, done = make_absolute(memory.body, when)
    description, more = make_absolute(memory.header.description, when)
    if not done and not more:
        return None
    try:
        text = frontmatter.replace_body(memory.text, body)
        text = frontmatter.set_fields(text, {"description": description}) if more else text
    except FormatError:
        return None
    told = dict.fromkeys(f"{one.was} → {one.now_text}" for one in (*done, *more))
    reason = f"dates of {memory.header.name} said as of {when.date().isoformat()}, when it was written"
    edit = Rewrite(memory.header.name, text, memory.digest)
    return TidyPatch(PatchKind.DATE, (memory.header.name,), (edit,), reason, "; ".join(told))


def _find_time(memory: Memory, now: datetime) -> datetime:
    """When it was written, in the zone its head names; a file's time is seen in the zone of `now`."""
    said = read_time(frontmatter.parse_fields(memory.text).modified)
    return said if said is not None else memory.header.modified.astimezone(now.tzinfo)
