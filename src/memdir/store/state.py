"""The files in the state folder of a memory directory: their names, readers, and how to purge a memory from them.

STATE_FILES lists all of them. `forget --purge` walks that list, so every new file needs a row with a description and a way
to remove a memory. Tables are JSON objects with mode 0600, replaced in one step; a missing or broken one counts as empty.
State files and folders may not be symbolic links, which could lead to files of other users.
"""

import json
import os
import re
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

from memdir.errors import DiskError, PathError
from memdir.files import (
    NOFOLLOW,
    append_private,
    hold_folder,
    make_private_dirs,
    raise_disk_errors,
    read_small,
    sync_dir,
    write_private,
)
from memdir.format.frontmatter import digest_of
from memdir.frozen import compile_late, dataclass, replace
from memdir.limits import DREAM_SETS, SESSION_BYTES, SESSION_SECONDS
from memdir.project.paths import CONFIG_BYTES, find_git_dir, parse_config, slug
from memdir.project.settings import Environment, Settings
from memdir.store.plan import is_team
from memdir.text import as_table, fold, one_line, parse_json, replace_surrogates, shorten

SESSIONS_FOLDER = "sessions"
QUEUE_FOLDER = "queue"
ENDED_FOLDER = "ended"  # in the user's state folder
DREAMS_FOLDER = "dreams"
CHATS_FOLDER = "chats"
COPY = "team.git"
POINT = "team-point.json"
RECORD = "team-sync.json"
NEWS = "team-news.json"
MANIFEST = "team-server.json"
AUTHORS = "team-authors.json"
OWN_POINT = "sync-point.json"
OWN_PROJECT = "sync-project.json"
OWN_COPY = "sync.git"  # this and the next are in the folder of `find_own_sync`
OWN_SETUP = "sync.json"
OWN_FOLDER = "sync"
_NOT_IN_NAMES = str.maketrans(dict.fromkeys('"“”„«»<>[]{}`*#|\\:;：；', " "))
INDEX = "index.db"
EVENTS_FOLDER = "events"
FREQUENT = "frequent.json"
OVERRIDES = "overrides.json"
PROBLEMS = "problems.jsonl"
SAVED = "saved.jsonl"
LEARNED = "imported-chats"
_LEARNED_BYTES = 16_777_216  # some 300,000 conversations
NO_PERMISSION = "no permission"
_EVENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,47}")  # hosts and events alike; a dot separates the two
_PROBLEM_CHARS = 300  # characters of one problem
_PROBLEMS_KEPT = 20  # problems
_PROBLEM_BYTES = 65_536  # far above what _PROBLEMS_KEPT lines can need
_SAVED_BYTES = 65_536  # of the titles not shown yet
_SAVED_KEPT = 100
_EVENTS_READ = 500  # files read; any program can fill the folder
_SESSIONS_LOCK = "lock"
PRUNED = ".pruned"  # next to the records; its time is when old ones were last removed
_TABLE_BYTES = 67_108_864  # all names of a team and its index; far more than a dream may write
_SET_ID = compile_late(r"[0-9a-z][0-9a-z-]{0,60}")
_PLAIN_ID = re.compile(r"[a-z0-9][a-z0-9_-]{0,79}")
_OWN_AUTHOR = "default"  # the setting's value for the author in git's configuration
_AUTHOR_CHARS = 100  # of a name or an address
_EDIT_SUFFIX = ".md"  # editors know it, and the folder is not a memory directory
_EDIT_BYTES = 180  # file systems allow 255, and a random part is added


_RUNS_BYTES = 2_097_152
_RUNS_KEPT = 500
RUNS = "runs.jsonl"  # background runs


@dataclass(frozen=True, slots=True)
class PurgedMemory:
    """A memory to purge."""

    name: str
    lock_seconds: float = SESSION_SECONDS


