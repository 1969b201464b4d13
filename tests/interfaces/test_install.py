"""`install` and `uninstall`: put in what is ours, take out what is ours, and leave every other byte alone."""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clihelp import Cli
from homes import make_environment, write
from memdir.errors import ConflictError, DiskError, FormatError, PathError
from memdir.interfaces.install import (
    SHARED,
    OwnCommand,
    apply_changes,
    find_program,
    make_plugin,
    plan_install,
    plan_uninstall,
)
from memdir.interfaces.json_edit import cut_child, insert_child, parse_json_text
from memdir.project.hosts import (
    CLAUDE_CODE,
    CODEX,
    CURSOR,
    FILE,
    GEMINI,
    HOSTS,
    Host,
    find_file,
    find_installed,
    read_install_record,
)
from memdir.project.settings import Environment
from tables import read_rows
from terminals import Terminal

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)
PROGRAM = OwnCommand(("/opt/my tools/memdir",))
PLUGIN = Path(__file__).parents[2] / "plugin"

ROWS = read_rows("install")
SETTINGS, TOMLS = ROWS["SETTINGS"], ROWS["TOMLS"]


def install(
    environment: Environment, *hosts: Host, root: Path | None = None, program: OwnCommand = PROGRAM
) -> list[str]:
    changes = plan_install(hosts, environment, program, now=NOW, root=root)
    apply_changes(changes, environment)
    return [change.what for change in changes]


def uninstall(environment: Environment, *hosts: Host, root: Path | None = None) -> list[str]:
    changes = plan_uninstall(hosts, environment, SHARED, root=root)
    apply_changes(changes, environment)
    return [change.what for change in changes]


def look(folder: Path) -> dict[str, bytes | int]:
    """Every file with its bytes and its mode, and every folder."""
    found: dict[str, bytes | int] = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        if ".local" not in name:
            found[name] = path.read_bytes() if path.is_file() else -1
            found[f"{name} mode"] = path.lstat().st_mode
    return found


def put(environment: Environment, host: Host, text: str | None) -> None:
    path = find_file(host, host.hooks_files if host.hooks else host.servers_files, environment, None)
    if text is not None and path is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        path.chmod(0o640)


def has_settings(host: Host) -> bool:
    """Some hosts have a program of ours instead of settings shared with others."""
    return not host.hooks_files[0].endswith((".js", ".ts"))


@pytest.mark.parametrize(
    ("kind", "host"),
    [(kind, host) for kind in SETTINGS for host in HOSTS.values() if kind == "none" or has_settings(host)],
    ids=lambda value: value if isinstance(value, str) else value.key,
)
def test_a_round_leaves_every_file_as_it_was(tmp_path: Path, kind: str, host: Host) -> None:
    environment = make_environment(tmp_path)
    put(environment, host, SETTINGS[kind])
    before = look(environment.home)
    done = install(environment, host)
    assert "unchanged" not in done and look(environment.home) != before
    assert set(install(environment, host)) == {"unchanged"}
    assert set(uninstall(environment, host)) <= {"changed", "removed"}
    assert look(environment.home) == before
    assert uninstall(environment, host) in ([], ["unchanged"])
    assert not (environment.state_home / FILE).exists()


@pytest.mark.parametrize("kind", TOMLS)
def test_a_round_leaves_codexs_own_settings_as_they_were(tmp_path: Path, kind: str) -> None:
    environment = make_environment(tmp_path)
    if (text := TOMLS[kind]) is not None:
        environment.codex_home.mkdir()
        (environment.codex_home / "config.toml").write_bytes(text.encode())
    before = look(environment.home)
    install(environment, CODEX)
    assert b"[mcp_servers.memdir]" in (environment.codex_home / "config.toml").read_bytes()
    uninstall(environment, CODEX)
    assert look(environment.home) == before


@pytest.mark.parametrize("host", HOSTS.values(), ids=HOSTS)
def test_a_round_in_a_project_leaves_it_as_it_was(tmp_path: Path, host: Host) -> None:
    environment, root = make_environment(tmp_path), tmp_path / "app"
    write(root / "readme.txt", "hello\n")
    install(environment, host, root=root, program=SHARED)
    texts = [path.read_text(encoding="utf-8") for path in root.rglob("*") if path.is_file()]
    assert any("memdir" in text for text in texts) and not any(str(tmp_path) in text for text in texts)
    uninstall(environment, host, root=root)
    assert look(root) == {"readme.txt": b"hello\n", "readme.txt mode": (root / "readme.txt").lstat().st_mode}


