"""Claims, their status, verdicts on memories, and the verdicts kept in the derived index.

Kept verdicts take one SQLite read, no git process and no look at a project: recall, status and doctor use them. They lie
in `index.db`, which may be deleted at any time and then knows nothing until the next `verify` or `refresh`. Whatever is
wrong with it, no verdicts are known.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from enum import StrEnum

from memdir.frozen import asdict, dataclass
from memdir.records import Signature
from memdir.store import files
from memdir.store.contract import Folder
from memdir.text import one_line, shorten

_NAME_CHARS = 80
_SHOWN = 3  # claims in a caveat; `memdir verify` lists all
_SCHEMA = "1"  # how rows are written; rows of another kind count as none
_COLUMNS = "name, kind, digest, state, checked, tree, claims, signature"
_TABLE = f"CREATE TABLE IF NOT EXISTS verdicts ({_COLUMNS.replace('name', 'name TEXT PRIMARY KEY')})"
_MANY = 400  # values in one IN (…)
_BUSY_SECONDS = 0.5


class ClaimKind(StrEnum):
    """The kind of thing that a memory names."""

    PATH = "path"
    SYMBOL = "symbol"
    CONSTANT = "constant"
    COMMAND = "command"
    FLAG = "flag"
    VARIABLE = "variable"
    DATE = "date"
    LINK = "link"


class ClaimStatus(StrEnum):
    """The status of one claim. What cannot be shown to be wrong is not checkable, not gone."""

    PRESENT = "present"
    MOVED = "moved"
    GONE = "gone"
    PASSED = "passed"
    UNKNOWN = "not checkable"


class VerifyState(StrEnum):
    """A memory as a whole: all, some or none of what could be checked holds; or nothing could be checked."""

    VERIFIED = "verified"
    PARTLY = "partly"
    STALE = "stale"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that a memory names, and its position in the file's text; lines and columns count from 1.

    `text` is the thing itself (`handleAuth`, not `handleAuth()`), `extra` additional data of its kind: the line of a
    path, the tool of a script. `reason` says why it cannot be checked, known from the text alone. A weak claim may be
    something else altogether, and counts only if the project has or had it.
    """

    kind: ClaimKind
    text: str
    line: int
    column: int
    start: int
    end: int
    extra: str = ""
    reason: str = ""
    is_weak: bool = False


@dataclass(frozen=True, slots=True)
class CheckedClaim:
    """A claim and its status.

    `where` is the file it was found in, `to` its new name or path, `commit` the short name of the one that removed or
    renamed it, `came` what that commit added in its place, `note` the reason if the status does not say it.
    """

    claim: Claim
    status: ClaimStatus
    where: str = ""
    to: str = ""
    commit: str = ""
    came: str = ""
    note: str = ""

    @property
    def is_stale(self) -> bool:
        return self.status in (ClaimStatus.MOVED, ClaimStatus.GONE, ClaimStatus.PASSED)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The status of one memory's claims; it holds for the text with this digest."""

    name: str
    digest: str
    state: VerifyState
    checked: datetime
    claims: tuple[CheckedClaim, ...] = ()

    @property
    def stale(self) -> tuple[CheckedClaim, ...]:
        return tuple(claim for claim in self.claims if claim.is_stale)


@dataclass(frozen=True, slots=True)
class CachedVerdict:
    """A verdict and the state of the project it was reached on: commit, work tree, what else its claims look at.
    While the memory's file has this `signature`, its text need not be read to know that it is the same."""

    verdict: Verdict
    tree: str
    signature: str = ""


def find_state(claims: Sequence[CheckedClaim]) -> VerifyState:
    known = [claim.is_stale for claim in claims if claim.status is not ClaimStatus.UNKNOWN]
    if not known:
        return VerifyState.UNCHECKED
    return VerifyState.STALE if all(known) else VerifyState.PARTLY if any(known) else VerifyState.VERIFIED


def render_caveat(verdict: Verdict) -> str:
    """Return a warning for readers of this memory, in a sentence or two; empty if nothing is stale."""
    claims = list(dict.fromkeys(render_claim(claim) for claim in verdict.stale))
    text = ". ".join(sentence[:1].upper() + sentence[1:] for sentence in claims[:_SHOWN]) + "." if claims else ""
    more = len(claims) - _SHOWN
    return f"{text} {more} more of what it names {'is' if more == 1 else 'are'} out of date." if more > 0 else text


def render_claim(at: CheckedClaim) -> str:
    """Return one claim in words, without a full stop: "`handleAuth` is gone; `authenticate` came with the commit …"."""
    name = _quote(at.claim.text)
    if at.claim.kind is ClaimKind.DATE and at.status is ClaimStatus.PASSED:
        return f"the date {one_line(at.claim.text)} has passed"
    if at.status is ClaimStatus.MOVED:
        return f"{name} is now {_quote(at.to)}"
    if at.status is ClaimStatus.GONE:
        if at.note:
            return f"{name}: {at.note}"
        if at.came:
            return f"{name} is gone; {_quote(at.came)} came with the commit that removed it"
        return f"{name} is gone" + (f" since commit {at.commit}" if at.commit else "")
    if at.status is ClaimStatus.PRESENT:
        return f"{name} is there" + (f" ({one_line(at.where)})" if at.where and at.where != at.claim.text else "")
    return f"{name} cannot be checked" + (f": {at.note}" if at.note else "")


