"""`remember`: words in, a named and typed memory out."""

from clihelp import Cli


def test_the_type_the_scope_and_the_pin_can_be_given(cli: Cli) -> None:
    row = cli(
        "remember", "I am new to React but know Go well", "--type", "user", "--scope", "user", "--pin", "--json"
    ).json
    assert (row["type"], row["scope"], row["pinned"], row["action"]) == ("user", "user", True, "created")


def test_a_contradiction_is_pointed_out_with_the_command_and_both_are_kept(cli: Cli) -> None:
    first = cli("remember", "team A owns billing", "--json").json["name"]
    kept = cli("remember", "team B owns billing")
    assert kept.lines[0].startswith("saved ")
    assert (
        f'"team A owns billing" is there since 2026-03-05 ({first})' in kept.err
        and f"memdir forget {first}" in kept.err
    )
    assert cli("forget", first).code == 0 and len(list(cli.memory.glob("*.md"))) == 2


def test_words_that_ask_to_forget_forget_the_one_memory_that_is_meant(cli: Cli) -> None:
    assert "memdir forget NAME" in cli("remember", "forget that I use vim").refusal
    cli("remember", "the deploy day is Tuesday")
    cli("remember", "the staging db is reset every Sunday")
    done = cli("remember", "forget the deploy day")
    assert done.lines[0] == "forgotten deploy-day-tuesday (project, private)"
    assert "brings it back" in done.lines[2] and cli("undo").code == 0
    row = cli("remember", "Forget about the deploy day.", "--json").json
    assert (row["name"], row["action"]) == ("deploy-day-tuesday", "forgotten")
    assert [at["name"] for at in cli("list", "--json").json] == ["staging-db-reset-sunday"]


def test_part_of_a_memory_is_forgotten_and_shown_as_a_difference(cli: Cli) -> None:
    body = "Backups of staging are kept for a week. The password manager is Vaultwarden."
    cli("save", "--type", "project", "--name", "staging", "--description", "Backups of staging, a week", "--body", body)
    done = cli("remember", "forget the password manager")
    assert done.lines[0].startswith("updated staging") and "Vaultwarden" in done.out
    assert "Vaultwarden" not in (cli.memory / "staging.md").read_text(encoding="utf-8")


def test_a_password_is_warned_of_and_stands_in_the_body_alone(cli: Cli) -> None:
    kept = cli("remember", "the admin password is hunter2000", "--json")
    row = kept.json
    assert "secret" in kept.err and "told-password" in row["warnings"][0] and "hunter2000" not in kept.out + kept.err
    assert "its file has it" in kept.err and "masked" not in row["name"] + row["title"], "the file contains it"
    assert "hunter2000" in cli("read", row["name"]).out and "hunter2000" not in cli("list").out
    again = cli("remember", "the admin password is hunter3000 now")
    assert again.code == 0 and "hunter2000" not in again.out + again.err and "hunter3000" not in again.out + again.err
    assert "opens something" in cli("remember", "the door code is 48151623").err


def test_a_password_is_refused_in_what_a_team_shares(cli: Cli) -> None:
    refusal = cli("remember", "--scope", "team", "the admin password is hunter2000").refusal
    assert "told-password" in refusal and "hunter2000" not in refusal


def test_what_the_project_already_says_is_warned_of(cli: Cli) -> None:
    (cli.project / "CLAUDE.md").write_text("Run the whole suite before each commit.\n", encoding="utf-8")
    kept = cli("remember", "Run the whole suite before each commit.")
    assert kept.code == 0 and "is already in an instruction file (CLAUDE.md)" in kept.err


def test_standard_input_is_read(cli: Cli) -> None:
    kept = cli.real("remember", "-", "--json", given=b"von nun an Commit-Messages auf Englisch\n")
    assert kept.json["type"] == "feedback" and kept.json["title"] == "Commit-Messages auf Englisch"
