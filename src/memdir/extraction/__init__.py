"""Extraction: learn from the new messages of a conversation and save what was learned as one change.

    messages after the cursor --patterns and model--> staged writes --checks--> one change, and inbox items

The idempotency key of the change identifies the range of messages, so a run that is killed, repeated or delivered twice
takes effect once. The cursor moves only if the run succeeds. Built-in patterns find explicit requests to remember or forget,
which are handled even if the model fails or misses them.

`turns` decides when to run, and for which conversation.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from memdir.conversation.confidential import OpenMessages, leave_out
from memdir.conversation.includes import looks_secret
from memdir.conversation.tool_calls import find_written_memory
from memdir.conversation.transcripts import read_host_messages
from memdir.conversation.typed import OMITTED, collect_foreign, cut_echoes, find_runs, list_typed, strip_reminders
from memdir.errors import BudgetError, ConflictError, FormatError, ModelError, NotFoundError, PathError
from memdir.extraction import by_model
from memdir.extraction.find import FORGET, MemoryRequest, find_hidden_requests, find_requests
from memdir.extraction.merge import Placement, is_said, place
from memdir.extraction.provenance import (
    SECRET,
    SHARED,
    DoubtfulWrite,
    Judgement,
    OpinionCase,
    SecondOpinion,
    ask_second_opinion,
    doubt_credentials,
    judge_staged,
    mask_doubt,
    render_gone,
    render_typed,
)
from memdir.format import frontmatter as frontmatter
from memdir.format.document import parse_document
from memdir.format.frontmatter import decode, digest_of, encode
from memdir.format.shown import TextVoice, find_voice
from memdir.frozen import dataclass, field, replace
from memdir.language.requests import has, load_request_languages, starts
from memdir.limits import EXTRACT_TRIES, EXTRACT_WINDOW, FOREIGN_RUNS
from memdir.models.agent import ForkEnd, ForkResult, ProjectTree, has_writing_tools
from memdir.models.connection import can_use_tools, sum_usage
from memdir.models.open import open_model
from memdir.models.staged import StagedMemory, Staging, make_edits
from memdir.records import InboxItem, InboxKind, Message, Model, Origin, Scope, SkipReason
from memdir.store.contract import Folder, StoreBase, utc_now
from memdir.store.history import OUTSIDE
from memdir.store.inbox import render_edits
from memdir.store.plan import is_shared
from memdir.store.sessions import Cursor, MessageSlice, TrimmedWrite, make_cursor, slice_after
from memdir.text import fold, fold_words, one_line

WHO = "extractor"
VERB = "extract"
_ASKED = "asked:"  # prefix of the idempotency key of a change that handled only the explicit requests
# Characters from terminals and broken encodings. Invisible characters that hide text stay, for `split_typed`.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_COVERED = 0.6  # share of a request's words that a model's memory must contain
_RETRIES = 3  # if another process changed the same memory between planning and writing
_RECENT_CHANGES = 200  # searched for the agent's own writes
_PAST_CHANGES = 3  # searched for earlier texts of a memory
_AFTER = timedelta(minutes=1)  # a change up to this long after the last message counts as part of the conversation


class ExtractSkip(SkipReason):
    OFF = "off", "learning is switched off here"
    PAUSED = "paused", "memory is paused"
    PRIVATE = "private", "this conversation is private"
    REMOTE = "remote", "the agent runs in a remote environment"
    SUBAGENT = "subagent", "this was a subagent"
    HEADLESS = "headless", "the session was not interactive, so only explicit requests are saved"
    NOTHING_NEW = "nothing_new", "there are no new messages"
    REPEATED = "repeated", "these messages were learned from already"
    OWN_WRITES = "own_writes", "the agent wrote to memory itself in these messages"
    THROTTLED = "throttled", "not due yet; the setting extract_every says how often"
    BUSY = "busy", "another run is in progress; this turn is next"
    FAILED = "failed", "the run failed; the next one tries again"
    NOTHING_FOUND = "nothing_found", "found nothing worth saving"


@dataclass(frozen=True, slots=True)
class ConversationSource:
    """The conversation to learn from. `parent` is the last request of the host to its model."""

    session: str = ""
    project: Path | None = None
    home: str = ""
    parent: Mapping[str, object] | None = None
    others: tuple[StoreBase, ...] = ()  # stores of other scopes, to which the agent may write itself
    foreign: tuple[int, ...] = ()  # runs of untrusted text in messages that are no longer available
    confidential: bool = False  # the user asked not to keep anything from this conversation


NOWHERE = ConversationSource()


@dataclass(frozen=True, slots=True)
class ExtractReason:
    """The reason why a memory was written, changed, forgotten or sent to the inbox."""

    name: str
    action: str
    why: str
    quote: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class ExtractResult:
    """The result of a run. If there is no `cursor`, the next run starts at the same message."""

    written: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    skipped: ExtractSkip | None = None
    cursor: Cursor | None = None
    by: str = ""
    messages: int = 0
    change: int | None = None
    ran: ForkResult | None = None
    error: str = ""
    reasons: tuple[ExtractReason, ...] = ()
    trimmed: tuple[str, ...] = ()
    foreign: tuple[int, ...] = ()
    unlearned: tuple[str, ...] = ()  # forgotten because the user asked not to keep what was said
    confidential: bool = False  # the user asked not to keep anything from this conversation

    @property
    def notice(self) -> str:
        """Return a line for the user that describes the result, or "" if nothing changed."""
        changes = (("saved", self.written), ("forgotten", self.forgotten))
        parts = [f"[Memory {verb}: {', '.join(f'{name}.md' for name in names)}]" for verb, names in changes if names]
        if self.unlearned:
            names = ", ".join(f"{name}.md" for name in self.unlearned)
            parts.append(f"[Memory forgotten, because you asked not to keep it: {names}]")
        parts += [f"[left out of {name}.md what you did not say]" for name in self.trimmed]
        return " ".join([*parts, *([f"[{len(self.waiting)} waiting for you: `memdir inbox`]"] if self.waiting else [])])


def extract(
    store: StoreBase,
    messages: Sequence[object],
    *,
    model: Model | str | None = None,
    after: Cursor | None = None,
    now: datetime | None = None,
    conversation: ConversationSource = NOWHERE,
    explicit_only: bool = False,
    failures: int = 0,
    dry_run: bool = False,
    start: int | None = None,
    context: Sequence[Message] = (),
    is_partial: bool = False,
) -> ExtractResult:
    """Learn from messages: `Message` records, dictionaries such as `{"role": "user", "content": …}`, or SDK objects.

    `model` is a function or a model name for `open_model`. Only the messages after the cursor are new; with `start`,
    all of them are, and `start` is the number of messages before them. `context` contains the last messages before
    these, by default those before the cursor. Without a model, and after too many `failures` with the same messages,
    only the built-in patterns are used. `explicit_only` saves only explicit requests; a partial run leaves the rest of
    these messages to a later run. A dry run returns its result but writes nothing.
    """
    messages = read_host_messages(messages)
    model = open_model(model) if isinstance(model, str) else model
    new = _find_new(store, messages, None if start is not None else after, conversation.session, start or 0)
    earlier = (*context, *messages[: new.start])
    new = replace(new, start=new.start + (start or 0))
    end = make_cursor(messages, before=start or 0)
    allowed = leave_out((*earlier, *new.messages), whole=conversation.confidential)
    earlier, open_new = allowed.messages[: len(earlier)], allowed.messages[len(earlier) :]
    talk = clean_messages(open_new)
    if not allowed.hidden and not any(message.role == "user" for message in talk):
        return ExtractResult(skipped=ExtractSkip.NOTHING_NEW, cursor=end)
    model = None if failures >= EXTRACT_TRIES else model
    trimmed = after.trimmed if after is not None else ()
    if not any(message.role == "user" for message in talk):
        model = None  # the user asked not to keep any of the messages
    started_at = now or utc_now()
    run = _Run(store, talk, new, earlier, started_at, conversation, model, explicit_only, is_partial, trimmed, allowed)
    problem = ""
    for _ in range(_RETRIES):
        plan = run.make_plan()
        try:
            return plan.report(end, None) if dry_run else plan.commit(end)
        except ConflictError as error:
            problem = str(error)
        if plan.ran is not None:
            run.give_up(plan.ran, problem)
    return ExtractResult(skipped=ExtractSkip.FAILED, messages=len(talk), error=problem)


def clean_messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    """Return the messages of the user, the agent and its tools, without text inserted by the host or memdir."""
    cleaned = []
    for message in messages:
        if message.is_meta:
            continue
        text = _CONTROLS.sub("", strip_reminders(message.text))
        if text.strip() or message.calls:
            cleaned.append(replace(message, text=text))
    return tuple(cleaned)


def _make_key(session: str, cursor: Cursor | None) -> str:
    """Return the idempotency key of the change, or "" if there are no IDs to make it unique."""
    return f"{VERB}:{session}:{cursor.key}" if cursor is not None and (session or cursor.id) else ""


def _find_new(
    store: StoreBase, messages: Sequence[Message], after: Cursor | None, session: str, before: int
) -> MessageSlice:
    """Return the messages after the cursor, or after the last saved run if that is later."""
    new = slice_after(messages, after)
    for index in range(len(messages) - 1, max(new.start - 1, len(messages) - 10 * EXTRACT_WINDOW), -1):
        key = _make_key(session, make_cursor(messages, index, before=before))
        if key and store.has_mark(key):
            return MessageSlice(tuple(messages[index + 1 :]), index + 1)
    return new


class _Run:
    """A run over new messages. It plans a change but does not write it."""

    def __init__(
        self,
        store: StoreBase,
        talk: Sequence[Message],
        new: MessageSlice,
        earlier: Sequence[Message],
        now: datetime,
        conversation: ConversationSource,
        model: Model | None,
        explicit_only: bool,
        is_partial: bool,
        trimmed: Sequence[TrimmedWrite],
        allowed: OpenMessages,
    ) -> None:
        self.allowed = allowed
        self.trimmed = trimmed
        self.store, self.talk, self.new, self.earlier, self.now = store, talk, new, earlier, now
        self.conversation, self.model = conversation, model
        self.said_at = max((message.at for message in talk if message.at), default=now)  # for relative dates
        self.explicit_only, self.is_partial = explicit_only or is_partial, is_partial
        self.is_offline = explicit_only  # do not ask a model
        self.ran: ForkResult | None = None
        self.problem = ""
        foreign = collect_foreign((*earlier, *new.messages), conversation.foreign)
        self.foreign = tuple(dict.fromkeys((*foreign, *find_runs(allowed.hidden))))[-FOREIGN_RUNS:]

    def give_up(self, ran: ForkResult, problem: str) -> None:
        """Save only explicit requests from now on. Used if another process changed memories that the model wrote."""
        self.ran, self.problem = ran, problem
        self.explicit_only = self.is_partial = True

    def make_plan(self) -> "_Plan":
        """Return the planned writes. Those that contain credentials or change shared memories need review."""
        plan = self._plan_writes()
        if self.allowed.hidden:
            plan = self._drop_hidden(plan)
        rules = self.store.rules
        pending = []
        for write in plan.staging.staged:
            if doubt := doubt_credentials(write, rules.find):
                pending.append(doubt)
            elif is_shared(write.name, rules):
                pending.append(DoubtfulWrite(write, SHARED))
        for doubt in pending:
            plan.staging.drop(doubt.staged.name)
        dropped = {doubt.staged.name for doubt in pending}
        doubts = [mask_doubt(doubt, rules.find) for doubt in (*plan.doubts, *pending)]
        # A request that contains a secret needs review as a memory of its own, without the value.
        hidden = find_hidden_requests(self.talk, now=self.now)
        secret = [doubt for request in hidden for doubt in self._make_doubts(request, f"{SECRET}: {request.hides}")]
        if sum(doubt.why.startswith(SECRET) for doubt in doubts) < len(secret):
            doubts += secret  # otherwise the doubts about the model's writes already cover these requests
        placed = tuple(placement for placement in plan.placed if placement.name not in dropped)
        return replace(plan, placed=placed, doubts=_join_doubts(doubts))

    def _drop_hidden(self, plan: "_Plan") -> "_Plan":
        """Drop writes about text that the user asked not to keep, and revert what was learned from it before."""

        def is_hidden(memory: StagedMemory) -> bool:
            old = set((memory.before or "").splitlines())
            return self.allowed.hides("\n".join(line for line in (memory.text or "").splitlines() if line not in old))

        dropped = {memory.name for memory in plan.staging.staged if is_hidden(memory)}
        for name in dropped:
            plan.staging.drop(name)
        placed = tuple(placement for placement in plan.placed if placement.name not in dropped)
        doubts = tuple(doubt for doubt in plan.doubts if not is_hidden(doubt.staged))
        trimmed = {name: cut for name, cut in plan.trimmed.items() if name not in dropped}
        writes = tuple(write for write in plan.cut_writes if not self.allowed.hides(write.text))
        unlearned = tuple(self._revert_learned(plan.staging))
        return replace(plan, placed=placed, doubts=doubts, trimmed=trimmed, cut_writes=writes, unlearned=unlearned)

    def _revert_learned(self, staging: Staging) -> Iterator[str]:
        """Restore the earlier version of each memory that was learned from removed text. Yields the memory names."""
        before: dict[str, str | None] = {}
        for change in self.store.changes(limit=_RECENT_CHANGES) if self.conversation.session else ():
            if change.origin.who == WHO and change.origin.session == self.conversation.session:
                before |= {file.path.removesuffix(".md"): file.before for file in change.files if file.splice is None}
        for name, digest in before.items():
            with suppress(NotFoundError, PathError):
                memory = self.store.read(name)
                if self.allowed.whole or self.allowed.hides(memory.text):
                    text = None if digest is None else decode(self.store.read_content(digest))
                    yield staging.put(StagedMemory(name, text, memory.text, memory.digest))

    def _plan_writes(self) -> "_Plan":
        staging = Staging(self.store, now=self.said_at)
        requests = self._drop_saved(find_requests(self._hide_echoes(), now=self.now, uncertain=self.model is None))
        requests = [request for request in requests if not _corrects_message(request)]
        asked = [request for request in requests if request.is_explicit]
        own = self._find_own_writes()
        if own is not None or self.explicit_only:
            open_requests: Sequence[MemoryRequest] = _drop_written(asked, own or ())
            ran = self.ran
            if self.model is not None and not self.problem and not self.is_offline:
                open_requests, ran = self._confirm_requests(self.model, open_requests)
            placed = self._stage_requests(open_requests, staging)
            skipped = ExtractSkip.FAILED if self.problem else None if own is None else ExtractSkip.OWN_WRITES
            return _Plan(self, staging, placed, skipped=skipped, by="rules", ran=ran, error=self.problem)
        if self.model is None:
            return _Plan(self, staging, self._stage_requests(requests, staging), by="rules")
        return self._plan_with_model(self.model, staging, asked)

    def _plan_with_model(self, model: Model, staging: Staging, asked: Sequence[MemoryRequest]) -> "_Plan":
        try:
            answer = self._ask_model(model, staging)
        except (ModelError, BudgetError) as error:
            staging.restore({})
            placed = self._stage_requests(asked, staging)
            return _Plan(self, staging, placed, skipped=ExtractSkip.FAILED, by="rules", error=str(error))
        restaged = self._restage_cut(staging)
        evidence = {**restaged, **answer.evidence}
        missed, covered = list[MemoryRequest](), list[tuple[MemoryRequest, str]]()
        for request in asked:
            names = [one.name for one in staging.staged if _is_covered_by(request, one, evidence.get(one.name, ""))]
            missed += [] if names else [request]
            covered += [(request, name) for name in names]
        judged = self._check_writes(model, staging.staged, evidence, asked, missed)
        staging.restore({})
        placements, cut_writes = [], []
        for memory in (memory for memory in judged.kept if memory.is_changed):
            name, quote = staging.put(memory), evidence.get(memory.name, "")
            placements.append(Placement(memory.new_name if memory.renamed else name, _name_action(memory), None, quote))
            if memory.name in judged.whole and memory.name not in restaged:
                digest = digest_of(encode(memory.text or ""))
                cut_writes.append(TrimmedWrite(name, judged.whole[memory.name], quote, digest))
        follows = judged.opinion.follows if judged.opinion is not None else None
        # Save a request verbatim if no accepted write covers it, unless the second opinion rejects it.
        confirmed = [one for number, one in enumerate(missed) if follows is None or follows.get(_name_case(number))]
        lost = [
            one
            for one, name in covered
            if not any(_is_covered_by(one, write, evidence.get(write.name, "")) for write in judged.kept)
        ]
        confirmed += [one for one, name in covered if one in lost and (follows is None or follows.get(name))]
        placed = (*placements, *self._stage_requests(list(dict.fromkeys(confirmed)), staging))
        ran = answer.ran
        if judged.opinion is not None:
            ran = replace(ran, usage=sum_usage(ran.usage, judged.opinion.usage), turns=ran.turns + 1)
        doubts = tuple(doubt for doubt in judged.doubts if doubt.staged.name not in restaged)
        trimmed = {name: cut for name, cut in judged.trimmed.items() if name not in restaged}  # not reported twice
        problems = "; ".join(answer.problems)
        return _Plan(self, staging, placed, doubts, trimmed, tuple(cut_writes), by="model", ran=ran, error=problems)

    def _restage_cut(self, staging: Staging) -> dict[str, str]:
        """Stage the writes that the last run trimmed, as the user may have confirmed them. Return their quotes."""
        new, quotes = {fold(memory.name) for memory in staging.staged}, dict[str, str]()
        for write in self.trimmed:
            with suppress(NotFoundError, PathError):
                memory = self.store.read(write.name)
                if memory.digest == write.kept and fold(write.name) not in new:
                    staging.put(StagedMemory(write.name, write.text, memory.text, memory.digest))
                    quotes[write.name] = write.quote
        return quotes

    def _check_writes(
        self,
        model: Model,
        staged: Sequence[StagedMemory],
        evidence: Mapping[str, str],
        asked: Sequence[MemoryRequest],
        missed: Sequence[MemoryRequest],
    ) -> Judgement:
        typed = list_typed((*self._context, *self.talk), frozenset(self.foreign))
        messages = {message.id: message.text for message in typed if message.id}
        requests = [
            OpinionCase(_name_case(number), (_render_request(one),), message=messages.get(one.message, one.quote))
            for number, one in enumerate(missed)
        ]

        def ask_opinion(cases: Sequence[OpinionCase]) -> SecondOpinion | None:
            try:
                return ask_second_opinion(model, cases, now=self.now, conversation=render_typed(typed))
            except (ModelError, BudgetError):
                return None

        def is_asked(text: str) -> bool:
            return any(request.action == FORGET and is_said(request, text) for request in asked)

        shared = self._list_shared() if staged else frozenset[str]()
        return judge_staged(staged, evidence, typed, ask_opinion, is_asked=is_asked, requests=requests, shared=shared)

    def _confirm_requests(
        self, model: Model, asked: Sequence[MemoryRequest]
    ) -> tuple[Sequence[MemoryRequest], ForkResult | None]:
        """Return the requests that a model confirms. If it fails, return all of them."""
        opinion = self._check_writes(model, (), {}, asked, asked).opinion if asked else None
        if opinion is None:
            return asked, None
        confirmed = [request for number, request in enumerate(asked) if opinion.follows.get(_name_case(number))]
        return confirmed, ForkResult(ForkEnd.DONE, turns=opinion.requests, usage=opinion.usage, first=opinion.usage)

    def _list_shared(self) -> frozenset[str]:
        """Return the titles, descriptions and sentences of team and repository memories, normalised for comparison."""
        stores = (self.store, *self.conversation.others)
        theirs = [(store, one) for store in stores for one in store.scan() if find_voice(one.scope) is TextVoice.SHARED]
        texts = [(one.title, one.description, store.read(one.name).text) for store, one in theirs]
        sentences = (text for *head, body in texts for text in (*head, *parse_document(body).list_sentences()))
        return frozenset(map(fold_words, sentences)) - {""}

    def _ask_model(self, model: Model, staging: Staging) -> by_model.ModelExtraction:
        parent = self.conversation.parent
        others = (store for store in self.conversation.others if store.scope is Scope.USER)
        stores = (self.store, *others)
        task = by_model.ExtractTask(self.talk, self._context, stores, self.now, frozenset(self.foreign))
        if parent is None or not can_use_tools(model) or not has_writing_tools(parent):
            return by_model.ask_for_operations(model, task, staging)
        memory = self.store.root if isinstance(self.store, Folder) else Path("/memory")
        project = self.conversation.project
        tree = None if project is None else ProjectTree(project, looks_secret)
        return by_model.fork_for_operations(model, parent, task, staging, memory, tree)

    @property
    def _context(self) -> tuple[Message, ...]:
        """Return the last messages before the new ones. Tool results are omitted."""
        messages = [message for message in clean_messages(self.earlier[-EXTRACT_WINDOW:]) if message.role != "tool"]
        return tuple(messages[-by_model.CONTEXT_MESSAGES :])

    def _hide_echoes(self) -> list[Message]:
        """Return the messages without the agent's sentences that repeat untrusted text."""
        foreign = frozenset(self.foreign)
        return [
            one if one.role != "assistant" else replace(one, text=cut_echoes(one.text, foreign).replace(OMITTED, ""))
            for one in self.talk
        ]

    def _make_doubts(self, request: MemoryRequest, why: str) -> list[DoubtfulWrite]:
        staging = Staging(self.store, now=self.said_at)
        self._stage_request(request, staging)
        return [DoubtfulWrite(memory, why, request.quote) for memory in staging.staged]

    def _stage_requests(self, requests: Sequence[MemoryRequest], staging: Staging) -> tuple[Placement, ...]:
        return tuple(placement for request in requests for placement in self._stage_request(request, staging))

    def _stage_request(self, request: MemoryRequest, staging: Staging) -> tuple[Placement, ...]:
        """Stage one request. Ignores it if it would remove text from a memory that changed after the user's message."""
        before = staging.copy()
        try:
            placed = place(request, staging)
        except FormatError:
            return (Placement("", "unclear", request, request.quote),)
        removed_from = [result.name for result in placed if request.at and _has_removed(staging, result.name)]
        times = [change.at for name in removed_from for change in self.store.changes(name, limit=1)]
        if any(self.now >= at > request.at for at in times if request.at):  # a future time comes from a wrong clock
            staging.restore(before)
            return tuple(replace(result, action="unchanged") for result in placed)
        return placed

    def _drop_saved(self, requests: Sequence[MemoryRequest]) -> list[MemoryRequest]:
        """Drop requests that an interrupted run already saved, because the user may have undone them since."""
        if not any(request.is_explicit for request in requests):
            return list(requests)
        messages, session = self.new.messages, self.conversation.session
        for last_index in range(len(messages) - 1, -1, -1):
            key = _make_key(session, make_cursor(messages, last_index, before=self.new.start))
            if key and self.store.has_mark(_ASKED + key):
                earlier_requests = find_requests(clean_messages(messages[: last_index + 1]), now=self.now)
                handled = [request for request in earlier_requests if request.is_explicit]
                return [request for request in requests if request not in handled]
        return list(requests)

    def _find_own_writes(self) -> list[tuple[StoreBase, str]] | None:
        """Return the memories that the agent wrote itself during this conversation, or None if it wrote none."""
        stores = (self.store, *self.conversation.others)
        rooted = [(store, store.root) for store in stores if isinstance(store, Folder)]
        roots = {os.path.normpath(path): store for store, root in rooted for path in (root, os.path.realpath(root))}
        cwd, home = str(self.conversation.project or ""), self.conversation.home
        paths = find_written_memory(self.new.messages, roots, cwd=cwd, home=home) if roots else ()
        times = [message.at for message in self.talk if message.at]
        changes = [
            (store, change)
            for store in stores
            for change in store.changes(limit=_RECENT_CHANGES)
            if change.origin.session and change.origin.session == self.conversation.session
            if change.origin.who != WHO and change.verb != OUTSIDE
            if not times or min(times) <= change.at <= max(times) + _AFTER
        ]
        if not paths and not changes:
            return None
        written = [(store, file.path) for store, change in changes for file in change.files]
        for path in paths:
            # One directory may be inside another, so use the longest path.
            around = [root for root in roots if path.startswith(os.path.join(root, ""))]
            written += [(roots[root], os.path.relpath(path, root)) for root in sorted(around, key=len)[-1:]]
        return [(store, path.removesuffix(".md")) for store, path in dict.fromkeys(written)]


