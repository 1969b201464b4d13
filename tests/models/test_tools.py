"""A fork's tools: what they do, and what they refuse."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest

from memdir.conversation.includes import looks_secret
from memdir.dream.by_model import SEARCH, TOOLS
from memdir.limits import FORK_WRITTEN_BYTES
from memdir.models.agent import MemoryTools, ProjectTree, has_writing_tools
from memdir.models.staged import Staging
from memdir.records import ToolCall
from memdir.store.files import FileStore
from memdir.testing import sample_memory
from tables import read_rows

ROWS = read_rows("tools")
NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
NEW = "---\nname: Deploys\ndescription: Deploys go out on Tuesday mornings only\ntype: project\n---\n\nTuesdays.\n"


class Desk:
    """A memory and a project with hands over both."""

    def __init__(self, folder: Path) -> None:
        self.memory = folder / "home" / "memory"
        self.project = folder / "home" / "project"
        (self.project / "src").mkdir(parents=True)
        (self.project / "src" / "app.py").write_text("def handle_auth():\n    pass\n", encoding="utf-8")
        (self.project / ".env").write_text("KEY=hidden-value\n", encoding="utf-8")
        (folder / "home" / "outside.txt").write_text("outside-value\n", encoding="utf-8")
        os.symlink(folder / "home" / "outside.txt", self.project / "link.txt")
        self.store = FileStore(self.memory)
        self.store.write(sample_memory(name="terse"))
        self.staging = Staging(self.store, now=NOW)
        self.hands = MemoryTools(self.staging, self.memory, ProjectTree(self.project, looks_secret))

    def call(self, tool: str, **values: object) -> str:
        return self.hands(ToolCall("c1", tool, values)).text

    def is_refused(self, tool: str, **values: object) -> bool:
        return self.hands(ToolCall("c1", tool, values)).refused


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_own_tools_are_all_understood(desk: Desk) -> None:
    given = {"path": "memory/terse.md", "content": NEW, "query": "closing", "old": "Tuesdays", "new": "Mondays"}
    for tool in (tool for tool in TOOLS if tool.name != SEARCH):
        properties = tool.schema["properties"]
        assert isinstance(properties, dict)
        values = {key: given.get(key, "because") for key in properties}
        answer = desk.hands(ToolCall("c", tool.name, values | ({"path": "memory"} if tool.name == "list" else {})))
        assert not answer.refused, f"{tool.name}: {answer.text}"


@pytest.mark.parametrize(("tool", "path", "text"), ROWS["a_memory_is_written_by_any_hosts_tool"])
def test_a_memory_is_written_by_any_hosts_tool(desk: Desk, tool: str, path: str, text: str) -> None:
    assert desk.call(tool, **{path: str(desk.memory / "deploys.md"), text: NEW}) == "Created deploys.md."
    assert desk.staging.read("deploys") == NEW
    assert not (desk.memory / "deploys.md").exists()


@pytest.mark.parametrize("tool", ["memory", "str_replace_based_edit_tool"])
def test_the_providers_own_editor_works_by_command(desk: Desk, tool: str) -> None:
    path = str(desk.memory / "deploys.md")
    assert desk.call(tool, command="create", path=path, file_text=NEW) == "Created deploys.md."
    assert "Tuesdays" in desk.call(tool, command="view", path=path)
    desk.call(tool, command="str_replace", path=path, old_str="Tuesdays.", new_str="Mondays.")
    assert "Mondays." in desk.staging.read("deploys")
    desk.call(tool, command="delete", path=path)
    assert desk.staging.staged == ()


def test_reading_listing_and_searching_see_memory_and_project(desk: Desk) -> None:
    assert "closing summary" in desk.call("Read", file_path=str(desk.memory / "terse.md"))
    assert "handle_auth" in desk.call("Read", file_path=str(desk.project / "src" / "app.py"))
    assert desk.call("Glob", pattern="**/*.py") == "src/app.py"
    assert (
        desk.call("Grep", pattern="HANDLE_auth|nothing", path=str(desk.project)) == "src/app.py:1: def handle_auth():"
    )
    assert "terse.md:" in desk.call("Grep", pattern="closing", path=str(desk.memory))
    assert "terse.md" in desk.call("Read", file_path=str(desk.memory / "MEMORY.md"))


def test_an_edit_needs_its_passage_exactly_once(desk: Desk) -> None:
    path = str(desk.memory / "terse.md")
    assert desk.is_refused("Edit", file_path=path, old_string="nowhere", new_string="x")
    assert desk.is_refused("Edit", file_path=path, old_string="e", new_string="x")
    assert desk.call("Edit", file_path=path, old_string="closing", new_string="last") == "Updated terse.md."


def test_the_index_is_nobodys_business(desk: Desk) -> None:
    for tool, values in (("Write", {"content": "x"}), ("Edit", {"old_string": "a", "new_string": "b"})):
        answer = desk.hands(ToolCall("c", tool, {"file_path": str(desk.memory / "MEMORY.md"), **values}))
        assert not answer.refused and "by itself" in answer.text
    assert desk.staging.staged == ()


def test_an_empty_file_deletes_the_memory(desk: Desk) -> None:
    assert desk.call("Write", file_path=str(desk.memory / "terse.md"), content="") == "Deleted terse.md."
    assert desk.staging.staged[0].text is None


@pytest.mark.parametrize(("tool", "values"), ROWS["everything_else_is_refused_in_words"])
def test_everything_else_is_refused_in_words(desk: Desk, tool: str, values: dict[str, object]) -> None:
    filled = {
        key: value.format(memory=desk.memory, project=desk.project) if isinstance(value, str) else value
        for key, value in values.items()
    }
    before = sorted(path.name for path in desk.memory.parent.rglob("*") if path.is_file())
    answer = desk.hands(ToolCall("c", tool, filled))
    assert answer.refused and answer.text.startswith("Refused: ")
    assert "outside-value" not in answer.text and "hidden-value" not in answer.text
    assert desk.staging.staged == ()
    assert sorted(path.name for path in desk.memory.parent.rglob("*") if path.is_file()) == before


def test_a_search_shows_nothing_behind_links_nor_secrets(desk: Desk) -> None:
    found = desk.call("Grep", pattern="value", path=str(desk.project))
    assert found == "No line matches."


def test_a_run_may_write_so_much_and_no_more(desk: Desk) -> None:
    big = NEW.replace("Tuesdays.", "x" * (FORK_WRITTEN_BYTES // 2))
    assert not desk.is_refused("Write", file_path=str(desk.memory / "one.md"), content=big)
    assert desk.is_refused("Write", file_path=str(desk.memory / "two.md"), content=big)


def test_a_tool_list_that_can_write_is_recognised_in_both_shapes() -> None:
    assert has_writing_tools({"tools": [{"name": "Bash"}, {"name": "Write"}]})
    assert has_writing_tools({"tools": [{"type": "function", "function": {"name": "write_file"}}]})
    assert has_writing_tools({"tools": [{"type": "memory_20250818", "name": "memory"}]})
    assert not has_writing_tools({"tools": [{"name": "Bash"}, {"name": "Read"}]})
    assert not has_writing_tools({})
    assert not has_writing_tools({"tools": "odd"})
