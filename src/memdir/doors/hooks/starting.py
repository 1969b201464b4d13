"""A session begins, or goes on after the host has shortened it.

To the model: the index, where the host does not load it by itself, and to a conversation that is taken up again only if
it has changed; after a compaction the notes of the session and the memories it had. To the person: what was saved since
the last start, what came from the team, what went wrong. What was left undone is taken up by a worker.
"""

import os
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from memdir import queue
from memdir.detach import start_detached
from memdir.doors.hooks.answers import Answer
from memdir.doors.hooks.fitting import estimate, fit_lines, fit_memories, measure
from memdir.doors.hooks.given import Given
from memdir.doors.hooks.opening import open_here
from memdir.errors import MemdirError
from memdir.events import read_events, read_problems
from memdir.frozen import replace
from memdir.gitroot import find_root
from memdir.hosts.rows import Event
from memdir.index import INDEX_FILE
from memdir.limits import HOOK_CHARS, HOOK_INDEX_CHARS, HOOK_TOKENS
from memdir.opening import Opened
from memdir.paths import COMMITTED, MEMBERSHIP
from memdir.records import Scope
from memdir.session import digest, open_session
from memdir.text import one_line, shorten

if TYPE_CHECKING:
    from memdir.doors.hooks import Ready

_COMPACTED, _CLEARED, _RESUMED = "compact", "clear", "resume"
_NOTES_SECONDS = 1.2  # of the two there are
_ACTS = 50  # looked at for what was saved since
_NAMES = 5  # told of them
_PROBLEMS = 3
_RECENT = timedelta(days=7)  # where a session never began before
_GAP = "\n\n"
_BACKGROUND = ("extractor", "dream")


def answer_start(given: Given, ready: "Ready") -> None:
    with open_here(given, ready) as opened:
        if opened is None:
            return
        since = _find_last_start(given, opened)
        _catch_up(given, opened)
        source = given.text("source")
        for part in _tell_model(given, opened, source):
            ready.answer = Answer(_GAP.join(text for text in (ready.answer.context, part) if text))
        for text in _tell_person(opened, since) if source != _COMPACTED else ():
            said = "\n".join(at for at in (ready.answer.message, text) if at)
            ready.answer = replace(ready.answer, message=said)


def _tell_model(given: Given, opened: Opened, source: str) -> Iterator[str]:
    session = open_session(opened.private.state, given.session) if given.session else None
    before = session.reset(cleared=source == _CLEARED) if session and source in (_COMPACTED, _CLEARED) else None
    used = ""
    if source == _COMPACTED and given.session:
        used = _read_notes(given, opened)
        yield used
    index = read_index(given, opened, used) if Event.START in given.host.told else ""
    if source == _RESUMED and session is not None and session.find_index() == digest(index):
        index = ""  # it stands in the conversation
    used += index
    yield index
    if index and session is not None:
        with suppress(MemdirError):  # better told twice than never
            session.note_index(index)
    if before is not None and session is not None and source == _COMPACTED:
        # Imported here: conversations begin more often than they are shortened.
        from memdir.retelling import account_again, read_again

        excerpts = read_again(opened.stores, session, before)
        room, tokens = HOOK_CHARS - measure(used) - 2 * len(_GAP), HOOK_TOKENS - estimate(used)
        text = fit_memories(excerpts, now=opened.now().astimezone(), chars=room, tokens=tokens)
        account_again(opened.stores, session, [at for at in excerpts if at.path in text])
        yield text


def _read_notes(given: Given, opened: Opened) -> str:
    from memdir.notes import (
        find_home,
        find_place,
        hook_digest,
        make_template,
        open_notes,
        read_manner,
        read_notes_file,
        wait_for_update,
    )

    manner = read_manner(opened)
    if not manner.on:
        return ""
    place = find_place(find_home(opened), given.session)
    wait_for_update(place, _NOTES_SECONDS)
    text = read_notes_file(place)
    if text is None:
        return ""
    digest = hook_digest(open_notes(text, make_template(manner.template)), path=str(place.path))
    said = f"Notes that were kept of this session before it was shortened:{_GAP}{digest}" if digest else ""
    return fit_lines(said, HOOK_CHARS, where=str(place.path))


