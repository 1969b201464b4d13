"""A person's own machines: what is synced, with which project, what stays, and encryption."""

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from homes import git, make_repository
from hook_calls import wait_until
from machines import ADDRESS, Machine, add_clone, read_memories
from memdir.format.frontmatter import digest_of
from memdir.interfaces.worker import do_worker_chores
from memdir.store.open import Identity
from memdir.sync.own import ProjectRecord, find_record
from teams import make_remote, memory_text, raw_git

ABOUT_ME = "---\nname: Me\ndescription: Who the person is\ntype: user\n---\n\nPrefers short replies.\n"
TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Machine, Machine]:
    remote = make_remote(tmp_path)
    return Machine(tmp_path, "laptop", remote), Machine(tmp_path, "tower", remote)


def show_remote(remote: Path, branch: str = "memdir/sync") -> list[str]:
    return raw_git(remote, "ls-tree", "-r", "--name-only", branch).decode().split()


def test_private_and_user_memory_arrive_at_another_path(pair: tuple[Machine, Machine]) -> None:
    laptop, tower = pair
    laptop.save("deploys")
    laptop.save("me", "Short.", "--scope", "user")
    laptop.init()
    done = tower.init("--json").json
    assert {at["name"].rpartition("/")[2] for at in done["received"]} == {"deploys", "me"}
    assert tower.files() == laptop.files() and "deploys.md" in tower.files()
    assert read_memories(tower.user) == read_memories(laptop.user) and "me.md" in read_memories(tower.user)
    assert tower.memory() != laptop.memory()
    assert "Tuesdays" in tower("read", "deploys").out
    assert tower("history", "deploys").out.count("sync") >= 1


def test_deletions_and_edits_go_both_ways_and_an_edit_wins(pair: tuple[Machine, Machine]) -> None:
    laptop, tower = pair
    for name in ("one", "two", "three", "four"):
        laptop.write(name, memory_text(name.title(), "First.", "Second."))
    laptop.init()
    tower.init()
    laptop("forget", "one")
    tower("forget", "three")
    laptop.write("two", memory_text("Two", "First.", "Second.", "From the laptop."))
    tower.write("two", memory_text("Two", "From the tower.", "First.", "Second."))
    laptop.write("three", memory_text("Three", "First.", "Second, changed."))
    for machine in (laptop, tower, laptop):
        machine.sync()
    assert laptop.files() == tower.files()
    assert set(laptop.files()) - {"MEMORY.md"} == {"two.md", "three.md", "four.md"}
    assert "From the laptop." in laptop.files()["two.md"] and "From the tower." in laptop.files()["two.md"]
    conflicts = [row for at in (laptop, tower) for row in at("inbox", "--json").json if row["kind"] == "conflict"]
    assert [row["name"] for row in conflicts] == ["three"]


def test_an_index_that_nobody_changed_here_becomes_the_one_that_was_sent(pair: tuple[Machine, Machine]) -> None:
    """A memory that changed, and whose line was moved: the line stays where the other machine has put it."""
    laptop, tower = pair
    for name in ("one", "two", "three", "four"):
        laptop.save(name)
    laptop.init()
    tower.init()
    said = "Deploys of one happen on Fridays since the move"
    assert (
        laptop("save", "--type", "feedback", "--name", "one", "--description", said, "--body", "F.", "--replace").code
        == 0
    )
    index = laptop.memory() / "MEMORY.md"
    first, *rest = index.read_text(encoding="utf-8").splitlines(keepends=True)
    assert "Fridays" in first
    index.write_text("".join([*rest, first]), encoding="utf-8")
    laptop.sync()
    sent = raw_git(laptop.remote, "rev-parse", "memdir/sync")
    tower.sync()
    tower.sync()
    assert tower.files() == laptop.files() and raw_git(laptop.remote, "rev-parse", "memdir/sync") == sent


