import pytest

from memdir.errors import NotFoundError
from memdir.operations.find import find_memory
from memdir.store.memory import MemoryStore
from memdir.testing import sample_memory
from tables import read_rows

ROWS = read_rows("store_lookup")


@pytest.fixture
def store() -> MemoryStore:
    found = MemoryStore()
    found.write(sample_memory(title="Terse replies"))
    found.write(sample_memory(title="Deploy: who", name="ops/deploy"))
    found.write(sample_memory(title="Same", name="one"))
    found.write(sample_memory(title="Same", name="two"))
    return found


@pytest.mark.parametrize(("typed", "name"), ROWS["a_name_a_path_or_a_title_finds_the_memory"])
def test_a_name_a_path_or_a_title_finds_the_memory(store: MemoryStore, typed: str, name: str) -> None:
    assert find_memory([store], typed).header.name == name


def test_a_title_of_two_memories_names_both(store: MemoryStore) -> None:
    with pytest.raises(NotFoundError, match="is ambiguous"):
        find_memory([store], "same")


def test_a_near_miss_is_suggested(store: MemoryStore) -> None:
    with pytest.raises(NotFoundError) as caught:
        find_memory([store], "tersereplies")
    assert "terse-replies" in caught.value.hint
    with pytest.raises(NotFoundError) as caught:
        find_memory([store], "\x1b[31m")
    assert "\x1b" not in str(caught.value)
