"""Verification: what a memory names, looked up in the project, without a model.

    records.py    claims, what came of each, the verdict on a memory; the caveat in words
    cached.py     verdicts kept in the derived index: one SQLite read, no git; what recall, status and doctor may use
    spans.py      Markdown -> code, shell and prose, each with its place
    shapes.py     what a path, a symbol, a constant, a flag looks like
    commands.py   command lines: scripts, targets, the paths, flags and variables in them
    claims.py     a memory's text -> claims; precision first
    deadlines.py  dates that end something
    project.py    the project's files by git's own listing, or a bounded walk; a key of its state
    words.py      one pass over the files for all wanted words; lines that define
    manifests.py  scripts, targets and dependencies that manifests name
    gitlog.py     `git log` as a stream, within a time
    successors.py what took a word's place in a patch
    past.py       history from the newest commit back: renames, removals, what came with them
    ground.py     one project made ready for a set of claims
    path_lookup.py word_lookup.py tool_lookup.py
                  paths; symbols, constants, variables; scripts, flags, packages, branches
    looking.py    claims and a project -> present, moved, gone, passed or not checkable
    verifying.py  a store against its project: `verify`, `refresh`, `stamp`

Recall imports `records` and `cached` alone. Nothing here writes the project, runs its hooks or asks a model.
"""

import hashlib
import time
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from memdir.errors import DiskError, FormatError, MemdirError, NotFoundError
from memdir.files import note_event, read_events
from memdir.format.age import find_link_target, make_targets
from memdir.format.frontmatter import set_fields
from memdir.frozen import dataclass, replace
from memdir.limits import VERIFY_EVERY_MINUTES, VERIFY_GIT_SECONDS, VERIFY_PAST_SECONDS, VERIFY_REFRESH_SECONDS
from memdir.project.git import run_git
from memdir.records import Header, Memory, Origin, Rewrite, Scope
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.verify.claims import find_claims
from memdir.verify.lookup import LookupContext, check_claims, drop_weak, read_branches
from memdir.verify.project import ProjectListing, open_project
from memdir.verify.records import (
    CachedVerdict,
    CheckedClaim,
    Claim,
    ClaimKind,
    ClaimStatus,
    Verdict,
    VerifyState,
    find_state,
    read_known,
    render_signature,
    write_verdicts,
)

# --- verifying ---
# A store against its project: every memory's claims looked up, the verdicts kept, and stamped where wanted.
#
#     verify(store, root, names=None, *, now) -> Report   all memories, or some; from the cache where nothing has
# changed
#     refresh(store, root, *, now, seconds) -> int        the same within a time, quietly, for whoever works in
# background
#     stamp(store, report, *, now, origin) -> Stamped     `verified:` written into what was verified, as one change
#
# A memory is looked up again when its text has changed, or anything in the project has. Without a project (`root`
# None:
# user memory, which speaks of no project in particular) dates and links are all that is checked.

