"""Sync a user's own machines: private memories of all projects and user memories, through one branch of a git remote.

    .memdir-sync.json      identifies the branch as ours; if it is encrypted, contains the filename key
    user/…                 user memory
    projects/ID/…          private memory of a project, without `team/` and `logs/`
    projects/ID.json       the project's name, the URLs of its git remotes and its first commits

A directory belongs to the project in the branch with the same remote or, if one of the two has no remote, the same
first commit; its path does not matter. It stays with that project as long as either is the same. Projects that are not
on this machine stay in the branch. `<state home>/sync/` contains a machine's state: the remote's URL, a copy of the
branch and the last result. Each directory has its own merge base.

In an encrypted branch, a filename is a keyed digest of the path, and the file is an age file that contains path and
content. A long index is split into pieces, each in its own file; the index file then lists its pieces.
"""

import base64
import hmac
import json
import os
import re
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from memdir.errors import DiskError, FormatError, PathError, SettingsError, hint_extra
from memdir.files import hold_folder, read_small, write_private
from memdir.format.frontmatter import digest_of, make_slug
from memdir.frozen import asdict, dataclass, fill, replace
from memdir.limits import SYNC_ENTRIES, TEAM_SECONDS
from memdir.project.settings import Environment
from memdir.store.files import FileStore
from memdir.store.history import MemorySource
from memdir.store.open import Identity, Project, open_known, parse_address
from memdir.store.plan import is_index_path
from memdir.store.secrets import FILE as SECRET_RULES
from memdir.store.state import (
    OWN_COPY,
    OWN_POINT,
    OWN_PROJECT,
    OWN_SETUP,
    Author,
    drop_copy,
    find_own_author,
    find_own_sync,
    read_table,
    write_table,
)
from memdir.sync import git, state
from memdir.sync.git import GitRemote, TeamClone
from memdir.sync.sync import SyncTask, find_point, sync
from memdir.text import as_list, as_table, one_line, parse_json, shorten

BRANCH = "memdir/sync"
SYNC_FILE = ".memdir-sync.json"
LOCK = "lock"
OBJECTS = "objects.json"  # encrypted remotes: digest of a content -> digest of its age file
USER = "user/"
_UNKNOWN = "neither a git remote nor a first commit says which project it is: `memdir sync link NAME`"
_PROJECTS = "projects/"
_RECORD_BYTES = 65_536
_RECORD_PATH = re.compile(r"projects/[\w-]{1,80}\.json")
_KEY_FILE = "sync.key"
_PLAIN_MARK = b'{"version": 1}\n'
# A long index is encrypted in pieces; otherwise every new line would send all of it again. No memory contains a NUL.
_CUT, _PIECE = b"\0pieces", "#"
_CUT_BYTES, _PIECE_LINES = 16_384, 64
_LISTS = ("sent", "received", "clashes", "refused", "withheld", "waiting", "notes")


@dataclass(frozen=True, slots=True)
class OwnSetup:
    """The remote for a user's own memories. If it has `recipients`, it is encrypted to them, and `key_file` contains
    the key to read it. `names` is the filename key, once known."""

    remote: str
    branch: str = BRANCH
    recipients: tuple[str, ...] = ()
    key_file: str = ""
    names: str = ""


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """A project in the branch, with the facts from all machines."""

    id: str
    name: str = ""
    remotes: tuple[str, ...] = ()
    commits: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class OwnDirectory:
    """A local directory. `prefix` is its path in the branch, or "" if it has none; `why` is then the reason."""

    path: Path
    prefix: str
    why: str = ""


def read_setup(environment: Environment) -> OwnSetup | None:
    table = read_table(find_own_sync(environment), OWN_SETUP)
    rows = table.get("recipients")
    recipients = tuple(str(recipient) for recipient in rows) if isinstance(rows, list) else ()
    setup = replace(fill(OwnSetup("", ""), table), recipients=recipients)
    return setup if setup.remote and setup.branch else None


def _read_needed_setup(environment: Environment) -> OwnSetup:
    if (setup := read_setup(environment)) is None:
        hint = "`memdir sync init REMOTE` sets one up"
        raise SettingsError("no remote is set up for your own machines", key="sync", hint=hint)
    return setup


