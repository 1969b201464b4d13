"""What is wrong with what memories say: claims the project no longer bears out, pairs that cannot both hold, secrets,
and memories nobody was ever given.

Verdicts are those that `verify` has kept; doctor itself looks at no project. Secrets are told by rule and line, never
by value; a text that was found clean is not searched again until the text or the rules change.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from memdir.doctor.findings import Finding
from memdir.doctor.seen_clean import find_mark, read_clean, write_clean
from memdir.errors import MemdirError
from memdir.limits import LEDGER_ROWS
from memdir.records import Memory, Surfacing
from memdir.secrets import find_secrets
from memdir.secrets.own import Own
from memdir.store.files import FileStore
from memdir.text import one_line, shorten
from memdir.tidy.contradictions import find_contradictions
from memdir.tidy.facts import Fact
from memdir.verify.cached import find_verdicts
from memdir.verify.records import State, render_caveat

COMPARED = 2_000  # memories whose statements are compared, the newest: more take seconds, and the dream looks at all
UNUSED_DAYS = 60  # so old a memory must be, and so long ago the first recall, before "never recalled" says anything
UNUSED_SESSIONS = 20  # and so many conversations must have recalled something meanwhile
_SHOWN = 5  # names in one line


def check_verdicts(store: FileStore, memories: Sequence[Memory]) -> Iterator[Finding]:
    """What the last verification found of the texts as they are now."""
    known = find_verdicts(store, {memory.header.name: memory.digest for memory in memories})
    for name, verdict in known.items():
        if verdict.state in (State.STALE, State.PARTLY):
            kind = "stale" if verdict.state is State.STALE else "partly_stale"
            fix = f"`memdir edit {name}`; `memdir verify {name}` looks again"
            line = min((at.claim.line for at in verdict.stale), default=None)
            yield Finding(kind, f"{name}.md", render_caveat(verdict).rstrip("."), fix, line)


def check_contradictions(memories: Sequence[Memory]) -> Iterator[Finding]:
    """Pairs of statements of which at most one can hold, among the newest memories."""
    newest = sorted(memories, key=lambda at: (at.header.modified, at.header.name), reverse=True)[:COMPARED]
    facts = [Fact(memory) for memory in newest if not memory.header.problem]
    for proposal in find_contradictions(facts):
        older, newer = proposal.names
        told, said = (shorten(one_line(quote.quote), 80) for quote in reversed(proposal.evidence))
        message = f'"{told}", but {newer}.md, which is newer: "{said}"'
        fix = f"`memdir edit {older}`, or `memdir dream` proposes it"
        yield Finding("contradiction", f"{older}.md", message, fix)


def check_secrets(store: FileStore, memories: Sequence[Memory], own: Own) -> Iterator[Finding]:
    """Credentials in memories: which rule, in which line."""
    mark = find_mark(own)
    clean = read_clean(store, mark)
    fresh = []
    for memory in memories:
        if memory.digest in clean:
            continue
        found = find_secrets(memory.text, allow=own.allow, extra=own.rules)
        for at in found:
            fix = f"change it where it is used, then `memdir edit {memory.header.name}`; history keeps the old text"
            yield Finding("secret", memory.header.file, f"looks like {at.what} ({at.rule})", fix, at.line)
        fresh += [] if found else [memory.digest]
    write_clean(store, fresh, mark, keep={memory.digest for memory in memories})


def check_uses(store: FileStore, memories: Sequence[Memory], now: datetime) -> Iterator[Finding]:
    """Memories that were there all the time and never fitted anything, where that says something."""
    try:
        recalls = store.recalls(limit=LEDGER_ROWS)
    except MemdirError:
        return
    old = now - timedelta(days=UNUSED_DAYS)
    if not recalls or recalls[-1].at > old or _count_sessions(recalls) < UNUSED_SESSIONS:
        return
    used = {recall.name for recall in recalls}
    never = [at.header for at in memories if at.header.name not in used]
    names = sorted(at.name for at in never if at.modified < recalls[-1].at and not at.pinned and not at.problem)
    if names:
        since = f"{recalls[-1].at.astimezone():%Y-%m-%d}"
        shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
        what = "1 memory" if len(names) == 1 else f"{len(names):,} memories"
        message = f"{what} never recalled since {since}: {shown}"
        yield Finding("never_recalled", "ledger", message, "a better description helps; `memdir forget NAME` if not")


def _count_sessions(recalls: Sequence[Surfacing]) -> int:
    """Conversations, or where their ids are not known, days."""
    return len({recall.session or f"{recall.at:%Y-%m-%d}" for recall in recalls})
