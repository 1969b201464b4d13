"""What verification speaks in: claims, what came of them, verdicts, and the caveat a reader is given. Pure.

It holds no rule about what a claim is (`claims`) nor how one is looked up (`looking`).
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from memdir.frozen import dataclass
from memdir.records import Signature
from memdir.store import files
from memdir.store.files import FileStore
from memdir.text import one_line, shorten

__all__ = [
    "CachedVerdict",
    "find_verdict",
    "find_verdicts",
    "read_known",
    "read_verdicts",
    "render_caveat",
    "write_verdicts",
]


# --- records ---


class ClaimKind(StrEnum):
    """What sort of thing a memory names."""

    PATH = "path"
    SYMBOL = "symbol"
    CONSTANT = "constant"
    COMMAND = "command"
    FLAG = "flag"
    VARIABLE = "variable"
    PACKAGE = "package"
    BRANCH = "branch"
    DATE = "date"
    LINK = "link"


class ClaimStatus(StrEnum):
    """What came of one claim. Everything that cannot be shown to be wrong is not checkable, not gone."""

    PRESENT = "present"
    MOVED = "moved"
    GONE = "gone"
    PASSED = "passed"
    UNKNOWN = "not checkable"


class VerifyState(StrEnum):
    """A memory as a whole: all that could be checked holds; some of it; none of it. `unchecked`: nothing could be."""

    VERIFIED = "verified"
    PARTLY = "partly"
    STALE = "stale"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Claim:
    """One thing that a memory names, and where it stands in the file's text; lines and columns count from 1.

    `text` is the thing itself (`handleAuth`, not `handleAuth()`), `extra` what its kind needs beside it: the line of a
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
    """A claim and what came of it.

    `where` is the file it was found in, `to` its new name or place, `commit` the one that removed or renamed it, in
    short, `came` what came with that commit in its stead, `note` why it is as it is where the status does not say.
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
    """What came of one memory's claims; it holds for the text with this digest."""

    name: str
    digest: str
    state: VerifyState
    checked: datetime
    claims: tuple[CheckedClaim, ...] = ()

    @property
    def stale(self) -> tuple[CheckedClaim, ...]:
        return tuple(at for at in self.claims if at.is_stale)


def find_state(claims: Sequence[CheckedClaim]) -> VerifyState:
    known = [at for at in claims if at.status is not ClaimStatus.UNKNOWN]
    if not known:
        return VerifyState.UNCHECKED
    wrong = [at for at in known if at.is_stale]
    if not wrong:
        return VerifyState.VERIFIED
    return VerifyState.STALE if len(wrong) == len(known) else VerifyState.PARTLY


# --- in words -------------------------------------------------------------------------------------------------------

_NAME_CHARS = 80
_SHOWN = 3  # claims in a caveat; more is a list, and `memdir verify` has it


def render_caveat(verdict: Verdict) -> str:
    """What a reader must know before believing this memory, in a sentence or two; empty if nothing is stale."""
    told = dict.fromkeys(render_claim(at) for at in verdict.stale)
    shown = list(told)[:_SHOWN]
    more = len(told) - len(shown)
    text = ". ".join(at[:1].upper() + at[1:] for at in shown) + "." if shown else ""
    return f"{text} {more} more of what it names {'is' if more == 1 else 'are'} out of date." if more else text


def render_claim(at: CheckedClaim) -> str:
    """One claim in words, without a full stop: "`handleAuth` is gone; `authenticate` came with the commit …"."""
    name = _quote(at.claim.text)
    if at.claim.kind is ClaimKind.DATE and at.status is ClaimStatus.PASSED:
        return f"the date {one_line(at.claim.text)} has passed"
    if at.status is ClaimStatus.MOVED:
        return f"{name} is now {_quote(at.to)}"
    if at.status is ClaimStatus.GONE:
        if at.note:
            return f"{name}: {at.note}"
        said = f"{name} is gone"
        if at.came:
            return f"{said}; {_quote(at.came)} came with the commit that removed it"
        return f"{said} since commit {at.commit}" if at.commit else said
    if at.status is ClaimStatus.PRESENT:
        return f"{name} is there" + (f" ({one_line(at.where)})" if at.where and at.where != at.claim.text else "")
    return f"{name} cannot be checked" + (f": {at.note}" if at.note else "")


def _quote(name: str) -> str:
    """A name in a code span; a backtick inside would end it."""
    return "`" + shorten(one_line(name).replace("`", "'"), _NAME_CHARS) + "`"


# --- cached ---
# Verdicts as they were last reached, kept in the derived index: one SQLite read, no git process, no look at a project.
#
# For recall, status and doctor:
#
#     find_verdict(store, name, digest)     of one memory, if its text is still the one that was verified
#     find_verdicts(store, {name: digest})  of several, in one read
#     read_verdicts(store)                  of all, whatever their digests
#     render_caveat(verdict)                what a reader must be told; empty if nothing is stale (from `records`)
#
# They lie in `index.db`, which may be deleted at any time (`forget --purge` does) and then knows nothing until the
# next
# `verify` or `refresh`. Whatever is wrong with it, the answer is "nothing known".