def start(
    project: Project, setup: OwnSetup, *, now: datetime, encrypt: bool | None = None, seconds: float = TEAM_SECONDS
) -> state.SyncResult:
    """Set up the remote and sync. Raises an error if it is unreachable or contains other files, or if the key is wrong.

    `encrypt` without recipients uses the key in `key_file`, which is created if missing. By default, an encrypted
    remote is read with it, and a plain one is an error if a key exists: its host may have deleted the encrypted branch.
    """
    environment, known = project.environment, read_setup(project.environment)
    state.check_branch(setup.branch)
    setup = replace(setup, remote=state.check_remote(setup.remote, project.places.root.path))
    if known is not None and (known.remote, known.branch) != (setup.remote, setup.branch):
        hint = "run `memdir sync stop` first; the memories are kept"
        raise SettingsError(f"memory is already synced with {known.remote}", key="remote", hint=hint)
    if known is not None:
        recipients = tuple(dict.fromkeys([*known.recipients, *setup.recipients]))
        setup = replace(known, recipients=recipients, key_file=setup.key_file or known.key_file)
    setup = replace(setup, key_file=setup.key_file or str(environment.config_file.with_name(_KEY_FILE)))
    with _hold(environment, seconds):
        branch = _open_branch(project, setup, seconds)
        tree = branch.fetch()
        branch.check_ours(tree)
        is_sealed = bool(find_names(branch, tree))
        encrypt = True if setup.recipients and encrypt is None else encrypt
        if encrypt is False and (is_sealed or setup.recipients):
            raise SettingsError("the remote is encrypted", key="plain", hint="leave out --plain")
        if tree.head and encrypt and not is_sealed:
            hint = f"choose an empty one: --branch {BRANCH}-encrypted"
            raise SettingsError("cannot encrypt an existing branch", key="recipient", hint=hint)
        if encrypt or is_sealed:
            setup = _prepare_keys(setup, create=not is_sealed)
            SealedRemote(branch, setup, find_own_sync(environment)).fetch()  # raises for a wrong key
        elif encrypt is None and known is None and os.path.lexists(setup.key_file):
            what = "is not encrypted" if tree.head else f"has no branch {setup.branch}"
            message = f"this machine has a key, {setup.key_file}, and the remote {what}: nothing was sent"
            hint = "--encrypt encrypts a new branch, --plain sends clear text; if it was encrypted before, ask who hosts it"
            raise SettingsError(message, key="plain", hint=hint)
        setup = setup if encrypt or is_sealed else replace(setup, key_file="")
        write_table(find_own_sync(environment), OWN_SETUP, asdict(setup))
    return sync_own(project, now=now, seconds=seconds)


def stop(environment: Environment, stores: Iterable[FileStore]) -> bool:
    """Remove the remote and its local state, keeping memories and keys. Return whether there was a remote."""
    folder = find_own_sync(environment)
    if read_setup(environment) is None:
        return False
    with _hold(environment, TEAM_SECONDS):
        drop_copy(folder, OWN_COPY)
        for file in (OWN_SETUP, state.OWN_RECORD, OBJECTS):
            (folder / file).unlink(missing_ok=True)
        for store in stores:
            for file in (OWN_POINT, OWN_PROJECT):
                (store.state / file).unlink(missing_ok=True)
    return True


def sync_own(project: Project, *, now: datetime, seconds: float = TEAM_SECONDS) -> state.SyncResult:
    """Sync every directory of this user. Raises SettingsError if no remote is set up.

    Directories of one project, such as two clones, are synced in turn, each merged with the changes of the others.
    """
    setup = _read_needed_setup(project.environment)
    with open_directories(project) as directories:
        rounds, opened = _Rounds(directories), list[state.Remote]()

        def open_remote() -> state.Remote:
            opened.append(_open_remote(project, setup, seconds))
            return opened[-1]

        is_sealed = bool(setup.recipients)
        author = Author("memdir") if is_sealed else find_own_author(project.settings, project.environment, None)
        folder = find_own_sync(project.environment)
        task = SyncTask(
            open_remote,
            lambda: _open_branch(project, setup, seconds).find_head(),
            partial(_look, project, setup, directories),
            rounds.arrange,
            lambda: _hold(project.environment),
            author, folder, state.OWN_RECORD, is_named=not is_sealed, is_last=rounds.is_last,
        )  # fmt: skip
        results = [sync(task, now=now)]
        while rounds.advance() and results[-1].outcome is state.SyncOutcome.SYNCED:
            results.append(sync(task, now=now))
    if is_sealed and opened and isinstance(opened[-1], SealedRemote) and opened[-1].names != setup.names:
        write_table(folder, OWN_SETUP, asdict(replace(setup, names=opened[-1].names)))
    if len(results) == 1:
        return results[0]
    joined = {key: sum((getattr(result, key) for result in results), ()) for key in _LISTS}
    return replace(results[-1], change=None, **joined)


