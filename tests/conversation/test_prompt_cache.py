"""Instructions are computed once a conversation, in one process and across many; a purge leaves nothing in them."""

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from clihelp import SOURCE
from homes import write
from memdir.conversation.instructions import (
    InstructionMode,
    Instructions,
    InstructionsCache,
    build_instructions,
    session_instructions,
)
from memdir.errors import NotFoundError
from memdir.format.index import INDEX_FILE
from memdir.records import Draft, Kind
from memdir.store.files import FileStore
from memdir.store.open import AgentScope, Project, find_agent_place, open_project
from memdir.store.sessions import SessionFile
from memdir.testing import sample_memory

SECRET = "zebracrossing"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Project]:
    project = tmp_path / "me" / "app"
    (project / ".git").mkdir(parents=True)
    opened = open_project(project, environ={"HOME": str(tmp_path / "me")})
    yield opened
    opened.close()


def save(store: FileStore, title: str) -> str:
    draft = Draft(Kind.FEEDBACK, title, f"{title}: deploys run from the release branch", "Text.")
    return store.write(draft).header.name


def list_prompts(opened: Project) -> list[Path]:
    return [path for store in opened.stores for path in (store.state / "sessions").glob("*.prompt")]


def test_one_process_computes_once_until_it_drops(opened: Project) -> None:
    cache = InstructionsCache()
    first = cache.take(lambda: build_instructions(opened))
    save(opened.private, "Later")
    assert cache.take(lambda: build_instructions(opened)) is first
    assert cache.take(lambda: build_instructions(opened), "another").index != first.index
    cache.drop()
    again = cache.take(lambda: build_instructions(opened))
    assert "(later.md)" in again.index and again.guidance == first.guidance


def test_threads_wait_for_the_one_that_computes() -> None:
    cache, calls = InstructionsCache(), []
    start = threading.Barrier(8)
    answers: list[Instructions] = []

    def build() -> Instructions:
        calls.append(1)
        return Instructions(InstructionMode.NORMAL)

    def ask() -> None:
        start.wait()
        answers.append(cache.take(build))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(calls) == 1 and all(at is answers[0] for at in answers)


def ask_process(opened: Project, id: str) -> str:
    """The strings as a process of its own is told them."""
    code = (
        "import sys; from memdir.store.open import open_project; from memdir.conversation.instructions import session_instructions;"
        "made = session_instructions(open_project(), sys.argv[1]); print(made.text, end='')"
    )
    root = opened.places.root.path
    env = {"HOME": str(root.parent), "PYTHONPATH": str(SOURCE)}
    ended = subprocess.run([sys.executable, "-c", code, id], cwd=root, env=env, capture_output=True, check=True)
    return ended.stdout.decode()


@pytest.mark.slow
def test_every_process_of_a_conversation_is_told_the_same_until_it_is_cleared_or_compacted(opened: Project) -> None:
    save(opened.private, "First")
    before = ask_process(opened, "s1")
    assert opened.user is not None
    save(opened.private, "Second")
    save(opened.user, "Everywhere")
    assert ask_process(opened, "s1") == before == session_instructions(opened, "s1").text
    other = ask_process(opened, "s2")
    assert "(second.md)" in other and "(everywhere.md)" in other and "(first.md)" in other
    for cleared, name in ((False, "Third"), (True, "Fourth")):
        SessionFile(opened.private.state, "s1").reset(cleared=cleared)
        after = ask_process(opened, "s1")
        assert "(second.md)" in after and "(everywhere.md)" in after and f"({name.lower()}.md)" not in after
        save(opened.private, name)
        assert ask_process(opened, "s1") == after
    assert ask_process(opened, "s2") == other, "another conversation is not touched"


def test_what_was_kept_is_told_of_directories_that_exist(tmp_path: Path) -> None:
    project = tmp_path / "me" / "app"
    (project / ".git").mkdir(parents=True)
    with closing(open_project(project, environ={"HOME": str(tmp_path / "me"), "MEMDIR_TEAM": "1"})) as opened:
        first = session_instructions(opened, "one")
        team = opened.private.root / "team"
        team.rmdir()
        assert session_instructions(opened, "one") == first and team.is_dir()


def test_what_is_kept_is_the_whole_record(opened: Project) -> None:
    for n in range(210):
        write(opened.private.root / f"m{n}.md", f"---\nname: M{n}\ndescription: d\ntype: user\n---\n")
    lines = b"".join(b"- [M%d](m%d.md) \xff\r\n" % (n, n) for n in range(210))
    (opened.private.root / INDEX_FILE).write_bytes(lines)
    made = session_instructions(opened, "s1")
    assert made == build_instructions(opened) == session_instructions(opened, "s1") and made.clips[0].clip.is_cut


def test_ids_that_look_alike_are_kept_apart(opened: Project) -> None:
    for id in ("a", "a b", "a~b"):
        session_instructions(opened, id)
    save(opened.private, "Later")
    SessionFile(opened.private.state, "a").reset()
    found = {id: "(later.md)" in session_instructions(opened, id).index for id in ("a", "a b", "a~b")}
    assert found == {"a": True, "a b": False, "a~b": False}


