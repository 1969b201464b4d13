"""What may come in from others, and what has to wait: single files and single lines."""

import json

from loads import bench
from memdir.language.instructions import find_instruction
from memdir.limits import FILE_BYTES, INDEX_FILE_BYTES
from memdir.store.secrets import find_secrets
from memdir.sync.plan import AdmitVerdict, find_twins, judge_line, judge_place, judge_text
from secret_cases import read_sentences
from tables import read_rows, table
from teams import memory_text

ROWS = read_rows("arriving")

ORDERS = ROWS["ORDERS"]
PLAIN = ROWS["PLAIN"]


@table("text", ORDERS)
def test_what_speaks_to_the_agent_waits(text: str) -> None:
    assert judge_text("x.md", memory_text("X", text).encode(), find_secrets).held


@table("text", PLAIN)
def test_what_tells_something_comes_in(text: str) -> None:
    assert judge_text("x.md", memory_text("X", text).encode(), find_secrets) == AdmitVerdict()


def test_poisoned_memories_of_a_public_set_wait_and_ordinary_ones_do_not() -> None:
    cases = json.loads(bench("security", "agent_threat_bench", "memory_poison.json").read_text(encoding="utf-8"))
    held = {case["id"]: any(map(find_instruction, map(str, case["memory_store"].values()))) for case in cases}
    clean = {case["id"] for case in cases if case["attack_name"].startswith("clean")}
    assert not any(held[id] for id in clean) and sum(held[id] for id in held if id not in clean) >= 7
    sentences = read_sentences(bench("security").parent)
    assert sum(bool(find_instruction(text)) for text in sentences) <= len(sentences) // 200


@table("mode", ["120000", "160000", "040000", "100755", "100664", ""])
def test_only_plain_files_are_memories(mode: str) -> None:
    assert judge_place("x.md", mode, 10) and not judge_place("x.md", "100644", 10)


def test_a_team_s_index_may_be_as_large_as_any_and_a_memory_as_any_memory() -> None:
    assert not judge_place("MEMORY.md", "100644", INDEX_FILE_BYTES) and not judge_place("x.md", "100644", FILE_BYTES)
    assert "larger" in judge_place("MEMORY.md", "100644", INDEX_FILE_BYTES + 1)
    assert "larger" in judge_place("x.md", "100644", FILE_BYTES + 1)


def test_of_two_spellings_ours_stays_and_then_the_first() -> None:
    assert find_twins(["a.md", "A.md", "ａ.md"], ["a.md"]) == {"A.md": "a.md", "ａ.md": "a.md"}
    assert find_twins(["b.md", "B.md"], []) == {"b.md": "B.md"}


@table("line", ["- [x](../x.md)", "- [x](%2e%2e/x.md)", "- [x](%252e%252e/x.md)", "- [x](/x.md)", "- [x](~/x.md)",
     "- [x](c:/x.md)", "- [x](a/../../x.md)", "- [x](..\\x.md)", "- [x](．．/x.md)", "- [x](file:///x.md)",
     "- [x](<../x.md>)"])  # fmt: skip
def test_a_line_that_leads_outside_is_left_out(line: str) -> None:
    assert judge_line(line, find_secrets)


@table("line", ["- [x](x.md) — hook", "- [x](sub/x.md)", "# Heading", "See https://example.org/a.md", ""])
def test_ordinary_lines_stand(line: str) -> None:
    assert judge_line(line, find_secrets) == ""
