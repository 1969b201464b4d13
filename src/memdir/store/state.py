"""The patch sets of dreams on the disk: `<state>/dreams/ID.json`, mode 0600, the newest kept.

A set holds texts of memories, so any purge drops all of them: one that was applied is in history, and one that was only
looked at can be made anew. They can be deleted at any time.

What is in a set is not known here (dream.sets).
"""

import json
import os
import re
import shutil
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from pathlib import Path

from memdir.errors import PathError
from memdir.files import disk_error, make_private_dirs, read_small, sync_dir, write_private
from memdir.frozen import dataclass
from memdir.limits import DREAM_SETS
from memdir.project.git import CONFIG_BYTES, find_git_dir, parse_config
from memdir.project.settings import Environment, read_settings
from memdir.store.sessions import find_link, make_leaf
from memdir.text import fold, one_line, replace_surrogates, shorten

# --- kept_dreams ---

DREAMS_FOLDER = "dreams"
_SUFFIX = ".json"
_BYTES = 67_108_864  # far more than a dream may write; evidence and index lines of the largest directory fit
_ID = re.compile(r"[0-9a-z][0-9a-z-]{0,60}")


def write_set(state: Path, id: str, table: Mapping[str, object]) -> Path:
    """Keep a set; the oldest beyond the limit go."""
    folder = state / DREAMS_FOLDER
    if link := find_link(folder):
        raise PathError(str(link), "it is a symbolic link")
    path = _find_path(state, id)
    write_private(path, json.dumps(table, ensure_ascii=True, indent=1).encode("ascii") + b"\n")
    for old in list_sets(state)[DREAM_SETS:]:
        _find_path(state, old).unlink(missing_ok=True)
    return path


def read_set(state: Path, id: str) -> dict[str, object] | None:
    """What was kept under an id; None for nothing, or nothing that can be read."""
    if not _ID.fullmatch(id) or find_link(state / DREAMS_FOLDER):
        return None
    data = read_small(_find_path(state, id), _BYTES, follow=False).data
    try:
        table = json.loads(data or b"null")
    except (ValueError, RecursionError):
        return None
    return table if isinstance(table, dict) else None


def list_sets(state: Path) -> tuple[str, ...]:
    """The ids of all sets, newest first: an id begins with its time."""
    folder = state / DREAMS_FOLDER
    if find_link(folder):
        return ()
    try:
        names = os.listdir(folder)
    except OSError:
        return ()
    ids = (name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))
    return tuple(sorted((id for id in ids if _ID.fullmatch(id)), reverse=True))


def drop_sets(state: Path) -> int:
    """Remove every set and whatever a killed writer left, for purge; answers how many files that was."""
    folder = state / DREAMS_FOLDER
    if find_link(folder) or not folder.is_dir():
        return 0
    try:
        paths = [path for path in folder.iterdir() if path.is_file() or path.is_symlink()]
        for path in paths:
            path.unlink(missing_ok=True)
        sync_dir(folder)
    except OSError as error:
        raise disk_error(error, folder) from error
    return len(paths)


def _find_path(state: Path, id: str) -> Path:
    return state / DREAMS_FOLDER / f"{id}{_SUFFIX}"


# --- kept_chats ---
# The conversations of `memdir chat` on the disk: `<state>/chats/ID.jsonl`, mode 0600, one record a line.
#
# A line is written the moment it is said, so a killed process loses nothing that was answered. What was said may hold
# a
# memory's words: `forget --purge` drops every conversation that taught the memory, was given it, or names or quotes
# it.
# They can be deleted at any time; a conversation that is gone cannot be resumed.
#
# What stands in a record is not known here (doors.chat.transcript).

CHATS_FOLDER = "chats"
_KEPT_CHATS_SUFFIX = ".jsonl"
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0)
_PARTS = re.compile(r"\n|(?<=[.!?])\s+|(?<=[。！？])|\*\*[\w ]+:\*\*")
_QUOTED = 16  # characters of a sentence: a shorter one stands in many a conversation by chance


def find_path(state: Path, id: str) -> Path:
    """Where the conversation with that id is kept, or would be."""
    return state / CHATS_FOLDER / f"{make_leaf(id)}{_KEPT_CHATS_SUFFIX}"


def append_record(path: Path, record: dict[str, object]) -> None:
    """Add a record and hand it to the system; after a line that a killed writer left half, on a line of its own."""
    if link := find_link(path.parent):
        raise PathError(str(link), "it is a symbolic link")
    line = json.dumps(record, ensure_ascii=True).encode("ascii") + b"\n"
    try:
        make_private_dirs(path.parent)
        handle = os.open(path, _FLAGS, 0o600)
        try:
            size = os.fstat(handle).st_size
            if size and os.pread(handle, 1, size - 1) != b"\n":
                line = b"\n" + line
            while line:
                line = line[os.write(handle, line) :]
        finally:
            os.close(handle)
    except OSError as error:
        raise disk_error(error, path) from error


