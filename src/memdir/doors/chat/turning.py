"""A turn with a model: ask, stream, run the tools it calls, ask again; memory beside it, never in its way.

    prompt arrives -> recall begins -> request -> answer in pieces -> tools -> request … -> final answer -> extraction

What recall brings goes into the first request it is ready for. The parts of a request that stay the same come first:
system prompt and tools, the index and instruction files, then what was said, which only grows; a provider's cache
knows all of it but the newest.
"""

from collections.abc import Callable, Mapping
from pathlib import Path

from memdir.doors.chat.allowing import StoppedAsking
from memdir.doors.chat.talk import CHAT, Talk
from memdir.doors.chat.tools import TOOLS, FileTools, describe_call
from memdir.errors import MemdirError, StoppedError
from memdir.models import can_use_tools, render_parent
from memdir.models.wire import add_usage
from memdir.prompts import render_prompt
from memdir.records import Message, Model, Reply, Request, Stop, ToolCall, Usage
from memdir.reminder import wrap

ROUNDS = 40  # requests of one turn; who needs more is going round in circles
COMPACT_TOKENS = 150_000  # a conversation this long is shortened before the next turn
_ANSWER_TOKENS = 8_000
_RECALL_SECONDS = 0.25  # for the first request, which may be the only one; a later one is given what was not ready
_PLAYED_SECONDS = 30.0  # the same where nobody waits, so that a script plays alike on any machine
_STOPPED = "The person stopped this turn."


def take_turn(talk: Talk, model: Model, text: str, cancelled: Callable[[], bool]) -> None:
    """One message and all that follows from it, up to the final answer; an error ends the turn and is told."""
    session = talk.session
    if talk.length > COMPACT_TOKENS and talk.compact():
        talk.screen.tell("notice", "The conversation was long and goes on from its notes.")
    if notice := session.date_notice():
        talk.add(Message("user", wrap(notice), is_meta=True))
    talk.add(Message("user", text))
    session.prompt_arrived(text)
    turn = _Turn(talk, model, cancelled)
    try:
        turn.run()
    except (StoppedError, StoppedAsking):
        turn.break_off(_STOPPED)
        session.cancel_turn()
        talk.screen.tell("notice", "Stopped.")
    except MemdirError as error:
        turn.break_off(str(error))
        talk.tell_error(error)
    session.turn_ended(talk.messages, parent=turn.parent)


class _Turn:
    def __init__(self, talk: Talk, model: Model, cancelled: Callable[[], bool]) -> None:
        self._talk, self._model, self._cancelled = talk, model, cancelled
        self._said: list[str] = []
        self._asked: Request | None = None
        self._reply: Reply | None = None
        self._tools = FileTools(
            talk.opened.places.root.path,
            talk.session.stores,
            talk.permissions,
            session=talk.id,
            show=lambda text: talk.screen.tell("output", text),
            on_saved=self._tell_saved,
        )

    @property
    def parent(self) -> Mapping[str, object] | None:
        """What a fork can go on from: the last request with its answer."""
        if self._asked is None or self._reply is None or not self._reply.text:
            return None
        return render_parent(self._model, self._asked, self._reply)

    def run(self) -> None:
        for number in range(ROUNDS):
            self._take_reminders(0 if number else _PLAYED_SECONDS if self._talk.screen.echoes else _RECALL_SECONDS)
            reply = self._ask()
            if reply.stop is Stop.LENGTH and reply.calls:
                # What was cut may be no call any more: it is neither carried out nor kept.
                reply = self._reply = Reply(reply.text, reply.usage, stop=reply.stop)
            if reply.text or reply.calls:
                self._talk.add(Message("assistant", reply.text, calls=reply.calls, raw=reply.raw))
            if not reply.calls:
                self._end(reply)
                self._take_reminders(0)  # too late for this answer, in time for the next
                return
            self._reply = None
            read = [self._act(call) for call in reply.calls]
            # After all results: nothing may stand between them.
            if added := self._talk.session.note_read([path for path in read if path is not None]):
                self._talk.add(Message("user", added, is_meta=True))
        self._talk.screen.tell("warning", f"the model was stopped after {ROUNDS} requests")

    def break_off(self, why: str) -> None:
        """Leave a conversation that can be gone on with: what was said is kept, and no call is left without answer."""
        if self._said:
            self._talk.add(Message("assistant", "".join(self._said)))
        answered = {message.answers for message in self._talk.messages}
        for call in [call for message in self._talk.messages for call in message.calls if call.id not in answered]:
            self._talk.add(Message("tool", why, answers=call.id, failed=True))
        self._reply = None

    def _ask(self) -> Reply:
        talk = self._talk
        self._asked = make_request(talk, self._model, self._hear, self._cancelled)
        self._said.clear()
        with talk.screen.streaming():
            reply = self._model(self._asked)
        self._said.clear()
        self._reply = reply
        talk.spent[CHAT] = add_usage(talk.spent.get(CHAT, Usage()), reply.usage)
        talk.length = reply.usage.input + reply.usage.output
        return reply

    def _hear(self, text: str) -> None:
        self._said.append(text)
        self._talk.screen.stream(text)

    def _end(self, reply: Reply) -> None:
        screen, usage = self._talk.screen, reply.usage
        took = {"input": usage.input, "cached": usage.cached, "output": usage.output}
        screen.tell("answer", reply.text, names=[], streamed=True, usage=took)
        if reply.stop is Stop.LENGTH:
            screen.tell("warning", "the answer was cut: it reached the most a request may bring")
        if reply.stop is Stop.REFUSED:
            screen.tell("notice", "The model declined to answer.")

    def _take_reminders(self, seconds: float) -> None:
        found = self._talk.session.take_reminders(seconds=seconds)
        if found is not None:
            self._talk.add(found.message)
            text = f"[Recalled: {', '.join(found.names)} ({found.tokens} tokens)]"
            self._talk.screen.tell("recalled", text, names=list(found.names), tokens=found.tokens)

    def _act(self, call: ToolCall) -> Path | None:
        """Run one tool; answers the file that the model has now seen."""
        if self._cancelled():
            raise StoppedAsking
        talk = self._talk
        talk.screen.tell("tool", f"[{describe_call(call)}]", name=call.name, input=dict(call.input))
        answer = self._tools(call)
        talk.add(Message("tool", answer.text, answers=call.id, failed=answer.refused))
        return None if answer.refused else self._tools.find_path(call)

    def _tell_saved(self, names: tuple[str, ...]) -> None:
        text = f"[Memory saved: {', '.join(f'{name}.md' for name in names)}]"
        self._talk.screen.tell("saved", text, written=list(names), forgotten=[], waiting=[])


def make_request(talk: Talk, model: Model, hear: Callable[[str], None], cancelled: Callable[[], bool]) -> Request:
    """The conversation as the model is asked."""
    root = str(talk.opened.places.root.path)
    system = "\n\n".join(filter(None, (render_prompt("chat/system", root=root), talk.session.instructions())))
    context = talk.session.context()
    first = (Message("user", context, is_meta=True),) if context else ()
    return Request(
        system,
        (*first, *talk.messages),
        _ANSWER_TOKENS,
        on_text=hear,
        cancelled=cancelled,
        tools=TOOLS if can_use_tools(model) else (),
        purpose=CHAT,
    )
