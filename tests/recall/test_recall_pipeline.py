import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from loads import ROOT
from memdir.errors import DiskError
from memdir.frozen import replace
from memdir.limits import CONVERSATION_BYTES, SURFACED_BYTES, SURFACED_LINES
from memdir.recall.pipeline import (
    OVER_BUDGET,
    READ,
    SURFACED,
    UNREADABLE,
    RecallRequest,
    RecallSkip,
    find_key,
    find_recalled,
    make_excerpt,
    recall,
)
from memdir.recall.select import HIDDEN
from memdir.records import Evidence, Header, Kind, Pick, Query, Scope
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from memdir.store.sessions import SessionFile
from memdir.testing import sample_memory
from recall_stores import NOW, overlap, put
from tables import read_rows, table

ROWS = read_rows("recall_pipeline")


@pytest.fixture
def store(memory: Path) -> FileStore:
    store = FileStore(memory)
    for name in ("deploy-steps", "deploy-freeze", "coffee-order"):
        put(store, name)
    return store


@pytest.fixture
def session(store: FileStore) -> SessionFile:
    return SessionFile(store.state, "s1")


def names(found: Sequence[object]) -> list[str]:
    return [at.header.name for at in found]  # type: ignore[attr-defined]


def test_no_more_than_asked_for_and_five_by_default() -> None:
    store = MemoryStore()
    for number in range(8):
        put(store, f"deploy-{number}")
    assert len(recall([store], "the deploy steps", selector=overlap, now=NOW).memories) == 5
    assert len(recall([store], "the deploy steps", selector=overlap, now=NOW, limit=7).memories) == 7
    greedy = recall([store], "the deploy", selector=lambda *asked: overlap(asked[0], asked[1], 99), now=NOW, limit=2)
    assert len(greedy.memories) == 2
    assert recall([store], "the deploy", selector=overlap, now=NOW, limit=0).skipped is RecallSkip.NOTHING_FITS


def test_an_honest_empty_answer_says_which_kind_it_is(store: FileStore, tmp_path: Path) -> None:
    assert recall([], "how do we deploy", selector=overlap, now=NOW).skipped is RecallSkip.EMPTY
    assert recall([MemoryStore()], "how do we deploy", selector=overlap, now=NOW).skipped is RecallSkip.EMPTY
    nowhere = FileStore(tmp_path / "nowhere" / "memory")
    assert recall([nowhere], "how do we deploy", selector=overlap, now=NOW).skipped is RecallSkip.EMPTY
    assert not nowhere.root.exists()
    assert recall([store], "quantum physics today", selector=overlap, now=NOW).skipped is RecallSkip.NOTHING_FITS


@pytest.mark.parametrize(
    ("query", "switches", "skip"),
    [
        ("how do we deploy", {"on": False}, RecallSkip.OFF),
        ("how do we deploy", {"paused": True}, RecallSkip.PAUSED),
        ("deploy", {}, RecallSkip.ONE_WORD),
        ("Ignore memory. how do we deploy", {}, RecallSkip.IGNORE_TURN),
    ],
)
def test_a_shut_gate_reads_no_memory(query: str, switches: dict[str, bool], skip: RecallSkip, store: FileStore) -> None:
    def never(*_: object) -> list[Pick]:
        raise AssertionError("nobody may be asked")

    on, paused = switches.get("on", True), switches.get("paused", False)
    found = find_recalled(RecallRequest([store], query, never, NOW, on=on, paused=paused, is_message=True))
    assert found.skipped is skip and found.memories == () == found.picks


