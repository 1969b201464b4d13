"""Many edits as one change: all or none, each seeing the ones before it, once for each mark."""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import syscalls
from loads import IS_FULL, ROOT, scaled
from memdir.errors import ConflictError, FormatError, MemdirError, NotFoundError, PathError
from memdir.frozen import replace
from memdir.postgres.store import PostgresStore
from memdir.records import (
    AddPointer,
    BatchResult,
    Change,
    Draft,
    DropPointer,
    Edit,
    Forget,
    Kind,
    Origin,
    ReplaceLine,
    Rewrite,
    Save,
    Scope,
)
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from memdir.store.plan import FileChange, is_index_path
from memdir.testing import sample_memory
from syscalls import Ack, Progress

Store = FileStore | MemoryStore | PostgresStore
Images = dict[str, bytes]
BATCH_OF_A_PROCESS = """
import sys
from pathlib import Path
from memdir.records import Draft, Kind, Save
from memdir.store.files import FileStore
store = FileStore(Path(sys.argv[1]), lock_seconds=300)
for mark in range(int(sys.argv[2])):
    drafts = [Draft(Kind.PROJECT, f"Thing {mark} {part}", "Nightly release checklist", "Body.") for part in "ab"]
    done = store.change([Save(draft) for draft in drafts], verb="extract", mark=f"turn-{mark}")
    assert done.names == tuple(f"thing-{mark}-{part}" for part in "ab"), done
    if not done.repeated:
        print(done.change)
"""


@pytest.fixture(params=["files", "ram", "postgres"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[..., Store]:
    count = iter(range(1000))

    def make_store(*, scope: Scope = Scope.PRIVATE) -> Store:
        if request.param == "ram":
            return MemoryStore(scope=scope)
        if request.param == "postgres":
            made: PostgresStore = request.getfixturevalue("postgres").store(scope=scope)
            return made
        return FileStore(tmp_path / f"d{next(count)}" / "memory", scope=scope)

    return make_store


@pytest.fixture
def store(make: Callable[..., Store]) -> Store:
    """Three memories: terse-replies, second, third."""
    store = make()
    for title in ("Terse replies", "Second", "Third"):
        store.write(sample_memory(title=title))
    return store


def draft(title: str, name: str | None = None) -> Draft:
    return sample_memory(title=title, name=name)


def rewrite(store: Store, name: str, more: str = "More.\n") -> Rewrite:
    memory = store.read(name)
    return Rewrite(name, memory.text + more, memory.digest)


def state(store: Store) -> tuple[dict[str, str], str, int]:
    """All that an undo must put back, and how many changes there are."""
    return {at.name: store.read(at.name).digest for at in store.scan()}, store.index(), len(store.changes())


def list_memories(change: Change) -> list[str]:
    """The memories that a change touched; a store that renders MEMORY.md records no change of it."""
    return sorted(file.path for file in change.files if not is_index_path(file.path))


def test_a_batch_is_one_change_and_undo_takes_all_of_it_back(store: Store) -> None:
    before = state(store)
    edits: list[Edit] = [Save(draft("Fourth")), Save(draft("Fifth")), rewrite(store, "second"), Forget("third")]
    done = store.change(edits, verb="dream", origin=Origin("dream", "tidy", "s1"))
    assert done == BatchResult(4, ("fourth", "fifth", "second", "third"))
    assert {at.name for at in store.scan()} == {"terse-replies", "second", "fourth", "fifth"}
    assert store.index().count("](f") == 2 and "third.md" not in store.index()
    change = store.changes()[0]
    assert (change.id, change.verb, change.origin) == (4, "dream", Origin("dream", "tidy", "s1"))
    assert list_memories(change) == ["fifth.md", "fourth.md", "second.md", "third.md"]
    store.undo()
    assert state(store)[:2] == before[:2]
    store.undo(5)
    assert {at.name for at in store.scan()} == {"terse-replies", "second", "fourth", "fifth"}


def test_a_later_edit_sees_what_an_earlier_one_leaves(store: Store) -> None:
    seen = store.read("second")
    renamed = seen.text.replace("name: Second", "name: Renamed")
    done = store.change(
        [
            Rewrite("second", renamed, seen.digest),
            Save(replace(draft("Renamed", "second"), body="Again."), expect=seen.digest),
            Save(draft("Brief")),
            Forget("brief"),
            Forget("third"),
            Save(replace(draft("Third"), body="Begun anew.")),
        ],
        verb="dream",
    )
    assert done.names == ("second", "second", "brief", "brief", "third", "third")
    assert store.read("second").header.title == "Renamed" and store.read("second").body.strip() == "Again."
    assert store.read("third").body.strip() == "Begun anew."
    assert list_memories(store.changes()[0]) == ["second.md", "third.md"]
    assert store.index().count("](second.md)") == store.index().count("](third.md)") == 1
    assert "[Renamed](second.md)" in store.index() and "brief" not in store.index()


def test_what_comes_to_nothing_is_no_change(make: Callable[..., Store]) -> None:
    store = make()
    assert store.change([], verb="dream") == BatchResult(None)
    assert store.change([Save(draft("Brief")), Forget("brief")], verb="dream", mark="m") == BatchResult(
        None, ("brief", "brief")
    )
    assert store.scan() == () and store.index() == "" and store.changes() == () and not store.has_mark("m")
    if isinstance(store, FileStore):
        assert not (store.root / "MEMORY.md").exists()
    memory = store.write(sample_memory())
    same: list[Edit] = [
        Rewrite("terse-replies", memory.text, memory.digest),
        Save(sample_memory(), expect=memory.digest),
    ]
    assert store.change(same, verb="dream").change is None and len(store.changes()) == 1


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        (Save(replace(sample_memory(), title="two\nlines")), FormatError),
        (Save(replace(sample_memory(), description="user preference", name="x")), FormatError),
        (Save(sample_memory(name="../x")), PathError),
        (Forget("../../etc/passwd"), PathError),
        (Rewrite("MEMORY", "x", "0" * 64), PathError),
        (Forget("never-was"), NotFoundError),
        (Forget("second", expect="0" * 64), ConflictError),
        (Rewrite("never-was", "x", "0" * 64), ConflictError),
        (Save(sample_memory()), ConflictError),
    ],
)
def test_one_bad_edit_and_nothing_is_written(store: Store, bad: Edit, error: type[MemdirError]) -> None:
    before = state(store)
    with pytest.raises(error):
        store.change([Save(draft("Fourth")), Forget("third"), bad], verb="extract", mark="m")
    with pytest.raises(error):
        store.change([bad, Save(draft("Fourth")), Forget("third")], verb="extract", mark="m")
    assert state(store) == before and not store.has_mark("m")