@dataclass(frozen=True, slots=True)
class StateFile:
    """A file or folder in a state folder. `purge` removes a memory from it; None if it never contains memory text."""

    name: str
    what: str
    purge: Callable[[Path, PurgedMemory], object] | None = None
    is_folder: bool = False


def find_bad_files(state: Path) -> Iterator[tuple[Path, str]]:
    """Yield unusable state files with the reason: a link, the wrong file type, or missing permissions."""
    if not os.path.lexists(state):
        return
    rows = [(state, True)]
    if not _find_bad(state, is_folder=True):
        leaves = sorted(os.listdir(state))
        rows = [(state / leaf, row.is_folder) for row in STATE_FILES for leaf in leaves if fnmatchcase(leaf, row.name)]
    for path, is_folder in rows:
        if reason := _find_bad(path, is_folder=is_folder):
            yield path, reason


def _find_bad(path: Path, *, is_folder: bool) -> str:
    try:
        mode = os.lstat(path).st_mode
    except OSError as error:
        return (error.strerror or "it cannot be read").lower()
    if stat.S_ISLNK(mode):
        return "it is a symbolic link"
    if not (stat.S_ISDIR(mode) if is_folder else stat.S_ISREG(mode)):
        return "it is not a folder" if is_folder else "it is not a plain file"
    rights = os.R_OK | os.W_OK | (os.X_OK if is_folder else 0)
    return "" if os.access(path, rights) else NO_PERMISSION


def purge_state(state: Path, aside: Iterable[Path], memory: PurgedMemory) -> None:
    """Remove a memory from every file of a state folder, and of the folders that `relink` has moved into it."""
    replaced = list(aside)
    for row in STATE_FILES:
        if row.purge is not None:
            for folder in [state, *(path.parent for old in replaced for path in old.rglob(row.name))]:
                row.purge(folder, memory)


def find_link(folder: Path) -> Path | None:
    """Return the folder or its parent if that is a symbolic link, or None."""
    return next((path for path in (folder.parent, folder) if os.path.islink(path)), None)


def check_no_link(folder: Path) -> None:
    if link := find_link(folder):
        raise PathError(str(link), "it is a symbolic link")


def read_table(folder: Path, file: str, limit: int = _TABLE_BYTES) -> dict[str, object]:
    """Return the JSON object in a file, empty if there is none."""
    if find_link(folder / file):
        return {}
    return dict(as_table(parse_json(read_small(folder / file, limit, follow=False).data or b"{}")))


def write_table(folder: Path, file: str, table: Mapping[str, object], *, durable: bool = True) -> None:
    """Replace a file with this table. Raises DiskError or PathError."""
    check_no_link(folder / file)
    write_private(folder / file, json.dumps(dict(table)).encode("ascii") + b"\n", durable=durable)


def read_time(value: object) -> datetime | None:
    """Parse a time with a zone from a table; return None for anything else."""
    try:
        when = datetime.fromisoformat(str(value))
    except ValueError:
        return None
    return when if when.tzinfo else None


def digest_text(text: str) -> str:
    return digest_of(text.encode("utf-8", "surrogatepass"))[:20]


def make_leaf(id: str) -> str:
    """Return an ID as a file name: unchanged if plain, otherwise with a dot and a digest to avoid collisions."""
    if _PLAIN_ID.fullmatch(id):
        return id
    clean = re.sub(r"[^a-z0-9_-]+", "-", id[:200].lower()).strip("-_")[:40]
    return f"{clean or 'session'}.{digest_text(id)}"


@contextmanager
def hold_sessions(folder: Path, seconds: float) -> Iterator[int]:
    """Hold the lock on all conversation records of a folder, and yield the folder's descriptor."""
    check_no_link(folder)
    with raise_disk_errors(folder):
        make_private_dirs(folder)
        with hold_folder(folder, _SESSIONS_LOCK, seconds=seconds) as lock:
            yield lock


