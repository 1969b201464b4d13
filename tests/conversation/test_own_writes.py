"""What the agent itself wrote in the memory directory is seen in its calls; what it only read is not."""

from typing import Any

import pytest

from memdir.conversation.tool_calls import find_written_memory, parse_steps
from memdir.records import Message, ToolCall
from tables import table

MEMORY = "/home/me/.claude/projects/-work-app/memory"
FILE = f"{MEMORY}/deploys.md"
SHORT = "~/.claude/projects/-work-app/memory"
PATCH = f"*** Begin Patch\n*** Update File: {FILE}\n@@\n-a\n+b\n*** End Patch\n"


def find(name: str, input: dict[str, Any], **more: Any) -> tuple[str, ...]:
    messages = [Message("assistant", "", calls=(ToolCall("c1", name, input),))]
    return find_written_memory(messages, [MEMORY], cwd="/work/app", home="/home/me", **more)


@table(
    "name input found",
    [
        ("Write", {"file_path": FILE, "content": "x"}, FILE),
        ("Edit", {"file_path": FILE, "old_string": "a", "new_string": "b"}, FILE),
        ("MultiEdit", {"file_path": FILE, "edits": []}, FILE),
        ("NotebookEdit", {"notebook_path": f"{MEMORY}/n.ipynb"}, f"{MEMORY}/n.ipynb"),
        ("write_file", {"file_path": FILE, "content": "x"}, FILE),
        ("replace", {"file_path": FILE}, FILE),
        ("edit_file", {"target_file": FILE}, FILE),
        ("search_replace", {"file_path": FILE}, FILE),
        ("delete_file", {"target_file": FILE}, FILE),
        ("create_file", {"filePath": FILE}, FILE),
        ("apply_patch", {"input": PATCH}, FILE),
        ("apply_patch", {"patch": PATCH.replace("Update", "Delete")}, FILE),
        ("str_replace_based_edit_tool", {"command": "create", "path": FILE}, FILE),
        ("memory", {"command": "create", "path": "/memories/x.md", "file_text": "x"}, "/memories/x.md"),
        ("memory", {"command": "rename", "old_path": "/memories/x.md", "new_path": "/memories/y.md"}, "/memories/x.md"),
        ("mcp__memdir__save", {"name": "deploys"}, "mcp__memdir__save"),
        ("mcp__plugin_memdir_memdir__forget", {"name": "deploys"}, "mcp__plugin_memdir_memdir__forget"),
        ("mcp_memdir_memory_update", {"name": "deploys"}, "mcp_memdir_memory_update"),
        ("Write", {"file_path": f"{SHORT}/deploys.md"}, FILE),
        ("Write", {"file_path": f"{MEMORY}/sub/../deploys.md"}, FILE),
    ],
)
def test_a_tool_that_writes_below_the_directory_is_seen(name: str, input: dict[str, Any], found: str) -> None:
    assert find(name, input) == (found,)


@table(
    "name input",
    [
        ("Read", {"file_path": FILE}),
        ("Grep", {"path": MEMORY, "pattern": "x"}),
        ("Write", {"file_path": "/work/app/deploys.md"}),
        ("Write", {"file_path": f"{MEMORY}-other/x.md"}),
        ("Write", {"file_path": f"{MEMORY}/../x.md"}),
        ("Write", {"file_path": ["no", "text"]}),
        ("apply_patch", {"input": "*** Begin Patch\n*** Update File: src/x.py\n*** End Patch"}),
        ("str_replace_based_edit_tool", {"command": "view", "path": FILE}),
        ("memory", {"command": "view", "path": "/memories"}),
        ("mcp__memdir__search", {"query": "deploys"}),
        ("mcp__memdir__read", {"name": "deploys"}),
        ("mcp__github__save", {"name": "deploys"}),
        ("Task", {"prompt": f"write {FILE}"}),
        ("", {}),
    ],
)
def test_a_tool_that_reads_or_writes_elsewhere_is_not(name: str, input: dict[str, Any]) -> None:
    assert find(name, input) == ()


@pytest.mark.parametrize(
    "command",
    [
        f"echo hi > {FILE}",
        f"echo hi >>{FILE}",
        f"echo 'it''s' >| '{FILE}'",
        f"cat <<'EOF' > {FILE}\nit's a body with > signs\nEOF",
        f"cat > {FILE} <<EOF\nbody\nEOF\necho done",
        f"printf x | tee -a {FILE} >/dev/null",
        f"mv /tmp/x.md {FILE}",
        f"mv {FILE} /tmp/x.md",
        f"rm -f {FILE}",
        f"cp /tmp/x.md {MEMORY}/",
        f"sed -i 's/a/b/' {FILE}",
        f"sed -i.bak -e 's/a/b/' {FILE}",
        f"perl -pi -e 's/a/b/' {FILE}",
        f"touch {FILE}",
        f"dd if=/tmp/x of={FILE}",
        f"cd {MEMORY} && echo hi > deploys.md",
        f"cd {MEMORY}; rm deploys.md",
        f"ls; sudo rm {FILE}",
        f"X=1 rm {FILE}",
        f"find . | xargs -n 1 sudo -u root tee {FILE}",
        f"bash -lc 'echo hi > {FILE}'",
        f"echo hi > {SHORT}/deploys.md",
        'echo hi > "$HOME/.claude/projects/-work-app/memory/deploys.md"',
        f'echo "it is unclosed > {FILE}\necho hi > {FILE}',
        f"python3 - <<'E'\nopen('{FILE}', 'w').write('x')\nE",
        f"apply_patch <<'EOF'\n{PATCH}EOF",
        "memdir save --type user --name x --description d --body b",
        "memdir --json remember 'I like tea'",
        "cd /tmp && memdir forget deploys",
        "uvx memdir edit deploys",
        "python -m memdir save --name x",
        "/usr/local/bin/memdir remember tea | cat",
    ],
)
@pytest.mark.parametrize("shape", ["claude", "codex", "codex exec", "gemini"])
def test_a_command_that_writes_below_the_directory_is_seen(command: str, shape: str) -> None:
    calls: dict[str, tuple[str, dict[str, Any]]] = {
        "claude": ("Bash", {"command": command, "description": "x"}),
        "codex": ("shell", {"command": ["bash", "-lc", command], "workdir": "/work/app"}),
        "codex exec": ("exec_command", {"cmd": command}),
        "gemini": ("run_shell_command", {"command": command}),
    }
    assert find(*calls[shape])


@table(
    "command",
    [
        f"cat {FILE}",
        f"cat {FILE} > /tmp/copy.md",
        f"cp {FILE} /tmp/",
        f"grep -ri tea {MEMORY} 2>/dev/null | tee /tmp/found",
        f"sed -n 1,5p {FILE}",
        f"ls {MEMORY}; rm /tmp/x",
        f"cd {MEMORY} && ls > /tmp/list",
        f"echo 'rm {FILE}'",
        f"python3 -c \"print(open('{FILE}').read())\"",
        "memdir recall tea",
        "memdir list --json",
        "memdir save --help",
        "git commit -m 'memdir save'",
        "echo $((1 > 2))",
        "",
        "'",
    ],
)
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
    assert [(step.program, step.arguments, step.targets) for step in steps] == [
        ("make", ("all",), ("err.log",)),
        ("cat", ("x",), ()),
        ("tee", ("y",), ()),
        ("cd", ("z",), ()),
        ("ls", (), ("out",)),
    ]
