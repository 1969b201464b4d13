"""A memory directory as a LangGraph store: values come back, namespaces are folders, a graph remembers."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langgraph.store.base import (
    BaseStore,
    GetOp,
    InvalidNamespaceError,
    ListNamespacesOp,
    MatchCondition,
    PutOp,
    SearchOp,
)
from langgraph.store.memory import InMemoryStore
from typing_extensions import TypedDict

from homes import write
from loads import scaled
from memdir.files import check_name
from memdir.interfaces.sdk.langgraph import MemdirStore, compose_item, make_names, parse_item
from memdir.records import Draft, Kind, Put, StoredMemory
from memdir.store.contract import utc_now
from memdir.store.files import FileStore
from memdir.store.memory import MemoryStore
from tables import read_rows

ROWS = read_rows("adapters_langgraph")

USER = ("users", "u-1")


@pytest.fixture
def store(memory: Path) -> MemdirStore:
    return MemdirStore(FileStore(memory), session="s1")


def names(store: MemdirStore) -> set[str]:
    return {header.name for header in store.store.scan()}


def keys(found: list[Any]) -> list[str]:
    return [at.key for at in found]


def test_a_value_comes_back_and_is_a_memory_that_people_can_read(store: MemdirStore) -> None:
    value = {
        "memory": "Prefers short answers with a code sample",
        "score": 3,
        "tags": ["style", "é"],
        "nested": {"a": None},
    }
    store.put(USER, "prefs", value)
    item = store.get(USER, "prefs")
    assert item is not None
    assert (item.value, item.key, item.namespace) == (value, "prefs", USER)
    assert item.created_at <= item.updated_at
    memory = store.store.read("users/u-1/prefs")
    assert memory.header.problem == "" and memory.header.description == value["memory"]
    assert memory.body.startswith("Prefers short answers with a code sample\n\n```json\n")
    assert "(users/u-1/prefs.md)" in store.store.index()
    assert store.get(USER, "other") is None and store.get(("users",), "prefs") is None
    [change] = store.store.changes()
    assert (change.verb, change.origin.who, change.origin.session) == ("save", "agent", "s1")


def test_what_a_person_edits_in_the_file_is_the_value(store: MemdirStore) -> None:
    store.put(USER, "a", {"text": "Deploys on Tuesdays only", "n": 1})
    path = store.store.root / "users" / "u-1" / "a.md"
    text = path.read_text(encoding="utf-8")
    write(path, text.replace("Tuesdays only\n\n```", "Fridays\n\n```").replace('"n": 1', '"n": 2'))
    item = store.get(USER, "a")
    assert item is not None and item.value == {"text": "Deploys on Fridays", "n": 2}
    write(path, path.read_text(encoding="utf-8").replace('"n": 2', '"n": '))
    broken = store.get(USER, "a")
    assert broken is not None and broken.value["text"].startswith("Deploys on Fridays")


def test_an_update_keeps_the_day_of_creation_and_undo_brings_the_old_value_back(store: MemdirStore) -> None:
    store.put(USER, "a", {"text": "one"})
    first = store.get(USER, "a")
    store.put(USER, "a", {"text": "two"})
    second = store.get(USER, "a")
    assert first is not None and second is not None
    assert second.created_at == first.created_at and second.updated_at >= first.updated_at
    assert second.value == {"text": "two"}
    store.store.undo()
    again = store.get(USER, "a")
    assert again is not None and again.value == {"text": "one"}
    store.delete(USER, "a")
    store.delete(USER, "a")
    assert store.get(USER, "a") is None and names(store) == set()


def test_a_batch_reads_what_was_there_before_and_is_one_change(store: MemdirStore) -> None:
    store.put(USER, "a", {"text": "old"})
    ops = [
        PutOp(USER, "a", {"text": "new"}),
        GetOp(USER, "a"),
        PutOp(USER, "b", {"text": "first"}),
        SearchOp(("users",)),
        PutOp(USER, "b", {"text": "last"}),
        ListNamespacesOp(),
        PutOp(USER, "c", None),
    ]
    got = store.batch(ops)
    assert got[0] is got[2] is got[4] is got[6] is None
    assert got[1].value == {"text": "old"} and keys(got[3]) == ["a"] and got[5] == [USER]
    assert {at.key: at.value["text"] for at in store.search(USER)} == {"a": "new", "b": "last"}
    assert len(store.store.changes()) == 2


@pytest.mark.parametrize("namespace", [(), ("a.b",), ("",), ("langgraph", "x"), ("a\0",)])
def test_namespaces_that_langgraph_refuses_are_refused(namespace: tuple[str, ...], store: MemdirStore) -> None:
    with pytest.raises(InvalidNamespaceError):
        store.put(namespace, "k", {"text": "x"})
    assert names(store) == set()


@pytest.mark.parametrize(
    "address",
    [
        (("users", "someone@example"), "k"),
        (("a b", "ü"), "key with spaces, and: signs/../.."),
        (("team",), "k"),
        (("logs",), "k"),
        (("Team",), "MEMORY"),
        (("con",), "nul"),
        (("-",), "."),
        (("x" * 300,), "y" * 300),
        (tuple("abcdefghijkl"), "deep"),
        (tuple("abcdefg"), "seven"),
        (("日本",), "鍵"),
        (("a",), ""),
        (("a",), "../../etc/passwd"),
        (("a",), "\ud800"),
        (("a",), "k\n\u202ek"),
    ],
)
def test_any_namespace_and_key_finds_a_place_of_its_own(
    address: tuple[tuple[str, ...], str], store: MemdirStore
) -> None:
    namespace, key = address
    store.put(namespace, key, {"text": "here"})
    item = store.get(namespace, key)
    assert item is not None and (item.value, item.namespace, item.key) == ({"text": "here"}, namespace, key)
    assert keys(store.search(namespace)) == [key] and keys(store.search(namespace[:1])) == [key]
    assert store.list_namespaces() == [namespace]
    assert not any(name.casefold().startswith(("team/", "logs/")) for name in names(store))
    store.delete(namespace, key)
    assert names(store) == set()


def test_keys_that_count_as_one_name_here_are_still_two(store: MemdirStore) -> None:
    store.batch([PutOp(USER, "A", {"text": "large"}), PutOp(USER, "a", {"text": "small"})])
    store.put(USER, "\u212b", {"text": "angstrom"})
    store.put(USER, "\u00e5", {"text": "ring"})
    got = {key: item.value["text"] for key in ("A", "a", "\u212b", "\u00e5") if (item := store.get(USER, key))}
    assert got == {"A": "large", "a": "small", "\u212b": "angstrom", "\u00e5": "ring"}
    store.delete(USER, "A")
    assert store.get(USER, "A") is None and store.get(USER, "a") is not None


def test_a_memory_of_another_interface_is_a_value_and_a_put_replaces_it(store: MemdirStore) -> None:
    store.store.write(
        Draft(Kind.FEEDBACK, "Terse replies", "No summary at the end of a reply", "Be terse.", "style/terse")
    )
    item = store.get(("style",), "terse")
    assert item is not None and item.value == {
        "type": "feedback",
        "title": "Terse replies",
        "description": "No summary at the end of a reply",
        "content": "Be terse.",
    }
    store.put(("style",), "terse", {**item.value, "content": "Be brief."})
    again = store.get(("style",), "terse")
    assert again is not None and again.value["content"] == "Be brief." and names(store) == {"style/terse"}


def test_what_a_team_shares_is_not_here(store: MemdirStore) -> None:
    store.store.write(
        Draft(Kind.PROJECT, "Tracker", "Bugs are tracked in Linear, project INGEST", "There.", "team/tracker")
    )
    assert store.get(("team",), "tracker") is None and store.search(()) == [] and store.list_namespaces() == []
    store.put(("team",), "tracker", {"text": "mine"})
    assert store.store.read("team/tracker").body == "There.\n"


def test_a_search_by_query_tells_the_fitting_first_and_the_rest_without_a_score(store: MemdirStore) -> None:
    texts = {
        "food": "Loves pizza with mushrooms for dinner",
        "pet": "Has a dog called Bello that barks at the mailman",
        "work": "Works as a nurse on night shifts",
    }
    for key, text in texts.items():
        store.put(USER, key, {"text": text})
    store.put(("users", "u-2"), "food", {"text": "Loves pizza with pineapple"})
    found = store.search(USER, query="which pizza does the user love?", limit=3)
    assert found[0].key == "food" and found[0].score is not None and {at.key for at in found} == set(texts)
    scores = [-1.0 if at.score is None else at.score for at in found]
    assert scores == sorted(scores, reverse=True) and scores[0] > 2 * scores[1]
    assert {at.namespace for at in store.search(("users",), query="pizza", limit=2)} == {USER, ("users", "u-2")}
    assert keys(store.search(USER, query="pizza", limit=1, offset=0)) == ["food"]
    assert len(store.search(USER, query="pizza", limit=5, offset=1)) == 2
    store.put(USER, "hidden", {"text": "pizza pizza pizza mushrooms"}, index=False)
    hidden = [at.score for at in store.search(USER, query="pizza mushrooms") if at.key == "hidden"]
    assert hidden == [None]


def test_filters_compare_and_pages_follow(store: MemdirStore) -> None:
    for n in range(5):
        store.put(("docs",), f"d{n}", {"n": n, "kind": "report" if n % 2 else "note", "at": {"x": n}, "tags": [n]})
    assert set(keys(store.search(("docs",), filter={"kind": "report"}))) == {"d1", "d3"}
    assert set(keys(store.search(("docs",), filter={"n": {"$gte": 1, "$lt": 3}}))) == {"d1", "d2"}
    assert set(keys(store.search(("docs",), filter={"n": {"$ne": 0}, "kind": {"$eq": "note"}}))) == {"d2", "d4"}
    assert keys(store.search(("docs",), filter={"n": {"$gt": 3}})) == ["d4"]
    assert keys(store.search(("docs",), filter={"n": {"$lte": 0}})) == ["d0"]
    assert keys(store.search(("docs",), filter={"at": {"x": 2}})) == ["d2"]
    assert keys(store.search(("docs",), filter={"tags": [4]})) == ["d4"]
    assert store.search(("docs",), filter={"kind": {"$gt": 1}}) == []
    assert keys(store.search(("docs",), filter={"none": 1})) == []
    with pytest.raises(ValueError, match="unknown filter operator"):
        store.search(("docs",), filter={"n": {"$in": [1]}})
    pages = [keys(store.search(("docs",), limit=2, offset=at)) for at in (0, 2, 4, 6)]
    assert [len(page) for page in pages] == [2, 2, 1, 0] and len({key for page in pages for key in page}) == 5
    with pytest.raises(NotImplementedError):
        store.put(("docs",), "x", {"n": 1}, ttl=5)


LISTED = [
    ("a", "b", "c"),
    ("a", "b", "d", "e"),
    ("a", "b", "d", "i"),
    ("a", "b", "f"),
    ("a", "c", "f"),
    ("b", "a", "f"),
]


@pytest.mark.parametrize("asked", ROWS["namespaces_are_listed_as_langgraph_s_own_store_lists_them"])
def test_namespaces_are_listed_as_langgraph_s_own_store_lists_them(asked: dict[str, Any], store: MemdirStore) -> None:
    model = InMemoryStore()
    for namespace in LISTED:
        for each in (store, model):
            each.put(namespace, "k", {"text": "x"})
    assert store.list_namespaces(**asked) == model.list_namespaces(**asked)
    if not asked:
        with pytest.raises(ValueError, match="match type"):
            middle: Any = "middle"
            store.batch([ListNamespacesOp((MatchCondition(middle, ("a",)),))])
        with pytest.raises(ValueError, match="unknown operation"):
            store.batch(["dance"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda children: st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=8), children, max_size=3),
    max_leaves=8,
)
TEXTS = st.text(max_size=40) | st.sampled_from(
    ["```json\n{}\n```\n", "a\n\n```json\n1\n```\n", "---\nx: 1\n---\n", "\n\nx\n\n"]
)
FIELDS = st.sampled_from(["text", "content", "title", "type", "description", "n"]) | st.text(max_size=8)
LABELS = st.text(st.characters(exclude_characters=".\0"), min_size=1, max_size=12)


@settings(max_examples=scaled(1000), deadline=None)
@given(
    value=st.dictionaries(FIELDS, TEXTS | JSON, max_size=5),
    namespace=st.lists(LABELS, min_size=1, max_size=9),
    key=st.text(max_size=20),
)
def test_every_value_reads_back_from_the_file_it_becomes(value: dict[str, Any], namespace: list[str], key: str) -> None:
    address = (tuple(namespace), key)
    for name in make_names(address):
        check_name(name)
        kept, now = MemoryStore(), utc_now()
        text = compose_item(address, value, kind=Kind.REFERENCE, created=now, index=True)
        assert text.encode("utf-8", "surrogateescape")
        memory = _read(kept, name, text)
        item, _ = parse_item(memory)
        assert (item.namespace, item.key, item.value) == (*address, value) and memory.header.problem == ""


def _read(kept: MemoryStore, name: str, text: str) -> StoredMemory:
    kept.change([Put(name, text)], verb="save")
    return kept.read(name)


def test_the_asynchronous_calls_do_the_same_and_many_at_once_lose_nothing(store: MemdirStore) -> None:
    async def live() -> list[Any]:
        await asyncio.gather(*(store.aput(USER, f"k{n}", {"text": f"fact number {n}"}) for n in range(12)))
        await store.adelete(USER, "k0")
        assert await store.aget(USER, "k0") is None
        assert await store.alist_namespaces() == [USER]
        return list(await store.asearch(USER, limit=50))

    assert {at.value["text"] for at in asyncio.run(live())} == {f"fact number {n}" for n in range(1, 12)}


class State(TypedDict):
    said: str
    answer: str


def test_a_graph_knows_in_its_second_run_what_it_was_told_in_the_first(memory: Path) -> None:
    from langgraph.graph import END, START, StateGraph  # here: it takes a second, and one test needs it

    def remember(state: State, *, store: BaseStore) -> dict[str, str]:
        found = store.search(USER, query=state["said"], limit=1)
        store.put(USER, f"said-{len(store.search(USER, limit=100))}", {"text": state["said"]})
        return {"answer": found[0].value["text"] if found else "nothing"}

    answers = []
    for said in ("I take my coffee black, without sugar", "how do I take my coffee?"):
        builder = StateGraph(State)
        builder.add_node("remember", remember)
        builder.add_edge(START, "remember")
        builder.add_edge("remember", END)
        graph = builder.compile(store=MemdirStore(FileStore(memory)))
        answers.append(graph.invoke({"said": said, "answer": ""})["answer"])
    assert answers == ["nothing", "I take my coffee black, without sugar"]
