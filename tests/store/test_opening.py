import json
from pathlib import Path

import pytest

import memdir
from homes import git
from memdir.errors import SettingsError
from memdir.records import Kind, Scope
from memdir.store.open import open_project, open_store
from memdir.testing import sample_memory


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "home" / "work" / "my_app"
    folder.mkdir(parents=True)
    git(folder, "init")
    return folder


def environ(tmp_path: Path, **more: str) -> dict[str, str]:
    return {"HOME": str(tmp_path / "home"), **more}


def test_a_project_and_the_user_each_have_a_store(tmp_path: Path, project: Path) -> None:
    opened = open_project(project, environ=environ(tmp_path))
    assert opened.private.root.parts[-1] == "memory" and opened.private.root.parts[-2].endswith("my-app")
    assert opened.user is not None and opened.user.root == tmp_path / "home" / ".claude" / "memory"
    assert not (tmp_path / "home" / ".claude").exists(), "opening makes nothing"
    opened.private.write(sample_memory())
    record = json.loads((opened.private.state / "project.json").read_text(encoding="utf-8"))
    assert record["root"] == str(project)
    opened.close()


def test_memory_that_is_off_is_not_written(tmp_path: Path, project: Path) -> None:
    opened = open_project(project, environ=environ(tmp_path, CLAUDE_CODE_DISABLE_AUTO_MEMORY="1"))
    with pytest.raises(SettingsError, match="memory is off here"):
        opened.check_on()


def test_a_store_by_path_asks_nothing_of_the_environment(tmp_path: Path) -> None:
    with memdir.FileStore(tmp_path / "tenants" / "a") as store:
        store.write(sample_memory())
    assert (tmp_path / "tenants" / "a" / ".memdir" / "history.db").is_file()


def test_open_store_finds_the_project_from_the_working_directory(_home: Path, tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    store = open_store(cwd=tmp_path / "plain")
    assert store.root.is_relative_to(_home / ".claude" / "projects")
    assert open_store(cwd=tmp_path / "plain", scope=Scope.USER).root == _home / ".claude" / "memory"
    assert Kind("user") is Kind.USER


def test_the_clock_can_be_set_for_tests(tmp_path: Path, project: Path) -> None:
    opened = open_project(project, environ=environ(tmp_path, MEMDIR_NOW="2026-03-02"))
    assert opened.now().date().isoformat() == "2026-03-02"
