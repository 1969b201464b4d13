"""The two things done with a remote: bring its branch here, and put a commit there; and what its answers mean.

A push never forces. If somebody was quicker, the answer says so, and the merge has to be made anew.
"""

import re
from enum import StrEnum

from memdir.frozen import dataclass
from memdir.team.git import ABSENT, LATE, Copy, GitError, Ran, make_error

_MISSING = "couldn't find remote ref"
_QUICKER = re.compile(
    r"fetch first|non-fast-forward|stale info|cannot lock ref|failed to (?:update|lock)|incorrect old value|"
    r"reference already exists|but expected",
    re.IGNORECASE,
)
# Another branch is in the way of this name: trying again does not help.
_BLOCKED = re.compile(r"exists; cannot create|blocking reference", re.IGNORECASE)
_DENIED = re.compile(
    r"denied|forbidden|\b40[13]\b|not allowed|read[- ]only|insufficient permission|unable to create|write access|"
    r"unpacker error|protected|declined|prohibited|permission",
    re.IGNORECASE,
)


class Answer(StrEnum):
    """What a remote said to a push: done, somebody was quicker, no, or nothing at all."""

    DONE = "done"
    QUICKER = "quicker"
    DENIED = "denied"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class Pushed:
    answer: Answer
    said: str = ""


def fetch_branch(copy: Copy, remote: str, branch: str) -> str | None:
    """Bring a branch into the copy; answers its commit, None if the remote has no such branch. Raises GitError."""
    told = copy.path / "FETCH_HEAD"
    told.unlink(missing_ok=True)
    options = ["--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-gc", "--no-auto-maintenance"]
    ran = copy.run("fetch", *options, remote, f"refs/heads/{branch}", remote=remote)
    if ran.code == 0:
        found = re.match(r"[0-9a-f]{40}(?=\s)", told.read_text(encoding="utf-8", errors="replace"))
        if found is None:
            raise GitError(
                "git fetch did not say what it brought", hint="a repository of SHA-256 objects cannot be used"
            )
        return found.group()
    if _MISSING in ran.said:
        return None
    raise make_error("fetch", ran)


def push_commit(copy: Copy, remote: str, branch: str, commit: str) -> Pushed:
    """Put a commit at the head of a branch; never raises for a remote that does not want it."""
    options = ["--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no"]
    ran = copy.run("push", *options, remote, f"{commit}:refs/heads/{branch}", remote=remote)
    if ran.code == 0:
        return Pushed(Answer.DONE)
    if ran.code in (LATE, ABSENT):
        return Pushed(Answer.SILENT, str(make_error("push", ran)))
    pushed = _read_refusal(ran)
    if pushed.answer is Answer.DENIED and not _answers(copy, remote, branch):
        return Pushed(Answer.SILENT, pushed.said)
    return pushed


def _answers(copy: Copy, remote: str, branch: str) -> bool:
    """Whether a remote is there at all: one that goes away during a push sounds as if it took nothing."""
    return copy.run("ls-remote", "--quiet", remote, f"refs/heads/{branch}", remote=remote).code == 0


def _read_refusal(ran: Ran) -> Pushed:
    rows = [row for row in ran.out.decode("utf-8", "replace").splitlines() if row.startswith("!")]
    told = " ".join(rows) or ran.said
    said = str(make_error("push", ran))
    if _BLOCKED.search(f"{told} {ran.said}"):
        return Pushed(Answer.DENIED, "the remote has a branch whose name is in the way; choose another with --branch")
    if _QUICKER.search(told):
        return Pushed(Answer.QUICKER, said)
    if rows or _DENIED.search(ran.said):
        reason = re.search(r"\(([^()]*)\)\s*$", told)
        return Pushed(Answer.DENIED, f"the remote refused: {reason.group(1)}" if rows and reason else said)
    return Pushed(Answer.SILENT, said)
