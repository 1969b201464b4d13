"""The records of verification: claims, verdicts, and the verdicts cached in the index.

Cached verdicts take one SQLite read and need no git process or project files: recall, status and doctor use them. They are in
`index.db`, which may be deleted at any time and is filled by the next `verify` or `refresh`. If it is unusable, no verdicts
are known.
"""

import json
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import datetime
from enum import StrEnum

from memdir.errors import FormatError
from memdir.format.frontmatter import set_fields
from memdir.frozen import asdict, dataclass
from memdir.records import Rewrite, Signature, StoredMemory
from memdir.store import files
from memdir.store.contract import Folder
from memdir.text import one_line, shorten

_NAME_CHARS = 80
_SHOWN = 3  # claims in a caveat; `memdir verify` lists all
_COLUMNS = "name, digest, state, checked, tree, claims, signature"
_TABLE = f"CREATE TABLE IF NOT EXISTS verdicts ({_COLUMNS.replace('name', 'name TEXT PRIMARY KEY')})"
_MANY = 400  # max values in one IN (…)
_BUSY_SECONDS = 0.5


class ClaimKind(StrEnum):
    PATH = "path"
    SYMBOL = "symbol"
    CONSTANT = "constant"
    COMMAND = "command"
    FLAG = "flag"
    VARIABLE = "variable"
    DATE = "date"
    LINK = "link"


class ClaimStatus(StrEnum):
    """The status of a claim. A claim that can be neither confirmed nor disproved is not checkable."""

    PRESENT = "present"
    MOVED = "moved"
    GONE = "gone"
    PASSED = "passed"
    UNKNOWN = "not checkable"


class VerifyState(StrEnum):
    """The state of a memory, from the status of its checkable claims."""

    VERIFIED = "verified"
    PARTLY = "partly"
    STALE = "stale"
    UNCHECKED = "unchecked"


