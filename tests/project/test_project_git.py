"""Git roots, remotes and what git tracks."""

import os
import shutil
from pathlib import Path

import pytest

from homes import git, make_repository, write
from memdir.project.paths import find_git_dir, find_remote, find_root, find_root_commit, is_tracked, strip_credentials
from tables import read_rows, table

ROWS = read_rows("project_git")


def make_worktree(repository: Path, name: str = "side") -> Path:
    worktree = repository.parent / name
    git(repository, "worktree", "add", "-q", str(worktree), "-b", f"branch-{name}")
    return worktree


def test_outside_git_the_working_directory_is_the_root(tmp_path: Path) -> None:
    root = find_root(tmp_path)
    assert (root.path, root.kind, root.note) == (tmp_path, "plain", "")


def test_a_worktree_shares_the_root_of_its_repository(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "app")
    worktree = make_worktree(repository)
    (worktree / "src").mkdir()
    root = find_root(worktree / "src")
    assert (root.path, root.kind) == (repository, "worktree")
    assert str(worktree) in root.note


def test_a_worktree_whose_record_is_relative_is_believed(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "app")
    worktree = make_worktree(repository)
    admin = repository / ".git" / "worktrees" / "side"
    write(admin / "gitdir", os.path.relpath(worktree / ".git", admin) + "\n")
    write(worktree / ".git", f"gitdir: {os.path.relpath(admin, worktree)}\n")
    assert find_root(worktree).path == repository


def test_worktrees_of_a_bare_repository_share_the_repository_itself(tmp_path: Path) -> None:
    source = make_repository(tmp_path / "source")
    git(tmp_path, "clone", "-q", "--bare", str(source), "app.git")
    bare = tmp_path / "app.git"
    for name in ("one", "two"):
        git(bare, "worktree", "add", "-q", str(tmp_path / name), "-b", name)
        assert find_root(tmp_path / name).path == bare


def test_a_submodule_is_a_project_of_its_own(tmp_path: Path) -> None:
    library = make_repository(tmp_path / "library")
    app = make_repository(tmp_path / "app")
    git(app, "submodule", "--quiet", "add", str(library), "vendor/library")
    root = find_root(app / "vendor" / "library")
    assert (root.path, root.kind) == (app / "vendor" / "library", "git")
    assert find_remote(root.path) == str(library)


def test_a_separate_git_dir_leaves_the_root_where_the_files_are(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.mkdir()
    git(app, "init", "-q", f"--separate-git-dir={tmp_path / 'store'}")
    root = find_root(app)
    assert (root.path, root.kind) == (app, "git")
    assert find_git_dir(app) == tmp_path / "store"


def test_a_copied_dot_git_file_cannot_borrow_another_projects_memory(tmp_path: Path) -> None:
    worktree = make_worktree(make_repository(tmp_path / "victim"))
    evil = tmp_path / "evil"
    evil.mkdir()
    shutil.copy(worktree / ".git", evil / ".git")
    root = find_root(evil)
    assert (root.path, root.kind) == (evil, "plain")
    assert "does not point back" in root.note
    assert find_remote(evil) is None and find_root_commit(evil) is None


def test_a_made_up_worktree_record_outside_the_repository_is_not_believed(tmp_path: Path) -> None:
    victim = make_repository(tmp_path / "victim")
    evil = tmp_path / "evil"
    write(evil / ".git", "gitdir: worktrees/x\n")
    write(evil / "worktrees" / "x" / "commondir", str(victim / ".git"))
    write(evil / "worktrees" / "x" / "gitdir", "../../.git\n")
    root = find_root(evil)
    assert (root.path, root.kind) == (evil, "plain")


def test_a_linked_record_is_not_believed(tmp_path: Path) -> None:
    victim = make_repository(tmp_path / "victim")
    make_worktree(victim)
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / "record").symlink_to(victim / ".git" / "worktrees" / "side")
    write(evil / ".git", "gitdir: record\n")
    assert find_root(evil).path == evil


def test_a_dot_git_that_is_a_link_to_a_worktrees_file_is_not_followed(tmp_path: Path) -> None:
    worktree = make_worktree(make_repository(tmp_path / "victim"))
    evil = tmp_path / "evil"
    evil.mkdir()
    (evil / ".git").symlink_to(worktree / ".git")
    root = find_root(evil)
    assert (root.path, root.kind) == (evil, "plain")
    assert "link" in root.note


