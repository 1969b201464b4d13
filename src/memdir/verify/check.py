"""Verify the memories of a store against its project: check their claims and cache the verdicts.

A memory is verified again when its text or the project has changed. Without a project (for user memory) only
dates and links are checked. A worker calls `refresh_verdicts` during a conversation, so that recall has caveats without
reading the project.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from pathlib import Path

from memdir.errors import DiskError, FormatError, MemdirError, NotFoundError
from memdir.format.age import find_link_target, make_targets
from memdir.format.frontmatter import digest_of
from memdir.frozen import dataclass, replace
from memdir.limits import VERIFY_EVERY_MINUTES, VERIFY_PAST_SECONDS, VERIFY_REFRESH_SECONDS
from memdir.records import Header, Origin, Rewrite, Scope, StoredMemory
from memdir.store.contract import Folder, StoreBase
from memdir.store.files import FileStore
from memdir.store.open import Project
from memdir.store.state import note_event, read_events
from memdir.verify import records
from memdir.verify.claims import find_claims
from memdir.verify.lookup import LookupContext, check_claims
from memdir.verify.project import ProjectListing, open_project
from memdir.verify.records import CheckedClaim, ClaimKind, ClaimStatus, Verdict, VerifyState, mark_verified

HOST, EVENT = "memdir", "verify"  # in the recorded events
_CUT = " cut:"  # in the key of a verdict that ran out of time, followed by its time limit in seconds


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The verdicts on a store's memories. `fresh` counts the new verdicts; `problem` is set if reading failed."""

    verdicts: tuple[Verdict, ...]
    fresh: int = 0
    problem: str = ""

    @property
    def has_stale(self) -> bool:
        return any(verdict.stale for verdict in self.verdicts)


@dataclass(frozen=True, slots=True)
class StampResult:
    """The result of marking memories as verified, with the names that were refused and the reasons."""

    change: int | None
    names: tuple[str, ...] = ()
    refused: tuple[tuple[str, str], ...] = ()


def verify(
    store: Folder,
    root: Path | None,
    names: Sequence[str] | None = None,
    *,
    now: datetime,
    seconds: float = VERIFY_PAST_SECONDS,
    on_progress: Callable[[str, int, int], object] = lambda text, done, total: None,
) -> VerifyReport:
    """Return verdicts on all memories, or on those named.

    `seconds` limits the search in git's history. `on_progress` receives the step, the number of memories done, and the total. Raises NotFoundError if a
    name is not a memory.
    """
    headers = store.scan()
    by_name = {header.name: header for header in headers}
    for name in names or ():
        if name not in by_name:
            raise NotFoundError(f"no memory named {name}", name=name)
    chosen = headers if names is None else [by_name[name] for name in dict.fromkeys(names)]
    known = records.read_verdicts(store)
    on_progress("listing the project", 0, 0)
    project = None if root is None else open_project(root)
    context = VerifyContext(store, headers, project, now)
    readable, due, moved = _find_due(store, chosen, known, lambda cached: context.holds(cached, seconds))
    fresh = context.check(due, seconds, on_progress)
    gone = [name for name in known if name not in by_name]
    problem = project.problem if project is not None else ""
    offline = (ClaimKind.DATE, ClaimKind.LINK)  # these need no project
    reliable = [verdict for verdict in fresh if not problem or all(row.claim.kind in offline for row in verdict.claims)]
    if reliable or moved or (gone and not problem):
        records.write_verdicts(store, [*reliable, *moved], gone)
    fresh_by_name = {verdict.name: verdict for verdict in fresh}
    verdicts = [fresh_by_name.get(name) or known[name] for name in readable]
    return VerifyReport(tuple(verdicts), 0 if problem else len(fresh), problem)


def refresh(
    store: Folder,
    root: Path | None,
    *,
    now: datetime,
    seconds: float = VERIFY_REFRESH_SECONDS,
) -> int:
    """Update the cached verdicts within a time limit. Return the number of new verdicts."""
    try:
        return verify(store, root, now=now, seconds=seconds).fresh
    except MemdirError:
        return 0


def refresh_verdicts(project: Project, *, now: datetime) -> int | None:
    """Update the verdicts of all stores of a project. Return how many are new, or None if no update is due."""
    if not project.private.root.is_dir() or not is_refresh_due(project, now):
        return None
    note_event(project.private.state, HOST, EVENT, now)
    root = project.places.root.path
    roots = [(store, None if store.scope is Scope.USER else root) for store in project.stores]
    return sum(refresh(store, place, now=now) for store, place in roots)


def is_refresh_due(project: Project, now: datetime) -> bool:
    events = read_events(project.private.state)
    last = next((event.at for event in events if (event.host, event.event) == (HOST, EVENT)), None)
    return last is None or abs(now - last) >= timedelta(minutes=VERIFY_EVERY_MINUTES)


