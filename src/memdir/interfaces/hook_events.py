"""A prompt was submitted: the memories that fit it go before the model.

With the first one the index goes, too, where the host cannot be told it at the start.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from memdir.conversation.instructions import InstructionMode, find_frame, load_indexes
from memdir.conversation.tool_calls import (
    EDITORS,
    PATH_KEYS,
    SHELLS,
    WRITERS,
    MemoryRoot,
    find_writes,
    judge_write,
    plain_name,
)
from memdir.errors import MemdirError, PathError, SettingsError
from memdir.extraction import turns
from memdir.extraction.turns import QueuedTurn, enqueue
from memdir.files import read_events, read_problems, start_detached
from memdir.format.index import INDEX_FILE
from memdir.frozen import replace
from memdir.interfaces.hooks import HookInput, HookReply, open_here
from memdir.limits import HOOK_CHARS, HOOK_INDEX_CHARS, HOOK_TOKENS
from memdir.project.git import find_root
from memdir.project.hosts import HookEvent
from memdir.project.paths import COMMITTED, MEMBERSHIP
from memdir.project.settings import Environment
from memdir.recall import RecallResult, find_key, recall_here
from memdir.recall.find import strip_host_text
from memdir.recall.reminder import estimate_reply_tokens, fit_lines, fit_memories, measure_reply
from memdir.records import Scope, ToolCall
from memdir.store.open import AgentDirectory, AgentScope, Project, find_agent_place, list_definitions
from memdir.store.sessions import digest, open_session
from memdir.text import fold, one_line, shorten

if TYPE_CHECKING:
    from memdir.interfaces.hooks import HookOutput
    from memdir.store.secret_text import SecretFinding


# --- prompting ---

_GAP = "\n\n"


def answer_prompt(given: HookInput, ready: "HookOutput") -> None:
    text = strip_host_text(given.text("prompt"))
    with open_here(given, ready) as opened:
        if opened is None or not text:
            return
        index = _tell_index(given, opened, ready) if HookEvent.START not in given.host.told else ""

        def tell(found: RecallResult) -> None:
            """The words are ready before they are accounted for: better told twice than never."""
            if not found.memories:
                ready.answer = HookReply(index)
                return
            # Imported here: most prompts recall nothing, and the tables against forged reminders are large.
            from memdir.recall.reminder import estimate_reply_tokens, fit_memories, measure_reply

            now, used = opened.now().astimezone(), index and index + _GAP
            chars, tokens = HOOK_CHARS - measure_reply(used), HOOK_TOKENS - (estimate_reply_tokens(used) if used else 0)
            ready.answer = HookReply(used + fit_memories(found.memories, now=now, chars=chars, tokens=tokens))

        told: list[RecallResult] = []

        def tell_first(found: RecallResult) -> None:
            told.append(found)
            tell(found)

        last = recall_here(opened, text, session=given.session, on_found=tell_first)
        if last is not told[0]:
            tell(last)


def _tell_index(given: HookInput, opened: Project, ready: "HookOutput") -> str:
    """The index, for a host that is told nothing at the start: with the first prompt of a conversation."""
    # Imported here: most hosts have it by now.

    session = open_session(opened.private.state, given.session)
    if not given.session or session.find_index():
        return ""
    index = read_index(given, opened)
    ready.answer = HookReply(index)
    session.note_index(index)
    return index


# --- starting ---
# A session begins, or goes on after the host has shortened it.
#
# To the model: the index, where the host does not load it by itself, and to a conversation that is taken up again only
#  if
# it has changed; after a compaction the notes of the session and the memories it had. To the person: what was saved
# since
# the last start, what came from the team, what went wrong. What was left undone is taken up by a worker.

_COMPACTED, _CLEARED, _RESUMED = "compact", "clear", "resume"
_NOTES_SECONDS = 1.2  # of the two there are
_CHANGES = 50  # looked at for what was saved since
_NAMES = 5  # told of them
_PROBLEMS = 3
_RECENT = timedelta(days=7)  # where a session never began before
_BACKGROUND = ("extractor", "dream")


def answer_start(given: HookInput, ready: "HookOutput") -> None:
    with open_here(given, ready) as opened:
        if opened is None:
            return
        since = _find_last_start(given, opened)
        _catch_up(given, opened)
        source = given.text("source")
        for part in _tell_model(given, opened, source):
            ready.answer = HookReply(_GAP.join(text for text in (ready.answer.context, part) if text))
        for text in _tell_person(opened, since) if source != _COMPACTED else ():
            said = "\n".join(at for at in (ready.answer.message, text) if at)
            ready.answer = replace(ready.answer, message=said)


def _tell_model(given: HookInput, opened: Project, source: str) -> Iterator[str]:
    session = open_session(opened.private.state, given.session) if given.session else None
    before = session.reset(cleared=source == _CLEARED) if session and source in (_COMPACTED, _CLEARED) else None
    used = ""
    if source == _COMPACTED and given.session:
        used = _read_notes(given, opened)
        yield used
    index = read_index(given, opened, used) if HookEvent.START in given.host.told else ""
    if source == _RESUMED and session is not None and session.find_index() == digest(index):
        index = ""  # it stands in the conversation
    used += index
    yield index
    if index and session is not None:
        with suppress(MemdirError):  # better told twice than never
            session.note_index(index)
    if before is not None and session is not None and source == _COMPACTED:
        # Imported here: conversations begin more often than they are shortened.
        from memdir.recall import account_again, read_again

        excerpts = read_again(opened.stores, session, before)
        room, tokens = HOOK_CHARS - measure_reply(used) - 2 * len(_GAP), HOOK_TOKENS - estimate_reply_tokens(used)
        text = fit_memories(excerpts, now=opened.now().astimezone(), chars=room, tokens=tokens)
        account_again(opened.stores, session, [at for at in excerpts if at.path in text])
        yield text


def _read_notes(given: HookInput, opened: Project) -> str:
    from memdir.conversation.notes import (
        find_home,
        find_notes_file,
        read_notes_file,
        read_notes_options,
        wait_for_update,
    )
    from memdir.conversation.notes_file import hook_digest, make_template, open_notes

    manner = read_notes_options(opened)
    if not manner.on:
        return ""
    place = find_notes_file(find_home(opened), given.session)
    wait_for_update(place, _NOTES_SECONDS)
    text = read_notes_file(place)
    if text is None:
        return ""
    digest = hook_digest(open_notes(text, make_template(manner.template)), path=str(place.path))
    said = f"Notes that were kept of this session before it was shortened:{_GAP}{digest}" if digest else ""
    return fit_lines(said, HOOK_CHARS, where=str(place.path))


def read_index(given: HookInput, opened: Project, used: str = "") -> str:
    """The indexes that the host has not loaded itself, and for a host that loads none how the memory is used."""
    from memdir.conversation.instructions import find_frame, load_store
    from memdir.models.prompts import render_prompt

    own, frame = given.host.loads_index and _is_same_place(given, opened), find_frame(opened)
    # A directory of which nothing would be sent is not read either: it may be a large one.
    stores = [at for at in frame.stores if not (own and at is opened.private and not frame.team)]
    loaded = [at for store in stores for at in load_store(frame, store) if not (own and at.scope is Scope.PRIVATE)]
    texts = [at.text for at in loaded if at.clip.lines_total or at.clip.warning]
    if not own:
        texts.insert(0, render_prompt("hooks/start", directory=one_line(str(opened.private.root))))
    room, tokens = HOOK_CHARS - measure_reply(used) - 200, HOOK_TOKENS - estimate_reply_tokens(used)
    return fit_lines(_GAP.join(texts), min(HOOK_INDEX_CHARS, room), tokens=tokens, where=INDEX_FILE)


def _is_same_place(given: HookInput, opened: Project) -> bool:
    """Whether the host means the same directory: what we refuse to be told by a committed file, it may believe."""
    if opened.settings.text("worktree") == "own" and find_root(given.cwd).kind == "worktree":
        return False  # the host takes all worktrees of a repository for one project
    return not any(step.verdict == COMMITTED for step in opened.places.private.steps)


def _tell_person(opened: Project, since: datetime | None) -> Iterator[str]:
    if since is not None:
        yield _tell_saved(opened, since)
    yield from _tell_news(opened)
    state, home = opened.private.state, opened.environment.state_home
    after = since or opened.now() - _RECENT
    problems = [*read_problems(state, since=after), *read_problems(home, since=after)]
    for problem in problems[:_PROBLEMS]:
        times = f" ({problem.times} times)" if problem.times > 1 else ""
        yield f"memdir had a problem: {problem.text}{times}; `memdir doctor` tells more"


def _tell_saved(opened: Project, since: datetime) -> str:
    changes = [at for at in opened.private.changes(limit=_CHANGES) if at.at > since and at.origin.who in _BACKGROUND]
    paths = [file.path for change in changes if change.undone_by is None for file in change.files if file.after]
    names = list(dict.fromkeys(path for path in paths if path.rpartition("/")[2] != INDEX_FILE))
    if not names:
        return ""
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"[Memory saved: {', '.join(shorten(one_line(at), 60) for at in names[:_NAMES])}{more}]"


def _tell_news(opened: Project) -> Iterator[str]:
    """What has come from others since the last start; it counts as seen when it is in the answer."""
    if not _is_member(opened):
        return
    # Imported here: few projects share their memory.
    from memdir.team import mark_seen, read_team_news, render_news

    if news := read_team_news(opened.private.state):
        yield render_news(news).strip()
        mark_seen(opened.private.state)


def _find_last_start(given: HookInput, opened: Project) -> datetime | None:
    events = read_events(opened.private.state)
    return next((at.at for at in events if (at.host, at.event) == (given.host.key, given.event.value)), None)


def _catch_up(given: HookInput, opened: Project) -> None:
    """Begin a worker if turns wait to be learned from, or if there is much to be read into the index; sync if due."""
    store = opened.private
    try:
        index = store.find_index_file()
        if turns.read_queue(store.state) or (store.has_any() and (index is None or not index.exists())):
            start_detached(given.cwd, "worker")
        if _is_member(opened) and _is_sync_due(opened):
            start_detached(given.cwd, "team", "sync")
    except (MemdirError, OSError):
        pass  # the next start tries again


def _is_member(opened: Project) -> bool:
    """Whether somebody in this project takes part in a team, as far as a file's being there tells."""
    return opened.settings.flag("team") and os.path.isfile(opened.private.state / MEMBERSHIP)