def test_a_dot_git_that_is_a_link_to_a_directory_counts_for_where_it_lies(tmp_path: Path) -> None:
    victim = make_repository(tmp_path / "victim")
    other = tmp_path / "other"
    other.mkdir()
    (other / ".git").symlink_to(victim / ".git")
    root = find_root(other)
    assert (root.path, root.kind) == (other, "git")


def test_a_worktree_that_was_moved_by_hand_stands_for_itself_and_says_why(tmp_path: Path) -> None:
    worktree = make_worktree(make_repository(tmp_path / "app"))
    moved = worktree.rename(tmp_path / "moved")
    root = find_root(moved)
    assert root.path == moved
    assert "does not point back" in root.note


@pytest.mark.parametrize("text", ["", "gitdir:", "gitdir: nowhere\n", "nonsense\n", "gitdir: a\nb\n", "gitdir: a\0b"])
def test_a_broken_dot_git_file_makes_the_directory_its_own_root(tmp_path: Path, text: str) -> None:
    write(tmp_path / "app" / ".git", text)
    root = find_root(tmp_path / "app")
    assert root.path == tmp_path / "app"


def test_a_fifo_named_dot_git_is_no_repository_and_does_not_hang(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / ".git")
    assert find_root(tmp_path).kind == "plain"


def test_the_remote_is_origin_before_any_other(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "app")
    git(repository, "remote", "add", "first", "https://one.invalid/x.git")
    assert find_remote(repository) == "https://one.invalid/x.git"
    git(repository, "remote", "add", "origin", "git@two.invalid:me/x.git")
    assert find_remote(repository) == "git@two.invalid:me/x.git"
    assert find_remote(make_worktree(repository)) == "git@two.invalid:me/x.git"


def test_a_repository_without_remotes_has_none(tmp_path: Path) -> None:
    assert find_remote(make_repository(tmp_path / "app")) is None
    assert find_remote(tmp_path) is None


def test_a_remote_as_git_itself_quotes_it_is_read(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "app")
    git(repository, "config", "remote.origin.url", '/srv/odd ;name#1/"x"\\y')
    assert find_remote(repository) == '/srv/odd ;name#1/"x"\\y'


@table("address plain", ROWS["a_remote_is_kept_without_its_credentials"])
def test_a_remote_is_kept_without_its_credentials(address: str, plain: str) -> None:
    assert strip_credentials(address) == plain


def test_the_first_commit_is_the_same_in_every_clone(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "app")
    first = git(repository, "rev-parse", "HEAD")
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", str(repository), "clone")
    git(tmp_path, "clone", "-q", "--bare", str(repository), "bare.git")
    assert {find_root_commit(tmp_path / name) for name in ("app", "clone", "bare.git")} == {first}


def test_a_shallow_clone_does_not_know_its_first_commit(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "app")
    git(repository, "commit", "-q", "--allow-empty", "-m", "second")
    git(tmp_path, "clone", "-q", "--depth=1", f"file://{repository}", "shallow")
    assert find_root_commit(tmp_path / "shallow") is None


def test_a_file_is_tracked_when_git_says_so_in_any_case(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "app")
    write(repository / "mine.txt", "x")
    assert is_tracked(repository, "readme.txt")
    assert is_tracked(repository, "README.txt")
    assert not is_tracked(repository, "mine.txt")


def test_when_git_cannot_say_the_file_counts_as_tracked(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "app")
    write(repository / "mine.txt", "x")
    write(repository / ".git" / "index", "broken")
    assert is_tracked(repository, "mine.txt")


def test_a_file_behind_a_tracked_link_counts_as_tracked(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "app")
    write(repository / "real" / "x.json", "{}")
    (repository / ".claude").symlink_to("real")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", "link")
    assert is_tracked(repository, ".claude/x.json")


def test_a_repositorys_own_programs_are_not_run(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "app")
    program = write(tmp_path / "program", f"#!/bin/sh\ntouch {tmp_path / 'ran'}\n")
    program.chmod(0o755)
    git(repository, "config", "core.fsmonitor", str(program))
    is_tracked(repository, "readme.txt")
    find_root_commit(repository)
    assert not (tmp_path / "ran").exists()
