"""A model that asks for files outside memory and project, by every tool: nothing outside is opened, and nothing is run.

A fork has no shell: its tools are functions of this process. What they do is seen in the system calls they make.
"""

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

import syscalls
from memdir.conversation.includes import looks_secret
from memdir.dream.by_model import SEARCH, TOOLS
from memdir.models.agent import MemoryTools, ProjectTree
from memdir.models.staged import Staging
from memdir.records import ToolCall
from memdir.store.files import FileStore
from memdir.testing import sample_memory

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
NEW = "---\nname: Deploys\ndescription: Deploys go out on Tuesday mornings only\ntype: project\n---\n\nTuesdays.\n"

STARTS = {"execve", "execveat", "fork", "vfork", "clone", "clone3", "socket", "connect"}


def list_places(outside: Path, project: Path) -> list[str]:
    """Fifty spellings of places outside."""
    goal = str(outside / "canary.md")
    climb = os.path.relpath(goal, project)
    places = [
        goal,
        f"file://{goal}",
        f"FILE://{goal}",
        f"/{goal}",
        f"{project}/../outside/canary.md",
        climb,
        f"./{climb}",
    ]
    places += [f"memory/{climb}", f"memory/../{climb}", f"src/../../{climb}", climb.replace("/", "\\"), f"~/{climb}"]
    places += [f"{goal}\0.md", f"memory/a\0/{climb}", climb.replace("..", "%2e%2e"), climb.replace("/", "%2f")]
    places += [climb.replace("..", "．．"), climb.replace("/", "／"), climb.replace("/", "∕"), climb.replace("..", "…")]
    places += ["link.md", "memory/link.md", "folder/canary.md", "memory/folder/canary.md", "hard.md", "memory/hard.md"]
    places += ["$HOME/canary.md", "${HOME}/canary.md", "`cat canary.md`", "$(cat canary.md)", "canary.md; touch /tmp/x"]
    places += [
        "/etc/passwd",
        "/etc/shadow",
        "/proc/self/environ",
        "/proc/self/root/etc/passwd",
        "/proc/self/cwd/../canary.md",
    ]
    places += [
        "/dev/fd/0",
        "/dev/stdin",
        "/dev/tcp/127.0.0.1/80",
        "http://127.0.0.1/canary.md",
        "\\\\host\\share\\canary.md",
    ]
    places += [
        "C:\\canary.md",
        "memory/C:canary.md",
        "memory/con.md",
        "memory/.memdir/history.db",
        ".git/config",
        ".env",
    ]
    places += ["memory/" + "../" * 40 + goal.lstrip("/"), "memory/a/" * 20 + climb, "*", "../**/*", f"{outside}/*"]
    return places


def test_no_tool_opens_anything_outside_or_starts_anything(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    if reason := syscalls.is_supported():
        pytest.skip(reason)
    memory, project, outside = (tmp_path / name for name in ("memory", "project", "outside"))
    for folder in (project / "src", outside):
        folder.mkdir(parents=True)
    (outside / "canary.md").write_text("the canary sings\n", encoding="utf-8")
    (outside / "twin.md").write_text("the twin hums\n", encoding="utf-8")
    store = FileStore(memory)
    store.write(sample_memory(name="terse"))
    for inside in (memory, project):
        (inside / "link.md").symlink_to(outside / "canary.md")
        (inside / "folder").symlink_to(outside)
    os.link(outside / "twin.md", memory / "hard.md")  # a file of the directory itself: read, but not changed
    places = list_places(outside, project)
    assert len(places) >= 50
    hands = MemoryTools(Staging(store, now=NOW), memory, ProjectTree(project, looks_secret))
    answers: list[str] = []

    def attack() -> list[str]:
        for place in places:
            for tool in (tool for tool in TOOLS if tool.name != SEARCH):
                properties = tool.schema["properties"]
                assert isinstance(properties, dict)
                given = {"path": place, "content": NEW, "query": "canary", "old": "sings", "new": "is silent"}
                given["pattern"] = place
                answers.append(hands(ToolCall("c", tool.name, {key: given.get(key, place) for key in properties})).text)
        return answers

    attack()  # what is loaded late is loaded now
    done = syscalls.trace(attack, deadline=300)
    said = done.outcome.value
    assert isinstance(said, list), done.outcome
    assert not [text for text in said if "sings" in text]
    assert not done.named(*STARTS)
    opened = [
        call for call in done.calls
        if call.name.startswith("open") and call.result is not None and call.result >= 0
        and not Path(call.path).name.startswith((".", "__")) and "canary" in os.path.realpath(call.path)
    ]  # fmt: skip
    assert opened == []
    places_of_system = ("/etc", "/proc/self/environ", "/proc/self/root", "/dev/fd", "/dev/stdin", "/dev/tcp")
    strange = [
        call.path for at in places_of_system for call in done.below(at) if call.result is not None and call.result >= 0
    ]
    assert strange == []
    assert (outside / "canary.md").read_text("utf-8") == "the canary sings\n" and len(list(outside.iterdir())) == 2
    assert (outside / "twin.md").read_text("utf-8") == "the twin hums\n"
    record_property("result", f"{len(said)} calls for {len(places)} places, 0 opened, 0 processes, 0 sockets")