def list_session_files(folder: Path) -> list[os.DirEntry[str]]:
    with os.scandir(folder) as entries:
        return [
            entry
            for entry in entries
            if entry.name not in (_SESSIONS_LOCK, PRUNED) and not entry.is_dir(follow_symlinks=False)
        ]


def drop_name(state: Path, name: str, *, seconds: float) -> int:
    """Remove a memory's name from every conversation record; returns how many contained it.

    It looks in every table key and list item, so fields that other modules add are covered.
    """
    folder = state / SESSIONS_FOLDER
    if not os.path.isdir(folder) or find_link(folder):
        return 0
    count = 0
    with hold_sessions(folder, seconds):
        for path in (folder / entry.name for entry in list_session_files(folder)):
            before = read_table(folder, path.name, SESSION_BYTES) if path.suffix == ".json" else {}
            after = dict(before)
            for key, value in before.items():
                if isinstance(value, dict):
                    after[key] = {inner: item for inner, item in value.items() if inner != name}
                elif isinstance(value, list):
                    after[key] = [item for item in value if item != name]
            if not before:
                path.unlink(missing_ok=True)  # a prompt, an unfinished write or a broken file may contain the name
            elif after != before:
                write_table(folder, path.name, after)
                count += 1
    return count


def write_set(state: Path, id: str, table: Mapping[str, object]) -> Path:
    """Save a dream's patch set, and remove the oldest ones above the limit."""
    folder = state / DREAMS_FOLDER
    check_no_link(folder)
    write_table(folder, f"{id}.json", table)
    for old in list_sets(state)[DREAM_SETS:]:
        (folder / f"{old}.json").unlink(missing_ok=True)
    return folder / f"{id}.json"


def read_set(state: Path, id: str) -> dict[str, object] | None:
    """Return the patch set with this ID, or None if it is missing or unreadable."""
    if not _SET_ID.fullmatch(id) or find_link(state / DREAMS_FOLDER):
        return None
    return read_table(state / DREAMS_FOLDER, f"{id}.json") or None


def list_sets(state: Path) -> tuple[str, ...]:
    """Return the IDs of all patch sets, newest first. An ID begins with the time of the dream."""
    folder = state / DREAMS_FOLDER
    try:
        names = () if find_link(folder) else os.listdir(folder)
    except OSError:
        return ()
    ids = (name.removesuffix(".json") for name in names if name.endswith(".json"))
    return tuple(sorted((id for id in ids if _SET_ID.fullmatch(id)), reverse=True))


def _drop_folder(name: str) -> Callable[[Path, object], None]:
    """Return a function that removes all files of a folder, because they contain the texts of memories."""

    def drop(state: Path, memory: object) -> None:
        folder = state / name
        if find_link(folder) or not os.path.isdir(folder):
            return
        with raise_disk_errors(folder):
            for path in folder.iterdir():
                if os.path.isfile(path) or os.path.islink(path):
                    path.unlink(missing_ok=True)
            sync_dir(folder)

    return drop


def find_own_sync(environment: Environment) -> Path:
    """Return the folder for sync between the user's machines, which all projects share."""
    return environment.state_home / OWN_FOLDER


def drop_copy(state: Path, name: str = COPY) -> None:
    """Remove memdir's own copy of a branch; the next sync creates it again."""
    import shutil  # only leaving a team and purging need it

    path = state / name
    with raise_disk_errors(path):
        if os.path.islink(path):
            path.unlink()
        elif os.path.isdir(path):
            shutil.rmtree(path)


def _drop_from_point(state: Path, memory: PurgedMemory) -> None:
    """Remove a memory from a merge base, in which only the index can contain its name."""
    file, leaf = (POINT, memory.name.partition("/")[2]) if is_team(memory.name) else (OWN_POINT, memory.name)
    if point := read_table(state, file):
        pending = point.get("pending")
        more = {"pending": _drop_lines(pending, leaf)} if isinstance(pending, dict) else {}
        write_table(state, file, {**_drop_lines(point, leaf), **more})


