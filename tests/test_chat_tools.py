"""The file tools of chat's model where the file, the text or the moment is odd."""

from collections.abc import Callable
from pathlib import Path

import pytest

import memdir
from memdir.interfaces.chat_model import FileTools
from memdir.interfaces.chat_terminal import KINDS, Permissions
from memdir.models.agent import ToolResult
from memdir.records import ToolCall


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "app" / ".git").mkdir(parents=True)
    return tmp_path / "app"


def make_tools(project: Path, permissions: Permissions) -> Callable[..., ToolResult]:
    store = memdir.open_store(project.parent / "memory")
    tools = FileTools(
        project, (store,), permissions, session="s", show=lambda text: None, on_saved=lambda names: None
    )  # fmt: skip
    return lambda name, **values: tools(ToolCall("1", name, values))


def test_a_file_that_changed_while_the_person_was_asked_is_left_alone(project: Path) -> None:
    file = project / "a.txt"
    file.write_text("one\n", encoding="utf-8")

    def ask(question: str) -> str:
        file.write_text("mine\n", encoding="utf-8")
        return "y"

    answer = make_tools(project, Permissions(ask))("write", path="a.txt", content="two\n")
    assert answer.refused and "has changed while the person was asked" in answer.text
    assert file.read_text(encoding="utf-8") == "mine\n"


def test_text_that_no_file_can_hold_is_written_as_near_as_can_be(project: Path) -> None:
    answer = make_tools(project, Permissions(allowed=KINDS))("write", path="a.txt", content="half a pair: \ud83d")
    assert not answer.refused and (project / "a.txt").read_text(encoding="utf-8") == "half a pair: ?"


@pytest.mark.parametrize("verb", ["read", "write"])
@pytest.mark.parametrize(
    "path",
    [
        "../out.txt",
        "/etc/hostname",
        "~/x",
        ".git/config",
        ".GIT/hooks/x",
        "a/.git/x",
        "link/x",
        "file-link",
        ".env",
        "id_rsa",
    ],
)
def test_nothing_outside_hidden_linked_or_secret_is_reached(project: Path, verb: str, path: str) -> None:
    outside = project.parent / "out.txt"
    outside.write_text("outside", encoding="utf-8")
    (project / "link").symlink_to(project.parent)
    (project / "file-link").symlink_to(outside)
    (project / "id_rsa").write_text("outside", encoding="utf-8")
    answer = make_tools(project, Permissions(allowed=KINDS))(verb, path=path, content="x")
    assert answer.refused and "outside\n" not in answer.text
    assert outside.read_text(encoding="utf-8") == "outside" and not list((project / ".git").iterdir())
