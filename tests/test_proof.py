"""The runner of benchmarks/proof: prepare a task, work on it through ./agent, grade, count."""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from servers import Answer, AnthropicServer, Call

ROOT = Path(__file__).resolve().parents[1]
TALK = [
    {"role": "user", "text": "greet shouted at the customers again. What does it do?"},
    {"role": "assistant", "text": "greet upper-cases the name. I will make it lower case."},
    {"role": "user", "text": "No: greet keeps the name as typed, and an empty name becomes friend."},
]
MEMORY = """---
name: How greet treats names
description: greet keeps the name as typed; an empty name becomes friend
type: project
---

greet keeps the name as typed, and an empty name becomes friend.
"""
EDIT = """<<<<<<< OLD
    return f"Hello {name.upper()}"
=======
    return f"Hello {name or 'friend'}"
>>>>>>> NEW
"""


@pytest.fixture
def task(tmp_path: Path) -> Path:
    texts = {
        "repo/mod.py": 'def greet(name):\n    return f"Hello {name.upper()}"\n',
        "repo/tests/test_regression.py": "from mod import greet\n\n\ndef test_case():\n    assert greet('Ada') == 'Hello Ada'\n",
        "hidden/tests/test_hidden.py": "from mod import greet\n\n\ndef test_empty():\n    assert greet('') == 'Hello friend'\n",
        "report.md": "greet shouts at our customers. A failing repro is at tests/test_regression.py. Fix greet.\n",
        "decision.md": "greet keeps the name as typed, and an empty name becomes friend.\n",
        "task.json": json.dumps({"visible": ["tests/test_regression.py"], "hidden": ["tests/test_hidden.py"]}),
        "conversations/1.json": json.dumps(TALK),
    }
    for name, text in texts.items():
        path = tmp_path / "tasks" / "greet" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    memory = tmp_path / "memories"
    memory.mkdir()
    (memory / "greet-names.md").write_text(MEMORY, encoding="utf-8")
    (memory / "MEMORY.md").write_text(
        "- [How greet treats names](greet-names.md) — greet keeps the name\n", encoding="utf-8"
    )
    return tmp_path


def proof(*arguments: object) -> str:
    argv = [sys.executable, "benchmarks/proof", *map(str, arguments)]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, encoding="utf-8")
    assert done.returncode == 0, done.stderr
    return done.stdout


def agent(folder: Path, *arguments: str, text: str = "") -> str:
    done = subprocess.run(
        ["./agent", *arguments], cwd=folder, input=text, capture_output=True, text=True, encoding="utf-8"
    )
    return done.stdout


@pytest.mark.skipif(
    Path(sys.executable).is_relative_to(tempfile.gettempdir()) and os.geteuid() == 0,
    reason="the sandbox of an episode hides the temporary folder, and this interpreter in it",
)
def test_an_episode_is_prepared_played_and_graded(task: Path) -> None:
    work = task / "work"
    prepared = proof("prepare", work, "first", task / "tasks", "--memories", task / "memories")
    folders = {}
    for folder in map(Path, prepared.split()):
        facts = json.loads((work / "state" / folder.name / "episode.json").read_text(encoding="utf-8"))
        folders[facts["arm"]] = folder
    started = {arm: agent(folder, "start", "--fresh") for arm, folder in folders.items()}
    whole = "an empty name becomes friend"
    assert {arm for arm, text in started.items() if whole in text} == {"bm25", "memdir", "decision"}
    assert all("greet shouts" in text for text in started.values())
    assert "MEMORY.md" in started["memdir"]

    for arm, folder in ((arm, folders[arm]) for arm in ("nothing", "memdir")):
        assert "upper" in agent(folder, "read", "mod.py")
        assert "is not in this folder" in agent(folder, "read", str(task / "tasks" / "greet" / "decision.md"))
        edit = EDIT if arm == "memdir" else EDIT.replace("{name or 'friend'}", "{name}")
        assert "has been changed" in agent(folder, "edit", "mod.py", text=edit)
        assert "1 passed" in agent(folder, "run", f"'{sys.executable}' -m pytest -q tests/test_regression.py")
        agent(folder, "done", "Mended.")
    assert proof("queue", work).count(" ended") == 2
    proof("grade", work)
    parts = task / "parts.json"
    parts.write_text(json.dumps({"greet": ["as typed", "friend"]}), encoding="utf-8")
    proof("figures", work, "--parts", parts, "--json", task / "out.json", "--picture", task / "out.svg")
    episodes = json.loads((task / "out.json").read_text(encoding="utf-8"))["episodes"]
    assert {row["arm"]: (row["solved"], row["parts"]) for row in episodes} == {
        "nothing": (False, 0),
        "memdir": (True, 2),
    }
    assert (task / "out.svg").read_text(encoding="utf-8").startswith("<svg")


def test_one_command_learns_plays_and_grades_with_a_model(task: Path) -> None:
    steps = (["start"], ["start", "--fresh"], ["edit", "mod.py"], ["done", "Mended."])

    def answer(body: dict[str, Any]) -> Answer:
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        if "tools" not in body:
            return '{"operations": []}'
        if turn == len(steps):
            return "I mended it."
        return Call("agent", {"arguments": steps[turn], "input": EDIT if turn == 2 else ""})

    with AnthropicServer(answer) as server:
        os.environ |= {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "sk-test"}
        done = proof("run", task / "work", task / "tasks", "--arms", "nothing", "--model", "anthropic:any")
    assert "nothing          1 of   1" in done