def _drop_lines(point: Mapping[str, object], leaf: str) -> dict[str, object]:
    lines = str(point.get("index") or "").splitlines(keepends=True)
    return {**point, "index": "".join(line for line in lines if f"{fold(leaf)}.md" not in fold(line))}


def _drop_file(name: str, *, team: bool = False) -> Callable[[Path, PurgedMemory], None]:
    """Return a function that purges a memory by deleting this file; with `team`, only for team memories."""

    def drop(state: Path, memory: PurgedMemory) -> None:
        for path in state.glob(f"{name}*") if is_team(memory.name) or not team else ():
            path.unlink(missing_ok=True)

    return drop


STATE_FILES = (
    StateFile("history.db", "every change, the recall log, the inbox"),  # FileStore purges it, under the lock
    StateFile(INDEX, "derived: headers, postings, triggers, verification results", _drop_file(INDEX)),
    StateFile("encoded.db", "derived: vectors of memories", _drop_file("encoded.db")),
    StateFile(
        SESSIONS_FOLDER,
        "the record and prompts of each conversation",
        lambda state, memory: drop_name(state, memory.name, seconds=memory.lock_seconds),
        is_folder=True,
    ),
    StateFile(DREAMS_FOLDER, "the newest dream patch sets", _drop_folder(DREAMS_FOLDER), is_folder=True),
    StateFile(
        CHATS_FOLDER, "conversations of earlier versions of `memdir chat`", _drop_folder(CHATS_FOLDER), is_folder=True
    ),
    StateFile(AUTHORS, "authors of team memories", lambda state, memory: drop_author(state, memory.name)),
    StateFile(LEARNED, "ids of imported conversations already learned from"),
    StateFile(FREQUENT, "triggers that fired too often; they name memories", _drop_file(FREQUENT)),
    StateFile(OVERRIDES, "rules that a person lets pass once", _drop_file(OVERRIDES)),
    StateFile(RUNS, "background runs; an error may name a memory", _drop_file(RUNS)),
    StateFile(SAVED, "titles saved in the background and not shown yet", _drop_file(SAVED)),
    StateFile(PROBLEMS, "hook problems; an error may name a memory", _drop_file(PROBLEMS)),
    StateFile(
        COPY,
        "a bare repository: memdir's copy of the team branch",
        lambda state, memory: drop_copy(state) if is_team(memory.name) else None,
        is_folder=True,
    ),
    StateFile(RECORD, "result of the last sync, and refused files", _drop_file(RECORD, team=True)),
    StateFile(NEWS, "team changes not viewed yet", _drop_file(NEWS, team=True)),
    StateFile(MANIFEST, "the files on the team server, by digest", _drop_file(MANIFEST, team=True)),
    StateFile(POINT, "merge base with the team branch", _drop_from_point),
    StateFile(OWN_POINT, "merge base for sync between your machines"),  # `_drop_from_point` cleans both
    StateFile(OWN_PROJECT, "project ID for sync between your machines"),
    StateFile("team.json", "team remote, branch and membership"),
    StateFile("project.json", "the project that owns the directory"),
    StateFile("distilled.json", "daily logs that dreams have read, by digest"),
    StateFile("dream-scan.json", "time of the last conversation count"),
    StateFile(QUEUE_FOLDER, "pending turns: ids and transcript paths", is_folder=True),
    StateFile(EVENTS_FOLDER, "time of each host's last hook calls", is_folder=True),
    StateFile("*lock", "locks for changes, extraction, dreams, sync and the worker"),
)


@dataclass(frozen=True, slots=True)
class Author:
    """The author of a memory's last change. `when` is the commit time.

    Authors come from commits and from changes on this machine, never from a memory's text, which can contain any name.
    A commit's author is not verified.
    """

    name: str
    email: str = ""
    when: datetime | None = None