def test_what_belongs_to_a_machine_or_a_team_stays(pair: tuple[Machine, Machine]) -> None:
    laptop, tower = pair
    laptop.write("deploys", memory_text("Deploys"))
    laptop.write("team/shared", memory_text("Shared"))
    laptop.write("logs/2026/03/2026-03-05", "- a log of the day\n")
    index = laptop.memory() / "MEMORY.md"
    index.write_text("- [Deploys](deploys.md)\n- [Shared](team/shared.md)\n- [Soon](soon.md)\n", encoding="utf-8")
    before = index.read_text(encoding="utf-8")
    laptop.init()
    tower.init()
    paths = show_remote(laptop.remote)
    assert [at for at in paths if "team" in at or "logs" in at or "history" in at or ".db" in at] == []
    assert set(tower.files()) == {"deploys.md", "MEMORY.md"} and "Shared" not in tower.files()["MEMORY.md"]
    assert index.read_text(encoding="utf-8") == before


def test_files_of_other_tools_and_user_types_are_synced_but_nothing_with_a_secret(
    pair: tuple[Machine, Machine],
) -> None:
    laptop, tower = pair
    laptop.write("plain", "No head at all.\n")
    laptop.write("me", ABOUT_ME)
    laptop.write("key", memory_text("Key", f"The token is {TOKEN}."))
    done = laptop.init("--json").json
    assert [at["path"].rpartition("/")[2] for at in done["withheld"]] == ["key.md"]
    assert "secret" in done["withheld"][0]["why"] and TOKEN not in json.dumps(done)
    tower.init()
    assert set(tower.files()) - {"MEMORY.md"} == {"plain.md", "me.md"}
    assert TOKEN not in git(laptop.remote, "log", "-p", "--all")
    status = laptop("sync", "status", "--json").json
    assert [at["path"] for at in status["withheld"]] == [done["withheld"][0]["path"]]
    assert [at["unsent"] for at in status["directories"]] == [[]]  # V9: it will not be sent


def test_a_project_that_is_not_here_waits_in_the_remote_and_arrives_when_it_is_opened(
    pair: tuple[Machine, Machine],
) -> None:
    laptop, tower = pair
    other = add_clone(laptop.projects / "other", "other")
    laptop.write("deploys", memory_text("Deploys"))
    laptop.save("elsewhere", cwd=other)
    laptop.init()
    assert len(laptop("sync", "status", "--json").json["directories"]) == 2
    tower.init()
    status = tower("sync", "status", "--json").json
    assert [at["name"] for at in status["elsewhere"]] == ["other"] and len(status["directories"]) == 1
    tower.sync()
    assert "elsewhere.md" in git(laptop.remote, "ls-tree", "-r", "--name-only", "memdir/sync")
    there = add_clone(tower.projects / "deep" / "other", "other", scheme="git@git.example.org:me/{}.git")
    tower.sync(there)
    assert "elsewhere.md" in tower.files(there)
    assert tower("sync", "status", "--json").json["elsewhere"] == []


def test_a_stale_copy_of_the_files_does_not_bring_back_what_was_deleted(pair: tuple[Machine, Machine]) -> None:
    laptop, tower = pair
    for name in ("gone", "kept"):
        laptop.write(name, memory_text(name.title()))
        tower.write(name, memory_text(name.title()))
    tower.write("new", memory_text("New"))
    laptop.init()
    laptop("forget", "gone")
    laptop.sync()
    tower.init()
    laptop.sync()
    assert laptop.files() == tower.files() and set(tower.files()) - {"MEMORY.md"} == {"kept.md", "new.md"}
    assert "gone" in tower("history", "gone").out  # and `restore` brings it back


def test_a_moved_project_and_a_second_clone_come_together(tmp_path: Path, pair: tuple[Machine, Machine]) -> None:
    laptop, tower = pair
    laptop.save("deploys")
    laptop.init()
    laptop.write("offline", memory_text("Offline"))
    moved = laptop.projects / "renamed"
    laptop.app.rename(moved)
    laptop.app = moved
    laptop.write("after", memory_text("After"))
    laptop.sync()
    tower.init()
    laptop.sync()
    assert {"deploys.md", "offline.md", "after.md"} <= set(tower.files()) and laptop.files() == tower.files()


