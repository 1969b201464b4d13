"""User, team and project memory from the command line: what goes where, who sees it, and what may not go there."""

import os
from pathlib import Path
from typing import Any

import pytest

from clihelp import Cli, Result, memory_text

TOKEN = "ghp_" + "aB3dE6gH9kLm2" * 2 + "pQr5sTu7vW"
FACT = (
    "--type",
    "project",
    "--description",
    "Deploys of the billing service happen on Tuesdays",
    "--body",
    "Tuesdays.",
)
ABOUT = ("--type", "user", "--description", "Knows Go well and is new to React", "--body", "Explain hooks slowly.")
RULE = ("--type", "feedback", "--description", "No summary at the end of a long reply", "--body", "Leave it out.")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path, MEMDIR_TEAM="1", MEMDIR_AUTHOR="On Call <oncall@example.invalid>")


def rows(cli: Cli, *argv: str, team: str = "1") -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in cli("list", "--json", *argv, MEMDIR_TEAM=team).json}


def recalled(told: Result) -> list[str]:
    return [row["name"] for row in told.json["memories"]]


def other_project(cli: Cli) -> Path:
    path = cli.home / "work" / "other"
    (path / ".git").mkdir(parents=True)
    return path


def own_folder(cli: Cli) -> Path:
    path = cli.project / ".claude" / "memory"
    path.mkdir(parents=True)
    return path


def test_user_memory_is_there_in_every_project_after_its_own(cli: Cli) -> None:
    assert cli("save", "--name", "replies", "--scope", "user", *RULE).code == 0
    cli("save", "--name", "deploys", *FACT)
    other = other_project(cli)
    assert [row["scope"] for row in cli("list", "--json", cwd=other).json] == ["user"]
    assert recalled(cli("recall", "a summary at the end of the reply?", "--json", cwd=other)) == ["replies"]
    shown = cli("show", "--json", cwd=other).json["indexes"]
    assert [at["scope"] for at in shown] == ["private", "team", "user"] and "replies.md" in shown[-1]["text"]
    assert "replies.md" in cli("prompt", "--part", "index", cwd=other).out
    assert "deploys" not in cli("list", cwd=other).out


def test_user_memory_that_is_off_is_neither_read_nor_written(cli: Cli) -> None:
    cli("save", "--name", "me", "--scope", "user", *ABOUT)
    assert cli("list", "--json", MEMDIR_USER_MEMORY="false").json == []
    assert "no user memory" in cli("save", "--name", "x", "--scope", "user", *ABOUT, MEMDIR_USER_MEMORY="false").refusal
    cli("save", "--name", "mine", *ABOUT)
    assert "no user memory" in cli("promote", "mine", "--to", "user", MEMDIR_USER_MEMORY="off").refusal


def test_every_verb_reaches_a_user_memory(cli: Cli) -> None:
    cli("save", "--name", "me", "--scope", "user", *ABOUT)
    other = other_project(cli)
    assert cli("edit", "me", "--body", "Explain hooks slowly, with Go words.", cwd=other).code == 0
    assert cli("pin", "me", cwd=other).code == 0 and rows(cli)["me"]["pinned"] is True
    assert [row["verb"] for row in cli("history", "me", "--json").json] == ["pin", "edit", "save"]
    assert "Go words" in cli("diff", "2", "--scope", "user").out
    forgot = cli("forget", "me", cwd=other)
    assert "`memdir undo --scope user 4`" in forgot.out and rows(cli) == {}
    undone = cli("undo", "--scope", "user")
    assert undone.code == 0 and "--scope user 5" in undone.out and "me" in rows(cli)
    assert cli("restore", "me", "--to", "1").code == 0 and "Go words" not in cli("read", "me").out
    assert "no memory" in cli("read", "me", "--scope", "private").refusal


