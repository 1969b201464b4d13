"""What a project's directory says of the path it was made for, since its name cannot be turned back into one.

Two traces: the record memdir keeps beside its state, and the `cwd` in the host's transcripts. Both may be missing. What
follows from them is decided by paths and identity.
"""

import json
import os
from pathlib import Path

from memdir.small_files import read_head, read_small

RECORD = "project.json"
RECORD_BYTES = 65_536  # three strings, of which one is a path
TRANSCRIPT_BYTES = 65_536  # the first records name the directory; a transcript may have gigabytes


def read_record(state_dir: Path) -> dict[str, str]:
    """The record in a state directory, with at least a `root`; empty when there is none that can be read."""
    data = read_small(state_dir / RECORD, RECORD_BYTES, follow=False).data
    try:
        record = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    texts = {k: v for k, v in record.items() if isinstance(v, str)} if isinstance(record, dict) else {}
    return texts if _is_path(texts.get("root")) else {}


def find_transcript_cwd(project_dir: Path) -> str | None:
    """The working directory named by the newest transcript, from its first records."""
    newest = _find_newest(project_dir)
    data = read_head(newest, TRANSCRIPT_BYTES, follow=False).data if newest else None
    for line in (data or b"").splitlines():
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):  # the last line is mostly cut
            continue
        cwd = record.get("cwd") if isinstance(record, dict) else None
        if isinstance(cwd, str) and _is_path(cwd):
            return cwd
    return None


def _is_path(text: str | None) -> bool:
    """Whether the file system can be asked about it."""
    try:
        return text is not None and os.path.isabs(text) and b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        return False


def _find_newest(project_dir: Path) -> str | None:
    best: tuple[int, str] | None = None
    try:
        with os.scandir(project_dir) as entries:
            for entry in entries:
                if entry.name.endswith(".jsonl") and entry.is_file(follow_symlinks=False):
                    found = (entry.stat(follow_symlinks=False).st_mtime_ns, entry.path)
                    best = max(best, found) if best else found
    except OSError:
        pass  # gone or closed to us: as if it had no transcript
    return best[1] if best else None