Progress = Callable[[str], None]
_CUT = " cut:"  # in the key of a verdict for which the time was too short, followed by that time in seconds


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The verdict on each memory that was asked for, in the store's order; `fresh`: so many were reached now.

    `problem` says why the project could not be looked at; then only verdicts on dates and links are kept.
    """

    verdicts: tuple[Verdict, ...]
    fresh: int = 0
    problem: str = ""

    @property
    def has_stale(self) -> bool:
        return any(at.stale for at in self.verdicts)


@dataclass(frozen=True, slots=True)
class StampResult:
    """What stamping did: the change, None if nothing was to do, and the names; what could not be stamped, and why."""

    change: int | None
    names: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def verify(
    store: FileStore,
    root: Path | None,
    names: Sequence[str] | None = None,
    *,
    now: datetime,
    changed_only: bool = False,
    seconds: float = VERIFY_PAST_SECONDS,
    on_progress: Progress = lambda text: None,
    give_way: Callable[[], object] = lambda: None,
) -> VerifyReport:
    """Verdicts on all memories, or on those named. `changed_only` leaves out those that nothing new can be said of.

    `seconds` is how long git's history may be searched. `give_way` is called again and again, and may take its time:
    whoever works beside a person lets them go first. A name that is no memory raises NotFoundError.
    """
    headers = store.scan()
    chosen = _choose(headers, names)
    known = read_known(store)
    on_progress("listing the project")
    project = None if root is None else open_project(root)
    ground = _Ground(store, headers, project, now)
    readable, due, moved = _sort_out(store, chosen, known, lambda at: ground.holds(at, seconds), give_way)
    if changed_only:
        due = [memory for memory in due if ground.is_touched(memory, known.get(memory.header.name))]
    on_progress(f"verifying {len(due)} memories" if due else "")
    fresh = ground.check(due, seconds, give_way)
    there = {header.name for header in headers}
    gone = [name for name in known if name not in there]
    problem = project.problem if project is not None else ""
    kept = [at for at in fresh if not problem or _needs_no_project(at.verdict)]
    if kept or moved or (gone and not problem):
        write_verdicts(store, [*kept, *moved], gone)
    reached = {at.verdict.name: at.verdict for at in fresh}
    wanted = [memory.header.name for memory in due] if changed_only else readable
    found = [reached.get(name) or known[name].verdict for name in wanted]
    return VerifyReport(tuple(found), 0 if problem else len(fresh), problem)


def refresh(
    store: FileStore,
    root: Path | None,
    *,
    now: datetime,
    seconds: float = VERIFY_REFRESH_SECONDS,
    give_way: Callable[[], object] = lambda: None,
) -> int:
    """Bring the kept verdicts up to date as far as the time reaches; answers how many were reached anew."""
    try:
        return verify(store, root, now=now, seconds=seconds, give_way=give_way).fresh
    except MemdirError:
        return 0


def stamp(store: FileStore, report: VerifyReport, *, now: datetime, origin: Origin) -> StampResult:
    """Write `verified:` into each memory whose claims all hold, as one change; every other byte stays.

    Nothing is stamped where the project could not be looked at.
    """
    if report.problem:
        return StampResult(
            None, (), tuple((at.name, report.problem) for at in report.verdicts if at.state is VerifyState.VERIFIED)
        )
    moment = now.astimezone().isoformat(timespec="seconds")
    edits: list[Rewrite] = []
    refused: list[tuple[str, str]] = []
    for verdict in report.verdicts:
        if verdict.state is VerifyState.VERIFIED:
            try:
                edits.append(_plan_stamp(store, verdict, moment))
            except (FormatError, NotFoundError, DiskError) as error:
                refused.append((verdict.name, str(error)))
    if not edits:
        return StampResult(None, (), tuple(refused))
    changed = store.change(edits, verb="verify", origin=origin, drop_conflicts=True)
    refused += [(name, "it has changed meanwhile") for name in changed.dropped]
    done = tuple(edit.name for edit in edits if edit.name not in changed.dropped)
    _carry_over(store, done)
    return StampResult(changed.change, done, tuple(refused))


def _needs_no_project(verdict: Verdict) -> bool:
    """Whether all it says can be said without a look at the project: of dates and links."""
    return all(at.claim.kind in (ClaimKind.DATE, ClaimKind.LINK) for at in verdict.claims)


def _plan_stamp(store: FileStore, verdict: Verdict, moment: str) -> Rewrite:
    memory = store.read(verdict.name)
    if memory.header.problem:
        raise FormatError(memory.header.problem, field="frontmatter")
    if "\ufffd" in memory.text:
        raise FormatError("it is not UTF-8", field="frontmatter")
    return Rewrite(verdict.name, set_fields(memory.text, {"verified": moment}), verdict.digest)


def _carry_over(store: FileStore, names: Sequence[str]) -> None:
    """The stamp changed a memory's bytes and none of its claims: what is known of it still holds, at other places."""
    known = read_known(store)
    kept = []
    for name in names:
        memory, at = _read(store, name), known.get(name)
        if memory is not None and at is not None and memory.digest != at.verdict.digest:
            places: dict[tuple[ClaimKind, str], list[Claim]] = {}
            for claim in find_claims(memory.text, memory.header.kind):
                places.setdefault((claim.kind, claim.text), []).append(claim)
            claims = tuple(replace(one, claim=_take_place(places, one.claim)) for one in at.verdict.claims)
            verdict = replace(at.verdict, digest=memory.digest, claims=claims)
            kept.append(CachedVerdict(verdict, at.tree, render_signature(memory.header.signature)))
    if kept:
        write_verdicts(store, kept)


