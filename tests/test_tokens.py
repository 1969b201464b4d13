import json
import statistics
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loads import ROOT
from memdir.text import MEDIAN_ERROR, TAIL_ERROR, WHOLE_CHARS, estimate_tokens

TEXTS = ROOT / "tests" / "data" / "token_texts.jsonl"


def read_texts() -> list[dict[str, str]]:
    return [json.loads(line) for line in TEXTS.read_text(encoding="utf-8").splitlines()]


def test_the_set_has_200_texts_in_five_languages() -> None:
    rows = read_texts()
    assert len({row["text"] for row in rows}) == len(rows) == 200
    many = [lang for lang, count in Counter(row["lang"] for row in rows).items() if count >= 30]
    assert sorted(many) == ["de", "en", "fr", "ja", "zh"]


def test_the_estimate_stays_within_the_stated_error_of_a_real_tokenizer() -> None:
    bpe_openai = pytest.importorskip("bpe_openai", reason="bpe-openai is absent: no tokenizer to compare with")
    encoding = bpe_openai.get_encoding("o200k_base")
    pairs = [(estimate_tokens(row["text"]), len(encoding.encode_ordinary(row["text"]))) for row in read_texts()]
    errors = sorted(abs(guess - true) / true for guess, true in pairs)
    assert statistics.median(errors) <= MEDIAN_ERROR
    assert errors[int(0.9 * len(errors))] <= TAIL_ERROR
    assert abs(sum(guess for guess, _ in pairs) / sum(true for _, true in pairs) - 1) <= 0.03


def test_nothing_is_no_token_and_anything_is_at_least_one() -> None:
    assert estimate_tokens("") == 0
    assert estimate_tokens("a") == estimate_tokens(" ") == estimate_tokens("\n") == 1


@given(st.text())
def test_any_text_has_an_estimate_no_larger_than_its_bytes_ask_for(text: str) -> None:
    size = len(text.encode("utf-8", "surrogatepass"))
    assert 0 <= estimate_tokens(text) <= max(1, 2 * size)


@pytest.mark.parametrize("text", ["안녕하세요 여러분", "नमस्ते दुनिया", "שלום עולם", "Γειά σου κόσμε", "👩‍💻🎉🔥"])
def test_scripts_without_a_weight_of_their_own_still_count(text: str) -> None:
    assert len(text) // 4 <= estimate_tokens(text) <= 2 * len(text)


def test_a_long_text_read_in_pieces_is_about_as_many_tokens_as_its_parts() -> None:
    whole = "\n\n".join(row["text"] for row in read_texts())
    assert len(whole) > WHOLE_CHARS
    parts = sum(estimate_tokens(whole[at : at + 5000]) for at in range(0, len(whole), 5000))
    assert abs(estimate_tokens(whole) / parts - 1) < 0.1


def test_a_hundred_kilobytes_take_milliseconds() -> None:
    text = ("Keep it short, see `docs/format.md`.\n" * 4000)[:100_000]
    times = []
    for _ in range(5):
        start = time.process_time()
        estimate_tokens(text)
        times.append(time.process_time() - start)
    assert min(times) < 0.1  # some 5 ms; generous for a busy machine
