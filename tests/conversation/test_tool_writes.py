"""What a tool is about to write, told from its input in every host's spelling."""

from datetime import date
from pathlib import Path
from typing import Any

import pytest

from clihelp import memory_text
from memdir.conversation.tool_calls import FileWrite, MemoryRoot, WriteVerdict, find_writes, judge_write
from memdir.records import ToolCall
from memdir.store.secrets import find_secrets
from tables import read_rows

ROWS = read_rows("tool_writes")
TODAY = date(2026, 3, 5)
TOKEN = "ghp_" + "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8"[:36]


def look(memory: Path, tool: str, **given: Any) -> list[FileWrite]:
    return list(find_writes(ToolCall("", tool, given), [MemoryRoot(memory)], cwd=str(memory), home=str(memory.parent)))


@pytest.fixture
def memory(tmp_path: Path) -> Path:
    path = tmp_path / "memory"
    path.mkdir()
    (path / "x.md").write_text("one two one\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(("tool", "given", "text", "is_whole"), ROWS["the_text_is_that_of_the_file_after_the_call"])
def test_the_text_is_that_of_the_file_after_the_call(
    memory: Path, tool: str, given: dict[str, Any], text: str, is_whole: bool
) -> None:
    (write,) = look(memory, tool, **given)
    assert (write.text, write.is_whole) == (text, is_whole)


def test_several_edits_come_one_after_the_other(memory: Path) -> None:
    edits = [{"old_string": "two", "new_string": "three"}, {"old_string": "three", "new_string": "four"}]
    (write,) = look(memory, "MultiEdit", file_path="x.md", edits=edits)
    assert (write.path, write.text) == ("x.md", "one four one\n")


def test_what_only_reads_or_writes_elsewhere_is_no_write(memory: Path) -> None:
    assert look(memory, "Read", file_path="x.md") == []
    assert look(memory, "Write", file_path=str(memory.parent / "x.md"), content="x") == []
    assert look(memory, "Bash", command="cat x.md") == []
    assert look(memory, "Bash", command=f"cp /etc/hosts {memory}/y.md")[0].path == "y.md"
    assert look(memory, "mcp__memdir__memory_save", name="x", body="y") == []


def test_of_directories_in_one_another_the_inner_one_counts(memory: Path) -> None:
    inner = memory / "shared"
    call = ToolCall("", "Write", {"file_path": str(inner / "x.md"), "content": TOKEN})
    grounds = [MemoryRoot(memory), MemoryRoot(inner, is_shared=True)]
    (write,) = find_writes(call, grounds, cwd="/", home="/")
    assert (write.path, write.is_shared) == ("x.md", True)
    assert judge_write(write, find_secrets, today=TODAY).refused.startswith("this memory is shared with others")


def test_a_sound_memory_passes_and_an_index_may_hold_what_it_likes_but_secrets(memory: Path) -> None:
    ground = MemoryRoot(memory)
    for path, text in (("team/x.md", memory_text("X")), ("team/MEMORY.md", "- [X](x.md) — x\n"), ("logs/a/b.md", "x")):
        assert judge_write(FileWrite(ground, path, text, True), find_secrets, today=TODAY) == WriteVerdict()
    assert judge_write(FileWrite(ground, "team/MEMORY.md", TOKEN, True), find_secrets, today=TODAY).refused
    assert judge_write(FileWrite(ground, "x.md", TOKEN, True), find_secrets, today=TODAY).warnings


LOG, OLD = "logs/2026/03/2026-03-05.md", "logs/2026/03/2026-03-04.md"
ONE, TWO = "- 09:00 one\n", "- 10:00 two\n"


@pytest.mark.parametrize(("tool", "given", "is_allowed"), ROWS["a_log_is_only_added_to_and_only_todays"])
def test_a_log_is_only_added_to_and_only_todays(
    memory: Path, tool: str, given: dict[str, Any], is_allowed: bool
) -> None:
    for path in (LOG, OLD):
        (memory / path).parent.mkdir(parents=True, exist_ok=True)
        (memory / path).write_text(ONE, encoding="utf-8")
    root = MemoryRoot(memory, has_logs=True)
    writes = find_writes(ToolCall("", tool, given), [root], cwd=str(memory), home=str(memory.parent))
    refused = "".join(judge_write(write, find_secrets, today=TODAY).refused for write in writes)
    assert (refused == "") is is_allowed and (is_allowed or LOG in refused)


def test_the_first_entry_of_a_day_makes_its_log(memory: Path) -> None:
    root = MemoryRoot(memory, has_logs=True)
    for tool, given in (("Write", {"file_path": LOG, "content": ONE}), ("Bash", {"command": f"echo x > {LOG}"})):
        (write,) = find_writes(ToolCall("", tool, given), [root], cwd=str(memory), home=str(memory.parent))
        assert judge_write(write, find_secrets, today=TODAY) == WriteVerdict()
