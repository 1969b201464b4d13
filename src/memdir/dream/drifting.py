"""What may no longer hold: memories whose claims the project does not bear out, and memories that have grown old.

The first are proposed for repair, with what was found: a name that has moved is replaced, and of what is gone the
memory gets a line that says so; nothing it says is taken out. The second are proposed for review, a few at a time: to
approve is to say that it still holds, which is written down as a verification, and makes it young again. Types age by
their half-lives. Age alone changes nothing and deletes nothing: all of this waits for a person.

Verdicts are those that `verify` has kept. Pinned memories are left alone.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from memdir import frontmatter
from memdir.age import HalfLives, days_old, find_half_life, weigh_age
from memdir.aging import find_since
from memdir.errors import FormatError
from memdir.limits import DREAM_REVIEW_LIVES, DREAM_REVIEWS
from memdir.records import Header, InboxItem, InboxKind, Memory, Origin, Rewrite
from memdir.store.contract import Verbs
from memdir.store.files import FileStore
from memdir.store.payloads import Quote, render_edits, render_evidence
from memdir.store.plan import digest_of, encode
from memdir.text import one_line, shorten
from memdir.verify.cached import find_verdicts
from memdir.verify.records import Checked, State, Status, Verdict, render_caveat, render_claim

REPAIR, REVIEW = "dream:repair:", "dream:review:"
_QUOTED = 3  # lines of a memory shown as evidence
_CHARS = 200

Item = tuple[tuple[str, ...], InboxItem]


def read_verdicts(store: Verbs, memories: Sequence[Memory]) -> dict[str, Verdict]:
    """What is known of these texts."""
    digests = {memory.header.name: memory.digest for memory in memories}
    return find_verdicts(store, digests) if isinstance(store, FileStore) else {}


def find_drifted(
    headers: Sequence[Header], verdicts: Mapping[str, Verdict], lives: HalfLives, now: datetime
) -> list[Header]:
    """What a model should look at: what is known to be out of date, then what is past its half-life, oldest first."""
    free = [header for header in headers if not header.pinned]
    stale = [at for at in free if at.name in verdicts and verdicts[at.name].stale]
    sound = {name for name, verdict in verdicts.items() if verdict.state is State.VERIFIED}
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
    store: Verbs,
    memories: Sequence[Memory],
    verdicts: Mapping[str, Verdict],
    lives: HalfLives,
    now: datetime,
    who: Origin,
) -> Iterator[Item]:
    """The oldest by their types' half-lives, as many as there is room for among those that wait."""
    room = DREAM_REVIEWS - sum(item.key.startswith(REVIEW) for item in store.inbox())
    known = {name for name, verdict in verdicts.items() if verdict.state is not State.UNCHECKED}
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


def repair_text(text: str, stale: Sequence[Checked], now: datetime) -> str:
    """The same text with moved names in their new place, and below it a line on what else is out of date."""
    start = len(text) - len(frontmatter.split(text).body)
    moved = [at for at in stale if _can_replace(text, at, start)]
    for at in sorted(moved, key=lambda at: at.claim.start, reverse=True):
        text = text[: at.claim.start] + at.to + text[at.claim.end :]
    left = list(dict.fromkeys(render_claim(at) for at in stale if at not in moved))
    if not left:
        return text
    newline = "\r\n" if "\r\n" in text else "\n"
    line = f"**Checked {now.astimezone():%Y-%m-%d}:** {'; '.join(left)}."
    return text.rstrip() + newline * 2 + line + newline


def _can_replace(text: str, at: Checked, start: int) -> bool:
    """A moved name that stands in the body as the claim says; heads are not rewritten blindly."""
    claim = at.claim
    return (
        at.status is Status.MOVED
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
    quotes = [Quote(shorten(one_line(memory.body), _CHARS), memory.header.file)]
    return _make_item(memory, text, f"Still so? {memory.header.title}", why, key, quotes, now, who)


def _quote(memory: Memory, stale: Sequence[Checked]) -> list[Quote]:
    lines = memory.text.split("\n")
    numbers = sorted({at.claim.line for at in stale if 0 < at.claim.line <= len(lines)})[:_QUOTED]
    return [Quote(shorten(one_line(lines[at - 1]), _CHARS), f"{memory.header.file}:{at}") for at in numbers]


def _make_item(
    memory: Memory, text: str, title: str, why: str, key: str, quotes: Sequence[Quote], now: datetime, who: Origin
) -> Item:
    edit = Rewrite(memory.header.name, text, memory.digest)
    payload = {"edits": render_edits([edit]), "evidence": render_evidence(quotes)}
    name = memory.header.name
    return (name,), InboxItem(InboxKind.PROPOSAL, title, why, now, key=key, name=name, origin=who, payload=payload)