def test_which_project_a_directory_belongs_to() -> None:
    ssh, https = "ssh://git@git.example.org/me/app.git", ADDRESS.format("app")
    app = ProjectRecord("app-1", "app", ("git.example.org/me/app",), ("c1",))
    bare = ProjectRecord("bare-2", "bare", (), ("c2",))
    records = {at.id: at for at in (app, bare)}
    cases: list[tuple[Identity, dict[str, object], str | None]] = [
        (Identity("/x/app", https), {}, "app-1"),
        (Identity("/x/other-name", ssh), {}, "app-1"),
        (Identity("/x/app", None, "c1"), {}, "app-1"),  # a clone without a remote
        (Identity("/x/bare", https.replace("app", "bare"), "c2"), {}, "bare-2"),  # one that got a remote since
        (Identity("/x/fork", https.replace("me", "you"), "c1"), {}, None),  # a fork, or another from one template
        (Identity("/x/app", https.replace("me", "you"), "c1"), {"id": "app-1"}, "app-1"),  # the remote was renamed
        (Identity("/x/app", https.replace("app", "new"), "c9"), {"id": "app-1"}, None),  # another project, same path
        (Identity("/x/app", https.replace("me", "you"), "c9"), {"id": "bare-2", "linked": True}, "bare-2"),
        (Identity("/x/plain"), {}, ""),
        (Identity("/x/plain"), {"id": "notes", "linked": True}, "notes"),
        (Identity("/x/app", "/srv/git/app.git", None), {}, ""),  # a path says nothing on another machine
    ]
    wrong = []
    for identity, known, expected in cases:
        found = find_record(identity, known, records).id
        if (found != expected) if expected is not None else (not found or found in records):
            wrong.append((identity, known, expected, found))
    assert wrong == []
    grown = find_record(Identity("/x/app", ssh.replace("me", "you"), "c1"), {"id": "app-1"}, records)
    assert grown.remotes == ("git.example.org/me/app", "git.example.org/you/app")


def test_a_folder_without_git_is_synced_once_it_is_linked(pair: tuple[Machine, Machine]) -> None:
    laptop, tower = pair
    notes = [at.cli.home / "notes" for at in pair]
    for at in notes:
        at.mkdir()
    laptop.write("idea", memory_text("Idea"), cwd=notes[0])
    laptop("list", cwd=notes[0])
    laptop.init()
    tower.init()
    rows = laptop("sync", "status", "--json", cwd=notes[0]).json["directories"]
    assert [at["folder"] for at in rows] == [None] and "sync link" in rows[0]["why"]
    for machine, at in zip(pair, notes, strict=True):
        assert machine("sync", "link", "notes", cwd=at).code == 0
        assert machine("sync", cwd=at).code == 0
    assert tower.files(notes[1]) == laptop.files(notes[0]) and "idea.md" in tower.files(notes[1])


def test_projects_without_a_remote_are_matched_by_their_first_commit(pair: tuple[Machine, Machine]) -> None:
    laptop, tower = pair
    repository = make_repository(laptop.projects / "local")
    clone = tower.projects / "copied"
    git(tower.projects, "clone", "-q", str(repository), str(clone))
    laptop.save("idea", cwd=repository)
    laptop.init()
    tower.init()
    tower.sync(clone)
    assert "idea.md" in tower.files(clone)


def test_encrypted_nothing_readable_reaches_the_remote(pair: tuple[Machine, Machine]) -> None:
    pytest.importorskip("pyrage")
    laptop, tower = pair
    laptop.write("deploys", memory_text("Deploys", "Only on Tuesdays."))
    laptop.write("gone", memory_text("Gone"))
    told = laptop.init("--encrypt").out
    key = laptop.cli.home / ".config" / "memdir" / "sync.key"
    assert str(key) in told and key.stat().st_mode & 0o777 == 0o600
    refused = tower("sync", "init", str(tower.remote))
    assert "key file not" in refused.refusal and not (tower.cli.home / ".local/state/memdir/sync/sync.json").exists()
    there = tower.cli.home / ".config" / "memdir" / "sync.key"
    there.parent.mkdir(parents=True, exist_ok=True)
    there.write_bytes(key.read_bytes())
    tower.init()
    assert tower.files() == laptop.files()
    # Both change one file: the merge needs the version both come from, which only the remote has, encrypted.
    laptop.write("deploys", memory_text("Deploys", "Only on Tuesdays.", "From the laptop."))
    tower.write("deploys", memory_text("Deploys", "From the tower.", "Only on Tuesdays."))
    tower("forget", "gone")
    for machine in (laptop, tower, laptop):
        machine.sync()
    assert laptop.files() == tower.files() and "gone.md" not in laptop.files()
    assert "From the laptop." in tower.files()["deploys.md"] and "From the tower." in tower.files()["deploys.md"]
    assert [row["kind"] for at in pair for row in at("inbox", "--json").json] == []
    everything = raw_git(laptop.remote, "log", "-p", "--all", "--text", "--format=%an %ae %s").lower()
    for word in (b"deploys", b"tuesdays", b"example.org", b"laptop", b"user/", b"projects", b"memory.md"):
        assert word not in everything, word


