"""What the agent itself wrote in the memory directory is seen in its calls; what it only read is not."""

from typing import Any

import pytest

from memdir.conversation.tool_calls import find_written_memory, parse_steps
from memdir.records import Message, ToolCall
from tables import read_rows, table

ROWS = read_rows("own_writes")

MEMORY = "/home/me/.claude/projects/-work-app/memory"
FILE = f"{MEMORY}/deploys.md"
SHORT = "~/.claude/projects/-work-app/memory"
PATCH = f"*** Begin Patch\n*** Update File: {FILE}\n@@\n-a\n+b\n*** End Patch\n"


def find(name: str, input: dict[str, Any], **more: Any) -> tuple[str, ...]:
    messages = [Message("assistant", "", calls=(ToolCall("c1", name, input),))]
    return find_written_memory(messages, [MEMORY], cwd="/work/app", home="/home/me", **more)


@table("name input found", ROWS["a_tool_that_writes_below_the_directory_is_seen"])
def test_a_tool_that_writes_below_the_directory_is_seen(name: str, input: dict[str, Any], found: str) -> None:
    assert find(name, input) == (found,)


@table("name input", ROWS["a_tool_that_reads_or_writes_elsewhere_is_not"])
def test_a_tool_that_reads_or_writes_elsewhere_is_not(name: str, input: dict[str, Any]) -> None:
    assert find(name, input) == ()


@pytest.mark.parametrize("command", ROWS["a_command_that_writes_below_the_directory_is_seen"])
@pytest.mark.parametrize("shape", ["claude", "codex", "codex exec", "gemini"])
def test_a_command_that_writes_below_the_directory_is_seen(command: str, shape: str) -> None:
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "claude": ("Bash", {"command": command, "description": "x"}),
        "codex": ("shell", {"command": ["bash", "-lc", command], "workdir": "/work/app"}),
        "codex exec": ("exec_command", {"cmd": command}),
        "gemini": ("run_shell_command", {"command": command}),
    }
    assert find(*calls[shape])


@table("command", ROWS["a_command_that_only_reads_it_is_not"])
def test_a_command_that_only_reads_it_is_not(command: str) -> None:
    assert find("Bash", {"command": command}) == ()


def test_a_call_that_failed_wrote_nothing() -> None:
    call = ToolCall("c1", "Write", {"file_path": FILE})
    refused = Message("tool", "permission denied", answers="c1", failed=True)
    assert find_written_memory([Message("assistant", "", calls=(call,)), refused], [MEMORY]) == ()
    done = Message("tool", "File created", answers="c1")
    assert find_written_memory([Message("assistant", "", calls=(call,)), done], [MEMORY]) == (FILE,)


def test_each_path_is_named_once_and_relative_ones_count_from_the_working_directory() -> None:
    calls = tuple(ToolCall(f"c{n}", "Write", {"file_path": ".claude/memory/x.md"}) for n in range(3))
    said = [Message("assistant", "", calls=calls)]
    assert find_written_memory(said, ["/work/app/.claude/memory"], cwd="/work/app") == (
        "/work/app/.claude/memory/x.md",
    )
    assert find_written_memory(said, ["/work/app/.claude/memory"]) == ()


def test_steps_tell_programs_and_where_output_goes() -> None:
    steps = parse_steps("A=1 sudo -u root make all 2>err.log && cat x | tee y; (cd z && ls > out)")
    assert [(step.program, step.arguments, step.replaced) for step in steps] == [
        ("make", ("all",), ("err.log",)),
        ("cat", ("x",), ()),
        ("tee", ("y",), ()),
        ("cd", ("z",), ()),
        ("ls", (), ("out",)),
    ]
