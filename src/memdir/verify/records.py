"""What verification speaks in: claims, what came of them, verdicts, and the caveat a reader is given. Pure.

It holds no rule about what a claim is (`claims`) nor how one is looked up (`looking`).
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from memdir.frozen import dataclass
from memdir.text import one_line, shorten


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


class Status(StrEnum):
    """What came of one claim. Everything that cannot be shown to be wrong is not checkable, not gone."""

    PRESENT = "present"
    MOVED = "moved"
    GONE = "gone"
    PASSED = "passed"
    UNKNOWN = "not checkable"


class State(StrEnum):
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
class Checked:
    """A claim and what came of it.

    `where` is the file it was found in, `to` its new name or place, `commit` the one that removed or renamed it, in
    short, `came` what came with that commit in its stead, `note` why it is as it is where the status does not say.
    """

    claim: Claim
    status: Status
    where: str = ""
    to: str = ""
    commit: str = ""
    came: str = ""
    note: str = ""

    @property
    def is_stale(self) -> bool:
        return self.status in (Status.MOVED, Status.GONE, Status.PASSED)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of one memory's claims; it holds for the text with this digest."""

    name: str
    digest: str
    state: State
    checked: datetime
    claims: tuple[Checked, ...] = ()

    @property
    def stale(self) -> tuple[Checked, ...]:
        return tuple(at for at in self.claims if at.is_stale)


def find_state(claims: Sequence[Checked]) -> State:
    known = [at for at in claims if at.status is not Status.UNKNOWN]
    if not known:
        return State.UNCHECKED
    wrong = [at for at in known if at.is_stale]
    if not wrong:
        return State.VERIFIED
    return State.STALE if len(wrong) == len(known) else State.PARTLY


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


def render_claim(at: Checked) -> str:
    """One claim in words, without a full stop: "`handleAuth` is gone; `authenticate` came with the commit …"."""
    name = _quote(at.claim.text)
    if at.claim.kind is ClaimKind.DATE and at.status is Status.PASSED:
        return f"the date {one_line(at.claim.text)} has passed"
    if at.status is Status.MOVED:
        return f"{name} is now {_quote(at.to)}"
    if at.status is Status.GONE:
        if at.note:
            return f"{name}: {at.note}"
        said = f"{name} is gone"
        if at.came:
            return f"{said}; {_quote(at.came)} came with the commit that removed it"
        return f"{said} since commit {at.commit}" if at.commit else said
    if at.status is Status.PRESENT:
        return f"{name} is there" + (f" ({one_line(at.where)})" if at.where and at.where != at.claim.text else "")
    return f"{name} cannot be checked" + (f": {at.note}" if at.note else "")


def _quote(name: str) -> str:
    """A name in a code span; a backtick inside would end it."""
    return "`" + shorten(one_line(name).replace("`", "'"), _NAME_CHARS) + "`"