def link(project: Project, name: str, *, seconds: float = TEAM_SECONDS) -> str:
    """Link a directory without git, a fork or a clone with a new URL to a project in the branch, and return its ID. A
    new name creates a project in the branch."""
    setup = _read_needed_setup(project.environment)
    with _hold(project.environment, seconds):
        remote = _open_remote(project, setup, seconds)
        records = _read_records(remote, remote.fetch())
    named = [record.id for record in records.values() if name in (record.id, record.name)]
    if len(named) > 1 and name not in named:
        raise SettingsError(
            f"several projects are named {name}", key="name", hint=f"use one of {', '.join(sorted(named))}"
        )
    id = name if name in named else named[0] if named else make_slug(name)
    write_table(project.private.state, OWN_PROJECT, {"id": id, "linked": True})
    (project.private.state / OWN_POINT).unlink(missing_ok=True)
    return id


@contextmanager
def open_directories(project: Project) -> Iterator[list[tuple[FileStore, Identity | None]]]:
    """Yield every directory that can be synced, with its identity, or None for user memory."""
    directories: list[tuple[FileStore, Identity | None]] = list(open_known(project))
    try:
        yield [*directories, *([(project.user, None)] if project.user else [])]
    finally:
        for store, _ in directories[1:]:
            store.close()


def list_own(project: Project) -> list[tuple[OwnDirectory, list[str]]]:
    """Return every directory, with its path in the branch at the last sync and the names of memories to send."""
    rows, withheld = [], state.read_sync_record(find_own_sync(project.environment), state.OWN_RECORD).withheld
    with open_directories(project) as directories:
        for store, identity in directories:
            id = str(read_table(store.state, OWN_PROJECT).get("id") or "")
            prefix = USER if identity is None else f"{_PROJECTS}{id}/" if id else ""
            part = _make_part(store, prefix)
            point, files = find_point(part), state.read_local(part).files
            if not files and not point.head:
                continue
            is_known = identity is not None and (_find_address(identity) or identity.root_commit)
            why = "" if prefix else "not synced yet" if is_known else _UNKNOWN
            changed = [path for path, data in files.items() if point.find(path) != git.hash_blob(data)]
            unsent = [part.show(path) for path in changed if prefix + path not in withheld]
            rows.append((OwnDirectory(store.root, prefix, why), sorted(unsent)))
    return rows


def _make_part(store: FileStore, prefix: str) -> state.SyncPart:
    return state.SyncPart(store, "", prefix, OWN_POINT, is_shared=False)


def has_unsent(project: Project) -> bool:
    """Return whether local files or settings have changed since a sync last found nothing to send or import."""
    setup = _read_needed_setup(project.environment)
    with open_directories(project) as directories:
        here = _look(project, setup, directories)
    return not here or here != state.read_sync_record(find_own_sync(project.environment), state.OWN_RECORD).here


def _look(project: Project, setup: OwnSetup, directories: Sequence[tuple[FileStore, Identity | None]]) -> str:
    parts = [_make_part(store, str(store.root)) for store, _ in directories]
    known = [(identity, state.find_stat(store.state / OWN_PROJECT)) for store, identity in directories]
    rules = state.find_stat(project.environment.config_file.with_name(SECRET_RULES))
    return state.look(parts, asdict(setup), project.settings.values, known, rules)


def list_elsewhere(project: Project) -> list[ProjectRecord]:
    """Return projects in the branch, as of the last sync, that have no local directory."""
    remote = _open_remote(project, _read_needed_setup(project.environment), TEAM_SECONDS, is_offline=True)
    records = _read_records(remote, remote.fetch())
    with open_directories(project) as directories:
        here = {str(read_table(store.state, OWN_PROJECT).get("id") or "") for store, _ in directories}
    return [records[id] for id in sorted(records) if id not in here]


