"""The files of memdir's own: the list that a purge walks, and who wrote what a team shares."""

from fnmatch import fnmatch
from pathlib import Path

import pytest

from clihelp import Cli, memory_text
from homes import git, make_environment, make_repository, write
from memdir.dream import SCAN, lock, logs
from memdir.extraction import turns as extraction_turns
from memdir.interfaces import worker
from memdir.project import paths
from memdir.project.settings import Environment, read_settings
from memdir.store import history
from memdir.store.state import (
    AUTHORS,
    COPY,
    EVENTS_FOLDER,
    INDEX,
    NEWS,
    POINT,
    PROBLEMS,
    RECORD,
    RUNS,
    STATE_FILES,
    Author,
    PurgedMemory,
    drop_author,
    find_own_author,
    make_author,
    purge_state,
    read_authors,
    read_table,
    write_authors,
    write_set,
    write_table,
)
from memdir.sync.sync import LOCK as SYNC_LOCK


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"a": 1, "b": {"name": 7}}', "\xff", "[" * 100_000])
def test_a_broken_file_names_nobody(tmp_path: Path, text: str) -> None:
    (tmp_path / AUTHORS).write_text(text, encoding="latin-1")
    assert read_authors(tmp_path) == {} and read_authors(tmp_path / "nowhere") == {}


def test_a_time_that_is_none_is_left_out(tmp_path: Path) -> None:
    write(tmp_path / AUTHORS, '{"a": {"name": "x", "email": 7, "when": "soon"}}')
    assert read_authors(tmp_path) == {"a": Author("x")}


def test_a_link_in_the_files_place_is_not_followed(tmp_path: Path) -> None:
    target = write(tmp_path / "elsewhere.json", '{"a": {"name": "x"}}')
    (tmp_path / AUTHORS).symlink_to(target)
    assert read_authors(tmp_path) == {}


def test_a_forged_name_is_one_printable_line(tmp_path: Path) -> None:
    write_authors(tmp_path, {"a": Author("me\n\x1b[2Jyou\u202e", "x\ny" * 200)})
    found = read_authors(tmp_path)["a"]
    assert found.name == "me x1b 2Jyou u202e" and "\n" not in found.email and len(found.email) <= 100
    assert make_author(" ").name == "unknown" and make_author("\udcff").name == "?"


def test_one_memory_is_taken_out_whatever_its_case(tmp_path: Path) -> None:
    write_authors(tmp_path, {"team/Deploys": Author("a"), "team/other": Author("b")})
    drop_author(tmp_path, "team/deploys")
    assert list(read_authors(tmp_path)) == ["team/other"]
    drop_author(tmp_path, "team/other")
    assert not (tmp_path / AUTHORS).exists()
    write(tmp_path / AUTHORS, "{ team/other")
    drop_author(tmp_path, "team/other")
    assert not (tmp_path / AUTHORS).exists(), "what cannot be read cannot be trusted to be clean"


def test_purge_takes_the_author_out(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    cli.file("team/tracker", memory_text("Tracker"))
    cli.save()
    state = cli.memory / ".memdir"
    write_authors(state, {"team/tracker": Author("a"), "team/x": Author("b")})
    assert cli("forget", "team/tracker", "--purge", "--yes").code == 0
    assert list(read_authors(state)) == ["team/x"]


def find_own(environment: Environment, root: Path | None) -> Author:
    return find_own_author(read_settings(environment, root=None), environment, root)


def test_the_setting_says_who_the_person_is(tmp_path: Path) -> None:
    environment = make_environment(tmp_path, MEMDIR_AUTHOR="On Call <oncall@example.invalid>")
    assert find_own(environment, None) == Author("On Call", "oncall@example.invalid")
    assert find_own(make_environment(tmp_path, MEMDIR_AUTHOR="On Call"), None) == Author("On Call")


def test_git_says_who_the_person_is_and_the_repository_has_the_last_word(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    root = make_repository(tmp_path / "app")
    assert find_own(environment, root).name, "the login name, where nobody was told anything"
    write(environment.home / ".config" / "git" / "config", "[user]\n  name = From XDG\n  email = a@example.invalid\n")
    assert find_own(environment, None) == Author("From XDG", "a@example.invalid")
    text = '[core]\n name = no\n[User] name = "Quoted ; name" # but not this\n'
    write(environment.home / ".gitconfig", text)
    assert find_own(environment, root) == Author("Quoted name", "a@example.invalid")
    git(root, "config", "user.name", "In this repository")
    assert find_own(environment, root).name == "In this repository"


def test_a_worktree_has_the_author_of_its_repository(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "app")
    git(root, "config", "user.email", "here@example.invalid")
    git(root, "worktree", "add", "-q", str(tmp_path / "tree"))
    assert find_own(make_environment(tmp_path), tmp_path / "tree").email == "here@example.invalid"


def is_listed(name: str) -> bool:
    return any(fnmatch(name, row.name) for row in STATE_FILES)


def test_every_file_that_memdir_keeps_in_a_state_folder_is_listed() -> None:
    names = {INDEX, history.FILE, extraction_turns.LOCK, SCAN, logs.DISTILLED}
    names |= {lock.LOCK, worker.LOCK, SYNC_LOCK, RUNS, EVENTS_FOLDER, PROBLEMS}
    names |= {paths.MEMBERSHIP, paths.RECORD}
    assert {name for name in names if not is_listed(name)} == set()
    assert not is_listed("something-new.json")


def test_whatever_a_session_of_work_leaves_in_the_state_folder_is_listed(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    cli("save", "--type", "reference", "--name", "tracker", "--description", "Bugs are in Linear", "--body", "BILL.")
    cli("recall", "where are bugs tracked?")
    cli("dream")
    cli("undo")
    found = {path.name.removesuffix("-wal").removesuffix("-shm") for path in (cli.memory / ".memdir").iterdir()}
    assert "history.db" in found and {name for name in found if not is_listed(name)} == set()


def test_a_purge_reaches_every_listed_file_in_the_state_folder_and_in_what_was_laid_aside(tmp_path: Path) -> None:
    secret, state, aside = "team/zanzibar", tmp_path / "state", tmp_path / "state" / "replaced-1" / "old"
    for folder in (state, aside):
        write_authors(folder, {secret: Author("A"), "team/other": Author("B")})
        write_set(folder, "20260305-1", {"text": secret})
        write(folder / "chats" / "s1.jsonl", secret)
        write(folder / "sessions" / "s1.json", f'{{"read": ["{secret}"]}}')
        write_table(folder, POINT, {"index": "- [Z](zanzibar.md) — hook\n- [O](other.md) — hook\n"})
        for name in ("runs.jsonl", "problems.jsonl", "index.db", RECORD, NEWS, f"{COPY}/HEAD"):
            write(folder / name, secret)
    purge_state(state, [state / "replaced-1"], PurgedMemory(secret))
    left = [path for path in tmp_path.rglob("*") if path.is_file() and b"zanzibar" in path.read_bytes()]
    assert left == []
    assert read_authors(aside) == {"team/other": Author("B")} and "other.md" in str(read_table(aside, POINT))
