"""The derived index keeps up with the files, equals a new one after any history, and comes back whatever befalls it."""

import os
import random
import shutil
import sqlite3
import subprocess
import sys
from array import array
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from memdir.recall.index import LARGE, Catalog, IndexTotals, open_words
from memdir.recall.select import HIDDEN, LocalSearch
from memdir.records import Kind, Query, Scope
from memdir.store.files import FileStore
from pressure import Unavailable, nobody_folder, run_in_child
from search_stores import NOW, ask, ask_all, write_memory
from syscalls import is_below, trace

WORDS = "cache queue deploy token index retry schema ledger widget canary rollback shard 缓存 検索 handleAuth".split()
REFRESH = """
import sys
from pathlib import Path
from memdir.recall.select import LocalSearch
from memdir.store.files import FileStore
sys.stdin.readline()
with FileStore(Path(sys.argv[1])) as store, LocalSearch([store]) as search:
    search.refresh()
"""


class Reads:
    """Reads the files of a directory and keeps which."""

    def __init__(self, store: FileStore) -> None:
        self.store = store
        self.paths: list[str] = []

    def __call__(self, path: str) -> bytes | None:
        self.paths.append(path)
        return self.store.read_bytes(path)


def refresh(store: FileStore, index: Path) -> list[str]:
    """Bring an index up to the files; which were read."""
    reads = Reads(store)
    with closing(Catalog(index, open_words())) as catalog:
        catalog.refresh(store.list_signatures(), reads)
    return reads.paths


def snapshot(index: Path) -> dict[str, object]:
    """All an index knows, in paths and words, not numbers. Vectors are left out: they keep the rarity of their day."""
    with closing(sqlite3.connect(index)) as db:
        paths = dict(db.execute("SELECT doc, path FROM bodies"))
        terms = {term: (word, df) for term, word, df in db.execute("SELECT id, word, df FROM terms")}
        held: dict[str, dict[str, int]] = {word: {} for word, _ in terms.values()}
        for term, data in db.execute("SELECT term, data FROM postings"):
            for at in array("I", data):
                assert paths[at >> 4] not in held[terms[term][0]]
                held[terms[term][0]][paths[at >> 4]] = at & 15
        bodies = "SELECT path, length, passages, links, modified, pinned, kind FROM bodies ORDER BY path"
        return {
            "df": dict(terms.values()),
            "postings": held,
            "bodies": db.execute(bodies).fetchall(),
            "files": db.execute("SELECT path, sig FROM files ORDER BY path").fetchall(),
            "totals": dict(db.execute("SELECT name, value FROM totals")),
        }


def write_some(folder: Path, count: int) -> None:
    for number in range(count):
        write_memory(folder, f"note-{number}", f"The {WORDS[number % len(WORDS)]} of part{number}", f"Body {number}.")


@pytest.fixture
def store(memory: Path) -> Iterator[FileStore]:
    write_some(memory, 12)
    with FileStore(memory) as opened:
        yield opened


def test_every_file_is_read_once_and_then_none(store: FileStore, tmp_path: Path) -> None:
    assert sorted(refresh(store, tmp_path / "index.db")) == sorted(store.list_signatures())
    assert refresh(store, tmp_path / "index.db") == []


def test_a_changed_file_is_read_alone_and_a_new_one_too(store: FileStore, tmp_path: Path) -> None:
    refresh(store, tmp_path / "index.db")
    write_memory(store.root, "note-3", "Now about marmalade and nothing else")
    assert refresh(store, tmp_path / "index.db") == ["note-3.md"]
    write_memory(store.root, "fresh", "A fresh one")
    assert refresh(store, tmp_path / "index.db") == ["fresh.md"]


def test_a_removed_file_is_gone_without_a_read(store: FileStore, tmp_path: Path) -> None:
    refresh(store, tmp_path / "index.db")
    (store.root / "note-4.md").unlink()
    assert refresh(store, tmp_path / "index.db") == []
    known = snapshot(tmp_path / "index.db")
    assert "note-4.md" not in str(known) and "part4" not in str(known["df"])


def test_a_renamed_file_is_known_by_its_new_name_only(store: FileStore) -> None:
    assert ask(store.root, "part5")[:1] == ["note-5"]
    (store.root / "note-5.md").rename(store.root / "other.md")
    assert "other" in (found := ask(store.root, "part5")) and "note-5" not in found


@pytest.mark.parametrize("seed", [1, 2])
def test_after_two_hundred_changes_the_index_equals_a_new_one(seed: int, memory: Path, tmp_path: Path) -> None:
    chance = random.Random(seed)
    memory.mkdir(parents=True)
    index = tmp_path / "index.db"
    with FileStore(memory) as store:
        for number in range(200):
            change_one(memory, number, chance)
            if chance.random() < 0.6:
                refresh(store, index)
        refresh(store, index)
        refresh(store, tmp_path / "new.db")
    old, new = snapshot(index), snapshot(tmp_path / "new.db")
    for part, value in new.items():
        assert old[part] == value, part
    compare_candidates(index, tmp_path / "new.db")


