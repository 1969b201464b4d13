"""The environment, settings and Claude Code's settings."""

import os
import stat
import subprocess
import sys
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pytest

from homes import make_environment, write
from memdir.errors import DiskError, SettingsError
from memdir.project.paths import read_claude_settings
from memdir.project.settings import (
    BY_KEY,
    SETTINGS,
    Environment,
    Setting,
    Settings,
    git_environ,
    read_environment,
    read_settings,
    remove_setting,
    write_setting,
)
from tables import read_rows, table

ROWS = read_rows("project_settings")

DOCS = Path(__file__).parents[2] / "docs" / "settings.md"


def settings_of(tmp_path: Path, **variables: str) -> Settings:
    return read_settings(make_environment(tmp_path, **variables), root=tmp_path / "project")


def config(tmp_path: Path, text: str) -> Path:
    return write(make_environment(tmp_path).config_file, text)


def project(tmp_path: Path, text: str) -> Path:
    return write(tmp_path / "project" / ".memdir.toml", text)


def test_with_nothing_set_everything_is_below_home() -> None:
    environment = read_environment({"HOME": "/home/me"})
    assert environment.home == Path("/home/me")
    assert environment.claude_home == Path("/home/me/.claude")
    assert environment.config_file == Path("/home/me/.config/memdir/config.toml")
    assert environment.state_home == Path("/home/me/.local/state/memdir")
    assert environment.policy_file.name == "managed-settings.json"
    assert environment.disable_auto_memory is None and environment.now is None
    assert not (environment.simple or environment.remote or environment.no_color)
    assert environment.editor == environment.session == environment.memory_override == ""


def test_each_variable_lands_in_its_field() -> None:
    environment = read_environment(ROWS["each_variable_lands_in_its_field"])
    assert environment.claude_home == Path("/srv/claude")
    assert environment.memory_override == "/srv/memory"
    assert environment.project_dir_name == "app"
    assert environment.disable_auto_memory == "0"
    assert environment.simple and environment.remote and environment.no_color
    assert environment.remote_memory_dir == "/mnt/memory"
    assert environment.extra_guidelines == "be brief"
    assert environment.config_file == Path("/x/config/memdir/config.toml")
    assert environment.state_home == Path("/x/state/memdir")
    assert (environment.editor, environment.session) == ("vi", "abc")


@table("value", ["claude", "~/.claude", "./x"])
def test_a_claude_home_that_is_not_absolute_is_refused(value: str) -> None:
    with pytest.raises(SettingsError, match="CLAUDE_CONFIG_DIR") as caught:
        read_environment({"HOME": "/home/me", "CLAUDE_CONFIG_DIR": value})
    assert caught.value.key == "CLAUDE_CONFIG_DIR" and caught.value.hint


def test_without_home_the_user_database_is_asked() -> None:
    assert read_environment({}).home.is_absolute()
    assert read_environment({"HOME": "relative"}).home.is_absolute()


def test_now_is_an_aware_time() -> None:
    assert read_environment({"HOME": "/h/me", "MEMDIR_NOW": "2026-03-05T14:30:00Z"}).now == datetime(
        2026, 3, 5, 14, 30, tzinfo=UTC
    )
    zoned = read_environment({"HOME": "/h/me", "MEMDIR_NOW": "2026-03-05T14:30:00+02:00"}).now
    assert zoned is not None and zoned.utcoffset() == timedelta(hours=2)
    for text in ("2026-03-05", "2026-03-05T00:00"):
        local = read_environment({"HOME": "/h/me", "MEMDIR_NOW": text}).now
        assert local is not None and local.tzinfo is not None
        assert (local.date(), local.hour) == (date(2026, 3, 5), 0)


@table("text", ["tomorrow", "2026-13-01", "12:00", "9999999"])
def test_a_now_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(SettingsError, match="MEMDIR_NOW") as caught:
        read_environment({"HOME": "/h/me", "MEMDIR_NOW": text})
    assert caught.value.hint


def test_git_gets_an_environment_without_variables_of_its_own() -> None:
    assert [name for name in git_environ() if name.startswith("GIT_")] == [
        "GIT_OPTIONAL_LOCKS",
        "GIT_TERMINAL_PROMPT",
        "GIT_NO_LAZY_FETCH",
    ]


def test_every_setting_starts_at_its_default(tmp_path: Path) -> None:
    settings = settings_of(tmp_path)
    assert dict(settings.values) == {item.key: item.default for item in SETTINGS}
    assert set(settings.sources.values()) == {"default"}