@dataclass(frozen=True, slots=True)
class _Plan:
    run: _Run
    staging: Staging
    placed: tuple[Placement, ...]
    doubts: tuple[DoubtfulWrite, ...] = ()
    trimmed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    cut_writes: tuple[TrimmedWrite, ...] = ()  # the next run checks them again
    skipped: ExtractSkip | None = None
    by: str = ""
    ran: ForkResult | None = None
    error: str = ""
    unlearned: tuple[str, ...] = ()

    @property
    def is_complete(self) -> bool:
        """Return whether these messages need no further run."""
        return self.skipped is not ExtractSkip.FAILED and not self.run.is_partial

    def commit(self, end: Cursor | None) -> ExtractResult:
        """Write the inbox items, then the change. A call that was interrupted can be repeated safely."""
        session = self.run.conversation.session
        ids = [message.id[:8] for message in self.run.talk if message.role == "user" and message.id]
        source = f", from {', '.join(ids[-5:])}" if ids else ""
        origin = Origin(WHO, f"by {self.by}{source}", session)
        if self.doubts:
            start = make_cursor(self.run.new.messages, 0, before=self.run.new.start)
            prefix = f"{VERB}:{session}:{start.key if start else ''}:"
            self.run.store.inbox_replace(prefix, [self._make_item(prefix, origin, doubt) for doubt in self.doubts])
        key = _make_key(session, end)
        key = _ASKED + key if key and not self.is_complete else key
        edits = make_edits(self.staging.staged, self.run.store)
        changed = self.run.store.change(edits, verb=VERB, origin=origin, mark=key)
        return self.report(end, changed.change, repeated=changed.repeated)

    def report(self, end: Cursor | None, change: int | None, *, repeated: bool = False) -> ExtractResult:
        staged = self.staging.staged
        own = [memory for memory in staged if memory.name not in self.unlearned]
        skipped = self.skipped
        if repeated and skipped is None:
            skipped = ExtractSkip.REPEATED
        elif skipped is None and not staged and not self.doubts:
            skipped = ExtractSkip.NOTHING_FOUND
        texts = {memory.new_name: memory.text or "" for memory in staged}
        placed = ((one, one.request.why if one.request else "by the model") for one in self.placed)
        cut = ((name, sentence) for name, sentences in self.trimmed.items() for sentence in sentences)
        doubts = ((doubt, doubt.staged) for doubt in self.doubts)
        reasons = (
            *(ExtractReason(one.name, one.action, why, one.quote, texts.get(one.name, "")) for one, why in placed),
            *(ExtractReason(name, "trim", "the person did not say it", sentence) for name, sentence in cut),
            *(ExtractReason(name, "forget", "you asked not to keep it") for name in self.unlearned),
            *(ExtractReason(memory.name, "wait", one.why, one.quote, memory.text or "") for one, memory in doubts),
        )
        return ExtractResult(
            written=() if repeated else tuple(memory.new_name for memory in own if memory.text is not None),
            forgotten=() if repeated else tuple(memory.name for memory in own if memory.text is None),
            waiting=tuple(doubt.staged.name for doubt in self.doubts),
            skipped=skipped,
            cursor=replace(end, trimmed=self.cut_writes) if end is not None and self.is_complete else None,
            by=self.by,
            messages=len(self.run.talk),
            change=change,
            ran=self.ran,
            error=self.error,
            reasons=reasons,
            trimmed=tuple(self.trimmed),
            foreign=self.run.foreign,
            unlearned=() if repeated else self.unlearned,
            confidential=self.run.allowed.whole,
        )

    def _make_item(self, prefix: str, origin: Origin, doubt: DoubtfulWrite) -> InboxItem:
        evidence = [doubt.quote] if doubt.quote else []
        return InboxItem(
            InboxKind.MEMORY,
            f"{_name_action(doubt.staged)} {doubt.staged.name}",
            doubt.why,
            self.run.now,
            key=f"{prefix}{doubt.staged.name}",
            name=doubt.staged.name,
            origin=origin,
            payload={"edits": render_edits(make_edits([doubt.staged])), "evidence": evidence},
        )


