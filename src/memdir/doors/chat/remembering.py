"""A turn without a model: what was said is learned from at once, and a question is answered from memory.

There is no model whose conversation would hold what was told before, so a memory may be told as often as it is asked
for. What to keep and what to say is decided elsewhere (rules, answering).
"""

from contextlib import suppress

from memdir.answering import Answer, answer_question, is_overview, is_question, tell_known, tell_learned
from memdir.doors.chat.talk import Talk
from memdir.errors import MemdirError
from memdir.gates import Skip
from memdir.records import Message

_OFF = "Memory is off here: nothing is kept or looked up."
_SHUT = (Skip.OFF, Skip.PAUSED, Skip.PRIVATE, Skip.IGNORE_CONVERSATION, Skip.IGNORE_TURN)
_SECONDS = 30.0  # rules take milliseconds; another process may hold the directory


def take_turn(talk: Talk, text: str) -> None:
    """One message and its answer."""
    session = talk.session
    talk.add(Message("user", text))
    talk.learned.clear()
    session.turn_ended(talk.messages)
    session.wait(_SECONDS)
    parts = [told for done in talk.learned if (told := tell_learned(done))]
    names: tuple[str, ...] = ()
    if not parts or is_question(text):
        answer = _answer(talk, text)
        if answer.names or not parts:
            parts.append(answer.text)
            names = answer.names
    said = "\n".join(parts)
    talk.add(Message("assistant", said))
    talk.screen.tell("answer", said, names=list(names), streamed=False)
    talk.screen.flush()


def _answer(talk: Talk, text: str) -> Answer:
    if not talk.opened.places.switch.on:
        return Answer(_OFF)
    with suppress(MemdirError):  # where nothing can be written, it may be told once only
        talk.session.file.reset()
    now = talk.clock().astimezone()
    found = talk.session.recall(text)
    if is_overview(text) and found.skipped not in _SHUT:
        return tell_known([header for store in talk.opened.stores for header in store.scan()], text)
    return answer_question(found, now=now, asks=is_question(text))
