"""`where`, `relink`, `status`, `config`, `pause`, `resume`, `doctor`, `completion`."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from clihelp import Cli, memory_text
from homes import git
from memdir.project.settings import SETTINGS
from pressure import keep_to_permissions, run_in_child


def test_where_shows_a_refused_rule_and_the_switch(cli: Cli) -> None:
    told = cli("where", CLAUDE_COWORK_MEMORY_PATH_OVERRIDE="/etc", CLAUDE_CODE_DISABLE_AUTO_MEMORY="1")
    assert "CLAUDE_COWORK_MEMORY_PATH_OVERRIDE = /etc: refused" in told.out and "note: " in told.out
    assert "off (CLAUDE_CODE_DISABLE_AUTO_MEMORY)" in told.out
    assert cli("where", "--json", MEMDIR_USER_MEMORY="0").json["user"] is None
    assert cli("where", MEMDIR_USER_MEMORY="0").code == 0


def collide(cli: Cli) -> Path:
    """Another project whose path has the same short name."""
    cli.save()
    other = cli.project.parent / "a-p"
    mine = cli.project.parent / "a_p"
    for folder in (mine, other):
        (folder / ".git").mkdir(parents=True)
    assert (
        cli(
            "save", "--type", "user", "--name", "n", "--description", "Writes Rust every day", "--body", "x", cwd=mine
        ).code
        == 0
    )
    return other


def test_two_projects_with_one_short_name_are_told_everywhere(cli: Cli) -> None:
    other = collide(cli)
    assert "already belongs to" in cli("list", cwd=other).refusal
    assert "already belongs to" in cli("where", cwd=other).out and cli("where", cwd=other).code == 0
    assert cli(cwd=other).code == 0
    told = cli("doctor", "--json", cwd=other)
    assert told.code == 1 and told.json["counts"]["slug_collision"] == 1
    (finding,) = told.json["findings"]
    assert finding["level"] == "error" and "CLAUDE_CODE_PROJECT_DIR_NAME" in finding["fix"]
    assert cli("doctor", "--fix", cwd=other).code == 1


@pytest.fixture
def moved(cli: Cli) -> Path:
    """A project with a memory, moved elsewhere."""
    place = cli.home / "work" / "shop"
    place.mkdir()
    git(place, "init", "-q")
    git(place, "commit", "-q", "--allow-empty", "-m", "first")
    assert (
        cli(
            "save", "--type", "user", "--name", "n", "--description", "Writes Rust every day", "--body", "x", cwd=place
        ).code
        == 0
    )
    new = cli.home / "work" / "renamed"
    place.rename(new)
    return new


def test_the_memory_of_a_moved_project_is_found_and_listed(cli: Cli, moved: Path) -> None:
    told = cli("relink", cwd=moved)
    assert told.code == 0 and "same first commit" in told.out and "--from" in told.out
    row = cli("relink", "--json", cwd=moved).json
    assert row["action"] == "found" and row["candidates"][0]["root"] == str(cli.home / "work" / "shop")
    assert cli("list", "--json", cwd=moved).json == [], "listing moves nothing"


def test_with_a_yes_the_clear_one_is_moved_with_its_history(cli: Cli, moved: Path) -> None:
    row = cli("relink", "--yes", "--json", cwd=moved).json
    assert row["action"] == "moved" and not Path(row["source"]).exists()
    assert [at["name"] for at in cli("list", "--json", cwd=moved).json] == ["n"]
    assert len(cli("history", "--json", cwd=moved).json) == 1
    record = json.loads((Path(row["target"]) / ".memdir" / "project.json").read_text(encoding="utf-8"))
    assert record["root"] == str(moved)
    assert "no memory of a moved project" in cli("relink", cwd=moved).refusal


def test_a_directory_can_be_named_and_is_asked_about(cli: Cli, moved: Path) -> None:
    source = cli("relink", "--json", cwd=moved).json["candidates"][0]["path"]
    assert cli("relink", "--from", source, cwd=moved).code == 2, "nobody can be asked here"
    assert cli("relink", "--from", str(Path(source).parent), "--yes", cwd=moved).code == 0
    assert len(cli("list", "--json", cwd=moved).json) == 1


def test_a_living_project_is_not_robbed_without_its_name(cli: Cli) -> None:
    one, two = cli.home / "work" / "one", cli.home / "work" / "two"
    one.mkdir()
    git(one, "init", "-q")
    git(one, "commit", "-q", "--allow-empty", "-m", "first")
    cli("save", "--type", "user", "--name", "n", "--description", "Writes Rust every day", "--body", "x", cwd=one)
    git(cli.home / "work", "clone", "-q", str(one), str(two))
    assert "still exists" in cli("relink", cwd=two).out
    assert "several memory directories" in cli("relink", "--yes", cwd=two).refusal


def test_relink_refuses_what_makes_no_sense(cli: Cli, tmp_path: Path) -> None:
    assert "memory directory not found" in cli("relink", "--from", str(tmp_path / "nothing"), "--yes").refusal
    assert cli("relink", "--from", "a\0b", "--yes").refusal
    assert "selects this" in cli("relink", CLAUDE_COWORK_MEMORY_PATH_OVERRIDE=str(tmp_path / "a" / "b")).refusal


def test_status_counts_and_lists_every_setting(cli: Cli) -> None:
    cli.save("a", "Text.", "--pin")
    cli.save("b", "Text.", "--scope", "user")
    cli.file("odd", "just text\n")
    told = cli("status", "--json").json
    private, user = told["scopes"]
    assert (private["memories"], private["types"]["feedback"], private["types"]["none"], private["pinned"]) == (
        2,
        1,
        1,
        1,
    )
    assert user["memories"] == 1 and private["history"]["changes"] == 1 and private["history"]["bytes"] > 0
    assert private["last_change"]["verb"] == "save" and private["index"]["lines"] == 1
    assert told["loads"]["index_tokens"] >= private["index"]["tokens"] + user["index"]["tokens"] > 10
    assert 300 < told["loads"]["guidance_tokens"] < 3000
    parts = {at["part"]: at["tokens"] for at in told["loads"]["parts"]}
    assert list(parts)[:2] == ["where", "ask"] and list(parts)[-1] == "index of user memory"
    assert sum(parts.values()) == told["loads"]["guidance_tokens"] + told["loads"]["index_tokens"]
    assert sum(parts.values()) == cli("context", "--json").json["total"]["tokens"]
    assert [at["key"] for at in told["settings"]] == [item.key for item in SETTINGS]
    out = cli("status").out
    assert "starts with about" in out and "save b by person" in out


def test_status_fits_one_screen_and_says_what_matters(cli: Cli) -> None:
    for number in range(7):
        cli.save(f"a{number}", f"Text {number}.")
    cli("remember", "we deploy on Tuesdays only, because support is staffed then")
    cli("recall", "on which day do we deploy?", MEMDIR_NOW="2026-03-05T13:00:00Z")
    lines = cli("status").lines
    assert len(lines) <= 24 and "settings" not in "".join(lines)
    for words in ("memory is on", "agents", "this project  8 memories", "lately", "save a6 by person", "recalled deploy-on-tuesdays-only for", "needs you  nothing", "a session in memdir chat starts with", "status --json"):  # fmt: skip
        assert any(words in line for line in lines), words


def test_status_is_shown_beside_a_history_that_cannot_be_read(cli: Cli) -> None:
    cli.save()
    history = cli.memory / ".memdir" / "history.db"
    for path in history.parent.glob("history.db*"):
        path.unlink()
    history.write_bytes(b"")
    history.chmod(0)

    def look() -> None:
        keep_to_permissions()
        told = cli("status")
        assert (told.code, told.err) == (0, "") and "needs you" in told.out, told

    done = run_in_child(look)
    assert done.kind == "", done


def test_status_counts_the_tokens_of_what_is_loaded_not_of_what_is_cut(cli: Cli) -> None:
    cli.save("a", "Text.")
    lines = "".join(f"- a remark about something number {number}\n" for number in range(2000))
    cli.file("MEMORY", lines)
    told = cli("status", "--json").json
    assert told["scopes"][0]["index"]["lines"] == 2000
    assert 1000 < told["loads"]["index_tokens"] < 3000
    assert cli("status", "--json", CLAUDE_CODE_DISABLE_AUTO_MEMORY="1").json["loads"] == {
        "guidance_tokens": 0,
        "index_tokens": 0,
        "parts": [],
        "hosts": [],
    }


def test_a_stronger_variable_is_pointed_out(cli: Cli) -> None:
    told = cli("config", "set", "index_order", "file", MEMDIR_INDEX_ORDER="rank")
    assert told.code == 0 and "MEMDIR_INDEX_ORDER in the environment overrides it: rank" in told.err


def test_what_names_no_model_is_refused_and_what_lacks_a_key_is_pointed_out(cli: Cli) -> None:
    assert "unknown model 'clod'" in cli("config", "set", "model", "clod").refusal
    assert cli("config", "get", "model").out == "none\n"
    told = cli("config", "set", "model", "anthropic:some-model")
    assert told.code == 0 and "ANTHROPIC_API_KEY is not set" in told.err
    assert cli("config", "get", "model").out == "anthropic:some-model\n"


def test_wrong_settings_are_refused(cli: Cli) -> None:
    assert "unknown setting" in cli("config", "get", "nonsense").refusal
    assert "unknown setting" in cli("config", "unset", "nonsense").refusal
    assert "allowed: rank or file" in cli("config", "set", "index_order", "sideways").refusal
    path = cli.home / ".config" / "memdir" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("= broken", encoding="utf-8")
    for argv in (["config", "list"], ["list"], ["pause"], ["where"]):
        assert "not valid TOML" in cli(*argv).refusal
    told = cli("doctor")
    assert told.code == 1 and "not valid TOML" in told.out


def test_a_key_nobody_knows_can_be_taken_out(cli: Cli) -> None:
    path = cli.home / ".config" / "memdir" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("old_key = 1 # from before\n", encoding="utf-8")
    assert "old_key" in cli("doctor").out
    assert cli("config", "unset", "old_key", "--json").json["value"] is None
    assert cli("doctor").code == 0


def test_a_pause_with_a_duration_ends_by_itself(cli: Cli) -> None:
    now = datetime(2026, 11, 17, 12, tzinfo=UTC)
    cli.save()
    told = cli("pause", "1h30m", MEMDIR_NOW=now.isoformat())
    assert told.out.startswith("paused until 2026-11-17 ") and "memdir resume" in told.out
    ask = ("recall", "no summary at the end of a reply?", "--json")
    for minutes, skipped in ((1, "paused"), (89, "paused"), (91, None)):
        at = (now + timedelta(minutes=minutes)).isoformat()
        assert cli(*ask, MEMDIR_NOW=at).json["skipped"] == skipped, minutes
    assert "paused until 2026-11-17 " in cli("status", MEMDIR_NOW=now.isoformat()).out
    cli("resume")
    assert cli("status", "--json", MEMDIR_NOW=now.isoformat()).json["paused"] is False
    cli("pause", "2", "hours", MEMDIR_NOW=now.isoformat())
    cli("pause")
    assert cli("status", "--json", MEMDIR_NOW=(now + timedelta(days=9)).isoformat()).json["paused"] is True
    for wrong in ("soon", "2x", "h", "1h soon", "-2h", "0m"):
        assert "invalid duration" in cli("pause", "--", wrong).refusal, wrong
    assert "No such option" in cli("pause", "-5m").err
    assert "allowed: none, or a time" in cli("config", "set", "paused_until", "later").refusal


def test_findings_have_a_line_each_with_the_fix(cli: Cli) -> None:
    cli.save()
    cli.file("broken", "---\nname: x\n")
    cli.file("odd", memory_text("Odd", body="See [[nowhere]].\n").replace("reference", "nonsense"))
    index = cli.memory / "MEMORY.md"
    index.write_text(index.read_text(encoding="utf-8") + "- [Gone](gone.md)\n", encoding="utf-8")
    told = cli("doctor")
    assert told.code == 1 and all(line.count("\t") == 5 for line in told.lines)
    assert {line.split("\t")[1] for line in told.lines} == {
        "broken_frontmatter",
        "unknown_type",
        "dead_pointer",
        "orphan",
        "unresolved_link",
    }
    shown = cli("--color", "always", "doctor").out
    assert shown.index("1 error") < shown.index("warnings") < shown.index("advice")


def test_doctor_looks_at_user_memory_and_settings_too(cli: Cli) -> None:
    cli.save("ours", "Text.", "--scope", "user")
    (cli.home / ".claude" / "memory" / "odd.md").write_text("just text\n", encoding="utf-8")
    (cli.project / ".memdir.toml").write_text("model = 'x:y'\nnonsense = 1\n", encoding="utf-8")
    found = cli("doctor", "--json").json["findings"]
    assert {(at["scope"], at["kind"]) for at in found} >= {("user", "broken_frontmatter"), ("settings", "setting")}
    assert {at["scope"] for at in cli("doctor", "--scope", "private", "--json").json["findings"]} == {"settings"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(cli: Cli, shell: str) -> None:
    told = cli("completion", shell)
    assert told.code == 0 and told.err == "" and "_MEMDIR_COMPLETE" in told.out and "memdir" in told.out


def complete(cli: Cli, *words: str) -> list[str]:
    told = cli.real(
        _MEMDIR_COMPLETE="bash_complete", COMP_WORDS=" ".join(["memdir", *words]), COMP_CWORD=str(len(words))
    )
    assert told.err == ""
    return [line.partition(",")[2] for line in told.lines if line]


def test_verbs_options_names_and_settings_complete(cli: Cli) -> None:
    cli.save("terse-replies")
    cli.save("terse-titles", "Text.", "--scope", "user")
    cli.file("odd name; rm -rf", memory_text("Odd"))
    assert complete(cli, "hist") == ["history"]
    assert sorted(complete(cli, "read", "ter")) == ["terse-replies", "terse-titles"]
    assert complete(cli, "forget", "od") == [], "a shell is not handed what it would act on"
    assert "--purge" in complete(cli, "forget", "--p")
    assert complete(cli, "config", "get", "index") == ["index_order"]
    assert complete(cli, "save", "--type", "f") == ["feedback"]


def test_completion_is_quiet_whatever_is_broken(cli: Cli) -> None:
    path = cli.home / ".config" / "memdir" / "config.toml"
    path.parent.mkdir(parents=True)
    path.write_text("= broken", encoding="utf-8")
    assert complete(cli, "read", "x") == []
