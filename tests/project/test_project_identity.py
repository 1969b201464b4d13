"""Whose a memory directory is, and moving it."""

import json
import os
import stat
from pathlib import Path

import pytest

from homes import git, make_environment, make_repository, write
from memdir.errors import MemdirError, PathError
from memdir.project.paths import find_state_dir
from memdir.project.settings import Environment
from memdir.store.open import (
    Identity,
    RelinkCandidate,
    check_identity,
    find_identity,
    find_moved_directories,
    read_identity,
    relink,
    write_identity,
)

COMMIT = "1" * 40
REMOTE = "https://host.invalid/me/app.git"


def make_memory(environment: Environment, name: str, identity: Identity | None = None) -> Path:
    memory = environment.claude_home / "projects" / name / "memory"
    write(memory / "fact.md", f"a fact of {name}\n")
    if identity is not None:
        write_identity(find_state_dir(memory, environment), identity)
    return memory


def transcript(environment: Environment, name: str, *records: object, file: str = "s.jsonl", age: int = 0) -> None:
    text = "".join(json.dumps(record) + "\n" for record in records)
    path = write(environment.claude_home / "projects" / name / file, text)
    os.utime(path, (1_700_000_000 - age, 1_700_000_000 - age))


def names(candidates: tuple[RelinkCandidate, ...]) -> list[str]:
    return [candidate.path.parent.name for candidate in candidates]


def test_a_record_is_read_as_it_was_written_and_is_private(tmp_path: Path) -> None:
    state = tmp_path / "memory" / ".memdir"
    for identity in (Identity("/src/app", REMOTE, COMMIT), Identity("/src/café\udcff"), Identity("/x")):
        write_identity(state, identity)
        assert read_identity(state) == identity
    assert stat.S_IMODE((state / "project.json").stat().st_mode) == 0o600
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert os.listdir(state) == ["project.json"]


@pytest.mark.parametrize(
    "text",
    [
        *("", "{", "[]", "{}", '{"root": 3}', '{"root": "relative"}', '{"root": "/a\\u0000b"}', '{"root": "/\\ud800"}'),
        *("[" * 50_000, '{"root": "/' + "x" * 70_000 + '"}'),
    ],
)
def test_a_broken_record_is_no_record(tmp_path: Path, text: str) -> None:
    write(tmp_path / "project.json", text)
    assert read_identity(tmp_path) is None
    check_identity(tmp_path, tmp_path / "app")


def test_a_project_is_known_by_root_remote_and_first_commit(tmp_path: Path) -> None:
    repository = make_repository(tmp_path / "app")
    git(repository, "remote", "add", "origin", "https://me:secret@host.invalid/me/app.git")
    assert find_identity(repository) == Identity(str(repository), REMOTE, git(repository, "rev-parse", "HEAD"))
    assert find_identity(tmp_path) == Identity(str(tmp_path))


def test_the_memory_of_another_living_project_is_refused_with_the_ways_out(tmp_path: Path) -> None:
    one, other = tmp_path / "a-b", tmp_path / "a_b"
    one.mkdir()
    other.mkdir()
    write_identity(tmp_path / "state", Identity(str(one)))
    check_identity(tmp_path / "state", one)
    with pytest.raises(PathError) as caught:
        check_identity(tmp_path / "state", other)
    assert str(one) in str(caught.value) and str(other) in str(caught.value)
    assert "CLAUDE_CODE_PROJECT_DIR_NAME" in caught.value.hint


