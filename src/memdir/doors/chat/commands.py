"""The commands: a line that begins with a slash. A table says what each is called, takes, does, and who does it.

Most are verbs of the command line, run in this place and on this day; the others are about the conversation itself.
No rule of memory is made here.
"""

import difflib
import re
import shlex
from collections.abc import Callable

from memdir.answering import tell_learned
from memdir.doors.chat.shown import open_in_editor, show_cost, show_loaded
from memdir.doors.chat.talk import Talk
from memdir.errors import FormatError, MemdirError
from memdir.extracted import Extracted
from memdir.frozen import dataclass
from memdir.text import one_line, shorten

_LINE = re.compile(r"/([A-Za-z][\w-]*)(?:\s+(.*))?", re.DOTALL)
_ON, _OFF = ("on", "true", "yes", "1"), ("off", "false", "no", "0")
TOGGLES = ("recall", "extract", "notes", "dream", "user_memory", "paused")


class Quit(Exception):
    """The person has had enough."""


Run = Callable[[Talk, str], None]


@dataclass(frozen=True, slots=True)
class Command:
    """One row: `takes` is what follows the name, `offers` the words that Tab knows, "NAME" for a memory's."""

    name: str
    takes: str
    help: str
    run: Run
    offers: tuple[str, ...] = ()


def find_command(line: str) -> tuple[str, str] | None:
    """The name and the rest of a line that is a command; None for a message, such as one that begins with a path."""
    found = _LINE.fullmatch(line.strip())
    return None if found is None else (found[1].lower(), (found[2] or "").strip())


def run_command(talk: Talk, name: str, rest: str) -> None:
    """Run it; an error is told, and an unknown one answered with the nearest."""
    command = BY_NAME.get(name)
    try:
        if command is None:
            raise FormatError(f"there is no /{name}", field="command", hint=_suggest(name))
        command.run(talk, rest)
    except MemdirError as error:
        talk.tell_error(error)


def _suggest(name: str) -> str:
    near = difflib.get_close_matches(name, BY_NAME, n=1, cutoff=0.5)
    return f"did you mean /{near[0]}?" if near else "/help lists them"


def split_words(text: str) -> list[str]:
    """Words as a shell would have them; a text with a lone apostrophe is taken as it is."""
    try:
        return shlex.split(text)
    except ValueError:
        return text.split()


# --- about memory -----------------------------------------------------------------------------------------------------


def _call(verb: str) -> Run:
    """A command that is a verb of the command line."""

    def run(talk: Talk, rest: str) -> None:
        talk.run_verb(verb, *split_words(rest))

    return run


def _memory(talk: Talk, rest: str) -> None:
    what, _, more = rest.partition(" ")
    if what == "":
        talk.screen.tell("output", show_loaded(talk, TOGGLES))
    elif what in ("list", "show", "save"):
        talk.run_verb(what, *split_words(more))
    elif what == "open":
        open_in_editor(talk, more.strip())
    elif what in TOGGLES and more.strip().lower() in (*_ON, *_OFF):
        if talk.run_verb("config", "set", what, "true" if more.strip().lower() in _ON else "false") == 0:
            talk.reopen()
    else:
        hint = f"list, show, save …, open [NAME], or one of {', '.join(TOGGLES)} with on or off"
        raise FormatError(f"/memory does not know {shorten(one_line(rest), 40)!r}", field="command", hint=hint)


def _need(rest: str, what: str) -> str:
    if not rest:
        raise FormatError(f"say {what}", field="command", hint="/help shows how")
    return rest


def _remember(talk: Talk, rest: str) -> None:
    _tell(talk, talk.session.remember(_need(rest, "what to remember")))


def _forget(talk: Talk, rest: str) -> None:
    words = split_words(rest)
    if "--purge" in words:
        # What was said here may be a trace of it too, so neither transcript nor model has it any longer.
        if talk.run_verb("forget", *words) == 0:
            talk.clear()
            talk.screen.tell("notice", "A new conversation, so that this one is no trace of it.")
        return
    _tell(talk, talk.session.forget(_need(rest, "what to forget: a name, or what it is about")))


def _tell(talk: Talk, done: Extracted) -> None:
    said = tell_learned(done) or (done.skipped.words if done.skipped else "")
    if said:
        talk.screen.tell("output", said)


def _recall(talk: Talk, rest: str) -> None:
    talk.run_verb("recall", *split_words(_need(rest, "what to recall")))


def _dream(talk: Talk, rest: str) -> None:
    words = split_words(rest)
    options = {"preview": ["--preview"], "status": ["--status"], "apply": ["--apply"]}
    if words and words[0] in options:
        words = [*options[words[0]], *words[1:]]
    model = [] if "--apply" in words or "--status" in words else ["--model", talk.spec if talk.has_model else "none"]
    talk.run_verb("dream", *words, *model)


