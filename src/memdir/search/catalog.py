"""The derived index of one directory, in SQLite: kept up with the files, and asked for candidates.

One file, `index.db`, written in transactions, so that several processes can use it at once and a killed one leaves it
whole. It extends what a listing keeps there: a file that has not changed is not read again, one that has is read alone.
Whatever is wrong with it, it is deleted and made anew: the files are canonical.

It stores and fetches; what a score is worth is `rank`'s business.
"""

import sqlite3
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path

from memdir.disk import Stat
from memdir.frozen import dataclass
from memdir.records import Kind
from memdir.search import entries, postings
from memdir.search.bodies import Body, Facts, parse_body
from memdir.search.entries import Totals
from memdir.search.words import WordTable
from memdir.store import headers

_SCHEMA = f"1-{sys.byteorder}"  # how rows are written; an index of another kind is made anew
_BUSY_SECONDS = 0.5
_BATCH = 2_000  # files in one transaction: what a killed build loses, and what is in memory at once
_CACHE_KIB = 16_384
_NO_LINKS: frozenset[str] = frozenset()
_KINDS = {"": None, **{kind.value: kind for kind in Kind}}
Read = Callable[[str], "bytes | None"]


@dataclass(frozen=True, slots=True)
class Row:
    """One document as it is kept; `vectors` holds the whole's, then one a passage if there are several."""

    path: str
    length: int
    passages: str
    vectors: bytes
    facts: Facts


def is_busy(error: sqlite3.Error) -> bool:
    """Whether somebody else holds the index: that passes, and nothing is wrong with it."""
    code: int = getattr(error, "sqlite_errorcode", sqlite3.SQLITE_ERROR)  # `open_index` has errors of its own
    return code & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


