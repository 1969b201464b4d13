"""`memdir import` of memory directories: what comes in, what does not, and that one undo takes it back."""

import os
from pathlib import Path

import pytest

from clihelp import Cli, memory_text
from homes import write
from importers import BILLING, DEPLOYS, TOKEN, make_source, read_tree
from memdir.interfaces.import_formats import read_directory, read_files
from memdir.interfaces.imports import apply_import, plan_import
from memdir.records import Origin
from memdir.store.files import FileStore


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return make_source(tmp_path / "elsewhere" / "memory")


def fates(cli: Cli, *argv: str) -> dict[str, str]:
    """By what a step is about, what becomes of it."""
    told = cli("import", *argv, "--json")
    assert told.code == 0, told.err
    return {row["name"] or row["source"]: row["fate"] for row in told.json["steps"]}


def test_without_apply_nothing_is_changed_and_the_plan_is_told(cli: Cli, source: Path) -> None:
    told = cli("import", str(source))
    assert told.code == 0 and "2 new" in told.out and "--apply" in told.out
    assert [line.split("\t")[:3] for line in told.lines[:2]] == [
        ["new", "sub/deploys", "project"],
        ["new", "billing", "reference"],
    ]
    assert not cli.memory.exists()


def test_a_directory_comes_in_to_the_letter_with_its_index_but_for_dead_lines(cli: Cli, source: Path) -> None:
    assert "imported" in cli("import", str(source), "--apply").out
    wanted = read_tree(source)
    wanted["MEMORY.md"] = wanted["MEMORY.md"].replace("- [Gone](gone.md) — there is no such file\n".encode(), b"")
    assert read_tree(cli.memory) == wanted
    assert not (cli.memory / "logs").exists()


def test_it_is_one_change_and_one_undo_takes_it_back_and_it_can_be_done_again(cli: Cli, source: Path) -> None:
    cli.save("mine", "Text.")
    before = read_tree(cli.memory)
    change = cli("import", str(source), "--apply", "--json").json["change"]
    assert cli("history", "--json").json[0]["id"] == change
    assert len(read_tree(cli.memory)) == len(before) + 2
    assert cli("undo").code == 0
    assert read_tree(cli.memory) == before
    assert fates(cli, str(source), "--apply") == {"sub/deploys": "new", "billing": "new"}


def test_running_it_again_adds_nothing(cli: Cli, source: Path) -> None:
    cli("import", str(source), "--apply")
    before = read_tree(cli.memory)
    again = cli("import", str(source), "--apply", "--json").json
    assert (again["change"], again["counts"]["same"]) == (None, 2)
    assert read_tree(cli.memory) == before


def test_what_was_changed_or_forgotten_since_does_not_come_back(cli: Cli, source: Path) -> None:
    cli("import", str(source), "--apply")
    cli("forget", "billing")
    cli("edit", "sub/deploys", "--body", "We deploy on Thursdays now.")
    before = read_tree(cli.memory)
    assert fates(cli, str(source), "--apply") == {"sub/deploys": "before", "billing": "before"}
    assert read_tree(cli.memory) == before


def test_an_import_is_not_a_touch_and_dates_stay_as_they_were(cli: Cli, source: Path) -> None:
    cli("import", str(source), "--apply")
    found = {
        row["name"]: row
        for row in cli("recall", "billing bugs tracked, deploys on Tuesday", "--limit", "2", "--json").json["memories"]
    }
    assert found["billing"]["since"].startswith("2020-09-13") and found["billing"]["modified"].startswith("2020-09-13")
    assert found["sub/deploys"]["since"].startswith("2026-01-02")
    assert cli("doctor").out.count("billing") == 0


def test_another_memory_of_the_same_name_is_left_alone_and_the_new_one_stands_beside_it(cli: Cli, source: Path) -> None:
    cli(
        "save",
        "--type",
        "user",
        "--name",
        "billing",
        "--description",
        "Knows the billing code by heart",
        "--body",
        "Wrote it.",
    )
    mine = (cli.memory / "billing.md").read_bytes()
    assert fates(cli, str(source), "--apply") == {"sub/deploys": "new", "billing-2": "new"}
    assert (cli.memory / "billing.md").read_bytes() == mine
    assert (cli.memory / "billing-2.md").read_bytes() == BILLING.encode()


