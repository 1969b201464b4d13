"""`memdir chat`: the reference host, where all of memory is wired, and the command a newcomer runs first.

    wishes.py       how it was called, and its clock      screen.py       all that is shown, as text or JSON events
    reading.py      lines: a terminal, a pipe, a file     loop.py         a line comes, and what follows
    talk.py         the state of one chat                 transcript.py   the conversation on disk, to be resumed
    commands.py     the table of /commands                shown.py        what some of them show
    turning.py      a turn with a model                   remembering.py  a turn without one
    tools.py        file tools for the model              allowing.py     may it use them
    dreaming.py     a dream beside it, when due           demo.py         three days in a few seconds

It translates between a person, a model and `conversing.Session`, and holds no rule of memory. Verbs of the command line
are run for it by whoever opened both doors.
"""

import gc
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from datetime import datetime, timedelta
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from memdir.dream import DreamResult
from memdir.dream.records import DreamPhase, ProgressStep
from memdir.errors import DiskError, FormatError, MemdirError, StoppedError
from memdir.frozen import dataclass, replace
from memdir.interfaces.chat_terminal import (
    TOOLS,
    ChatTranscript,
    FileTools,
    Interrupted,
    Permissions,
    Screen,
    StoppedAsking,
    Terminal,
    describe_call,
    find_past_chat,
    is_terminal,
    list_inputs,
    list_past_chats,
    play_lines,
)
from memdir.models import can_use_tools, render_parent
from memdir.models.connection import add_usage
from memdir.models.prompts import render_prompt
from memdir.project.settings import read_environment
from memdir.recall.reminder import wrap
from memdir.records import Message, Model, Reply, Request, StopReason, ToolCall, Usage
from memdir.store.open import Project, open_project
from memdir.text import one_line, replace_surrogates, shorten

if TYPE_CHECKING:
    from memdir.extraction import ExtractResult
    from memdir.session import Session, SkipReason


# --- wishes ---
# How chat was called, and the clock it goes by.

_MORNING = timedelta(hours=9)  # a day without an hour begins when people do


@dataclass(frozen=True, slots=True)
class ChatOptions:
    """The options of `memdir chat`. `resume` is an id, empty for the newest one that is asked for, None for none."""

    script: str | None = None
    resume: str | None = None
    lists: bool = False
    model: str | None = None
    allowed: tuple[str, ...] = ()
    private: bool = False
    as_json: bool = False
    color: str = "auto"
    directory: Path | None = None


class ChatClock:
    """The time as it is, until somebody sets the day; from then on it goes on from there."""

    def __init__(self, real: Callable[[], datetime]) -> None:
        self._real = real
        self._set: datetime | None = None
        self._since = 0.0

    def __call__(self) -> datetime:
        if self._set is None:
            return self._real()
        return self._set + timedelta(seconds=time.monotonic() - self._since)

    @property
    def is_set(self) -> bool:
        return self._set is not None

    def set(self, text: str) -> datetime:
        """Another day or time, as a person writes it: 2026-03-02, or with an hour."""
        try:
            given = datetime.fromisoformat(text.strip())
        except ValueError:
            shown = shorten(one_line(text), 40)
            raise FormatError(f"{shown!r} is no date", field="now", hint="for example /now 2026-03-02") from None
        if len(text.strip()) <= len("2026-03-02"):
            given += _MORNING
        self._set = given if given.tzinfo else given.astimezone()
        self._since = time.monotonic()
        return self._set


# --- talk ---
# The state of one chat: what it stands on, what was said, who helps. The session, with all of memory behind it, is
# opened when it is first needed: the prompt is there before that is loaded.

# One call of the command line: arguments, environment, directory -> exit code.
RunVerb = Callable[..., int]
CHAT = "chat"
_ANEW = "A new conversation begins here."