def test_variable_before_config_file_before_project_file_before_default(tmp_path: Path) -> None:
    path = project(tmp_path, 'index_order = "file"\nworktree = "own"\nskip_index = true\n')
    assert settings_of(tmp_path).sources["skip_index"] == f"project file {path}"
    user = config(tmp_path, 'index_order = "rank"\nworktree = "own"\n')
    settings = settings_of(tmp_path, MEMDIR_WORKTREE="shared")
    assert (settings["skip_index"], settings["index_order"], settings["worktree"]) == (True, "rank", "shared")
    assert settings.sources["index_order"] == f"config file {user}"
    assert settings.sources["worktree"] == "MEMDIR_WORKTREE"
    assert settings.sources["team"] == "default"


@pytest.mark.parametrize("item", SETTINGS, ids=lambda item: item.key)
def test_every_setting_can_be_set_by_its_variable(tmp_path: Path, item: Setting) -> None:
    value: object
    if isinstance(item.default, bool):
        text, value = ("off", False) if item.default else ("on", True)
    elif item.choices:
        text = value = item.choices[-1]
    elif item.is_time:
        text = value = "2026-10-01T18:00:00+02:00"
    else:
        text, value = ("openai:x", "openai:x") if isinstance(item.default, str) else ("7", 7)
    settings = settings_of(tmp_path, **{item.variable: text})
    assert settings[item.key] == value and type(settings[item.key]) is type(item.default)
    assert settings.sources[item.key] == item.variable


def test_an_empty_variable_does_not_speak(tmp_path: Path) -> None:
    assert settings_of(tmp_path, MEMDIR_TEAM="", MEMDIR_MODEL="  ").sources["team"] == "default"


@pytest.mark.parametrize(
    ("text", "value"),
    [("1", True), ("0", False), ("true", True), ("FALSE", False), ("On", True), ("off", False), (" yes ", True)],
)
def test_a_switch_is_written_in_many_ways(tmp_path: Path, text: str, value: bool) -> None:
    assert settings_of(tmp_path, MEMDIR_TEAM=text)["team"] is value


@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("worktree", "both"),
        ("team", "maybe"),
        ("extract_every", "0"),
        ("extract_every", "1.5"),
        ("extract_every", "9" * 5_000),
        ("lock_seconds", "-1"),
        ("lock_seconds", "nan"),
        ("lock_seconds", "inf"),
        ("lock_seconds", "soon"),
        ("model", "a\nb"),
        ("model", "a\x1b[31mb"),
    ],
)
def test_a_wrong_variable_is_refused_by_name_with_what_is_allowed(tmp_path: Path, key: str, text: str) -> None:
    with pytest.raises(SettingsError) as caught:
        settings_of(tmp_path, **{BY_KEY[key].variable: text})
    message = str(caught.value)
    assert key in message and BY_KEY[key].variable in message and BY_KEY[key].allowed in message
    assert "\n" not in message and "\x1b" not in message and len(message) < 300
    assert caught.value.key == key and caught.value.hint


@pytest.mark.parametrize(
    "line",
    [
        "worktree = 1",
        "team = 2",
        'team = "maybe"',
        "extract_every = true",
        "lock_seconds = [1]",
        "lock_seconds = inf",
        f"lock_seconds = 1{'0' * 400}",
        "model = 2026-01-01",
        'model = ""',
    ],
)
def test_a_wrong_value_in_the_file_is_refused_with_the_files_path(tmp_path: Path, line: str) -> None:
    path = config(tmp_path, line + "\n")
    with pytest.raises(SettingsError) as caught:
        settings_of(tmp_path)
    assert str(path) in str(caught.value) and caught.value.key == line.split(" ", maxsplit=1)[0]


@pytest.mark.parametrize(
    "data", [b"worktree =", b"\xff\xfe", b"a = " + b"[" * 5_000, b"a = 1" + b"0" * 5_000, b"# " + b"x" * 70_000]
)
def test_a_broken_config_file_is_one_clear_error(tmp_path: Path, data: bytes) -> None:
    path = config(tmp_path, "")
    path.write_bytes(data)
    with pytest.raises(SettingsError, match="config file") as caught:
        settings_of(tmp_path)
    assert str(path) in str(caught.value) and caught.value.hint


def test_a_config_file_that_is_a_folder_or_a_fifo_is_one_clear_error(tmp_path: Path) -> None:
    path = make_environment(tmp_path).config_file
    path.mkdir(parents=True)
    with pytest.raises(SettingsError, match="cannot read"):
        settings_of(tmp_path)
    path.rmdir()
    os.mkfifo(path)
    with pytest.raises(SettingsError, match="not a regular file"):
        settings_of(tmp_path)


def test_an_unknown_key_is_collected_and_not_an_error(tmp_path: Path) -> None:
    config(tmp_path, "teem = true\nteam = true\n")
    settings = settings_of(tmp_path)
    assert settings.unknown == ("teem",) and settings["team"] is True