class _Rounds:
    """The directories still to be synced. Two directories of one project are synced in different rounds."""

    def __init__(self, directories: Sequence[tuple[FileStore, Identity | None]]) -> None:
        self._now, self._later = directories, list[tuple[FileStore, Identity | None]]()

    def advance(self) -> bool:
        """Start the next round with the directories left over, and return whether there are any."""
        self._now, self._later = self._later, []
        return bool(self._now)

    def is_last(self) -> bool:
        return not self._later

    def arrange(
        self, remote: state.Remote, tree: state.RemoteTree
    ) -> tuple[Sequence[state.SyncPart], Mapping[str, bytes]]:
        """Return the parts of a tree to sync and the files to add to it: its marker file and new project records."""
        assert isinstance(remote, GitRemote | SealedRemote)
        remote.check_ours(tree)
        files = (
            {} if tree.head else {SYNC_FILE: remote.make_mark() if isinstance(remote, SealedRemote) else _PLAIN_MARK}
        )
        records, parts = _read_records(remote, tree), dict[str, state.SyncPart]()
        self._later = []
        for store, identity in self._now:
            prefix = USER
            if identity is not None:
                record = find_record(identity, read_table(store.state, OWN_PROJECT), records)
                is_known = record.id in records
                prefix = f"{_PROJECTS}{record.id}/"
                if not record.id or not (is_known or state.read_local(_make_part(store, "")).files):
                    continue
                if records.get(record.id) != record:
                    records[record.id] = record
                    table = {key: value for key, value in asdict(record).items() if key != "id"}
                    files[f"{_PROJECTS}{record.id}.json"] = json.dumps(table, indent=2).encode("ascii") + b"\n"
                _note_project(store, record.id)
            if prefix in parts:
                self._later.append((store, identity))
            else:
                parts[prefix] = _make_part(store, prefix)
        return list(parts.values()), files


def _note_project(store: FileStore, id: str) -> None:
    """Record the project of a directory. If the project changed, the old merge base is discarded."""
    known = read_table(store.state, OWN_PROJECT).get("id")
    if known == id:
        return
    if known:
        state.write_point(store.state, state.SyncPoint(), file=OWN_POINT)
    with suppress(DiskError, PathError):  # without the record, each sync looks the project up again
        write_table(store.state, OWN_PROJECT, {"id": id, "linked": False})


def find_record(identity: Identity, known: Mapping[str, object], records: Mapping[str, ProjectRecord]) -> ProjectRecord:
    """Return the project record for a directory, updated with its identity, or a new record. The record has no ID if
    the directory cannot be identified."""
    address, commit = _find_address(identity), identity.root_commit or ""
    id, is_linked = str(known.get("id") or ""), known.get("linked") is True
    record = records.get(id) or (ProjectRecord(id, Path(identity.root).name) if is_linked else None)
    is_same = is_linked or not (address or commit)
    if record is not None and not (is_same or address in record.remotes or commit in record.commits):
        record = None
    if record is None:
        by_remote = [one for one in records.values() if address and address in one.remotes]
        # Forks and projects from one template have the same first commit and remotes of their own.
        by_commit = [one for one in records.values() if commit in one.commits and not (address and one.remotes)]
        record = min(by_remote, key=lambda one: one.id) if by_remote else by_commit[0] if len(by_commit) == 1 else None
    if record is None:
        if not (address or commit):
            return ProjectRecord("")
        name = Path(identity.root).name
        record = ProjectRecord(f"{make_slug(name)[:40]}-{digest_of((address or commit).encode())[:8]}", name)
    remotes, commits = {*record.remotes, address} - {""}, {*record.commits, commit} - {""}
    return replace(record, remotes=tuple(sorted(remotes)), commits=tuple(sorted(commits)))


def _find_address(identity: Identity) -> str:
    """Return the URL of a project's remote, or "" if it is a local path, which is useless on other machines."""
    remote = identity.remote or ""
    is_path = remote.startswith(("/", ".", "~", "file:")) or ":" not in remote
    return "" if is_path else parse_address(remote)


