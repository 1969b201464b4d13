"""The state of one chat: what it stands on, what was said, who helps. The session, with all of memory behind it, is
opened when it is first needed: the prompt is there before that is loaded."""

from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

from memdir.doors.chat.allowing import Permissions
from memdir.doors.chat.screen import Screen
from memdir.doors.chat.transcript import Transcript
from memdir.doors.chat.wishes import Clock, Wish
from memdir.errors import MemdirError
from memdir.frozen import replace
from memdir.opening import Opened, open_places
from memdir.records import Message, Model, Usage
from memdir.reminder import wrap

if TYPE_CHECKING:
    from memdir.conversing import Session
    from memdir.conversing.telling import SkipReason
    from memdir.extracted import Extracted

# One call of the command line: arguments, environment, directory -> exit code.
RunVerb = Callable[..., int]
CHAT = "chat"
_ANEW = "A new conversation begins here."


class Talk:
    """`variables` is the environment of the caller, None for the real one; `run_verb` calls the command line."""

    def __init__(
        self,
        wish: Wish,
        screen: Screen,
        permissions: Permissions,
        *,
        id: str,
        cwd: Path,
        variables: Mapping[str, str] | None,
        run_verb: RunVerb,
        clock: Clock | None = None,
    ) -> None:
        self.wish, self.screen, self.permissions, self.cwd = wish, screen, permissions, cwd
        self._variables, self._run_verb = variables, run_verb
        self.id = id
        self.opened = self._open(clock)
        self.messages: list[Message] = []
        self.learned: list[Extracted] = []  # what the last turn of the memory-only assistant was told of
        self.length = 0  # tokens of the last request and its answer
        self.spent: dict[str, Usage] = {}
        self.spec = wish.model or self.opened.settings.text("model")
        self._session: Session | None = None
        self._model: Model | None = None
        self.transcript = Transcript(
            self.opened.private.state,
            id,
            cwd=cwd,
            clock=self.clock,
            keeps=self.opened.places.switch.on,
            on_lost=lambda error: screen.tell("warning", f"this conversation cannot be resumed later: {error}"),
        )

    @property
    def clock(self) -> Clock:
        found = self.opened.clock
        assert isinstance(found, Clock)
        return found

    @property
    def has_model(self) -> bool:
        return self.spec.strip() != "none" and not self.opened.environment.inside

    @property
    def session(self) -> "Session":
        if self._session is None:
            # Imported here: with all of memory behind it, it takes longer to load than a prompt to appear.
            from memdir.conversing import Callbacks, Session

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

    def _open(self, clock: Clock | None) -> Opened:
        opened = open_places(self.cwd, environ=self._variables, directory=self.wish.directory)
        played = clock or Clock(opened.clock)
        for store in opened.stores:
            store.clock = played
        return replace(opened, clock=played)

    def _hear_saved(self, done: "Extracted") -> None:
        self.learned.append(done)
        facts = {"written": list(done.written), "forgotten": list(done.forgotten), "waiting": list(done.waiting)}
        self.screen.tell("saved", done.notice, **facts)

    def _hear_skipped(self, what: str, reason: "SkipReason") -> None:
        if self.screen.as_json:
            self.screen.tell("skipped", reason.words, what=what, reason=reason.value)

    def _hear_cost(self, usage: Usage, purpose: str) -> None:
        from memdir.models.wire import add_usage

        self.spent[purpose] = add_usage(self.spent.get(purpose, Usage()), usage)