_SCHEMA = "1"  # how rows are written; rows of another kind count as none
_COLUMNS = "name, kind, digest, state, checked, tree, claims, signature"
_TABLE = f"CREATE TABLE IF NOT EXISTS verdicts ({_COLUMNS.replace('name', 'name TEXT PRIMARY KEY')})"
_MANY = 400  # values in one IN (…)
_BUSY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class CachedVerdict:
    """A verdict and the state of the project it was reached on: commit, work tree, what else its claims look at.

    `signature` is that of the memory's file: while it is the same, the text need not be read to know that it is.
    """

    verdict: Verdict
    tree: str
    signature: str = ""


def find_verdict(store: FileStore, name: str, digest: str) -> Verdict | None:
    return find_verdicts(store, {name: digest}).get(name)


def find_verdicts(store: FileStore, digests: Mapping[str, str]) -> dict[str, Verdict]:
    """Verdicts on the texts with these digests; a memory that has changed since has none."""
    known = _read(store, list(digests))
    return {name: at.verdict for name, at in known.items() if at.verdict.digest == digests[name]}


def read_verdicts(store: FileStore) -> dict[str, Verdict]:
    return {name: at.verdict for name, at in read_known(store).items()}


def read_known(store: FileStore) -> dict[str, CachedVerdict]:
    return _read(store, None)


def write_verdicts(store: FileStore, known: Iterable[CachedVerdict], gone: Iterable[str] = ()) -> bool:
    """Keep verdicts, and drop those of memories that are no more. A busy or broken index keeps none: it is a cache."""
    path = store.find_index_file()
    if path is None:
        return False
    try:
        with closing(files.open_index(path, _BUSY_SECONDS)) as db:
            db.execute("BEGIN IMMEDIATE")
            with db:
                _make_table(db)
                db.executemany("DELETE FROM verdicts WHERE name = ?", [(name,) for name in gone])
                insert = f"INSERT OR REPLACE INTO verdicts ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
                db.executemany(insert, [_make_row(at) for at in known])
    except (sqlite3.Error, OSError):
        return False
    return True


def render_signature(at: Signature) -> str:
    return f"{at.inode} {at.size} {at.mtime_ns} {at.ctime_ns}"


def _make_table(db: sqlite3.Connection) -> None:
    """The table, or the one column that earlier versions did not have."""
    db.execute(_TABLE)
    if not db.execute("SELECT 1 FROM pragma_table_info('verdicts') WHERE name = 'signature'").fetchone():
        db.execute("ALTER TABLE verdicts ADD COLUMN signature")


def _read(store: FileStore, names: list[str] | None) -> dict[str, CachedVerdict]:
    path = files.find_header_cache(store.root, store.state, store.cache, write=False)
    try:
        with closing(sqlite3.connect(_make_uri(path), uri=True, timeout=_BUSY_SECONDS)) as db:
            rows = list(_select(db, names))
    except (sqlite3.Error, ValueError):
        return {}
    found = (_read_row(row) for row in rows)
    return {at.verdict.name: at for at in found if at is not None}


def _make_uri(path: Path) -> str:
    return f"{path.absolute().as_uri()}?mode=ro"


def _select(db: sqlite3.Connection, names: list[str] | None) -> Iterable[tuple[object, ...]]:
    columns = f"SELECT {_COLUMNS} FROM verdicts"
    if names is None:
        yield from db.execute(columns)
        return
    for start in range(0, len(names), _MANY):
        some = names[start : start + _MANY]
        yield from db.execute(f"{columns} WHERE name IN ({','.join('?' * len(some))})", some)


def _make_row(known: CachedVerdict) -> tuple[str, ...]:
    at = known.verdict
    claims = [
        [
            one.claim.kind.value, one.claim.text, one.claim.line, one.claim.column, one.claim.start, one.claim.end,
            one.claim.extra, one.claim.reason, one.claim.is_weak,
            one.status.value, one.where, one.to, one.commit, one.came, one.note,
        ]
        for one in at.claims
    ]  # fmt: skip
    said = json.dumps(claims, ensure_ascii=True)
    return at.name, _SCHEMA, at.digest, at.state.value, at.checked.isoformat(), known.tree, said, known.signature


def _read_row(row: tuple[object, ...]) -> CachedVerdict | None:
    name, kind, digest, state, checked, tree, claims, signature = row
    if kind != _SCHEMA:
        return None
    try:
        made = tuple(_read_claim(*one) for one in json.loads(str(claims)))
        moment = datetime.fromisoformat(str(checked))
        return CachedVerdict(
            Verdict(str(name), str(digest), VerifyState(str(state)), moment, made), str(tree), str(signature or "")
        )
    except (ValueError, TypeError):
        return None


def _read_claim(
    kind: str, text: str, line: int, column: int, start: int, end: int, extra: str, reason: str, is_weak: bool,
    status: str, where: str, to: str, commit: str, came: str, note: str,
) -> CheckedClaim:  # fmt: skip
    claim = Claim(ClaimKind(kind), text, line, column, start, end, extra, reason, is_weak)
    return CheckedClaim(claim, ClaimStatus(status), where, to, commit, came, note)