def test_a_tampered_encrypted_remote_stops_the_sync_and_deletes_nothing(pair: tuple[Machine, Machine]) -> None:
    pytest.importorskip("pyrage")
    laptop, _ = pair
    laptop.write("one", memory_text("One"))
    laptop.write("two", memory_text("Two"))
    laptop.init("--encrypt")
    laptop.sync()
    before = laptop.files()
    names = [at for at in show_remote(laptop.remote) if at.endswith(".age")]
    shas = raw_git(laptop.remote, "rev-parse", *(f"memdir/sync:{at}" for at in names)).decode().split()
    head = raw_git(laptop.remote, "rev-parse", "memdir/sync").decode().strip()
    swapped = f"from {head}\nM 100644 {shas[1]} {names[0]}\nM 100644 {shas[0]} {names[1]}\n"
    foreign = f"from {head}\nM 100644 inline {names[0]}\ndata 7\nnothing\n"
    for change in (swapped, foreign):
        start = "commit refs/heads/memdir/sync\ncommitter Eve <eve@example.org> 1772000000 +0000\ndata 1\nx\n"
        raw_git(laptop.remote, "fast-import", "--quiet", "--force", given=(start + change).encode())
        done = laptop.sync()
        assert done.outcome.value == "failed" and "with the key on this machine" in done.error
        assert laptop.files() == before


def test_no_clear_text_is_sent_after_the_branch_of_an_encrypted_remote_was_deleted(
    pair: tuple[Machine, Machine],
) -> None:
    """S8: whoever hosts it deletes the branch, or puts a plain one there, and a further machine with the key joins."""
    pytest.importorskip("pyrage")
    laptop, tower = pair
    laptop.write("deploys", memory_text("Deploys"))
    tower.write("plans", memory_text("Plans"))
    laptop.init("--encrypt")
    copy_key(laptop, tower)
    raw_git(laptop.remote, "update-ref", "-d", "refs/heads/memdir/sync")
    done = tower("sync", "init", str(tower.remote))
    assert done.code == 1 and "has no branch" in done.err and "--plain" in done.err
    plain = "commit refs/heads/memdir/sync\ncommitter Eve <eve@example.org> 1772000000 +0000\ndata 1\nx\n"
    mark = 'M 100644 inline .memdir-sync.json\ndata 14\n{"version": 1}\n'
    raw_git(laptop.remote, "fast-import", "--quiet", given=(plain + mark).encode())
    done = tower("sync", "init", str(tower.remote))
    assert done.code == 1 and "is not encrypted" in done.err
    assert laptop.sync().outcome.value == "failed"
    assert show_remote(laptop.remote) == [".memdir-sync.json"]
    tower.init("--plain")
    assert "projects/app-" in "".join(show_remote(laptop.remote))


LOOK = """
import json, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from memdir.store.open import open_project
from memdir.sync.own import sync_own
project = open_project()
done = sync_own(project, now=project.now())
print(json.dumps([done.outcome, done.sent, [path for path in opened if path.startswith(str(project.environment.home))]]))
"""


def look(machine: Machine) -> tuple[str, list[str], list[str]]:
    done = subprocess.run(
        [sys.executable, "-c", LOOK], cwd=machine.app, env=machine.cli.environ(), capture_output=True, check=True
    )
    outcome, sent, opened = json.loads(done.stdout)
    return outcome, sent, opened


