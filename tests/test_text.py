import pytest
from hypothesis import given
from hypothesis import strategies as st

from memdir.text import find_forbidden, fold, fold_link, one_line, printable, replace_surrogates, shorten


def test_names_are_compared_without_case_and_width() -> None:
    assert fold("Ｔｅｒｓｅ") == fold("terse") and fold("STRASSE") == fold("straße")
    assert fold_link("Terse_Replies ") == fold_link("terse replies") == "terse-replies"


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


@pytest.mark.parametrize("text", ["a\0b", "\x1b[0m", "\x9b", "\u202e", "\ud800", "\U000e0041"])
def test_what_may_not_be_stored_is_named(text: str) -> None:
    assert "U+" in find_forbidden(text, lines=True)


def test_line_breaks_are_for_bodies_only() -> None:
    assert not find_forbidden("a\r\n\tb", lines=True)
    assert find_forbidden("a\nb", lines=False) and find_forbidden("a\u2028b", lines=False)


@given(st.text(), st.integers(1, 50))
def test_shortened_text_fits(text: str, width: int) -> None:
    assert len(shorten(text, width)) <= width


def test_surrogates_are_replaced() -> None:
    assert replace_surrogates("a\udcffb") == "a?b" and replace_surrogates("é") == "é"
