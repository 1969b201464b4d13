"""The project's files for a fork's eyes: list, read, search; never write, never follow a link, never leave the root.

Every look is bounded, because the one who asks is a model. Hidden files and files that look like secrets are not shown.
A search takes words, not regular expressions: a pattern from a model could keep the process busy for ever.
"""

import fnmatch
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from memdir import disk, guard
from memdir.errors import NotFoundError, PathError
from memdir.limits import FILE_BYTES, FORK_HITS, FORK_READ_BYTES
from memdir.text import shorten

_SKIPPED = frozenset({"node_modules", "__pycache__", "venv", "target", "dist", "build"})
_ENTRIES = 20_000  # looked at by one listing
_SEARCHED_BYTES = 20_000_000  # read by one search
_LINE_CHARS = 300


class Tree:
    """One project; `is_secret` says of a path below the root whether its content must not be shown."""

    def __init__(self, root: Path, is_secret: Callable[[str], bool]) -> None:
        self.root = root
        self._is_secret = is_secret

    def read(self, path: str) -> str:
        """The text of a file, its beginning if it is long."""
        self._check(path)
        root = guard.open_root(self.root)
        try:
            with guard.disk_errors(path):
                found = disk.read_file(root, path)
        finally:
            os.close(root)
        if found is None:
            raise NotFoundError(f"there is no file {path}", name=path)
        data = found[0]
        if b"\0" in data[:8192]:
            raise PathError(path, "it is not a text file")
        text = data[:FORK_READ_BYTES].decode("utf-8", "replace")
        rest = len(data) - FORK_READ_BYTES
        return text if rest <= 0 else f"{text}\n… {rest:,} bytes more are not shown"

    def list_files(self, pattern: str = "*") -> list[str]:
        """Files whose path or name matches, at most a screenful."""
        return [path for path, _ in zip(self._match(pattern), range(FORK_HITS), strict=False)]

    def search(self, words: str, pattern: str = "*") -> list[str]:
        """Lines that hold one of the words (`|` between them), as `path:line: text`."""
        wanted = [word.strip().lower() for word in words.split("|") if word.strip()]
        hits: list[str] = []
        budget = _SEARCHED_BYTES
        for path in self._match(pattern) if wanted else ():
            try:
                text = self.read(path)
            except (PathError, NotFoundError):
                continue
            budget -= len(text)
            for number, line in enumerate(text.splitlines(), 1):
                if any(word in line.lower() for word in wanted):
                    hits.append(f"{path}:{number}: {shorten(line.strip(), _LINE_CHARS)}")
            if len(hits) >= FORK_HITS or budget < 0:
                break
        return hits[:FORK_HITS]

    def _match(self, pattern: str) -> Iterator[str]:
        wanted = pattern.removeprefix("./").replace("**/", "*") or "*"
        for path in self._walk():
            if fnmatch.fnmatchcase(path, wanted) or fnmatch.fnmatchcase(path.rpartition("/")[2], wanted):
                yield path

    def _walk(self) -> Iterator[str]:
        count = 0
        for folder, folders, files in os.walk(self.root, followlinks=False):
            folders[:] = sorted(at for at in folders if not at.startswith(".") and at not in _SKIPPED)
            base = os.path.relpath(folder, self.root)
            for leaf in sorted(files):
                count += 1
                if count > _ENTRIES:
                    return
                path = leaf if base == "." else f"{base}/{leaf}"
                if not leaf.startswith(".") and not self._is_secret(path):
                    yield path

    def _check(self, path: str) -> None:
        guard.check_path(path)
        if self._is_secret(path):
            raise PathError(path, "it looks like a secret")
        if len(path) > FILE_BYTES:
            raise PathError(shorten(path, 60), "it is too long")
