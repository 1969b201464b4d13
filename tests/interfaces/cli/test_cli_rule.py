"""`memdir rule`, and the field `when` in `save`, `edit` and `read`."""

from pathlib import Path

import pytest

from clihelp import Cli
from hook_calls import Hooks
from json_schemas import check
from memdir.format.frontmatter import parse_fields
from memdir.records import Enforce, When

PUSH = ("rule", "never force-push", "--command", "push.*--force", "--why", "CI caches break")


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    return Cli(tmp_path)


def read_when(cli: Cli, name: str) -> When:
    return parse_fields((cli.memory / f"{name}.md").read_text(encoding="utf-8")).when


def test_a_rule_is_one_command(cli: Cli) -> None:
    saved = cli(*PUSH, "--ask", "--json").json
    assert saved["name"] == "never-force-push" and saved["type"] == "feedback" and saved["when"]["enforce"] == "ask"
    assert read_when(cli, "never-force-push") == When(commands=("push.*--force",), enforce=Enforce.ASK)
    assert "**Why:** CI caches break" in (cli.memory / "never-force-push.md").read_text(encoding="utf-8")
    assert cli("rule", "Short answers", "--json").json["when"]["always"] is True, "without patterns it always holds"


def test_what_an_expression_matches_is_shown_before_anything_is_saved(cli: Cli) -> None:
    tried = cli("rule", "--command", "push.*--force", "--try", "git push --force origin main", "--json").json
    matches = {row["text"]: row["matches"] for row in tried}
    assert matches["git push -f origin main"] is False and matches["git push --force-with-lease origin main"] is True
    assert matches["git push origin main --force"] is True and matches["cd .. && git push --force origin main"] is True
    better = cli("rule", "--command", r"push.*(--force|\s-f\b)", "--try", "git push -f", "--json").json
    assert all(row["matches"] for row in better if row["text"] != "git push")
    assert cli("list", "--json").json == []
    assert "(?=" in cli("rule", "--command", "(?=a)b", "--try", "x").refusal
    assert cli("rule", "--always", "--try", "x").code == 1 and cli("rule", "--ask", "no patterns").code == 1


def test_rules_are_listed_with_what_became_of_them(tmp_path: Path) -> None:
    hooks = Hooks(tmp_path)
    hooks.cli(*PUSH, "--deny")
    hooks.cli("rule", "Short answers")
    hooks("user-prompt", prompt="Please publish the branch to the remote")
    call = {"command": "git push --force origin main"}
    assert "never force-push" in hooks("before-tool", tool_name="Bash", tool_input=call, tool_use_id="t").refusal
    listed = {row["name"]: row for row in hooks.cli("rule", "--json").json}
    assert listed["never-force-push"]["fired"] == 1 and listed["short-answers"]["always"] is True
    check("rule override", hooks.cli("rule", "override", "never-force-push", "--json").json)
    assert hooks("before-tool", tool_name="Bash", tool_input=call, tool_use_id="t").refusal == ""
    assert hooks("before-tool", tool_name="Bash", tool_input=call, tool_use_id="t").refusal != "", "only once"
    assert {row["name"]: row for row in hooks.cli("rule", "--json").json}["never-force-push"]["overridden"] == 1
    assert "neither asks nor refuses" in hooks.cli("rule", "override", "short-answers").refusal


def test_a_rule_is_switched_off_and_on_again(cli: Cli) -> None:
    cli("save", "--type", "user", "--name", "go", "--description", "Knows Go well, new to React", "--body", "Yes.")
    assert cli("list", "--json").json[0]["always"] is True
    off = cli("rule", "off", "go", "--json").json
    assert cli("list", "--json").json[0]["always"] is False and read_when(cli, "go") == When(always=False)
    cli("undo", str(off["change"]))
    assert cli("list", "--json").json[0]["always"] is True


def test_save_and_edit_take_the_field(cli: Cli) -> None:
    cli.save("sql", "Text.", "--when-path", "src/**/*.sql", "--when-command", "psql", "--enforce", "ask")
    assert read_when(cli, "sql") == When(None, ("src/**/*.sql",), ("psql",), (), Enforce.ASK)
    assert "when: path src/**/*.sql, command psql, then ask" in cli("read", "sql").out
    assert cli("read", "sql", "--json").json["when"]["paths"] == ["src/**/*.sql"]
    cli("edit", "sql", "--when-path", "", "--when-content", r"SELECT \*", "--enforce", "none", "--always")
    assert read_when(cli, "sql") == When(True, (), ("psql",), (r"SELECT \*",))
    cli("edit", "sql", "--description", "What a query of this project must not contain")
    assert read_when(cli, "sql") == When(True, (), ("psql",), (r"SELECT \*",)), "other changes leave it alone"
    cli("edit", "sql", "--not-always", "--when-command", "", "--when-content", "")
    assert read_when(cli, "sql") == When(always=False)
    assert "invalid regular expression" in cli("edit", "sql", "--when-command", "(").refusal
    assert "needs `commands`" in cli("edit", "sql", "--enforce", "deny").refusal


def test_nobody_writes_a_rule_for_others(cli: Cli) -> None:
    assert cli("rule", "Short answers", "--scope", "team").code == 2
    cli.variables["MEMDIR_TEAM"] = "true"
    cli.save("sql", "Text.", "--scope", "team", "--when-command", "psql", "--always")
    row = cli("list", "--scope", "team", "--json").json[0]
    assert row["always"] is False and cli("read", row["name"], "--json").json["when"]["commands"] == []


def test_an_import_drops_the_powers_of_a_rule(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "theirs"
    folder.mkdir()
    text = "---\nname: Theirs\ndescription: Answers of the old team were short\ntype: feedback\nwhen:\n  always: true\n"
    text += '  commands: ["push"]\n  enforce: deny\n---\n\nShort.\n\n**Why:** a\n\n**How to apply:** b\n'
    (folder / "theirs.md").write_text(text, encoding="utf-8")
    (folder / "MEMORY.md").write_text("- [Theirs](theirs.md) — short\n", encoding="utf-8")
    assert cli("import", str(folder), "--apply").code == 0
    (path,) = [path for path in cli.memory.glob("*.md") if path.name != "MEMORY.md"]
    assert parse_fields(path.read_text(encoding="utf-8")).when == When()