class ChatTalk:
    """`variables` is the environment of the caller, None for the real one; `run_verb` calls the command line."""

    def __init__(
        self,
        wish: ChatOptions,
        screen: Screen,
        permissions: Permissions,
        *,
        id: str,
        cwd: Path,
        variables: Mapping[str, str] | None,
        run_verb: RunVerb,
        clock: ChatClock | None = None,
    ) -> None:
        self.wish, self.screen, self.permissions, self.cwd = wish, screen, permissions, cwd
        self._variables, self._run_verb = variables, run_verb
        self.id = id
        self.opened = self._open(clock)
        self.messages: list[Message] = []
        self.learned: list[ExtractResult] = []  # what the last turn of the memory-only assistant was told of
        self.length = 0  # tokens of the last request and its answer
        self.spent: dict[str, Usage] = {}
        self.spec = wish.model or self.opened.settings.text("model")
        self._session: Session | None = None
        self._model: Model | None = None
        self.transcript = ChatTranscript(
            self.opened.private.state,
            id,
            cwd=cwd,
            clock=self.clock,
            keeps=self.opened.places.switch.on,
            on_lost=lambda error: screen.tell("warning", f"this conversation cannot be resumed later: {error}"),
        )

    @property
    def clock(self) -> ChatClock:
        found = self.opened.clock
        assert isinstance(found, ChatClock)
        return found

    @property
    def has_model(self) -> bool:
        return self.spec.strip() != "none" and not self.opened.environment.inside

    @property
    def session(self) -> "Session":
        if self._session is None:
            # Imported here: with all of memory behind it, it takes longer to load than a prompt to appear.
            from memdir.session import Callbacks, Session

            callbacks = Callbacks(
                saved=self._hear_saved, skipped=self._hear_skipped, cost=self._hear_cost, error=self.tell_error
            )
            self._session = Session(self.opened, id=self.id, cwd=self.cwd, callbacks=callbacks, clock=self.clock)
            self._session.set_model(self._find_helper())
            if self.wish.private:
                self._session.set_private()
        return self._session

    @property
    def model(self) -> Model | None:
        """Opened when it is first asked for; raises what opening raises."""
        if self._model is None and self.has_model:
            from memdir.models import open_model

            opened, project = self.opened, str(self.opened.places.root.path)
            self._model = open_model(
                self.spec, environment=opened.environment, settings=opened.settings, project=project
            )
        return self._model

    def _find_helper(self) -> Model | None:
        """The model for what goes on behind the chat; one that cannot be opened is told of when it is asked."""
        try:
            return self.model
        except MemdirError:
            return None

    def set_model(self, spec: str) -> None:
        before = self.spec, self._model
        self.spec, self._model = spec, None
        try:
            self.session.set_model(self.model)
        except MemdirError:
            self.spec, self._model = before
            raise

    def add(self, message: Message) -> Message:
        """Say something: on disk first, then in the conversation. Raw blocks of a provider stay in this process."""
        named = self.transcript.add(message)
        self.messages.append(named)
        return named

    def clear(self) -> None:
        """A new conversation, with what is remembered of this one."""
        self.session.clear()
        if self.messages:
            self.messages = [self.transcript.begin_anew(wrap(_ANEW))]
        self.length = 0

    def compact(self) -> bool:
        """Go on from the notes of the conversation in its place; answers whether there were any."""
        text = self.session.compact(self.messages)
        if text:
            self.messages = [self.transcript.begin_anew(text)]
            self.length = 0
        return bool(text)

    def reopen(self) -> None:
        """Hear the settings anew: somebody has changed one."""
        if self._session is not None:
            self._session.close()
        self._session = None
        self.opened.close()
        self.opened = self._open(self.clock)

    def set_day(self, text: str) -> None:
        """Go on another day, when what was said on this one is learned."""
        if self._session is not None:
            self._session.wait()
        self.clock.set(text)

    def run_verb(self, *argv: str) -> int:
        """A verb of the command line, in this place and on this day."""
        self.screen.flush()
        environ = dict(self.opened.environment.inherited)
        if self.clock.is_set:
            environ["MEMDIR_NOW"] = self.clock().isoformat()
        before = [] if self.wish.directory is None else ["--dir", str(self.wish.directory)]
        color = ["--color", self.wish.color]
        words = [*before, *color, *argv]
        if not self.screen.as_json:
            return self._run_verb(words, environ=environ, cwd=self.cwd)
        with redirect_stdout(StringIO()) as out, redirect_stderr(StringIO()) as err:
            code = self._run_verb(words, environ=environ, cwd=self.cwd)
        for kind, said in (("output", out.getvalue()), ("error", err.getvalue())):
            if said:
                self.screen.tell(kind, said.rstrip("\n"))
        return code

    def close(self) -> bool:
        """Wait for what is being learned; answers whether all of it is done."""
        done = True
        if self._session is not None:
            if not self._session.wait(0):
                self.screen.tell("notice", "Finishing what is being learned. Ctrl-C leaves it.")
            done = self._session.close()
        self.screen.flush()
        self.opened.close()
        return done

    @property
    def is_open(self) -> bool:
        return self._session is not None

    def tell_error(self, error: MemdirError) -> None:
        hint = f"; {error.hint}" if error.hint else ""
        self.screen.tell("error", f"{error}{hint}", hint=error.hint or "")

    def _open(self, clock: ChatClock | None) -> Project:
        opened = open_project(self.cwd, environ=self._variables, directory=self.wish.directory)
        played = clock or ChatClock(opened.clock)
        for store in opened.stores:
            store.clock = played
        return replace(opened, clock=played)

    def _hear_saved(self, done: "ExtractResult") -> None:
        self.learned.append(done)
        facts = {"written": list(done.written), "forgotten": list(done.forgotten), "waiting": list(done.waiting)}
        self.screen.tell("saved", done.notice, **facts)

    def _hear_skipped(self, what: str, reason: "SkipReason") -> None:
        if self.screen.as_json:
            self.screen.tell("skipped", reason.words, what=what, reason=reason.value)

    def _hear_cost(self, usage: Usage, purpose: str) -> None:
        from memdir.models.connection import add_usage

        self.spent[purpose] = add_usage(self.spent.get(purpose, Usage()), usage)