def test_what_others_put_there_before_and_in_between_stays_and_only_ours_goes(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    put(environment, CLAUDE_CODE, SETTINGS["others"])
    install(environment, CLAUDE_CODE)
    path = environment.claude_home / "settings.json"
    table = json.loads(path.read_text(encoding="utf-8"))
    theirs = {"type": "command", "command": "say hello"}
    table["hooks"]["UserPromptSubmit"][0]["hooks"].append(theirs)
    table["hooks"]["Stop"].append({"hooks": [theirs]})
    table["model"] = "opus"
    path.write_text(json.dumps(table, indent=4), encoding="utf-8")
    uninstall(environment, CLAUDE_CODE)
    left = json.loads(path.read_text(encoding="utf-8"))
    done = {"hooks": [{"type": "command", "command": "say done"}]}
    hooks = {"Stop": [done, {"hooks": [theirs]}], "UserPromptSubmit": [{"hooks": [theirs]}]}
    assert left == {"hooks": hooks, "z": [1, {"a": None}], "model": "opus"}


def test_an_edit_elsewhere_keeps_its_bytes_when_ours_goes(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    put(environment, GEMINI, SETTINGS["comments"])
    install(environment, GEMINI)
    path = environment.home / ".gemini" / "settings.json"
    path.write_text(path.read_text(encoding="utf-8").replace("// mine", "// still mine"), encoding="utf-8")
    uninstall(environment, GEMINI)
    assert path.read_text(encoding="utf-8") == str(SETTINGS["comments"]).replace("// mine", "// still mine")


def test_without_its_record_ours_goes_all_the_same(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    put(environment, CLAUDE_CODE, SETTINGS["others"])
    install(environment, CLAUDE_CODE, CODEX)
    (environment.state_home / FILE).unlink()
    uninstall(environment, CLAUDE_CODE, CODEX)
    left = (environment.claude_home / "settings.json").read_text(encoding="utf-8")
    assert json.loads(left) == json.loads(str(SETTINGS["others"])) and "memdir" not in left
    assert "memdir" not in (environment.codex_home / "config.toml").read_text(encoding="utf-8")


def test_another_program_takes_the_place_of_the_old_one_and_goes_as_well(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    put(environment, CLAUDE_CODE, SETTINGS["others"])
    before = look(environment.home)
    install(environment, CLAUDE_CODE, program=OwnCommand(("/old/memdir",)))
    install(environment, CLAUDE_CODE, program=OwnCommand(("uvx", "memdir")))
    text = (environment.claude_home / "settings.json").read_text(encoding="utf-8")
    assert "/old/" not in text and text.count("uvx memdir hook") == len(CLAUDE_CODE.hooks)
    uninstall(environment, CLAUDE_CODE)
    assert look(environment.home) == before


def test_a_server_of_the_same_name_that_is_somebody_elses_stays(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    put(environment, CURSOR, '{"mcpServers": {"memdir": {"url": "http://127.0.0.1:1/"}}}')
    (change,) = plan_install([CURSOR], environment, PROGRAM, now=NOW)
    assert change.what == "unchanged" and "is not changed" in change.notes[0]
    write(environment.codex_home / "config.toml", '[mcp_servers.memdir]\nurl = "x"\n')
    before = look(environment.home)
    install(environment, CODEX)
    uninstall(environment, CODEX, CURSOR)
    assert look(environment.home) == before


@pytest.mark.parametrize(("file", "text", "reason"), ROWS["a_file_that_is_broken_is_refused"])
def test_a_file_that_is_broken_is_refused_and_nothing_is_changed(
    tmp_path: Path, file: str, text: str, reason: str
) -> None:
    environment = make_environment(tmp_path)
    path = environment.home / file
    path.parent.mkdir(parents=True)
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    before = look(environment.home)
    with pytest.raises(FormatError, match="cannot be edited") as caught:
        plan_install([CLAUDE_CODE, CODEX], environment, PROGRAM, now=NOW)
    assert reason in str(caught.value) and str(path) in str(caught.value) and caught.value.hint
    assert look(environment.home) == before


def test_links_are_followed_at_home_and_refused_in_a_project(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    real = write(tmp_path / "dotfiles" / "claude.json", '{"a": 1}')
    environment.claude_home.mkdir()
    os.symlink(real, environment.claude_home / "settings.json")
    install(environment, CLAUDE_CODE)
    assert (environment.claude_home / "settings.json").is_symlink() and "memdir" in real.read_text(encoding="utf-8")
    uninstall(environment, CLAUDE_CODE)
    assert real.read_text(encoding="utf-8") == '{"a": 1}'
    root = tmp_path / "clone"
    root.mkdir()
    os.symlink(tmp_path / "dotfiles", root / ".claude")
    with pytest.raises(PathError, match="is a symbolic link in the project"):
        plan_install([CLAUDE_CODE], environment, SHARED, now=NOW, root=root)


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    put(environment, CLAUDE_CODE, "{}")
    changes = plan_install([CLAUDE_CODE], environment, PROGRAM, now=NOW)
    put(environment, CLAUDE_CODE, '{"a": 1}')
    with pytest.raises(ConflictError):
        apply_changes(changes, environment)
    assert (environment.claude_home / "settings.json").read_text(encoding="utf-8") == '{"a": 1}'


def test_which_hosts_have_our_hooks_and_since_when(tmp_path: Path) -> None:
    environment, root = make_environment(tmp_path), tmp_path / "app"
    put(environment, GEMINI, SETTINGS["comments"])
    assert find_installed(environment, root) == ()
    install(environment, *HOSTS.values())
    install(environment, CODEX, root=root, program=SHARED)
    found = {(at.host, at.path.is_relative_to(root)): at for at in find_installed(environment, root)}
    regular = ("session-start", "user-prompt", "stop")
    installed = [host for host in HOSTS.values() if host.hooks]
    expected = {
        (host.key, False): tuple(at for at in regular if at in [hook.event for hook in host.hooks])
        for host in installed
    }
    assert {key: at.events for key, at in found.items()} == expected | {("codex", True): regular}
    assert {at.since for at in found.values()} == {NOW}


def test_the_program_is_named_so_that_it_still_works_later(tmp_path: Path) -> None:
    def nothing(name: str) -> str | None:
        return None

    script = write(tmp_path / "my tools" / "bin" / "memdir", "#!/bin/sh\n")
    script.chmod(0o755)
    program = find_program(str(script), "/usr/bin/python3", nothing)
    assert program.words == (str(script),) and program.render("hook", "stop").startswith(f"'{script}' hook")
    assert find_program("/x/memdir/__main__.py", "/usr/bin/python3", nothing).words == (
        "/usr/bin/python3", "-P", "-m", "memdir",
    )  # fmt: skip
    cached = write(tmp_path / ".cache" / "uv" / "archive-v0" / "k" / "bin" / "memdir", "#!/bin/sh\n")
    cached.chmod(0o755)
    once = find_program(str(cached), str(cached.with_name("python")), lambda name: f"/usr/bin/{name}" * (name == "uvx"))
    assert once.words == ("/usr/bin/uvx", "memdir") and "uv tool install" in once.note
    other = find_program(str(cached), "/usr/bin/python3", lambda name: str(script) if name == "memdir" else None)
    assert other.words == (str(script),)


def test_in_a_project_the_command_stays_silent_where_memdir_is_not_installed(tmp_path: Path) -> None:
    line = SHARED.render("hook", "stop", "--host", "codex")
    assert os.system(f"env -i PATH={tmp_path} /bin/sh -c '{line}' >/dev/null 2>&1") == 0


def test_the_verb_shows_what_it_changes_and_print_changes_nothing(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    shown = cli("install", "claude-code", "--print")
    assert shown.code == 0 and "hook user-prompt --host claude-code" in shown.out
    path = cli.home / ".claude" / "settings.json"
    assert not path.exists()
    done = cli("install", "claude-code", "--json").json
    assert [(at["host"], at["change"], at["written"]) for at in done] == [("claude-code", "created", True)]
    assert "model claude-cli" in cli("install", "claude-code").out
    command = json.loads(path.read_text(encoding="utf-8"))["hooks"]["Stop"][0]["hooks"][0]["command"]
    assert command == f"{sys.executable} -P -m memdir hook stop --host claude-code"
    assert cli("uninstall", "claude").code == 0 and not path.exists()
    assert "no memdir entries found" in cli("uninstall", "--all").out


def test_all_takes_the_hosts_that_are_here_and_a_wrong_name_is_refused(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    assert cli("install").code == 2 and "pass one of" in cli("install", "--all").refusal
    assert "use one of claude-code" in cli("install", "emacs").refusal
    (cli.home / ".codex").mkdir()
    (cli.home / ".cursor").mkdir()
    rows = cli("install", "--all", "--json").json
    assert {at["host"] for at in rows} == {"codex", "cursor"}
    assert "Codex asks whether these hooks may run" in cli("install", "codex").out


def test_everything_of_memdir_goes_and_memories_stay(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    cli.save()
    assert cli("install", "claude-code", "--model", "none").code == 0
    assert "pass --yes" in cli("uninstall", "--everything").err
    shown = cli("uninstall", "--everything", "--print").out
    assert "would delete" in shown and "kept 1 memory in" in shown and (cli.memory / ".memdir").is_dir()
    done = cli("uninstall", "--everything", "--yes")
    assert done.code == 0 and sorted(path.name for path in cli.memory.iterdir()) == ["MEMORY.md", "terse-replies.md"]
    assert not (cli.home / ".config" / "memdir").exists() and not (cli.home / ".local" / "state" / "memdir").exists()
    assert "hook" not in "".join(path.read_text() for path in (cli.home / ".claude").glob("settings*.json"))


def put_programs(cli: Cli) -> None:
    """Programs of the agents on the PATH, which nobody starts here."""
    folder = cli.home / "bin"
    folder.mkdir()
    for name in ("claude", "codex", "gemini"):
        program = folder / name
        program.write_text("#!/bin/false\n", encoding="utf-8")
        program.chmod(0o755)
    cli.variables["PATH"] = f"{folder}{os.pathsep}{cli.variables['PATH']}"


def install_at_terminal(cli: Cli, answer: str, *arguments: str) -> str:
    command = [str(word) for word in cli.command("install", *arguments)]
    with Terminal(command, cwd=cli.project, env=cli.environ(), size=(80, 200)) as terminal:
        for word in answer:
            terminal.expect("n = no): ")
            terminal.enter(word)
        assert terminal.end() == 0, terminal.text
        return terminal.text


@pytest.mark.parametrize(
    ("host", "title", "answer", "model"),
    [
        ("claude-code", "Claude Code", "y", "claude-cli"),
        ("codex", "Codex CLI", "y", "codex-cli"),
        ("gemini-cli", "Gemini CLI", "c", "none"),
    ],
)
def test_at_a_terminal_it_asks_once_whether_the_agents_program_may_learn(
    tmp_path: Path, host: str, title: str, answer: str, model: str
) -> None:
    cli = Cli(tmp_path)
    put_programs(cli)
    assert f"config set model {host.removesuffix('-code').removesuffix('-cli')}-cli" in cli("install", host).out
    assert f"lets {title} do it" in cli("status").out
    text = install_at_terminal(cli, answer, host)
    for words in (
        "your messages",
        "shortened tool results",
        "160,000 tokens",
        f"by your {title} plan or key",
        f"model = {model}",
    ):
        assert words in text, words
    assert cli("config", "get", "model").out.strip() == model
    assert "do the learning" not in install_at_terminal(cli, "y", host)
    assert "do it" not in cli("status").out


def test_nobody_is_asked_where_the_decision_is_given_or_no_program_is_there(tmp_path: Path) -> None:
    cli = Cli(tmp_path)
    cli.variables["PATH"] = str(tmp_path)
    text = install_at_terminal(cli, "dy", "claude-code")
    assert "program not found: 'claude'" in text and "created with 9 hooks" in text and "UserPromptSubmit" in text
    with Terminal([str(word) for word in cli.command("install")], cwd=cli.project, env=cli.environ()) as terminal:
        terminal.expect("n = no): ")
        terminal.enter("n")
        assert terminal.end() == 130 and not (cli.home / ".codex").exists()
    put_programs(cli)
    for arguments in (
        ("claude-code", "--yes"),
        ("claude-code", "--json"),
        ("cursor",),
        ("vscode",),
        ("codex", "--print"),
    ):
        is_asked = not {"--yes", "--json", "--print"}.intersection(arguments)
        assert "do the learning" not in install_at_terminal(cli, "y" * is_asked, *arguments), arguments
    assert cli("config", "get", "model", "--json").json["source"] == "default"
    assert "unknown model 'gpt'" in cli("install", "codex", "--model", "gpt").refusal
    assert not (cli.home / ".codex").exists()
    assert "model = codex-cli:gpt-5.5" in install_at_terminal(cli, "y", "codex", "--model", "codex-cli:gpt-5.5")
    assert cli("install", "codex", "--model", "none", "--json").json
    assert (cli.home / ".config" / "memdir" / "config.toml").read_text(encoding="utf-8") == 'model = "none"\n'


def test_the_plugin_folder_is_in_step_with_the_table() -> None:
    made = make_plugin()
    found = {str(at.relative_to(PLUGIN)): at.read_text(encoding="utf-8") for at in PLUGIN.rglob("*") if at.is_file()}
    assert found == made, "run: python -m memdir.interfaces.install plugin"


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=40, deadline=None)
@given(st.dictionaries(st.text(max_size=5), VALUES, max_size=5), VALUES, st.sampled_from([None, 2, "\t"]))
def test_a_value_put_in_is_there_and_cut_out_again_leaves_the_text(table: Any, value: Any, indent: Any) -> None:
    text = json.dumps(table, indent=indent)
    node = parse_json_text(text)
    assert node.value == table
    splice = insert_child(text, node, "new key", value)
    after = splice.apply(text)
    assert json.loads(after) == {**table, "new key": value} and splice.undo(after) == text
    again = parse_json_text(after)
    cut = cut_child(after, again, len(again.children) - 1)
    assert json.loads(cut) == table
    items = json.dumps(list(table.values()), indent=indent)
    longer = insert_child(items, parse_json_text(items), None, value).apply(items)
    assert json.loads(longer) == [*table.values(), value]


@settings(max_examples=40, deadline=None)
@given(st.text(max_size=30))
def test_whatever_a_file_holds_is_parsed_or_refused(text: str) -> None:
    try:
        expected = json.loads(text)
    except ValueError:
        expected = FormatError
    try:
        found: Any = parse_json_text(text).value
    except FormatError:
        found = FormatError
    if expected is not FormatError and not isinstance(expected, float):
        assert found == expected


def test_comments_beside_our_entries_are_somebodys_and_stay(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    text = '{\n  "hooks": {\n    "Stop": [\n      {"x": 1} // first\n    ]\n  }\n}\n'
    put(environment, CLAUDE_CODE, text)
    install(environment, CLAUDE_CODE)
    path = environment.claude_home / "settings.json"
    whole = path.read_text(encoding="utf-8")
    hooks = parse_json_text(whole).find("hooks")
    stop = hooks.find("Stop") if hooks else None
    assert stop is not None
    end, more = stop.children[-1].end, ', // ours\n      // the audit\n      {"y": 2}'
    path.write_text(whole[:end] + more + whole[end:], encoding="utf-8")
    uninstall(environment, CLAUDE_CODE)
    left = path.read_text(encoding="utf-8")
    assert "memdir" not in left and all(at in left for at in ("// first", "// the audit", "// ours", '{"y": 2}'))
    assert parse_json_text(left).value == {"hooks": {"Stop": [{"x": 1}, {"y": 2}]}}


def test_of_a_key_that_stands_there_twice_only_the_one_that_counts_is_touched(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    ours = '{"hooks": [{"type": "command", "command": "memdir hook stop --host claude-code"}]}'
    put(environment, CLAUDE_CODE, f'{{"hooks": {{"Stop": [{ours}], "Stop": [{{"theirs": 1}}]}}}}')
    before = look(environment.home)
    uninstall(environment, CLAUDE_CODE)
    assert look(environment.home) == before


def test_what_codex_writes_after_our_table_is_its_own(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    path = write(environment.codex_home / "config.toml", 'model = "gpt"\n')
    install(environment, CODEX)
    text = path.read_text(encoding="utf-8")
    trust = '\n[projects."/app"]\ntrust_level = "trusted"\n'
    path.write_text(text + trust, encoding="utf-8")
    assert set(install(environment, CODEX)) == {"unchanged"}
    install(environment, CODEX, program=OwnCommand(("/new/memdir",)))
    assert trust in path.read_text(encoding="utf-8") and "/new/" in path.read_text(encoding="utf-8")
    uninstall(environment, CODEX)
    left = path.read_text(encoding="utf-8")
    assert "memdir" not in left and trust in left and left.startswith('model = "gpt"\n')


def test_where_no_record_can_be_kept_the_hosts_file_stays_as_it_is(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    put(environment, CLAUDE_CODE, "{}")
    write(environment.state_home, "a file where a folder should be")
    before = look(environment.home)
    with pytest.raises(DiskError):
        install(environment, CLAUDE_CODE)
    assert look(environment.home) == before


def test_installs_at_the_same_time_lose_nothing_of_the_record(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    hosts = HOSTS.values()
    with ThreadPoolExecutor(len(hosts)) as pool:
        list(pool.map(lambda host: install(environment, host), hosts))
    assert {entry.host for entry in read_install_record(environment.state_home).values()} == {
        host.key for host in hosts
    }
    assert len(read_install_record(environment.state_home)) == len(hosts) + 1  # Codex has two files