def test_a_type_that_the_scope_does_not_hold_refuses_the_batch(make: Callable[..., Store]) -> None:
    store = make(scope=Scope.USER)
    project = replace(sample_memory(Kind.PROJECT), title="Deadline")
    with pytest.raises(FormatError):
        store.change([Save(sample_memory()), Save(project)], verb="extract", drop_conflicts=True)
    assert store.scan() == ()


def test_what_changed_meanwhile_is_dropped_and_the_rest_is_done(store: Store) -> None:
    stale = rewrite(store, "second")
    store.edit("second", stale.text + "By hand.\n", expect=stale.expect)
    edits: list[Edit] = [
        stale,
        Forget("never-was"),
        Rewrite("gone", "x", "0" * 64),
        Save(draft("Terse replies")),
        Forget("third"),
    ]
    done = store.change(edits, verb="dream", drop_conflicts=True)
    assert done.names == ("second", "never-was", "gone", "terse-replies", "third")
    assert done.dropped == ("second", "never-was", "gone", "terse-replies")
    assert "By hand." in store.read("second").text
    assert {at.name for at in store.scan()} == {"terse-replies", "second"}


def test_edits_given_together_are_dropped_together(store: Store) -> None:
    stale = rewrite(store, "second")
    store.edit("second", stale.text + "By hand.\n", expect=stale.expect)
    merge = (Save(draft("Fourth")), Forget("third"), stale)
    done = store.change([merge, Save(draft("Fifth"))], verb="dream", drop_conflicts=True)
    assert done.names == ("fourth", "third", "second", "fifth") and done.dropped == ("fourth", "third", "second")
    assert {at.name for at in store.scan()} == {"terse-replies", "second", "third", "fifth"}
    with pytest.raises(FormatError):
        store.change([(stale, Save(replace(draft("Sixth"), body=" ")))], verb="dream", drop_conflicts=True)


