"""A prompt was submitted: the memories that fit it go before the model."""

from typing import TYPE_CHECKING

from memdir.asking import recall_here
from memdir.doors.hooks.answers import Answer
from memdir.doors.hooks.given import Given
from memdir.doors.hooks.opening import open_here
from memdir.query import strip_host_text
from memdir.recall import Recalled

if TYPE_CHECKING:
    from memdir.doors.hooks import Ready


def answer_prompt(given: Given, ready: "Ready") -> None:
    text = strip_host_text(given.text("prompt"))
    with open_here(given, ready) as opened:
        if opened is None or not text:
            return

        def tell(found: Recalled) -> None:
            """The words are ready before they are accounted for: better told twice than never."""
            if not found.memories:
                ready.answer = Answer()
                return
            # Imported here: most prompts recall nothing, and the tables against forged reminders are large.
            from memdir.doors.hooks.fitting import fit_memories

            ready.answer = Answer(fit_memories(found.memories, now=opened.now().astimezone()))

        told: list[Recalled] = []

        def tell_first(found: Recalled) -> None:
            told.append(found)
            tell(found)

        last = recall_here(opened, text, session=given.session, on_found=tell_first)
        if last is not told[0]:
            tell(last)