def read_index(given: Given, opened: Opened, used: str = "") -> str:
    """The indexes that the host has not loaded itself, and for a host that loads none how the memory is used."""
    from memdir.instructions import find_frame, load_store
    from memdir.prompts import render_prompt

    own, frame = given.host.loads_index and _is_same_place(given, opened), find_frame(opened)
    # A directory of which nothing would be sent is not read either: it may be a large one.
    stores = [at for at in frame.stores if not (own and at is opened.private and not frame.team)]
    loaded = [at for store in stores for at in load_store(frame, store) if not (own and at.scope is Scope.PRIVATE)]
    texts = [at.text for at in loaded if at.clip.lines_total or at.clip.warning]
    if not own:
        texts.insert(0, render_prompt("hooks/start", directory=one_line(str(opened.private.root))))
    room, tokens = HOOK_CHARS - measure(used) - 200, HOOK_TOKENS - estimate(used)
    return fit_lines(_GAP.join(texts), min(HOOK_INDEX_CHARS, room), tokens=tokens, where=INDEX_FILE)


def _is_same_place(given: Given, opened: Opened) -> bool:
    """Whether the host means the same directory: what we refuse to be told by a committed file, it may believe."""
    if opened.settings.text("worktree") == "own" and find_root(given.cwd).kind == "worktree":
        return False  # the host takes all worktrees of a repository for one project
    return not any(step.verdict == COMMITTED for step in opened.places.private.steps)


def _tell_person(opened: Opened, since: datetime | None) -> Iterator[str]:
    if since is not None:
        yield _tell_saved(opened, since)
    yield from _tell_news(opened)
    state, home = opened.private.state, opened.environment.state_home
    after = since or opened.now() - _RECENT
    problems = [*read_problems(state, since=after), *read_problems(home, since=after)]
    for problem in problems[:_PROBLEMS]:
        times = f" ({problem.times} times)" if problem.times > 1 else ""
        yield f"memdir had a problem: {problem.text}{times}; `memdir doctor` tells more"


def _tell_saved(opened: Opened, since: datetime) -> str:
    acts = [at for at in opened.private.acts(limit=_ACTS) if at.at > since and at.origin.who in _BACKGROUND]
    paths = [change.path for act in acts if act.undone_by is None for change in act.changes if change.after]
    names = list(dict.fromkeys(path for path in paths if path.rpartition("/")[2] != INDEX_FILE))
    if not names:
        return ""
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"[Memory saved: {', '.join(shorten(one_line(at), 60) for at in names[:_NAMES])}{more}]"


def _tell_news(opened: Opened) -> Iterator[str]:
    """What has come from others since the last start; it counts as seen when it is in the answer."""
    if not _is_member(opened):
        return
    # Imported here: few projects share their memory.
    from memdir.team import mark_seen, read_news, render_news

    if news := read_news(opened.private.state):
        yield render_news(news).strip()
        mark_seen(opened.private.state)


def _find_last_start(given: Given, opened: Opened) -> datetime | None:
    events = read_events(opened.private.state)
    return next((at.at for at in events if (at.host, at.event) == (given.host.key, given.event.value)), None)


def _catch_up(given: Given, opened: Opened) -> None:
    """Begin a worker if turns wait to be learned from, or if there is much to be read into the index; sync if due."""
    store = opened.private
    try:
        index = store.find_index_file()
        if queue.read_queue(store.state) or (store.has_any() and (index is None or not index.exists())):
            start_detached(given.cwd, "worker")
        if _is_member(opened) and _is_sync_due(opened):
            start_detached(given.cwd, "team", "sync")
    except (MemdirError, OSError):
        pass  # the next start tries again


def _is_member(opened: Opened) -> bool:
    """Whether somebody in this project takes part in a team, as far as a file's being there tells."""
    return opened.settings.flag("team") and os.path.isfile(opened.private.state / MEMBERSHIP)


def _is_sync_due(opened: Opened) -> bool:
    from memdir.team import is_due, read_membership

    state = opened.private.state
    return read_membership(state) is not None and is_due(state, opened.now())