def test_a_pinned_memory_is_kept_from_whoever_must_keep_it(store: Store) -> None:
    store.pin("second")
    pinned = replace(draft("Fourth"), pinned=True)
    edits: list[Edit] = [rewrite(store, "second"), Forget("second"), Save(pinned), Forget("third")]
    done = store.change(edits, verb="dream", keep_pinned=True)
    assert done.dropped == ("second", "second") and store.read("second").header.pinned
    assert {at.name for at in store.scan()} == {"terse-replies", "second", "fourth"}
    store.change([Forget("second")], verb="forget")
    assert {at.name for at in store.scan()} == {"terse-replies", "fourth"}


def test_an_edit_from_outside_while_a_batch_is_planned_is_not_lost(memory: Path) -> None:
    store = FileStore(memory)
    store.write(sample_memory(title="Second"))
    stale = rewrite(store, "second")
    path = memory / "second.md"
    path.write_text(path.read_text(encoding="utf-8") + "By hand.\n", encoding="utf-8")
    (memory / "third.md").write_text("Somebody else's.\n", encoding="utf-8")
    done = store.change([stale, Save(draft("Third"))], verb="dream", drop_conflicts=True)
    assert done.dropped == ("second",) and done.names == ("second", "third-2")
    assert path.read_text(encoding="utf-8").endswith("By hand.\n")
    assert (memory / "third.md").read_text(encoding="utf-8") == "Somebody else's.\n"


def test_a_mark_lets_a_batch_happen_once(store: Store) -> None:
    edits: list[Edit] = [Save(draft("Fourth")), rewrite(store, "second"), Forget("third")]
    assert not store.has_mark("session:1-4")
    first = store.change(edits, verb="extract", mark="session:1-4")
    again = store.change(edits, verb="extract", mark="session:1-4")
    assert not first.repeated and store.has_mark("session:1-4")
    assert again.repeated and again.change == first.change and set(again.names) == set(first.names)
    assert len(store.changes()) == 4
    other = store.change([Save(draft("Fifth"))], verb="extract", mark="session:5-6")
    assert other.change == 5 and not other.repeated and not store.has_mark("")
    store.undo(first.change)
    assert store.change(edits, verb="extract", mark="session:1-4").repeated, "what a person took back stays back"


def test_a_mark_of_any_text_is_kept_across_processes(memory: Path) -> None:
    with FileStore(memory) as store:
        store.change([Save(draft("Fourth"))], verb="extract", mark="a \ud800 surrogate")
    assert FileStore(memory).has_mark("a \ud800 surrogate")
    assert not FileStore(memory.parent / "nothing").has_mark("m")


@pytest.mark.slow
def test_a_mark_is_taken_once_by_processes_that_come_together(memory: Path) -> None:
    marks = scaled(40)
    command = [sys.executable, "-c", BATCH_OF_A_PROCESS, str(memory), str(marks)]
    env = {"PYTHONPATH": str(ROOT / "src")}
    running = [subprocess.Popen(command, env=env, stdout=subprocess.PIPE, encoding="utf-8") for _ in range(16)]
    changes = [int(word) for process in running for word in process.communicate(timeout=600)[0].split()]
    assert [process.returncode for process in running] == [0] * 16
    store = FileStore(memory)
    assert sorted(changes) == list(range(1, marks + 1)) == sorted(change.id for change in store.changes())
    assert len(store.scan()) == 2 * marks == store.index().count("\n")


def image(place: Path) -> Images:
    """Every memory and index, byte for byte."""
    found = (path for path in place.rglob("*") if path.is_file() and ".memdir" not in path.relative_to(place).parts)
    return {str(path.relative_to(place)): path.read_bytes() for path in found}


