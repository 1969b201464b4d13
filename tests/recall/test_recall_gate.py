"""Right or silent: what is shown at a prompt, and what is not."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from memdir.format.shown import show_memory
from memdir.recall import select
from memdir.recall.index import open_words
from memdir.recall.pipeline import IGNORED, recall
from memdir.recall.reminder import find_known_secrets
from memdir.recall.select import LocalSearch
from memdir.records import Draft, Kind
from memdir.store.files import FileStore
from memdir.store.secrets import find_secrets
from memdir.store.sessions import SessionFile
from search_stores import NOW
from secret_cases import read_told
from tables import read_rows

ROWS = read_rows("recall_gate")

PROMPTS = Path(__file__).parents[1] / "data" / "prompts"
MEMORIES = ROWS["MEMORIES"]


@pytest.fixture
def store(memory: Path) -> FileStore:
    store = FileStore(memory)
    for title, description, body, cues in MEMORIES:
        store.write(Draft(Kind.PROJECT, title, description, body, cues=tuple(cues)))
    return store


def ask(store: FileStore, text: str, **more: object) -> list[str]:
    return [at.header.title for at in recall([store], text, now=NOW, **more)]  # type: ignore[arg-type]


def test_a_cue_brings_a_memory_that_shares_no_word_with_the_prompt(store: FileStore, tmp_path: Path) -> None:
    prompt = "can you ship the new version to production?"
    assert ask(store, prompt) == ["No deploys on Fridays"]
    uncued = FileStore(tmp_path / "uncued")
    for title, description, body, _ in MEMORIES:
        uncued.write(Draft(Kind.PROJECT, title, description, body))
    assert ask(uncued, prompt) != ask(store, prompt)


def test_small_talk_continuations_and_code_tasks_are_silent(store: FileStore) -> None:
    prompts = (
        "thanks, that works now", "go on with the next file", "next one please", "run the tests again", "ok, do that",
        "rename the variable tmp in parse_header() to buffer", "what does the yield keyword do in python",
        "turn this loop into a list comprehension and delete the unused import in utils.py",
    )  # fmt: skip
    assert [text for text in prompts if ask(store, text)] == []


def test_what_was_not_shown_is_shown_when_it_fits(store: FileStore) -> None:
    session = SessionFile(store.state, "s1")
    assert ask(store, "thanks, that works now", session=session) == []
    assert not session.read().surfaced
    assert ask(store, "when does the release go out to production?", session=session) == ["No deploys on Fridays"]
    assert list(session.read().surfaced) == ["no-deploys-on-fridays"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("authors", "precision", "found", "silent"),
    [pytest.param("ab", 0.65, 54, 92, id="seen"), pytest.param("j", 0.55, 29, 46, id="held apart")],
)
def test_prompts_of_developers_get_the_right_memory_or_none(
    authors: str, precision: float, found: int, silent: int, tmp_path: Path
) -> None:
    """The shipped gate was fitted on a and b, among others, and has not seen j; docs/benchmarks.md has the curves."""
    count: Counter[Any] = Counter()
    for author in authors:
        rows = {
            name: [json.loads(line) for line in (PROMPTS / author / f"{name}.jsonl").read_text("utf-8").splitlines()]
            for name in ("memories", "prompts")
        }
        for project in {row["group"] for row in rows["memories"]}:
            store, ids = FileStore(tmp_path / project), {}
            (tmp_path / project).mkdir()
            for row in (row for row in rows["memories"] if row["group"] == project):
                head = "".join(f"{key}: {json.dumps(row[key])}\n" for key in ("name", "description", "type", "cues"))
                name = row["id"].partition("/")[2].replace("_", "-")
                (store.root / f"{name}.md").write_text(f"---\n{head}---\n\n{row['text']}\n", encoding="utf-8")
                ids[name] = row["id"]
            with LocalSearch((store,)) as search:
                for row in (row for row in rows["prompts"] if row["group"] == project):
                    shown = {ids[at.header.name] for at in recall([store], row["query"], selector=search, now=NOW)}
                    count["right"] += len(shown & set(row["gold"]))
                    count["shown"] += len(shown - (set(row["ok"]) - set(row["gold"])))
                    count["prompts of this kind", row["category"]] += 1
                    is_good = shown & set(row["gold"]) if row["category"] == "should" else not shown
                    count["good", row["category"]] += bool(is_good)
    assert count["right"] / count["shown"] >= precision
    assert count["good", "should"] >= found
    assert min(count["good", at] for at in ("silent", "silent_long")) >= silent


def test_with_a_limit_the_best_that_match_are_returned(store: FileStore) -> None:
    assert len(ask(store, "a column, a screen, a release, a cluster", limit=4)) == 4
    assert len(ask(store, "a column, a screen, a release, a cluster")) <= 2


def test_memories_about_what_the_message_names_are_left_out(store: FileStore) -> None:
    asked = "how are the zebra clusters named?"
    assert ask(store, asked) == ["Zebra clusters"]
    found = recall([store], f"Ignore memories about zebra, {asked}", now=NOW)
    assert not found.memories and IGNORED in [pick.dropped for pick in found.picks]
    assert not recall([store], f"Ignore your memory for this: {asked}", now=NOW).memories


def test_no_secret_is_put_into_a_prompt(memory: Path) -> None:
    store = FileStore(memory)
    body = "The password of the staging database is tr0ub4dor&3xQ."
    store.write(
        Draft(
            Kind.REFERENCE,
            "Staging database",
            "How to reach the staging database of billing",
            body,
            cues=("Connect to staging",),
        )
    )
    (found,) = recall([store], "connect to the staging database", now=NOW, limit=5)
    text = show_memory(found, now=NOW)
    assert "tr0ub4dor" not in text and found.path in text and "Staging database — How to reach the staging" in text
    assert "password" in text, "it says why"


def test_every_secret_the_scanner_knows_passes_the_first_look() -> None:
    told = [row.text for row in read_told() if find_secrets(row.text)]
    assert len(told) > 90 and [text for text in told if not find_known_secrets(text)] == []


def test_the_gate_has_a_weight_for_everything_it_measures() -> None:
    table = open_words()
    assert table is not None
    for semantic in (True, False):
        gate = select.read_gate("semantic" if semantic else "plain")
        sizes = len(gate.signs), len(gate.fit), len(gate.show), len(gate.vector)
        assert sizes == (len(select.SIGNS), len(select.PARTS), len(select.SHOW), table.dim if semantic else 0)
        assert gate.words["thanks"] < 0


def test_a_prompt_of_another_language_is_judged_by_its_words(memory: Path) -> None:
    store = FileStore(memory)
    store.write(Draft(Kind.PROJECT, "部署时间", "周五不部署", "我们只在周二部署，因为那天有人值班。"))
    store.write(Draft(Kind.PROJECT, "设计稿", "在蓝色文件夹", "每个页面的设计稿都在共享盘里。"))
    assert ask(store, "我们周五可以部署吗？") == ["部署时间"]
    assert ask(store, "谢谢，现在可以了") == []


def test_names_and_code_do_not_make_a_prompt_another_language() -> None:
    table = open_words()
    assert table is not None
    english = ("typo in the scaladoc, 'recieved'", "which header has QPointF?", "what does the 2 in chmod 2775 do")
    others = ("dürfen wir heute Abend noch ausliefern?", "donde guardamos las copias de seguridad?", "部署文档在哪里？")
    assert [select.knows_words(table, text) for text in (*english, *others)] == [True] * 3 + [False] * 3