def test_a_sync_without_a_change_opens_no_memory_and_a_change_in_place_is_sent(pair: tuple[Machine, Machine]) -> None:
    """V10."""
    laptop, tower = pair
    counts = []
    for count in (3, 40):
        for number in range(count):
            laptop.write(f"note-{number}", memory_text(f"Note {number}"))
        laptop.init()
        wait_until(lambda: bool(laptop.sync().outcome and is_settled(laptop)), "a sync without a change")
        outcome, sent, opened = look(laptop)
        assert (
            outcome == "synced" and sent == [] and not [path for path in opened if path.endswith((".md", "point.json"))]
        )
        counts.append(len(opened))
    assert counts[0] == counts[1]
    path = laptop.memory() / "note-1.md"
    with path.open("r+", encoding="utf-8") as file:  # the same inode and size, in a folder with the same time
        file.write(path.read_text(encoding="utf-8").replace("Text", "Next"))
    wait_until(
        lambda: time.time_ns() - path.stat().st_ctime_ns > 200_000_000, "a change that is not the newest possible"
    )
    assert [name.rpartition("/")[2] for name in laptop.sync().sent] == ["note-1"]
    tower.init()
    assert "Next." in tower.files()["note-1.md"]
    tower.write("note-2", memory_text("Note 2", "From the tower."))
    tower.sync()
    laptop.sync()
    assert "From the tower." in laptop.files()["note-2.md"]


def is_settled(machine: Machine) -> bool:
    record = json.loads((machine.cli.home / ".local/state/memdir/sync/sync-record.json").read_bytes())
    return bool(record["here"])


@pytest.mark.parametrize("options", [(), ("--encrypt",)])
def test_one_change_sends_little_of_a_long_index(pair: tuple[Machine, Machine], options: tuple[str, ...]) -> None:
    """V10: the remote refuses a push of more than 20 KB, 40 KB encrypted, while the index alone has a megabyte."""
    pytest.importorskip("pyrage")
    laptop, tower = pair
    lines = [f"Row {number}: {digest_of(str(number).encode())}\n" for number in range(12_000)]
    laptop.write("deploys", memory_text("Deploys"))
    laptop.write("MEMORY", "".join(lines))
    laptop.init(*options)
    raw_git(laptop.remote, "config", "receive.maxInputSize", "40k" if options else "20k")
    for number in range(2):
        laptop.save(f"later-{number}")
        done = laptop.sync()
        assert done.outcome.value == "synced" and len(done.sent) == 1, done.error
    if options:
        copy_key(laptop, tower)
    tower.init()
    assert tower.files() == laptop.files() and tower.files()["MEMORY.md"].count("\n") > 12_000
    laptop.write("MEMORY", "- [Deploys](deploys.md)\n")  # short again: no piece is left
    laptop.sync()
    tower.sync()
    assert tower.files()["MEMORY.md"] == "- [Deploys](deploys.md)\n"
    if options:
        assert len(show_remote(laptop.remote)) == 1 + 1 + 1 + 3  # the mark, the project, the index and the memories


def copy_key(one: Machine, other: Machine) -> None:
    key = other.cli.home / ".config/memdir/sync.key"
    key.parent.mkdir(parents=True, exist_ok=True)
    key.write_bytes((one.cli.home / ".config/memdir/sync.key").read_bytes())


def test_setting_up_refuses_what_would_mix_or_downgrade(tmp_path: Path, pair: tuple[Machine, Machine]) -> None:
    laptop, tower = pair
    laptop.write("deploys", memory_text("Deploys"))
    assert "sync init REMOTE" in laptop("sync").refusal
    laptop.init()
    assert "already" in laptop("sync", "init", str(make_remote(tmp_path, "other.git"))).refusal
    if pytest.importorskip("pyrage"):
        assert "cannot encrypt" in tower("sync", "init", str(tower.remote), "--encrypt").refusal
    team = laptop("team", "init", "--remote", str(laptop.remote), "--branch", "memdir/sync")
    assert "other files" in team.refusal
    assert laptop("team", "init", "--remote", str(laptop.remote)).code == 0
    assert "other files" in tower("sync", "init", str(tower.remote), "--branch", "memdir/team").refusal
    assert laptop("sync", "stop", "--json").json == {"stopped": True}
    assert laptop("sync", "status").out.startswith("this machine is not synced")
    assert "deploys.md" in laptop.files()
    tower.init()
    laptop.init()
    assert tower.files() == laptop.files()


