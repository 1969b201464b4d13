"""Frozen records, patterns compiled late, values made once."""

import copy
import dataclasses
import pickle
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from memdir import frozen
from memdir.frozen import once
from memdir.records import Evidence, Query
from recall_stores import NOW
from tables import table


@frozen.dataclass(frozen=True, slots=True)
class Ours:
    """A little of everything."""

    name: str
    size: int = 0
    facts: Mapping[str, int] = frozen.field(default_factory=dict)
    hidden: str = frozen.field(default="", repr=False, compare=False)
    at: str = frozen.field(kw_only=True)

    @property
    def double(self) -> int:
        return self.size * 2


@dataclasses.dataclass(frozen=True, slots=True)
class Theirs:
    """A little of everything."""

    name: str
    size: int = 0
    facts: Mapping[str, int] = dataclasses.field(default_factory=dict)
    hidden: str = dataclasses.field(default="", repr=False, compare=False)
    at: str = dataclasses.field(kw_only=True)


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    (("a",), {"at": "x"}),
    (("a", 1), {"at": "x"}),
    (("a", 1, {"k": 2}), {"at": "x", "hidden": "h"}),
    ((), {"name": "a", "size": 3, "at": "x"}),
]


@table("args named", CALLS)
def test_a_record_looks_and_compares_like_a_dataclass(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    ours, theirs = Ours(*args, **named), Theirs(*args, **named)
    assert repr(ours) == repr(theirs).replace("Theirs", "Ours")
    assert frozen.asdict(ours) == dataclasses.asdict(theirs)
    assert ours == Ours(*args, **named) and ours != Ours(*args, **{**named, "at": "y"}) and repr(ours) != repr(theirs)
    assert ours == frozen.replace(ours, hidden="other")
    assert Ours.__match_args__ == frozen.list_fields(Ours)


@table("args named", [((), {}), (("a",), {}), (("a", 1, {}, "", "x"), {}), (("a",), {"at": "x", "no": 1})])
def test_a_wrong_call_is_refused_as_by_a_dataclass(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    for kind in (Ours, Theirs):
        with pytest.raises(TypeError):
            kind(*args, **named)


def test_a_record_cannot_be_changed_nor_grow() -> None:
    record = Ours("a", at="x")
    for name in ("name", "new"):
        with pytest.raises(AttributeError):
            setattr(record, name, "b")
    with pytest.raises(AttributeError):
        delattr(record, "at")
    assert record == Ours("a", at="x") and not hasattr(record, "__dict__") and record.double == 0


def test_equal_records_have_one_hash_and_unhashable_fields_have_none() -> None:
    assert len({Evidence(1.0), Evidence(1.0), Evidence(2.0)}) == 2
    with pytest.raises(TypeError):
        hash(Ours("a", at="x"))


def test_without_eq_a_record_equals_itself_alone() -> None:
    @frozen.dataclass(frozen=True, slots=True, eq=False)
    class Table:
        facts: Mapping[str, int]

    one, other = Table({}), Table({})
    assert one == one and one != other and len({one, other}) == 2


def test_replace_makes_another_and_refuses_unknown_fields() -> None:
    record = Ours("a", at="x")
    assert frozen.replace(record, size=5) == Ours("a", 5, at="x") and record.size == 0
    with pytest.raises(TypeError):
        frozen.replace(record, no=1)


def test_records_can_be_copied_and_pickled() -> None:
    query = Query("how", ("Bash",), now=NOW)
    for again in (copy.copy(query), copy.deepcopy(query), pickle.loads(pickle.dumps(query))):
        assert again == query and type(again) is Query


def test_a_record_that_is_not_frozen_cannot_be_asked_for() -> None:
    with pytest.raises(TypeError):
        frozen.dataclass(frozen=False)


def make_class(annotations: dict[str, Any], **body: Any) -> Any:
    return frozen.dataclass(frozen=True, slots=True)(type("Wrong", (), {"__annotations__": annotations, **body}))


@table(
    "annotations body error",
    [
        ({"facts": dict}, {"facts": {}}, ValueError),
        ({"facts": list}, {"facts": frozen.field(default=[])}, ValueError),
        ({"name": str}, {"__post_init__": lambda self: None}, TypeError),
    ],
)
def test_a_class_that_cannot_work_is_refused_when_it_is_defined(
    annotations: dict[str, Any], body: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        make_class(annotations, **body)
    assert make_class({"size": int, "name": str}, size=0, name=frozen.field(kw_only=True))(name="a").size == 0


def test_super_in_a_record_is_refused() -> None:
    with pytest.raises(TypeError, match="super"):

        @frozen.dataclass(frozen=True, slots=True)
        class Wrong:
            name: str

            def __repr__(self) -> str:
                return super().__repr__()


def test_a_class_made_from_a_record_keeps_its_own_way_of_being_made() -> None:
    @frozen.dataclass(frozen=True, slots=True)
    class Fresh:
        size: int

    class Twice(Fresh):
        __slots__ = ()

        def __init__(self, size: int) -> None:
            super().__init__(size * 2)

    assert (Twice(1).size, Twice(2).size, Fresh(3).size) == (2, 4, 3)


def test_what_many_threads_need_at_the_same_moment_is_made_once() -> None:
    made: list[str] = []
    ready = threading.Barrier(8)

    @once
    def make(name: str) -> str:
        made.append(name)
        return name.upper()

    got: list[str] = []

    def ask() -> None:
        ready.wait(30)
        got.append(make("a"))

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert got == ["A"] * 8 and made == ["a"]
    assert make("b") == "B" and make("a") == "A" and made == ["a", "b"]


def test_what_could_not_be_made_is_tried_again() -> None:
    tries: list[int] = []

    @once
    def make(number: int) -> int:
        tries.append(number)
        return 1 // (len(tries) - 1)

    try:
        make(5)
    except ZeroDivisionError:
        pass
    assert make(5) == 1 and len(tries) == 2