@pytest.mark.slow
@pytest.mark.parametrize("forgotten", [["third"], ["third", "fourth"]])
def test_killed_anywhere_a_batch_is_whole_or_not_there_and_its_mark_tells_which(
    tmp_path: Path, forgotten: list[str]
) -> None:
    if reason := syscalls.is_supported():
        pytest.skip(reason)
    origin = tmp_path / "origin"
    with FileStore(origin) as store:
        for title in ("Terse replies", "Second", "Third", "Fourth"):
            store.write(sample_memory(title=title))
        news: list[Edit] = [Save(draft("Sixth", "sub/sixth")), Save(draft("Fifth"))]
        edits: list[Edit] = [*news, rewrite(store, "second"), *(Forget(name) for name in forgotten)]
        store.scan()

    def make() -> Path:
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        shutil.copytree(origin, place / "memory")
        return place / "memory"

    def change(store: FileStore) -> BatchResult:
        return store.change(edits, verb="extract", mark="session:1-4")

    before, done = image(origin), make()
    with FileStore(done) as store:
        change(store)
    after = image(done)

    def action(place: Path, ack: Ack) -> None:
        change(FileStore(place))
        ack(b"done")

    def check(progress: Progress[Path]) -> None:
        with FileStore(progress.place) as store:
            marked = store.has_mark("session:1-4")
            store.scan()
            assert not list(progress.place.rglob("*.tmp")), "a staged file was left behind"
            assert store.note_outside() == (), "healing is no outside edit"
            healed = image(progress.place)
            assert healed in (before, after), f"neither before nor after: {sorted(healed)}"
            assert marked == (healed == after), "the mark and the files disagree"
            assert not progress.acked or marked, "an acknowledged batch is lost"
            again = change(store)
            assert again.repeated == marked and image(progress.place) == after
            assert [at.verb for at in store.changes()] == ["extract", "save", "save", "save", "save"]
            store.undo()
            assert image(progress.place) == before
        shutil.rmtree(progress.place.parent)

    swept = syscalls.kill_sweep(action, setup=make, check=check, half_write=IS_FULL, every=1 if IS_FULL else 4)
    assert swept.points > (40 if IS_FULL else 15) and swept.acked >= 1


def plant_index(store: Store) -> str:
    """The index without a line for `third`, with one for a memory that is not there; answers the line of `second`."""
    store.write(draft("Ghost"))
    text = "".join(line for line in store.index().splitlines(keepends=True) if "(third.md)" not in line)
    if isinstance(store, FileStore):
        (store.root / "ghost.md").unlink()
        (store.root / "MEMORY.md").write_text(text, encoding="utf-8")
    elif isinstance(store, PostgresStore):
        files = {"ghost.md": None, "MEMORY.md": text.encode()}
        store.carry_out(
            lambda at: [FileChange(path, at.read_bytes(path), data) for path, data in files.items()], verb="x"
        )
    else:
        del store._files["ghost.md"]
        store._files["MEMORY.md"] = text.encode(), store._files["MEMORY.md"][1]
    return next(line for line in text.splitlines() if "(second.md)" in line)


def test_index_lines_are_edited_in_the_same_change_and_undone_with_it(store: Store) -> None:
    line = plant_index(store)
    before = store.index()
    edits: list[Edit] = [
        AddPointer("third"),
        AddPointer("second"),
        DropPointer("ghost"),
        DropPointer("terse-replies"),
        ReplaceLine("second", line, "- [Second](second.md) — short"),
        rewrite(store, "third"),
    ]
    done = store.change(edits, verb="dream")
    index = store.index()
    assert done.change is not None and not done.dropped and len(done.names) == len(edits)
    assert "(third.md)" in index and "(ghost.md)" not in index and "(terse-replies.md)" in index
    assert index.count("(second.md)") == 1 and "- [Second](second.md) — short\n" in index
    store.undo()
    assert store.index() == before


def test_a_line_that_changed_meanwhile_is_a_conflict_and_one_to_elsewhere_is_refused(store: Store) -> None:
    line = next(line for line in store.index().splitlines() if "(second.md)" in line)
    stale = ReplaceLine("second", line + "!", "- [Second](second.md)")
    with pytest.raises(ConflictError):
        store.change([stale], verb="dream")
    done = store.change([(stale, Forget("third"))], verb="dream", drop_conflicts=True)
    assert done.change is None and store.read("third")
    with pytest.raises(FormatError):
        store.change([ReplaceLine("second", line, "- [Second](third.md)")], verb="dream")
    with pytest.raises(PathError):
        store.change([DropPointer("../outside")], verb="dream")


def test_the_line_of_a_pinned_memory_may_be_mended_but_not_its_text(store: Store) -> None:
    store.pin("second")
    line = next(line for line in store.index().splitlines() if "(second.md)" in line)
    edits: list[Edit] = [ReplaceLine("second", line, "- [Second](second.md) — short"), rewrite(store, "second")]
    done = store.change(edits, verb="dream", keep_pinned=True)
    assert done.dropped == ("second",) and "— short" in store.index()
