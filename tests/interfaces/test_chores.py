"""What a worker does beside learning, and that it runs nobody else's code."""

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from homes import git, write
from hook_calls import Hooks, wait_until
from memdir.interfaces.worker import do_worker_chores
from memdir.operations.turn import QUICK_CHORES, TurnChore, TurnContext, do_chores
from memdir.store.open import open_project
from memdir.store.sessions import QueuedTurn, enqueue, read_queue
from memdir.store.state import read_problems, read_runs
from memdir.testing import ScriptedModel
from note_taker import serve_note_taker


@pytest.fixture
def hooks(tmp_path: Path) -> Hooks:
    return Hooks(tmp_path)


@pytest.fixture
def noting_hooks(tmp_path: Path) -> Iterator[Hooks]:
    with serve_note_taker() as variables:
        yield Hooks(tmp_path, **variables)


def test_after_a_long_turn_there_are_notes_and_a_fresh_index(noting_hooks: Hooks) -> None:
    hooks = noting_hooks
    said = "Please move the billing tables to the new schema. " * 900
    path = hooks.transcript(said, "I moved two of five tables. " * 900)
    hooks.cli.file("ferry", "---\nname: Ferry\ndescription: When it leaves\ntype: project\n---\n\nAt six.\n")
    enqueue(hooks.state, QueuedTurn("s-1", str(path)))
    assert hooks.cli("worker").code == 0 and read_queue(hooks.state) == ()
    (notes,) = (hooks.cli.home / ".claude" / "projects").glob("*/s-1/session-memory/summary.md")
    assert "billing tables" in notes.read_text(encoding="utf-8")
    assert (hooks.state / "index.db").exists()


def list_notes_after(hooks: Hooks, path: Path, session: str) -> list[Path]:
    enqueue(hooks.state, QueuedTurn(session, str(path)))
    assert hooks.cli("worker").code == 0 and read_queue(hooks.state) == ()
    return list((hooks.cli.home / ".claude" / "projects").glob(f"*/{session}/session-memory/summary.md"))


def test_where_the_host_does_not_compact_there_are_no_notes(noting_hooks: Hooks) -> None:
    hooks = noting_hooks
    said = "Please move the billing tables to the new schema. " * 900
    path = hooks.transcript(said, "I moved two of five tables. " * 900)
    write(hooks.cli.home / ".claude" / "settings.json", '{"autoCompactEnabled": false}')
    assert list_notes_after(hooks, path, "s-1") == []
    assert "does not compact" in hooks.cli("notes", "update", "--transcript", str(path)).refusal
    plain = hooks.cli.home / "plain.json"  # of another host: this setting is not for it
    plain.write_text(json.dumps([{"role": "user", "content": said * 2}]), encoding="utf-8")
    assert len(list_notes_after(hooks, plain, "s-2")) == 1
    write(hooks.cli.project / ".claude" / "settings.local.json", '{"autoCompactEnabled": true}')
    assert len(list_notes_after(hooks, path, "s-1")) == 1, "the nearer settings count"


def test_in_a_remote_environment_nothing_is_learned(hooks: Hooks, tmp_path: Path) -> None:
    path = hooks.transcript("Remember that invoices are sent on the third of each month.", "Noted.")
    hooks.cli.variables |= {"CLAUDE_CODE_REMOTE": "1", "CLAUDE_CODE_REMOTE_MEMORY_DIR": str(hooks.cli.home / ".claude")}
    hooks("stop", transcript_path=str(path))
    wait_until(lambda: any(row["skipped"] == "remote" for row in read_runs(hooks.state)), "the turn is skipped")
    assert not list(hooks.cli.memory.glob("*.md"))