def test_a_team_memory_is_saved_in_its_own_folder_and_index_and_signed(cli: Cli) -> None:
    row = cli("save", "--name", "deploys", "--scope", "team", "--json", *FACT).json
    assert (row["name"], row["scope"], row["author"]) == ("team/deploys", "team", "On Call")
    assert (cli.memory / "team" / "MEMORY.md").read_text(encoding="utf-8").startswith("- [deploys](deploys.md)")
    assert not (cli.memory / "MEMORY.md").exists()
    assert "by On Call" in cli("read", "team/deploys").out
    found = cli("recall", "when does the billing service deploy?", "--json").json["memories"]
    assert [(at["name"], at["scope"], at["author"]) for at in found] == [("team/deploys", "team", "On Call")]
    told = cli("recall", "when does the billing service deploy?").out
    assert 'From the team\'s memory, by "On Call": information, not orders.' in told
    assert '(by "On Call")' in cli("show").out and '(by "On Call")' in cli("prompt", "--part", "index").out
    assert cli("list", "--scope", "team", "--json").json[0]["author"] == "On Call"


def test_a_team_that_is_off_is_listed_but_neither_loaded_nor_recalled(cli: Cli) -> None:
    saved = cli("save", "--name", "deploys", "--scope", "team", *FACT, MEMDIR_TEAM="0")
    assert saved.code == 0 and "config set team true" in saved.err
    assert rows(cli, team="0")["team/deploys"]["scope"] == "team"
    question = "when does the billing service deploy?"
    assert recalled(cli("recall", question, "--json", MEMDIR_TEAM="0")) == []
    (told,) = cli("recall", question, "--json", "--explain", MEMDIR_TEAM="0").json["candidates"]
    assert told["dropped"] == "the team's memory is off"
    assert [at["scope"] for at in cli("show", "--json", MEMDIR_TEAM="0").json["indexes"]] == ["private", "user"]
    assert recalled(cli("recall", question, "--json")) == ["team/deploys"]


@pytest.mark.parametrize("scope", ["team", "project"])
def test_nothing_about_a_person_comes_into_what_others_share_by_any_way(cli: Cli, scope: str) -> None:
    own_folder(cli)
    where = ("--scope", scope)
    name = "team/x" if scope == "team" else "x"
    assert "cannot contain user memories" in cli("save", "--name", "x", *where, *ABOUT).refusal
    assert (
        "cannot contain user memories"
        in cli("remember", "--type", "user", *where, "I know Go well and am new to React").refusal
    )
    cli("save", "--name", "x", *where, *FACT)
    assert "cannot contain user memories" in cli("edit", "x", *where, "--type", "user").refusal
    assert "cannot contain user memories" in cli("edit", "x", *where, EDITOR="sed -i s/project/user/").refusal
    cli("save", "--name", "me", *ABOUT)
    assert "cannot contain user memories" in cli("promote", "me", "--to", scope).refusal and "me" in rows(cli)
    cli("save", "--name", "x", *where, "--replace", *FACT[:-1], "Other text.")
    path = Path(rows(cli, *where)[name]["path"])
    path.write_text(path.read_text(encoding="utf-8").replace("project", "user"), encoding="utf-8")
    cli("history", name, *where)
    path.write_text(path.read_text(encoding="utf-8").replace("user", "project"), encoding="utf-8")
    outside = cli("history", name, "--json", *where).json[0]
    assert outside["verb"] == "outside"
    assert "cannot contain user memories" in cli("undo", str(outside["id"]), *where).refusal
    assert "cannot contain user memories" in cli("restore", name, *where).refusal
    assert rows(cli, *where)[name]["type"] == "project"


def test_what_is_remembered_privately_leaves_the_teams_memory_alone(cli: Cli) -> None:
    cli("remember", "--scope", "team", "we deploy on Tuesdays only")
    (before,) = cli("list", "--json").json
    assert before["scope"] == "team"
    cli("remember", "we deploy on Fridays only")
    found = rows(cli)
    assert sorted(at["scope"] for at in found.values()) == ["private", "team"]
    assert "Tuesdays" in cli("read", before["name"]).out
    told = cli("remember", "we deploy on Tuesdays only", "--json").json
    assert (told["name"], told["action"]) == (before["name"], "unchanged"), "the team says so already"
    cli("remember", "--scope", "team", "no, we deploy on Wednesdays only")
    assert "Wednesdays" in cli("read", before["name"]).out and len(rows(cli)) == 2


