"""The query is what the person typed, without what hosts write into a message."""

from memdir.conversation.typed import strip_blocks, strip_host_text
from tables import table


@table(
    "text",
    [
        "<system-reminder>\nMemory: x.md:\n\nold things\n</system-reminder>",
        "<command-name>/model</command-name>\n<command-args></command-args>",
        "<local-command-stdout>Set model to large</local-command-stdout>",
        "/compact keep the plan",
        "[Request interrupted by user]",
        "   \n",
    ],
)
def test_what_a_host_wrote_alone_is_no_query(text: str) -> None:
    assert strip_host_text(text) == ""


@table(
    "text typed",
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