def _take_place(places: dict[tuple[ClaimKind, str], list[Claim]], claim: Claim) -> Claim:
    same = places.get((claim.kind, claim.text))
    return same.pop(0) if same else claim


def _choose(headers: Sequence[Header], names: Sequence[str] | None) -> list[Header]:
    if names is None:
        return list(headers)
    by_name = {header.name: header for header in headers}
    for name in names:
        if name not in by_name:
            raise NotFoundError(f"no memory named {name}", name=name)
    return [by_name[name] for name in dict.fromkeys(names)]


def _read(store: FileStore, name: str) -> Memory | None:
    try:
        return store.read(name)
    except MemdirError:
        return None


def _sort_out(
    store: FileStore,
    headers: Sequence[Header],
    known: Mapping[str, CachedVerdict],
    holds: Callable[[CachedVerdict], bool],
    give_way: Callable[[], object],
) -> tuple[list[str], list[Memory], list[CachedVerdict]]:
    """The names of what can be read, the memories that are due, and verdicts that hold for a file that is another.

    A file that is the one of a verdict that holds is not opened: of many memories nearly all are such.
    """
    names: list[str] = []
    due: list[Memory] = []
    moved: list[CachedVerdict] = []
    for header in headers:
        give_way()
        at = known.get(header.name)
        if at is not None and not holds(at):
            at = None
        if at is None or at.signature != render_signature(header.signature):
            memory = _read(store, header.name)
            if memory is None:
                continue
            if at is None or at.verdict.digest != memory.digest:
                due.append(memory)
            else:
                moved.append(replace(at, signature=render_signature(memory.header.signature)))
        names.append(header.name)
    return names, due, moved


