"""`memdir recall` and `memdir why`: what fits, why, and when nothing should."""

import json
import os
import random
import re
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from clihelp import Cli, memory_text
from memdir.interfaces.cli.quick import RecallCall, parse_recall
from memdir.interfaces.cli.recall import recall_verb
from tables import table

DEPLOY = "how do we deploy the billing service?"
FIELDS = [
    "name",
    "path",
    "type",
    "scope",
    "description",
    "modified",
    "age",
    "since",
    "caveat",
    "score",
    "truncated",
    "author",
]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    cli = Cli(tmp_path)
    texts = {
        "deploy-steps": ("Deploying billing", "How the billing service is deployed to production", "Run make deploy."),
        "code-review": ("Reviews", "Who reviews database migrations", "Ask the platform group before merging.\n"),
        "lunch": ("Lunch", "Where the team eats on Fridays", "The noodle place behind the station.\n"),
    }
    for name, (title, description, body) in texts.items():
        cli.file(name, memory_text(title, description, body))
    return cli


def names(answer: Any) -> list[str]:
    return [memory["name"] for memory in answer["memories"]]


def test_the_memory_that_fits_comes_first_with_all_that_json_promises(cli: Cli) -> None:
    answer = cli("recall", DEPLOY, "--json").json
    assert list(answer) == ["query", "selector", "memories", "skipped", "elapsed_ms"]
    first = answer["memories"][0]
    assert list(first) == FIELDS
    assert (first["name"], first["type"], first["scope"]) == ("deploy-steps", "reference", "private")
    assert first["path"] == str(cli.memory / "deploy-steps.md") and first["truncated"] is False
    assert answer["query"] == DEPLOY and answer["skipped"] is None and answer["elapsed_ms"] > 0


def test_a_person_is_shown_name_age_description_and_what_a_conversation_would_be_told(cli: Cli) -> None:
    cli.file("old-freeze", memory_text("Freeze", "Merge freeze of the mobile release", "No merges.\n"))
    os.utime(cli.memory / "old-freeze.md", (1_700_000_000, 1_700_000_000))
    told = cli("recall", "is there a merge freeze for mobile?", "--limit", "1")
    assert told.code == 0
    assert re.match(r"old-freeze  reference · private · \d+ days ago", told.lines[0])
    assert told.lines[1] == "Merge freeze of the mobile release"
    assert "  No merges." in told.lines and "days ago and describes that moment" in told.out


def test_words_may_stand_without_quotes(cli: Cli) -> None:
    assert names(cli("recall", *DEPLOY.split(), "--json").json)[0] == "deploy-steps"


def test_nothing_fitting_is_said_and_is_no_failure(cli: Cli) -> None:
    told = cli("recall", "zzyzx qwerfl vrkkm")
    assert (told.code, told.out) == (0, "nothing here fits\n")
    assert cli("recall", "zzyzx qwerfl vrkkm", "--json").json["skipped"] == "nothing_fits"


@pytest.mark.parametrize(
    ("query", "variables", "reason"),
    [
        (DEPLOY, {"MEMDIR_RECALL": "off"}, "off"),
        (DEPLOY, {"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1"}, "off"),
        (DEPLOY, {"MEMDIR_PAUSED": "1"}, "paused"),
        ("deploy", {}, "one_word"),
        (f"Ignore your memory this time. {DEPLOY}", {}, "ignore_turn"),
    ],
)
def test_a_shut_gate_brings_nothing_and_says_which(
    tmp_path: Path, cli: Cli, query: str, variables: dict[str, str], reason: str
) -> None:
    here = Cli(tmp_path, **variables)
    answer = here("recall", query, "--json").json
    assert answer["memories"] == [] and answer["skipped"] == reason
    told = here("recall", query)
    assert told.code == 0 and told.out.startswith("nothing is recalled: ") and len(told.lines) == 1


