"""`list`, `read`, `show`."""

from pathlib import Path

from clihelp import Cli, memory_text
from memdir.format.fields import LISTED_FIELDS


def names(cli: Cli, *argv: str) -> list[str]:
    return [row["name"] for row in cli("list", "--json", *argv).json]


def test_a_file_without_a_type_is_listed_as_such(cli: Cli) -> None:
    cli.file("odd", "just text\n")
    cli.file("team/tracker", memory_text("Tracker"))
    rows = {row["name"]: row for row in cli("list", "--json").json}
    assert rows["odd"]["type"] is None and rows["team/tracker"]["scope"] == "team"
    assert names(cli, "--type", "none") == ["odd"] and names(cli, "--scope", "team") == ["team/tracker"]


def test_the_order_can_be_chosen(cli: Cli) -> None:
    for name, kind in (("b", "user"), ("a", "reference"), ("c", "feedback")):
        cli(
            "save",
            "--type",
            kind,
            "--name",
            name,
            "--description",
            f"Deploys run from branch {name}1 weekly",
            "--body",
            "x",
        )
    assert names(cli, "--type", "user") == ["b"]


def test_in_a_pipe_each_memory_is_one_line_with_a_cell_for_each_listed_field(cli: Cli) -> None:
    cli.save("long", "Text.", "--pin")
    cli.file("odd", memory_text("Odd", '"a\\tb\\nc ' + "word " * 100 + '"'))
    lines = cli("list").lines
    assert all(line.count("\t") == 5 + len(LISTED_FIELDS) for line in lines) and len(lines) == 2
    assert any(line.split("\t")[6].endswith("word word") for line in lines), "nothing is cut in a pipe"
    assert any(line.split("\t")[4] == "pinned" for line in lines)


def test_a_time_beyond_the_calendar_is_listed(cli: Cli) -> None:
    text = "---\nname: x\ndescription: d\nmetadata:\n  type: user\n  modified: 0001-01-01T00:00:00+14:00\n---\n\nx\n"
    cli.file("old", text)
    assert cli("list", "--json").json[0]["modified"].startswith("0001-01-01")
    assert cli("--color", "always", "list").code == 0


def test_the_projects_own_memory_wins_and_scope_reaches_the_other(cli: Cli) -> None:
    cli.save("same", "Project text.")
    cli.save("same", "User text.", "--scope", "user")
    assert "Project text." in cli("read", "same").out
    assert "User text." in cli("read", "same", "--scope", "user").out
    assert "User text." in cli("read", str(cli.home / ".claude" / "memory" / "same.md")).out
    assert len(cli("list", "--json").json) == 2


def test_a_broken_file_is_read_with_its_problem(cli: Cli) -> None:
    cli.file("broken", "---\nname: [unclosed\n---\n\nStill here.\n")
    told = cli("read", "broken")
    assert told.code == 0 and "problem: " in told.out and "Still here." in told.out


def test_a_link_or_a_fifo_is_not_read(cli: Cli, tmp_path: Path) -> None:
    cli.save()
    (tmp_path / "secret.md").write_text(memory_text("Secret"), encoding="utf-8")
    (cli.memory / "link.md").symlink_to(tmp_path / "secret.md")
    assert cli("read", "link").refusal and names(cli) == ["terse-replies"]


def test_an_index_over_the_limit_is_cut_with_the_warning(cli: Cli) -> None:
    for number in range(220):
        cli.file(f"m{number:03}", memory_text(f"M{number}"))
    cli.file("MEMORY", "".join(f"- [M{number}](m{number:03}.md) — hook\n" for number in range(220)))
    shown = cli("show", "--json").json["indexes"][0]
    assert (shown["lines"], shown["lines_total"], shown["over_lines"]) == (200, 220, True) and "limit 200" in shown[
        "warning"
    ]
    plain = cli("show", "--json", MEMDIR_INDEX_ORDER="file").json["indexes"][0]
    assert "(m199.md)" in plain["text"] and "(m200.md)" not in plain["text"]
    assert "limit 200" in cli("show").out


def test_show_says_when_memory_is_off(cli: Cli) -> None:
    told = cli("show", CLAUDE_CODE_SIMPLE="1")
    assert told.code == 0 and "memory is off (CLAUDE_CODE_SIMPLE)" in told.out
    assert cli("show", "--json", CLAUDE_CODE_SIMPLE="1").json == {
        "on": False,
        "rule": "CLAUDE_CODE_SIMPLE",
        "indexes": [],
    }