def test_the_memory_of_a_moved_project_is_found_best_first_with_the_reason(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    (tmp_path / "alive").mkdir()
    make_memory(environment, "g-other", Identity("/gone/other"))
    make_memory(environment, "f-alive-remote", Identity(str(tmp_path / "alive"), REMOTE))
    make_memory(environment, "e-alive-commit", Identity(str(tmp_path / "alive"), None, COMMIT))
    make_memory(environment, "d-transcript")
    transcript(environment, "d-transcript", {"type": "summary"}, {"cwd": "/elsewhere/APP"})
    make_memory(environment, "c-name", Identity("/gone/app"))
    make_memory(environment, "b-remote", Identity("/gone/x", "git@host.invalid:me/app"))
    make_memory(environment, "a-commit", Identity("/gone/y", None, COMMIT))
    found = find_moved_directories(environment, Identity(str(tmp_path / "new" / "app"), REMOTE, COMMIT))
    assert [name[0] for name in names(found)] == list("abcdefg")
    assert found[0].reason == "same first commit; /gone/y is missing"
    assert found[0].root == "/gone/y"
    assert "still exists" in found[4].reason and "transcripts" in found[3].reason


def test_a_living_project_without_anything_in_common_is_not_offered(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    (tmp_path / "alive" / "app").mkdir(parents=True)
    make_memory(environment, "one", Identity(str(tmp_path / "alive" / "app")))
    make_memory(environment, "two")
    transcript(environment, "two", {"cwd": str(tmp_path / "alive" / "app")})
    assert find_moved_directories(environment, Identity("/new/app", REMOTE, COMMIT)) == ()


def test_its_own_directory_an_empty_one_and_links_are_not_offered(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    projects = environment.claude_home / "projects"
    make_memory(environment, "own", Identity("/new/app", REMOTE, COMMIT))
    make_memory(environment, "empty", Identity("/gone/app")).joinpath("fact.md").unlink()
    real = write(tmp_path / "real" / "memory" / "x.md", "x").parent
    write_identity(real / ".memdir", Identity("/gone/app"))
    (projects / "link").symlink_to(real.parent)
    (projects / "inner").mkdir()
    (projects / "inner" / "memory").symlink_to(real)
    assert find_moved_directories(environment, Identity("/new/app", REMOTE, COMMIT)) == ()


def test_the_newest_transcript_tells_where_an_unrecorded_directory_was(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    make_memory(environment, "x")
    transcript(environment, "x", {"cwd": "/older/other"}, file="old.jsonl", age=100)
    transcript(environment, "x", "text", {"cwd": 3}, {"cwd": "relative"}, {"cwd": "/gone/app"}, file="new.jsonl")
    assert [candidate.root for candidate in find_moved_directories(environment, Identity("/new/app"))] == ["/gone/app"]


def test_relinking_moves_memory_and_state_together(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    source = make_memory(environment, "old", Identity("/gone/app"))
    target = environment.claude_home / "projects" / "new" / "memory"
    relink(source, target, environment=environment)
    assert not source.exists()
    assert (target / "fact.md").read_text(encoding="utf-8") == "a fact of old\n"
    assert read_identity(target / ".memdir") == Identity("/gone/app")
    assert stat.S_IMODE(target.parent.stat().st_mode) == 0o700


def test_a_target_with_any_memory_is_refused_and_nothing_moves(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    source = make_memory(environment, "old")
    target = environment.claude_home / "projects" / "new" / "memory"
    for name in ("fact.md", "MEMORY.md", "sub/x.md", "logs/2026/01/2026-01-01.md", "notes.txt"):
        path = write(target / name, "x")
        with pytest.raises(PathError, match="already contains memories"):
            relink(source, target, environment=environment)
        assert (source / "fact.md").exists() and path.exists()
        path.unlink()


def test_what_memdir_kept_for_an_empty_target_is_set_aside_and_not_lost(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    target = environment.claude_home / "projects" / "new" / "memory"
    for number in (1, 2):
        source = make_memory(environment, f"old{number}", Identity(f"/gone/{number}"))
        write(target / ".memdir" / "history.db", f"forgotten {number}")
        write(target / "MEMORY.md", "")
        relink(source, target, environment=environment)
        assert os.listdir(target.parent) == ["memory"]
        assert sorted(os.listdir(target)) == [".memdir", "fact.md"]
        kept = target / ".memdir" / "replaced-1" / ".memdir" / "history.db"
        assert kept.read_text(encoding="utf-8") == f"forgotten {number}"
        assert read_identity(target / ".memdir") == Identity(f"/gone/{number}")
        (target / "fact.md").unlink()


def test_a_link_is_refused_at_either_end(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    source = make_memory(environment, "old")
    projects = environment.claude_home / "projects"
    (projects / "link").symlink_to(source.parent)
    (projects / "new").mkdir()
    (projects / "new" / "memory").symlink_to(tmp_path / "elsewhere")
    for one, other in (
        (projects / "link" / "memory", projects / "free" / "memory"),
        (source, projects / "new" / "memory"),
    ):
        with pytest.raises(PathError, match="link"):
            relink(one, other, environment=environment)
    assert (source / "fact.md").exists()


def test_a_state_that_lives_elsewhere_moves_too(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    (environment.home / ".git").mkdir()
    source = make_memory(environment, "old", Identity("/gone/app"))
    before = find_state_dir(source, environment)
    target = environment.claude_home / "projects" / "new" / "memory"
    relink(source, target, environment=environment)
    after = find_state_dir(target, environment)
    assert after != before and after.is_relative_to(environment.state_home)
    assert read_identity(after) == Identity("/gone/app") and not before.exists()
    assert not (target / ".memdir").exists()


def test_a_move_the_file_system_refuses_leaves_everything_as_it_was(tmp_path: Path) -> None:
    environment = make_environment(tmp_path)
    source = make_memory(environment, "old", Identity("/gone/app"))
    with pytest.raises(MemdirError):
        relink(source, source / "inner", environment=environment)
    assert (source / "fact.md").exists() and read_identity(source / ".memdir") == Identity("/gone/app")