def find_verdicts(store: Folder, digests: Mapping[str, str]) -> dict[str, Verdict]:
    """Return the verdicts on the texts with these digests; a memory that has changed since has none."""
    known = read_known(store, list(digests))
    return {name: cached.verdict for name, cached in known.items() if cached.verdict.digest == digests[name]}


def read_verdicts(store: Folder) -> dict[str, Verdict]:
    return {name: cached.verdict for name, cached in read_known(store).items()}


def read_states(store: Folder) -> dict[str, tuple[VerifyState, str]]:
    """Return the state of every kept verdict by name, with the signature of the file it was reached on."""
    if (path := store.find_index_file(write=False)) is None:
        return {}
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=_BUSY_SECONDS)) as db:
            rows = db.execute("SELECT name, state, signature FROM verdicts WHERE kind = ?", (_SCHEMA,)).fetchall()
            return {name: (VerifyState(state), signature or "") for name, state, signature in rows}
    except (sqlite3.Error, ValueError):
        return {}


def read_known(store: Folder, names: list[str] | None = None) -> dict[str, CachedVerdict]:
    """Return the kept verdicts by name, of all memories or of some, whatever their digests."""
    if (path := store.find_index_file(write=False)) is None:
        return {}
    select = f"SELECT {_COLUMNS} FROM verdicts"
    rows: list[tuple[object, ...]] = []
    try:
        with closing(files.read_index(path, _BUSY_SECONDS)) as db:
            if names is None:
                rows = db.execute(select).fetchall()
            for start in range(0, len(names or ()), _MANY):
                some = (names or [])[start : start + _MANY]
                rows += db.execute(f"{select} WHERE name IN ({','.join('?' * len(some))})", some)
    except (sqlite3.Error, ValueError):
        return {}
    parsed = (_read_row(row) for row in rows)
    return {cached.verdict.name: cached for cached in parsed if cached is not None}


def write_verdicts(store: Folder, known: Iterable[CachedVerdict], gone: Iterable[str] = ()) -> bool:
    """Keep verdicts, and drop those of memories that are gone. A busy or broken index keeps none: it is a cache."""
    path = store.find_index_file()
    if path is None:
        return False
    try:
        with closing(files.open_index(path, _BUSY_SECONDS)) as db:
            db.execute("BEGIN IMMEDIATE")
            with db:
                db.execute(_TABLE)
                # Earlier versions did not have this column.
                if not db.execute("SELECT 1 FROM pragma_table_info('verdicts') WHERE name = 'signature'").fetchone():
                    db.execute("ALTER TABLE verdicts ADD COLUMN signature")
                db.executemany("DELETE FROM verdicts WHERE name = ?", [(name,) for name in gone])
                insert = f"INSERT OR REPLACE INTO verdicts ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                db.executemany(insert, [_make_row(cached) for cached in known])
    except (sqlite3.Error, OSError):
        return False
    return True


def render_signature(at: Signature) -> str:
    return f"{at.inode} {at.size} {at.mtime_ns} {at.ctime_ns}"


def _quote(name: str) -> str:
    """A name in a code span; a backtick inside would end it."""
    return "`" + shorten(one_line(name).replace("`", "'"), _NAME_CHARS) + "`"


def _make_row(known: CachedVerdict) -> tuple[str, ...]:
    verdict = known.verdict
    # A claim and what was found of it, field by field, as `_read_row` takes them.
    claims = [[*asdict(one.claim).values(), *list(asdict(one).values())[1:]] for one in verdict.claims]
    rendered = json.dumps(claims, ensure_ascii=True)
    return (
        verdict.name,
        _SCHEMA,
        verdict.digest,
        verdict.state.value,
        verdict.checked.isoformat(),
        known.tree,
        rendered,
        known.signature,
    )


def _read_row(row: tuple[object, ...]) -> CachedVerdict | None:
    name, schema, digest, state, checked, tree, claims, signature = row
    if schema != _SCHEMA:
        return None
    try:
        made = []
        for kind, text, line, column, start, end, extra, reason, is_weak, status, *rest in json.loads(str(claims)):
            claim = Claim(ClaimKind(kind), text, line, column, start, end, extra, reason, is_weak)
            made.append(CheckedClaim(claim, ClaimStatus(status), *rest))
        moment = datetime.fromisoformat(str(checked))
        verdict = Verdict(str(name), str(digest), VerifyState(str(state)), moment, tuple(made))
    except (ValueError, TypeError):
        return None
    return CachedVerdict(verdict, str(tree), str(signature or ""))
