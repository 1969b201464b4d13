"""Fenced blocks of code in Markdown: one reader for all (`memdir.text`)."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from memdir.text import blank_fences, find_fences, list_lines
from tables import read_rows, table

ROWS = read_rows("fences")


@table("text code", ROWS["each_shape_of_a_fence_is_read"])
def test_each_shape_of_a_fence_is_read(text: str, code: list[str]) -> None:
    assert [text[fence.inner : fence.inner_end] for fence in find_fences(text)] == code


def test_a_fence_names_its_language_and_whether_it_is_closed() -> None:
    fences = find_fences("```Bash -x\n```\n~~~~\n")
    assert [(fence.mark, fence.language, fence.is_closed) for fence in fences] == [
        ("```", "Bash", True),
        ("~~~~", "", False),
    ]


@given(st.lists(st.sampled_from(["```", "````", "~~~", "a", " ", "> ", "- ", "\n", "\r\n", "`"])).map("".join))
def test_lines_and_blanks_agree_with_the_fences(text: str) -> None:
    fences = find_fences(text)
    assert all(one.end <= other.start for one, other in pairwise(fences))
    lines = list(list_lines(text))
    assert [line for line, _ in lines] == text.split("\n")
    starts = [sum(len(line) + 1 for line, _ in lines[:number]) for number in range(len(lines))]
    for start, (_, fence) in zip(starts, lines, strict=True):
        around = [one for one in fences if one.start <= start and (start < one.end or not one.is_closed)]
        assert fence == next(iter(around), None)
    blank = blank_fences(text, "#")
    assert len(blank) == len(text) and blank.count("\n") == text.count("\n")
    assert all(blank[fence.start : fence.end].strip("#\n") == "" for fence in fences)
