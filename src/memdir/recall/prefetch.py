"""Recall in the background, optionally with a model that selects the memories.

`Prefetch` runs a recall in a thread. `FreshSearch` is its selector: a local search opened for each question.

A prompt hook starts a process with `select_in_background`: it selects with a model and stores the names for the next hook.

`ModelSelector` sends a model the manifest, recent tools and the query, and gets up to five file names. Rules and manifest
come first and the query last, so that a provider can cache the part that stays the same. For the same reason the manifest
starts with the oldest memory: a saved or changed memory moves to its end. Unknown names are ignored. An
invalid reply is sent back once; after that, or if the model fails, the local selector is used.
"""

import re
import sqlite3
import threading
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from memdir.errors import MemdirError, ReplyError
from memdir.format.age import HalfLives
from memdir.format.shown import show_header
from memdir.frozen import replace
from memdir.limits import MANIFEST_ENTRIES, MANIFEST_NEWEST, SELECT_TOKENS, SELECTED
from memdir.models.open import find_model
from memdir.models.prompts import render_prompt
from memdir.recall.pipeline import (
    RecallRequest,
    RecallResult,
    StoreFinder,
    find_encoder,
    find_recalled,
    leave_selection,
    recall_in_project,
    record_recall,
)
from memdir.recall.reminder import mask_secrets
from memdir.recall.select import ENCODER, LocalSearch
from memdir.records import (
    SELECT,
    Evidence,
    Header,
    Message,
    Model,
    Moment,
    Pick,
    Query,
    Request,
    Scope,
    Selector,
    Surfacing,
)
from memdir.store.contract import StoreReader, widen
from memdir.store.open import Project
from memdir.store.secrets import mask_model
from memdir.store.sessions import QUESTION, SessionFile
from memdir.store.state import note_problem
from memdir.text import cut_middle, find_rows, fold, one_line

KEY = "selected_memories"
BACKGROUND = ("model", ENCODER)  # the selectors that select in the background
SCHEMA: Mapping[str, object] = {
    "type": "object",
    "properties": {KEY: {"type": "array", "items": {"type": "string"}, "maxItems": SELECTED}},
    "required": [KEY],
    "additionalProperties": False,
}
_QUERY_CHARS = 4000  # start and end of a longer text, such as a pasted log, are enough
_TAKE_SECONDS = 0.05  # max wait for the session record, which others lock for a millisecond