def test_modes_and_agents_have_prompts_of_their_own(opened: Project) -> None:
    root, environment = opened.places.root.path, opened.environment
    places = [find_agent_place("a", scope, environment=environment, root=root) for scope in AgentScope]
    asked = [
        session_instructions(opened, "s1", mode=mode)
        for mode in (None, InstructionMode.DAILY_LOG, InstructionMode.TEAM)
    ]
    asked += [session_instructions(opened, "s1", agent=place) for place in places]
    assert len({made.guidance for made in asked}) == 6
    for place in places:
        write(place.path / INDEX_FILE, "changed meanwhile\n")
    assert [session_instructions(opened, "s1", agent=place) for place in places] == asked[3:]
    SessionFile(opened.private.state, "s1").reset()
    assert "changed" in session_instructions(opened, "s1", agent=places[0]).index


def test_off_is_off_whatever_was_kept(opened: Project, tmp_path: Path) -> None:
    session_instructions(opened, "s1")
    environ = {"HOME": str(tmp_path / "me"), "CLAUDE_CODE_DISABLE_AUTO_MEMORY": "1"}
    off = open_project(opened.places.root.path, environ=environ)
    assert session_instructions(off, "s1").text == ""


@pytest.mark.parametrize("damage", [b"", b"{", b"[]", b'{"token": 1}', b'{"token": "../x", "parts": 1, "mode": "x"}'])
def test_a_damaged_file_is_computed_anew(opened: Project, damage: bytes) -> None:
    made = session_instructions(opened, "s1")
    for path in list_prompts(opened):
        path.write_bytes(damage)
        assert session_instructions(opened, "s1") == made


def test_where_nothing_can_be_kept_it_is_computed_each_time(opened: Project, tmp_path: Path) -> None:
    opened.private.root.mkdir(parents=True)
    opened.private.state.mkdir()
    (opened.private.state / "sessions").symlink_to(tmp_path)
    before = session_instructions(opened, "s1")
    save(opened.private, "Later")
    assert before.text and "(later.md)" in session_instructions(opened, "s1").index
    assert not list(tmp_path.glob("*.prompt"))


@pytest.mark.parametrize("scope", ["private", "user", "agent"])
def test_a_purge_leaves_nothing_of_a_memory_in_any_prompt(opened: Project, tmp_path: Path, scope: str) -> None:
    place = find_agent_place("a", AgentScope.USER, environment=opened.environment, root=opened.places.root.path)
    agent = FileStore(place.path)
    assert opened.user is not None
    store = {"private": opened.private, "user": opened.user, "agent": agent}[scope]
    name = save(store, SECRET)
    store.write(sample_memory())
    for id in ("s1", "s2"):
        told = session_instructions(opened, id).text + session_instructions(opened, id, agent=place).text
        assert SECRET in told
    store.purge(name)
    store.close()
    held = [path for path in (tmp_path / "me").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert held == []
    for id in ("s1", "s2"):
        told = session_instructions(opened, id).text + session_instructions(opened, id, agent=place).text
        assert SECRET not in told and "(terse-replies.md)" in told


@pytest.mark.slow
def test_a_purge_beside_conversations_that_begin_leaves_nothing(opened: Project, tmp_path: Path) -> None:
    """Whatever the order of reading the index, keeping it and purging, nothing of the memory stays."""
    session_instructions(opened, "warm")
    code = (
        "import sys; from memdir.store.open import open_project; from memdir.conversation.instructions import session_instructions;"
        "opened = open_project(); print('ready', flush=True);"
        "[session_instructions(opened, f'{sys.argv[1]}-{n}') for n in range(40)]"
    )
    root = opened.places.root.path
    env = {"HOME": str(root.parent), "PYTHONPATH": str(SOURCE)}
    name = save(opened.private, SECRET)
    started = [
        subprocess.Popen([sys.executable, "-c", code, who], cwd=root, env=env, stdout=subprocess.PIPE) for who in "ab"
    ]
    try:
        for process in started:
            assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        opened.private.purge(name)
    finally:
        for process in started:
            assert process.wait(60) == 0
            if process.stdout:
                process.stdout.close()
    opened.private.close()
    held = [path for path in (tmp_path / "me").rglob("*") if path.is_file() and SECRET.encode() in path.read_bytes()]
    assert held == [] and len(list_prompts(opened)) > 80
    with pytest.raises(NotFoundError):
        opened.private.read(name)


def test_kept_prompts_are_private_files_in_the_state_of_their_own_directory(opened: Project) -> None:
    assert opened.user is not None
    save(opened.private, "Mine")
    save(opened.user, "Everywhere")
    session_instructions(opened, "s1")
    files = {path: json.loads(path.read_bytes()) for path in list_prompts(opened)}
    assert len(files) == 3 and all(path.stat().st_mode & 0o777 == 0o600 for path in files)
    for path, table in files.items():
        here = path.is_relative_to(opened.private.state)
        assert ("everywhere.md" in json.dumps(table)) == ("clips" in table and not here)