def list_chats(state: Path) -> tuple[Path, ...]:
    """Every conversation, the one that was spoken in last first."""
    folder = state / CHATS_FOLDER
    if find_link(folder):
        return ()
    try:
        with os.scandir(folder) as entries:
            found = [
                (entry.stat(follow_symlinks=False).st_mtime_ns, entry.path)
                for entry in entries
                if entry.name.endswith(_KEPT_CHATS_SUFFIX) and entry.is_file(follow_symlinks=False)
            ]
    except OSError:
        return ()
    return tuple(Path(path) for _, path in sorted(found, reverse=True))


def drop_chats(state: Path, *, ids: Collection[str], name: str, texts: Iterable[str]) -> int:
    """Remove the conversations with one of the ids, and those that name the memory or quote a sentence of its texts."""
    leaves = {f"{make_leaf(id)}{_KEPT_CHATS_SUFFIX}" for id in ids if id}
    said = {part.strip().casefold() for text in texts for part in _PARTS.split(text)}
    named = re.compile(rf"(?<![\w-]){re.escape(name)}(?![\w-])", re.IGNORECASE)
    quotes = [part for part in said if len(part) >= _QUOTED]
    dropped = 0
    try:
        for path in list_chats(state):
            if path.name in leaves or _holds(path, named, quotes):
                path.unlink(missing_ok=True)
                dropped += 1
        if dropped:
            sync_dir(state / CHATS_FOLDER)
    except OSError as error:
        raise disk_error(error, state / CHATS_FOLDER) from error
    return dropped


def _holds(path: Path, named: re.Pattern[str], quotes: Collection[str]) -> bool:
    with path.open("rb") as file:
        for line in file:
            try:
                said = json.dumps(json.loads(line), ensure_ascii=False)
            except (ValueError, RecursionError):
                return True  # nobody can tell what a broken one holds
            plain = said.replace("\\n", "\n").replace('\\"', '"').casefold()
            if named.search(plain) or any(quote in plain for quote in quotes):
                return True
    return False


# --- kept_team ---
# What team sync keeps in the state folder, by name; and how a purge takes a memory out of it.
#
#     team.git          memdir's own copy of the team's branch: a bare repository that nobody else uses
#     team.json         which remote, which branch, and how this member takes part
#     team-point.json   what the files were when they were last in step with the branch
#     team-sync.json    how the last sync went, and what is refused
#     team-news.json    what came from others since somebody last looked
#
# All but `team.json` can be deleted: the copy comes back with the next sync. What is in them is known to `team`.

COPY = "team.git"
POINT = "team-point.json"
RECORD = "team-sync.json"
NEWS = "team-news.json"
_FOLDER = "team"
_KEPT_TEAM_BYTES = 67_108_864  # the names of all that a team may have, and its index


def read_table(state: Path, file: str) -> dict[str, object]:
    """What one of these files holds; empty if it is not there, or is no table."""
    if find_link(state / file):
        return {}
    try:
        table = json.loads(read_small(state / file, _KEPT_TEAM_BYTES, follow=False).data or b"{}")
    except (ValueError, RecursionError):
        return {}
    return table if isinstance(table, dict) else {}


def write_table(state: Path, file: str, table: Mapping[str, object]) -> None:
    """Put a table there in one step; raises DiskError or PathError."""
    if link := find_link(state / file):
        raise PathError(str(link), "it is a symbolic link")
    write_private(state / file, json.dumps(dict(table), ensure_ascii=True).encode("ascii") + b"\n")


def drop_copy(state: Path) -> None:
    """Take memdir's own copy of the branch away."""
    path = state / COPY
    try:
        if path.is_symlink():
            path.unlink()
        elif path.is_dir():
            shutil.rmtree(path)
    except OSError as error:
        raise disk_error(error, path) from error


def drop_team_name(state: Path, name: str) -> None:
    """Take one team memory out, for purge: the copy goes whole, and the record and the news with it.

    The point knows names by their digests only, so there the index is all that could speak of it.
    """
    folder, slash, leaf = name.partition("/")
    if not slash or fold(folder) != _FOLDER:
        return
    drop_copy(state)
    for file in (RECORD, NEWS):
        (state / file).unlink(missing_ok=True)
    point = read_table(state, POINT)
    if point:
        pending = point.get("pending")
        more = {"pending": _drop_lines(pending, leaf)} if isinstance(pending, dict) else {}
        write_table(state, POINT, {**_drop_lines(point, leaf), **more})