class Prefetch:
    """Run a recall in a background thread.

    A new recall replaces the previous one. Memories count as shown only when `take` returns them. The thread is a daemon, so
    that it does not keep the process alive.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._run: _PrefetchRun | None = None

    def start(self, request: RecallRequest) -> None:
        run = _PrefetchRun(request)
        with self._lock:
            self._run = run
        threading.Thread(target=run, name="memdir-prefetch", daemon=True).start()

    def take(self, seconds: float = 0) -> RecallResult | None:
        """Return the result once and record it as shown, or return None. Raises the error of the recall, if any."""
        run = self._run
        if run is None or not run.done.wait(seconds):
            return None
        with self._lock:
            if self._run is not run:
                return None
            self._run = None
        if run.error is not None:
            raise run.error
        return None if run.found is None else record_recall(run.found, run.request, seconds=_TAKE_SECONDS)

    def cancel(self) -> None:
        with self._lock:
            self._run = None


class _PrefetchRun:
    """A recall in a thread. It has no result after an unexpected exception, which Python reports."""

    def __init__(self, request: RecallRequest) -> None:
        self.request = request
        self.done = threading.Event()
        self.found: RecallResult | None = None
        self.error: MemdirError | None = None

    def __call__(self) -> None:
        try:
            self.found = find_recalled(self.request)
        except (MemdirError, OSError, sqlite3.Error) as error:
            self.error = MemdirError(str(error))
        finally:
            self.done.set()


class FreshSearch:
    """Open a new local search for each query, because an open index can be used by only one thread."""

    name = "local"

    def __init__(self, stores: Sequence[StoreReader], half_lives: HalfLives, *, trusts: bool) -> None:
        self._open = partial(LocalSearch, stores, half_lives=half_lives, trusts=trusts)

    def find(self, query: Query, limit: int, drop: Callable[[Scope, str], str]) -> Sequence[Pick]:
        with self._open() as search:
            return search.find(query, limit, drop)

    def select(self, query: Query, headers: Sequence[Header], limit: int) -> Sequence[Pick]:
        with self._open() as search:
            return search.select(query, headers, limit)


def open_selector(project: Project, search: LocalSearch) -> Selector | StoreFinder:
    """Return the selector from the settings. Parts that cannot be loaded are left out."""
    settings, environment = project.settings, project.environment
    try:
        if (folder := find_encoder(settings)) is not None:
            # Imported here: it needs numpy.
            from memdir.recall.encode import make_encoder

            search.use_encoder(*make_encoder(folder))
    except (OSError, ValueError, KeyError) as error:
        note_problem(project.private.state, SELECT, f"encoder: {error}", project.now())
    if settings.text("selector") != "model":
        return search
    try:
        model = find_model(settings, environment, project=str(project.places.root.path), key="select_model")
    except MemdirError as error:
        note_problem(project.private.state, SELECT, f"model: {error}", project.now())
        return search
    return search if model is None else ModelSelector(model, search.select)


def select_in_background(
    project: Project, session: str, read_tools: Callable[[str], Sequence[str]]
) -> RecallResult | None:
    """Select memories for the question stored by a prompt hook, and store their names for the next hook.

    `read_tools` returns the tools used in the transcript at a path. Nothing is stored if only the index was used, because the
    prompt hook has shown its result, or if the user has cleared the conversation or sent another message, for which
    the recall log notes the memories as too late.
    """
    file = SessionFile(project.private.state, session)
    question = file.read_prompt(QUESTION)
    text, transcript = question.get("text"), question.get("transcript")
    if not isinstance(text, str) or not isinstance(transcript, str):
        return None
    result = recall_in_project(
        project,
        mask_secrets(text),
        session=session,
        tools=read_tools(transcript),
        peek=True,
        is_message=True,
        make_selector=lambda search: open_selector(project, search),
    )
    is_own = result.selector in BACKGROUND  # the prompt hook has already shown what the index found
    if (current := file.read_prompt(QUESTION)) != question:
        for excerpt, owner in zip(result.memories, result.owners, strict=True) if is_own and current else ():
            row = Surfacing(excerpt.header.name, project.now(), result.query, session, result.selector)
            widen(owner).note_recalls([replace(row, moment=Moment.TOO_LATE)])
        return None
    if result.memories and is_own:
        leave_selection(file, result)
    file.drop_prompt(QUESTION)
    return result


class ModelSelector:
    """Select memories by asking a model. `fallback` shortens a long manifest, and is used if the model fails."""

    name = "model"

    def __init__(self, model: Model, fallback: Selector) -> None:
        self._model = mask_model(model)
        self._fallback = fallback

    def __call__(self, query: Query, headers: Sequence[Header], limit: int) -> Sequence[Pick]:
        limit = min(limit, SELECTED)
        if not headers or limit < 1:
            return ()
        listed = self._choose_headers(query, headers)
        request = make_select_request(query, listed, limit)
        try:
            text = self._model(request).text
            try:
                names = parse_selected(text)
            except ReplyError as error:
                turn = Message("assistant", text or "(nothing)")
                repair = Message("user", render_prompt("select_repair", problem=str(error)))
                again = replace(request, messages=(*request.messages, turn, repair))
                names = parse_selected(self._model(again).text)
        except MemdirError:
            return self._fallback(query, headers, limit)
        return _match_names(names, listed, limit)

    def _choose_headers(self, query: Query, headers: Sequence[Header]) -> list[Header]:
        """Return the headers for the manifest, oldest first. If there are too many, keep the newest and best."""
        known = list(headers)
        if len(known) > MANIFEST_ENTRIES:
            newest = sorted(headers, key=lambda header: (header.modified, header.file), reverse=True)
            others, room = newest[MANIFEST_NEWEST:], MANIFEST_ENTRIES - MANIFEST_NEWEST
            best = [pick.header for pick in self._fallback(replace(query, wide=True), others[::-1], room)]
            matched = {(header.scope, header.name) for header in best}
            filled = [*best, *(header for header in others if (header.scope, header.name) not in matched)]
            known = [*newest[:MANIFEST_NEWEST], *filled[:room]]
        return sorted(known, key=lambda header: (header.modified, header.file))


def make_select_request(query: Query, shown: Sequence[Header], limit: int) -> Request:
    """Return a request with two messages: the list of memories, which can be cached, and the query."""
    manifest = "\n".join(show_header(header, has_title=True) for header in shown)
    parts = []
    if query.recent_tools:
        parts.append(render_prompt("select_tools", tools=", ".join(one_line(tool) for tool in query.recent_tools)))
    today, text = f"{query.now.astimezone():%A %Y-%m-%d}", cut_middle(query.text, _QUERY_CHARS, "…")
    parts.append(render_prompt("select_query", today=today, query=text))
    return Request(
        system=render_prompt("select", limit=str(limit)),
        messages=(
            Message("user", render_prompt("select_list", manifest=manifest)),
            Message("user", "\n\n".join(parts)),
        ),
        max_tokens=SELECT_TOKENS,
        schema=SCHEMA,
        purpose=SELECT,
    )


def parse_selected(text: str) -> list[str]:
    """Return the names in a reply, ignoring text around the JSON; raises ReplyError with the problem."""
    return [name for name in find_rows(text, KEY) if isinstance(name, str)]


def _match_names(names: Sequence[str], headers: Sequence[Header], limit: int) -> list[Pick]:
    """Return the headers with these names, without duplicates and unknown names."""
    known: dict[str, Header] = {}
    for header in headers:
        known.setdefault(fold(one_line(header.name)), header)
    chosen: dict[str, Header] = {}
    for name in names:
        # Models may return a full line of the list, or a path, with or without the ending.
        bare = re.sub(r"^(?:- )?(?:\[\w+\] )?", "", name.strip().strip("`\"'"))
        bare = re.sub(r" \(\d{4}-\d\d-\d\dT.*", "", bare)
        key = fold(bare.removeprefix("./").removesuffix(".md"))
        if key in known:
            chosen.setdefault(key, known[key])
    selected = list(chosen.values())[:limit]
    return [Pick(header, 1 / (rank + 1), Evidence(), by=ModelSelector.name) for rank, header in enumerate(selected)]