def _is_sync_due(opened: Project) -> bool:
    from memdir.team import is_sync_due, read_membership

    state = opened.private.state
    return read_membership(state) is not None and is_sync_due(state, opened.now())


# --- tooling ---
# Before a tool runs that writes memory: may it. After one that read or wrote a memory: the conversation has it.

_READERS = frozenset("read readfile viewfile view".split())


def answer_tool(given: HookInput, ready: "HookOutput") -> None:
    name = plain_name(given.text("tool_name"))
    if given.event is HookEvent.BEFORE_TOOL and name in WRITERS | EDITORS | SHELLS:
        _look_at_write(given, ready)
    elif given.event is HookEvent.AFTER_TOOL and name in WRITERS | EDITORS | _READERS and not given.is_subagent:
        _note_read(given, ready)


def _look_at_write(given: HookInput, ready: "HookOutput") -> None:
    call = ToolCall("", given.text("tool_name"), given.find_input())
    with open_here(given, ready) as opened:
        if opened is None:
            return
        cwd, home = given.text("cwd") or str(given.cwd), str(opened.environment.home)
        writes = list(find_writes(call, list(_list_grounds(opened, Path(cwd))), cwd=cwd, home=home))
        verdicts = [judge_write(write, lambda text: _find_secrets(opened.environment, text)) for write in writes]
        refused = next((at.refused for at in verdicts if at.refused), "")
        said = "; ".join(text for at in verdicts for text in at.said)
        if refused:
            ready.answer = HookReply(refused=f"memdir keeps this out of memory: {refused}.")
        elif said:
            text = f"memdir noticed in what is written to memory: {said}."
            ready.answer = HookReply(context=text, message=text)