def stamp(store: FileStore, report: VerifyReport, *, now: datetime, origin: Origin) -> StampResult:
    """Write `verified:` into each memory whose claims are all true, as one change in the history."""
    edits: list[Rewrite] = []
    refused: list[tuple[str, str]] = []
    for verdict in report.verdicts:
        if verdict.state is VerifyState.VERIFIED:
            try:
                if report.problem:
                    raise FormatError(report.problem, field="frontmatter")
                # The verdict is about the version with its own digest, which may not be the current one.
                edits.append(replace(mark_verified(store.read(verdict.name), now), expect=verdict.digest))
            except (FormatError, NotFoundError, DiskError) as error:
                refused.append((verdict.name, str(error)))
    if not edits:
        return StampResult(None, (), tuple(refused))
    changed = store.change(edits, verb="verify", origin=origin, drop_conflicts=True)
    refused += [(name, "it has changed since it was verified") for name in changed.dropped]
    stamped = tuple(edit.name for edit in edits if edit.name not in changed.dropped)
    return StampResult(changed.change, stamped, tuple(refused))


def _read_memory(store: Folder, name: str) -> StoredMemory | None:
    try:
        return store.read(name)
    except MemdirError:
        return None


def _find_due(
    store: Folder,
    headers: Sequence[Header],
    known: Mapping[str, Verdict],
    is_valid: Callable[[Verdict], bool],
) -> tuple[list[str], list[StoredMemory], list[Verdict]]:
    """Return the names of the readable memories, the memories to verify, and valid verdicts with a new signature."""
    names: list[str] = []
    due: list[StoredMemory] = []
    moved: list[Verdict] = []
    for header in headers:
        cached = known.get(header.name)
        cached = cached if cached is not None and is_valid(cached) else None
        if cached is None or cached.signature != records.render_signature(header.signature):
            memory = _read_memory(store, header.name)
            if memory is None:
                continue
            if cached is None or cached.digest != memory.digest:
                due.append(memory)
            else:
                moved.append(replace(cached, signature=records.render_signature(memory.header.signature)))
        names.append(header.name)
    return names, due, moved


class VerifyContext:
    """The state of the project and the store, with which verdicts are made and cached verdicts compared."""

    def __init__(self, store: Folder, headers: Sequence[Header], project: ProjectListing | None, now: datetime) -> None:
        self.store, self.project, self.now = store, project, now
        self.targets = make_targets(headers)
        self.today = now.astimezone().date()
        self._names = digest_of("\n".join(sorted(header.name for header in headers)).encode("utf-8", "replace"))[:16]

    def holds(self, known: Verdict, seconds: float) -> bool:
        """Return whether a cached verdict is current, and, if it is incomplete, was not made in less than `seconds`."""
        tree, _, cut = known.tree.partition(_CUT)
        return tree == self._make_key(known.claims) and (not cut or float(cut) >= seconds)

    def check(
        self,
        memories: Sequence[StoredMemory],
        seconds: float,
        on_progress: Callable[[str, int, int], object],
    ) -> list[Verdict]:
        claims = {}
        for number, memory in enumerate(memories):
            on_progress("reading memories", number, len(memories))
            claims[memory.header.name] = find_claims(memory.text, memory.header.kind)
        context = LookupContext(self.today, lambda link: find_link_target(link, self.targets), self._had_memory)
        flat = [claim for memory_claims in claims.values() for claim in memory_claims]
        on_progress(f"looking up {len(flat):,} names and dates, history at most {seconds:g} s" if flat else "", 0, 0)
        ends = time.monotonic() + seconds
        results = iter(check_claims(flat, self.project, context, seconds=seconds) if flat else ())
        is_cut = self.project is not None and time.monotonic() >= ends
        cached = []
        for memory in memories:
            checked = drop_weak([next(results) for _ in claims[memory.header.name]])
            is_open = is_cut and any(row.status is ClaimStatus.UNKNOWN and not row.claim.reason for row in checked)
            tree = self._make_key(checked) + (f"{_CUT}{seconds:g}" if is_open else "")
            facts = (memory.header.name, memory.digest, records.find_state(checked), self.now, checked, tree)
            cached.append(Verdict(*facts, records.render_signature(memory.header.signature)))
        return cached

    def _make_key(self, claims: Sequence[CheckedClaim]) -> str:
        """Return a key for the state of everything that these claims depend on."""
        kinds = {claim.claim.kind for claim in claims}
        parts = [self.project.commit or "-", self.project.key] if self.project else ["-", "-"]
        if ClaimKind.DATE in kinds:
            parts.append(self.today.isoformat())
        if ClaimKind.LINK in kinds:
            parts.append(self._names)
        return " ".join(parts)

    def _had_memory(self, link: str) -> bool:
        try:
            return isinstance(self.store, StoreBase) and bool(self.store.changes(link.strip().removesuffix(".md")))
        except MemdirError:
            return False


def drop_weak(checked: Iterable[CheckedClaim]) -> tuple[CheckedClaim, ...]:
    """Return the checked claims, except weak claims whose status is unknown."""
    return tuple(row for row in checked if not (row.claim.is_weak and row.status is ClaimStatus.UNKNOWN))