def _read_records(remote: state.Remote, tree: state.RemoteTree) -> dict[str, ProjectRecord]:
    entries = {
        path: entry
        for path, entry in tree.tree.items()
        if _RECORD_PATH.fullmatch(path) and entry.mode == state.PLAIN_MODE
    }
    blobs = remote.read([entry.sha for entry in entries.values() if entry.size <= _RECORD_BYTES])
    records = {}
    for path, entry in entries.items():
        if table := as_table(parse_json(blobs.get(entry.sha, b"null"))):
            id, name = path[len(_PROJECTS) : -len(".json")], str(table.get("name") or "")
            lists = (as_list(table.get(key)) for key in ("remotes", "commits"))
            remotes, commits = (tuple(sorted({row for row in rows if isinstance(row, str) and row})) for rows in lists)
            records[id] = ProjectRecord(id, one_line(name), remotes, commits)
    return records


def _hold(environment: Environment, seconds: float = 0) -> AbstractContextManager[int]:
    return hold_folder(find_own_sync(environment), LOCK, seconds=seconds, create=True)


def _open_branch(project: Project, setup: OwnSetup, seconds: float, *, is_offline: bool = False) -> GitRemote:
    copy = TeamClone(find_own_sync(project.environment) / OWN_COPY, project.environment, deadline=monotonic() + seconds)
    remote = "" if is_offline else state.check_remote(setup.remote, project.places.root.path)
    return GitRemote(copy, remote, setup.branch, mark=SYNC_FILE, most=SYNC_ENTRIES)


def _open_remote(project: Project, setup: OwnSetup, seconds: float, *, is_offline: bool = False) -> state.Remote:
    branch = _open_branch(project, setup, seconds, is_offline=is_offline)
    return SealedRemote(branch, setup, find_own_sync(project.environment)) if setup.recipients else branch


# --- encryption -------------------------------------------------------------------------------------------------------
# Somebody who can only write to the remote cannot read memories, but can delete files or restore old versions. So
# recipients come from this machine's settings and never from the remote, the filename key may not change, and a file is
# accepted only under the name of its path. An unreadable file stops the sync, because memdir would take it for deleted.


