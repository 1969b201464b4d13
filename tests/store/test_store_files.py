import os
import shutil
import stat
import threading
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from decisions import approve
from memdir.errors import ConflictError, DiskError, FormatError, NotFoundError, PathError, ReviewError
from memdir.frozen import replace
from memdir.limits import INDEX_FILE_BYTES
from memdir.postgres.store import PostgresStore
from memdir.recall.index import parse_memory
from memdir.records import AddPointer, Draft, DropPointer, Forget, Kind, Origin, Put, Scope, Surfacing
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from memdir.store.sessions import SessionFile, SurfacedMemory
from memdir.testing import check_store, sample_memory

Make = Callable[[], FileStore | MemoryStore | PostgresStore]


@pytest.fixture(params=["files", "ram", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Make:
    count = iter(range(1000))

    def make_store() -> FileStore | MemoryStore | PostgresStore:
        if request.param == "postgres":
            made: PostgresStore = request.getfixturevalue("postgres").store()
            return made
        return MemoryStore() if request.param == "ram" else FileStore(tmp_path / f"d{next(count)}" / "memory")

    return make_store


def test_the_contract_holds(make: Make) -> None:
    check_store(make)


def test_undo_takes_back_one_change_after_another(make: Make) -> None:
    store = make()
    first = store.write(sample_memory())
    store.write(sample_memory(title="Other"))
    edited = Draft(Kind.FEEDBACK, "Terse replies", "Summaries only when asked for", "Ask.")
    store.write(edited, expect=first.digest)
    store.delete("other")
    index = store.index()
    store.undo()
    assert store.read("other") and store.index() != index
    store.undo()
    assert store.read("terse-replies").digest == first.digest
    store.undo()
    store.undo()
    assert store.scan() == () and store.index() == ""
    with pytest.raises(NotFoundError):
        store.undo()
    assert [change.verb for change in store.changes()] == ["undo"] * 4 + ["forget", "edit", "save", "save"]


def test_an_undo_can_be_undone_and_done_again(make: Make) -> None:
    store = make()
    saved = store.write(sample_memory())
    store.undo()
    undo = store.changes()[0]
    store.undo(undo.id)
    assert store.read("terse-replies").digest == saved.digest
    assert [change.undone_by for change in store.changes()] == [None, 3, None]
    store.undo(1)
    assert store.scan() == ()
    with pytest.raises(NotFoundError, match="already undone"):
        store.undo(1)


def test_an_older_change_can_be_undone_by_number_while_others_stay(make: Make) -> None:
    store = make()
    store.write(sample_memory(title="One"))
    store.write(sample_memory(title="Two"))
    store.write(sample_memory(title="Three"))
    store.undo(2)
    assert {header.name for header in store.scan()} == {"one", "three"}
    assert "(two.md)" not in store.index() and "(one.md)" in store.index() and "(three.md)" in store.index()


def test_undo_refuses_with_the_conflict_if_the_file_changed_since(make: Make) -> None:
    store = make()
    saved = store.write(sample_memory())
    store.write(
        Draft(Kind.FEEDBACK, "Terse replies", "Closing paragraphs annoy every reviewer", "x"), expect=saved.digest
    )
    with pytest.raises(ConflictError, match="terse-replies was changed since then") as caught:
        store.undo(1)
    assert caught.value.expected == saved.digest
    assert len(store.changes()) == 2


def test_restore_brings_back_the_version_before_or_after_an_change(make: Make) -> None:
    store = make()
    first = store.write(sample_memory())
    second = store.write(
        Draft(Kind.FEEDBACK, "Terse replies", "Closing paragraphs annoy every reviewer", "x"), expect=first.digest
    )
    store.restore("terse-replies")
    assert store.read("terse-replies").digest == first.digest
    store.restore("terse-replies", change=2)
    assert store.read("terse-replies").digest == second.digest
    store.delete("terse-replies")
    store.restore("terse-replies")
    assert store.read("terse-replies").digest == second.digest
    assert "(terse-replies.md)" in store.index()
    with pytest.raises(NotFoundError):
        store.restore("never-was")


def test_saving_the_same_again_is_no_change(make: Make) -> None:
    store = make()
    saved = store.write(sample_memory())
    store.write(sample_memory(), expect=saved.digest)
    store.pin("terse-replies", pinned=False)
    assert len(store.changes()) == 1


def test_an_edit_replaces_the_whole_text_and_refuses_a_broken_one(make: Make) -> None:
    store = make()
    saved = store.write(sample_memory())
    text = saved.text.replace("closing summary", "closing words").replace("type:", "mood: calm\ntype:")
    edited = store.edit("terse-replies", text, expect=saved.digest)
    assert edited.text == text
    with pytest.raises(FormatError):
        store.edit("terse-replies", text.replace("type: feedback", "type: mood"), expect=edited.digest)
    with pytest.raises(ConflictError):
        store.edit("terse-replies", text + "x", expect=saved.digest)


def test_user_memory_takes_only_what_is_about_the_person() -> None:
    store = MemoryStore(scope=Scope.USER)
    store.write(sample_memory(Kind.USER))
    with pytest.raises(FormatError, match="user memory accepts user and feedback"):
        store.write(sample_memory(Kind.PROJECT, title="Else"))


def test_every_change_knows_who_why_and_from_where(make: Make) -> None:
    store = make()
    store.write(sample_memory(), origin=Origin("extractor", "asked to remember", "s-1"))
    (change,) = store.changes("terse-replies")
    assert change.origin == Origin("extractor", "asked to remember", "s-1") and change.verb == "save"
    assert [file.path for file in change.files if file.path != "MEMORY.md"] == ["terse-replies.md"]


def test_directories_are_0700_and_files_0600(memory: Path) -> None:
    os.umask(0o022)
    FileStore(memory).write(sample_memory(name="sub/x"))
    for path in [memory, *memory.rglob("*")]:
        mode = stat.S_IMODE(path.stat().st_mode)
        wanted = 0o700 if path.is_dir() else 0o600
        assert mode == wanted or path.name.startswith("history.db"), f"{path} is {mode:o}"
    assert stat.S_IMODE((memory / ".memdir").stat().st_mode) == 0o700


def test_a_new_file_follows_the_dialect_of_its_neighbours(memory: Path) -> None:
    memory.mkdir(parents=True)
    for number in range(3):
        text = f"---\nname: n{number}\ndescription: some words here\nmetadata:\n  type: user\n---\n\nx\n"
        (memory / f"n{number}.md").write_text(text, encoding="utf-8")
    store = FileStore(memory)
    assert "metadata:\n  type: feedback\n" in store.write(sample_memory()).text
    assert "metadata:" not in FileStore(memory.parent / "empty").write(sample_memory()).text


def test_modified_is_renewed_where_a_file_keeps_it(memory: Path) -> None:
    memory.mkdir(parents=True)
    fields = "name: n\ndescription: some words here\nmetadata:\n  type: user\n  modified: 2020-01-01T00:00:00Z\n"
    text = f"---\n{fields}---\n\nx\n"
    (memory / "n.md").write_text(text, encoding="utf-8")
    store = FileStore(memory, clock=lambda: datetime(2026, 5, 1, tzinfo=UTC))
    read = store.read("n")
    assert read.header.modified.year == 2020
    draft = Draft(Kind.USER, "n", "some words here", "y", "n")
    assert store.write(draft, expect=read.digest).header.modified == datetime(2026, 5, 1, tzinfo=UTC)


def test_edits_from_outside_are_noticed_and_can_be_undone(memory: Path) -> None:
    store = FileStore(memory)
    store.write(sample_memory())
    path = memory / "terse-replies.md"
    before = path.read_text(encoding="utf-8")
    path.write_text(before + "by hand\n", encoding="utf-8")
    index = memory / "MEMORY.md"
    index.write_text(index.read_text(encoding="utf-8") + "\nprose\n", encoding="utf-8")
    assert store.note_outside() == ("terse-replies.md", "MEMORY.md")
    assert store.note_outside() == ()
    newest = store.changes()[0:2]
    assert {change.verb for change in newest} == {"outside"} and {change.origin.who for change in newest} == {"outside"}
    (topic,) = [change for change in newest if change.files[0].path == "terse-replies.md"]
    store.undo(topic.id)
    assert path.read_text(encoding="utf-8") == before


def test_a_scan_notices_a_changed_file_by_itself(memory: Path) -> None:
    store = FileStore(memory)
    store.write(sample_memory())
    store.scan()
    (memory / "terse-replies.md").write_text("gone wild", encoding="utf-8")
    assert store.scan()[0].problem == "no frontmatter"
    assert [change.verb for change in store.changes()] == ["outside", "save"]
    (memory / "terse-replies.md").unlink()
    assert store.scan() == ()
    assert store.changes()[0].files[0].after is None
    store.restore("terse-replies", change=1)
    assert store.read("terse-replies").header.kind is Kind.FEEDBACK


def test_a_touched_file_with_the_same_bytes_is_no_edit(memory: Path) -> None:
    store = FileStore(memory)
    store.write(sample_memory())
    os.utime(memory / "terse-replies.md", (1, 1))
    assert store.note_outside() == () and len(store.changes()) == 1


def test_a_write_records_the_outside_edit_it_meets(memory: Path) -> None:
    store = FileStore(memory)
    store.write(sample_memory())
    path = memory / "terse-replies.md"
    path.write_text(path.read_text(encoding="utf-8").replace("closing", "final"), encoding="utf-8")
    store.pin("terse-replies")
    assert [change.verb for change in store.changes()] == ["pin", "outside", "save"]


def test_purge_leaves_no_byte_of_a_memory_behind(memory: Path) -> None:
    store = FileStore(memory)
    other = store.write(sample_memory(title="Neighbour"))
    secret = "zebracrossing"
    draft = Draft(Kind.PROJECT, f"{secret} title", f"{secret} words that describe it", f"{secret} body " * 50, secret)
    saved = store.write(draft, origin=Origin(why=f"because {secret}"))
    store.edit(secret, saved.text + "more\n", expect=saved.digest)
    store.scan()
    store.write(sample_memory(title="Third"))
    store.undo()
    now = datetime(2026, 5, 20, tzinfo=UTC)
    store.note_recalls([Surfacing(at, now, f"what of the {secret}?", "s1") for at in (secret, "neighbour")])
    session = SessionFile(store.state, "s1")
    session.change(
        lambda at: replace(at, surfaced={secret: SurfacedMemory("d", 9)}, read=frozenset({secret, "neighbour"}))
    )
    session.path.with_name(".s1.json.0a.tmp").write_text(secret, encoding="utf-8")
    assert store.purge(secret) == 3
    store.close()
    for path in memory.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), f"{path.name} still holds it"
    assert session.read().read == {"neighbour"}
    again = FileStore(memory)
    assert again.read("neighbour").digest == other.digest and again.scan()[0].name == "neighbour"
    with pytest.raises(NotFoundError):
        again.purge(secret)


def test_purge_keeps_the_bytes_of_another_file_that_reads_the_same(memory: Path) -> None:
    store = FileStore(memory)
    store.write(sample_memory(title="Same", name="one"))
    store.write(sample_memory(title="Same", name="two"))
    store.purge("one")
    store.delete("two")
    store.undo()
    assert store.read("two").header.title == "Same"


def test_threads_of_one_process_lose_nothing(memory: Path) -> None:
    store = FileStore(memory)

    def save(number: int) -> None:
        for turn in range(5):
            store.write(sample_memory(title=f"Thread {number} turn {turn}"))

    threads = [threading.Thread(target=save, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store.scan()) == 40 == len(store.changes()) == store.index().count("\n")


def test_skip_index_keeps_no_index(memory: Path) -> None:
    FileStore(memory, skip_index=True).write(sample_memory())
    assert not (memory / "MEMORY.md").exists()


def test_team_memories_have_an_index_of_their_own(memory: Path) -> None:
    store = FileStore(memory)
    saved = store.write(sample_memory(Kind.REFERENCE, name="team/tracker"))
    assert saved.header.scope is Scope.TEAM
    assert store.index() == "" and "](tracker.md)" in store.index("team")


def test_logs_hidden_folders_and_indexes_are_no_memories(memory: Path) -> None:
    store = FileStore(memory)
    store.write(sample_memory())
    for path in ("logs/2026/01/2026-01-01.md", ".git/x.md", "sub/MEMORY.md", "sub/memory.md", "notes.txt"):
        (memory / path).parent.mkdir(parents=True, exist_ok=True)
        (memory / path).write_text("x", encoding="utf-8")
    (memory / "sub" / "logs.md").write_text("x", encoding="utf-8")
    assert {header.name for header in store.scan()} == {"terse-replies", "sub/logs"}


def test_a_file_nobody_could_have_written_is_still_listed_and_read(memory: Path) -> None:
    memory.mkdir(parents=True)
    (memory / "odd name (1).md").write_bytes(b"---\nname: \xff\xfe\ntype: mood\n---\n\xff body")
    store = FileStore(memory)
    (header,) = store.scan()
    assert header.kind is None and header.problem
    assert "body" in store.read("odd name (1)").body
    with pytest.raises(NotFoundError):
        store.read("missing")


def test_the_second_scan_has_the_cues_of_the_first(memory: Path) -> None:
    FileStore(memory).write(replace(sample_memory(), cues=("may I deploy today?", "release: on Friday")))
    first, second = (FileStore(memory).scan() for _ in range(2))
    assert [header.cues for header in second] == [header.cues for header in first]
    assert ("may I deploy today?", "release: on Friday") in [header.cues for header in second]


def test_the_cache_may_be_lost_or_broken_at_any_time(memory: Path) -> None:
    store = FileStore(memory)
    store.write(sample_memory())
    first = store.scan()
    (memory / ".memdir" / "index.db").write_bytes(b"no database" * 100)
    assert store.scan() == first
    assert store.scan() == first
    (memory / ".memdir" / "index.db").unlink()
    assert store.scan() == first


@pytest.mark.parametrize("kind", ["state", "cache"])
def test_a_place_where_no_cache_can_be_made_is_listed_all_the_same(kind: str, memory: Path, tmp_path: Path) -> None:
    FileStore(memory).write(sample_memory())
    state, blocked = memory / ".memdir", tmp_path / "file"
    state.rename(tmp_path / "away")
    blocked.write_bytes(b"")
    if kind == "state":
        state.write_bytes(b"")
    else:  # a linked state is not written to, and its substitute cannot be made
        state.symlink_to(tmp_path / "nowhere")
    assert [header.name for header in FileStore(memory).scan()] == ["terse-replies"]


def test_a_path_too_long_for_sqlite_is_told_as_such_and_can_be_read(tmp_path: Path) -> None:
    FileStore(tmp_path / "short").write(sample_memory())
    memory = tmp_path.joinpath(*["d" * 200] * 3)
    memory.mkdir(parents=True)
    shutil.copy(tmp_path / "short" / "terse-replies.md", memory)
    store = FileStore(memory)
    assert [header.name for header in store.scan()] == ["terse-replies"]
    with pytest.raises(DiskError) as caught:
        store.write(sample_memory(title="Other"))
    assert "shorter" in caught.value.hint and not (memory / "other.md").exists()


@pytest.mark.slow
def test_an_index_is_not_made_so_large_that_it_could_not_be_read_again(memory: Path) -> None:
    store = FileStore(memory)
    first = store.write(sample_memory())
    index = memory / "MEMORY.md"
    index.write_bytes(index.read_bytes().ljust(INDEX_FILE_BYTES, b"y"))
    with pytest.raises(FormatError, match=r"MEMORY\.md would be larger"):
        store.write(sample_memory(title="Other"))
    assert not (memory / "other.md").exists()
    store.delete("terse-replies", expect=first.digest)


def test_a_file_with_foreign_bytes_keeps_them_through_an_edit(memory: Path) -> None:
    memory.mkdir(parents=True)
    raw = b"---\r\nname: n\r\ndescription: some words here\r\ntype: user\r\n---\r\n\xff\xfe body\r\n"
    (memory / "n.md").write_bytes(raw)
    store = FileStore(memory)
    store.pin("n")
    assert (memory / "n.md").read_bytes() == raw.replace(b"type: user\r\n", b"type: user\r\npinned: true\r\n")
    store.pin("n", pinned=False)
    assert (memory / "n.md").read_bytes() == raw


def test_pointers_are_mended_without_touching_anything_else(memory: Path) -> None:
    store = FileStore(memory)
    store.write(sample_memory())
    (memory / "MEMORY.md").write_text("# Mine\n\n- [Gone](gone.md)\n\nprose\n", encoding="utf-8")
    store.change([AddPointer("terse-replies")], verb="index")
    store.change([DropPointer("gone"), DropPointer("terse-replies")], verb="index")
    text = (memory / "MEMORY.md").read_text(encoding="utf-8")
    assert text.startswith("# Mine\n\n- [Terse replies](terse-replies.md) — No summary") and text.endswith(
        "\n\nprose\n"
    )


AN_AGENT = Origin("agent", "by a tool", "s-1")
SHARED = (
    "---\nname: Ci\ndescription: Runners of the build are tagged by team\ntype: project\npinned: true\n---\n\nText.\n"
)


def test_what_an_agent_does_to_the_team_s_memory_waits_whatever_the_verb(tmp_path: Path) -> None:
    store = FileStore(tmp_path / "memory")
    there = store.write(replace(sample_memory(name="team/there"), kind=Kind.PROJECT, pinned=True))
    store.write(replace(sample_memory(name="own"), kind=Kind.PROJECT))
    before = {at: at.read_bytes() for at in (tmp_path / "memory").rglob("*.md")}
    verbs: list[Callable[[], object]] = [
        lambda: store.write(replace(sample_memory(name="team/new"), kind=Kind.PROJECT), origin=AN_AGENT),
        lambda: store.change([Put("team/put", SHARED)], verb="save", origin=AN_AGENT),
        lambda: store.change([Put("Team/case", SHARED)], verb="save", origin=AN_AGENT),
        lambda: store.edit("team/there", SHARED, expect=there.digest, origin=AN_AGENT),
        lambda: store.pin("team/there", pinned=False, origin=AN_AGENT),
        lambda: store.change([Forget("own"), Put("team/own", SHARED)], verb="move", origin=AN_AGENT),
        lambda: store.delete("team/there", origin=AN_AGENT),
    ]
    for number, verb in enumerate(verbs):
        with pytest.raises((ReviewError, PathError)) as caught:
            verb()
        assert not isinstance(caught.value, ReviewError) or caught.value.item, number
    assert {at: at.read_bytes() for at in (tmp_path / "memory").rglob("*.md")} == before
    waiting = store.inbox()
    assert len(waiting) >= 6 and {at.origin.who for at in waiting} == {"agent"}
    put = next(at for at in waiting if at.name == "team/put")
    approve(store, put, origin=Origin("person"))
    memory = store.read("team/put")
    assert memory.body.strip() == "Text." and not memory.header.pinned
    with pytest.raises(ReviewError, match="waits for the person's review"):
        store.delete("team/put", origin=AN_AGENT)
    allowed = FileStore(tmp_path / "memory", review=False)
    allowed.delete("team/put", origin=AN_AGENT)


@pytest.mark.parametrize("kind", ["disk", "ram"])
def test_an_agent_s_pin_is_dropped_and_a_person_s_is_kept(tmp_path: Path, kind: str) -> None:
    store = FileStore(tmp_path / "memory") if kind == "disk" else MemoryStore()
    store.write(replace(sample_memory(name="a"), pinned=True), origin=AN_AGENT)
    store.change([Put("b", SHARED)], verb="save", origin=AN_AGENT)
    assert not store.read("a").header.pinned and not store.read("b").header.pinned
    store.pin("a")
    before = store.read("a")
    store.edit("a", before.text + "More.\n", expect=before.digest, origin=AN_AGENT)
    assert store.read("a").header.pinned


def test_a_pin_that_came_with_a_team_s_memory_counts_for_nobody(memory: Path) -> None:
    with FileStore(memory) as store:
        store.write(
            Draft(Kind.PROJECT, "Tracker", "Bugs are tracked in Linear, project INGEST", "There.", "team/tracker")
        )
        with pytest.raises(FormatError, match="cannot be pinned"):
            store.pin("team/tracker")
        path = memory / "team" / "tracker.md"
        path.write_text(path.read_text("utf-8").replace("type:", "pinned: true\ntype:"), encoding="utf-8")
        assert [at.pinned for at in store.scan()] == [False] and not store.read("team/tracker").header.pinned
        row = parse_memory("team/tracker.md", path.read_text("utf-8"), "0 0 0 0")
        assert not row.priors.pinned and parse_memory("own.md", path.read_text("utf-8"), "0 0 0 0").priors.pinned
        store.pin("team/tracker", pinned=False)
        assert "pinned" not in path.read_text("utf-8")