def _list_grounds(opened: Project, cwd: Path) -> Iterator[MemoryRoot]:
    """Every directory that is somebody's memory here, those that others read marked so; of one place the last counts.

    A worktree has its own `.claude/memory`. At home that folder is the person's own.
    """
    root, home = opened.places.root.path, opened.environment.claude_home
    for top in (root, find_root(cwd, worktree="own").path):
        yield MemoryRoot(top / ".claude" / "memory", is_shared=True)
    yield MemoryRoot(root / ".claude" / "agent-memory", is_shared=True)
    yield MemoryRoot(root / ".claude" / "agent-memory-local")
    yield MemoryRoot(home / "agent-memory")
    for store in opened.stores:
        yield MemoryRoot(store.root, is_shared=store.scope is Scope.PROJECT)


def _find_secrets(environment: Environment, text: str) -> "Sequence[SecretFinding]":
    # Imported here: few calls write memory, and the tables of vendors' tokens are large.
    from memdir.store.secrets import find_for, find_secrets

    try:
        return find_for(environment, text)
    except SettingsError:
        return find_secrets(text)  # the person's own rules cannot be read; `doctor` says so


def _note_read(given: HookInput, ready: "HookOutput") -> None:
    paths = [value for key in PATH_KEYS if isinstance(value := given.find_input().get(key), str)]
    paths = [path for path in paths if path.endswith(".md") and "\0" not in path]
    if not paths or not given.session:
        return
    with open_here(given, ready) as opened:
        if opened is None:
            return
        session, cwd = open_session(opened.private.state, given.session), given.text("cwd") or str(given.cwd)
        keys = [find_key(session, opened.stores, Path(os.path.join(cwd, path))) for path in paths]
        session.note_read(key for key in keys if key is not None)


