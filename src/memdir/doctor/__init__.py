"""What is wrong in a memory directory and around it, in one line each with the fix. It repairs derived state alone.

    findings.py    the kinds, how grave each is, and the record
    files.py       files, heads, names, copies, links
    indexes.py     MEMORY.md
    past.py        history and the lock of the dream
    texts.py       stale claims, contradictions, secrets, memories never recalled
    seen_clean.py  texts that were searched for secrets already
    background.py  hooks, queue
    shared.py      the team's sync
    configured.py  settings

Memories themselves are never changed here: index lines and caches can be rebuilt, topic files cannot.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from memdir.doctor.background import Ran, check_hooks, check_problems, check_queue
from memdir.doctor.configured import check_settings
from memdir.doctor.files import check_duplicates, check_entries, check_headers, check_links, check_shared
from memdir.doctor.findings import LEVELS, Finding, count_kinds, order
from memdir.doctor.indexes import check_index
from memdir.doctor.past import check_dream, check_history, check_step
from memdir.doctor.shared import check_team
from memdir.doctor.texts import check_contradictions, check_secrets, check_uses, check_verdicts
from memdir.errors import MemdirError
from memdir.events import clear_problems
from memdir.hosts.places import Installed
from memdir.records import Header, Memory, Origin
from memdir.secrets.own import Own
from memdir.store.files import FileStore
from memdir.store.plan import TEAM_FOLDER

__all__ = [
    "LEVELS",
    "Finding",
    "Ran",
    "check_settings",
    "count_kinds",
    "examine",
    "examine_background",
    "repair",
    "repair_background",
]

DOCTOR = Origin(who="doctor", why="derived state repaired")
_NO_RULES = Own()


def examine(store: FileStore, *, skip_index: bool = False, own: Own = _NO_RULES) -> tuple[Finding, ...]:
    """Everything that is wrong with one directory, in the order of `LEVELS`. `own` are a person's rules for secrets."""
    headers = store.scan()
    memories = list(_read_all(store, headers))
    checks: list[Callable[[], Iterator[Finding]]] = [
        lambda: check_entries(store),
        lambda: check_headers(headers),
        lambda: check_shared(store, headers),
        lambda: check_duplicates(memories),
        lambda: check_links(memories),
        lambda: check_history(store),
        lambda: check_step(store, memories),
        lambda: check_dream(store),
        lambda: check_verdicts(store, memories),
        lambda: check_contradictions(memories),
        lambda: check_secrets(store, memories, own),
        lambda: check_uses(store, memories, store.clock()),
    ]
    if not skip_index:
        checks += [lambda: check_index(store, headers, ""), lambda: check_index(store, headers, TEAM_FOLDER)]
    return tuple(sorted((finding for check in checks for finding in check()), key=order))


def examine_background(
    state: Path, *, now: datetime, installed: Sequence[Installed] = (), ran: Sequence[Ran] = ()
) -> tuple[Finding, ...]:
    """What is wrong with a project's hooks, worker and sync; `state` is the state folder of its own memory."""
    checks = (
        check_hooks(state, installed, ran, now),
        check_problems(state, now),
        check_queue(state, now),
        check_team(state, now),
    )
    return tuple(sorted((finding for check in checks for finding in check), key=order))


def repair(store: FileStore, findings: Sequence[Finding]) -> int:
    """Rebuild what can be rebuilt, each as an act that can be undone; answers how many findings that settled."""
    orphans = [at.where.removesuffix(".md") for at in findings if at.kind == "orphan" and at.fixable]
    dead = [finding.message.split("`")[1].removesuffix(".md") for finding in findings if finding.kind == "dead_pointer"]
    unseen = [finding for finding in findings if finding.kind == "out_of_step"]
    if unseen:
        store.notice()
    if orphans:
        store.add_pointers(orphans, origin=DOCTOR)
    if dead:
        store.drop_pointers(dead, origin=DOCTOR)
    return len(orphans) + len(dead) + len(unseen)


def repair_background(state: Path, findings: Sequence[Finding], *, now: datetime) -> int:
    """Take what went wrong in hooks as read; answers how many findings that settled."""
    problems = [finding for finding in findings if finding.kind == "hook_problem"]
    if problems:
        clear_problems(state, until=now)
    return len(problems)


def _read_all(store: FileStore, headers: Sequence[Header]) -> Iterator[Memory]:
    for header in headers:
        try:
            yield store.read(header.name)
        except MemdirError:
            continue