def _drop_lines(point: Mapping[str, object], leaf: str) -> dict[str, object]:
    lines = str(point.get("index") or "").splitlines(keepends=True)
    return {**point, "index": "".join(line for line in lines if f"{fold(leaf)}.md" not in fold(line))}


# --- authors ---
# Who wrote what a team shares: `<state>/team-authors.json`, by the memory's name, as the last sync found it.
#
# Authors come from commits and from this machine's own changes, never from the text of a memory: anybody may write any
# name
# there. Whatever a commit claims is shown on one line, without control characters.
#
# The file can be deleted and comes back with the next sync. It holds names of memories, so a purge takes them out.
#
# What it does not do: prove that a commit's author is who it says, or sign anything.

FILE = "team-authors.json"
OWN = "default"  # the setting's value for "whoever git says I am"
_AUTHORS_BYTES = 16_777_216  # tens of thousands of memories
_CHARS = 100  # of a name or an address: enough for any that is one
_SIGNATURE = re.compile(r"\s*(.*?)\s*<([^<>]*)>\s*")


@dataclass(frozen=True, slots=True)
class Author:
    """Who changed a memory last; `when` is the time the commit claims."""

    name: str
    email: str = ""
    when: datetime | None = None


def read_authors(state: Path) -> Mapping[str, Author]:
    """Name of the memory -> author; empty where there is no such file, or none that can be read."""
    data = read_small(state / FILE, _AUTHORS_BYTES, follow=False).data
    try:
        table = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    rows = table.items() if isinstance(table, dict) else ()
    return {name: author for name, row in rows if (author := _parse_row(row)) is not None}


def write_authors(state: Path, authors: Mapping[str, Author]) -> None:
    """Put these in the place of all that was known; raises DiskError."""
    rows = {
        replace_surrogates(name): {"name": at.name, "email": at.email, "when": at.when and at.when.isoformat()}
        for name, at in sorted((name, make_author(at.name, at.email, at.when)) for name, at in authors.items())
    }
    write_private(state / FILE, json.dumps(rows, indent=1).encode("ascii") + b"\n")


def drop_author(state: Path, name: str) -> None:
    """Take one memory out, for purge."""
    if not os.path.lexists(state / FILE):
        return
    known = read_authors(state)
    kept = {at: author for at, author in known.items() if fold(at) != fold(name)}
    if kept:
        write_authors(state, kept)
    else:  # nothing left, or nothing that can be read: who could say what it holds
        (state / FILE).unlink(missing_ok=True)


def make_author(name: str, email: str = "", when: datetime | None = None) -> Author:
    """An author from whatever a commit claims: each part one printable line, neither too long."""
    return Author(_clean(name) or "unknown", _clean(email), when)


def find_own_author(environment: Environment, root: Path | None) -> Author:
    """Who the person here is: by the setting `author`, else by git's config files, else by the login name."""
    given = read_settings(environment, root=None).text("author")
    if given != OWN:
        signature = _SIGNATURE.fullmatch(given)
        return make_author(signature[1], signature[2]) if signature else make_author(given)
    known: dict[str, str] = {}
    for path in _list_configs(environment, root):
        data = read_small(path, CONFIG_BYTES).data or b""
        known |= {key: value for key, value in parse_config(data.decode("utf-8", "replace"), "user") if value}
    return make_author(known.get("name") or _find_login(environment), known.get("email", ""))


def _list_configs(environment: Environment, root: Path | None) -> list[Path]:
    """Git's own order, the last word last. Files that one of them includes are not read."""
    git_dir = find_git_dir(root) if root is not None else None
    paths = [environment.config_file.parent.parent / "git" / "config", environment.home / ".gitconfig"]
    return [*paths, git_dir / "config"] if git_dir is not None else paths


def _find_login(environment: Environment) -> str:
    try:
        import pwd  # here, because Windows has no such module

        return pwd.getpwuid(os.getuid()).pw_name
    except (ImportError, KeyError):
        return environment.home.name


def _clean(text: str) -> str:
    return shorten(one_line(replace_surrogates(text)), _CHARS)


def _parse_row(row: object) -> Author | None:
    if not isinstance(row, dict) or not isinstance(row.get("name"), str):
        return None
    email, when = row.get("email"), row.get("when")
    try:
        at = datetime.fromisoformat(when) if isinstance(when, str) else None
    except ValueError:
        at = None
    return make_author(row["name"], email if isinstance(email, str) else "", at)
