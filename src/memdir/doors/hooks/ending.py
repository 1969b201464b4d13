"""A turn or a session ends, or the host is about to shorten a conversation: a note is left, and a worker goes on.

Nothing is learned here: hosts wait for this process, and kill it at the end of a session.
"""

from typing import TYPE_CHECKING

from memdir.detach import start_detached
from memdir.doors.hooks.given import Given
from memdir.doors.hooks.opening import open_here
from memdir.hosts.rows import Event
from memdir.opening import Opened
from memdir.queue import Entry, enqueue

if TYPE_CHECKING:
    from memdir.doors.hooks import Ready


def answer_end(given: Given, ready: "Ready") -> None:
    if given.is_subagent:
        return
    with open_here(given, ready) as opened:
        session, transcript = given.session, given.text("transcript_path")
        if opened is None or not (given.host.learns and session and transcript):
            return
        if given.event is Event.END and _is_learned(opened, session, transcript):
            return
        enqueue(opened.private.state, Entry(session, transcript, given.is_headless))
        if given.event is Event.COMPACT and opened.settings.flag("notes"):
            start_detached(given.cwd, "notes", "update", "--session", session, "--transcript", transcript)
        if given.event is not Event.END:
            start_detached(given.cwd, "worker")


def _is_learned(opened: Opened, session: str, transcript: str) -> bool:
    """Whether everything was learned from already, so that no note need wait for the next session."""
    from memdir.cursor import parse_cursor
    from memdir.session import open_session
    from memdir.transcripts import read_tail

    cursor = parse_cursor(open_session(opened.private.state, session).read().extra.get("cursor"))
    if cursor is None or not cursor.id:
        return False
    last = read_tail(transcript, 1)
    return bool(last) and last[-1].id == cursor.id
