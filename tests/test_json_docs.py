"""Every `--json` prints what docs/schemas.json says, no field more and none less."""

import json
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator, ValidationError

from cli_reference import list_commands
from clihelp import Cli, memory_text
from homes import git, write
from json_schemas import COMMANDS, DOCS, SCHEMA, check
from memdir.conversation.instructions import InstructionMode
from memdir.conversation.notes import NotesSkip
from memdir.conversation.project_files import InstructionLayer, NotLoadedReason
from memdir.dream import DreamSkip
from memdir.extraction import ExtractSkip
from memdir.format.fields import LISTED_FIELDS
from memdir.frozen import replace
from memdir.interfaces.doctor import LEVELS
from memdir.interfaces.imports import ImportAction, ImportFormat
from memdir.recall.pipeline import RecallSkip
from memdir.records import Forget, InboxItem, InboxKind, InboxState, Kind, Scope
from memdir.store.files import FileStore
from memdir.store.inbox import render_edits
from memdir.store.open import AgentScope
from memdir.verify.records import ClaimKind, ClaimStatus, VerifyState
from note_taker import serve_note_taker
from tables import read_rows, table
from teams import make_remote

ROWS = read_rows("json_docs")

# Fields that hold a value of an enumeration, and fields whose keys are all of its values.
ENUMS: dict[type[Enum], str] = {
    Scope: "CandidateRow.scope DecisionRow.scope ForgotRow.scope InboxRow.scope InboxItemRow.scope LoadedIndexRow.scope "
    "MemoryRow.scope OldPlaceRow.scope PromptIndexRow.scope RecalledRow.scope ScopeRow.scope SearchHitRow.scope "
    "VerdictRow.scope WhyRow.scope",
    Kind: "ImportStepRow.type MemoryRow.type RecalledRow.type",
    AgentScope: "AgentListRow.scope AgentMemoryRow.scope",
    ClaimKind: "ClaimRow.kind",
    ClaimStatus: "ClaimRow.status",
    DreamSkip: "DreamedRow.skipped DreamStatusRow.reason",
    ExtractSkip: "LearnedRow.skipped",
    ImportAction: "ImportStepRow.fate ImportRow.counts",
    ImportFormat: "ImportRow.format",
    InboxKind: "DecisionRow.kind InboxRow.kind InboxItemRow.kind ProposalRow.kind",
    InboxState: "InboxRow.state InboxItemRow.state",
    InstructionLayer: "ContextFileRow.layer PendingRow.layer",
    InstructionMode: "PromptRow.mode",
    NotLoadedReason: "RefusedRow.reason",
    NotesSkip: "NotesUpdateRow.skipped",
    RecallSkip: "RecallRow.skipped",
    VerifyState: "ScopeRow.verdicts VerdictRow.state VerifyRow.counts",
}


def test_enumerations_are_those_of_the_code() -> None:
    wanted = {path: [at.value for at in kind] for kind, paths in ENUMS.items() for path in paths.split()}
    wanted |= {"FindingRow.kind": [*LEVELS], "FindingsRow.counts": [*LEVELS]}
    wrong = []
    for path, values in wanted.items():
        row, _, field = path.partition(".")
        schema = SCHEMA["$defs"][row]["properties"][field]
        listed = schema.get("propertyNames", schema)["enum"]
        if [at for at in listed if at is not None] != values:
            wrong.append(f"{path}: {values}")
    assert wrong == []


def test_the_file_is_a_schema_that_names_every_command_with_json_and_no_other() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    with_json = [path for path, command in list_commands() if any("--json" in at.opts for at in command.params)]
    assert sorted(COMMANDS) == sorted(with_json)


def test_the_optional_fields_of_a_row_are_those_of_the_table() -> None:
    assert SCHEMA["$defs"]["FieldsRow"]["properties"] == LISTED_FIELDS, "docs/schemas.json: FieldsRow"
    assert SCHEMA["$defs"]["FieldsRow"]["required"] == [*LISTED_FIELDS], "docs/schemas.json: FieldsRow"


def test_the_page_lists_every_command_and_its_row() -> None:
    page = (DOCS / "json.md").read_text(encoding="utf-8")
    rows = {path: (schema.get("items") or schema)["$ref"].rpartition("/")[2] for path, schema in COMMANDS.items()}
    assert [path for path, row in rows.items() if f"`{path}`" not in page or f"`{row}`" not in page] == []