class _Ground:
    """What verdicts are compared with, so that one can be told from a verdict on another state of things."""

    def __init__(
        self, store: FileStore, headers: Sequence[Header], project: ProjectListing | None, now: datetime
    ) -> None:
        self.store, self.project, self.now = store, project, now
        self.targets = make_targets(headers)
        self.today = now.astimezone().date()
        self._names = _digest("\n".join(sorted(header.name for header in headers)))
        self._branches: str | None = None
        self._changed: dict[tuple[str, datetime], frozenset[str] | None] = {}

    def holds(self, known: CachedVerdict, seconds: float) -> bool:
        """Whether a verdict holds if the text is the same; one cut short does where there is no more time now."""
        tree, _, cut = known.tree.partition(_CUT)
        return tree == self._key(known.verdict.claims) and (not cut or float(cut) >= seconds)

    def is_touched(self, memory: Memory, known: CachedVerdict | None) -> bool:
        """Whether something the memory names lies in a file that has changed since it was verified."""
        if known is None or known.verdict.digest != memory.digest:
            return True
        if any(at.claim.kind in (ClaimKind.DATE, ClaimKind.LINK, ClaimKind.BRANCH) for at in known.verdict.claims):
            return True
        since = known.tree.partition(" ")[0], known.verdict.checked
        if since not in self._changed:
            self._changed[since] = self._find_changed(*since)
        changed = self._changed[since]
        return changed is None or any(
            at.status is not ClaimStatus.PRESENT or at.where in changed or not self._has(at.where)
            for at in known.verdict.claims
            if not at.claim.reason
        )

    def check(self, memories: Sequence[Memory], seconds: float, give_way: Callable[[], object]) -> list[CachedVerdict]:
        """Verdicts on these memories, all their claims looked up together."""
        claims = {}
        for memory in memories:
            give_way()
            claims[memory.header.name] = find_claims(memory.text, memory.header.kind)
        around = LookupContext(self.today, lambda link: find_link_target(link, self.targets), self._had_memory)
        flat = [claim for found in claims.values() for claim in found]
        ends = time.monotonic() + seconds
        answers = iter(check_claims(flat, self.project, around, seconds=seconds) if flat else ())
        is_cut = self.project is not None and time.monotonic() >= ends
        made = []
        for memory in memories:
            give_way()
            checked = drop_weak([next(answers) for _ in claims[memory.header.name]])
            verdict = Verdict(memory.header.name, memory.digest, find_state(checked), self.now, checked)
            is_open = is_cut and any(at.status is ClaimStatus.UNKNOWN and not at.claim.reason for at in checked)
            tree = self._key(checked) + (f"{_CUT}{seconds:g}" if is_open else "")
            made.append(CachedVerdict(verdict, tree, render_signature(memory.header.signature)))
        return made

    def _key(self, claims: Sequence[CheckedClaim]) -> str:
        """The state of everything these claims depend on: commit, files, and what else their kinds look at."""
        kinds = {at.claim.kind for at in claims}
        parts = [self.project.commit or "-", self.project.key] if self.project else ["-", "-"]
        if ClaimKind.DATE in kinds:
            parts.append(self.today.isoformat())
        if ClaimKind.LINK in kinds:
            parts.append(self._names)
        if ClaimKind.BRANCH in kinds and self.project:
            if self._branches is None:
                self._branches = _digest("\n".join(sorted(read_branches(self.project))))
            parts.append(self._branches)
        return " ".join(parts)

    def _has(self, where: str) -> bool:
        """Whether the file that a thing was found in is there still; what was found in none is."""
        return not where or self.project is None or self.project.has(where)

    def _find_changed(self, commit: str, checked: datetime) -> frozenset[str] | None:
        """Files that differ from those of a commit, or are newer than a verdict; None if git cannot say."""
        if self.project is None or not self.project.commit or len(commit) < 40 or not commit.isalnum():
            return None
        asked = ("diff", "--name-only", "-z", "--no-ext-diff", "--no-renames", commit, self.project.commit, "--")
        code, output = run_git(self.project.root, asked, VERIFY_GIT_SECONDS)
        if code != 0:
            return None
        since = checked.timestamp() * 1e9
        newer = (path for path, entry in self.project.entries.items() if entry.mtime_ns >= since)
        return frozenset((*output.split("\0"), *newer))

    def _had_memory(self, link: str) -> bool:
        try:
            return bool(self.store.changes(link.strip().removesuffix(".md")))
        except MemdirError:
            return False


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


# --- refreshing ---
# Verdicts brought up to date beside a conversation, so that recall has caveats to tell without looking at a project.
#
# The queue's worker calls it when it has learned from what waited. At most once in a while, which is known from the
# diary of events; a project in which nothing has changed takes a listing. Whatever goes wrong, the verdicts are as old
# as they were.

HOST, EVENT = "memdir", "verify"


def refresh_verdicts(opened: Project, *, now: datetime, give_way: Callable[[], object] = lambda: None) -> int | None:
    """Look again at what memories claim; answers how many verdicts were reached anew, None if it is not time.

    `give_way` is called again and again, and may take its time.
    """
    if not opened.places.switch.on or opened.settings.flag("paused"):
        return None
    if not opened.private.root.is_dir() or not is_refresh_due(opened, now):
        return None
    note_event(opened.private.state, HOST, EVENT, now)
    root = opened.places.root.path
    roots = [(at, None if at.scope is Scope.USER else root) for at in opened.stores]
    return sum(refresh(store, place, now=now, give_way=give_way) for store, place in roots)


def is_refresh_due(opened: Project, now: datetime) -> bool:
    """Whether the last time is long enough ago; one that lies ahead says nothing."""
    last = next((at.at for at in read_events(opened.private.state) if (at.host, at.event) == (HOST, EVENT)), None)
    return last is None or abs(now - last) >= timedelta(minutes=VERIFY_EVERY_MINUTES)
