"""The person's own repository is read for the address of its remote, and for nothing else."""

import hashlib
import os
import stat
import subprocess
from pathlib import Path

import pytest

from homes import git, make_repository, write
from memdir.errors import SettingsError
from memdir.sync.state import Membership, check_branch, check_remote, read_membership, resolve_remote, write_membership
from tables import table
from teams import Member, make_remote, memory_text


def look(root: Path) -> dict[str, str]:
    """Every file, folder and link below a root: bytes, mode, and for files in `.git` the times too."""
    found = {}
    for folder, names, files in os.walk(root):
        for name in (*names, *files):
            path = Path(folder) / name
            facts = path.lstat()
            data = path.read_bytes() if stat.S_ISREG(facts.st_mode) else b""
            what = os.readlink(path) if path.is_symlink() else hashlib.sha256(data).hexdigest()
            found[str(path.relative_to(root))] = f"{facts.st_mode:o} {facts.st_mtime_ns} {what}"
    return found


def make_busy_repository(root: Path, remote: Path) -> None:
    """Staged, unstaged, conflicted and stashed work, hooks that tell if they run, and settings that would do harm."""
    git(root, "remote", "add", "origin", str(remote))
    write(root / "stashed.txt", "to be stashed\n")
    git(root, "add", ".")
    git(root, "stash")
    git(root, "checkout", "-q", "-b", "side")
    write(root / "readme.txt", "side\n")
    git(root, "commit", "-q", "-am", "side")
    git(root, "checkout", "-q", "main")
    write(root / "readme.txt", "main\n")
    git(root, "commit", "-q", "-am", "main")
    with pytest.raises(subprocess.CalledProcessError):
        git(root, "merge", "side")
    write(root / "staged.txt", "staged\n")
    git(root, "add", "staged.txt")
    write(root / "staged.txt", "and changed since\n")
    write(root / "untracked.txt", "x\n")
    names = ("pre-push", "pre-commit", "post-commit", "reference-transaction", "post-checkout", "post-merge", "update")
    for hook in (*(root / ".git" / "hooks" / name for name in names), remote.parent / "global-hooks" / "pre-push"):
        write(hook, f"#!/bin/sh\ntouch {root.parent}/hook-ran\nexit 1\n").chmod(0o755)
    config = root / ".git" / "config"
    more = f"[core]\n\tfsmonitor = touch {root.parent}/hook-ran\n\tsshCommand = touch {root.parent}/hook-ran\n"
    config.write_text(config.read_text(encoding="utf-8") + more, encoding="utf-8")


def test_a_sync_leaves_every_byte_ref_and_index_entry_of_the_repository_alone(tmp_path: Path) -> None:
    remote = make_remote(tmp_path)
    ada, bob = Member(tmp_path, "ada", remote), Member(tmp_path, "bob", remote)
    root = make_repository(tmp_path / "ada" / "home" / "work" / "busy")
    make_busy_repository(root, remote)
    bob.write("theirs", memory_text("Theirs"))
    bob.enter(create=True)
    # Settings and variables of the person's that steer git elsewhere.
    lead = f"[core]\n\thooksPath = {tmp_path}/global-hooks\n[gc]\n\tauto = 1\n[push]\n\tdefault = matching\n"
    write(tmp_path / "ada" / "home" / ".gitconfig", lead)
    steer = {"GIT_DIR": str(root / ".git"), "GIT_WORK_TREE": str(root), "GIT_INDEX_FILE": str(root / ".git" / "index")}
    before, there = look(root), git(remote, "for-each-ref")
    save = "save --type project --name team/ours --description".split()
    run = [
        ["team", "join", "--remote", str(remote)],
        [*save, "Freeze of the mobile releases", "--body", "From Thursday on."],
        ["team", "sync"],
    ]
    run += [["team", "log"], ["team", "status"], ["team", "leave"]]
    for argv in run:
        told = ada.cli(*argv, cwd=root, **steer)
        assert told.code == 0, told.err
    assert look(root) == before and not (tmp_path / "ada" / "home" / "work" / "hook-ran").exists()
    after = git(remote, "for-each-ref")
    assert [row.split()[2] for row in after.splitlines()] == [row.split()[2] for row in there.splitlines()]
    assert "ours.md" in git(remote, "ls-tree", "--name-only", "memdir/team")


