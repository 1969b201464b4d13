"""The file tools of chat's model where the file, the text or the moment is odd."""

from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest

import memdir
from memdir.interfaces.chat_model import FileTools
from memdir.interfaces.chat_terminal import KINDS, Permissions
from memdir.models.agent import ToolResult
from memdir.records import ToolCall
from tables import read_rows

ROWS = read_rows("chat_tools")
NOON = datetime(2026, 3, 5, 12).astimezone()
TODAY, BEFORE = "logs/2026/03/2026-03-05.md", "logs/2026/03/2026-03-04.md"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "app" / ".git").mkdir(parents=True)
    return tmp_path / "app"


def make_tools(project: Path, permissions: Permissions) -> Callable[..., ToolResult]:
    store = memdir.FileStore(project.parent / "memory")
    store.clock = lambda: NOON
    tools = FileTools(
        project, (store,), permissions, session="s", show=lambda text: None, on_saved=lambda staged: None
    )  # fmt: skip
    return lambda name, **values: tools(ToolCall("1", name, values))


def test_a_file_that_changed_while_the_person_was_asked_is_left_alone(project: Path) -> None:
    file = project / "a.txt"
    file.write_text("one\n", encoding="utf-8")

    def ask(question: str) -> str:
        file.write_text("mine\n", encoding="utf-8")
        return "y"

    answer = make_tools(project, Permissions(ask))("write", path="a.txt", content="two\n")
    assert answer.refused and "changed while the user was being asked" in answer.text
    assert file.read_text(encoding="utf-8") == "mine\n"


def test_text_that_no_file_can_hold_is_written_as_near_as_can_be(project: Path) -> None:
    answer = make_tools(project, Permissions(allowed=KINDS))("write", path="a.txt", content="half a pair: \ud83d")
    assert not answer.refused and (project / "a.txt").read_text(encoding="utf-8") == "half a pair: ?"


@pytest.mark.parametrize("verb", ["read", "write"])
@pytest.mark.parametrize("path", ROWS["nothing_outside_hidden_linked_or_secret_is_reached"])
def test_nothing_outside_hidden_linked_or_secret_is_reached(project: Path, verb: str, path: str) -> None:
    outside = project.parent / "out.txt"
    outside.write_text("outside", encoding="utf-8")
    (project / "link").symlink_to(project.parent)
    (project / "file-link").symlink_to(outside)
    (project / "id_rsa").write_text("outside", encoding="utf-8")
    answer = make_tools(project, Permissions(allowed=KINDS))(verb, path=path, content="x")
    assert answer.refused and "outside\n" not in answer.text
    assert outside.read_text(encoding="utf-8") == "outside" and not list((project / ".git").iterdir())


def test_the_log_of_today_is_read_and_added_to_and_nothing_else_below_logs(project: Path) -> None:
    memory = project.parent / "memory"
    call = make_tools(project, Permissions())
    assert not call("write", path=str(memory / TODAY), content="- 09:00 one\n").refused
    assert not call("write", path=str(memory / TODAY), content="- 09:00 one\n- 10:00 two\n").refused
    assert not call("edit", path=str(memory / TODAY), old="- 10:00 two", new="- 10:00 two\n- 11:00 three").refused
    text = "- 09:00 one\n- 10:00 two\n- 11:00 three\n"
    assert call("read", path=str(memory / TODAY)).text == text
    (memory / BEFORE).write_text("- 09:00 old\n", encoding="utf-8")
    refused = [
        call("edit", path=str(memory / TODAY), old="one", new="1"),
        call("write", path=str(memory / TODAY), content="- 12:00 all else is gone\n"),
        call("write", path=str(memory / BEFORE), content="- 09:00 old\n- 10:00 more\n"),
        call("edit", path=str(memory / BEFORE), old="old", new="new"),
        call("write", path=str(memory / "logs" / "notes.md"), content="x"),
        call("delete", path=str(memory / TODAY)),
        call("read", path=str(memory / "logs" / "2026" / "03" / "2026-03-01.md")),
    ]
    assert all(answer.refused for answer in refused)
    assert (memory / TODAY).read_text(encoding="utf-8") == text
    assert call("read", path=str(memory / BEFORE)).text == "- 09:00 old\n"