def test_an_empty_place_says_so_and_nothing_is_made_there(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    assert cli("recall", DEPLOY, "--json").json["skipped"] == "empty"
    assert not (cli.home / ".claude").exists()


def test_a_conversation_is_told_everything_once(cli: Cli) -> None:
    assert "deploy-steps" in names(cli("recall", DEPLOY, "--session", "s1", "--json").json)
    again = cli("recall", DEPLOY, "--session", "s1", "--json").json
    assert "deploy-steps" not in names(again)
    assert "deploy-steps" in names(cli("recall", DEPLOY, "--session", "s2", "--json").json)
    assert "deploy-steps" in names(cli("recall", DEPLOY, "--json").json)


def test_the_limit_holds(cli: Cli) -> None:
    for number in range(12):
        cli.file(f"deploy-{number}", memory_text(f"Deploy {number}", f"Deploying service {number} to production"))
    for limit in (1, 7):
        assert len(names(cli("recall", DEPLOY, "--limit", str(limit), "--json").json)) == limit
    assert names(cli("recall", DEPLOY, "--json").json) == ["deploy-steps"], "without a limit only what surely helps"


def test_explain_shows_every_part_and_why_not(cli: Cli) -> None:
    cli("recall", DEPLOY, "--session", "s1", "--limit", "1")
    answer = cli("recall", DEPLOY, "--session", "s1", "--explain", "--json").json
    by_name = {at["name"]: at for at in answer["candidates"]}
    known = by_name["deploy-steps"]
    assert known["dropped"] == "the conversation has it already" and {"deploy", "bill"} <= set(known["words"])
    assert known["lexical"] > 0 and known["score"] == pytest.approx(known["lexical"] + known["semantic"], abs=0.001)
    fresh = cli("recall", DEPLOY, "--explain", "--json").json["candidates"]
    assert fresh[0]["name"] == "deploy-steps" and fresh[0]["dropped"] is None and fresh[0]["prior"] > 0
    assert cli("recall", DEPLOY, "--explain").lines[0].split("\t")[0::6] == ["deploy-steps", "selected"]


def test_explaining_surfaces_nothing(cli: Cli) -> None:
    cli("recall", DEPLOY, "--explain", "--session", "s1")
    assert cli("why", "deploy-steps", "--json").json["count"] == 0
    assert "deploy-steps" in names(cli("recall", DEPLOY, "--session", "s1", "--json").json)


def test_without_meaning_the_words_still_find_it(cli: Cli) -> None:
    answer = cli("recall", DEPLOY, "--no-semantic", "--explain", "--json").json
    assert names(answer)[0] == "deploy-steps" and answer["selector"] != cli("recall", DEPLOY, "--json").json["selector"]
    assert all(at["semantic"] == 0 for at in answer["candidates"])


def test_a_users_memory_is_found_unless_the_projects_has_its_name(cli: Cli) -> None:
    made = ["--type", "user", "--scope", "user", "--body", "Knows billing."]
    for name in ("billing-expert", "Deploy-Steps"):
        cli("save", *made, "--name", name.lower(), "--description", "Deploys the billing service since years")
    answer = cli("recall", DEPLOY, "--explain", "--json").json
    assert ("billing-expert", "user") in {(at["name"], at["scope"]) for at in answer["memories"]}
    assert ("deploy-steps", "user") not in {(at["name"], at["scope"]) for at in answer["memories"]}
    hidden = [at for at in answer["candidates"] if at["scope"] == "user" and at["name"] == "deploy-steps"]
    assert [at["dropped"] for at in hidden] == ["the project has a memory of this name"]


def test_an_edited_file_is_found_by_its_new_words_and_a_deleted_one_not_at_all(cli: Cli) -> None:
    cli("recall", DEPLOY)
    cli.file("lunch", memory_text("Lunch", "The zeppelin museum opens at nine", "Bring tickets.\n"))
    assert names(cli("recall", "when does the zeppelin museum open?", "--json").json)[0] == "lunch"
    (cli.memory / "lunch.md").unlink()
    assert "lunch" not in names(cli("recall", "when does the zeppelin museum open?", "--json").json)


@pytest.mark.parametrize("damage", ["garbage", "torn", "gone", "foreign"])
def test_a_broken_index_is_made_anew_without_a_word(cli: Cli, damage: str) -> None:
    for number in range(60):
        cli.file(f"filler-{number}", memory_text(f"Filler {number}", f"Something about topic number {number}"))
    cli("recall", DEPLOY)
    index = cli.memory / ".memdir" / "index.db"
    if damage == "garbage":
        index.write_bytes(b"not a database" * 1000)
    elif damage == "torn":
        data = bytearray(index.read_bytes())
        data[4096:] = random.Random(7).randbytes(len(data) - 4096)
        index.write_bytes(bytes(data))
    elif damage == "gone":
        index.unlink()
    else:
        index.unlink()
        with sqlite3.connect(index) as other:
            other.execute("CREATE TABLE headers (other)")
        other.close()
    for _ in range(2):
        told = cli("recall", DEPLOY, "--json")
        assert (told.code, told.err) == (0, "") and names(told.json)[0] == "deploy-steps"


def test_a_directory_that_cannot_be_written_is_recalled_from(cli: Cli) -> None:
    memory = cli.memory
    memory.chmod(0o500)
    try:
        assert names(cli("recall", DEPLOY, "--json").json)[0] == "deploy-steps"
    finally:
        memory.chmod(0o700)


def test_a_name_that_is_no_utf_8_harms_nobody(cli: Cli) -> None:
    (Path(os.fsdecode(os.fsencode(cli.memory) + b"/bad-\xff.md"))).write_text(memory_text("Deploy"), encoding="utf-8")
    told = cli.real("recall", DEPLOY, "--json")
    assert told.code == 0 and names(told.json)[0] == "deploy-steps"


def test_nothing_in_a_memory_or_a_question_changes_on_the_terminal(cli: Cli) -> None:
    cli.file(
        "evil", memory_text("Evil", "Deploy \x1b[2J billing\u202e service", "Deploy billing \x1b]0;x\x07 service.\n")
    )
    for argv in (["recall", DEPLOY], ["recall", DEPLOY, "--explain"], ["search", "deploy billing"]):
        assert "\x1b" not in cli(*argv).out and "\u202e" not in cli(*argv).out
    told = cli.real("recall", b"how do we \xff deploy \x1b[2J billing?", "--json")
    assert told.code == 0 and b"\x1b" not in told.data


def test_why_tells_every_time_a_memory_came_up(cli: Cli) -> None:
    assert cli("why", "deploy-steps", "--json").json["surfaced"] == []
    cli("recall", DEPLOY, "--session", "s1", MEMDIR_NOW="2026-03-01T08:00:00+00:00")
    cli("recall", "deploying billing to production", MEMDIR_NOW="2026-03-02T08:00:00+00:00")
    answer = cli("why", "Deploying billing", "--json").json
    assert (answer["name"], answer["count"]) == ("deploy-steps", 2)
    assert [(at["query"], at["session"]) for at in answer["surfaced"]] == [
        ("deploying billing to production", ""),
        (DEPLOY, "s1"),
    ]
    assert answer["surfaced"][0]["at"].startswith("2026-03-02T08:00")
    assert cli("why", "deploy-steps", "--limit", "1").lines == [cli("why", "deploy-steps").lines[0]]


def test_why_remembers_what_is_gone_and_refuses_what_never_was(cli: Cli) -> None:
    cli("recall", DEPLOY)
    (cli.memory / "deploy-steps.md").unlink()
    assert cli("why", "deploy-steps", "--json").json["count"] == 1
    assert "no memory named" in cli("why", "nobody").refusal


def test_purging_takes_a_memory_out_of_why(cli: Cli) -> None:
    cli("recall", DEPLOY)
    cli("forget", "deploy-steps", "--purge", "--yes")
    assert "no memory named" in cli("why", "deploy-steps").refusal
    state = cli.memory / ".memdir"
    assert not [path.name for path in state.iterdir() if path.is_file() and b"deploy-steps" in path.read_bytes()]


def test_every_reason_to_skip_is_listed_by_why_and_status(cli: Cli) -> None:
    listed = [at["reason"] for at in cli("why", "lunch", "--json").json["skip_reasons"]]
    assert listed == [at["reason"] for at in cli("status", "--json").json["skip_reasons"]["recall"]]
    assert {"off", "one_word", "nothing_fits"} <= set(listed)


# --- two readers of one grammar ---------------------------------------------------------------------------------------

PIECES = [
    "--json", "--explain", "--no-semantic", "--session", "--session=s", "--session=", "--tools=a,b", "--tools",
    "--limit", "--limit=3", "--limit=0", "--limit=x", "--limit=007", "3", "word", "two words", "--", "-", "",
    "--help", "-h", "--lim", "--nothing", "--json=1", "-x", "é",
]  # fmt: skip


def ask_click(argv: list[str]) -> RecallCall | None:
    try:
        context = recall_verb.make_context("recall", list(argv), resilient_parsing=False)
    except (click.ClickException, click.exceptions.Exit):
        return None
    return RecallCall(**context.params)


def test_what_is_taken_apart_by_hand_is_what_click_would_have_made_of_it(capsys: pytest.CaptureFixture[str]) -> None:
    chance = random.Random(3)
    understood = 0
    for _ in range(3000):
        argv = chance.choices(PIECES, k=chance.randrange(0, 6))
        quick = parse_recall(["recall", *argv])
        if quick is not None:
            understood += 1
            assert quick == (None, ask_click(argv)), argv
    assert understood > 300
    for argv in (["--json", "a b"], ["a", "b", "--limit", "2", "--session", "x"], ["--", "--json"]):
        assert parse_recall(["recall", *argv]) is not None


@table(
    "argv",
    [[], ["list"], ["--dir"], ["--dir", "recall"], ["--color", "never", "recall", "a b"], ["recall"], ["recal", "a"]],
)
def test_any_other_call_is_left_to_click(argv: list[str]) -> None:
    assert parse_recall(argv) is None


def test_another_directory_may_be_given_before_the_verb(cli: Cli, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere" / "memory"
    other.mkdir(parents=True)
    (other / "x.md").write_text(memory_text("Deploy", "Deploying the billing service"), encoding="utf-8")
    for argv in (["--dir", str(other)], [f"--dir={other}"], ["--color", "never", "--dir", str(other)]):
        assert names(cli(*argv, "recall", DEPLOY, "--json").json) == ["x"]
    assert "is refused" in cli("--dir", "/", "recall", DEPLOY).refusal


def test_a_cold_recall_loads_no_more_than_it_needs(cli: Cli) -> None:
    code = (
        "import sys, json; from memdir.interfaces.cli import run\n"
        f"run(['recall', {DEPLOY!r}, '--json'])\n"
        "print(json.dumps(sorted(sys.modules)), file=sys.stderr)"
    )
    for _ in range(2):  # the first one builds the index
        ended = subprocess.run(
            [sys.executable, "-c", code], cwd=cli.project, env=cli.environ(), capture_output=True, check=True
        )
    loaded = set(json.loads(ended.stderr.splitlines()[-1]))
    heavy = {"click", "rich", "yaml", "subprocess", "difflib", "tempfile", "inspect", "hashlib", "dataclasses", "uuid"}
    assert heavy & loaded == set()
    # no language file is read for a prompt that does not speak of memory
    assert {name for name in loaded if name.startswith("memdir.language.")} <= {
        "memdir.language.requests",
        "memdir.language",
    }
    assert "tomllib" not in loaded and "memdir.interfaces.doctor" not in loaded