def read_authors(state: Path) -> Mapping[str, Author]:
    """Return a dict from team memory names to authors, as of the last sync. The next sync rewrites the file."""
    authors = {}
    for name, row in read_table(state, AUTHORS).items():
        match row:
            case {"name": str(author), **rest}:
                email = rest.get("email")
                email = email if isinstance(email, str) else ""
                authors[name] = make_author(author, email, read_time(rest.get("when")))
    return authors


def write_authors(state: Path, authors: Mapping[str, Author]) -> None:
    rows = {
        replace_surrogates(name): {"name": row.name, "email": row.email, "when": row.when and row.when.isoformat()}
        for name, row in sorted((name, make_author(row.name, row.email, row.when)) for name, row in authors.items())
    }
    write_table(state, AUTHORS, rows)


def drop_author(state: Path, name: str) -> None:
    if not os.path.lexists(state / AUTHORS):
        return
    others = {other: author for other, author in read_authors(state).items() if fold(other) != fold(name)}
    if others:
        write_authors(state, others)
    else:  # the file is empty or unreadable
        (state / AUTHORS).unlink(missing_ok=True)


def make_author(name: str, email: str = "", when: datetime | None = None) -> Author:
    """Return an author from a commit's name and email, each shortened to one printable line.

    The name appears in quotation marks in prompts, so quotation marks and the characters of links, tags and headings are
    removed.
    """
    clean = shorten(one_line(replace_surrogates(name)), _AUTHOR_CHARS)
    address = shorten(one_line(replace_surrogates(email)), _AUTHOR_CHARS)
    return Author(" ".join(clean.translate(_NOT_IN_NAMES).split()) or "unknown", address, when)


def find_own_author(settings: Settings, environment: Environment, root: Path | None) -> Author:
    """Return the user's author name: from the setting `author`, else git's config files, else the login name."""
    setting = settings.text("author")
    if setting != _OWN_AUTHOR:
        signature = re.fullmatch(r"\s*(.*?)\s*<([^<>]*)>\s*", setting)
        return make_author(signature[1], signature[2]) if signature else make_author(setting)
    # As in git, the last file that sets a value wins. Included files are not read.
    git_dir = find_git_dir(root) if root is not None else None
    paths = [environment.config_file.parent.parent / "git" / "config", environment.home / ".gitconfig"]
    known: dict[str, str] = {}
    for path in [*paths, git_dir / "config"] if git_dir is not None else paths:
        data = read_small(path, CONFIG_BYTES).data or b""
        known |= {key: value for key, value in parse_config(data.decode("utf-8", "replace"), "user") if value}
    import pwd  # only signing needs it

    login = environment.home.name
    with suppress(KeyError):
        login = pwd.getpwuid(os.getuid()).pw_name
    return make_author(known.get("name") or login, known.get("email", ""))


