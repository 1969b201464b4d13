"""Both sides of a sync as records, and what a remote has to be able to do.

A `SyncPart` is a directory of memory here and a folder of the tree that several machines share. A team syncs one part, the
folder `team/` with a whole tree; a person's own machines sync many, each with a folder of one tree (`own`). A `Remote`
keeps such a tree: a branch of a git remote (`git`), the same encrypted (`own`), or a store of a server (`server`).
"""

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from typing import Protocol, TypeVar

from memdir import guard
from memdir.errors import MemdirError, NotFoundError, PathError
from memdir.format.frontmatter import decode
from memdir.format.index import INDEX_FILE
from memdir.frozen import dataclass, field
from memdir.records import TEAM_FOLDER
from memdir.store.files import FileStore
from memdir.store.plan import is_team
from memdir.store.state import POINT, Author

PLAIN_MODE = "100644"
_Kept = TypeVar("_Kept")


class RemoteError(MemdirError):
    """A remote that cannot be reached, or did not do what it was asked; the next sync tries again."""


@dataclass(frozen=True, slots=True)
class SyncPart:
    """`folder` is below the store's root; an empty one means all memories but `team/`. `prefix` is where its files are in
    the remote's tree. Of what others share, more is asked than of what one person keeps on several machines."""

    store: FileStore
    folder: str = TEAM_FOLDER
    prefix: str = ""
    point_file: str = POINT

    @property
    def is_shared(self) -> bool:
        return self.folder == TEAM_FOLDER

    def locate(self, path: str) -> str:
        """A file's path below the store's root."""
        return f"{self.folder}/{path}" if self.folder else path

    def name(self, path: str) -> str:
        """A memory's name in its store."""
        return self.locate(path).removesuffix(".md")

    def show(self, path: str) -> str:
        """A memory's name as it is shown: with the folder of the tree where one sync has several parts."""
        return self.name(path) if self.is_shared else self.prefix + path.removesuffix(".md")


@dataclass(frozen=True, slots=True)
class TreeEntry:
    """One name in a tree: its mode as in git, its object, its size. A name that is no UTF-8 is shown with escapes."""

    mode: str
    sha: str
    size: int
    is_text: bool = True  # whether the name is UTF-8


@dataclass(frozen=True, slots=True)
class LocalTree:
    """A part as it is here: files by path, the index or None, what lies there that may not be touched, and names of
    memories of the directory that belong to no part."""

    files: Mapping[str, bytes]
    index: str | None = None
    blocked: Mapping[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteTree:
    """A remote as it was fetched; `head` is empty if there is nothing. `mark` is the object of its own file, `is_ours`
    whether there is one, of whatever kind. `is_gone`: the remote has lost it all, and this is what was known of it."""

    head: str = ""
    tree: Mapping[str, TreeEntry] = field(default_factory=dict)
    mark: str = ""
    is_gone: bool = False
    is_ours: bool = False


@dataclass(frozen=True, slots=True)
class TeamCommit:
    """A commit as it says of itself, and the names it changed: path -> added, changed or deleted."""

    sha: str
    author: Author
    changes: Mapping[str, str]


class PushResult(StrEnum):
    """What a remote said to a push: done, somebody was quicker, no, or nothing at all."""

    DONE = "done"
    QUICKER = "quicker"
    DENIED = "denied"
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class PushState:
    answer: PushResult
    said: str = ""


class Remote(Protocol):
    """A tree that several machines share. Any method may raise RemoteError."""

    def hash(self, data: bytes) -> str:
        """The name of an object with this content."""

    def fetch(self) -> RemoteTree:
        """The tree as it is now."""

    def find_common(self, known: str, head: str) -> Mapping[str, TreeEntry] | None:
        """None if `head` continues `known`; else the tree both come from, empty if there is none."""

    def read(self, shas: Iterable[str]) -> dict[str, bytes]:
        """Contents by object; what is not there is left out."""

    def push(
        self, tree: RemoteTree, files: Mapping[str, bytes | None], author: Author, now: datetime, message: str
    ) -> tuple[str, PushState]:
        """Put files on top of a tree, None for deleted, all or none; returns the head then, and how it went."""

    def find_versions(self, head: str, after: str, paths: Collection[str]) -> dict[str, set[str]]:
        """Path -> the objects it was since `after`; best effort."""

    def find_authors(self, head: str, after: str) -> dict[str, Author]:
        """Path -> who changed it last since `after`."""

    def keep(self, head: str) -> None:
        """All parts are in step with this head; what was only needed before may be dropped."""


class TeamRemote(Remote, Protocol):
    """A remote that knows who changed what."""

    def read_log(self, head: str) -> tuple[TeamCommit, ...]:
        """Its commits up to a head, newest first."""

    def read_texts(self, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Texts by commit and path, `COMMIT^` for the one before; what cannot be read is left out."""


def cut_tree(rows: Mapping[str, _Kept], prefix: str) -> Mapping[str, _Kept]:
    """The rows below a folder of a tree, by their paths there."""
    return {path.removeprefix(prefix): row for path, row in rows.items() if path.startswith(prefix)} if prefix else rows


def read_local(part: SyncPart) -> LocalTree:
    """A part as it is here now; without a directory there is nothing in it."""
    try:
        root = guard.open_root(part.store.root)
    except NotFoundError:
        return LocalTree({})
    files: dict[str, bytes] = {}
    blocked: dict[str, str] = {}
    others: list[str] = []
    try:
        for found in guard.walk(root, folder=part.folder):
            path = found.path.removeprefix(f"{part.folder}/") if part.folder else found.path
            if not part.folder and is_team(path):
                others.append(path.removesuffix(".md"))
                continue
            data = None if found.refusal else _read(root, found.path)
            if data is None:
                why = found.refusal or "unreadable"
                blocked[path] = f"in its place here lies something that is no plain file ({why})"
            else:
                files[path] = data
        index = _read(root, part.locate(INDEX_FILE))
    finally:
        os.close(root)
    return LocalTree(files, None if index is None else decode(index), blocked, tuple(others))


def _read(root: int, path: str) -> bytes | None:
    try:
        found = guard.read_file(root, path)
    except (OSError, PathError):
        return None
    return found[0] if found else None
