"""`memdir team` on the command line: what it says, and what it refuses."""

from pathlib import Path

from homes import git
from teams import Member, make_remote, make_team, memory_text


def test_without_a_remote_there_is_nothing_to_begin_with(tmp_path: Path) -> None:
    ada = Member(tmp_path, "ada", tmp_path / "none.git")
    git(ada.cli.project, "remote", "remove", "origin")
    assert "no git remote" in ada.cli("team", "init").refusal
    assert "is refused" in ada.cli("team", "init", "--remote", "ext::sh -c true").refusal
    assert "invalid branch name" in ada.cli("team", "init", "--remote", str(tmp_path), "--branch", "-x").refusal
    assert "has no team" in ada.cli("team", "status").out
    assert ada.cli("team", "sync").refusal and ada.cli("team", "log").refusal


def test_init_says_what_it_sent_and_switches_team_memory_on(tmp_path: Path) -> None:
    ada = Member(tmp_path, "ada", make_remote(tmp_path))
    ada.write("m", memory_text("M"))
    told = ada.cli("team", "init", "--remote", str(ada.remote))
    assert told.code == 0 and "sent      team/m" in told.out
    assert ada.cli("config", "get", "team").out.strip() == "true"
    other = make_remote(tmp_path, "other.git")
    assert "another team" in ada.cli("team", "join", "--remote", str(other)).refusal
    assert ada.cli("team", "init", "--remote", str(ada.remote)).code == 0


def test_what_others_write_needs_review_unless_somebody_says_otherwise(tmp_path: Path) -> None:
    remote = make_remote(tmp_path)
    ada, bob, cyd = (Member(tmp_path, name, remote) for name in ("ada", "bob", "cyd"))
    ada.write("m", memory_text("M"))
    assert ada.cli("team", "init", "--no-review", "--remote", str(ada.remote)).code == 0
    bob.cli("team", "join", "--remote", str(ada.remote))
    assert not bob.has("m") and "team/m from the team" in bob.cli("inbox").out
    cyd.cli("team", "join", "--no-review", "--remote", str(ada.remote))
    assert cyd.has("m") and bob.cli("inbox", "approve", "--all").code == 0 and bob.has("m")


def test_team_memory_is_on_only_in_the_project_that_takes_part(tmp_path: Path) -> None:
    (ada,) = make_team(tmp_path, "ada")
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert ada.cli("config", "get", "team", cwd=elsewhere).out.strip() == "false"
    ada.cli("config", "set", "team", "false")
    assert ada.cli("config", "get", "team").out.strip() == "false"
    ada.cli("config", "unset", "team")
    assert "config set team true" in ada.cli("team", "leave").out
    assert ada.cli("config", "get", "team").out.strip() == "false"


def test_sync_status_and_log_tell_what_happened(tmp_path: Path) -> None:
    ada, bob = make_team(tmp_path, "ada", "bob")
    ada.cli.save("team/m", "One.")
    assert "unsent    team/m" in ada.cli("team", "status").out
    ada.cli("team", "sync")
    told = bob.cli("team", "sync")
    assert "added     team/m by Ada" in told.out and "memdir undo" in told.out
    status = bob.cli("team", "status")
    assert "last sync synced" in status.out and "1 since the last session" in status.out
    row = bob.cli("team", "log").lines[0].split("\t")
    assert row[1:] == ["Ada", "ada@example.org", "added", "team/m"]
    assert bob.cli("team", "log", "--author", "nobody").lines == []
    assert bob.cli("team", "revert", "--author", "Ada", "--since", "soon").code == 2


def test_an_offline_sync_is_a_warning_and_no_failure(tmp_path: Path) -> None:
    (ada,) = make_team(tmp_path, "ada")
    ada.remote.rename(tmp_path / "away.git")
    told = ada.cli("team", "sync")
    assert told.code == 0 and "cannot reach the remote" in told.out and "warning: git fetch failed" in told.err
    assert "offline" in ada.cli("team", "status").out
