"""Render the memory section that a host's model gets at the start of a session, and measure its tokens."""

import sqlite3
from contextlib import suppress

from memdir.conversation.instructions import (
    LOG_PATTERN,
    InstructionMode,
    LoadedIndex,
    build_instructions,
    find_frame,
    load_store,
    render_date,
    render_rules,
)
from memdir.errors import MemdirError
from memdir.format.index import INDEX_FILE, clip_index
from memdir.format.rules import find_rules
from memdir.frozen import dataclass
from memdir.limits import HOOK_CHARS, HOOK_INDEX_CHARS, HOOK_TOKENS
from memdir.models.prompts import render_prompt
from memdir.project.hosts import HOSTS, Host, find_installed
from memdir.recall.reminder import fit_lines, measure_reply
from memdir.records import Header, Scope
from memdir.store.open import Project, does_load_index, read_loaded_index
from memdir.text import estimate_tokens, one_line


@dataclass(frozen=True, slots=True)
class StartCost:
    """Token counts at the start of a session: what memdir sends, and what the host loads from MEMORY.md."""

    host: str
    title: str
    sent: int
    loaded: int = 0

    @property
    def tokens(self) -> int:
        return self.sent + self.loaded


def render_start(project: Project, host: Host, *, date: str = "", used: str = "") -> str:
    """Return the guidance, and the rules and indexes that the host does not load itself. `used` is other text in the prompt."""
    own, frame = does_load_index(project, host), find_frame(project)
    # Do not read a directory that would not be shown: it may be large.
    stores = [store for store in frame.stores if not (own and store is project.private and not frame.team)]
    rules = find_project_rules(project) if frame.is_loaded else ()
    without = () if own else rules
    indexes = [
        index
        for store in stores
        for index in load_store(frame, store, without)
        if not (own and index.scope is Scope.PRIVATE)
    ]
    texts = [index.text for index in indexes if index.clip.lines_total or index.clip.warning]
    loaded = [LoadedIndex(Scope.PRIVATE, "", clip_index(read_loaded_index(project, host)), "")] if own else []
    texts.insert(0, render_rules(rules, [*loaded, *indexes]))
    if not own:
        texts.insert(0, render_prompt("hooks/start", directory=one_line(str(project.private.root))))
    if frame.mode is InstructionMode.DAILY_LOG:
        pattern = one_line(str(project.private.root / LOG_PATTERN))
        texts.insert(0, render_prompt("hooks/log", pattern=pattern, date=date))
    chars, tokens = HOOK_CHARS - measure_reply(used) - 200, HOOK_TOKENS - estimate_tokens(used)
    text = "\n\n".join(filter(None, texts))
    return fit_lines(text, min(HOOK_INDEX_CHARS, chars), tokens=tokens, where=INDEX_FILE)


def find_project_rules(project: Project) -> tuple[Header, ...]:
    """Return the standing rules of a project, from the search index if there is one: a directory may be large."""
    index = project.private.find_index_file(write=False)
    if index is not None and index.exists():
        # Imported here: without an index, a start must not pay for the search.
        from memdir.recall.select import LocalSearch

        with suppress(MemdirError, sqlite3.Error), LocalSearch(project.stores, trusts=True) as search:
            return search.list_rules()
    return find_rules(header for store in project.stores for header in store.scan())


def repeat_rules(project: Project) -> str:
    """Return the standing rules in short form, for a conversation in which they were given long ago."""
    return render_rules(find_project_rules(project), is_again=True)


def measure_starts(project: Project) -> tuple[StartCost, ...]:
    """Return the cost for each agent with memdir's hooks, or for `memdir chat` if there is none."""
    if not project.places.switch.on:
        return ()
    keys = dict.fromkeys(host.host for host in find_installed(project.environment, project.places.root.path))
    if not keys:
        text = build_instructions(project, make=False).text
        return (StartCost("memdir", "memdir chat", estimate_tokens(text)),)
    return tuple(_measure(project, HOSTS[key]) for key in keys)


def _measure(project: Project, host: Host) -> StartCost:
    text = render_start(project, host, date=render_date(None, project.now(), logs=project.private.root))
    loaded = 0
    if does_load_index(project, host):
        indexes = [index for index in load_store(find_frame(project), project.private) if index.scope is Scope.PRIVATE]
        loaded = sum(estimate_tokens(index.clip.text) for index in indexes)
    return StartCost(host.key, host.title, estimate_tokens(text), loaded)
