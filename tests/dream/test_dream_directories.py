"""Constructed directories: duplicates, contradictions with dates, habits, stale, pinned, foreign, and some more.

`data/dreams/NAME.json`: the memories with their age in days, the logs, the operations of a model, which sentences a second
reader lets pass, and what must come of it. Of every directory: each fact is still said, what is safe was done, what is
doubtful needs review, pinned memories are as they were, and one undo restores every byte.

Operations and opinions were written by hand, by the author of the code: they show what the dream does with such answers, and
nothing of how good a real model's answers are.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from dream_stores import build, image, judge, list_said, translate
from memdir.dream import DreamResult, dream
from memdir.records import Reply, Request, Usage
from memdir.store.files import FileStore

DIRECTORIES = sorted((Path(__file__).parents[1] / "data" / "dreams").glob("*.json"))


class GivenModel:
    """Returns the given operations; asked for a second opinion, the numbers of the given sentences."""

    has_tools = False

    def __init__(self, case: Mapping[str, Any]) -> None:
        self.operations, self.follows = case["operations"], frozenset(case["follows"])
        self.requests: list[Request] = []

    def __call__(self, request: Request) -> Reply:
        self.requests.append(request)
        if request.purpose == "dream":
            rows = self.operations if len(self.requests) == 1 else []
            return Reply(json.dumps({"operations": rows}), Usage(100, 0, 20))
        return Reply(judge(request.messages[0].text, self.follows), Usage(50, 0, 5))


@pytest.mark.parametrize("path", DIRECTORIES, ids=lambda path: path.stem)
def test_every_safe_change_is_done_nothing_is_lost_and_one_undo_restores_the_bytes(path: Path, memory: Path) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    with build(memory, case) as store:
        before, model = image(memory), GivenModel(case) if case["operations"] is not None else None
        done = dream(store, model=model, now=datetime.fromisoformat(case["now"]))
        assert done.patches is not None and done.applied is not None and not done.patches.error
        assert check(store, case, before, done) == []
        if done.applied.change is not None:
            store.undo(done.applied.change)
        assert image(memory) == before


def check(store: FileStore, case: Mapping[str, Any], before: Mapping[str, bytes], done: DreamResult) -> list[str]:
    """What is wrong with the directory after the dream, in words."""
    after = image(store.root)
    said = "\n".join(data.decode() for at, data in after.items() if "/" not in at and at != "MEMORY.md")
    names = {at.name for at in store.scan()}
    waiting = {item.name for item in store.inbox() if item.id in (done.applied.waiting if done.applied else ())}
    pinned = [f"{row['name']}.md" for row in case["memories"] if row.get("pinned")]
    wrong = [f"lost: {fact}" for fact in case["facts"] if fact not in said]
    wrong += [f"still there: {name}" for name in case["gone"] if name in names]
    wrong += [f"gone: {row['name']}" for row in case["memories"] if row["name"] not in names | {*case["gone"]}]
    wrong += [f"not for review: {name}" for name in case["review"] if name not in waiting]
    wrong += [f"for review: {name}" for name in waiting if name not in case["review"]]
    wrong += [f"pinned and changed: {name}" for name in pinned if before[name] != after.get(name)]
    wrong += [
        f"created: {name}" for name in names if f"{name}.md" not in before and name not in case.get("created", ())
    ]
    return wrong


OTHERS = sorted((Path(__file__).parents[1] / "data" / "dreams_other").glob("*.json"))


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.stem)
def test_without_a_model_directories_of_another_author_keep_every_fact(path: Path, memory: Path) -> None:
    case = translate(json.loads(path.read_text(encoding="utf-8")))
    with build(memory, case) as store:
        before = image(memory)
        done = dream(store, now=datetime.fromisoformat(case["now"]))
        after = image(memory)
        assert list_said(after, case["facts"]) == list_said(before, case["facts"])
        assert [name for name in case["untouched"] if after.get(f"{name}.md") != before[f"{name}.md"]] == []
        if done.applied is not None and done.applied.change is not None:
            store.undo(done.applied.change)
        assert image(memory) == before