def _drop_written(requests: Sequence[MemoryRequest], own: Sequence[tuple[StoreBase, str]]) -> list[MemoryRequest]:
    """Return the requests that the agent has not already handled by writing or removing a memory."""
    current, past = list[str](), list[str]()
    for store, name in own:
        with suppress(NotFoundError, PathError):
            current.append(store.read(name).text)
        if any(request.action == FORGET for request in requests):
            past += _read_past(store, name)
    removed = [text for text in past if text not in current]
    return [
        request
        for request in requests
        if not any(is_said(request, text) for text in (removed if request.action == FORGET else current))
    ]


def _read_past(store: StoreBase, name: str) -> Iterator[str]:
    """Yield the text of a memory before each of its last changes. Purged versions are skipped."""
    files = (file for change in store.changes(name, limit=_PAST_CHANGES) for file in change.files)
    for digest in (file.before for file in files if file.before is not None and file.splice is None):
        with suppress(NotFoundError):
            yield decode(store.read_content(digest))


def _is_covered_by(request: MemoryRequest, memory: StagedMemory, quote: str) -> bool:
    """Return whether a write fulfils a request: its quote overlaps the request, or its text has most of the words."""
    mine, theirs = fold_words(request.quote), fold_words(quote)
    if theirs and (theirs in mine or mine in theirs):
        return True
    if memory.text is None:
        return request.action == FORGET and is_said(request, memory.before or "")
    words = set(fold_words(request.body).split())
    has_words = len(words & set(fold_words(memory.text).split())) >= _COVERED * len(words)
    return (request.action != FORGET and has_words) or is_said(request, memory.text)