class SealedRemote:
    """A branch with encrypted names and contents. Object names are computed from the decrypted contents."""

    def __init__(self, inner: GitRemote, setup: OwnSetup, folder: Path) -> None:
        self._age, self.inner, self.names, self._folder = _load_age(), inner, setup.names, folder
        self._keys = read_keys(Path(setup.key_file))
        self._recipients = [parse_recipient(recipient) for recipient in setup.recipients]
        self._opened: dict[str, tuple[str, bytes]] = {}  # object of an age file -> path and content
        self._texts: dict[str, bytes] = {}
        self._pieces: Collection[str] = ()  # paths of the pieces of indexes in the tree
        self._objects = {key: str(value) for key, value in read_table(folder, OBJECTS).items()}

    def hash(self, data: bytes) -> str:
        return git.hash_blob(data)

    def check_ours(self, tree: state.RemoteTree) -> None:
        self.inner.check_ours(tree)

    def make_mark(self) -> bytes:
        """Return the content of the marker file for a new branch."""
        self.names = self.names or os.urandom(32).hex()
        sealed = self._age.encrypt(bytes.fromhex(self.names), self._recipients)
        return json.dumps({"version": 1, "names": base64.b64encode(sealed).decode("ascii")}).encode("ascii") + b"\n"

    def fetch(self) -> state.RemoteTree:
        tree = self.inner.fetch()
        if not tree.head:
            return tree
        try:
            names = self._age.decrypt(base64.b64decode(find_names(self.inner, tree)), self._keys).hex()
        except (ValueError, self._age.DecryptError):
            hint = "copy the key file of another machine here, or name it: `memdir sync init --key FILE`"
            raise SettingsError("cannot decrypt the remote with this key", key="key", hint=hint) from None
        if self.names and names != self.names:
            hint = "the branch was replaced; `memdir sync stop` and `memdir sync init` accept the new one"
            raise SettingsError("the remote's filename key changed", key="remote", hint=hint)
        self.names = names
        return replace(tree, tree=self._decrypt_tree(tree.tree), mark="")

    def find_common(self, known: str, head: str) -> Mapping[str, state.TreeEntry] | None:
        common = self.inner.find_common(known, head)
        return None if common is None else self._decrypt_tree({key: common[key] for key in common if key != SYNC_FILE})

    def read(self, shas: Iterable[str]) -> dict[str, bytes]:
        names = set(shas)
        sealed = {self._objects[sha]: sha for sha in names if sha not in self._texts and sha in self._objects}
        self._decrypt(sealed)
        texts = {sha: self._opened[object][1] for object, sha in sealed.items() if object in self._opened}
        return {**{sha: self._texts[sha] for sha in names if sha in self._texts}, **texts}

    def push(
        self, tree: state.RemoteTree, files: Mapping[str, bytes | None], author: Author, now: datetime, message: str
    ) -> tuple[str, state.PushState]:
        sealed: dict[str, bytes | None] = {}
        for path, data in self._cut_indexes(files).items():
            name = path if path == SYNC_FILE else self._make_name(path)
            sealed[name] = data
            if data is not None and path != SYNC_FILE:
                sealed[name] = encrypted = self._age.encrypt(path.encode() + b"\0" + data, self._recipients)
                self._remember_content(git.hash_blob(encrypted), path, data)
        words, has_dates, dates = message.partition(state.DATES)
        if has_dates:
            secret = self._age.encrypt(dates.encode(), self._recipients)
            words += f"{state.DATES}{base64.b64encode(secret).decode('ascii')}\n"
        return self.inner.push(tree, sealed, author, now, words)

    def find_versions(self, head: str, after: str, paths: Collection[str]) -> dict[str, set[str]]:
        names = {self._make_name(path): path for path in paths}
        versions = self.inner.find_versions(head, after, names)
        self._decrypt({sha for shas in versions.values() for sha in shas})
        opened = {key: [self._opened[sha][1] for sha in shas if sha in self._opened] for key, shas in versions.items()}
        return {names[name]: set(map(git.hash_blob, texts)) for name, texts in opened.items()}

    def find_authors(self, head: str, after: str) -> dict[str, Author]:
        return {}

    def find_sources(self, head: str, after: str) -> dict[str, MemorySource]:
        sources: dict[str, MemorySource] = {}
        for line in self.inner.read_date_lines(head, after):
            with suppress(ValueError, self._age.DecryptError):
                sources |= state.parse_sources(
                    self._age.decrypt(base64.b64decode(line), self._keys).decode("utf-8", "replace")
                )
        return sources

    def keep(self, head: str) -> None:
        self.inner.keep(head)
        write_table(self._folder, OBJECTS, self._objects)

    def _make_name(self, path: str) -> str:
        return hmac.digest(bytes.fromhex(self.names), path.encode("utf-8", "surrogateescape"), "sha256").hex() + ".age"

    def _remember_content(self, sha: str, path: str, data: bytes) -> None:
        self._opened[sha], self._texts[git.hash_blob(data)] = (path, data), data
        self._objects[git.hash_blob(data)] = sha

    def _decrypt(self, shas: Iterable[str]) -> None:
        """Decrypt age files that have not been decrypted yet, except those encrypted to other recipients."""
        for sha, sealed in self.inner.read([sha for sha in shas if sha not in self._opened]).items():
            try:
                path, nul, data = self._age.decrypt(sealed, self._keys).partition(b"\0")
            except self._age.DecryptError:
                continue
            if nul:
                self._remember_content(sha, path.decode("utf-8", "surrogateescape"), data)

    def _decrypt_tree(self, tree: Mapping[str, state.TreeEntry]) -> dict[str, state.TreeEntry]:
        self._decrypt({entry.sha for entry in tree.values()})
        texts = dict[str, bytes]()
        for name, entry in tree.items():
            path, data = self._opened.get(entry.sha, ("", b""))
            if not path or entry.mode != state.PLAIN_MODE or self._make_name(path) != name:
                message = f"cannot decrypt {name[:12]}… with the key on this machine; nothing was changed"
                raise FormatError(message, hint="use the same recipients on every machine; see docs/sync.md")
            texts[path] = data
        self._pieces = {path for path in texts if _PIECE in path}
        opened = {}
        for path, data in texts.items():
            if data.startswith(_CUT):
                pieces = [f"{path}{_PIECE}{digest}" for digest in data.decode("ascii", "replace").split()[1:]]
                if not self._pieces.issuperset(pieces):
                    raise FormatError(f"a part of {path} is missing in the remote; nothing was changed")
                data = b"".join(texts[piece] for piece in pieces)
                self._texts[git.hash_blob(data)] = data
            if path not in self._pieces:
                opened[path] = state.TreeEntry(state.PLAIN_MODE, git.hash_blob(data), len(data))
        return opened

    def _cut_indexes(self, files: Mapping[str, bytes | None]) -> dict[str, bytes | None]:
        """Return the files to encrypt. A long index becomes a list of pieces and the pieces that the remote lacks."""
        cut = dict(files)
        for path, data in files.items():
            if not is_index_path(path):
                continue
            there = {piece for piece in self._pieces if piece.startswith(path + _PIECE)}
            pieces: dict[str, bytes] = {}
            if data is not None and len(data) > _CUT_BYTES:
                rows = [(digest_of(piece)[:16], piece) for piece in _cut_lines(data)]
                pieces = {f"{path}{_PIECE}{digest}": piece for digest, piece in rows}
                cut[path] = b"\n".join([_CUT, *(digest.encode() for digest, _ in rows)])
                self._texts[git.hash_blob(data)] = data
            cut |= {name: piece for name, piece in pieces.items() if name not in there}
            cut |= dict.fromkeys(there - pieces.keys())
        return cut


