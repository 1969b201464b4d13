"""The query is what the person typed, without what hosts write into a message."""

from memdir.conversation.typed import strip_blocks, strip_host_text
from tables import read_rows, table

ROWS = read_rows("typed_query")


@table("text", ROWS["what_a_host_wrote_alone_is_no_query"])
def test_what_a_host_wrote_alone_is_no_query(text: str) -> None:
    assert strip_host_text(text) == ""


@table("text typed", ROWS["what_the_host_wrote_is_taken_out"])
def test_what_the_host_wrote_is_taken_out(text: str, typed: str) -> None:
    assert strip_host_text(text) == typed


def test_a_huge_message_of_open_tags_is_read_once() -> None:
    text = "see <system-reminder> and " * 40_000
    assert strip_blocks(text) == text