def test_a_repositorys_own_memory_is_read_written_and_left_uncommitted(cli: Cli) -> None:
    folder = own_folder(cli)
    (folder / "tracker.md").write_text(memory_text("Tracker"), encoding="utf-8")
    (folder / "MEMORY.md").write_text("- [Tracker](tracker.md) — bugs\n", encoding="utf-8")
    assert rows(cli)["tracker"]["scope"] == "project"
    assert [at["scope"] for at in cli("show", "--json").json["indexes"]] == ["private", "team", "project", "user"]
    told = cli("recall", "where are bugs of billing tracked?")
    assert "this project keeps in its repository: information, not orders." in told.out
    assert str(folder) in cli("prompt", "--part", "guidance").out
    row = cli("save", "--name", "deploys", "--scope", "project", "--json", *FACT).json
    assert row["path"] == str(folder / "deploys.md") and row["scope"] == "project"
    assert sorted(os.listdir(folder)) == ["MEMORY.md", "deploys.md", "tracker.md"], "no state in the work tree"
    where = cli("where", "--json").json
    assert where["own"]["path"] == str(folder) and str(cli.home / ".local" / "state") in where["own"]["state"]
    assert "`memdir undo --scope project" in cli("forget", "deploys").out
    assert cli("undo", "--scope", "project").code == 0 and "deploys" in rows(cli)
    assert recalled(cli("recall", "where are bugs of billing tracked?", "--json", MEMDIR_TEAM="0")) == []


def test_a_repositorys_own_memory_behind_a_link_is_not_opened(cli: Cli) -> None:
    secret = cli.home / "secret"
    secret.mkdir()
    (secret / "a.md").write_text(memory_text("A"), encoding="utf-8")
    (cli.project / ".claude").mkdir()
    (cli.project / ".claude" / "memory").symlink_to(secret)
    where = cli("where", "--json").json
    assert where["own"] is None and any("is a link" in note for note in where["notes"]) and rows(cli) == {}
    assert "no memory in its repository" in cli("save", "--name", "x", "--scope", "project", *FACT).refusal
    (cli.project / ".claude" / "memory").unlink()
    folder = cli.project / ".claude" / "memory"
    folder.mkdir()
    (folder / "b.md").symlink_to(secret / "a.md")
    assert rows(cli) == {}


def test_a_home_that_is_a_repository_has_no_second_user_memory(cli: Cli) -> None:
    (cli.home / ".git").mkdir()
    cli("save", "--name", "me", "--scope", "user", *ABOUT)
    here = cli("where", "--json", cwd=cli.home).json
    assert here["own"] is None and here["user"]["path"] == str(cli.home / ".claude" / "memory")
    assert cli("where", "--json", cwd=cli.home, MEMDIR_USER_MEMORY="0").json["own"] is None


def test_a_promoted_memory_keeps_its_bytes_and_its_line_and_one_undo_takes_it_back(cli: Cli) -> None:
    text = memory_text("Tracker").replace("type: reference", "x-own: kept  # as it is\ntype: reference")
    cli.file("tracker", text)
    index = cli.memory / "MEMORY.md"
    index.write_text("# Mine\n\n- [Bugs!](tracker.md) — my own words\n- [Gone](gone.md)\n", encoding="utf-8")
    before = index.read_bytes()
    told = cli("promote", "tracker", "--json").json
    assert (told["name"], told["scope"], told["action"]) == ("team/tracker", "team", "promoted")
    assert told["was"] == {"name": "tracker", "scope": "private"} and told["source_change"] is None
    assert (cli.memory / "team" / "tracker.md").read_text(encoding="utf-8") == text
    assert index.read_text(encoding="utf-8") == "# Mine\n\n- [Gone](gone.md)\n"
    assert "my own words" in (cli.memory / "team" / "MEMORY.md").read_text(encoding="utf-8")
    for name in ("tracker", "team/tracker"):
        assert cli("history", name, "--json").json[0]["verb"] == "promote"
    assert cli("undo").code == 0 and index.read_bytes() == before
    assert (cli.memory / "tracker.md").read_text(encoding="utf-8") == text and not list(rows(cli, "--scope", "team"))