# --- chat ---


def chat(*, cwd: Path, variables: Mapping[str, str] | None, run_verb: RunVerb, spec: str | None, **options: Any) -> int:
    """One chat, from the first prompt to the last; `options` are those of a Wish. Answers the exit code."""
    # Imported here: who only asks for a demo, or for help, does without.

    gc.enable()  # it may be a long one
    wish = ChatOptions(model=spec, **options)
    try:
        return Chat(wish, cwd=cwd, variables=variables, run_verb=run_verb).run()
    except BrokenPipeError:
        # Whoever read along has gone: there is nobody to tell, and the interpreter's last flush goes nowhere.
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), sys.stdout.fileno())
        return 0


def demo(*, color: str, run_verb: RunVerb) -> int:
    """Three days of a project in a temporary folder."""
    from memdir.interfaces.chat_commands import play

    gc.enable()
    return play(color=color, run_verb=run_verb)


# --- loop ---
# The chat itself: a line comes, it is a command or a message, and what follows is shown; until there are no more.
#
# A person's Ctrl-C stops a turn, or clears the line; two in a row end the chat, as Ctrl-D does. Played lines have
# nobody
# who could interrupt, and nobody who could be asked.

_LISTED = 10
_SETTLED_SECONDS = 0.2
_NO_MODEL = (
    "No model is chosen, so memory answers alone: tell me things, ask about them later. `/model claude-cli` or another"
    " NAME adds a model for this chat, `memdir config set model NAME` for good."
)
_ORIENTATION = """memdir chat: an assistant that remembers what you tell it, in plain files.

  memdir chat                    talk to it in a terminal
  memdir chat --script FILE      play the lines of a file; /now 2026-03-02 sets the day
  memdir demo                    three days in a few seconds, in a temporary folder
  echo "remember that we deploy on Tuesdays" | memdir chat"""


