"""Many memories in one answer: best first, cut to what is left, the last by a line; never over the limits."""

from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st

from memdir.limits import HOOK_CHARS, HOOK_TOKENS
from memdir.recall.reminder import fit_lines, fit_memories, measure_reply
from memdir.records import Excerpt, Header, Kind, Scope, Signature
from memdir.text import estimate_tokens

NOW = datetime(2026, 3, 5, 12, tzinfo=UTC)


def excerpt(number: int, text: str) -> Excerpt:
    name = f"memory-{number}"
    header = Header(
        name, name, f"What number {number} is about", Kind.PROJECT, Scope.PRIVATE, NOW - timedelta(days=9), False,
        Signature(1, 1, 1, 1),
    )  # fmt: skip
    return Excerpt(header, f"/home/me/memory/{name}.md", text, "d", text.count("\n") + 1, text.count("\n") + 1)


def test_what_fits_is_told_whole_and_in_order() -> None:
    text = fit_memories([excerpt(1, "First."), excerpt(2, "Second.")], now=NOW)
    assert text.index("First.") < text.index("Second.") and "more" not in text and "<" not in text


def test_five_long_memories_are_two_whole_ones_a_cut_one_and_two_lines() -> None:
    body = "\n".join(f"Line {number} says something about the subject." for number in range(90))
    text = fit_memories([excerpt(number, body) for number in range(1, 6)], now=NOW)
    assert measure_reply(text) <= HOOK_CHARS and estimate_tokens(text) <= HOOK_TOKENS
    assert all(f"memory-{number}.md" in text for number in range(1, 6))
    assert "of 90 lines; the rest is in /home/me/memory/memory-" in text
    assert "There is also the memory memory-5 (What number 5 is about): /home/me/memory/memory-5.md" in text


def test_a_memory_that_alone_is_too_long_is_cut_and_says_so() -> None:
    text = fit_memories([excerpt(1, "word " * 5_000)], now=NOW)
    assert 0.8 * HOOK_CHARS < measure_reply(text) <= HOOK_CHARS and "the rest is in" in text
    chinese = fit_memories([excerpt(1, "每次发布之前都要检查账单表。" * 400)], now=NOW)
    assert estimate_tokens(chinese) <= HOOK_TOKENS and measure_reply(chinese) > 600


@settings(max_examples=60, deadline=None)
@given(st.lists(st.text(max_size=6_000), max_size=6))
def test_whatever_the_memories_hold_the_answer_stays_within_its_limits(bodies: list[str]) -> None:
    text = fit_memories([excerpt(number, body) for number, body in enumerate(bodies)], now=NOW)
    assert measure_reply(text) <= HOOK_CHARS and estimate_tokens(text) <= HOOK_TOKENS


def test_lines_are_kept_whole_and_the_rest_is_counted() -> None:
    text = "\n".join(f"- line {number}" for number in range(100))
    cut = fit_lines(text, 300, where="MEMORY.md")
    assert len(cut) <= 300 and cut.startswith("- line 0\n- line 1\n") and cut.endswith(" more lines in MEMORY.md)")
    assert fit_lines(text, 10_000) == text and fit_lines("x" * 500, 100) == ""
