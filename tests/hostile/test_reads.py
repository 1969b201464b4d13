"""How much is read: the first lines of a file never seen, nothing at all of a directory that has not changed."""

import os
import resource
from pathlib import Path
from typing import Any

import pytest

import syscalls
from clihelp import Cli, memory_text
from homes import write
from loads import scaled
from memdir.store.files import FileStore
from syscalls import READS


@pytest.fixture(autouse=True)
def _needs_ptrace() -> None:
    if reason := syscalls.is_supported():
        pytest.skip(reason)


def plant(memory: Path, count: int) -> None:
    memory.mkdir(parents=True)
    head = "---\nname: Thing {0}\ndescription: What thing {0} is about\ntype: project\n---\n\n"
    body = "A line of some length that is not needed for a header.\n" * 400
    for number in range(count):
        (memory / f"thing-{number}.md").write_text(head.format(number) + body, encoding="utf-8")


def test_a_first_list_reads_only_the_first_lines_of_each_file(memory: Path) -> None:
    count = scaled(10_000)
    plant(memory, count)
    store = FileStore(memory)
    done = syscalls.trace(lambda: len(store.scan()), deadline=300)
    assert done.outcome.value == count
    sizes: dict[str, int] = {}
    for call in done.named(*READS):
        if call.fd_path.endswith(".md") and call.result:
            sizes[call.fd_path] = sizes.get(call.fd_path, 0) + max(call.result, 0)
    thirty = len("".join((memory / "thing-0.md").read_text(encoding="utf-8").splitlines(keepends=True)[:30]))
    assert len(sizes) == count
    assert max(sizes.values()) <= -(-thirty // 4096) * 4096 < os.path.getsize(memory / "thing-0.md")


def test_an_unchanged_directory_is_listed_without_opening_a_memory(memory: Path) -> None:
    plant(memory, 300)
    FileStore(memory).scan()
    done = syscalls.trace(lambda: len(FileStore(memory).scan()))
    assert done.outcome.value == 300
    assert not [call for call in done.calls if call.name.startswith("open") and call.path.endswith(".md")]
    assert not [call for call in done.named(*READS) if call.fd_path.endswith(".md")]


def test_one_changed_file_is_read_alone(memory: Path) -> None:
    plant(memory, 300)
    FileStore(memory).scan()
    (memory / "thing-7.md").write_text("---\nname: New\ndescription: d e f\ntype: user\n---\n", encoding="utf-8")
    done = syscalls.trace(lambda: FileStore(memory).scan()[0].title)
    assert done.outcome.value == "New"
    opened = {call.path for call in done.calls if call.name.startswith("open") and call.path.endswith(".md")}
    assert {Path(path).name for path in opened} == {"thing-7.md"}


def test_a_large_directory_is_listed_and_saved_to_in_bounded_time(cli: Cli, record_property: Any) -> None:
    """F3. Processor time of processes of their own: 10 s and 33 s before, with 50,000 files."""
    count = scaled(50_000)
    cli.memory.mkdir(parents=True)
    for number in range(count):
        write(cli.memory / f"thing-{number}.md", memory_text(f"Thing {number}"))
    spent, fact = [], ("--type", "feedback", "--description", "Deploys happen on Tuesdays only", "--body", "So.")
    for command in (("list", "--json"), ("save", "--name", "new", *fact), ("save", "--name", "newer", *fact)):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        assert cli.real(*command).code == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    record_property(
        "result", f"{count:,} files: list {spent[0]:.1f} s of processor, save {spent[1]:.1f} and {spent[2]:.1f} s"
    )
    assert spent[0] < 1 + count * 3e-4 and max(spent[1:]) < 2 + count * 1e-4
