"""`edit`, `pin`, `forget`."""

import shlex
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from clihelp import Cli, memory_text


def editor(tmp_path: Path, code: str) -> str:
    """An editor: a script that gets the file's path in `path` and its text in `text`."""
    script = tmp_path / "editor.py"
    head = "import sys\npath = sys.argv[-1]\ntext = open(path, encoding='utf-8', newline='').read()\n"
    tail = "\nopen(path, 'w', encoding='utf-8', newline='').write(text)\n"
    script.write_text(head + code + tail, encoding="utf-8")
    return f"{shlex.quote(sys.executable)} {shlex.quote(str(script))}"


def kept_files(cli: Cli) -> list[Path]:
    return [path for path in (cli.home / ".local").rglob("*") if path.is_file()]


def test_single_fields_are_changed_and_the_rest_stays(cli: Cli) -> None:
    head = "---\n# mine\nname: {}\ndescription: Where the bugs are tracked\ntype: reference\nextra: 1\n---\n\nBody.\n"
    cli.file("x", head.format("Old"))
    row = cli("edit", "x", "--title", "Bug tracker", "--json").json
    assert (row["title"], row["action"]) == ("Bug tracker", "changed") and isinstance(row["change"], int)
    assert (cli.memory / "x.md").read_text(encoding="utf-8") == head.format("Bug tracker")
    cli("edit", "x", "--body", "Other.", "--type", "feedback")
    assert "Other." in cli("read", "x").out and cli("read", "x", "--json").json["type"] == "feedback"


@pytest.mark.parametrize("option", [("--description", "note"), ("--description", ""), ("--title", ""), ("--body", "")])
def test_a_bad_edit_is_refused_and_changes_nothing(cli: Cli, option: tuple[str, str]) -> None:
    cli.save()
    before = (cli.memory / "terse-replies.md").read_bytes()
    assert cli("edit", "terse-replies", *option).refusal
    assert (cli.memory / "terse-replies.md").read_bytes() == before


def test_a_file_without_a_type_needs_one_first(cli: Cli) -> None:
    cli.file("odd", "just text\n")
    assert "--type" in cli("edit", "odd", "--description", "Some plain telling words").refusal
    assert cli("edit", "odd", "--type", "user", "--description", "Some plain telling words").code == 0


def test_the_editor_gets_the_file_and_what_it_leaves_is_saved(cli: Cli, tmp_path: Path) -> None:
    cli.save()
    told = cli("edit", "terse-replies", EDITOR=editor(tmp_path, "text = text.replace('Leave out', 'Skip')"))
    assert told.code == 0 and told.lines == ["changed terse-replies"]
    assert "Skip the closing summary." in cli("read", "terse-replies").out
    assert kept_files(cli) == [], "nothing is left behind"


def test_visual_comes_before_editor(cli: Cli, tmp_path: Path) -> None:
    cli.save()
    visual = editor(tmp_path, "text = text.replace('Leave out', 'Visual')")
    assert cli("edit", "terse-replies", VISUAL=visual, EDITOR="false").code == 0


def test_line_ends_and_odd_bytes_survive_an_editor(cli: Cli, tmp_path: Path) -> None:
    data = memory_text("Odd").replace("\n", "\r\n").encode() + b"\xff raw\r\n"
    cli.file("odd", data)
    change = shlex.quote(
        "import sys; p = sys.argv[-1]; d = open(p, 'rb').read(); open(p, 'wb').write(d.replace(b'Text', b'Word'))"
    )
    assert cli("edit", "odd", EDITOR=f"{shlex.quote(sys.executable)} -c {change}").code == 0
    assert (cli.memory / "odd.md").read_bytes() == data.replace(b"Text", b"Word")


def test_without_an_editor_it_says_what_to_do(cli: Cli) -> None:
    cli.save()
    told = cli("edit", "terse-replies").refusal
    assert "no editor is set" in told and "EDITOR" in told and "--body" in told


@pytest.mark.parametrize(
    ("command", "words"),
    [("false", "exited with status 1"), ("/no/such/editor", "failed"), ("'", "not a valid command")],
)
def test_a_failing_editor_changes_nothing_and_leaves_nothing(cli: Cli, command: str, words: str) -> None:
    cli.save()
    assert words in cli("edit", "terse-replies", EDITOR=command).refusal
    assert kept_files(cli) == [] and len(cli("history", "--json").json) == 1


def test_text_of_an_editor_that_failed_after_writing_is_kept(cli: Cli, tmp_path: Path) -> None:
    cli.save()
    code = "open(path, 'w', encoding='utf-8').write('precious')\nsys.exit(3)"
    told = cli("edit", "terse-replies", EDITOR=editor(tmp_path, code)).refusal
    (kept,) = kept_files(cli)
    assert str(kept) in told and kept.read_text(encoding="utf-8") == "precious"


