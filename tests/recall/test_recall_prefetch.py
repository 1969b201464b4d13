import threading
from collections.abc import Sequence
from pathlib import Path

import pytest

from memdir.errors import DiskError, MemdirError
from memdir.frozen import replace
from memdir.recall.pipeline import RecallRequest, RecallSkip
from memdir.recall.prefetch import Prefetch
from memdir.records import Header, Pick, Query, Selector
from memdir.store.files import FileStore
from memdir.store.sessions import SessionFile
from recall_stores import NOW, overlap, put


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
    return SessionFile(store.state, "s1")


def ask(
    store: FileStore, session: SessionFile | None, text: str, selector: Selector = overlap, tools: tuple[str, ...] = ()
) -> RecallRequest:
    return RecallRequest([store], text, selector, NOW, session, tools)


def join_threads() -> None:
    for thread in threading.enumerate():
        if thread.name == "memdir-prefetch":
            thread.join(30)


def test_a_result_is_taken_once_and_counts_as_surfaced_then(store: FileStore, session: SessionFile) -> None:
    prefetch = Prefetch()
    assert prefetch.take() is None
    prefetch.start(ask(store, session, "the deploy steps", tools=("Bash",)))
    join_threads()
    assert session.read().surfaced == {} and store.recalls() == (), "nothing counts before it is taken"
    found = prefetch.take()
    assert found is not None and [at.header.name for at in found.memories] == ["deploy-steps", "deploy-freeze"]
    assert set(session.read().surfaced) == {"deploy-steps", "deploy-freeze"} and len(store.recalls()) == 2
    assert prefetch.take() is None


def test_taking_waits_only_as_long_as_asked(store: FileStore, session: SessionFile) -> None:
    gated, prefetch = Gated(), Prefetch()
    prefetch.start(ask(store, session, "the deploy steps", gated))
    assert gated.entered.acquire(timeout=30)
    assert prefetch.take() is None and prefetch.take(0.001) is None
    gated.gate.release()
    assert prefetch.take(30) is not None


def test_after_cancel_nothing_is_returned_and_nothing_counts(store: FileStore, session: SessionFile) -> None:
    gated, prefetch = Gated(), Prefetch()
    prefetch.start(ask(store, session, "the deploy steps", gated))
    assert gated.entered.acquire(timeout=30)
    prefetch.cancel()
    prefetch.cancel()
    gated.gate.release()
    join_threads()
    assert prefetch.take() is None
    prefetch.start(ask(store, session, "the deploy steps"))
    join_threads()
    prefetch.cancel()
    assert prefetch.take() is None and session.read().surfaced == {} and store.recalls() == ()


def test_starting_again_drops_the_one_before(store: FileStore, session: SessionFile) -> None:
    gated, prefetch = Gated(), Prefetch()
    for text in ("the deploy steps", "a coffee order"):
        prefetch.start(ask(store, session, text, gated))
        assert gated.entered.acquire(timeout=30)
    gated.gate.release(2)
    found = prefetch.take(30)
    join_threads()
    assert found is not None and found.query == "a coffee order"
    assert list(session.read().surfaced) == ["coffee-order"] and prefetch.take() is None


def test_a_recall_that_fails_raises_once_when_it_is_taken(store: FileStore, session: SessionFile) -> None:
    def failing(*_: object) -> list[Pick]:
        raise DiskError("the disk is on fire")

    prefetch = Prefetch()
    prefetch.start(ask(store, session, "the deploy steps", failing))
    with pytest.raises(MemdirError, match="the disk is on fire"):
        prefetch.take(30)
    assert prefetch.take() is None
    prefetch.start(replace(ask(store, session, "deploy"), is_message=True))
    found = prefetch.take(30)
    assert found is not None and found.skipped is RecallSkip.ONE_WORD


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_bug_in_a_selector_does_not_reach_the_host(store: FileStore, session: SessionFile) -> None:
    def buggy(*_: object) -> list[Pick]:
        raise ZeroDivisionError

    prefetch = Prefetch()
    prefetch.start(ask(store, session, "the deploy steps", buggy))
    join_threads()
    assert prefetch.take() is None


def test_of_many_threads_one_gets_the_result(store: FileStore, session: SessionFile) -> None:
    prefetch = Prefetch()
    prefetch.start(ask(store, session, "the deploy steps"))
    taken: list[object] = []
    threads = [threading.Thread(target=lambda: taken.append(prefetch.take(30))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len([at for at in taken if at is not None]) == 1 and len(store.recalls()) == 2


def test_the_thread_does_not_keep_a_process_alive(store: FileStore) -> None:
    gated = Gated()
    Prefetch().start(ask(store, None, "the deploy steps", gated))
    assert gated.entered.acquire(timeout=30)
    (thread,) = [at for at in threading.enumerate() if at.name == "memdir-prefetch"]
    assert thread.daemon
    gated.gate.release()
    thread.join(30)
