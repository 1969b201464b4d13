"""A dream beside the chat, when one is due: begun once, seen as it goes, taken back by one /undo, ended by leaving."""

import threading

from memdir.doors.chat.talk import Talk
from memdir.dream import Dreamed
from memdir.dream.progress import Phase, Progress
from memdir.errors import MemdirError, StoppedError

_LEAVE_SECONDS = 10.0  # a dream that is being applied is not broken off


class Dreaming:
    def __init__(self, talk: Talk) -> None:
        self._talk = talk
        self._thread: threading.Thread | None = None
        self._over = threading.Event()
        self._phase: Phase | None = None

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

    def _tell_progress(self, progress: Progress) -> None:
        if progress.phase is not self._phase:
            self._phase = progress.phase
            tokens = progress.usage.input + progress.usage.output
            spent = f", {tokens:,} tokens" if tokens else ""
            text = f"[Dream: {progress.phase.value}, {progress.files} files{spent}]"
            self._talk.screen.tell("notice", text)


def _render(done: Dreamed) -> str:
    if done.applied is None or done.skipped is not None:
        return f"[Dream: {done.skipped.words if done.skipped else 'nothing was changed'}]"
    waiting = f", {len(done.applied.waiting)} waiting in /inbox" if done.applied.waiting else ""
    return f"[Dream: {len(done.applied.changed)} memories tidied{waiting}; /undo takes it back]"
