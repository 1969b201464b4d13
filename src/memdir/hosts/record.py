"""What `install` put where: one small JSON file in the person's state folder, so that `uninstall` can undo it exactly.

It holds our own insertions and a digest of each file as we left it, and nothing that anybody else wrote there. Without
it `uninstall` still takes our entries out; only white space may differ then.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

from memdir.frozen import dataclass
from memdir.small_files import read_small, write_private

FILE = "installed.json"
_BYTES = 1_048_576


@dataclass(frozen=True, slots=True)
class Entry:
    """One file of a host as we left it: `splices` are the texts put in, one after the other, each with its place.

    `made` are containers that were not there before, `folders` likewise; `created`: the file itself is ours.
    """

    host: str
    digest: str
    since: datetime
    splices: tuple[tuple[int, str], ...] = ()
    made: tuple[tuple[str, ...], ...] = ()
    created: bool = False
    folders: tuple[str, ...] = ()


def read_record(state_home: Path) -> dict[str, Entry]:
    """Every file we have changed, by its path; what cannot be read counts as not there."""
    try:
        table = json.loads(read_small(state_home / FILE, _BYTES).data or b"{}")
    except (ValueError, RecursionError):
        return {}
    files = table.get("files") if isinstance(table, dict) else None
    rows = files.items() if isinstance(files, dict) else ()
    found = {path: _parse_entry(row) for path, row in rows if isinstance(row, dict)}
    return {path: entry for path, entry in found.items() if entry is not None}


def write_record(state_home: Path, entries: Mapping[str, Entry]) -> None:
    """Keep the record; an empty one is removed."""
    path = state_home / FILE
    if not entries:
        path.unlink(missing_ok=True)
        return
    files = {
        where: {
            "host": at.host,
            "digest": at.digest,
            "since": at.since.isoformat(),
            "splices": [list(splice) for splice in at.splices],
            "made": [list(keys) for keys in at.made],
            "created": at.created,
            "folders": list(at.folders),
        }
        for where, at in sorted(entries.items())
    }
    write_private(path, json.dumps({"files": files}, indent=1).encode("ascii") + b"\n")


def _parse_entry(row: Mapping[str, object]) -> Entry | None:
    host, digest, since = row.get("host"), row.get("digest"), row.get("since")
    try:
        began = datetime.fromisoformat(str(since))
    except ValueError:
        return None
    if not isinstance(host, str) or not isinstance(digest, str):
        return None
    splices = [at for at in _list(row.get("splices")) if isinstance(at, list) and len(at) == 2]
    return Entry(
        host,
        digest,
        began if began.tzinfo else began.replace(tzinfo=UTC),
        tuple((int(at), str(text)) for at, text in splices if isinstance(at, int)),
        tuple(tuple(map(str, keys)) for keys in _list(row.get("made")) if isinstance(keys, list)),
        row.get("created") is True,
        tuple(at for at in _list(row.get("folders")) if isinstance(at, str)),
    )


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
