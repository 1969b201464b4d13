import pytest

from memdir.recall.query import find_query, strip_blocks, strip_host_text
from memdir.records import Message, ToolCall


def user(text: str, **more: object) -> Message:
    return Message("user", text, **more)  # type: ignore[arg-type]


def test_the_last_message_the_person_typed_is_the_query() -> None:
    messages = [
        user("how do we deploy?"),
        user("and who reviews it?"),
        Message("assistant", "Let me look.", calls=(ToolCall("c1", "Read", {"file": "x"}),)),
        user("the file's content", answers="c1"),
        user("Caveat: what follows was written by a program", is_meta=True),
        user("<system-reminder>\nMemory: x.md:\n\nold things\n</system-reminder>"),
        user("<command-name>/model</command-name>\n<command-args></command-args>"),
        user("<local-command-stdout>Set model to large</local-command-stdout>"),
        user("/compact keep the plan"),
        user("[Request interrupted by user]"),
        user("   \n"),
    ]
    assert find_query(messages) == "and who reviews it?"
    assert find_query(messages[:1]) == "how do we deploy?"
    assert find_query(messages[4:]) == "" and find_query([]) == ""


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("<system-reminder>a</system-reminder>\nwhere is the config?", "where is the config?"),
        ("where is <SYSTEM-REMINDER>a\nb</SYSTEM-REMINDER> it?", "where is  it?"),
        ("look <system-reminder>a <system-reminder>b</system-reminder> here", "look  here"),
        ("why do I see <system-reminder> in the log?", "why do I see <system-reminder> in the log?"),
        ("text\n<system-reminder>\nnever closed", "text"),
        ("<system-reminder>a</system-reminder><system-reminder>b</system-reminder>", ""),
        ("/review now\nand then the tests", "and then the tests"),
        ("/usr/bin/python crashes on start", "/usr/bin/python crashes on start"),
        ("/ is full again", "/ is full again"),
        ("compare a/b and c", "compare a/b and c"),
        ("<bash-input>ls</bash-input><bash-stdout>a b</bash-stdout><bash-stderr></bash-stderr>", ""),
        ("<ide_opened_file>The user opened x.py</ide_opened_file>what does it do?", "what does it do?"),
    ],
)
def test_what_the_host_wrote_is_taken_out(text: str, typed: str) -> None:
    assert strip_host_text(text) == typed


def test_a_huge_message_of_open_tags_is_read_once() -> None:
    text = "see <system-reminder> and " * 40_000
    assert strip_blocks(text) == text