def test_to_an_index_that_is_there_lines_are_added_with_the_words_of_the_other_index(cli: Cli, source: Path) -> None:
    cli.save("mine", "Text.")
    index = (cli.memory / "MEMORY.md").read_text(encoding="utf-8")
    cli("import", str(source), "--apply")
    after = (cli.memory / "MEMORY.md").read_text(encoding="utf-8")
    assert after.startswith(index)
    assert "- [deploys](sub/deploys.md) — on Tuesdays, says the team\n" in after
    assert "Some words of mine" not in after


def test_a_secret_waits_in_the_inbox_without_its_value_and_only_once(cli: Cli, source: Path) -> None:
    write(
        source / "gateway.md", memory_text("Gateway", "How the payment gateway is reached", f"The token is {TOKEN}.\n")
    )
    told = cli("import", str(source))
    assert "for the inbox" in told.out and TOKEN not in told.out + told.err
    done = cli("import", str(source), "--apply", "--json")
    assert TOKEN not in done.out and done.json["waiting"] == [1]
    assert not (cli.memory / "gateway.md").exists()
    assert TOKEN not in cli("inbox", "show", "1", "--json").out
    assert fates(cli, str(source), "--apply")["gateway"] == "waiting" and len(cli("inbox", "--json").json) == 1
    assert all(TOKEN.encode() not in path.read_bytes() for path in cli.memory.rglob("*") if path.is_file())
    assert cli("inbox", "approve", "1").code == 0
    assert "[masked" in (cli.memory / "gateway.md").read_text(encoding="utf-8")
    assert fates(cli, str(source), "--apply")["gateway"] == "before"


def test_a_secret_in_a_line_that_is_refused_is_shown_nowhere(cli: Cli, tmp_path: Path) -> None:
    path = write(tmp_path / "notes" / "Gateway.md", f"# Use the token {TOKEN}\n").parent
    for more in ([], ["--json"]):
        told = cli("import", str(path), *more)
        assert told.code == 0 and TOKEN not in told.out + told.err and "it contains no text" in told.out


def test_purging_an_imported_memory_leaves_nothing_of_it(cli: Cli, source: Path) -> None:
    write(source / "gateway.md", memory_text("Gateway", "How the quokka gateway is reached", "Ask the quokka desk.\n"))
    write(
        source / "waits.md", memory_text("Waits", "How the quokka desk is reached", f"The wombat token is {TOKEN}.\n")
    )
    cli("import", str(source), "--apply")
    assert cli("forget", "gateway", "--purge", "--yes").code == 0
    with FileStore(cli.memory) as store:
        store.purge("waits")  # it is in the inbox alone
    left = b"".join(path.read_bytes() for path in cli.memory.rglob("*") if path.is_file())
    assert b"quokka" not in left and b"wombat" not in left