def open_edit(environment: Environment, root: Path, name: str, data: bytes) -> Path:
    """Create a file, mode 0600, with a memory's text for the user's editor, and return its path.

    It is kept until the edit is saved, so nothing is lost if saving fails (broken frontmatter, a conflict, a full disk).
    """
    import tempfile  # only an editor needs it

    folder = _find_edits_folder(environment, root)
    with raise_disk_errors(folder):
        make_private_dirs(folder)
        handle, path = tempfile.mkstemp(prefix=f"{_flatten(name)}.", suffix=_EDIT_SUFFIX, dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(data)
    return Path(path)


def drop_edits(environment: Environment, root: Path, name: str) -> int:
    """Remove the files of earlier edits of this memory, and return their number."""
    pattern = re.compile(rf"{re.escape(_flatten(name))}\.[A-Za-z0-9_]+{re.escape(_EDIT_SUFFIX)}")
    folder = _find_edits_folder(environment, root)
    try:
        edits = [folder / leaf for leaf in sorted(os.listdir(folder)) if pattern.fullmatch(leaf)]
    except OSError:
        return 0
    for path in edits:
        with raise_disk_errors(path):
            path.unlink(missing_ok=True)
            sync_dir(path.parent)
    return len(edits)


def _find_edits_folder(environment: Environment, root: Path) -> Path:
    return environment.state_home / "edits" / slug(os.path.realpath(root))


def _flatten(name: str) -> str:
    """Return a memory's name as a file name, with a digest if it is long. No two names have the same file name."""
    flat = name.replace("/", ".")
    data = flat.encode("utf-8", "replace")
    if len(data) <= _EDIT_BYTES:
        return flat
    return data[: _EDIT_BYTES - 20].decode("utf-8", "ignore") + "-" + digest_of(data)[:16]


# --- events and problems of hooks -----------------------------------------------------------------------------------
# An event is an empty file `<state>/events/HOST.EVENT`; its modification time is the event's last arrival. Problems are the
# newest lines of `<state>/problems.jsonl`; a text may contain a memory's name, so purging removes the file. Neither is
# flushed to the disk, recording never raises, and both can be deleted at any time.


@dataclass(frozen=True, slots=True)
class LastEvent:
    host: str
    event: str
    at: datetime


@dataclass(frozen=True, slots=True)
class HookProblem:
    """A hook problem. `times` is the number of equal problems from the same host, `at` the time of the last one."""

    host: str
    text: str
    at: datetime
    times: int = 1


def note_event(state: Path, host: str, event: str, now: datetime) -> None:
    """Record that a hook event was received. Never raises."""
    if not (_EVENT_NAME.fullmatch(host) and _EVENT_NAME.fullmatch(event)) or os.path.islink(state):
        return
    path = state / EVENTS_FOLDER / f"{host}.{event}"
    with suppress(OSError, OverflowError):  # a clock may give a time that no file can have
        try:
            _stamp(path, now)
        except FileNotFoundError:
            make_private_dirs(path.parent)
            _stamp(path, now)


def read_events(state: Path) -> tuple[LastEvent, ...]:
    """Return the last time that each event of each host was received, newest first."""
    folder = state / EVENTS_FOLDER
    if os.path.islink(state) or os.path.islink(folder):
        return ()
    events = []
    # The folder may be missing or unreadable, and a file's time may be outside the range of datetime.
    with suppress(OSError, OverflowError, ValueError), os.scandir(folder) as entries:
        for entry in islice(entries, _EVENTS_READ):
            host, _, event = entry.name.partition(".")
            if _EVENT_NAME.fullmatch(host) and _EVENT_NAME.fullmatch(event) and entry.is_file(follow_symlinks=False):
                arrival = datetime.fromtimestamp(entry.stat(follow_symlinks=False).st_mtime, UTC)
                events.append(LastEvent(host, event, arrival))
    return tuple(sorted(events, key=lambda event: (event.at, event.host, event.event), reverse=True))


def read_learned(state: Path) -> frozenset[str]:
    """Return the IDs of imported conversations already learned from, and of the import (`run:`)."""
    data = read_small(state / LEARNED, _LEARNED_BYTES, follow=False).data or b""
    return frozenset(data.decode("utf-8", "replace").splitlines())


def note_learned(state: Path, id: str) -> None:
    append_private(state / LEARNED, one_line(id).encode("utf-8", "replace"))


def drop_learned(state: Path, prefix: str) -> None:
    """Remove the IDs with this prefix and those of imports, so that undone conversations can be imported again."""
    if ids := read_learned(state):
        remaining = [f"{id}\n" for id in sorted(ids) if not id.startswith((prefix, "run:"))]
        write_private(state / LEARNED, "".join(remaining).encode())


def note_saved(state: Path, titles: Iterable[str]) -> None:
    """Record titles saved in the background, for the next hook to show. Never raises."""
    for title in titles:
        _append_row(state / SAVED, shorten(one_line(title), _PROBLEM_CHARS), _SAVED_BYTES, keep=_SAVED_KEPT)


def take_saved(state: Path) -> tuple[str, ...]:
    """Remove and return the titles recorded by `note_saved`. Only one of several processes gets them."""
    rows = _read_rows(state / SAVED, _SAVED_BYTES)
    try:
        os.unlink(state / SAVED)
    except OSError:
        return ()
    return tuple(dict.fromkeys(row for row in rows if isinstance(row, str)))


def note_problem(state: Path, host: str, text: str, now: datetime) -> None:
    """Record a hook problem; several processes may do so at once. Never raises."""
    row = {"at": now.isoformat(), "host": host[:48], "text": shorten(one_line(text), _PROBLEM_CHARS)}
    _append_row(state / PROBLEMS, row, _PROBLEM_BYTES, keep=_PROBLEMS_KEPT)


LATE = "the hook took longer than"  # begins the text of a missed deadline


def read_problems(state: Path, *, since: datetime | None = None) -> tuple[HookProblem, ...]:
    """Return the problems after `since`, newest first, equal texts from one host counted together."""
    problems: dict[tuple[str, str], HookProblem] = {}
    for problem in _read_problem_rows(state / PROBLEMS):
        if since is None or problem.at > since:
            key = problem.host, problem.text
            times = problems.pop(key).times + 1 if key in problems else 1
            problems[key] = replace(problem, times=times)
    return tuple(reversed(problems.values()))[:_PROBLEMS_KEPT]


def clear_problems(state: Path, *, until: datetime | None = None) -> int:
    """Delete all hook problems, or those up to `until`, and return the number of deleted lines."""
    path = state / PROBLEMS
    if os.path.islink(state) or os.path.islink(path):
        return 0
    rows = _read_problem_rows(path)
    left = [] if until is None else [problem for problem in rows if problem.at > until]
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return 0
    for problem in left:
        note_problem(state, problem.host, problem.text, problem.at)
    return len(rows) - len(left)


def _stamp(path: Path, now: datetime) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | NOFOLLOW | os.O_NONBLOCK, 0o600)
    try:
        os.utime(handle, (now.timestamp(), now.timestamp()))
    finally:
        os.close(handle)


