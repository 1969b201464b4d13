"""The word table that ships with memdir: what it knows, and that a damaged copy is refused at the door."""

import json
import os
import random
import struct
import tracemalloc
from pathlib import Path

import pytest

from memdir.recall.index import FILE, WordTable, open_words
from memdir.recall.terms import make_term
from tables import read_rows

ROWS = read_rows("recall_table")
MOST_BYTES = 9_000_000


@pytest.fixture(scope="module")
def table() -> WordTable:
    return WordTable(FILE)


def near(table: WordTable, word: str) -> list[str]:
    return [stem for stem, _ in table.near(make_term(word))]


def write_table(path: Path, head: object, body: bytes) -> Path:
    """A table file with this head, whatever it may be."""
    raw = json.dumps(head).encode()
    path.write_bytes(struct.pack("<I", len(raw)) + raw + body)
    return path


def split_table() -> tuple[dict[str, object], bytes]:
    """Head and body of the table that ships."""
    data = FILE.read_bytes()
    end = 4 + struct.unpack_from("<I", data)[0]
    return json.loads(data[4:end]), data[end:]


def test_the_table_that_ships_opens_and_is_not_too_big() -> None:
    opened = open_words()
    assert opened is not None and opened is open_words()
    assert (opened.count, opened.dim, opened.near_count) == (28_703, 192, 32)
    assert FILE.stat().st_size <= MOST_BYTES


def test_the_head_names_the_contents_so_that_an_index_of_another_table_is_made_again(table: WordTable) -> None:
    head, _ = split_table()
    assert str(head["kind"]) in table.name and len(str(head["kind"])) == 8


@pytest.mark.parametrize(("word", "kin"), ROWS["words_of_like_meaning_are_near"])
def test_words_of_like_meaning_are_near(table: WordTable, word: str, kin: str) -> None:
    assert make_term(kin) in near(table, word)


def test_neighbours_come_nearest_first_and_never_include_the_word_itself(table: WordTable) -> None:
    for word in ("guitar", "dog", "travel", "deploy", "allergy", "recommend"):
        pairs = table.near(make_term(word))
        cosines = [cosine for _, cosine in pairs]
        assert len(pairs) == table.near_count == len({stem for stem, _ in pairs})
        assert cosines == sorted(cosines, reverse=True) and 0 < cosines[-1] <= cosines[0] <= 1
        assert make_term(word) not in dict(pairs)


@pytest.mark.parametrize("word", ["zorbelin", "", "\n", "記憶", "\ud800", "a" * 10_000, "guitar\npiano"])
def test_an_unknown_word_is_rare_and_near_nothing(table: WordTable, word: str) -> None:
    assert table.find(word) is None
    assert table.rarity(word) == 1.0
    assert table.near(word) == []
    assert table.vector(word) is None


def test_opening_maps_the_file_and_builds_no_dictionary() -> None:
    tracemalloc.start()
    try:
        opened = WordTable(FILE)
        grown = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert not any(isinstance(value, dict) for value in vars(opened).values())
    assert grown < FILE.stat().st_size / 3  # the list of words, and neither vectors nor neighbours


def test_a_missing_file_or_a_folder_is_no_table(tmp_path: Path) -> None:
    assert open_words(tmp_path / "words.bin") is None
    assert open_words(tmp_path) is None


def test_a_file_cut_short_anywhere_is_no_table(tmp_path: Path) -> None:
    path = tmp_path / "whole.bin"
    size = path.write_bytes(FILE.read_bytes())
    places = {0, 1, 3, 4, 20, 71, 100, 100_000, 1_000_000, 8_000_000, size - 1}
    for place in sorted(places | set(random.Random(7).sample(range(size), 10)), reverse=True):
        os.truncate(path, place)
        path = path.rename(tmp_path / f"{place}.bin")  # the opener remembers by path
        assert open_words(path) is None, place


@pytest.mark.parametrize(
    "change",
    [
        {"n": 28_702},
        {"n": "many"},
        {"n": None},
        {"n": -1},
        {"n": True},
        {"dim": 191},
        {"k": 31},
        {"words": 0},
        {"words": 10**30},
    ],
)
def test_a_head_that_does_not_fit_the_body_is_no_table(tmp_path: Path, change: dict[str, object]) -> None:
    head, body = split_table()
    assert open_words(write_table(tmp_path / "words.bin", head | change, body)) is None


def test_noise_is_no_table(tmp_path: Path) -> None:
    noise = random.Random(7)
    for number in range(50):
        path = tmp_path / f"{number}.bin"
        path.write_bytes(noise.randbytes(noise.randrange(1, 5000)))
        assert open_words(path) is None
    deep = tmp_path / "deep.bin"
    deep.write_bytes(struct.pack("<I", 1_000_000) + b"[" * 1_000_000)
    assert open_words(deep) is None


def test_overwritten_bytes_spoil_answers_and_raise_nothing(tmp_path: Path) -> None:
    head, body = split_table()
    size = head["words"]
    assert isinstance(size, int)
    path = write_table(tmp_path / "words.bin", head, body[:size] + b"\xff" * (len(body) - size))
    opened = open_words(path)
    assert opened is not None
    for word in ("guitar", "dog"):
        assert opened.near(word) == [] and opened.vector(word) is not None and opened.rarity(word) == 1.0