def _corrects_message(request: MemoryRequest) -> bool:
    """Return whether a request corrects another message and is meaningless without it."""
    languages = [language for language in load_request_languages() if language.name == request.language]
    return request.action != FORGET and any(
        has(language.corrects, request.quote) and starts(language.pronouns, request.body) for language in languages
    )


def _join_doubts(doubts: Iterable[DoubtfulWrite]) -> tuple[DoubtfulWrite, ...]:
    """Merge the doubts about each memory into one with all reasons."""
    joined: dict[str, DoubtfulWrite] = {}
    for doubt in doubts:
        first = joined.setdefault(fold(doubt.staged.name), doubt)
        if doubt.why not in first.why:
            joined[fold(doubt.staged.name)] = replace(first, why=f"{first.why}; {doubt.why}")
    return tuple(joined.values())


def _name_case(number: int) -> str:
    return f"?{number}"  # not a valid name of a memory


def _render_request(request: MemoryRequest) -> str:
    if request.action == FORGET:
        return render_gone("", request.target)
    return f"They want this kept for later: “{one_line(request.body)}”"


def _has_removed(staging: Staging, name: str) -> bool:
    """Return whether a staged memory lost a sentence."""
    memory = next((staged for staged in staging.staged if staged.name == name), None)
    if memory is None or memory.before is None:
        return False
    before, after = (parse_document(text).list_sentences() for text in (memory.before, memory.text or ""))
    return not set(before) <= set(after)


def _name_action(staged: StagedMemory) -> str:
    return "forget" if staged.text is None else "create" if staged.before is None else "update"