def change_one(folder: Path, number: int, chance: random.Random) -> None:
    """Add, edit or remove one memory."""
    existing = sorted(folder.glob("*.md"))
    body = "\n".join(" ".join(chance.choices(WORDS, k=chance.randrange(1, 30))) for _ in range(chance.randrange(4)))
    what = chance.choice(["add", "add", "edit", "remove"]) if existing else "add"
    if what == "remove":
        chance.choice(existing).unlink()
    else:
        name = f"memory-{number}" if what == "add" else chance.choice(existing).stem
        write_memory(folder, name, f"About {chance.choice(WORDS)}", body + f"\n[[memory-{number // 2}]] word{number}")


def compare_candidates(first: Path, second: Path) -> None:
    """The same words lead to the same documents in both."""
    found = []
    for index in (first, second):
        with closing(Catalog(index, open_words())) as catalog:
            terms = catalog.find_terms(["cach", "queue", "缓存"])
            docs = catalog.find_candidates({term: 1.0 for term, _ in terms.values()}, 1_000)
            found.append(sorted(row.path for row in catalog.read_rows(docs)))
    assert found[0] == found[1] and found[0]


def find_index(store: FileStore) -> Path:
    path = store.find_index_file()
    assert path is not None
    return path


@pytest.mark.parametrize("damage", ["noise", "empty", "cut", "middle"])
def test_a_corrupt_index_is_made_anew_and_nobody_is_told(
    damage: str, store: FileStore, capfd: pytest.CaptureFixture[str]
) -> None:
    expected = ask(store.root, "part7 retry")
    index = find_index(store)
    whole = index.read_bytes()
    middle = whole[:4096] + random.Random(0).randbytes(len(whole) - 4096)
    index.write_bytes({"noise": b"no database " * 999, "empty": b"", "cut": whole[:5000], "middle": middle}[damage])
    assert ask(store.root, "part7 retry") == expected
    assert ask(store.root, "part7 retry") == expected
    assert capfd.readouterr() == ("", "")


def test_whichever_page_of_the_index_is_damaged_the_answer_is_the_same(store: FileStore) -> None:
    expected = ask(store.root, "part7 retry")
    index = find_index(store)
    whole = index.read_bytes()
    for start in range(0, len(whole), 4096):
        index.write_bytes(whole[:start] + random.Random(start).randbytes(4096) + whole[start + 4096 :])
        assert ask(store.root, "part7 retry") == expected, start


@pytest.mark.parametrize(
    "change", ["UPDATE totals SET value = 'older' WHERE name = 'kind'", "PRAGMA user_version = 99", "DROP TABLE totals"]
)
def test_an_index_of_another_version_is_made_anew(change: str, store: FileStore) -> None:
    index = find_index(store)
    refresh(store, index)
    with closing(sqlite3.connect(index)) as db, db:
        db.execute(change)
    assert len(refresh(store, index)) == 12
    assert refresh(store, index) == []
    assert ask(store.root, "part7")[:1] == ["note-7"]


def test_an_index_that_was_deleted_comes_back(store: FileStore) -> None:
    before = ask(store.root, "part7 shard")
    shutil.rmtree(find_index(store).parent)
    assert ask(store.root, "part7 shard") == before


@pytest.mark.parametrize("kind", ["hard", "symbolic", "folder"])
def test_an_index_that_is_a_link_or_a_folder_is_left_alone_and_the_answer_is_the_same(
    kind: str, store: FileStore, tmp_path: Path
) -> None:
    first, index, other = ask(store.root, "part3"), find_index(store), tmp_path / "backup.db"
    if kind == "hard":  # as a backup by `cp -al` leaves it
        other.hardlink_to(index)
    else:
        index.rename(other)
        index.symlink_to(other) if kind == "symbolic" else index.mkdir()
    kept = other.read_bytes()
    assert ask(store.root, "part3") == first
    assert store.scan() and other.read_bytes() == kept


def test_an_index_behind_a_linked_folder_is_not_taken_away(store: FileStore, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "index.db").write_bytes(b"somebody else's" * 100)
    (store.root / ".memdir").symlink_to(outside)
    with FileStore(store.root) as other:
        assert [pick.header.name for pick in ask_all([other], "part3")][:1] == ["note-3"]
        assert len(other.scan()) == 12
    assert (outside / "index.db").read_bytes() == b"somebody else's" * 100