@dataclass(frozen=True, slots=True)
class Claim:
    """Something that a memory mentions, with its position. Lines and columns count from 1.

    `text` is the name without syntax, such as `handleAuth` for `handleAuth()`. `extra` depends on the kind, such as the line
    of a path. `reason` says why the claim cannot be checked. A weak claim counts only if the project has or had the thing.
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

    `where` is the file that contains it, `to` its new name or path, `commit` the commit that removed or renamed it, and `came`
    what that commit added instead.
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
    """The status of a memory's claims, valid for the text with this digest.

    `tree` identifies the state of the project, and `signature` the memory file that was read.
    """

    name: str
    digest: str
    state: VerifyState
    checked: datetime
    claims: tuple[CheckedClaim, ...] = ()
    tree: str = ""
    signature: str = ""

    @property
    def stale(self) -> tuple[CheckedClaim, ...]:
        return tuple(claim for claim in self.claims if claim.is_stale)


def find_state(claims: Sequence[CheckedClaim]) -> VerifyState:
    known = [claim.is_stale for claim in claims if claim.status is not ClaimStatus.UNKNOWN]
    if not known:
        return VerifyState.UNCHECKED
    return VerifyState.STALE if all(known) else VerifyState.PARTLY if any(known) else VerifyState.VERIFIED


def mark_verified(memory: StoredMemory, now: datetime) -> Rewrite:
    """Return the edit that marks a memory as verified. Raises FormatError if its frontmatter is invalid."""
    if problem := memory.header.problem or ("it is not UTF-8" if "\ufffd" in memory.text else ""):
        raise FormatError(problem, field="frontmatter")
    text = set_fields(memory.text, {"verified": now.astimezone().isoformat(timespec="seconds")})
    return Rewrite(memory.name, text, memory.digest)


def render_caveat(verdict: Verdict) -> str:
    """Return a warning about the outdated claims of a memory, or ""."""
    claims = list(dict.fromkeys(render_claim(claim) for claim in verdict.stale))
    text = ". ".join(sentence[:1].upper() + sentence[1:] for sentence in claims[:_SHOWN]) + "." if claims else ""
    more = len(claims) - _SHOWN
    return f"{text} {more} more of what it names {'is' if more == 1 else 'are'} out of date." if more > 0 else text


def render_claim(checked: CheckedClaim) -> str:
    """Describe a claim without a full stop, such as "`handleAuth` is gone; `authenticate` came with the commit …"."""
    name = _quote(checked.claim.text)
    if checked.claim.kind is ClaimKind.DATE and checked.status is ClaimStatus.PASSED:
        return f"the date {one_line(checked.claim.text)} has passed"
    if checked.status is ClaimStatus.MOVED:
        return f"{name} is now {_quote(checked.to)}"
    if checked.status is ClaimStatus.GONE:
        if checked.note:
            return f"{name}: {checked.note}"
        if checked.came:
            return f"{name} is gone; {_quote(checked.came)} came with the commit that removed it"
        return f"{name} is gone" + (f" since commit {checked.commit}" if checked.commit else "")
    if checked.status is ClaimStatus.PRESENT:
        return f"{name} is there" + (
            f" ({one_line(checked.where)})" if checked.where and checked.where != checked.claim.text else ""
        )
    return f"{name} cannot be checked" + (f": {checked.note}" if checked.note else "")


def find_verdicts(store: Folder, digests: Mapping[str, str]) -> dict[str, Verdict]:
    """Return the cached verdicts on texts with these digests, by name."""
    verdicts = read_verdicts(store, list(digests))
    return {name: verdict for name, verdict in verdicts.items() if verdict.digest == digests[name]}


def read_states(store: Folder) -> dict[str, tuple[VerifyState, str]]:
    """Return the cached state of each memory by name, with the signature of its file."""
    if (path := store.find_index_file(write=False)) is None:
        return {}
    try:
        with closing(files.read_index(path, _BUSY_SECONDS)) as db:
            rows = db.execute("SELECT name, state, signature FROM verdicts").fetchall()
            return {name: (VerifyState(state), signature or "") for name, state, signature in rows}
    except (sqlite3.Error, ValueError):
        return {}


def read_verdicts(store: Folder, names: list[str] | None = None) -> dict[str, Verdict]:
    """Return the cached verdicts by name, even if the memories have changed since."""
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
    return {verdict.name: verdict for verdict in parsed if verdict is not None}


def write_verdicts(store: Folder, verdicts: Iterable[Verdict], deleted: Iterable[str] = ()) -> bool:
    """Cache verdicts and delete those of deleted memories. Return whether the index could be written."""
    path = store.find_index_file()
    if path is None:
        return False
    try:
        with closing(files.open_index(path, _BUSY_SECONDS)) as db:
            db.execute("BEGIN IMMEDIATE")
            with db:
                db.execute(_TABLE)
                db.executemany("DELETE FROM verdicts WHERE name = ?", [(name,) for name in deleted])
                insert = f"INSERT OR REPLACE INTO verdicts ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?)"
                db.executemany(insert, map(_make_row, verdicts))
    except (sqlite3.Error, OSError):
        return False
    return True


def render_signature(signature: Signature) -> str:
    return f"{signature.inode} {signature.size} {signature.mtime_ns} {signature.ctime_ns}"


def _quote(name: str) -> str:
    """Return a name in backticks, without any backticks inside it."""
    return "`" + shorten(one_line(name).replace("`", "'"), _NAME_CHARS) + "`"


def _make_row(verdict: Verdict) -> tuple[str, ...]:
    # The fields of a claim and of its result, in the order that `_read_row` expects.
    claims = [[*asdict(one.claim).values(), *list(asdict(one).values())[1:]] for one in verdict.claims]
    facts = (verdict.digest, verdict.state.value, verdict.checked.isoformat(), verdict.tree)
    return verdict.name, *facts, json.dumps(claims), verdict.signature


def _read_row(row: tuple[object, ...]) -> Verdict | None:
    name, digest, state, checked, tree, claims, signature = (str(value or "") for value in row)
    try:
        checked_claims = []
        for kind, text, line, column, start, end, extra, reason, is_weak, status, *rest in json.loads(claims):
            claim = Claim(ClaimKind(kind), text, line, column, start, end, extra, reason, is_weak)
            checked_claims.append(CheckedClaim(claim, ClaimStatus(status), *rest))
        moment = datetime.fromisoformat(checked)
        return Verdict(name, digest, VerifyState(state), moment, tuple(checked_claims), tree, signature)
    except (ValueError, TypeError):
        return None
