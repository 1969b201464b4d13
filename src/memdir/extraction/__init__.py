"""Extraction: the new messages of a conversation in, one change on the store out.

    messages --after the cursor--> slice --patterns and model--> staging --judged--> one change, the rest in the inbox

Everything a run keeps is written in one change with a mark that names the range, so a run that is killed, repeated or
delivered twice has happened once. The cursor moves on success only. What a person plainly asked to remember or forget
is found by patterns, whatever the model does: it is kept when the model fails, and added when the model missed it.

When to run, and for which conversation, is decided in `turns`.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from memdir.conversation.includes import looks_secret
from memdir.conversation.tool_calls import find_written_memory
from memdir.conversation.transcripts import read_host_messages
from memdir.conversation.typed import OMITTED, collect_foreign, cut_echoes, list_typed, strip_reminders
from memdir.errors import BudgetError, ConflictError, FormatError, ModelError, NotFoundError, PathError
from memdir.extraction import by_model
from memdir.extraction.find import FORGET, MemoryRequest, find_hidden_requests, find_requests
from memdir.extraction.merge import Placement, is_said, place
from memdir.extraction.provenance import (
    SECRET,
    DoubtfulWrite,
    Judgement,
    OpinionCase,
    SecondOpinion,
    ask_second_opinion,
    doubt_credentials,
    doubt_shared,
    judge_staged,
    mask_doubt,
    render_typed,
)
from memdir.format import frontmatter as frontmatter
from memdir.format.document import parse_document
from memdir.format.frontmatter import decode, digest_of, encode
from memdir.frozen import dataclass, field, replace
from memdir.limits import EXTRACT_TRIES, EXTRACT_WINDOW
from memdir.models.agent import ForkResult, ProjectTree, has_writing_tools
from memdir.models.connection import can_use_tools, sum_usage
from memdir.models.open import open_model
from memdir.models.staged import StagedMemory, Staging, make_edits
from memdir.records import InboxItem, InboxKind, Message, Model, Origin, Scope, SkipReason
from memdir.store.contract import Folder, StoreBase, utc_now
from memdir.store.history import OUTSIDE
from memdir.store.inbox import render_edits
from memdir.store.sessions import Cursor, MessageSlice, TrimmedWrite, make_cursor, slice_after
from memdir.text import fold, fold_words

WHO = "extractor"
VERB = "extract"
_ASKED = "asked:"  # before a mark: only what was asked for in the range is done
# What terminals and broken encodings leave in a message; what only serves to hide is left for `split_typed` to see.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_COVERED = 0.6  # of the words of a request, in one memory that a model wrote
_RETRIES = 3  # when somebody else changed the same memory between planning and writing
_RECENT_CHANGES = 200  # looked through for what the agent wrote by other means
_PAST_CHANGES = 3  # looked through for what a memory said before
_AFTER = timedelta(minutes=1)  # after the last message: a write that belongs to it


class ExtractSkip(SkipReason):
    """Every reason why a turn is not learned from, or not now."""

    OFF = "off", "learning is switched off here"
    PAUSED = "paused", "memory is paused"
    PRIVATE = "private", "this conversation is private"
    REMOTE = "remote", "the agent runs in a remote environment"
    SUBAGENT = "subagent", "it was a helper of the agent, not the agent itself"
    HEADLESS = "headless", "nobody sat before it, and only what a person asks for is kept then"
    NOTHING_NEW = "nothing_new", "nothing was said since the last time"
    REPEATED = "repeated", "these messages were learned from already"
    OWN_WRITES = "own_writes", "the agent wrote to memory itself in these messages"
    THROTTLED = "throttled", "it is not the turn for it: extract_every says how often"
    BUSY = "busy", "another run is under way; this turn follows it"
    FAILED = "failed", "it came to no good end; the next run tries again"
    NOTHING_FOUND = "nothing_found", "nothing in it was worth keeping"


@dataclass(frozen=True, slots=True)
class ConversationSource:
    """Where a run's messages come from: its id, the project and home it was held in, the host's own last request."""

    session: str = ""
    project: Path | None = None
    home: str = ""
    parent: Mapping[str, object] | None = None
    others: tuple[StoreBase, ...] = ()  # memories of other scopes, which the agent may write itself
    foreign: tuple[int, ...] = ()  # runs of foreign text in messages that are not at hand any more


NOWHERE = ConversationSource()


@dataclass(frozen=True, slots=True)
class ExtractReason:
    """Why a memory was written, changed, forgotten or put into the inbox."""

    name: str
    action: str
    why: str
    quote: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class ExtractResult:
    """What a run came to. Without a `cursor` the next run begins where this one did."""

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

    @property
    def notice(self) -> str:
        """One line for the person; empty if nothing was done."""
        done = (("saved", self.written), ("forgotten", self.forgotten))
        parts = [f"[Memory {verb}: {', '.join(f'{name}.md' for name in names)}]" for verb, names in done if names]
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
    """Learn from messages: `Message` records, tables such as `{"role": "user", "content": …}`, or objects of an SDK.

    `model` is a function or the name of one, as `open_model` takes it. Only the messages after the cursor are new; with
    `start` all are, and so many came before them. `context` are the last messages before these; without them, what
    `messages` has before the cursor.

    Without a model, and after too many `failures` over the same messages, only the patterns are used. `explicit_only`
    keeps what was asked for and nothing else; a partial run leaves the rest of these messages to a later one. A dry run
    returns what it would do and writes nothing.
    """
    messages = read_host_messages(messages)
    model = open_model(model) if isinstance(model, str) else model
    new = _find_new(store, messages, None if start is not None else after, conversation.session, start or 0)
    earlier = (*context, *messages[: new.start])
    new = replace(new, start=new.start + (start or 0))
    end = make_cursor(messages, before=start or 0)
    talk = clean_messages(new.messages)
    if not any(message.role == "user" for message in talk):
        return ExtractResult(skipped=ExtractSkip.NOTHING_NEW, cursor=end)
    model = None if failures >= EXTRACT_TRIES else model
    trimmed = after.trimmed if after is not None else ()
    run = _Run(store, talk, new, earlier, now or utc_now(), conversation, model, explicit_only, is_partial, trimmed)
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
    """What people, the agent and tools said, without what hosts and memdir itself put between."""
    kept = []
    for message in messages:
        if message.is_meta:
            continue
        text = _CONTROLS.sub("", strip_reminders(message.text))
        if text.strip() or message.calls:
            kept.append(replace(message, text=text))
    return tuple(kept)


def _make_mark(session: str, cursor: Cursor | None) -> str:
    """The mark of the change that learned from a conversation up to this message.

    Messages without ids in a conversation without one have none: two conversations may well begin alike.
    """
    known = cursor is not None and (session or cursor.id)
    return f"{VERB}:{session}:{cursor.key}" if cursor is not None and known else ""


def _find_new(
    store: StoreBase, messages: Sequence[Message], after: Cursor | None, session: str, before: int
) -> MessageSlice:
    """The messages after the cursor, or after the last that a change names: a killed run may not have moved it."""
    new = slice_after(messages, after)
    for at in range(len(messages) - 1, max(new.start - 1, len(messages) - 10 * EXTRACT_WINDOW), -1):
        mark = _make_mark(session, make_cursor(messages, at, before=before))
        if mark and store.has_mark(mark):
            return MessageSlice(tuple(messages[at + 1 :]), at + 1)
    return new


class _Run:
    """One pass over one slice, up to the point where something is written."""

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
    ) -> None:
        self.trimmed = trimmed
        self.store, self.talk, self.new, self.earlier, self.now = store, talk, new, earlier, now
        self.conversation, self.model = conversation, model
        self.said = max((message.at for message in talk if message.at), default=now)  # dates are seen from here
        self.explicit_only, self.is_partial = explicit_only or is_partial, is_partial
        self.ran: ForkResult | None = None
        self.problem = ""
        self.foreign = collect_foreign((*earlier, *new.messages), conversation.foreign)

    def give_up(self, ran: ForkResult, problem: str) -> None:
        """Keep only what was asked for: what the model wrote cannot be kept, and it is not asked twice in one run."""
        self.ran, self.problem = ran, problem
        self.explicit_only = self.is_partial = True

    def make_plan(self) -> "_Plan":
        """Everything that would be written, on a staging of its own, without credentials and what others share."""
        plan = self._plan()
        rules = self.store.rules
        found = (doubt_credentials(at, rules.find) or doubt_shared(at, rules) for at in plan.staging.staged)
        held = [doubt for doubt in found if doubt]
        for doubt in held:
            plan.staging.drop(doubt.staged.name)
        gone = {doubt.staged.name for doubt in held}
        doubts = [mask_doubt(doubt, rules.find) for doubt in (*plan.doubts, *held)]
        # What was asked to be kept and holds a secret waits without the value, each as a memory of its own.
        hidden = find_hidden_requests(self.talk, now=self.now)
        secret = [doubt for at in hidden for doubt in self._doubt(at, f"{SECRET}: {at.hides}")]
        if sum(doubt.why.startswith(SECRET) for doubt in doubts) < len(secret):
            doubts += secret  # else the model has found them too
        placed = tuple(at for at in plan.placed if at.name not in gone)
        return replace(plan, placed=placed, doubts=tuple(doubts))

    def _plan(self) -> "_Plan":
        staging = Staging(self.store, now=self.said)
        requests = self._leave_out_kept(find_requests(self._hide_echoes(), now=self.now))
        asked = [request for request in requests if request.is_explicit]
        own = self._find_own_writes()
        if own is not None or self.explicit_only:
            placed = self._place(_leave_out_written(asked, own or ()), staging)
            skipped = ExtractSkip.FAILED if self.problem else None if own is None else ExtractSkip.OWN_WRITES
            return _Plan(self, staging, placed, skipped=skipped, by="rules", ran=self.ran, error=self.problem)
        if self.model is None:
            return _Plan(self, staging, self._place(requests, staging), by="rules")
        return self._plan_with(self.model, staging, asked)

    def _plan_with(self, model: Model, staging: Staging, asked: Sequence[MemoryRequest]) -> "_Plan":
        try:
            answer = self._ask(model, staging)
        except (ModelError, BudgetError) as error:
            staging.take_back({})
            placed = self._place(asked, staging)
            return _Plan(self, staging, placed, skipped=ExtractSkip.FAILED, by="rules", error=str(error))
        again = self._stage_again(staging)
        judged = self._judge(model, staging, {**again, **answer.evidence}, asked)
        staging.take_back({})
        quotes = [quote for quote in answer.evidence.values() if quote]
        kept, left = [], []
        for at in (one for one in judged.kept if one.text != one.before):
            name, quote = staging.put(at), answer.evidence.get(at.name, again.get(at.name, ""))
            kept.append(Placement(name, _name_action(at), None, quote))
            if at.name in judged.whole and at.name not in again:
                left.append(TrimmedWrite(name, judged.whole[at.name], quote, digest_of(encode(at.text or ""))))
        texts = [at.text for at in judged.kept if at.text is not None]
        missed = [request for request in asked if not _is_covered(request, texts, quotes)]
        placed = (*kept, *self._place(missed, staging))
        ran = answer.ran
        if judged.opinion is not None:
            ran = replace(ran, usage=sum_usage(ran.usage, judged.opinion.usage), turns=ran.turns + 1)
        doubts = tuple(at for at in judged.doubts if at.staged.name not in again)
        trimmed = {name: cut for name, cut in judged.trimmed.items() if name not in again}  # told already
        problems = "; ".join(answer.problems)
        return _Plan(self, staging, placed, doubts, trimmed, tuple(left), by="model", ran=ran, error=problems)

    def _stage_again(self, staging: Staging) -> dict[str, str]:
        """Stage what the last run cut, where nobody has changed it since: the person may have said it by now, or agreed
        to it. Returns the words that each rests on, by name."""
        new, quotes = {fold(at.name) for at in staging.staged}, dict[str, str]()
        for at in self.trimmed:
            with suppress(NotFoundError, PathError):
                found = self.store.read(at.name)
                if found.digest == at.kept and fold(at.name) not in new:
                    staging.put(StagedMemory(at.name, at.text, found.text, found.digest))
                    quotes[at.name] = at.quote
        return quotes

    def _judge(
        self, model: Model, staging: Staging, evidence: Mapping[str, str], asked: Sequence[MemoryRequest]
    ) -> Judgement:
        typed = list_typed((*self._context, *self.talk), frozenset(self.foreign))

        def opine(cases: Sequence[OpinionCase]) -> SecondOpinion | None:
            try:
                return ask_second_opinion(model, cases, now=self.now, conversation=render_typed(typed))
            except (ModelError, BudgetError):
                return None

        def is_asked(text: str) -> bool:
            return any(request.action == FORGET and is_said(request, text) for request in asked)

        return judge_staged(staging.staged, evidence, typed, opine, is_asked=is_asked)

    def _ask(self, model: Model, staging: Staging) -> by_model.ModelExtraction:
        parent = self.conversation.parent
        others = (at for at in self.conversation.others if at.scope is Scope.USER)
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
        """The last messages before the new ones, without results of tools."""
        said = [at for at in clean_messages(self.earlier[-EXTRACT_WINDOW:]) if at.role != "tool"]
        return tuple(said[-by_model.CONTEXT_MESSAGES :])

    def _hide_echoes(self) -> list[Message]:
        """The messages without what the agent repeats of foreign text: a request may point to what the agent said."""
        foreign = frozenset(self.foreign)
        return [
            replace(at, text=cut_echoes(at.text, foreign).replace(OMITTED, "")) if at.role == "assistant" else at
            for at in self.talk
        ]

    def _doubt(self, request: MemoryRequest, why: str) -> list[DoubtfulWrite]:
        staging = Staging(self.store, now=self.said)
        self._place_one(request, staging)
        return [DoubtfulWrite(at, why, request.quote) for at in staging.staged]

    def _place(self, requests: Sequence[MemoryRequest], staging: Staging) -> tuple[Placement, ...]:
        return tuple(at for request in requests for at in self._place_one(request, staging))

    def _place_one(self, request: MemoryRequest, staging: Staging) -> tuple[Placement, ...]:
        """Stage one; one that cannot be written does not stop the others, and what was said before is no correction."""
        before = staging.copy()
        try:
            placed = place(request, staging)
        except FormatError:
            return (Placement("", "unclear", request, request.quote),)
        if any(_takes_away(staging, at.name) and self._is_newer(at.name, request.at) for at in placed):
            staging.take_back(before)
            return tuple(Placement(at.name, "unchanged", request, request.quote) for at in placed)
        return placed

    def _is_newer(self, name: str, said: datetime | None) -> bool:
        """Whether a memory was changed after that was said, as in a transcript of long ago.

        A change in the future only shows that a clock was wrong.
        """
        return said is not None and any(self.now >= change.at > said for change in self.store.changes(name, limit=1))

    def _leave_out_kept(self, requests: Sequence[MemoryRequest]) -> list[MemoryRequest]:
        """Without what an unfinished run over these messages has kept: the person may have taken it back since."""
        if not any(request.is_explicit for request in requests):
            return list(requests)
        messages, session = self.new.messages, self.conversation.session
        for at in range(len(messages) - 1, -1, -1):
            mark = _make_mark(session, make_cursor(messages, at, before=self.new.start))
            if mark and self.store.has_mark(_ASKED + mark):
                found = find_requests(clean_messages(messages[: at + 1]), now=self.now)
                kept = [request for request in found if request.is_explicit]
                return [request for request in requests if request not in kept]
        return list(requests)

    def _find_own_writes(self) -> list[tuple[StoreBase, str]] | None:
        """The memories that somebody else wrote in this conversation while it went on; None if nobody did."""
        stores = (self.store, *self.conversation.others)
        rooted = [(store, store.root) for store in stores if isinstance(store, Folder)]
        roots = {os.path.normpath(path): at for at, root in rooted for path in (root, os.path.realpath(root))}
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
            # The longest: one directory may be inside another.
            around = [root for root in roots if path.startswith(os.path.join(root, ""))]
            written += [(roots[root], os.path.relpath(path, root)) for root in sorted(around, key=len)[-1:]]
        return [(store, path.removesuffix(".md")) for store, path in dict.fromkeys(written)]


@dataclass(frozen=True, slots=True)
class _Plan:
    """What a run would write, and what it puts into the inbox."""

    run: _Run
    staging: Staging
    placed: tuple[Placement, ...]
    doubts: tuple[DoubtfulWrite, ...] = ()
    trimmed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    left: tuple[TrimmedWrite, ...] = ()  # for the next run to ask about once more
    skipped: ExtractSkip | None = None
    by: str = ""
    ran: ForkResult | None = None
    error: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether these messages are done with."""
        return self.skipped is not ExtractSkip.FAILED and not self.run.is_partial

    def commit(self, end: Cursor | None) -> ExtractResult:
        """The inbox first, then the change: a run killed between the two is repeated and finds its items there."""
        session = self.run.conversation.session
        ids = [message.id[:8] for message in self.run.talk if message.role == "user" and message.id]
        source = f", from {', '.join(ids[-5:])}" if ids else ""
        origin = Origin(WHO, f"by {self.by}{source}", session)
        if self.doubts:
            start = make_cursor(self.run.new.messages, 0, before=self.run.new.start)
            prefix = f"{VERB}:{session}:{start.key if start else ''}:"
            self.run.store.inbox_replace(prefix, [self._make_item(prefix, origin, doubt) for doubt in self.doubts])
        mark = _make_mark(session, end)
        mark = _ASKED + mark if mark and not self.is_whole else mark
        changed = self.run.store.change(make_edits(self.staging.staged), verb=VERB, origin=origin, mark=mark)
        return self.report(end, changed.change, repeated=changed.repeated)

    def report(self, end: Cursor | None, change: int | None, *, repeated: bool = False) -> ExtractResult:
        staged = self.staging.staged
        skipped = self.skipped
        if repeated and skipped is None:
            skipped = ExtractSkip.REPEATED
        elif skipped is None and not staged and not self.doubts:
            skipped = ExtractSkip.NOTHING_FOUND
        texts = {at.name: at.text or "" for at in staged}
        reasons = [
            ExtractReason(at.name, at.action, at.request.why if at.request else "by the model", at.quote, text)
            for at in self.placed
            for text in [texts.get(at.name, "")]
        ]
        reasons += [
            ExtractReason(name, "trim", "the person did not say it", sentence)
            for name, sentences in self.trimmed.items()
            for sentence in sentences
        ]
        reasons += [ExtractReason(at.staged.name, "wait", at.why, at.quote, at.staged.text or "") for at in self.doubts]
        return ExtractResult(
            written=() if repeated else tuple(at.name for at in staged if at.text is not None),
            forgotten=() if repeated else tuple(at.name for at in staged if at.text is None),
            waiting=tuple(doubt.staged.name for doubt in self.doubts),
            skipped=skipped,
            cursor=replace(end, trimmed=self.left) if end is not None and self.is_whole else None,
            by=self.by,
            messages=len(self.run.talk),
            change=change,
            ran=self.ran,
            error=self.error,
            reasons=tuple(reasons),
            trimmed=tuple(self.trimmed),
            foreign=self.run.foreign,
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


def _leave_out_written(requests: Sequence[MemoryRequest], own: Sequence[tuple[StoreBase, str]]) -> list[MemoryRequest]:
    """Requests that these memories do not answer: what was to be kept is in one, what was to go once was."""
    now, once = list[str](), list[str]()
    for store, name in own:
        with suppress(NotFoundError, PathError):
            now.append(store.read(name).text)
        if any(request.action == FORGET for request in requests):
            once += _read_past(store, [name])
    gone = [text for text in once if text not in now]
    return [at for at in requests if not any(is_said(at, text) for text in (gone if at.action == FORGET else now))]


def _read_past(store: StoreBase, names: Iterable[str]) -> Iterator[str]:
    """What memories said before their last changes."""
    files = (file for name in names for change in store.changes(name, limit=_PAST_CHANGES) for file in change.files)
    for file in files:
        if file.before is not None and file.splice is None:
            try:
                yield decode(store.read_content(file.before))
            except NotFoundError:
                continue  # purged


def _is_covered(request: MemoryRequest, texts: Sequence[str], quotes: Sequence[str]) -> bool:
    """Whether a model rests an operation on the words of a request, or wrote a memory that has most of its words."""
    mine = fold_words(request.quote)
    if any(quote and (quote in mine or mine in quote) for quote in map(fold_words, quotes)):
        return True
    words = set(fold_words(request.body).split())
    shares = (len(words & set(fold_words(text).split())) >= _COVERED * len(words) for text in texts)
    return (request.action != FORGET and any(shares)) or any(is_said(request, text) for text in texts)


def _takes_away(staging: Staging, name: str) -> bool:
    """Whether a memory says less than it did before."""
    at = next((staged for staged in staging.staged if staged.name == name), None)
    if at is None or at.before is None:
        return False
    before, kept = (parse_document(text).list_sentences() for text in (at.before, at.text or ""))
    return not set(before) <= set(kept)


def _name_action(staged: StagedMemory) -> str:
    return "forget" if staged.text is None else "create" if staged.before is None else "update"
