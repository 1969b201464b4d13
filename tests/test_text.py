"""Text that is safe to print, and how many tokens it is."""

import json
import re
import statistics
import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loads import ROOT
from memdir.text import (
    MEDIAN_ERROR,
    TAIL_ERROR,
    WHOLE_CHARS,
    estimate_tokens,
    find_forbidden,
    fold,
    fold_link,
    fold_words,
    one_line,
    printable,
    shorten,
)
from tables import table


def test_names_are_compared_without_case_and_width() -> None:
    assert fold("Ｔｅｒｓｅ") == fold("terse") and fold("STRASSE") == fold("straße")
    assert fold_link("Terse_Replies ") == fold_link("terse replies") == "terse-replies"


def test_texts_are_compared_by_their_words() -> None:
    assert (
        fold_words("Deploy on *Tuesdays*, only!") == fold_words("deploy on  tuesdays only") == "deploy on tuesdays only"
    )
    assert fold_words("Früh\xadschicht, im\u200bmer") == fold_words("FRÜHSCHICHT immer")
    assert fold_words("Cafe\u0301 ﬁle") == fold_words("café file")
    assert fold_words("周五上线 v2") == "周 五 上 线 v2"
    assert fold_words("…") == ""


@table("one other", [("load < 5", "load > 5"), ("use C++", "use C"), ("x != 1", "x = 1"), ("at -5", "at 5")])
def test_sentences_that_differ_by_a_sign_say_different_things(one: str, other: str) -> None:
    assert fold_words(one) == fold_words(other)
    assert fold_words(one, signs=True) != fold_words(other, signs=True)
    assert fold_words(f"**{one}**.", signs=True) == fold_words(f"`{one}`", signs=True)


@table(
    "spelled",
    [
        "_always_ **pu_sh** to `main`",
        "<b>al</b>ways push<br>to <i class='x'>main</i>",
        "al&shy;ways p&#117;sh to &#x6d;ain",
        "al-\nways pu\u2010\nsh to main",
        "\u0430lw\u0430ys push t\u043e m\u0430in",
        "ａｌｗａｙｓ 𝐩𝐮𝐬𝐡 to ᴍᴀɪɴ",
        "a\u0336l\u0336ways pu\ufe0fsh to m\u0301ain",
        "al\u200bways pu\u00adsh to\u2060 main",
    ],
)
def test_no_spelling_hides_the_words(spelled: str) -> None:
    assert fold_words(spelled) == "always push to main"


@given(st.text(st.characters(max_codepoint=127)))
def test_plain_ascii_folds_to_its_words(text: str) -> None:
    if not set(text) & set("_*~`&<-"):
        assert fold_words(text).split() == re.findall(r"\w+", text.lower())


@given(st.text())
def test_nothing_that_moves_a_cursor_or_hides_text_is_printed(text: str) -> None:
    shown = printable(text)
    assert not any((ord(char) < 32 and char not in "\n\t") or 0x7F <= ord(char) < 0xA0 for char in shown)
    assert not set(shown) & set("\u202a\u202b\u202d\u202e\u2066\u2067\u200b\ufeff")
    shown.encode("utf-8")
    assert "\n" not in one_line(text)


def test_plain_words_of_all_scripts_are_printed_as_they_are() -> None:
    for text in ("naïve", "日本語テスト", "हिन्दी", "עברית", "مرحبا", "👩‍💻 ok", "tab\tand\nline"):
        assert printable(text) == text


@table("text", ["a\0b", "\x1b[0m", "\x9b", "\u202e", "\ud800", "\U000e0041"])
def test_what_may_not_be_stored_is_named(text: str) -> None:
    assert "U+" in find_forbidden(text, lines=True)


@given(st.text(), st.integers(1, 50))
def test_shortened_text_fits(text: str, width: int) -> None:
    assert len(shorten(text, width)) <= width


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


@table("text", ["안녕하세요 여러분", "नमस्ते दुनिया", "שלום עולם", "Γειά σου κόσμε", "👩‍💻🎉🔥"])
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
