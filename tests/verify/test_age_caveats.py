"""What recall, status and the worker do with verdicts: the precise caveat from what is kept, and keeping it fresh."""

import subprocess
import sys
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from clihelp import NOW, Cli
from homes import git, write
from memdir.format.shown import show_memory, wrap
from memdir.recall.pipeline import find_caveats, recall_in_project
from memdir.store.memory import MemoryStore
from memdir.store.open import Project, open_project
from memdir.store.state import note_event, note_problem
from memdir.testing import sample_memory
from memdir.verify.check import EVENT, HOST, is_refresh_due, refresh_verdicts, verify
from memdir.verify.records import VerifyState, read_verdicts

MOVED = (
    "---\nname: Login page\ndescription: where the login page is rendered\ntype: reference\n---\n\n"
    "It is rendered by `src/login.py`.\n"
)
QUERY = "where is the login page rendered?"


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A project whose login page has moved, and a memory that does not know."""
    cli = Cli(tmp_path)
    (cli.project / ".git").rmdir()
    git(cli.project, "init", "-q")
    write(cli.project / "src" / "login.py", "def render_login():\n    return 'a form with two fields'\n" * 5)
    git(cli.project, "add", ".")
    git(cli.project, "commit", "-q", "-m", "one")
    git(cli.project, "mv", "src/login.py", "src/entry.py")
    git(cli.project, "commit", "-q", "-m", "two")
    cli.file("login-page", MOVED)
    return cli


def open_here(cli: Cli) -> Project:
    return open_project(cli.project, environ=cli.variables)


def check(cli: Cli) -> None:
    opened = open_here(cli)
    verify(opened.private, opened.places.root.path, now=opened.now())
    opened.close()


def test_recall_tells_what_is_out_of_date_in_the_reminder_and_in_json(cli: Cli) -> None:
    check(cli)
    (row,) = cli("recall", "--json", QUERY).json["memories"]
    assert "src/login.py" in row["caveat"] and "src/entry.py" in row["caveat"]
    assert row["caveat"] in cli("recall", QUERY).out
    opened = open_here(cli)
    (excerpt,) = recall_in_project(opened, QUERY, peek=True)
    assert row["caveat"] in wrap(show_memory(excerpt, now=opened.now()))
    opened.close()


def test_without_a_verdict_nothing_is_claimed(cli: Cli) -> None:
    (row,) = cli("recall", "--json", QUERY).json["memories"]
    assert row["caveat"] == ""


def test_a_text_that_has_changed_since_carries_no_caveat(cli: Cli) -> None:
    check(cli)
    cli.file("login-page", MOVED.replace("src/login.py", "src/entry.py"))
    (row,) = cli("recall", "--json", QUERY).json["memories"]
    assert row["caveat"] == ""


def test_recall_starts_no_git_and_looks_at_no_project(cli: Cli) -> None:
    check(cli)
    git(cli.project, "mv", "src/entry.py", "src/third.py")
    git(cli.project, "commit", "-q", "-m", "three")
    (row,) = cli("recall", "--json", QUERY, PATH="/nowhere").json["memories"]
    assert "src/entry.py" in row["caveat"]


def test_a_sound_memory_costs_recall_no_import(cli: Cli) -> None:
    cli.file("login-page", MOVED.replace("src/login.py", "src/entry.py"))
    check(cli)
    cli("recall", QUERY)  # a file that is read into the index is searched for triggers
    code = (
        "import sys\nfrom memdir.interfaces.cli import run\n"
        f"run(['recall', '--json', {QUERY!r}])\n"
        "print(sorted(at for at in sys.modules if at.startswith('memdir.verify')), file=sys.stderr)\n"
    )
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, cwd=cli.project, env=cli.environ(), capture_output=True, text=True, encoding="utf-8")
    assert '"login-page"' in done.stdout and done.stderr == "[]\n"


def test_a_store_without_files_has_no_verdicts() -> None:
    store = MemoryStore()
    store.write(sample_memory())
    assert find_caveats(store, [store.read("terse-replies")]) == {}


def test_status_counts_verdicts_on_the_texts_as_they_are(cli: Cli) -> None:
    cli.file("sound", MOVED.replace("src/login.py", "src/entry.py"))
    cli.file("plain", MOVED.replace("`src/login.py`", "the server"))
    assert cli("status", "--json").json["scopes"][0]["verdicts"] == {
        "verified": 0, "partly": 0, "stale": 0, "unchecked": 3,
    }  # fmt: skip
    check(cli)
    wanted = {"verified": 1, "partly": 0, "stale": 1, "unchecked": 1}
    assert cli("status", "--json").json["scopes"][0]["verdicts"] == wanted
    assert "1 memory no longer true" in cli("status").out
    cli.file("sound", MOVED.replace("src/login.py", "src/entry.py") + "More.\n")
    assert cli("status", "--json").json["scopes"][0]["verdicts"]["verified"] == 0
    cli.save()  # from here on history knows the digests
    assert cli("status", "--json").json["scopes"][0]["verdicts"] == {
        "verified": 0, "partly": 0, "stale": 1, "unchecked": 3,
    }  # fmt: skip


def test_verdicts_are_refreshed_beside_a_conversation_and_not_all_the_time(cli: Cli) -> None:
    opened = open_here(cli)
    now = opened.now()
    assert refresh_verdicts(opened, now=now) == 1
    assert refresh_verdicts(opened, now=now + timedelta(minutes=1)) is None
    assert refresh_verdicts(opened, now=now + timedelta(minutes=11)) == 0  # nothing has changed
    git(cli.project, "mv", "src/entry.py", "src/third.py")
    git(cli.project, "commit", "-q", "-m", "three")
    assert refresh_verdicts(opened, now=now + timedelta(minutes=30)) == 1
    opened.close()
    assert "src/third.py" in cli("recall", "--json", QUERY).json["memories"][0]["caveat"]


def test_what_the_project_keeps_itself_is_refreshed_as_it_was_verified(cli: Cli) -> None:
    write(cli.project / ".claude" / "memory" / "own-page.md", MOVED)
    cli("verify")
    opened = open_here(cli)
    assert refresh_verdicts(opened, now=opened.now()) == 0
    assert opened.project is not None and read_verdicts(opened.project)["own-page"].state is VerifyState.STALE
    opened.close()


def test_a_stamp_from_the_future_does_not_stop_the_refreshing(cli: Cli) -> None:
    opened = open_here(cli)
    note_event(opened.private.state, HOST, EVENT, opened.now() + timedelta(days=9))
    assert is_refresh_due(opened, opened.now())
    opened.close()


def test_nothing_is_refreshed_where_there_is_no_memory(cli: Cli, tmp_path: Path) -> None:
    opened = open_project(cli.project, environ={**cli.variables, "HOME": str(tmp_path / "new")})
    assert refresh_verdicts(opened, now=opened.now()) is None
    opened.close()
    assert not (tmp_path / "new").exists()


def test_a_purge_leaves_no_verdict_and_no_problem_behind(cli: Cli) -> None:
    check(cli)
    state = cli.memory / ".memdir"
    note_problem(state, "codex", "login-page could not be read", datetime.fromisoformat(NOW).astimezone())
    assert cli("forget", "login-page", "--purge", "--yes").code == 0
    left = [path for path in cli.memory.rglob("*") if path.is_file() and b"login" in path.read_bytes()]
    assert left == []