def test_a_project_may_switch_off_what_is_on(tmp_path: Path) -> None:
    project(tmp_path, "recall = false\nextract = false\ndream = false\nnotes = false\nuser_memory = false\n")
    settings = settings_of(tmp_path)
    assert not any(settings.flag(key) for key in ("recall", "extract", "dream", "notes", "user_memory"))
    assert not settings.ignored


def test_a_project_can_never_switch_on_what_the_person_switched_off(tmp_path: Path) -> None:
    project(tmp_path, "recall = true\n")
    config(tmp_path, "recall = false\n")
    settings = settings_of(tmp_path)
    assert settings["recall"] is False
    assert "not on" in settings.ignored["recall"]


@pytest.mark.parametrize("item", [item for item in SETTINGS if not item.project], ids=lambda item: item.key)
def test_what_a_project_may_not_set_is_ignored_with_the_reason(tmp_path: Path, item: Setting) -> None:
    value = "true" if isinstance(item.default, bool) else '"off"' if isinstance(item.default, str) else "7"
    project(tmp_path, f"{item.key} = {value}\n")
    settings = settings_of(tmp_path)
    assert settings[item.key] == item.default
    assert "committed" in settings.ignored[item.key]


def test_only_harmless_keys_are_open_to_a_project() -> None:
    assert {item.key for item in SETTINGS if item.project} == {
        *("worktree", "index_order", "skip_index"),
        *("user_memory", "recall", "extract", "notes", "dream"),
    }


def test_whatever_is_wrong_in_a_project_file_is_ignored_and_listed(tmp_path: Path) -> None:
    project(tmp_path, 'worktree = "both"\n"odd\\u001bkey" = 1\nindex_order = "file"\n')
    settings = settings_of(tmp_path)
    assert (settings["worktree"], settings["index_order"]) == ("shared", "file")
    assert set(settings.ignored) == {"worktree", "odd\\x1bkey"}


@pytest.mark.parametrize("text", ["worktree =", "a = " + "[" * 5_000, "#" * 70_000])
def test_a_broken_project_file_is_ignored_with_a_note(tmp_path: Path, text: str) -> None:
    path = project(tmp_path, text)
    settings = settings_of(tmp_path)
    assert set(settings.sources.values()) == {"default"}
    assert len(settings.notes) == 1 and str(path) in settings.notes[0]


def test_a_project_file_that_is_a_link_or_a_fifo_is_ignored_with_a_note(tmp_path: Path) -> None:
    path = project(tmp_path, "")
    path.unlink()
    path.symlink_to(write(tmp_path / "elsewhere.toml", "skip_index = true\n"))
    settings = settings_of(tmp_path)
    assert settings["skip_index"] is False and "link" in settings.notes[0]
    path.unlink()
    os.mkfifo(path)
    assert "not a regular file" in settings_of(tmp_path).notes[0]