def test_a_branch_that_holds_other_work_is_never_written_to(tmp_path: Path) -> None:
    ada = Member(tmp_path, "ada", make_remote(tmp_path))
    write(ada.cli.project / "README.md", "code\n")
    for argv in (["add", "README.md"], ["commit", "-q", "-m", "code"], ["push", "-q", "origin", "HEAD:main"]):
        git(ada.cli.project, *argv)
    ada.write("m", memory_text("M"))
    before = git(ada.remote, "rev-parse", "main")
    for verb in ("init", "join"):
        assert "contains other files" in ada.cli("team", verb, "--branch", "main", "--remote", str(ada.remote)).refusal
    assert read_membership(ada.state) is None
    # Somebody's code came there after the team was chosen, and before anything was sent.
    write_membership(ada.state, Membership(str(ada.remote), branch="main"))
    assert "contains other files" in ada.sync().error and git(ada.remote, "rev-parse", "main") == before


@table("branch", ["-x", "..", "a..b", "refs/heads/main", "HEAD", "a b", "x.lock", "a^b", "x/", "a\n"])
def test_what_is_no_name_of_a_branch_is_refused(branch: str) -> None:
    with pytest.raises(SettingsError, match="invalid branch name"):
        check_branch(branch)


def test_the_project_s_own_remote_is_used_unless_another_is_named(tmp_path: Path) -> None:
    root = make_repository(tmp_path / "app")
    with pytest.raises(SettingsError, match="no git remote"):
        resolve_remote(Membership(), root)
    git(root, "remote", "add", "origin", "https://user:token@example.org/app.git")
    assert resolve_remote(Membership(), root) == "https://example.org/app.git"
    assert resolve_remote(Membership("git@example.org:a/b.git"), root) == "git@example.org:a/b.git"


def test_a_path_remote_that_came_with_the_folder_is_refused_and_none_of_its_hooks_run(tmp_path: Path) -> None:
    ada = Member(tmp_path, "ada", make_remote(tmp_path, "ada/home/work/app/.git/cache.git"))
    ran = tmp_path / "ran"
    for hook in ("pre-receive", "update", "post-receive", "post-update", "reference-transaction"):
        write(ada.remote / "hooks" / hook, f"#!/bin/sh\ntouch {ran}\n").chmod(0o755)
    ada.write("m", memory_text("M"))
    for address in (str(ada.remote), ".git/cache.git", f"file://{ada.remote}", "~/work/app/.git/cache.git"):
        git(ada.cli.project, "remote", "set-url", "origin", address)
        for argv in (["init"], ["join"]):
            refusal = ada.cli("team", *argv).refusal
            assert "is a path on this machine" in refusal and "--remote" in refusal, address
    # Who took part before the remote was changed is not led there either.
    write_membership(ada.state, Membership())
    assert "is a path on this machine" in ada.sync().error and not ran.exists()


@pytest.mark.parametrize(
    "address",
    ["ext::sh -c id", "fd::17", "-oProxyCommand=x", "http://example.org/x", "git://example.org/x", "gopher::x",
     "ssh://-oProxyCommand=x/y", "https://me:pass@example.org/x", "https://token@example.org/x", "ftp://x/y",
     "ssh://git:pass@example.org/x", "", "a\nb", "x\x1b[0m", "https://[example.org/x"],
)  # fmt: skip
def test_an_address_that_would_start_a_program_or_hold_a_password_is_refused(tmp_path: Path, address: str) -> None:
    with pytest.raises(SettingsError) as caught:
        check_remote(address, tmp_path)
    assert (
        caught.value.hint
        and "pass" not in str(caught.value).replace("password", "")
        and "token" not in str(caught.value)
    )


@pytest.mark.parametrize(
    "address", ["ssh://git@example.org/x", "git@example.org:x/y.git", "https://example.org/x", "file:///x/y"]
)
def test_ordinary_addresses_stay_as_they_are(tmp_path: Path, address: str) -> None:
    assert check_remote(address, tmp_path) == address
