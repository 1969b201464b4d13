"""One SQLite file that is kept: opened, brought to its newest shape, changed whole or not at all.

It knows no table. A reader may meet a file of an older shape, since only writers migrate: `version` says which. Into
one of a newer shape than it knows nobody writes.
"""

import errno
import os
import sqlite3
from _thread import allocate_lock
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from memdir.errors import DiskError

_CREATING = allocate_lock()  # as `threading.Lock`, a module that a cold recall has no time for
_PATH_BYTES = 504  # SQLite's own 512 for a path, less the endings of its logs


class Database:
    """An open database with numbered migrations, oldest first; PRAGMA user_version says how many have run."""

    def __init__(
        self, path: Path, migrations: Sequence[str], *, readonly: bool = False, busy_seconds: float = 30.0
    ) -> None:
        self.path = path
        self._migrations = migrations
        with sqlite_errors(path):
            # In a folder that cannot be written SQLite cannot make the file its log needs, unless told nobody writes.
            frozen = "&immutable=1" if readonly and not os.access(path.parent, os.W_OK) else ""
            uri = f"{path.absolute().as_uri()}?mode={'ro' if readonly else 'rwc'}{frozen}"
            self._db = sqlite3.connect(
                uri, uri=True, timeout=busy_seconds, isolation_level=None, check_same_thread=False
            )
            try:
                if not readonly:
                    self._prepare()
            except sqlite3.Error:
                self._db.close()
                raise

    def _prepare(self) -> None:
        self._check_known()
        if self._read_version() < len(self._migrations):
            self._db.execute("PRAGMA journal_mode = WAL")
            with self.transaction(durable=True):
                # Asked again inside: another process may have been here since.
                version = self._read_version()
                for number, script in enumerate(self._migrations[version:], version + 1):
                    for statement in script.split(";"):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA user_version = {number}")
        self._db.execute("PRAGMA secure_delete = ON")

    def _check_known(self) -> None:
        """Refuse to write into a shape that a newer memdir has made; whoever only reads takes what it finds."""
        version, known = self._read_version(), len(self._migrations)
        if version > known:
            self._db.close()
            raise DiskError(
                f"{self.path.name} was made by a newer memdir (format {version}, this one knows {known})",
                path=str(self.path),
                hint="update memdir, as in `pipx upgrade memdir`; nothing was changed",
            )

    @property
    def version(self) -> int:
        """How many migrations have run."""
        with sqlite_errors(self.path):
            return self._read_version()

    def _read_version(self) -> int:
        return int(self._db.execute("PRAGMA user_version").fetchone()[0])

    def close(self) -> None:
        self._db.close()

    @contextmanager
    def transaction(self, *, durable: bool) -> Iterator[sqlite3.Connection]:
        """Everything inside happens, or nothing; `durable`: it survives a power cut from then on."""
        with sqlite_errors(self.path):
            self._db.execute(f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}")
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield self._db
                self._db.execute("COMMIT")
            finally:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        with sqlite_errors(self.path):
            yield self._db


def create_file(path: Path) -> None:
    """Make the file, for its owner's eyes only, if it is not there; a link raises OSError.

    One that is there is not even opened: whoever closes a file takes away all locks this process has on it, those of
    SQLite's in other threads too, and then two processes write where one should.
    """
    with _CREATING:
        if path.is_symlink():
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
        if not path.exists():
            with suppress(FileExistsError):  # another process was quicker
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


@contextmanager
def sqlite_errors(path: Path) -> Iterator[None]:
    """SQLite's own words for a full disk or a missing right, as one of ours."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        words = str(error)
        full = "full" in words or "I/O" in words
        hint = "free some space; nothing was changed" if full else "check the disk and who owns the folder"
        if "malformed" in words or "not a database" in words:
            hint = "the history is damaged: move it away (memories are not affected) and a new one begins"
        if "unable to open" in words and (size := len(os.fsencode(path.absolute()))) > _PATH_BYTES:
            hint = f"its path has {size} bytes, and SQLite opens none beyond {_PATH_BYTES}: choose a shorter directory"
        raise DiskError(f"cannot use {path.name}: {words}", path=str(path), hint=hint) from None