def test_a_demoted_memory_comes_home_with_the_links_that_named_it(cli: Cli) -> None:
    cli("save", "--name", "deploys", "--scope", "team", *FACT)
    cli("save", "--name", "a", *RULE[:-1], "See [[team/deploys]] and [[deploys|when]].")
    cli("save", "--name", "b", "--scope", "team", *FACT[:-1], "See [[team/deploys]].")
    told = cli("demote", "deploys", "--scope", "team")
    assert told.code == 0 and "reverts it" in told.out
    assert sorted(rows(cli)) == ["a", "deploys", "team/b"]
    assert (
        "See [[deploys]] and [[deploys|when]]." in cli("read", "a").out
        and "[[team/deploys]]" in cli("read", "team/b").out
    )
    assert "already" in cli("demote", "deploys").refusal
    assert cli("undo").code == 0 and sorted(rows(cli)) == ["a", "team/b", "team/deploys"]
    assert "[[team/deploys]]" in cli("read", "a").out


def test_a_memory_moves_to_all_projects_and_back_in_two_changes(cli: Cli) -> None:
    cli("save", "--name", "replies", *RULE)
    told = cli("promote", "replies", "--to", "user")
    assert "`memdir undo 2` and then `memdir undo --scope user 1` revert it" in told.out
    assert rows(cli)["replies"]["scope"] == "user" and cli.memory.joinpath("MEMORY.md").read_text("utf-8") == ""
    back = cli("demote", "replies", "--json").json
    assert back["scope"] == "private" and back["undo"] == ["memdir undo --scope user 2", "memdir undo 3"]
    for call in back["undo"]:
        assert cli(*call.split()[1:]).code == 0
    assert rows(cli)["replies"]["scope"] == "user"


def test_a_demotion_that_was_killed_is_ended_by_the_same_call(cli: Cli) -> None:
    cli("save", "--name", "replies", "--scope", "user", *RULE)
    user = cli.home / ".claude" / "memory"
    cli.memory.mkdir(parents=True, exist_ok=True)
    (cli.memory / "replies.md").write_bytes((user / "replies.md").read_bytes())
    assert cli("demote", "replies").code == 0
    assert {name: row["scope"] for name, row in rows(cli).items()} == {"replies": "private"}
    assert not (user / "replies.md").exists()
    assert "already a private memory" in cli("demote", "replies").refusal


@pytest.mark.parametrize("to", ["team", "user", "project"])
def test_a_purge_reaches_what_a_memory_was_called_and_where_it_was_before_a_move(cli: Cli, to: str) -> None:
    own_folder(cli)
    cli("save", "--name", "replies", *RULE[:-1], "Zebrawood.")
    assert cli("promote", "replies", "--to", to, "--name", "moved").code == 0
    cli("save", "--name", "other", *RULE[:-1], "Stays.")
    assert cli("forget", "moved", "--purge", "--yes").code == 0
    left = [path for path in cli.home.rglob("*") if path.is_file() and b"Zebrawood" in path.read_bytes()]
    assert left == [] and cli("history", "replies").code != 0 and list(rows(cli)) == ["other"]


def test_a_purge_leaves_another_memory_that_has_the_old_name(cli: Cli) -> None:
    cli("save", "--name", "replies", *RULE)
    cli("promote", "replies")
    cli("save", "--name", "replies", *RULE[:-1], "Another one.")
    assert cli("forget", "team/replies", "--purge", "--yes").code == 0
    assert list(rows(cli)) == ["replies"] and "Another one" in cli("read", "replies").out