def test_an_index_that_breaks_under_an_open_search_is_no_error(store: FileStore) -> None:
    with LocalSearch([store]) as search:
        assert search.refresh() == 12
        with closing(sqlite3.connect(find_index(store))) as db:
            db.execute("DROP TABLE files")
        write_memory(store.root, "fresh", "A fresh one")
        assert search.refresh() == 13


def test_a_read_only_directory_is_searched_and_nothing_is_written() -> None:
    open_words()
    with nobody_folder() as folder:

        def work() -> list[object]:
            memory = folder / "project" / "memory"
            write_some(memory, 12)
            memory.chmod(0o500)
            with FileStore(memory) as store:
                said: list[object] = [
                    store.find_index_file(),
                    [pick.header.name for pick in ask_all([store], "part3")][:1],
                ]
            said.append(sorted(at.name for at in memory.iterdir() if at.is_dir()))
            memory.chmod(0o700)
            return said

        try:
            done = run_in_child(work, as_nobody=True)
        except Unavailable as error:
            pytest.skip(str(error))
        assert not done.error, done.detail
        assert done.value == [None, ["note-3"], []]


def test_a_read_only_directory_without_a_cache_is_searched_all_the_same() -> None:
    open_words()
    with nobody_folder() as folder:

        def work() -> list[str]:
            write_some(folder / "memory", 12)
            (folder / "memory").chmod(0o500)
            found = ask(folder / "memory", "part7")
            (folder / "memory").chmod(0o700)
            return found

        try:
            done = run_in_child(work, as_nobody=True)
        except Unavailable as error:
            pytest.skip(str(error))
        assert not done.error, done.detail
        assert isinstance(done.value, list) and done.value[0] == "note-7"


def test_processes_that_refresh_at_once_lose_nothing(memory: Path, tmp_path: Path) -> None:
    write_some(memory, 300)
    pipe = subprocess.PIPE
    started = [
        subprocess.Popen([sys.executable, "-c", REFRESH, str(memory)], stdin=pipe, stderr=pipe, encoding="utf-8")
        for _ in range(3)
    ]
    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    for process in started:
        assert process.communicate()[1] == "" and process.returncode == 0
    with FileStore(memory) as store:
        index = find_index(store)
        assert refresh(store, index) == []
        refresh(store, tmp_path / "new.db")
        assert snapshot(index) == snapshot(tmp_path / "new.db")