def _cut_lines(data: bytes) -> Iterator[bytes]:
    """Split an index after lines chosen by their content, so that a new line changes few pieces."""
    lines: list[bytes] = []
    for line in data.splitlines(keepends=True):
        lines.append(line)
        if zlib.crc32(line) % _PIECE_LINES == 0 or len(lines) == 2 * _PIECE_LINES:
            yield b"".join(lines)
            lines = []
    if lines:
        yield b"".join(lines)


def find_names(branch: GitRemote, tree: state.RemoteTree) -> str:
    """Return the encrypted filename key of a branch, or "" if the branch is not encrypted."""
    return str(as_table(parse_json(branch.read([tree.mark]).get(tree.mark, b"null"))).get("names") or "")


def _prepare_keys(setup: OwnSetup, *, create: bool) -> OwnSetup:
    """Return the setup with its recipients, including this machine. `create` generates a missing key."""
    age, file = _load_age(), Path(setup.key_file)
    if create and not file.exists() and not setup.recipients:
        key = age.x25519.Identity.generate()
        write_private(file, f"# made by memdir; public key: {key.to_public()}\n{key}\n".encode("ascii"))
    keys = read_keys(file)
    own = (str(key.to_public()) for key in keys if hasattr(key, "to_public"))
    recipients = tuple(dict.fromkeys([*setup.recipients, *own]))
    try:
        age.decrypt(age.encrypt(b"", [parse_recipient(recipient) for recipient in recipients]), keys)
    except (age.DecryptError, age.EncryptError):
        hint = "add the public key that belongs to it: --recipient"
        raise SettingsError(f"cannot decrypt with {file}", key="recipient", hint=hint) from None
    return replace(setup, recipients=recipients)


def read_keys(file: Path) -> list[Any]:
    """Return the private keys in a file: lines from age-keygen, or one SSH key without a passphrase."""
    age, data = _load_age(), read_small(file, _RECORD_BYTES).data
    if data is None:
        hint = "copy the key file of another machine there, or name it: --key FILE"
        raise SettingsError(f"key file not found: {file}", key="key", hint=hint)
    lines = [line.strip() for line in data.decode("utf-8", "replace").splitlines()]
    try:
        if any("PRIVATE KEY" in line for line in lines):
            return [age.ssh.Identity.from_buffer(data)]
        keys = [age.x25519.Identity.from_str(line) for line in lines if line and not line.startswith("#")]
    except age.IdentityError:
        keys = []
    if not keys:
        raise SettingsError(f"no age key in {file}", key="key", hint="create one with `age-keygen -o FILE`")
    return keys


def parse_recipient(text: str) -> Any:
    age = _load_age()
    try:
        return (age.ssh if text.startswith("ssh-") else age.x25519).Recipient.from_str(text)
    except age.RecipientError:
        message = f"invalid public key {shorten(one_line(text), 60)!r}"
        raise SettingsError(message, key="recipient", hint="use age1… or ssh-ed25519 …") from None


def _load_age() -> Any:
    try:
        import pyrage  # only encrypted remotes need it
    except ImportError:
        hint = hint_extra("sync")
        raise SettingsError("encryption needs the package pyrage", key="recipient", hint=hint) from None
    return pyrage