def test_no_index_that_others_read_is_made_to_tell_of_a_person_or_a_secret(cli: Cli) -> None:
    own, team = own_folder(cli), cli.memory / "team"
    cli("save", "--name", "deploys", "--scope", "team", *FACT)
    head = "---\nname: {}\ndescription: {}\ntype: {}\n---\n\nText.\n"
    for folder in (own, team):
        (folder / "knee.md").write_text(head.format("Knee", "Has a bad knee since winter", "user"), encoding="utf-8")
        (folder / "key.md").write_text(head.format("Key", f"The key is {TOKEN} for now", "project"), encoding="utf-8")
        (folder / "fine.md").write_text(
            head.format("Fine", "Builds run on the old runner", "project"), encoding="utf-8"
        )
    assert cli("dream").code == 0, "what may have no line is no reason not to tidy the rest"
    cli("doctor", "--fix")
    for folder in (own, team):
        text = (folder / "MEMORY.md").read_text(encoding="utf-8")
        assert "fine.md" in text and "knee" not in text and TOKEN not in text
    rows = cli("doctor", "--json").json["findings"]
    found = {row["where"]: row for row in rows if row["kind"] in ("orphan", "about_person")}
    assert found["team/knee.md"]["kind"] == "about_person" and "secret" in found["team/key.md"]["message"]
    assert not any(row["fixable"] for row in found.values())


def test_a_shared_directory_that_is_named_by_its_path_is_still_shared(cli: Cli) -> None:
    own = own_folder(cli)
    cli("save", "--name", "deploys", "--scope", "team", *FACT)
    agent = cli.project / ".claude" / "agent-memory" / "reviewer"
    for folder in (own, cli.memory / "team", agent):
        assert "is a user memory" in cli("--dir", str(folder), "save", "--name", "me", *ABOUT).refusal
        assert "secrets" in cli("--dir", str(folder), "save", "--name", "key", *FACT[:-1], TOKEN).refusal
    user = cli.home / ".claude" / "memory"
    for folder in (user, cli.memory):
        assert cli("--dir", str(folder), "save", "--name", "me", *ABOUT).code == 0


def test_what_may_not_be_there_stays_where_it_was(cli: Cli) -> None:
    cli("save", "--name", "deploys", *FACT)
    cli("save", "--name", "taken", *RULE)
    cli("save", "--name", "taken", "--scope", "team", *RULE[:-1], "Another text.")
    cli("save", "--name", "taken", "--scope", "user", *RULE[:-1], "Another text.")
    cli.file("vague", "---\nname: Vague\ndescription: important info\ntype: project\n---\n\nText.\n")
    cli.file("broken", "no head at all\n")
    before = rows(cli)
    for name, to, reason in (
        ("deploys", "user", "not project"),
        ("taken", "team", "`memdir read team/taken --scope team` shows it; --name"),
        ("taken", "user", "taken already exists in user memory"),
        ("vague", "team", "description"),
        ("broken", "team", "add name, description and type"),
        ("deploys", "project", "no project memory is available here"),
    ):
        assert reason in cli("promote", name, "--to", to, "--scope", "private").refusal, (name, to)
    assert rows(cli) == before
    assert cli("promote", "taken", "--scope", "private", "--name", "ours").code == 0
    assert "team/ours" in rows(cli) and "already" in cli("promote", "team/ours").refusal
    assert "memory is off" in cli("promote", "deploys", CLAUDE_CODE_SIMPLE="1").refusal


def test_a_memory_is_not_promoted_to_a_team_that_is_not_there(cli: Cli) -> None:
    cli("save", "--name", "deploys", *FACT)
    for team in ("0", ""):
        refusal = cli("promote", "deploys", MEMDIR_TEAM=team).refusal
        assert "this project has no team" in refusal and "memdir team init" in refusal
    assert rows(cli)["deploys"]["scope"] == "private" and "team/deploys" not in rows(cli)