def _notes(talk: Talk, rest: str) -> None:
    talk.run_verb("notes", "show", "--session", talk.id, *split_words(rest))


def _private(talk: Talk, rest: str) -> None:
    on = rest.lower() not in _OFF
    talk.session.set_private(on)
    said = "Nothing is recalled or remembered from now on." if on else "Memory is back in this conversation."
    talk.screen.tell("notice", said)


# --- about the conversation -------------------------------------------------------------------------------------------


def _clear(talk: Talk, rest: str) -> None:
    talk.clear()
    talk.screen.tell("notice", "A new conversation. What was remembered stays.")


def _compact(talk: Talk, rest: str) -> None:
    if talk.compact():
        talk.screen.tell("notice", "The conversation goes on from its notes; /notes shows them.")
    else:
        talk.screen.tell("notice", "There are no notes to go on from, so nothing was shortened.")


def _model(talk: Talk, rest: str) -> None:
    if rest:
        talk.set_model(rest)
    said = f"The model is {talk.spec}." if talk.has_model else "There is no model: memory alone answers."
    talk.screen.tell("output", said)


def _cost(talk: Talk, rest: str) -> None:
    talk.screen.tell("output", show_cost(talk.spent))


def _now(talk: Talk, rest: str) -> None:
    talk.set_day(_need(rest, "which day it is"))
    talk.screen.tell("day", talk.clock().astimezone().strftime("%A %Y-%m-%d"))


def _help(talk: Talk, rest: str) -> None:
    rows = [(f"/{at.name} {at.takes}".strip(), at.help) for at in COMMANDS]
    width = max(len(usage) for usage, _ in rows)
    lines = [f"{usage:{width}}  {text}" for usage, text in rows]
    talk.screen.tell("output", "\n".join([*lines, "", *_KEYS]))


def _quit(talk: Talk, rest: str) -> None:
    raise Quit


_KEYS = (
    "A line that ends with \\ goes on; three quotes open and close a message of several lines.",
    "Ctrl-C stops an answer or clears the line, twice it ends the chat; Ctrl-D ends it too.",
)
_INBOX = ("list", "show", "approve", "reject")
COMMANDS = (
    Command(
        "memory",
        "[list|show|save …|open NAME|SETTING on|off]",
        "What is loaded here; look at it, open it, switch parts of it.",
        _memory,
        ("list", "show", "save", "open", *TOGGLES),
    ),
    Command("remember", "TEXT", "Remember this, in your own words.", _remember),
    Command("forget", "[--purge] NAME or TEXT", "Forget a memory by its name or by what it is about.", _forget,
            ("NAME",)),
    Command("recall", "[--explain] TEXT", "What would be recalled for this, and why.", _recall, ("--explain",)),
    Command("why", "NAME", "For which questions a memory came up.", _call("why"), ("NAME",)),
    Command("dream", "[preview|apply ID|status]", "Tidy the memory; one /undo takes it back.", _dream,
            ("preview", "apply", "status")),
    Command("undo", "[ID]", "Take back the last change of memory, or a certain one.", _call("undo")),
    Command("inbox", "[show|approve|reject ID]", "What waits for your word.", _call("inbox"), _INBOX),
    Command("verify", "[NAME]", "Check what memories say against the project.", _call("verify"), ("NAME",)),
    Command("notes", "", "The running summary of this conversation.", _notes),
    Command("private", "[on|off]", "Remember and recall nothing in this conversation.", _private, ("on", "off")),
    Command("clear", "", "Begin a new conversation.", _clear),
    Command("compact", "", "Shorten the conversation to its notes.", _compact),
    Command("model", "[NAME|none]", "Who answers, or who shall from now on.", _model, ("none",)),
    Command("cost", "", "What models took in this chat.", _cost),
    Command("now", "DATE", "Play another day, for scripts and trials.", _now),
    Command("help", "", "This list.", _help),
    Command("quit", "", "End the chat.", _quit),
)  # fmt: skip
BY_NAME = {command.name: command for command in COMMANDS} | {"exit": COMMANDS[-1]}


def complete(talk: Talk, line: str, word: str) -> list[str]:
    """What Tab offers: commands, what they take, names of memories; nothing in a message."""
    start = line.lstrip()
    if not start.startswith("/"):
        return []
    if " " not in start:
        return [f"/{at.name} " for at in COMMANDS if f"/{at.name}".startswith(start)]
    command = BY_NAME.get(start[1:].split(" ")[0])
    offers = list(command.offers) if command else []
    if "NAME" in offers or start.startswith("/memory open "):
        offers = _list_names(talk)
    elif command and command.name == "memory" and start.split()[1:2] and start.split()[1] in TOGGLES:
        offers = ["on", "off"]
    return [f"{at} " for at in offers if at.startswith(word)]


def _list_names(talk: Talk) -> list[str]:
    try:
        return [header.name for store in talk.opened.stores for header in store.scan()]
    except MemdirError:
        return []