def test_a_word_that_another_process_has_just_added_to_more_documents_than_were_counted_is_merely_common() -> None:
    totals = IndexTotals(docs=4, length=44, passages=8)
    assert totals.idf(5) == totals.idf(4) > 0


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A large directory with its index, to be copied."""
    folder = tmp_path_factory.mktemp("many") / "memory"
    write_some(folder, LARGE)
    write_memory(folder / "team", "shared", "What the team shares about rigging")
    settle(folder)
    with FileStore(folder) as store, LocalSearch([store]) as search:
        search.refresh()
    return folder


@pytest.fixture
def large(many: Path, memory: Path) -> Iterator[FileStore]:
    shutil.copytree(many, memory)
    settle(memory)
    with FileStore(memory) as store, LocalSearch([store]) as search:
        search.refresh()
        yield store


def settle(folder: Path) -> None:
    """As if the folders had last been changed a while ago: one that changed just now is listed again."""
    for path in (folder, folder / "team"):
        os.utime(path, (1_000_000_000, 1_000_000_000))


def ask_trusting(store: FileStore, text: str) -> list[str]:
    with LocalSearch([store], trusts=True) as search:
        found = search.find(Query(text, now=NOW, wide=True), 5, lambda scope, name: "")
    return [pick.header.name for pick in found if not pick.dropped]


def test_a_trusting_search_of_an_unchanged_directory_looks_at_folders_and_at_what_it_selects(large: FileStore) -> None:
    ask_trusting(large, "part7")  # what it needs is imported
    seen = trace(lambda: ask_trusting(large, "part7"))
    looked = [call for call in seen.calls if is_below(call, str(large.root))]
    assert not [call for call in looked if call.name.startswith("getdents")]
    files = {call.path for call in looked if call.path.endswith(".md")}
    assert f"{large.root}/note-7.md" in files and len(files) < 20
    with_all = trace(lambda: ask(large.root, "part7"))
    assert len({call.path for call in with_all.calls if call.path.endswith(".md")}) > LARGE


def test_a_trusting_search_sees_what_was_added_removed_replaced_or_moved(large: FileStore) -> None:
    root = large.root
    write_memory(root, "fresh", "About marmalade")
    assert ask_trusting(large, "marmalade") == ["fresh"]
    settle(root)
    assert ask_trusting(large, "marmalade") == ["fresh"]
    (root / "note-5.md").unlink()
    assert "note-5" not in ask_trusting(large, "part5")
    write_memory(root, "aside", "Now about gooseberries").replace(root / "note-6.md")
    assert ask_trusting(large, "gooseberries") == ["note-6"]
    write_memory(root / "deep" / "down", "new", "About sycamores")
    assert ask_trusting(large, "sycamores") == ["deep/down/new"]
    settle(root)
    (root / "deep" / "down" / "new.md").rename(root / "deep" / "down" / "other.md")
    assert ask_trusting(large, "sycamores") == ["deep/down/other"]
    assert ask_trusting(large, "rigging") == ["team/shared"]
    (root / "team").rename(root / "crew")
    assert ask_trusting(large, "rigging") == ["crew/shared"]
    shutil.rmtree(root / "deep")
    assert ask_trusting(large, "sycamores") == []
    with LocalSearch([large]) as search:
        assert search.refresh() == 0  # nothing was missed


def test_a_folder_that_is_set_back_to_its_old_time_is_still_seen_to_have_changed(large: FileStore) -> None:
    write_memory(large.root, "fresh", "About marmalade")
    settle(large.root)  # as rsync and tar do
    assert ask_trusting(large, "marmalade") == ["fresh"]


def test_a_file_overwritten_in_place_is_read_again_when_it_is_selected_and_found_by_new_words_after_a_refresh(
    large: FileStore,
) -> None:
    for name, word in (("note-3", "marmalade"), ("note-4", "gooseberries")):
        write_memory(large.root, name, f"Now about {word} and nothing else")
    assert ask_trusting(large, "marmalade") == []
    assert "note-3" not in ask_trusting(large, "part3")  # it was a candidate, and its file says something else
    assert ask_trusting(large, "marmalade") == ["note-3"]
    assert ask_trusting(large, "gooseberries") == []
    with LocalSearch([large]) as search:
        assert search.refresh() == 1
    assert ask_trusting(large, "gooseberries") == ["note-4"]


def test_a_file_that_was_just_written_is_read_alone(large: FileStore) -> None:
    paths = [write_memory(large.root, name, f"Now about {name}berries") for name in ("note-3", "note-4")]
    with LocalSearch([large]) as search:
        assert search.refresh_files([paths[0], large.root / "absent.md", Path("/tmp/elsewhere.md")]) == 1
    assert ask_trusting(large, "note-3berries")[:1] == ["note-3"]


def test_one_unreadable_file_does_not_make_every_search_list_the_directory(large: FileStore) -> None:
    path = large.root / "note-8.md"
    path.unlink()
    path.symlink_to("/nonexistent")  # listed as no file
    write_memory(large.root, "note-9", "Now about marmalade").chmod(0)
    settle(large.root)
    ask_trusting(large, "part7")
    seen = trace(lambda: ask_trusting(large, "part7"))
    assert not [call for call in seen.calls if call.name.startswith("getdents")]


@pytest.mark.slow
def test_after_two_hundred_changes_a_trusting_search_has_an_index_that_equals_a_new_one(
    large: FileStore, tmp_path: Path
) -> None:
    chance = random.Random(3)
    for number in range(200):
        name = chance.choice(sorted(large.root.rglob("*.md"))).relative_to(large.root).with_suffix("").as_posix()
        other = f"{chance.choice(['', 'team/', 'a/', 'a/b/'])}memory-{number}"
        match chance.randrange(4):
            case 0:
                (large.root / f"{name}.md").unlink()
            case 1:
                (large.root / f"{other}.md").parent.mkdir(parents=True, exist_ok=True)
                (large.root / f"{name}.md").rename(large.root / f"{other}.md")
            case 2:
                write_memory(large.root, f"aside-{number}", f"word{number}").replace(large.root / f"{name}.md")
            case _:
                write_memory((large.root / other).parent, other.rpartition("/")[2], f"About word{number}")
        if chance.random() < 0.3:
            ask_trusting(large, "cache")
    ask_trusting(large, "cache")
    refresh(large, tmp_path / "new.db")
    old, new = snapshot(find_index(large)), snapshot(tmp_path / "new.db")
    for part in ("df", "postings", "bodies", "files"):
        assert old[part] == new[part], part


def test_of_a_large_directory_a_users_memory_is_hidden_by_name_however_it_is_spelled(
    large: FileStore, tmp_path: Path
) -> None:
    with FileStore(tmp_path / "of" / "user", scope=Scope.USER) as user:
        write_memory(user.root, "NOTE-7", "Part7 as the person sees it", kind=Kind.USER)
        write_memory(user.root, "own", "Part7 of my own", kind=Kind.USER)
        with LocalSearch([large, user], trusts=True) as search:
            found = search.find(Query("part7", now=NOW, wide=True), 5, lambda scope, name: "")
    reasons = {pick.header.name: pick.dropped for pick in found}
    assert reasons["NOTE-7"] == HIDDEN and not reasons["own"] and not reasons["note-7"]