def test_a_written_setting_is_read_again_and_private(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    assert write_setting(environment, "team", "on") is True
    assert write_setting(environment, "lock_seconds", "2.5") == 2.5
    settings = read_settings(environment, root=None)
    assert (settings["team"], settings["lock_seconds"]) == (True, 2.5)
    assert stat.S_IMODE(environment.config_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(environment.config_file.parent.stat().st_mode) == 0o700
    assert os.listdir(environment.config_file.parent) == ["config.toml"]


def test_writing_keeps_comments_order_and_unknown_keys(tmp_path: Path) -> None:
    path = config(tmp_path, '# mine\nworktree = "own"  # for now\n\nodd = [1, 2] # kept\n')
    write_setting(make_environment(tmp_path), "worktree", "shared")
    assert path.read_text(encoding="utf-8") == '# mine\nworktree = "shared"  # for now\n\nodd = [1, 2] # kept\n'


def test_a_wrong_value_or_key_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    with pytest.raises(SettingsError, match="new value"):
        write_setting(environment, "worktree", "both")
    with pytest.raises(SettingsError, match="unknown setting") as caught:
        write_setting(environment, "wortree", "own")
    assert "worktree" in caught.value.hint
    assert not environment.config_file.exists()


def test_a_broken_config_file_is_not_overwritten(tmp_path: Path) -> None:
    path = config(tmp_path, "worktree =")
    with pytest.raises(SettingsError, match="not valid TOML"):
        write_setting(make_environment(tmp_path), "worktree", "own")
    assert path.read_text(encoding="utf-8") == "worktree ="


def test_a_config_file_that_is_a_link_stays_one(tmp_path: Path) -> None:
    target = write(tmp_path / "dotfiles" / "memdir.toml", "# linked\n")
    environment = make_environment(tmp_path)
    environment.config_file.parent.mkdir(parents=True)
    environment.config_file.symlink_to(target)
    write_setting(environment, "team", True)
    assert environment.config_file.is_symlink()
    assert target.read_text(encoding="utf-8") == "# linked\nteam = true\n"


def test_removing_takes_out_one_key_known_or_not(tmp_path: Path) -> None:
    path = config(tmp_path, "team = true # t\nodd = 1\n[table]\nx = 1\n")
    environment = make_environment(tmp_path)
    assert remove_setting(environment, "odd") and remove_setting(environment, "team")
    assert remove_setting(environment, "table.x")
    assert not remove_setting(environment, "team") and not remove_setting(environment, "table.x.y.z")
    assert path.read_text(encoding="utf-8") == "[table]\n"


def test_a_place_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    write(tmp_path / "home" / "me" / ".config", "a file where a folder is needed")
    with pytest.raises(DiskError, match=r"cannot write .*config\.toml"):
        write_setting(make_environment(tmp_path), "team", True)


def claude_files(tmp_path: Path, root: Path) -> tuple[Environment, dict[str, Path]]:
    environment = make_environment(tmp_path)
    return environment, {
        "policy": environment.policy_file,
        "local": root / ".claude" / "settings.local.json",
        "project": root / ".claude" / "settings.json",
        "user": environment.claude_home / "settings.json",
    }


def test_the_four_files_are_read_each_for_itself(tmp_path: Path) -> None:
    environment, files = claude_files(tmp_path, tmp_path / "app")
    for name, path in files.items():
        write(path, f'{{"x": "{name}"}}')
    found = read_claude_settings(environment, tmp_path / "app")
    assert [t["x"] for t in (found.policy, found.local, found.project, found.user)] == list(files)
    assert not found.notes and not found.local_is_committed


@pytest.mark.parametrize("text", ["{", "[1]", "", "null", "[" * 100_000, '{"a": 1', "\x00"])
def test_a_broken_file_is_empty_with_a_note(tmp_path: Path, text: str) -> None:
    environment, files = claude_files(tmp_path, tmp_path / "app")
    for path in files.values():
        write(path, text)
    found = read_claude_settings(environment, tmp_path / "app")
    assert not (found.policy or found.local or found.project or found.user)
    assert sorted(note.split(" is ignored")[0] for note in found.notes) == sorted(str(p) for p in files.values())


def test_every_setting_has_its_row_and_every_row_its_setting() -> None:
    rows = {
        cells[0].strip("`"): cells
        for line in DOCS.read_text(encoding="utf-8").splitlines()
        if line.startswith("| `") and len(cells := [c.strip() for c in line.strip("|").split("|")]) == 6
    }
    assert list(rows) == [item.key for item in SETTINGS]
    for item in SETTINGS:
        key, variable, default, allowed, committed, text = rows[item.key]
        shown = str(item.default).lower() if isinstance(item.default, bool) else f"{item.default}"
        assert (key, variable, default) == (f"`{item.key}`", f"`{item.variable}`", f"`{shown}`")
        assert allowed.replace("`", "") == item.allowed.replace(" (also on/off, yes/no, 1/0)", "")
        narrow = "yes, off only" if item.default is True else "yes"
        assert committed == (narrow if item.project else "no")
        assert text == item.help


def test_every_variable_of_claude_code_that_is_read_is_on_the_page() -> None:
    source = (Path(__file__).parents[2] / "src" / "memdir" / "project" / "settings.py").read_text(encoding="utf-8")
    page = DOCS.read_text(encoding="utf-8")
    names = {word for word in source.replace('"', " ").split() if word.startswith(("CLAUDE_", "XDG_", "MEMDIR_"))}
    missing = {name.rstrip(",).;:") for name in names if name.rstrip(",).;:").isupper()} - {"MEMDIR_"}
    assert len(missing) > 8 and not {name for name in missing if name not in page}


def test_reading_settings_and_places_loads_nothing_that_only_writing_needs(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; before = set(sys.modules);"  # pathlib itself may load pwd
        "from memdir.project.settings import read_environment; from memdir.project.paths import read_paths;"
        "read_paths(read_environment(), Path.cwd());"
        "print(sorted({'tomlkit', 'tomllib', 'subprocess', 'hashlib', 'pwd'} & set(sys.modules) - before))"
    )
    env = {"HOME": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2] / "src")}
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],
        env=env,
        cwd=tmp_path,
        capture_output=True,
        check=True,
        text=True,
        encoding="utf-8",
    )
    assert done.stdout.strip() == "[]"
    assert os.listdir(tmp_path) == []
