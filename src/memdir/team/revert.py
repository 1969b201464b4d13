"""Undoing what one author wrote, in one change: everything of theirs goes, what others wrote in the same files stays.

Each of the author's commits is reversed, newest first: what it added is removed, what it removed is restored, and what
somebody else has written since stays. The change is this member's own, so `undo` reverses it; the next sync brings it to
the others as a new commit. An author is what commits say: whoever signs with another's name is reverted as that other.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from memdir.errors import ConflictError, NotFoundError
from memdir.format.frontmatter import split_frontmatter
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass
from memdir.records import Origin
from memdir.store.contract import PERSON
from memdir.store.files import FileStore
from memdir.store.plan import TEAM_FOLDER, FileChange, Overlay, Planner, StoreView, plan_dead_pointers, plan_pointers
from memdir.store.secrets import find_secrets
from memdir.store.state import Author
from memdir.team.admit import PLAIN_MODE, AdmitRuling, judge_place, judge_text
from memdir.team.git import TeamClone, TeamCommit, read_commits, read_versions
from memdir.team.merge import merge_memory, merge_units, split_paragraphs
from memdir.team.news import name_memory
from memdir.team.plan import read_local
from memdir.text import fold

Texts = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class RevertResult:
    """The change, how many commits it reverses, and the memories it changed, removed or restored."""

    change: int | None
    commits: int
    names: tuple[str, ...]
    left: tuple[str, ...] = ()  # what may not be restored: it would be refused today


def is_by(author: Author, wanted: str) -> bool:
    """Whether this author is meant: by the whole name, the whole address, or both as git writes them."""
    known = {author.name, author.email, f"{author.name} <{author.email}>"}
    return bool(wanted.strip()) and fold(wanted.strip()) in {fold(at) for at in known if at}


def revert_author(
    store: FileStore, copy: TeamClone, head: str, wanted: str, *, since: datetime | None = None, origin: Origin = PERSON
) -> RevertResult:
    """Undo what somebody wrote; raises NotFoundError if the branch has nothing of theirs."""
    commits = [at for at in read_commits(copy, head) if is_by(at.author, wanted)]
    commits = [at for at in commits if since is None or (at.author.when is not None and at.author.when >= since)]
    if not commits:
        hint = "`memdir team log` shows who wrote what; the name or address has to be whole"
        raise NotFoundError(f"the team's branch holds nothing by {wanted}", name=wanted, hint=hint)
    local = read_local(store)
    before: Texts = {path: data.decode("utf-8", "surrogateescape") for path, data in local.files.items()}
    after = _reverse(copy, commits, before)
    find = store.rules.find or find_secrets
    files = [(path, data) for path, text in after.items() if (data := _encode(text)) is not None]
    wrong = [path for path, data in files if judge_text(path, data, find).ruling is AdmitRuling.REFUSE]
    changed = {path: text for path, text in after.items() if text != before.get(path) and path not in wrong}
    done = store.carry_out(_make_planner(before, changed), verb="revert", origin=origin) if changed else None
    names = tuple(name_memory(path) for path in sorted(changed))
    left = tuple(name_memory(path) for path in sorted(wrong) if after[path] != before.get(path))
    return RevertResult(done.change if done else None, len(commits), names, left)


def _reverse(copy: TeamClone, commits: Sequence[TeamCommit], before: Texts) -> Texts:
    state = dict(before)
    wanted = [
        (at.sha, path)
        for at in commits
        for path in at.changes
        if path != INDEX_FILE and not judge_place(path, PLAIN_MODE, 0)
    ]
    texts = read_versions(copy, [spec for sha, path in wanted for spec in ((sha, path), (f"{sha}^", path))])
    for sha, path in wanted:
        state[path] = _reverse_one(texts.get((sha, path)), state.get(path), texts.get((f"{sha}^", path)))
    return state


def _reverse_one(theirs: str | None, now: str | None, older: str | None) -> str | None:
    """One file without what one commit did to it: `theirs` is what it left, `older` what it found."""
    if now == theirs:
        return older
    if now is None or theirs is None:
        return now  # somebody else has decided since
    if older is not None:
        return merge_memory(theirs, now, older).text
    pieces = [split_paragraphs(split_frontmatter(text).body) for text in (theirs, now)]
    left = merge_units(pieces[0], pieces[1], ()).pieces
    if not left:
        return None
    parts = split_frontmatter(now)
    return parts.opening + parts.head + parts.closing + "\n" + "\n\n".join(left) + "\n"


def _make_planner(before: Mapping[str, str | None], changed: Mapping[str, str | None]) -> Planner:
    def planner(view: StoreView) -> list[FileChange]:
        overlay = Overlay(view)
        for path, text in changed.items():
            found = view.read_bytes(f"{TEAM_FOLDER}/{path}")
            if found != _encode(before.get(path)):
                raise ConflictError(f"{name_memory(path)} changed meanwhile", hint="try again")
            overlay.put([FileChange(f"{TEAM_FOLDER}/{path}", found, _encode(text))])
        names = [name_memory(path) for path in changed]
        overlay.put(plan_dead_pointers(overlay, names))
        overlay.put(plan_pointers(overlay, names))
        return list(overlay.list_changes())

    return planner


def _encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")