def test_broken_frontmatter_from_the_editor_is_refused_and_the_text_kept(cli: Cli, tmp_path: Path) -> None:
    cli.save()
    before = (cli.memory / "terse-replies.md").read_bytes()
    told = cli(
        "edit",
        "terse-replies",
        EDITOR=editor(tmp_path, "text = text.replace('type: feedback', 'type: nonsense') + 'precious'"),
    )
    (kept,) = kept_files(cli)
    assert f"your text is kept in {kept}" in told.refusal and kept.read_text(encoding="utf-8").endswith("precious")
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600 and stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert (cli.memory / "terse-replies.md").read_bytes() == before


def test_somebody_quicker_wins_and_the_text_is_kept(cli: Cli, tmp_path: Path) -> None:
    cli.save()
    other = cli.memory / "terse-replies.md"
    code = f"open({str(other)!r}, 'a', encoding='utf-8').write('theirs')\ntext += 'mine'"
    told = cli("edit", "terse-replies", EDITOR=editor(tmp_path, code)).refusal
    (kept,) = kept_files(cli)
    assert "changed since" in told and str(kept) in told
    assert other.read_text(encoding="utf-8").endswith("theirs") and kept.read_text(encoding="utf-8").endswith("mine")


def test_purging_asks_for_a_yes_where_nobody_can_be_asked(cli: Cli) -> None:
    cli.save()
    told = cli.real("forget", "terse-replies", "--purge")
    assert told.code == 2 and "--yes" in told.err and len(cli("list", "--json").json) == 1


def test_purging_leaves_no_byte_behind_and_says_what_it_cannot_reach(cli: Cli, tmp_path: Path) -> None:
    cli.save("secret-plan", "The xylophone is buried.")
    cli("edit", "secret-plan", "--body", "The xylophone was dug up.")
    cli("edit", "secret-plan", EDITOR=editor(tmp_path, "text = 'xylophone without a head'"))
    assert len(kept_files(cli)) == 1
    cli("forget", "secret-plan")
    told = cli("forget", "secret-plan", "--purge", "--yes")
    assert told.code == 0 and "3 changes" in told.out and "git" in told.out and "transcripts" in told.out
    found = subprocess.run(["grep", "-rl", "xylophone", str(cli.home)], capture_output=True)
    assert found.stdout == b"", "not in history, not in a kept edit"
    assert cli("read", "secret-plan").refusal and cli("forget", "secret-plan", "--purge", "--yes").refusal


def test_purging_one_memory_keeps_the_kept_edits_of_another(cli: Cli, tmp_path: Path) -> None:
    for name in ("sub", "sub/x"):
        cli.save(name)
        cli("edit", name, EDITOR=editor(tmp_path, "text = 'without a head'"))
    cli("forget", "sub", "--purge", "--yes")
    assert [path.name.startswith("sub.x.") for path in kept_files(cli)] == [True]


def test_words_find_one_memory_and_several_are_listed(cli: Cli) -> None:
    cli("remember", "--name", "deploy-day", "we deploy on Tuesdays only, because support is staffed then")
    cli("remember", "--name", "deploy-key", "the deploy key is kept in the vault of operations")
    assert "matches several memories: deploy-key, deploy-day" in cli("forget", "deploy").refusal
    assert "no memory named 'of'" in cli("forget", "of").refusal, "a word of two letters says too little"
    assert "Tuesdays" in cli("read", "deploy tuesday").out and "unchanged" not in cli("pin", "vault", "deploy-day").out
    assert [row["pinned"] for row in cli("list", "--json").json] == [True, True]
    assert cli("forget", "support staffed", "deploy-key").lines[0].startswith("forgot deploy-day;")
    assert cli("list", "--json").json == []


def test_all_projects_are_listed_and_searched(cli: Cli) -> None:
    cli("remember", "--name", "deploy-day", "we deploy on Tuesdays only")
    other = cli.home / "api"
    (other / ".git").mkdir(parents=True)
    cli("remember", "--name", "port", "the api listens on port 8443 after each deploy", cwd=other)
    assert [row["name"] for row in cli("list", "--json").json] == ["deploy-day"]
    rows = {row["name"]: row["project"] for row in cli("list", "--all", "--json").json}
    assert rows["port"] == "~/api" and set(rows) == {"port", "deploy-day"}
    assert len(cli("search", "--all", "deploy", "--json").json["memories"]) == 2


def test_a_description_that_repeats_the_body_follows_it(cli: Cli) -> None:
    cli("remember", "--name", "port", "the api listens on port 8080")
    cli("edit", "port", "--body", "the api listens on port 8443")
    assert "8443" in cli("list").out and "8080" not in cli("list").out
