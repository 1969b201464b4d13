"""The inbox: what waits is kept, the same thing waits once, and what was decided stays decided."""

import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import syscalls
from decisions import approve, reject
from loads import IS_FULL, ROOT
from memdir.errors import ConflictError, DiskError, FormatError, LockedError, NotFoundError
from memdir.frozen import replace
from memdir.postgres.store import PostgresStore
from memdir.records import (
    AddPointer,
    Draft,
    DropPointer,
    Edit,
    Forget,
    InboxItem,
    InboxKind,
    InboxState,
    Kind,
    Origin,
    ReplaceLine,
    Rewrite,
    Save,
)
from memdir.store import history
from memdir.store.files import FileStore
from memdir.store.inbox import (
    InboxQuote,
    find_evidence,
    find_payload_edits,
    mask_payload,
    parse_edits,
    render_edits,
    render_evidence,
)
from memdir.store.memory import MemoryStore
from memdir.testing import sample_memory
from syscalls import Ack, Progress
from tables import table

Store = FileStore | MemoryStore | PostgresStore
NOW = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)
ADD = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from memdir.records import InboxItem, InboxKind
from memdir.store.files import FileStore
store = FileStore(Path(sys.argv[1]), lock_seconds=300)
for number in range(5):
    keys = (f"same-{number}", f"{sys.argv[2]}-{number}")
    items = [InboxItem(InboxKind.MEMORY, "t", "w", datetime(2026, 1, 1, tzinfo=UTC), key) for key in keys]
    assert [at.key for at in store.inbox_add(items)] == list(keys)