def _read_problem_rows(path: Path) -> list[HookProblem]:
    problems = []
    for row in _read_rows(path, _PROBLEM_BYTES):
        with suppress(ValueError):
            match row:
                case {"at": str(at), "host": str(host), "text": str(text)} if (
                    time := datetime.fromisoformat(at)
                ).tzinfo:
                    problems.append(HookProblem(one_line(host), shorten(one_line(text), _PROBLEM_CHARS), time))
    return problems


def note_run(state: Path, row: Mapping[str, object]) -> None:
    """Append a background run to the record, as one line of JSON; several processes may do so at once.

    The record can be deleted at any time, and a failure to write it never fails a run. An error may contain a memory's
    name, so purging removes the record.
    """
    _append_row(state / RUNS, row, _RUNS_BYTES, keep=_RUNS_KEPT)


def read_runs(state: Path) -> tuple[dict[str, object], ...]:
    rows = [row for row in _read_rows(state / RUNS, _RUNS_BYTES) if isinstance(row, dict)]
    return tuple(rows[: -_RUNS_KEPT - 1 : -1])


def _append_row(path: Path, row: object, limit: int, *, keep: int) -> None:
    """Append a line of JSON, dropping old lines above half of `limit` bytes. Never raises or follows links."""
    if os.path.islink(path.parent) or os.path.islink(path):
        return
    with suppress(OSError, DiskError):
        if append_private(path, json.dumps(row).encode("ascii")) > limit // 2:
            lines = (read_small(path, limit, follow=False).data or b"").splitlines(keepends=True)
            write_private(path, b"".join(lines[-keep:]))


def _read_rows(path: Path, limit: int) -> list[object]:
    """Return the JSON values of a file's lines, oldest first, skipping invalid lines."""
    rows = []
    for line in () if os.path.islink(path.parent) else (read_small(path, limit, follow=False).data or b"").splitlines():
        with suppress(ValueError, RecursionError):
            rows.append(json.loads(line))
    return rows