class Chat:
    """One call of `memdir chat`."""

    def __init__(self, wish: ChatOptions, *, cwd: Path, variables: Mapping[str, str] | None, run_verb: RunVerb) -> None:
        self._wish, self._cwd, self._variables, self._run_verb = wish, cwd, variables, run_verb
        self._is_played = wish.script is not None or not (is_terminal(sys.stdin) and is_terminal(sys.stdout))
        environment = read_environment(variables)
        wanted = wish.color == "always" or (
            wish.color == "auto" and is_terminal(sys.stdout) and not environment.no_color
        )
        self.screen = Screen(as_json=wish.as_json, color=wanted, echoes=self._is_played)

    def run(self) -> int:
        if self._wish.lists:
            self._list()
            return 0
        lines = _read_script(self._wish.script) if self._is_played else None
        if lines is not None:
            first = next(lines, None)
            if first is None:
                self.screen.tell("output", _ORIENTATION)
                return 0
            self._play(self._open(Permissions(allowed=self._wish.allowed)), _chain(first, lines))
        else:
            self._converse()
        return 0

    def _list(self) -> None:
        """The conversations that can be resumed here."""
        opened = open_project(self._cwd, environ=self._variables, directory=self._wish.directory)
        kept = list_past_chats(opened.private.state, _LISTED)
        opened.close()
        for at in kept:
            time = at.at.isoformat(timespec="seconds")
            self.screen.tell("output", f"{at.id[:8]}  {time}  {at.title}", session=at.id)
        if not kept:
            self.screen.tell("notice", "There is no conversation to resume here.")

    # --- lines that are played ----------------------------------------------------------------------------------------

    def _play(self, talk: ChatTalk, lines: Iterable[str]) -> None:
        self._welcome(talk)
        try:
            for line in lines:
                talk.screen.tell("heard", line)
                if not handle(talk, line):
                    break
        finally:
            self._leave(talk)

    # --- a person -----------------------------------------------------------------------------------------------------

    def _converse(self) -> None:
        terminal = Terminal(self.screen, lambda line, word: _complete(talk, line, word))
        talk = self._open(Permissions(lambda question: _ask(terminal, question), self._wish.allowed))
        self._welcome(talk)
        terminal.remember(list_inputs(talk.opened.private.state))
        leaving = threading.Event()
        warm = threading.Thread(target=_warm_up, args=(talk, leaving), name="memdir-warm", daemon=True)
        warm.start()
        dreaming = None
        try:
            with terminal.attending():
                for line in _read_lines(terminal, self.screen):
                    if not handle(talk, line):
                        break
                    if talk.is_open:
                        dreaming = dreaming or ChatDream(talk)
                        dreaming.begin_if_due()
        finally:
            leaving.set()
            warm.join()
            if dreaming is not None:
                dreaming.leave()
            self._leave(talk)

    def _open(self, permissions: Permissions) -> ChatTalk:
        id = os.urandom(16).hex()
        if self._wish.resume is not None:
            opened = open_project(self._cwd, environ=self._variables, directory=self._wish.directory)
            id = find_past_chat(opened.private.state, self._wish.resume)
            opened.close()
        talk = ChatTalk(
            self._wish, self.screen, permissions, id=id, cwd=self._cwd, variables=self._variables,
            run_verb=self._run_verb,
        )  # fmt: skip
        if self._wish.resume is not None:
            talk.messages += talk.transcript.resume()
        return talk

    def _welcome(self, talk: ChatTalk) -> None:
        root = talk.opened.places.root.path
        lines = [f"memdir chat in {root}; /help lists the commands."]
        if talk.messages:
            said = sum(message.role == "user" and not message.is_meta for message in talk.messages)
            lines.append(f"Going on with conversation {talk.id[:8]}: {said} of your messages.")
        if not talk.opened.places.switch.on:
            lines.append(f"Memory is off here ({talk.opened.places.switch.rule}): nothing is remembered.")
        elif not talk.has_model:
            lines.append(_NO_MODEL)
        model = talk.spec if talk.has_model else None
        self.screen.tell("start", "\n".join(lines), session=talk.id, model=model, project=str(root))

    def _leave(self, talk: ChatTalk) -> None:
        done = talk.close()
        if not done:
            self.screen.tell("warning", "not everything was learned in time; the next turn here goes on with it")
        self.screen.tell("end", "", session=talk.id)