def test_a_wrong_field_would_be_seen(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    row = cli.save("x", "Text.", "--json").json
    check("save", row)
    for wrong in (
        {**row, "change": "1"},
        {**row, "more": 1},
        {key: value for key, value in row.items() if key != "title"},
    ):
        with pytest.raises(ValidationError):
            check("save", wrong)


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """A project with a little of everything."""
    cli = Cli(tmp_path)
    cli.save("a", "One.")
    cli("edit", "a", "--body", "Two.")
    cli.save("ours", "Text.", "--scope", "user")
    cli.file("odd", "no frontmatter, [[nowhere]]\n")
    cli.file("team/t", memory_text("Ours"))
    index = cli.memory / "MEMORY.md"
    index.write_text(index.read_text(encoding="utf-8") + "- [Gone](gone.md)\n", encoding="utf-8")
    transcript = index.parent.parent / "session.jsonl"
    said = {"type": "user", "message": {"content": "no summary please"}, "timestamp": "2026-01-02T03:04:05Z"}
    transcript.write_text(f"{json.dumps(said)}\n{json.dumps(said | {'timestamp': 0})}\n", encoding="utf-8")
    talk = [{"role": "user", "content": "remember that we deploy on Tuesdays only"}]
    (cli.project / "talk.json").write_text(json.dumps(talk), encoding="utf-8")
    write(
        cli.memory.parent / "n" / "session-memory" / "summary.md", "# Current State\n_Where it stands_\n\nHalf done.\n"
    )
    cli("recall", "no summary in a reply")
    cli("log", "yesterday", MEMDIR_NOW="2026-03-04T12:00:00")
    elsewhere = cli.project / "elsewhere"
    elsewhere.mkdir()
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    for name, body in (("fresh", "Fresh.\n"), ("secret", f"The token is {token}.\n"), ("bell", "\x07\n")):
        (elsewhere / f"{name}.md").write_text(memory_text(name, body=body), encoding="utf-8")
    waiting = InboxItem(
        InboxKind.MEMORY, "T", "W", datetime(2026, 3, 4, tzinfo=UTC), payload={"edits": render_edits([Forget("a")])}
    )
    asked = replace(waiting, kind=InboxKind.APPROVAL, payload={"include": "/x", "by": "CLAUDE.md"})
    with FileStore(cli.memory) as store:
        store.inbox_add([waiting, asked])
    return cli


READS: list[list[str]] = ROWS["READS"]
CHANGES: list[list[str]] = ROWS["CHANGES"]


def name_command(argv: list[str]) -> str:
    return " ".join(argv[: 2 if argv[0] in ("config", "inbox", "notes", "log", "agent", "team", "sync", "rule") else 1])


@table("argv", READS)
def test_what_a_command_that_changes_nothing_prints_is_what_the_file_says(cli: Cli, argv: list[str]) -> None:
    told = cli(*argv, "--json")
    assert told.code == (1 if argv[0] == "doctor" else 0), told.err
    check(name_command(argv), told.json)


@pytest.mark.parametrize("argv", CHANGES, ids=" ".join)
def test_what_a_command_prints_is_what_the_file_says(cli: Cli, argv: list[str]) -> None:
    command = name_command(argv)
    with serve_note_taker() as variables:
        cli.variables |= variables if command == "notes update" else {}
        told = cli(*argv, "--json")
    assert told.code == (1 if argv[0] == "doctor" else 0), told.err
    check(command, told.json)


def test_every_command_is_run_here() -> None:
    run = {name_command(argv) for argv in READS + CHANGES} | {
        "chat",
        "relink",
        "rule override",  # in test_cli_rule.py
        *(f"team {verb}" for verb in TEAM_VERBS),
    }
    run |= {f"sync {verb}" for verb in SYNC_VERBS} | {f"serve {verb}" for verb in SERVE_VERBS}
    assert run == set(COMMANDS)


SERVE_VERBS = (
    "run",
    "token",
    "tenant list",
    "tenant export",
    "tenant import",
    "tenant delete",
)  # in test_server_operations.py
SYNC_VERBS = ("init", "now", "status", "link", "stop")
TEAM_VERBS = ("init", "join", "sync", "status", "log", "revert", "leave")


def test_team_in_all_its_forms(tmp_path: Path) -> None:
    ada, bob = (Cli(tmp_path / name, MEMDIR_AUTHOR=f"{name} <{name}@example.org>") for name in ("ada", "bob"))
    remote = tmp_path / "remote.git"
    remote.mkdir()
    git(remote, "init", "-q", "--bare")
    check("team status", ada("team", "status", "--json").json)
    check("team leave", ada("team", "leave", "--json").json)
    ada.file("team/t", memory_text("Ours"))
    ada.file("team/me", memory_text("Me").replace("type: reference", "type: user"))
    check("team init", ada("team", "init", "--remote", str(remote), "--json").json)
    check("team join", bob("team", "join", "--remote", str(remote), "--review", "--json").json)
    check("team status", bob("team", "status", "--json").json)
    for argv in (["sync"], ["log"], ["log", "--author", "ada"], ["status"], ["revert", "--author", "ada"], ["leave"]):
        told = ada("team", *argv, "--json")
        assert told.code == 0, told.err
        check(f"team {argv[0]}", told.json)


def test_sync_in_all_its_forms(tmp_path: Path) -> None:
    cli, remote = Cli(tmp_path), make_remote(tmp_path)
    check("sync status", cli("sync", "status", "--json").json)
    cli.file("t", memory_text("Ours"))
    runs = (["init", str(remote)], ["status"], ["link", "app"], ["now"], ["status"], ["stop"], ["stop"])
    for argv in runs:
        told = cli("sync", *argv, "--json")
        assert told.code == 0, told.err
        check(f"sync {argv[0]}", told.json)


def test_relink_in_all_its_forms(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    old, new = cli.home / "work" / "old", cli.home / "work" / "new"
    old.mkdir()
    git(old, "init", "-q")
    git(old, "commit", "-q", "--allow-empty", "-m", "first")
    cli("save", "--type", "user", "--name", "n", "--description", "Writes Rust every day", "--body", "x", cwd=old)
    old.rename(new)
    for more in ([], ["--yes"]):
        told = cli("relink", "--json", *more, cwd=new)
        assert told.code == 0
        check("relink", told.json)


def test_empty_places_print_what_the_file_says(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    for command in ROWS["empty_places_print_what_the_file_says"]:
        argv = command.split()
        check(argv[0], cli(*argv, "--json").json)
        check(argv[0], cli(*argv, "--json", MEMDIR_USER_MEMORY="0", CLAUDE_CODE_SIMPLE="1").json)