def test_a_memory_is_surfaced_once_in_a_conversation(store: FileStore, session: SessionFile) -> None:
    first = recall([store], "the deploy steps", selector=overlap, now=NOW, session=session, limit=1)
    assert names(first.memories) == ["deploy-steps"]
    assert session.read().surfaced["deploy-steps"].digest == first.memories[0].digest
    assert session.read().surfaced_bytes == first.memories[0].size
    offered: list[str] = []

    def watching(query: Query, headers: Sequence[Header], limit: int) -> list[Pick]:
        offered.extend(header.name for header in headers)
        return overlap(query, headers, limit)

    second = recall([store], "the deploy steps", selector=watching, now=NOW, session=session)
    assert sorted(offered) == ["coffee-order", "deploy-freeze"], "it is taken out before selection"
    assert names(second.memories) == ["deploy-freeze"]
    assert [(pick.header.name, pick.dropped) for pick in second.picks] == [
        ("deploy-freeze", ""),
        ("deploy-steps", SURFACED),
    ]
    third = recall([store], "the deploy steps", selector=overlap, now=NOW, session=session)
    assert third.skipped is RecallSkip.NOTHING_FITS
    other = recall([store], "the deploy steps", selector=overlap, now=NOW, session=SessionFile(store.state, "s2"))
    assert len(other.memories) == 2
    session.reset()
    assert len(recall([store], "the deploy steps", selector=overlap, now=NOW, session=session).memories) == 2


def test_what_the_agent_read_itself_is_not_told_again(store: FileStore, session: SessionFile) -> None:
    key = find_key(session, [store], store.root / "deploy-steps.md")
    assert key == "deploy-steps"
    assert find_key(session, [store], store.root / "x.txt") is None is find_key(session, [store], Path("/etc/hosts.md"))
    session.note_read([key])
    found = recall([store], "the deploy steps", selector=overlap, now=NOW, session=session)
    assert names(found.memories) == ["deploy-freeze"]
    assert [pick.dropped for pick in found.picks] == ["", READ]


def test_after_sixty_thousand_bytes_recall_stops_until_reset(memory: Path) -> None:
    store = FileStore(memory, skip_index=True)
    for number in range(16):
        put(store, f"deploy-{number:02}", body="x" * SURFACED_BYTES)
    session = SessionFile(store.state, "s1")
    surfaced = 0
    for _ in range(5):
        found = recall([store], "the deploy", selector=overlap, now=NOW, session=session)
        surfaced += sum(memory.size for memory in found.memories)
        assert session.read().surfaced_bytes == surfaced <= CONVERSATION_BYTES
    assert found.skipped is RecallSkip.BUDGET and surfaced == 14 * SURFACED_BYTES
    assert {pick.dropped for pick in found.picks} == {OVER_BUDGET, SURFACED}
    put(store, "deploy-small", body="short")
    small = recall([store], "deploy small things", selector=overlap, now=NOW, session=session)
    assert names(small.memories) == ["deploy-small"], "what still fits is told"
    session.reset()
    assert recall([store], "the deploy", selector=overlap, now=NOW, session=session).memories


def test_a_wish_for_the_conversation_is_kept_and_can_be_taken_back(store: FileStore, session: SessionFile) -> None:
    def ask(text: str) -> RecallSkip | None:
        return recall([store], text, selector=overlap, now=NOW, session=session).skipped

    assert ask("Ignore memory for this conversation. the deploy steps") is RecallSkip.IGNORE_CONVERSATION
    assert ask("the deploy steps") is RecallSkip.IGNORE_CONVERSATION
    assert session.read().ignoring
    session.reset()
    assert ask("the deploy steps") is RecallSkip.IGNORE_CONVERSATION
    assert ask("You can use your memory again. the deploy steps") is None
    assert not session.read().ignoring
    assert ask("Ignore memory. the deploy freeze") is RecallSkip.IGNORE_TURN
    session.set_private()
    assert ask("the deploy freeze") is RecallSkip.PRIVATE


def test_private_team_and_user_memories_are_recalled_together_and_the_projects_name_wins(tmp_path: Path) -> None:
    project, user = FileStore(tmp_path / "p" / "memory"), FileStore(tmp_path / "u" / "memory", scope=Scope.USER)
    put(project, "deploy-steps", body="The project's.")
    put(project, "team/deploy-rota", kind=Kind.REFERENCE)
    put(user, "Deploy-Steps", body="The user's.")
    put(user, "deploy-mood")
    found = recall([project, user], "about deploy", selector=overlap, now=NOW)
    told = {memory.header.name: memory for memory in found.memories}
    assert set(told) == {"deploy-steps", "deploy-mood"}
    assert told["deploy-steps"].text == "The project's."
    assert told["deploy-mood"].path == str(user.root / "deploy-mood.md")
    assert [pick.dropped for pick in found.picks if pick.header.name == "Deploy-Steps"] == [HIDDEN]
    team = recall([project, user], "the team/deploy rota", selector=overlap, now=NOW)
    assert team.memories[0].header.scope is Scope.TEAM


