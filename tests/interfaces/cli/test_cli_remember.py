"""`remember`: words in, a named and typed memory out."""

from pathlib import Path

import pytest

from clihelp import Cli
from memdir.format import frontmatter
from tables import table


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def test_words_become_a_named_typed_and_described_memory(cli: Cli) -> None:
    kept = cli("remember", "the", "staging", "db", "is", "reset", "every", "Sunday")
    name = "staging-db-reset-sunday"
    assert kept.lines[:2] == [f"saved {name} (project, private)", f"  {cli.memory / name}.md"]
    fields = frontmatter.parse_fields((cli.memory / f"{name}.md").read_text(encoding="utf-8"))
    assert fields.description == "the staging db is reset every Sunday"
    assert f"({name}.md)" in (cli.memory / "MEMORY.md").read_text(encoding="utf-8")


def test_a_cue_is_left_out_and_the_rest_is_kept_as_said(cli: Cli) -> None:
    row = cli("remember", "please remember that we squash merge, because bisect needs it", "--json").json
    text = Path(row["path"]).read_text(encoding="utf-8")
    assert row["type"] == "feedback"
    assert text.endswith("\nwe squash merge, because bisect needs it\n") and "please" not in text


def test_dates_become_absolute_and_are_told(cli: Cli) -> None:
    kept = cli("remember", "the merge freeze starts tomorrow")
    assert kept.lines[2:] == ["  the merge freeze starts 2026-03-06", "  tomorrow -> 2026-03-06"]


def test_the_type_the_scope_and_the_pin_can_be_given(cli: Cli) -> None:
    row = cli(
        "remember", "I am new to React but know Go well", "--type", "user", "--scope", "user", "--pin", "--json"
    ).json
    assert (row["type"], row["scope"], row["pinned"], row["action"]) == ("user", "user", True, "created")


def test_the_same_again_changes_nothing(cli: Cli) -> None:
    cli("remember", "the demo account must never be deleted")
    again = cli("remember", "The demo account must never be deleted.", "--json").json
    assert (again["action"], again["change"]) == ("unchanged", None)
    assert cli("remember", "the demo account must never be deleted").lines[0].startswith("nothing new, already in ")


def test_a_reason_that_comes_later_is_added(cli: Cli) -> None:
    name = cli("remember", "Deploys on Tuesdays.", "--json").json["name"]
    said = "we deploy on Tuesdays only, because support is staffed then"
    row = cli("remember", said, "--json").json
    assert (row["action"], row["name"]) == ("updated", name)
    assert said in (cli.memory / f"{name}.md").read_text(encoding="utf-8")


def test_a_contradiction_is_pointed_out_with_the_command_and_both_are_kept(cli: Cli) -> None:
    first = cli("remember", "team A owns billing", "--json").json["name"]
    kept = cli("remember", "team B owns billing")
    assert kept.lines[0].startswith("saved ")
    assert (
        f'"team A owns billing" is there since 2026-03-05 ({first})' in kept.err
        and f"memdir forget {first}" in kept.err
    )
    assert cli("forget", first).code == 0 and len(list(cli.memory.glob("*.md"))) == 2


def test_a_correction_replaces_the_sentence_is_shown_and_undone(cli: Cli) -> None:
    name = cli("remember", "the deploy day is Tuesday", "--json").json["name"]
    merged = cli("remember", "no, the deploy day is Friday")
    assert merged.lines[0] == f"updated {name} (project, private)"
    assert "-the deploy day is Tuesday" in merged.lines and "+the deploy day is Friday" in merged.lines
    assert cli("undo").code == 0
    assert "Tuesday" in (cli.memory / f"{name}.md").read_text(encoding="utf-8")


def test_nobody_is_told_to_add_a_why(cli: Cli) -> None:
    assert cli("remember", "no emoji in commit messages").err == ""


def test_what_is_not_to_be_kept_is_refused_with_a_question(cli: Cli) -> None:
    for text in ("the list of open pull requests: #1, #2 and #3", "that I am terrible at writing tests"):
        assert "what was surprising about it?" in cli("remember", text).refusal
    assert not cli.memory.exists() or not list(cli.memory.glob("*.md"))


def test_a_name_of_its_own_is_not_merged_and_not_written_over(cli: Cli) -> None:
    cli("remember", "the deploy day is Tuesday")
    assert cli("remember", "the deploy day is Friday", "--name", "other", "--json").json["name"] == "other"
    assert "memdir save --replace" in cli("remember", "the deploy day is Monday", "--name", "other").refusal


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


@table(
    "kept text",
    [
        ("der Deploy-Tag ist Dienstag", "vergiss den Deploy-Tag"),
        ("le jour de déploiement est mardi", "oublie le jour de déploiement"),
        ("el día de despliegue es martes", "olvida el día de despliegue"),
        ("デプロイの日は火曜日です", "デプロイの日のことは忘れて"),
        ("部署日是星期二", "忘掉部署日"),
    ],
)
def test_forgetting_is_understood_in_each_language(cli: Cli, kept: str, text: str) -> None:
    cli("remember", kept)
    assert cli("remember", text, "--json").json["action"] == "forgotten"


@table("text", ["don't forget the deploy day", "the forget gate of the LSTM has a bias of one"])
def test_words_that_only_sound_like_it_are_kept(cli: Cli, text: str) -> None:
    assert cli("remember", text, "--json").json["action"] == "created"


@pytest.mark.parametrize("text", ["ok", "it is important info", "???"])
def test_words_that_say_nothing_are_refused(cli: Cli, text: str) -> None:
    assert "too vague to recall" in cli("remember", text).refusal


def test_a_password_is_warned_of_and_stands_in_the_body_alone(cli: Cli) -> None:
    kept = cli("remember", "the admin password is hunter2000", "--json")
    row = kept.json
    assert "secret" in kept.err and "told-password" in row["warnings"][0] and "hunter2000" not in kept.out + kept.err
    assert "the file contains it" in kept.err, "what is masked here stands in the file"
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


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("I work in Lisbon and start late", "user"),
        ("no emoji in commit messages", "feedback"),
        ("pipeline bugs are tracked in Linear, project INGEST", "reference"),
        ("the customer runs Windows 10 until 2027", "project"),
        ("ich wohne in Wien und arbeite vormittags", "user"),
        ("提交信息一律用英文", "feedback"),
    ],
)
def test_the_type_is_guessed_from_what_is_said(cli: Cli, text: str, kind: str) -> None:
    assert cli("remember", text, "--json").json["type"] == kind
