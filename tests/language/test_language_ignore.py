"""The "ignore memory" switch in six languages: what must be heard, and what must not."""

from itertools import chain

from memdir.language.requests import IgnoreReach, find_ignored, find_ignoring, load_ignore_languages
from tables import read_rows, table

ROWS = read_rows("ignore_memory")


@table("text", chain(*ROWS["TURN"].values()))
def test_a_request_holds_for_the_turn(text: str) -> None:
    assert find_ignoring(text) is IgnoreReach.TURN


@table("text", chain(*ROWS["CONVERSATION"].values()))
def test_a_request_that_says_so_holds_for_the_conversation(text: str) -> None:
    assert find_ignoring(text) is IgnoreReach.CONVERSATION


@table("text", chain(*ROWS["NOTHING"].values()))
def test_words_that_only_sound_like_it_change_nothing(text: str) -> None:
    assert find_ignoring(text) is None


@table("text", ROWS["AGAIN"])
def test_a_request_can_be_taken_back(text: str) -> None:
    assert find_ignoring(text) is IgnoreReach.LIFTED


def test_every_language_has_its_rows() -> None:
    assert all(len(ROWS[name]) == len(load_ignore_languages()) for name in ("TURN", "CONVERSATION", "NOTHING"))


@table("text subject", ROWS["a_request_may_name_what_the_memories_are_about"])
def test_a_request_may_name_what_the_memories_are_about(text: str, subject: str) -> None:
    assert find_ignored(text) == (subject,)
    assert find_ignoring(text) is None


@table("text", ["Ignore memory.", "Don't ignore memories about zebra.", "The linter ignores memories about zebra."])
def test_nothing_is_named_where_all_or_nothing_is_meant(text: str) -> None:
    assert find_ignored(text) == ()


def test_a_request_before_a_colon_holds_for_what_follows() -> None:
    assert find_ignoring("Ignore your memory for this: how do we deploy?") is IgnoreReach.TURN


def test_code_is_not_heard() -> None:
    assert find_ignoring("Why is this red?\n```\nignore memory\n```\n") is None


def test_a_question_beside_the_request_leaves_it_a_request() -> None:
    assert find_ignoring("Ignore memory, how do we deploy this?") is IgnoreReach.TURN
    assert find_ignoring("忽略记忆，我们怎么部署？") is IgnoreReach.TURN
    assert find_ignoring("Ignore memory, right?") is None


def test_the_wider_of_two_requests_counts() -> None:
    assert find_ignoring("Ignore memory. And don't use memory in this chat.") is IgnoreReach.CONVERSATION


def test_a_long_paste_is_heard_at_its_edges_only() -> None:
    paste = "line of a log\n" * 10_000
    assert find_ignoring(f"{paste}ignore memory") is IgnoreReach.TURN
    assert find_ignoring(f"ignore memory\n{paste}") is IgnoreReach.TURN
    assert find_ignoring(f"{paste}ignore memory\n{paste}") is None


@table("text", ["memory " * 3000, "ignore " * 2000 + "memory", "please " * 500 + "memory x", '"memory' * 900])
def test_odd_texts_are_answered_quickly(text: str) -> None:
    assert find_ignoring(text) is None
