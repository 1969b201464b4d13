"""For tests of the search engine: memories written as plain files, fast and with any age, and a question to them."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from memdir.recall.select import LocalSearch
from memdir.records import Kind, Pick, Query, Scope
from memdir.store.files import FileStore

NOW = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)


def write_memory(
    folder: Path,
    name: str,
    description: str,
    body: str = "",
    *,
    title: str = "",
    kind: Kind = Kind.PROJECT,
    modified: str = "2026-05-01",
    pinned: bool = False,
) -> Path:
    """One memory file, past the store: a test of the index may not depend on how a save goes."""
    head = [f"name: {json.dumps(title or name, ensure_ascii=False)}"]
    head += [f"description: {json.dumps(description, ensure_ascii=False)}", "metadata:", f"  type: {kind.value}"]
    head += [f"  modified: {modified}T12:00:00+00:00"] + ["  pinned: true"] * pinned
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.md"
    path.write_text("\n".join(["---", *head, "---", "", body, ""]), encoding="utf-8")
    return path


def ask_all(stores: Sequence[FileStore], text: str, limit: int = 5) -> list[Pick]:
    """What recall would get: the picks in order, without what was passed over."""
    with LocalSearch(stores) as search:
        found = search.find(Query(text, now=NOW, wide=True), limit, _take_all)
    return [pick for pick in found if not pick.dropped]


def ask(folder: Path, text: str, limit: int = 5) -> list[str]:
    """The names found in one directory, best first."""
    with FileStore(folder) as store:
        return [pick.header.name for pick in ask_all([store], text, limit)]


def _take_all(_: Scope, __: str) -> str:
    return ""