def test_what_a_worker_found_out_of_date_is_told_at_the_next_prompt(hooks: Hooks) -> None:
    project = hooks.cli.project
    (project / ".git").rmdir()
    git(project, "init", "-q")
    write(project / "src" / "login.py", "def render_login():\n    return 'a form with two fields'\n" * 5)
    git(project, "add", ".")
    git(project, "commit", "-q", "-m", "one")
    git(project, "mv", "src/login.py", "src/entry.py")
    git(project, "commit", "-q", "-m", "two")
    head = "---\nname: Login page\ndescription: where the login page is rendered\ntype: reference\n---\n\n"
    hooks.cli.file("login-page", f"{head}It is rendered by `src/login.py`.\n")
    asked = {"prompt": "where is the login page rendered?"}
    assert "src/entry.py" not in hooks("user-prompt", session="s-1", **asked).context
    assert hooks.cli("worker").code == 0
    assert "`src/login.py` is now `src/entry.py`" in hooks("user-prompt", session="s-2", **asked).context


def test_a_dream_that_is_due_comes_after_learning(hooks: Hooks) -> None:
    for name in ("one", "two"):
        hooks.cli.save(name, "The mobile release is cut on Thursdays, before noon.")
    hooks.cli.variables |= {"MEMDIR_DREAM_HOURS": "0", "MEMDIR_DREAM_SESSIONS": "0"}
    assert hooks.cli("worker").code == 0
    assert (hooks.cli.memory / ".consolidate-lock").exists()


def test_a_model_that_cannot_be_opened_keeps_nothing_from_being_remembered(hooks: Hooks) -> None:
    hooks.cli.variables["MEMDIR_MODEL"] = "anthropic:claude-x"
    path = hooks.transcript("Remember that invoices are sent on the third of each month.", "Noted.")
    enqueue(hooks.state, QueuedTurn("s-1", str(path)))
    assert hooks.cli("worker").code == 0
    kept = [at.read_text(encoding="utf-8") for at in hooks.cli.memory.glob("*.md")]
    assert any("third of each month" in text for text in kept)
    assert ["model: " in at.text for at in read_problems(hooks.state)] == [True]


def test_a_chore_that_fails_is_noted_and_the_next_is_done(hooks: Hooks) -> None:
    hooks.cli.file("ferry", "---\nname: Ferry\ndescription: When it leaves\ntype: project\n---\n\nAt six.\n")
    opened = open_project(hooks.cli.project, environ=hooks.cli.environ())
    try:
        do_worker_chores(opened, [QueuedTurn("s-1", str(hooks.cli.home / "nowhere.jsonl"))], ScriptedModel([]))
    finally:
        opened.close()
    assert [at.text.partition(":")[0] for at in read_problems(hooks.state)] == ["notes"]
    assert (hooks.state / "index.db").exists()


def test_chores_are_done_in_one_order_and_any_error_is_reported(hooks: Hooks) -> None:
    hooks.cli.file("ferry", "---\nname: Ferry\ndescription: When it leaves\ntype: project\n---\n\nAt six.\n")
    problems: list[tuple[str, str]] = []

    def fail() -> None:
        raise OSError("the disk is full")

    with closing(open_project(hooks.cli.project, environ=hooks.cli.environ())) as project:
        context = TurnContext(project.stores, project.private.state, project.clock, project=project, notes=[fail])
        do_chores(context, lambda chore, error: problems.append((chore, str(error))), (TurnChore.NOTES,))
        assert problems == [("notes", "the disk is full")] and not (hooks.state / "index.db").exists()
        do_chores(context, lambda chore, error: problems.append((chore, str(error))), QUICK_CHORES)
    assert len(problems) == 2 and (hooks.state / "index.db").exists()
    order = "notes verify index sessions dream team_sync sync".split()
    assert [chore.name.lower() for chore in TurnChore] == order


def test_a_project_cannot_put_its_own_modules_into_hooks_and_workers(hooks: Hooks) -> None:
    for name in ("json", "sqlite3", "memdir", "click"):
        (hooks.cli.project / f"{name}.py").write_text("open('caught', 'w', encoding='utf-8')\n", encoding="utf-8")
    path = hooks.transcript("Remember that invoices are sent on the third of each month.", "Noted.")
    hooks("stop", transcript_path=str(path))
    wait_until(lambda: read_queue(hooks.state) == (), "the queue is empty")
    assert not (hooks.cli.project / "caught").exists()
