"""`memdir recall` and `memdir why`: what fits, why, and when nothing should."""

import json
import os
import random
import re
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


def test_a_person_is_shown_name_age_description_and_what_a_conversation_would_be_told(cli: Cli) -> None:
    cli.file("old-freeze", memory_text("Freeze", "Merge freeze of the mobile release", "No merges.\n"))
    os.utime(cli.memory / "old-freeze.md", (1_700_000_000, 1_700_000_000))
    told = cli("recall", "is there a merge freeze for mobile?", "--limit", "1")
    assert told.code == 0
    assert re.match(r"old-freeze  reference · private · \d+ days ago", told.lines[0])
    assert told.lines[1] == "Merge freeze of the mobile release"
    assert "  No merges." in told.lines and "days ago and describes that moment" in told.out


@pytest.mark.parametrize(
    ("query", "variables", "reason"),
    [
        (DEPLOY, {"MEMDIR_RECALL": "off"}, "off"),
        (DEPLOY, {"CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1"}, "off"),
        (DEPLOY, {"MEMDIR_PAUSED": "1"}, "paused"),
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
    heavy = {"click", "rich", "yaml", "subprocess", "difflib", "tempfile", "hashlib", "dataclasses", "uuid"}
    heavy |= {"inspect"} if sys.version_info < (3, 12) else set()  # later ones load it for protocols
    assert heavy & loaded == set()
    # no language file is read for a prompt that does not speak of memory
    assert {name for name in loaded if name.startswith("memdir.language.")} <= {
        "memdir.language.requests",
        "memdir.language",
    }
    assert "tomllib" not in loaded and "memdir.interfaces.doctor" not in loaded