def test_a_users_memory_is_not_named_in_the_projects_record_and_noted_in_its_own_ledger(tmp_path: Path) -> None:
    project, user = FileStore(tmp_path / "p" / "memory"), FileStore(tmp_path / "u" / "memory", scope=Scope.USER)
    put(project, "deploy-steps")
    put(user, "deploy-mood")
    session = SessionFile(project.state, "s1")
    assert len(recall([project, user], "the deploy", selector=overlap, now=NOW, session=session).memories) == 2
    assert len(recall([project, user], "the deploy", selector=overlap, now=NOW, session=session).memories) == 0
    assert "deploy-mood" not in session.path.read_text(encoding="utf-8")
    assert [at.name for at in project.recalls()] == ["deploy-steps"]
    (row,) = user.recalls("deploy-mood")
    assert (row.at, row.query, row.session, row.selector) == (NOW, "the deploy", "s1", "local")
    assert find_key(session, [project, user], user.root / "deploy-mood.md") in session.read().surfaced


def test_agents_of_one_name_are_kept_apart(tmp_path: Path) -> None:
    stores = [FileStore(tmp_path / at / "memory", scope=Scope.AGENT) for at in ("user", "project")]
    for number, store in enumerate(stores):
        put(store, "deploy-steps", body=f"number {number}")
    found = recall(stores, "the deploy", selector=overlap, now=NOW)
    assert sorted(memory.text for memory in found.memories) == ["number 0", "number 1"]


def test_a_memory_or_directory_that_cannot_be_read_costs_nothing_else(store: FileStore) -> None:
    class Broken(MemoryStore):
        def scan(self) -> tuple[Header, ...]:
            raise DiskError("no")

    def with_a_ghost(query: Query, headers: Sequence[Header], limit: int) -> list[Pick]:
        ghost = replace(headers[0], name="deploy-ghost")
        return [Pick(ghost, 9.0, Evidence()), *overlap(query, headers, limit)]

    found = recall([Broken(), store], "the deploy", selector=with_a_ghost, now=NOW)
    assert names(found.memories) == ["deploy-freeze", "deploy-steps"]
    assert [(pick.header.name, pick.dropped) for pick in found.picks][-1] == ("deploy-ghost", UNREADABLE)


def test_a_record_that_cannot_be_kept_costs_no_memory(store: FileStore, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "sessions").write_bytes(b"")
    session = SessionFile(tmp_path / "state", "s1")
    assert len(recall([store], "the deploy", selector=overlap, now=NOW, session=session).memories) == 2
    assert recall([store], "From now on, ignore memory.", selector=overlap, now=NOW, session=session).skipped


def test_two_recalls_at_once_do_not_surface_the_same_memory_twice(store: FileStore, session: SessionFile) -> None:
    def interrupted(query: Query, headers: Sequence[Header], limit: int) -> list[Pick]:
        if not session.read().surfaced:
            recall([store], "the deploy steps", selector=overlap, now=NOW, session=session, limit=1)
        return overlap(query, headers, limit)

    found = recall([store], "the deploy steps", selector=interrupted, now=NOW, session=session)
    assert names(found.memories) == ["deploy-freeze"]
    assert [pick.dropped for pick in found.picks] == ["", SURFACED]
    assert len(store.recalls("deploy-steps")) == 1


