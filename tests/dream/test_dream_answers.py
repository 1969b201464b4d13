"""Dreams with the answers of a capable model that saw only the request, over directories of an author who did not see
the code: what is safe is applied, no fact is lost, and one undo restores the bytes.
"""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from dream_stores import build, image, list_said, translate
from large_dreams import LARGE, DreamReader, join
from memdir.dream import dream
from memdir.format.frontmatter import parse_fields, split_frontmatter
from memdir.records import Forget, Rewrite, When
from tables import read_rows

ROWS = read_rows("dream_answers")

FOLDER = Path(__file__).parents[1] / "data" / "dreams_other"
CASES = sorted(FOLDER.glob("*.json"))


# What is not as its author labelled it: dates that went with a plan that is over, and what waits for a person instead of
# being done, as where the judge finds that a part of an overtaken memory still holds.
LEFT: dict[str, dict[str, list[str]]] = ROWS["LEFT"]


class Dreamed:
    """One directory after a dream."""

    def __init__(self, case: Mapping[str, Any], memory: Path, model: DreamReader) -> None:
        self.case, self.model = case, model
        with build(memory, case) as store:
            before = image(memory)
            done = dream(store, model=model, now=datetime.fromisoformat(case["now"]))
            after = image(memory)
            kept = list_said(after, case["facts"])
            self.lost = [fact for fact in list_said(before, case["facts"]) if fact not in kept]
            self.touched = [name for name in case["untouched"] if _read(after, name) != _read(before, name)]
            self.stale = [
                text
                for change in case["safe"]
                for text in change.get("gone", ())
                if any(text.casefold() in at.decode().casefold() for path, at in after.items() if path != "MEMORY.md")
            ]
            self.review = [item.title for item in store.inbox()]
            self.items = Counter(item.name for item in store.inbox())
            self.text, self.patches = done.text, () if done.patches is None else done.patches.patches
            self.error = "" if done.patches is None else done.patches.error
            self.changed = sum(before.get(path) != after.get(path) for path in {*before, *after})
            if done.applied is not None and done.applied.change is not None:
                store.undo(done.applied.change)
            self.is_restored = image(memory) == before


def _read(files: Mapping[str, bytes], name: str) -> tuple[str, ...] | None:
    """What a memory says, without its cues, which a dream adds to all of them."""
    data = files.get(f"{name}.md")
    if data is None:
        return None
    fields = parse_fields(data.decode())
    return fields.title, fields.description, str(fields.kind), split_frontmatter(data.decode()).body.strip()


def play(path: Path, memory: Path) -> Dreamed:
    return Dreamed(translate(json.loads(path.read_text(encoding="utf-8"))), memory, DreamReader(path.stem))


def check(at: Dreamed) -> Mapping[str, Any]:
    found = {"lost": at.lost, "touched": at.touched, "stale": at.stale, "error": at.error}
    return {key: value for key, value in found.items() if value} | ({} if at.is_restored else {"undo": "not the same"})


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_dream_with_a_capable_models_answers(path: Path, memory: Path) -> None:
    dreamed = play(path, memory)
    assert not dreamed.model.opinions.missing
    assert check(dreamed) == LEFT.get(path.stem, {})


REPORTS = {
    "09-contradiction": ["removed tabulation-deux, overtaken by tabs-finalement"],
    "10-contradiction": ["merged release-manager into release-signoff-change"],
    "16-habit": ["removed martes-despliegue, overtaken by despliegue-ahora-jueves"],
    "21-stale": ["merged api-v1-sunset into v1-exception-harbourline"],
    "34-big": [
        "removed ios-min, overtaken by ios-min-raised",
        "removed hls-segment, overtaken by hls-segments-shorter",
        "merged go-version into go-version-bump",
    ],
}


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_report_names_the_memories_of_its_patches_and_each_has_one_item(path: Path, memory: Path) -> None:
    dreamed = play(path, memory)
    assert [text for text in REPORTS.get(path.stem, ()) if text not in dreamed.text.split("; ")] == []
    check_report(dreamed)
    whole = [patch for patch in dreamed.patches if sum(isinstance(edit, Forget) for edit in patch.edits) > 1]
    assert not whole, "deletions that share nothing are separate patches"


def check_report(dreamed: Dreamed) -> None:
    told = {word.strip(",;") for word in dreamed.text.split()} & {row["name"] for row in dreamed.case["memories"]}
    assert told <= {name for patch in dreamed.patches for name in patch.names}
    changed = Counter(edit.name for patch in dreamed.patches for edit in patch.edits if isinstance(edit, Forget))
    assert max(changed.values(), default=0) < 2 and max(dreamed.items.values(), default=0) < 2


@pytest.mark.parametrize("name", LARGE)
def test_dreams_of_large_directories_rename_add_moments_and_ask_once(name: str, memory: Path) -> None:
    dreamed = Dreamed(join(name), memory, DreamReader(name))
    assert not dreamed.model.opinions.missing and len(dreamed.model.requests) == 2
    check_report(dreamed)
    assert dreamed.is_restored and not dreamed.error and dreamed.touched == []
    assert dreamed.lost == LEFT[name]["lost"]  # dates and values that went with what is over
    texts = {edit.text for patch in dreamed.patches for edit in patch.edits if isinstance(edit, Rewrite)}
    assert sum(parse_fields(text).when != When() for text in texts) >= 5


def test_most_of_what_is_safe_is_applied(tmp_path: Path) -> None:
    counts: Counter[str] = Counter()
    for path in CASES:
        dreamed = play(path, tmp_path / path.stem)
        counts["review"] += len(dreamed.review)
        counts["changed"] += dreamed.changed
    assert counts["changed"] > 10 * counts["review"], counts
