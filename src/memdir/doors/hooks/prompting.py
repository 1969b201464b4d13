"""A prompt was submitted: the memories that fit it go before the model.

With the first one the index goes, too, where the host cannot be told it at the start."""

from typing import TYPE_CHECKING

from memdir.asking import recall_here
from memdir.doors.hooks.answers import Answer
from memdir.doors.hooks.given import Given
from memdir.doors.hooks.opening import open_here
from memdir.hosts.rows import Event
from memdir.limits import HOOK_CHARS, HOOK_TOKENS
from memdir.opening import Opened
from memdir.query import strip_host_text
from memdir.recall import Recalled
from memdir.session import open_session

if TYPE_CHECKING:
    from memdir.doors.hooks import Ready

_GAP = "\n\n"


def answer_prompt(given: Given, ready: "Ready") -> None:
    text = strip_host_text(given.text("prompt"))
    with open_here(given, ready) as opened:
        if opened is None or not text:
            return
        index = _tell_index(given, opened, ready) if Event.START not in given.host.told else ""

        def tell(found: Recalled) -> None:
            """The words are ready before they are accounted for: better told twice than never."""
            if not found.memories:
                ready.answer = Answer(index)
                return
            # Imported here: most prompts recall nothing, and the tables against forged reminders are large.
            from memdir.doors.hooks.fitting import estimate, fit_memories, measure

            now, used = opened.now().astimezone(), index and index + _GAP
            chars, tokens = HOOK_CHARS - measure(used), HOOK_TOKENS - (estimate(used) if used else 0)
            ready.answer = Answer(used + fit_memories(found.memories, now=now, chars=chars, tokens=tokens))

        told: list[Recalled] = []

        def tell_first(found: Recalled) -> None:
            told.append(found)
            tell(found)

        last = recall_here(opened, text, session=given.session, on_found=tell_first)
        if last is not told[0]:
            tell(last)


def _tell_index(given: Given, opened: Opened, ready: "Ready") -> str:
    """The index, for a host that is told nothing at the start: with the first prompt of a conversation."""
    # Imported here: most hosts have it by now.
    from memdir.doors.hooks.starting import read_index

    session = open_session(opened.private.state, given.session)
    if not given.session or session.find_index():
        return ""
    index = read_index(given, opened)
    ready.answer = Answer(index)
    session.note_index(index)
    return index
