"""Taking back what one author wrote, in one act: everything of theirs goes, what others wrote in the same files stays.

Each of the author's commits is turned round, newest first: what it put in goes out, what it took out comes back, and
where somebody else has written since, that stays. The act is this member's own, so `undo` takes it back; the next sync
brings it to the others as a new commit.

An author is known by what commits say: whoever signs with another's name is reverted as that other.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from memdir.authors import Author
from memdir.errors import ConflictError, NotFoundError
from memdir.frontmatter import split
from memdir.frozen import dataclass
from memdir.index import INDEX_FILE
from memdir.records import Origin
from memdir.secrets import find_secrets
from memdir.store.batch import Overlay
from memdir.store.contract import PERSON
from memdir.store.files import FileStore
from memdir.store.plan import TEAM_FOLDER, Finder, Planned, Planner, View, plan_dead, plan_pointers
from memdir.team.arriving import PLAIN_MODE, Ruling, judge_place, judge_text
from memdir.team.git import Copy
from memdir.team.looking import read_local
from memdir.team.merging import merge_memory, split_paragraphs
from memdir.team.objects import Commit, read_log, read_versions
from memdir.team.telling import name_memory
from memdir.team.units import merge_units
from memdir.text import fold

Texts = dict[str, str | None]


@dataclass(frozen=True, slots=True)
class Reverted:
    """The act, how many commits it turns round, and the memories it changed, took away or brought back."""

    act: int | None
    commits: int
    names: tuple[str, ...]
    left: tuple[str, ...] = ()  # what may not be brought back: it would be refused today


def is_by(author: Author, wanted: str) -> bool:
    """Whether somebody is meant: by the whole name, the whole address, or both as git writes them."""
    known = {author.name, author.email, f"{author.name} <{author.email}>"}
    return bool(wanted.strip()) and fold(wanted.strip()) in {fold(at) for at in known if at}


def revert_author(
    store: FileStore, copy: Copy, head: str, wanted: str, *, since: datetime | None = None, origin: Origin = PERSON
) -> Reverted:
    """Take back what somebody wrote; raises NotFoundError if the branch knows of nothing."""
    commits = [at for at in read_log(copy, head) if is_by(at.author, wanted)]
    commits = [at for at in commits if since is None or (at.author.when is not None and at.author.when >= since)]
    if not commits:
        hint = "`memdir team log` shows who wrote what; the name or address has to be whole"
        raise NotFoundError(f"the team's branch holds nothing by {wanted}", name=wanted, hint=hint)
    local = read_local(store)
    before: Texts = {path: data.decode("utf-8", "surrogateescape") for path, data in local.files.items()}
    after = _turn_round(copy, commits, before)
    find = store.rules.find or find_secrets
    wrong = [path for path, text in after.items() if text is not None and _is_refused(path, text, find)]
    changed = {path: text for path, text in after.items() if text != before.get(path) and path not in wrong}
    done = store.carry_out(_make_planner(before, changed), verb="revert", origin=origin) if changed else None
    names = tuple(name_memory(path) for path in sorted(changed))
    left = tuple(name_memory(path) for path in sorted(wrong) if after[path] != before.get(path))
    return Reverted(done.act if done else None, len(commits), names, left)


def _turn_round(copy: Copy, commits: Sequence[Commit], before: Texts) -> Texts:
    state = dict(before)
    wanted = [(at.sha, path) for at in commits for path in at.changes if path != INDEX_FILE and _is_memory(path)]
    texts = read_versions(copy, [spec for sha, path in wanted for spec in ((sha, path), (f"{sha}^", path))])
    for sha, path in wanted:
        state[path] = _turn_one(texts.get((sha, path)), state.get(path), texts.get((f"{sha}^", path)))
    return state


def _turn_one(theirs: str | None, now: str | None, older: str | None) -> str | None:
    """One file without what one commit did to it: `theirs` is what it left, `older` what it found."""
    if now == theirs:
        return older
    if now is None or theirs is None:
        return now  # somebody else has decided since
    if older is not None:
        return merge_memory(theirs, now, older).text
    pieces = [split_paragraphs(split(text).body) for text in (theirs, now)]
    left = merge_units(pieces[0], pieces[1], ()).pieces
    if not left:
        return None
    parts = split(now)
    return parts.opening + parts.head + parts.closing + "\n" + "\n\n".join(left) + "\n"


def _make_planner(before: Mapping[str, str | None], changed: Mapping[str, str | None]) -> Planner:
    def planner(view: View) -> list[Planned]:
        overlay = Overlay(view)
        for path, text in changed.items():
            found = view.read_bytes(f"{TEAM_FOLDER}/{path}")
            if found != _encode(before.get(path)):
                raise ConflictError(f"{name_memory(path)} changed meanwhile", hint="try again")
            overlay.put([Planned(f"{TEAM_FOLDER}/{path}", found, _encode(text))])
        names = [name_memory(path) for path in changed]
        overlay.put(plan_dead(overlay, names))
        overlay.put(plan_pointers(overlay, names))
        return list(overlay.list_changes())

    return planner


def _encode(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _is_memory(path: str) -> bool:
    return not judge_place(path, PLAIN_MODE, 0)


def _is_refused(path: str, text: str, find: Finder) -> bool:
    return judge_text(path, text.encode("utf-8", "surrogateescape"), find).ruling is Ruling.REFUSE