def test_offline_is_an_outcome_and_the_next_sync_sends_it(pair: tuple[Machine, Machine]) -> None:
    laptop, tower = pair
    laptop.write("one", memory_text("One"))
    laptop.init()
    tower.init()
    away = laptop.remote.with_suffix(".away")
    laptop.remote.rename(away)
    laptop.write("two", memory_text("Two"))
    assert laptop.sync().outcome.value == "offline"
    row = next(at for at in laptop("sync", "status", "--json").json["directories"])
    assert [at.rpartition("/")[2] for at in row["unsent"]] == ["two"]
    away.rename(laptop.remote)
    laptop.sync()
    tower.sync()
    assert tower.files() == laptop.files() and "two.md" in tower.files()


def test_a_directory_that_cannot_be_written_does_not_stop_the_others(pair: tuple[Machine, Machine]) -> None:
    laptop, tower = pair
    other = [add_clone(at.projects / "other", "other") for at in pair]
    laptop.save("deploys")
    laptop.save("elsewhere", cwd=other[0])
    laptop.init()
    memory = tower.memory(other[1])
    memory.parent.mkdir(parents=True)
    memory.write_text("in the way\n", encoding="utf-8")
    tower.init()
    done = tower.sync(other[1])
    assert "deploys.md" in tower.files() and any("left out" in note for note in done.notes)
    memory.unlink()
    tower.sync(other[1])
    assert "elsewhere.md" in tower.files(other[1])


def test_a_purge_leaves_nothing_of_a_memory_in_what_memdir_keeps_for_the_sync(pair: tuple[Machine, Machine]) -> None:
    laptop, _ = pair
    laptop.save("zebra", "Stripes.")
    laptop.init()
    laptop("forget", "zebra", "--purge", "--yes")
    found = [
        str(path)
        for path in laptop.cli.home.rglob("*")
        if path.is_file() and (b"zebra" in path.read_bytes() or b"Stripes" in path.read_bytes())
    ]
    assert found == []
    assert not (laptop.cli.home / ".local/state/memdir/sync/sync.git").exists()


def test_the_worker_sends_what_was_learned_and_doctor_tells_what_is_wrong(pair: tuple[Machine, Machine]) -> None:
    laptop, tower = pair
    laptop.save("deploys")
    laptop.init()
    tower.init()
    laptop.save("later")
    opened = laptop.open()
    do_worker_chores(opened, [], None)
    opened.close()
    tower.sync()
    assert "later.md" in tower.files()
    laptop.write("key", memory_text("Key", f"The token is {TOKEN}."))
    laptop.sync()
    found = [at for at in laptop("doctor", "--json").json["findings"] if at["kind"] == "own_sync"]
    assert [at["where"].rpartition("/")[2] for at in found] == ["key.md"] and "secret" in found[0]["message"]


def test_a_session_starts_a_sync_beside_itself_and_waits_for_nothing(pair: tuple[Machine, Machine]) -> None:
    """The project is opened on this machine for the first time: its memory arrives."""
    laptop, tower = pair
    laptop.save("deploys")
    laptop.init()
    shutil.copytree(laptop.cli.home / ".local", tower.cli.home / ".local")  # set up, and nothing synced here yet
    table = tower.cli.home / ".local" / "state" / "memdir" / "sync"
    (table / "sync-record.json").unlink()
    event = json.dumps({"session_id": "s", "cwd": str(tower.app), "hook_event_name": "SessionStart"}).encode()
    command, env = tower.cli.command("hook", "session-start"), tower.cli.environ()
    env.pop("MEMDIR_NOW")
    subprocess.run(command, cwd=tower.app, env=env, input=event, capture_output=True, check=True)
    wait_until(lambda: (table / "sync-record.json").exists(), "a sync")
    assert "deploys.md" in tower.files()
