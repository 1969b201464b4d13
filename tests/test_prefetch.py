import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from memdir.errors import DiskError
from memdir.recall import RecallRequest, RecallSkip
from memdir.records import Header, Pick, Query
from memdir.session import Prefetch
from memdir.store.files import FileStore
from memdir.store.sessions import SessionFile, open_session
from recalling import NOW, overlap, put


class Gated:
    """A selector that waits at a gate, so that a test decides when it goes on; it must not wait for ever."""

    def __init__(self) -> None:
        self.entered, self.gate = threading.Semaphore(0), threading.Semaphore(0)

    def __call__(self, query: Query, headers: Sequence[Header], limit: int) -> list[Pick]:
        self.entered.release()
        assert self.gate.acquire(timeout=30)
        return overlap(query, headers, limit)


@pytest.fixture
def store(memory: Path) -> FileStore:
    store = FileStore(memory)
    for name in ("deploy-steps", "deploy-freeze", "coffee-order"):
        put(store, name)
    return store


@pytest.fixture
def session(store: FileStore) -> SessionFile:
    return open_session(store.state, "s1")


def make(store: FileStore, session: SessionFile | None, selector: object = overlap) -> Prefetch:
    return Prefetch(RecallRequest([store], "", selector, NOW, session), clock=lambda: NOW)  # type: ignore[arg-type]


def wait(prefetch: Prefetch) -> None:
    """Until the thread of the present run has ended; the object itself offers no way to wait, on purpose."""
    for thread in threading.enumerate():
        if thread.name == "memdir-prefetch":
            thread.join(30)
    assert prefetch.poll()


def test_what_was_started_can_be_taken_once_and_counts_as_surfaced_then(store: FileStore, session: SessionFile) -> None:
    prefetch = make(store, session)
    assert not prefetch.poll() and prefetch.take() is None
    prefetch.start("the deploy steps", tools=["Bash"])
    wait(prefetch)
    assert session.read().surfaced == {} and store.recalls() == (), "nothing counts before it is taken"
    found = prefetch.take()
    assert found is not None and [at.header.name for at in found.memories] == ["deploy-steps", "deploy-freeze"]
    assert set(session.read().surfaced) == {"deploy-steps", "deploy-freeze"} and len(store.recalls()) == 2
    assert prefetch.take() is None and not prefetch.poll()


def test_taking_never_waits(store: FileStore, session: SessionFile) -> None:
    gated = Gated()
    prefetch = make(store, session, gated)
    prefetch.start("the deploy steps")
    assert gated.entered.acquire(timeout=30)
    assert not prefetch.poll() and prefetch.take() is None and prefetch.problem == ""
    gated.gate.release()
    wait(prefetch)
    assert prefetch.take() is not None


def test_after_cancel_nothing_is_given_and_nothing_counts(store: FileStore, session: SessionFile) -> None:
    gated = Gated()
    prefetch = make(store, session, gated)
    prefetch.start("the deploy steps")
    assert gated.entered.acquire(timeout=30)
    prefetch.cancel()
    prefetch.cancel()
    gated.gate.release()
    for thread in threading.enumerate():
        if thread.name == "memdir-prefetch":
            thread.join(30)
    assert not prefetch.poll() and prefetch.take() is None
    done = make(store, session)
    done.start("the deploy steps")
    wait(done)
    done.cancel()
    assert done.take() is None and session.read().surfaced == {} and store.recalls() == ()


def test_starting_again_drops_the_one_before(store: FileStore, session: SessionFile) -> None:
    gated = Gated()
    prefetch = make(store, session, gated)
    prefetch.start("the deploy steps")
    assert gated.entered.acquire(timeout=30)
    prefetch.start("a coffee order")
    assert gated.entered.acquire(timeout=30)
    gated.gate.release(2)
    wait(prefetch)
    found = prefetch.take()
    assert found is not None and found.query == "a coffee order"
    assert list(session.read().surfaced) == ["coffee-order"] and prefetch.take() is None


def test_a_recall_that_fails_is_an_empty_one(store: FileStore, session: SessionFile) -> None:
    def failing(*_: object) -> list[Pick]:
        raise DiskError("the disk is on fire")

    prefetch = make(store, session, failing)
    prefetch.start("the deploy steps")
    wait(prefetch)
    assert prefetch.problem == "the disk is on fire" and prefetch.take() is None and prefetch.problem == ""
    prefetch.start("deploy")
    wait(prefetch)
    found = prefetch.take()
    assert found is not None and found.skipped is RecallSkip.ONE_WORD


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_a_selector_does_not_reach_the_host(store: FileStore, session: SessionFile) -> None:
    def buggy(*_: object) -> list[Pick]:
        raise ZeroDivisionError

    prefetch = make(store, session, buggy)
    prefetch.start("the deploy steps")
    wait(prefetch)
    assert prefetch.take() is None


def test_many_takers_get_it_once(store: FileStore, session: SessionFile) -> None:
    prefetch = make(store, session)
    prefetch.start("the deploy steps")
    wait(prefetch)
    taken: list[object] = []
    threads = [threading.Thread(target=lambda: taken.append(prefetch.take())) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([at for at in taken if at is not None]) == 1 and len(store.recalls()) == 2


def test_the_thread_does_not_keep_a_process_alive(store: FileStore) -> None:
    gated = Gated()
    make(store, None, gated).start("the deploy steps")
    assert gated.entered.acquire(timeout=30)
    (thread,) = [at for at in threading.enumerate() if at.name == "memdir-prefetch"]
    assert thread.daemon
    gated.gate.release()
    thread.join(30)