"""


@pytest.fixture(params=["files", "ram", "postgres"])
def store(request: pytest.FixtureRequest, memory: Path) -> Store:
    if request.param == "postgres":
        made: PostgresStore = request.getfixturevalue("postgres").store(clock=lambda: NOW)
        return made
    return MemoryStore(clock=lambda: NOW) if request.param == "ram" else FileStore(memory, clock=lambda: NOW)


def item(key: str = "s1:4", *edits: Edit, title: str = "Deploy to staging first", name: str = "") -> InboxItem:
    payload = {"edits": render_edits(edits), "evidence": render_evidence([InboxQuote("deploy first", "web", "m4")])}
    origin = Origin("extractor", "", "s1")
    return InboxItem(InboxKind.MEMORY, title, "it came from a web page", NOW, key, name, origin, payload)


def add(store: Store, *items: InboxItem) -> tuple[int, ...]:
    return tuple(at.id for at in store.inbox_add(items))


def test_the_same_thing_waits_once(store: Store) -> None:
    first = store.inbox_add([item("a"), item("b")])
    later = replace(item("a"), at=NOW + timedelta(days=1))
    assert store.inbox_add([later, item("b")]) == first
    assert store.inbox() == first
    assert add(store, item(""), item("")) == (3, 4), "without a key every item is another"
    assert store.inbox_add([]) == () and len(store.inbox()) == 4


def test_another_text_under_the_same_key_gets_another_number(store: Store) -> None:
    assert add(store, item("a", title="What the person saw")) == (1,)
    assert add(store, item("a", title="What came later")) == (2,)
    assert [at.title for at in store.inbox()] == ["What came later"]
    with pytest.raises(NotFoundError):
        store.inbox_item(1)


def test_what_was_decided_is_not_asked_again(store: Store) -> None:
    add(store, item("a"), item("b"))
    done = store.inbox_decide(1, InboxState.REJECTED, "not ours")
    assert (done.state, done.decided, done.note) == (InboxState.REJECTED, NOW, "not ours")
    assert store.inbox_add([item("a", title="Other words")]) == (done,)
    assert [at.key for at in store.inbox()] == ["b"]
    assert [at.key for at in store.inbox("rejected")] == ["a"] and len(store.inbox(None)) == 2
    with pytest.raises(NotFoundError):
        store.inbox_decide(99, "approved")
    with pytest.raises(ConflictError):
        store.inbox_decide(1, "approved", was=InboxState.WAITING)
    assert store.inbox_find("a") == done


def test_a_repeated_run_replaces_what_its_earlier_one_left_waiting(store: Store) -> None:
    add(store, item("s1:4:a"), item("s1:4:b"), item("s1:4:c"), item("s1:40:a"), item("s%:4"))
    store.inbox_decide(2, "approved")
    answer = store.inbox_replace("s1:4:", [item("s1:4:a"), item("s1:4:b"), item("s1:4:d")])
    assert [at.id for at in answer] == [1, 2, 6]
    assert [at.key for at in store.inbox(None)] == ["s1:4:a", "s1:4:b", "s1:40:a", "s%:4", "s1:4:d"]
    store.inbox_replace("s1:4:", [])
    assert [at.key for at in store.inbox(None)] == ["s1:4:b", "s1:40:a", "s%:4"]
    for prefix, given in (("", []), ("s1:4:", [item("s2:1")])):
        with pytest.raises(FormatError):
            store.inbox_replace(prefix, given)


def test_a_payload_that_is_no_json_leaves_nothing_behind(store: Store) -> None:
    with pytest.raises(FormatError):
        store.inbox_add([item("a"), replace(item("b"), payload={"x": object()})])
    assert store.inbox() == ()
    odd = replace(item("c \ud800"), title="a \ud800 title", payload={"text": "\ud800 \x00 ü"})
    (kept,) = store.inbox_add([odd])
    assert kept.payload == odd.payload == store.inbox_item(kept.id).payload and "\ud800" not in kept.title
    assert store.inbox_add([odd]) == (kept,)


def test_a_failure_is_told(memory: Path) -> None:
    with FileStore(memory) as store:
        store.inbox_add([item()])
    with closing(sqlite3.connect(store.state / history.FILE)) as db:
        db.execute("DROP TABLE inbox")
    with pytest.raises(DiskError):
        store.inbox_add([item("b")])
    other = FileStore(memory, lock_seconds=0)
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        with FileStore(memory)._holding():
            held.set()
            free.wait(30)

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait(30)
    with pytest.raises(LockedError):
        other.inbox_add([item("c")])
    free.set()
    thread.join()


def test_processes_add_at_once_and_nothing_waits_twice(memory: Path) -> None:
    env = {"PYTHONPATH": str(ROOT / "src")}
    running = [subprocess.Popen([sys.executable, "-c", ADD, str(memory), f"p{at}"], env=env) for at in range(8)]
    assert [process.wait(300) for process in running] == [0] * 8
    keys = [at.key for at in FileStore(memory).inbox()]
    assert len(keys) == len(set(keys)) == 5 + 8 * 5


def test_edits_come_back_as_they_were() -> None:
    full = Draft(Kind.USER, "Title", "Some words here", "Body\n", "sub/name", True)
    memories = (Save(full), Save(sample_memory(), "d1"), Rewrite("a", "text", "d2"), Forget("b"), Forget("c", "d3"))
    edits: tuple[Edit, ...] = (*memories, AddPointer("a"), DropPointer("b"), ReplaceLine("c", "- was", "- is"))
    assert parse_edits(render_edits(edits)) == edits == find_payload_edits({"edits": render_edits(edits)})
    assert find_payload_edits({}) == ()


@table(
    "wrong",
    ["save", 7, [7], [{}], [{"edit": "shell"}], [{"edit": "forget"}], [{"edit": "rewrite", "name": "a", "text": "b"}]],
)
def test_an_edit_that_cannot_be_understood_is_refused(wrong: object) -> None:
    with pytest.raises(FormatError):
        parse_edits(wrong)


def test_a_type_that_is_none_is_refused() -> None:
    (good,) = render_edits([Save(sample_memory())])
    for field, value in (("type", "mood"), ("type", None), ("body", 7), ("name", 7), ("expect", 7)):
        with pytest.raises(FormatError):
            parse_edits([{**good, field: value}])


def test_evidence_is_read_forgivingly() -> None:
    quotes = (InboxQuote("said so", "message", "m1"), InboxQuote("and so", "tool"))
    assert find_evidence({"evidence": render_evidence(quotes)}) == quotes
    assert find_evidence({"evidence": "words"}) == (InboxQuote("words"),)
    assert find_evidence({"evidence": [7, "w", {"quote": 1}, {}]}) == (InboxQuote("w"),) and find_evidence({}) == ()


def test_secrets_are_masked_wherever_they_stand() -> None:
    payload = {"secrets": ["abc", "abcdef", "", 7], "edits": [{"body": "key abcdef, old abc"}]}
    assert mask_payload(payload["edits"], payload) == [{"body": "key [masked], old [masked]"}]
    assert mask_payload("abc", {}) == "abc"


def test_approving_does_what_the_item_says_and_undo_takes_it_back(store: Store) -> None:
    old = store.write(sample_memory(title="Second"))
    edits = (Save(sample_memory()), Rewrite("second", old.text + "More.\n", old.digest))
    (kept,) = store.inbox_add([item("a", *edits)])
    done = approve(store, kept)
    assert done is not None and done.change == 2 and done.names == ("terse-replies", "second")
    change = store.changes()[0]
    assert change.verb == "approve" and change.origin.who == "person" and "inbox item 1" in change.origin.why
    assert change.origin.session == "", "the session that proposed it did not write it"
    after = store.inbox_item(1)
    assert after.state is InboxState.APPROVED and after.name == "terse-replies" and after.decided == NOW
    store.undo()
    assert [at.name for at in store.scan()] == ["second"] and store.read("second").digest == old.digest


def test_what_a_person_rejects_changes_nothing_and_can_still_be_approved(store: Store) -> None:
    (kept,) = store.inbox_add([item("a", Save(sample_memory()))])
    assert reject(store, kept, note="no").state is InboxState.REJECTED
    assert store.scan() == () and store.changes() == ()
    with pytest.raises(ConflictError):
        reject(store, kept)
    assert approve(store, store.inbox_item(1)).change is not None
    assert store.read("terse-replies") and store.inbox_item(1).state is InboxState.APPROVED
    for again in (approve, reject):
        with pytest.raises(ConflictError, match="already approved"):
            again(store, store.inbox_item(1))


def test_a_target_that_changed_meanwhile_is_a_conflict_and_the_item_waits_on(store: Store) -> None:
    old = store.write(sample_memory())
    (kept,) = store.inbox_add([item("a", Rewrite("terse-replies", old.text + "More.\n", old.digest))])
    store.edit("terse-replies", old.text + "Mine.\n", expect=old.digest)
    with pytest.raises(ConflictError) as caught:
        approve(store, kept)
    assert "inbox" in caught.value.hint
    assert store.inbox() == (kept,) and "Mine." in store.read("terse-replies").text


def test_an_approval_is_only_recorded(store: Store) -> None:
    asked = InboxItem(InboxKind.APPROVAL, "include", "outside", NOW, "include:/x", payload={"include": "/x", "by": "y"})
    (kept,) = store.inbox_add([asked])
    assert approve(store, kept).change is None and store.changes() == ()
    found = store.inbox_find("include:/x")
    assert found is not None and found.state is InboxState.APPROVED


def test_an_item_that_cannot_be_understood_is_not_carried_out(store: Store) -> None:
    for payload in ({"edits": [{"edit": "shell"}]}, {}):
        (kept,) = store.inbox_add([replace(item(""), payload=payload)])
        with pytest.raises(FormatError):
            approve(store, kept)
    assert len(store.inbox()) == 2


@pytest.mark.slow
def test_killed_anywhere_an_approval_is_carried_out_once(tmp_path: Path) -> None:
    if reason := syscalls.is_supported():
        pytest.skip(reason)
    origin = tmp_path / "origin"
    with FileStore(origin) as store:
        store.write(sample_memory(title="Second"))
        store.inbox_add([item("a", Save(sample_memory()))])

    def make() -> Path:
        place = Path(tempfile.mkdtemp(dir=tmp_path))
        shutil.copytree(origin, place / "memory")
        return place / "memory"

    def action(place: Path, ack: Ack) -> None:
        store = FileStore(place)
        approve(store, store.inbox_item(1))
        ack(b"done")

    def check(progress: Progress[Path]) -> None:
        with FileStore(progress.place) as store:
            kept = store.inbox_item(1)
            if progress.acked:
                assert kept.state is InboxState.APPROVED
            if kept.state is InboxState.WAITING:
                approve(store, kept)
            assert [at.verb for at in store.changes()] == ["approve", "save"] and store.read("terse-replies")
            assert store.inbox_item(1).state is InboxState.APPROVED
        shutil.rmtree(progress.place.parent)

    swept = syscalls.kill_sweep(action, setup=make, check=check, every=1 if IS_FULL else 3)
    assert swept.points > (30 if IS_FULL else 10)


def test_purging_a_memory_takes_it_out_of_the_inbox(memory: Path) -> None:
    secret = "zebracrossing"
    store = FileStore(memory, clock=lambda: NOW)
    store.write(sample_memory(title="Neighbour"))
    body = Draft(Kind.PROJECT, "Stripes", f"Nightly {secret} of the herd", f"{secret} body", "stripes")
    untitled = replace(body, title=f"The {secret}", name=None)
    add(
        store,
        item("k1", Save(body), title=f"{secret} one"),
        item("k2", title=f"{secret} two", name="stripes"),
        item("k3", Forget("stripes"), title=f"{secret} three"),
        item("k4", Save(untitled), title=f"{secret} four"),
        item("of stripes", title=f"{secret} five", name="stripes"),
        item("k6", Forget("neighbour"), title="of another"),
    )
    approve(store, store.inbox_item(1))
    done = approve(store, store.inbox_item(4))
    assert done is not None and done.names == (f"the-{secret}",)
    closed = {store.inbox_item(number).note for number in (2, 3, 5)}  # they are about the same memory
    assert len(closed) == 1 and "closed with item 1" in closed.pop()
    reject(store, store.inbox_item(6), note="another")
    store.purge("stripes")
    store.purge(f"the-{secret}")
    assert [(at.key, at.state.value, at.title) for at in store.inbox(None)] == [
        ("k1", "approved", ""),
        ("k2", "rejected", ""),
        ("k3", "rejected", ""),
        ("k4", "approved", ""),
        ("k6", "rejected", "of another"),
    ]
    store.close()
    for path in memory.rglob("*"):
        if path.is_file():
            assert secret.encode() not in path.read_bytes(), f"{path.name} still holds it"


def test_what_is_in_the_inbox_only_can_be_purged_too(memory: Path) -> None:
    store = FileStore(memory)
    add(store, item("a", Save(sample_memory())))
    store.purge("terse-replies")
    assert store.inbox(None) == ()
    with pytest.raises(NotFoundError):
        store.purge("terse-replies")