def test_a_file_without_head_or_type_gets_them_from_its_own_words(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "m"
    write(
        folder / "odd one.md",
        "# Nightly reset\n\nThe staging database is reset every Sunday night. Then it is empty.\n",
    )
    write(folder / "vague.md", memory_text("Vague", "Notes", "Kestrel builds need the licence server.\n"))
    write(
        folder / "untyped.md",
        "---\nname: u\ndescription: Answers should be short and plain\nextra: 1\n---\n\nShort answers.\n",
    )
    assert fates(cli, str(folder), "--apply") == {"odd-one": "new", "vague": "new", "untyped": "new"}
    rows = {row["name"]: row for row in cli("list", "--json").json}
    assert rows["odd-one"]["title"] == "Nightly reset"
    assert rows["odd-one"]["description"] == "The staging database is reset every Sunday night."
    assert rows["vague"]["description"] == "Notes: Kestrel builds need the licence server."
    assert rows["untyped"]["type"] == "project" and "\nextra: 1\n" in read_tree(cli.memory)["untyped.md"].decode()


def test_links_are_not_followed_and_what_a_team_shares_is_left_out_unless_asked_for(cli: Cli, source: Path) -> None:
    (source / "leak.md").symlink_to("/etc/hostname")
    write(source / "team" / "tracker.md", memory_text("Tracker"))
    told = {row["source"]: row for row in cli("import", str(source), "--json").json["steps"]}
    assert told["leak.md"]["why"] == "it is a link"
    assert told["team/tracker.md"]["fate"] == "refused" and "--with-team" in told["team/tracker.md"]["why"]
    cli("import", str(source), "--apply", "--with-team")
    assert cli("list", "--scope", "team", "--json").json[0]["name"] == "team/tracker"
    assert "tracker.md" in (cli.memory / "team" / "MEMORY.md").read_text(encoding="utf-8")


def test_user_memory_takes_only_what_belongs_there(cli: Cli, source: Path) -> None:
    write(source / "me.md", memory_text("Me", "Writes Rust every day at work", "Rust.\n").replace("reference", "user"))
    told = cli("import", str(source), "--scope", "user", "--apply", "--json").json
    assert {row["name"] for row in told["steps"] if row["fate"] == "new"} == {"me"}
    assert told["counts"]["refused"] == 2 and told["scope"] == "user"
    assert cli("undo", "--scope", "user").code == 0


def test_since_leaves_out_what_is_older(cli: Cli, source: Path) -> None:
    assert fates(cli, str(source), "--since", "2025-12-31") == {"sub/deploys": "new"}
    assert "invalid date" in cli("import", str(source), "--since", "soon").refusal


def test_a_project_means_the_memory_that_is_kept_for_it(cli: Cli) -> None:
    other = cli.home / "work" / "old"
    (other / ".git").mkdir(parents=True)
    cli("save", "--type", "user", "--name", "n", "--description", "Writes Rust every day", "--body", "x", cwd=other)
    assert fates(cli, str(other)) == {"n": "new"}


def test_many_memories_come_in_one_change_in_their_own_order(cli: Cli, tmp_path: Path) -> None:
    folder, names = tmp_path / "m", [f"fact-{number:03}" for number in range(110)]
    for name in names:
        write(folder / f"{name}.md", memory_text(name, f"What is known about the {name} machine", f"It is {name}.\n"))
    cli.save("mine", "Text.")
    done = cli("import", str(folder), "--apply", "--json").json
    assert done["counts"]["new"] == 110
    lines = (cli.memory / "MEMORY.md").read_text(encoding="utf-8").splitlines()
    assert [line.split("](")[1].split(".md")[0] for line in lines] == ["mine", *names]
    assert cli("undo").code == 0 and sorted(read_tree(cli.memory)) == ["MEMORY.md", "mine.md"]


def test_what_somebody_saved_meanwhile_is_kept(cli: Cli, source: Path) -> None:
    """The plan is made before the lock is taken; a name that is taken by then is left out, and nothing is lost."""
    cli.save("mine", "Text.")
    with FileStore(cli.memory) as store:
        found = read_directory(read_files(source))
        plan = plan_import(store, found, now=store.clock(), origin=Origin("import"))
        write(cli.memory / "billing.md", "somebody was quicker\n")
        done = apply_import(store, plan, origin=Origin("import"))
    assert done.dropped == ("billing",)
    assert (cli.memory / "billing.md").read_text(encoding="utf-8") == "somebody was quicker\n"
    assert (cli.memory / "sub" / "deploys.md").read_text(encoding="utf-8") == DEPLOYS


def test_where_nothing_is_found_it_says_so(cli: Cli, tmp_path: Path) -> None:
    assert "nothing found at" in cli("import", str(tmp_path / "nowhere")).refusal
    for text in ("just a line\n", '{"type": "entity", "name": "default_user", "observations": ["Likes tea"]}\n'):
        odd = write(tmp_path / "odd.txt", text)
        assert "--from" in cli("import", str(odd)).refusal
    (tmp_path / "empty").mkdir()
    assert "--from" in cli("import", str(tmp_path / "empty")).refusal


def test_a_fifo_in_a_directory_keeps_nobody_waiting(cli: Cli, source: Path) -> None:
    os.mkfifo(source / "pipe.md")
    assert fates(cli, str(source))["pipe.md"] == "refused"


def test_a_secret_in_an_index_line_or_a_file_name_is_kept_nowhere(cli: Cli, tmp_path: Path) -> None:
    body = "The staging database is reset every Sunday night."
    write(cli.memory / "staging.md", memory_text("Staging", "When the staging database is reset", body))
    folder = tmp_path / "m"
    same = "The staging database is reset every Monday night.\n"
    write(folder / "reset.md", memory_text("Reset", "Reset of the staging database each week", same))
    write(folder / f"{TOKEN}.md", memory_text("Robot", f"The robot logs in with {TOKEN}", "See there.\n"))
    write(folder / "MEMORY.md", f"- [Reset](reset.md) — the login of the robot is {TOKEN}\n")
    told = cli("import", str(folder), "--apply")
    assert "new\treset" in told.out and "1 to review" in told.out
    kept = [path.read_bytes() for path in cli.memory.rglob("*") if path.is_file()]
    assert kept and not any(TOKEN.encode() in data for data in kept)