def test_a_selector_that_knows_the_stores_needs_no_scan(store: FileStore, session: SessionFile) -> None:
    class Knowing:
        name = "knowing"

        def find(self, query: Query, limit: int, drop: Callable[[Scope, str], str]) -> list[Pick]:
            headers = [header for header in store.scan() if not drop(header.scope, header.name)]
            picks = overlap(query, headers, 99)
            return [*picks[:limit], *(replace(pick, dropped="others fit better") for pick in picks[limit:])]

    first = recall([store], "the deploy steps", selector=Knowing(), now=NOW, session=session, limit=1)
    assert names(first.memories) == ["deploy-steps"] and first.selector == "knowing"
    assert [pick.dropped for pick in first.picks] == ["", "others fit better"]
    second = recall([store], "the deploy steps", selector=Knowing(), now=NOW, session=session, limit=1)
    assert names(second.memories) == ["deploy-freeze"]
    assert recall([store], "quantum physics", selector=Knowing(), now=NOW).skipped is RecallSkip.NOTHING_FITS


@table(
    "body lines size",
    [
        ("short", 1, 5),
        ("\n".join(["line"] * SURFACED_LINES), SURFACED_LINES, 5 * SURFACED_LINES - 1),
        ("\n".join(["line"] * (SURFACED_LINES + 1)), SURFACED_LINES, 5 * SURFACED_LINES - 1),
        ("x" * SURFACED_BYTES, 1, SURFACED_BYTES),
        ("x" * (SURFACED_BYTES + 1), 1, SURFACED_BYTES),
        ("é" * SURFACED_BYTES, 1, SURFACED_BYTES),
        ("語" * SURFACED_BYTES, 1, SURFACED_BYTES - SURFACED_BYTES % 3),
        ("\n".join(["x" * 999] * 10), 4, 3999),
    ],
)
def test_an_excerpt_is_cut_between_lines_and_never_inside_a_character(body: str, lines: int, size: int) -> None:
    store = put(MemoryStore(), "long", body=body)
    cut = make_excerpt(store.read("long"), path="p")
    assert (cut.lines, cut.size) == (lines, size) and cut.lines_total == body.count("\n") + 1
    assert cut.truncated is (len(body.encode()) > size) and body.startswith(cut.text)


def test_a_memory_without_a_body_is_told_by_its_description(memory: Path) -> None:
    memory.mkdir(parents=True)
    (memory / "a.md").write_text("---\nname: a\ndescription: only this\ntype: user\n---\n", encoding="utf-8")
    (memory / "b.md").write_bytes(b"no frontmatter \xff at all")
    store = FileStore(memory)
    assert make_excerpt(store.read("a"), path="a.md").text == "only this"
    assert make_excerpt(store.read("b"), path="b.md").text == "no frontmatter \ufffd at all"


def test_the_201st_memory_is_a_candidate_like_any_other(memory: Path) -> None:
    store = MemoryStore(clock=lambda: datetime(2020, 1, 1, tzinfo=UTC))
    put(store, "zebra-crossing")
    store.clock = lambda: datetime(2020, 1, 1, tzinfo=UTC) + timedelta(days=1)
    for number in range(300):
        put(store, f"note-{number}")
    found = recall([store], "the zebra crossing", selector=overlap, now=NOW)
    assert names(found.memories) == ["zebra-crossing"]


def test_recall_loads_nothing_heavy(tmp_path: Path) -> None:
    code = "import sys, memdir.recall.pipeline, memdir.recall.reminder, memdir.recall.find; print(*sys.modules)"
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, encoding="utf-8", check=True)
    heavy = set(ROWS["recall_loads_nothing_heavy"])
    assert not heavy & set(done.stdout.split())


def test_a_store_of_somebody_else_needs_the_contract_only(store: FileStore) -> None:
    class Plain:
        def scan(self) -> tuple[Header, ...]:
            return store.scan()

        def read(self, name: str) -> object:
            return store.read(name)

    found = recall([Plain()], "the deploy", selector=overlap, now=NOW, session=SessionFile(store.state, "x"))  # type: ignore[list-item]
    assert names(found.memories) == ["deploy-freeze", "deploy-steps"] and found.memories[0].path == "deploy-freeze.md"
    assert store.recalls() == () and sample_memory()
