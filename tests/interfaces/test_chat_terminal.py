"""`memdir chat` at a real terminal."""

import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from chat_talk import Chats, is_fork
from loads import scaled
from servers import AnthropicServer, Call, Fault
from terminals import END, INTERRUPT, UP, WAIT, Terminal

READY = "\x1b[?2004h> "  # the prompt, and that a paste is heard as one


@pytest.fixture
def chats(tmp_path: Path) -> Chats:
    return Chats(tmp_path)


def open_chat(chats: Chats, *options: str, **variables: str) -> Terminal:
    command = [sys.executable, "-W", "error", "-m", "memdir", "chat", *options]
    return Terminal(command, cwd=chats.project, env=chats.environ(**variables))


def test_a_person_without_a_model(chats: Chats) -> None:
    """Completion, Chinese, another size, a paste of thousands of lines, a line that is given up, the end."""
    with open_chat(chats) as terminal:
        assert "No model is chosen" in terminal.expect(READY)
        terminal.enter("/remember that we deploy on Tuesdays only")
        terminal.expect("[Memory saved: deploy-on-tuesdays-only.md]")
        terminal.expect(READY)
        terminal.type("/forget dep")
        terminal.type(INTERRUPT)
        terminal.expect("Ctrl-C once more ends the chat.")
        terminal.expect(READY)
        terminal.resize(50, 24)
        terminal.enter("记住我们每周二部署")
        terminal.expect("[Memory saved: 我们每周二部署.md]")
        terminal.expect(READY)
        lines = scaled(10_000)
        terminal.paste("\n".join(f"line {number} of a long paste" for number in range(lines)))
        terminal.enter("")
        terminal.expect("I saved nothing: it is long")
        terminal.expect(READY)
        terminal.enter("when do we deploy?")
        terminal.expect("we deploy on Tuesdays only (")
        terminal.expect(READY)
        terminal.type(UP)
        terminal.expect("when do we deploy?")
        terminal.enter("")
        terminal.expect("we deploy on Tuesdays only (")
        terminal.expect(READY)
        terminal.enter("one \\")
        terminal.expect(". ")
        terminal.enter("two")
        terminal.expect("Noted: ")
        terminal.expect(READY)
        terminal.type(END)
        assert terminal.end() == 0 and "Traceback" not in terminal.text
    assert "one \ntwo" in (chats.memory / "one-two.md").read_text(encoding="utf-8")


def test_cancel_permission_and_drain(chats: Chats) -> None:
    """An answer is stopped in the middle, tools are asked for, and leaving waits for what is being learned."""
    (chats.project / "app.py").write_text("limit = 3\n", encoding="utf-8")
    release = threading.Event()
    edit = Call("edit", {"path": "app.py", "old": "limit = 3", "new": "limit = 4"})
    script = iter(
        [
            Fault("stall_midway", "This answer begins and does not end."),
            [Call("read", {"path": "app.py"})],
            [edit],
            [edit],
            "I changed it at last.",
            [Call("write", {"path": "app.py", "content": "gone"})],
            [Call("read", {"path": "app.py"})],
            "Remembered.",
        ]
    )

    def answer(body: dict[str, Any]) -> Any:
        if is_fork(body):
            assert release.wait(WAIT)
            return "done"
        return next(script)

    with AnthropicServer(answer) as server:
        chats.with_model(server.url)
        with open_chat(chats) as terminal:
            terminal.expect(READY)
            terminal.enter("tell me a story")
            terminal.expect("This")
            terminal.type(INTERRUPT)
            terminal.expect("Stopped.")
            terminal.expect(READY)
            terminal.enter("raise the limit")
            terminal.expect("wants to look into app.py")
            terminal.expect("[n]o: ")
            terminal.enter("a")
            terminal.expect("+limit = 4")
            terminal.expect("[n]o: ")
            terminal.enter("n")
            terminal.expect("wants to change app.py")
            terminal.expect("[n]o: ")
            assert (chats.project / "app.py").read_text(encoding="utf-8") == "limit = 3\n"
            terminal.enter("y")
            terminal.expect("I changed it at last.")
            terminal.expect(READY)
            terminal.enter("empty the file")
            terminal.expect("[n]o: ")
            terminal.type(INTERRUPT)
            terminal.expect("Stopped.")
            terminal.expect(READY)
            terminal.enter("remember that the limit is four")
            terminal.expect("[read app.py]")
            terminal.expect("Remembered.")
            terminal.expect(READY)
            terminal.type(END)
            terminal.expect("Finishing what is being learned.")
            release.set()
            terminal.expect("[Memory saved: ")
            assert terminal.end() == 0 and "Traceback" not in terminal.text
        assert server.problems == []
    assert (chats.project / "app.py").read_text(encoding="utf-8") == "limit = 4\n"
    assert "limit is four" in (chats.memory / "MEMORY.md").read_text(encoding="utf-8")