def handle(talk: ChatTalk, line: str) -> bool:
    """One line; answers whether to go on."""
    # Imported here: the prompt is on the screen before these rooms, and all of memory behind them, are loaded.
    from memdir.interfaces.chat_commands import QuitChat, find_command, run_command

    line = replace_surrogates(line)  # a terminal lets bytes through that are no text
    try:
        command = find_command(line)
        if command is not None:
            run_command(talk, *command)
        else:
            _take_turn(talk, line)
    except QuitChat:
        return False
    talk.screen.flush()
    return True


def _take_turn(talk: ChatTalk, text: str) -> None:
    try:
        model = talk.model
        if model is None:
            from memdir.interfaces.chat_commands import take_turn as answer_alone

            answer_alone(talk, text)
            return
        take_turn = take_model_turn

        with _cancelling() as cancelled:
            take_turn(talk, model, text, cancelled)
    except MemdirError as error:
        talk.tell_error(error)


@contextmanager
def _cancelling() -> Iterator[Callable[[], bool]]:
    """While it lasts, the first Ctrl-C asks to stop, and the second leaves everything."""
    stop = threading.Event()

    def hear(number: int, frame: object) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        stop.set()

    before = signal.signal(signal.SIGINT, hear)
    try:
        yield stop.is_set
    finally:
        signal.signal(signal.SIGINT, before)


def _read_lines(terminal: Terminal, screen: Screen) -> Iterator[str]:
    interrupts = 0
    while True:
        try:
            line = terminal.read()
        except Interrupted:
            interrupts += 1
            sys.stdout.write("\n")
            if interrupts > 1:
                return
            screen.tell("notice", "Ctrl-C once more ends the chat.")
            continue
        except EOFError:
            sys.stdout.write("\n")
            return
        interrupts = 0
        if line.strip():
            yield line


def _ask(terminal: Terminal, question: str) -> str:
    """Put a question in the middle of a turn; Ctrl-C there stops the turn."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return terminal.ask(question)
    except KeyboardInterrupt:
        raise StoppedAsking from None
    finally:
        signal.signal(signal.SIGINT, before)


def _warm_up(talk: ChatTalk, leaving: threading.Event) -> None:
    """Load, while the person types, what the first line needs; a vendor's SDK when the prompt is surely there."""
    import_module("memdir.interfaces.chat_commands")
    if talk.has_model and not leaving.wait(_SETTLED_SECONDS):
        import_module("memdir.interfaces.chat")
        import_module("memdir.models").load_sdk(talk.spec)


def _complete(talk: ChatTalk, line: str, word: str) -> list[str]:
    from memdir.interfaces.chat_commands import complete

    return complete(talk, line, word)


def _read_script(path: str | None) -> Iterator[str]:
    if path is None or path == "-":
        yield from play_lines(line.decode("utf-8", "replace") for line in sys.stdin.buffer)
        return
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            yield from play_lines(file)
    except OSError as error:
        problem = f"cannot read {path}: {(error.strerror or '').lower()}"
        raise DiskError(problem, path=path, hint="--script takes a text file, or - for standard input") from error


def _chain(first: str, rest: Iterator[str]) -> Iterator[str]:
    yield first
    yield from rest


# --- turning ---
# A turn with a model: ask, stream, run the tools it calls, ask again; memory beside it, never in its way.
#
#     prompt arrives -> recall begins -> request -> answer in pieces -> tools -> request … -> final answer ->
# extraction
#
# What recall brings goes into the first request it is ready for. The parts of a request that stay the same come first:
# system prompt and tools, the index and instruction files, then what was said, which only grows; a provider's cache
# knows all of it but the newest.

