"""The record of what ran in the background: one line of JSON a run in `<state>/runs.jsonl`, newest kept.

For `status`, `doctor` and whoever asks what it cost. It counts and names acts by number; only an error may speak a
memory's name, so purging removes it. It can be deleted at any time. Writing it never fails a run.
"""

import json
from collections.abc import Mapping
from pathlib import Path

from memdir.fork import Ran
from memdir.records import Usage
from memdir.small_files import append_private, read_small, write_private

FILE = "runs.jsonl"
_BYTES = 2_097_152
_KEPT = 500


def note_run(state: Path, row: Mapping[str, object]) -> None:
    """Add a row; several processes may do so at once."""
    path = state / FILE
    if state.is_symlink() or path.is_symlink():
        return
    try:
        if append_private(path, json.dumps(row).encode("ascii")) > _BYTES // 2:
            write_private(path, b"".join(_read_lines(path)[-_KEPT:]))
    except OSError:
        pass


def render_ran(ran: Ran | None) -> dict[str, object]:
    """What a run of a model cost, and how much of its first request came from the cache, for a row."""
    usage, first = (ran.usage, ran.first) if ran else (Usage(), Usage())
    return {
        "requests": ran.turns if ran else 0,
        "calls": ran.calls if ran else 0,
        "refused": ran.refused if ran else 0,
        "tokens": render_usage(usage) if ran else None,
        "cached_share": round(first.cached / first.input, 4) if first.input else None,
        "dollars": usage.dollars,
    }


def render_usage(usage: Usage) -> dict[str, int]:
    return {"fresh": usage.fresh, "cached": usage.cached, "stored": usage.stored, "output": usage.output}


def read_runs(state: Path, *, limit: int = _KEPT) -> tuple[dict[str, object], ...]:
    """The last runs, newest first; lines that are no rows are passed over."""
    rows = []
    for line in reversed(_read_lines(state / FILE)):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
        if len(rows) >= limit:
            break
    return tuple(rows)


def _read_lines(path: Path) -> list[bytes]:
    return (read_small(path, _BYTES, follow=False).data or b"").splitlines(keepends=True)