class Catalog:
    """One open index. Without `semantic` the table serves for rarity alone: no neighbours, no vectors asked for."""

    def __init__(self, path: Path, table: WordTable | None, *, semantic: bool = True) -> None:
        self.path = path
        self.table = table
        self.semantic = semantic and table is not None
        self._keeps_vectors = False
        self._db = self._open()

    def close(self) -> None:
        self._db.close()

    def rebuild(self) -> None:
        """Throw the index away and begin with an empty one."""
        self._db.close()
        headers.drop_index(self.path)
        self._db = self._open()

    # --- keeping up -------------------------------------------------------------------------------------------------

    def is_fresh(self, listed: Mapping[str, Stat]) -> bool:
        return entries.find_note(self._db, "listing") == _digest(listed)

    def refresh(self, listed: Mapping[str, Stat], read: Read) -> int:
        """Bring the index up to the files; answers how many were read. A busy index is left as it is."""
        if self.is_fresh(listed):
            return 0
        listing = _digest(listed)
        # As text, since inode numbers of some file systems do not fit SQLite's signed integers.
        signatures = {path: " ".join(map(str, at)) for path, at in listed.items()}
        known = self._read_known()
        changed = [path for path, signature in signatures.items() if known.get(path) != signature]
        count = 0
        for start in range(0, len(changed) or 1, _BATCH):
            made = [
                parse_body(path, data.decode("utf-8", "replace"), signatures[path])
                for path in changed[start : start + _BATCH]
                if (data := read(path)) is not None
            ]
            if not self._change(made, signatures, listing if start + _BATCH >= len(changed) else ""):
                break
            count += len(made)
        return count

    def _change(self, made: Sequence[Body], signatures: Mapping[str, str], listing: str) -> bool:
        """One transaction, the last one with the digest of the listing. Another process may have been quicker: what
        stands there now decides."""
        try:
            self._db.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if is_busy(error):
                return False
            raise
        with self._db:
            known = self._read_known()
            fresh = [body for body in made if known.get(body.path) != signatures[body.path]]
            gone = [path for path in known if path not in signatures] if listing else []
            entries.remove(self._db, [*gone, *(body.path for body in fresh if body.path in known)])
            entries.add(self._db, fresh, signatures, self.table if self._keeps_vectors else None)
            # A file that could not be read leaves the listing open: it is tried again the next time.
            is_whole = bool(listing) and self._read_known() == signatures
            entries.write_note(self._db, "listing", listing if is_whole else "")
        return True

    # --- asking -----------------------------------------------------------------------------------------------------

    def read_totals(self) -> Totals:
        return entries.read_totals(self._db)

    def find_terms(self, words: Sequence[str]) -> dict[str, tuple[int, int]]:
        """Number and document frequency of the words that occur here."""
        return entries.find_terms(self._db, words)

    def find_kin(self, stem: str, most: int) -> list[str]:
        """Words of the directory that begin with this stem and are not much longer."""
        upper = stem[:-1] + chr(ord(stem[-1]) + 1)
        select = "SELECT word FROM terms WHERE word >= ? AND word < ? AND length(word) <= ? LIMIT 20"
        return [word for (word,) in self._db.execute(select, (stem, upper, most))]

    def find_candidates(self, weights: Mapping[int, float], most: int) -> list[int]:
        """The documents with the largest sum of weighted terms, in no order."""
        terms = ",".join(map(str, weights))
        blocks = self._db.execute(f"SELECT term, data FROM postings WHERE term IN ({terms})")
        return postings.find_best(blocks, weights, most)

    def find_docs(self, paths: Sequence[str]) -> list[int]:
        return entries.find_docs(self._db, paths)

    def read_rows(self, docs: Iterable[int] | None) -> Iterator[Row]:
        """Some documents, or all."""
        select = "SELECT path, length, passages, vectors, links, modified, pinned, kind FROM bodies"
        if docs is not None:
            select += f" WHERE doc IN ({','.join(map(str, docs))})"
        for path, length, passages, data, links, modified, pinned, kind in self._db.execute(select):
            linked = frozenset(links.split("\n")) if links else _NO_LINKS
            yield Row(path, length, passages, data, Facts(_read_time(modified), bool(pinned), _KINDS[kind], linked))

    # --- inside -----------------------------------------------------------------------------------------------------

    def _open(self) -> sqlite3.Connection:
        try:
            return self._open_once()
        except sqlite3.DatabaseError as error:
            # What lies behind a linked folder may be somebody else's; a name in our own folder is ours to take away.
            if is_busy(error) or self.path.parent.is_symlink():
                raise
            headers.drop_index(self.path)
            return self._open_once()

    def _open_once(self) -> sqlite3.Connection:
        db = headers.open_index(self.path, _BUSY_SECONDS)
        try:
            db.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
            self._check_kind(db)
        except sqlite3.Error:
            db.close()
            raise
        return db

    def _check_kind(self, db: sqlite3.Connection) -> None:
        """An index with vectors serves a search without them, and keeps having them; not the other way round."""
        plain = f"{_SCHEMA} "
        full = plain + (self.table.name if self.table is not None else "")
        wanted = full if self.semantic else plain
        if _find_kind(db) not in (full, wanted):
            db.execute("BEGIN IMMEDIATE")
            with db:
                if _find_kind(db) not in (full, wanted):  # nobody else has made it meanwhile
                    entries.make_tables(db, wanted)
        self._keeps_vectors = _find_kind(db) == full

    def _read_known(self) -> dict[str, str]:
        return dict(self._db.execute("SELECT path, sig FROM files"))


def _find_kind(db: sqlite3.Connection) -> str | None:
    has = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'totals'").fetchone()
    return entries.find_note(db, "kind") if has else None


def _read_time(moment: float) -> datetime:
    try:
        return datetime.fromtimestamp(moment, UTC)
    except (ValueError, OverflowError, OSError):
        return datetime.fromtimestamp(0, UTC)


def _digest(listed: Mapping[str, Stat]) -> str:
    """A short form of a whole listing in the order it was read: the same again means that nothing has changed.

    Hashes of numbers, unlike those of text, are the same in every process; where one differs, files are compared.
    """
    names = "\n".join(listed).encode("utf-8", "replace")
    return f"{len(listed)}-{zlib.crc32(names):08x}{hash(tuple(listed.values())) & 0xFFFF_FFFF_FFFF_FFFF:016x}"