# --- ending ---
# A turn or a session ends, or the host is about to shorten a conversation: a note is left, and a worker goes on.
#
# Nothing is learned here: hosts wait for this process, and kill it at the end of a session.


def answer_end(given: HookInput, ready: "HookOutput") -> None:
    if given.is_subagent:
        return
    with open_here(given, ready) as opened:
        session, transcript = given.session, given.text("transcript_path")
        if opened is None or not (given.host.learns and session and transcript):
            return
        if given.event is HookEvent.END and _is_learned(opened, session, transcript):
            return
        enqueue(opened.private.state, QueuedTurn(session, transcript, given.is_headless))
        if given.event is HookEvent.COMPACT and opened.settings.flag("notes"):
            start_detached(given.cwd, "notes", "update", "--session", session, "--transcript", transcript)
        if given.event is not HookEvent.END:
            start_detached(given.cwd, "worker")


def _is_learned(opened: Project, session: str, transcript: str) -> bool:
    """Whether everything was learned from already, so that no note need wait for the next session."""
    from memdir.conversation.transcripts import read_tail
    from memdir.store.sessions import open_session, parse_cursor

    cursor = parse_cursor(open_session(opened.private.state, session).read().extra.get("cursor"))
    if cursor is None or not cursor.id:
        return False
    last = read_tail(transcript, 1)
    return bool(last) and last[-1].id == cursor.id


# --- agents ---
# A subagent begins: it gets the index of its own memory, where it has one and the host does not load it.
#
# Claude Code loads the one that the agent's definition asks for; any other is told here.


def answer_agent(given: HookInput, ready: "HookOutput") -> None:
    name = given.text("agent_type")
    with open_here(given, ready) as opened:
        if opened is None or not name:
            return
        loaded = _find_loaded(opened, name) if given.host.loads_index else None
        places = [place for place in _list_places(opened, name) if place.scope is not loaded]
        texts = [text for place in places for text in _load(opened, place)]
        ready.answer = HookReply(fit_lines("\n\n".join(texts), HOOK_INDEX_CHARS, where=INDEX_FILE))


def _find_loaded(opened: Project, name: str) -> AgentScope | None:
    """The scope of the memory that the host itself puts before this agent."""
    definitions = list_definitions(opened.environment, opened.places.root.path)
    return next((at.memory for at in definitions if fold(at.name) == fold(name)), None)


def _list_places(opened: Project, name: str) -> Iterator[AgentDirectory]:
    """The memories this agent has, whatever its definition says of them."""
    for scope in AgentScope:
        try:
            place = find_agent_place(name, scope, environment=opened.environment, root=opened.places.root.path)
        except PathError:
            continue
        if place.path.is_dir():
            yield place


def _load(opened: Project, place: AgentDirectory) -> list[str]:
    frame = find_frame(opened, mode=InstructionMode.AGENT, agent=place)
    return [at.text for at in load_indexes(frame) if at.clip.lines_total or at.clip.warning]