ROUNDS = 40  # requests of one turn; who needs more is going round in circles
COMPACT_TOKENS = 150_000  # a conversation this long is shortened before the next turn
_ANSWER_TOKENS = 8_000
_RECALL_SECONDS = 0.25  # for the first request, which may be the only one; a later one is given what was not ready
_PLAYED_SECONDS = 30.0  # the same where nobody waits, so that a script plays alike on any machine
_STOPPED = "The person stopped this turn."


def take_model_turn(talk: ChatTalk, model: Model, text: str, cancelled: Callable[[], bool]) -> None:
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
    def __init__(self, talk: ChatTalk, model: Model, cancelled: Callable[[], bool]) -> None:
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
            if reply.stop is StopReason.LENGTH and reply.calls:
                # What was cut may be no call any more: it is neither carried out nor kept.
                reply = self._reply = Reply(reply.text, reply.usage, stop=reply.stop)
            if reply.text or reply.calls:
                self._talk.add(Message("assistant", reply.text, calls=reply.calls, raw=reply.raw))
            if not reply.calls:
                self._end(reply)
                self._take_reminders(0)  # too late for this answer, in time for the next
                return
            self._reply = None
            read = [self._run_call(call) for call in reply.calls]
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
        if reply.stop is StopReason.LENGTH:
            screen.tell("warning", "the answer was cut: it reached the most a request may bring")
        if reply.stop is StopReason.REFUSED:
            screen.tell("notice", "The model declined to answer.")

    def _take_reminders(self, seconds: float) -> None:
        found = self._talk.session.take_reminders(seconds=seconds)
        if found is not None:
            self._talk.add(found.message)
            text = f"[Recalled: {', '.join(found.names)} ({found.tokens} tokens)]"
            self._talk.screen.tell("recalled", text, names=list(found.names), tokens=found.tokens)

    def _run_call(self, call: ToolCall) -> Path | None:
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


def make_request(talk: ChatTalk, model: Model, hear: Callable[[str], None], cancelled: Callable[[], bool]) -> Request:
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


# --- dreaming ---
# A dream beside the chat, when one is due: begun once, seen as it goes, taken back by one /undo, ended by leaving.

_LEAVE_SECONDS = 10.0  # a dream that is being applied is not broken off


class ChatDream:
    def __init__(self, talk: ChatTalk) -> None:
        self._talk = talk
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._phase: DreamPhase | None = None

    def begin_if_due(self) -> None:
        """At most once in a chat; asking costs one look at a file's time."""
        if self._thread is None and not self._over.is_set() and self._talk.session.dream_due():
            self._thread = threading.Thread(target=self._run, name="memdir-dream", daemon=True)
            self._thread.start()

    def leave(self) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(_LEAVE_SECONDS)

    def _run(self) -> None:
        talk = self._talk
        try:
            done = talk.session.dream(on_progress=self._tell_progress, cancelled=self._over.is_set)
        except StoppedError:
            talk.screen.tell("notice", "[Dream: stopped, nothing was changed]")
        except MemdirError as error:
            talk.tell_error(error)
        else:
            talk.screen.tell("notice", _render(done))

    def _tell_progress(self, progress: ProgressStep) -> None:
        if progress.phase is not self._phase:
            self._phase = progress.phase
            tokens = progress.usage.input + progress.usage.output
            spent = f", {tokens:,} tokens" if tokens else ""
            text = f"[Dream: {progress.phase.value}, {progress.files} files{spent}]"
            self._talk.screen.tell("notice", text)


def _render(done: DreamResult) -> str:
    if done.applied is None or done.skipped is not None:
        return f"[Dream: {done.skipped.words if done.skipped else 'nothing was changed'}]"
    waiting = f", {len(done.applied.waiting)} waiting in /inbox" if done.applied.waiting else ""
    return f"[Dream: {len(done.applied.changed)} memories tidied{waiting}; /undo takes it back]"
