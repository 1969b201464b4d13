"""What `memdir` says when it is called without a verb: what is where, and what to try."""

from memdir.doors.cli.call import Call
from memdir.doors.cli.output import Styled
from memdir.doors.cli.words import render_error
from memdir.errors import MemdirError

_TRY = (
    ("memdir demo", "three days in a few seconds, in a temporary folder"),
    ("memdir remember TEXT", "keep something, in your own words"),
    ("memdir recall QUESTION", "what fits a question, or nothing"),
    ("memdir chat", "talk to an assistant that remembers"),
    ("memdir install", "put memory into the coding agent you use"),
    ("memdir list", "what is remembered here"),
    ("memdir history", "what changed; `memdir undo` takes the last change back"),
    ("memdir doctor", "what is wrong, and how to mend it"),
    ("memdir --help", "every verb"),
)


def show_orientation(call: Call) -> None:
    call.out.line(Styled("memdir", "bold"), ": a memory for AI agents that survives the conversation.")
    call.out.line()
    try:
        for line in _describe(call):
            call.out.line(line)
    except MemdirError as error:
        call.out.line("this place has a problem: ", render_error(error))
    call.out.line()
    call.out.line("Try:")
    width = max(len(command) for command, _ in _TRY)
    for command, meaning in _TRY:
        call.out.line("  ", Styled(f"{command:<{width}}", "cyan"), f"  {meaning}")


def _describe(call: Call) -> list[str]:
    opened = call.open()
    lines = [f"{'project':<8} {opened.places.root.path}"]
    for label, store in zip(("memory", "user"), opened.stores, strict=False):
        count = len(store.scan())
        lines.append(f"{label:<8} {store.root} ({count} {'memory' if count == 1 else 'memories'})")
    if not opened.places.switch.on:
        lines.append(f"memory is off here ({opened.places.switch.rule})")
    return lines
