"""Memories that write themselves: the new messages of a conversation in, one act on the store out.

    messages --after the cursor--> slice --rules and model--> staging --judged--> one act, and what waits in the inbox

Everything a run keeps is written in one act with a mark that names the range, so a run that is killed, repeated or
delivered twice has happened once. The cursor moves on success only. What a person plainly asked to remember or forget
is found by rules, whatever the model does: it is kept when the model fails, and added when the model missed it.

When to run, and for which conversation, is decided by `learning`.
"""

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from memdir import scribe
from memdir.cursor import Cursor, Slice, make_cursor, slice_after
from memdir.errors import BudgetError, ConflictError, ModelError
from memdir.extract_gates import ExtractSkip
from memdir.fork import Ran
from memdir.frozen import dataclass, replace
from memdir.judging import Doubt, judge_staged
from memdir.limits import EXTRACT_TRIES, EXTRACT_WINDOW
from memdir.models import can_use_tools
from memdir.own_writes import find_written_memory
from memdir.project_files.secrecy import looks_secret
from memdir.records import InboxItem, InboxKind, Message, Model, Origin
from memdir.rules import Placed, Wish, find_wishes, is_said, place
from memdir.secrets import find_secrets, mask, render_findings
from memdir.staging import Staged, Staging, make_edits
from memdir.store.contract import Verbs, utc_now
from memdir.store.history import OUTSIDE
from memdir.store.payloads import render_edits
from memdir.taint import strip_reminders, trace
from memdir.text import fold
from memdir.tools import has_writing_tools
from memdir.tree import Tree

WHO = "extractor"
VERB = "extract"
_RECENT_ACTS = 200  # looked through for what the agent wrote by other ways
_RETRIES = 3  # when somebody else changed the same memory between planning and writing


@dataclass(frozen=True, slots=True)
class Conversation:
    """Where a run's messages come from: its id, the project and home it was held in, the host's own last request."""

    session: str = ""
    project: Path | None = None
    home: str = ""
    parent: Mapping[str, object] | None = None


NOWHERE = Conversation()


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a memory was written, changed, forgotten or set aside."""

    name: str
    action: str
    why: str
    quote: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class Extracted:
    """What a run came to. Without a `cursor` the next run begins where this one did."""

    written: tuple[str, ...] = ()
    forgotten: tuple[str, ...] = ()
    waiting: tuple[str, ...] = ()
    skipped: ExtractSkip | None = None
    cursor: Cursor | None = None
    by: str = ""
    messages: int = 0
    act: int | None = None
    ran: Ran | None = None
    error: str = ""
    reasons: tuple[Reason, ...] = ()

    @property
    def notice(self) -> str:
        """One line for the person; empty if there is nothing to tell."""
        parts = []
        if self.written:
            parts.append(f"[Memory saved: {', '.join(f'{name}.md' for name in self.written)}]")
        if self.forgotten:
            parts.append(f"[Memory forgotten: {', '.join(f'{name}.md' for name in self.forgotten)}]")
        if self.waiting:
            parts.append(f"[{len(self.waiting)} waiting for you: `memdir inbox`]")
        return " ".join(parts)


def extract(
    store: Verbs,
    messages: Sequence[Message],
    *,
    model: Model | None = None,
    after: Cursor | None = None,
    now: datetime | None = None,
    conversation: Conversation = NOWHERE,
    explicit_only: bool = False,
    failures: int = 0,
    dry_run: bool = False,
    start: int | None = None,
    is_partial: bool = False,
) -> Extracted:
    """Learn from the messages after the cursor; with `start` they are just those, and so many came before them.

    Without a model rules do it alone; after too many `failures` over the same messages too. `explicit_only` keeps what
    was asked for and nothing else; a partial run leaves the rest of these messages to a later one. A dry run tells what
    it would do and does nothing.
    """
    at = now or utc_now()
    new = _find_new(store, messages, None if start is not None else after, conversation.session, start or 0)
    end = make_cursor(messages, before=start or 0)
    talk = clean(new.messages)
    if not any(message.role == "user" for message in talk):
        return Extracted(skipped=ExtractSkip.NOTHING_NEW, cursor=end)
    run = _Run(store, talk, new, at, conversation, model, explicit_only or is_partial, failures, is_partial)
    problem = ""
    for _ in range(_RETRIES):
        done = run.plan()
        try:
            return done.preview(end) if dry_run else done.commit(end)
        except ConflictError as error:
            problem = str(error)
        if done.ran is not None:
            break  # a model is not asked twice for one run
    return Extracted(skipped=ExtractSkip.FAILED, messages=len(talk), error=problem)


def clean(messages: Iterable[Message]) -> tuple[Message, ...]:
    """What people, the agent and tools said, without what hosts and memdir itself put between."""
    kept = []
    for message in messages:
        if message.is_meta:
            continue
        text = strip_reminders(message.text)
        if text.strip() or message.calls:
            kept.append(replace(message, text=text))
    return tuple(kept)


def make_mark(session: str, cursor: Cursor | None) -> str:
    """The mark of the act that learned from a conversation up to this message.

    Messages without ids in a conversation without one have none: two conversations may well begin alike.
    """
    known = cursor is not None and (session or cursor.id)
    return f"{VERB}:{session}:{cursor.key}" if cursor is not None and known else ""


def _find_new(store: Verbs, messages: Sequence[Message], after: Cursor | None, session: str, before: int) -> Slice:
    """The messages after the cursor, or after the last that an act tells of: a killed run may not have moved it."""
    new = slice_after(messages, after)
    for at in range(len(messages) - 1, max(new.start - 1, len(messages) - 10 * EXTRACT_WINDOW), -1):
        mark = make_mark(session, make_cursor(messages, at, before=before))
        if mark and store.has_mark(mark):
            return Slice(tuple(messages[at + 1 :]), at + 1)
    return new


class _Run:
    """One pass over one slice, up to the point where something is written."""

    def __init__(
        self,
        store: Verbs,
        talk: Sequence[Message],
        new: Slice,
        now: datetime,
        conversation: Conversation,
        model: Model | None,
        explicit_only: bool,
        failures: int,
        is_partial: bool,
    ) -> None:
        self.store, self.talk, self.new, self.now = store, talk, new, now
        self.conversation = conversation
        self.model = None if failures >= EXTRACT_TRIES else model
        self.explicit_only, self.is_partial = explicit_only, is_partial

    def plan(self) -> "_Planned":
        """Everything that would be written, on a staging of its own."""
        staging = Staging(self.store, now=self.now)
        wishes = find_wishes(self.talk, now=self.now)
        asked = [wish for wish in wishes if wish.is_explicit]
        own = self._find_own()
        if own is not None or self.explicit_only:
            placed = self._place(_leave_out_said(asked, self._read_texts(own or ())), staging)
            skipped = None if own is None else ExtractSkip.OWN_WRITES
            return _Planned(self, staging, placed, skipped=skipped, by="rules")
        if self.model is None:
            return _Planned(self, staging, self._place(wishes, staging), by="rules")
        return self._plan_with(self.model, staging, asked)

    def _plan_with(self, model: Model, staging: Staging, asked: Sequence[Wish]) -> "_Planned":
        try:
            scribed = self._scribe(model, staging)
        except (ModelError, BudgetError) as error:
            staging.take_back({})
            placed = self._place(asked, staging)
            return _Planned(self, staging, placed, skipped=ExtractSkip.FAILED, by="rules", error=str(error))
        doubts = judge_staged(staging.staged, trace(self.new.messages), scribed.evidence, asked)
        for doubt in doubts:
            staging.drop(doubt.staged.name)
        doubts += tuple(self._take_secrets(staging))
        texts = [at.text for at in staging.staged if at.text is not None]
        kept = tuple(
            Placed(at.name, _name_action(at), None, scribed.evidence.get(at.name, "")) for at in staging.staged
        )
        placed = (*kept, *self._place(_leave_out_said(asked, texts), staging))
        return _Planned(self, staging, placed, doubts=doubts, by="model", ran=scribed.ran)

    def _take_secrets(self, staging: Staging) -> Iterator[Doubt]:
        """What holds a credential is not written in the background: it waits, and without the credential."""
        for at in staging.staged:
            found = (self.store.rules.find or find_secrets)(at.text or "")
            if found and at.text is not None:
                staging.drop(at.name)
                why = f"it holds a secret: {'; '.join(render_findings(found))}"
                yield Doubt(replace(at, text=mask(at.text, found)), why)

    def _scribe(self, model: Model, staging: Staging) -> scribe.Scribed:
        parent = self.conversation.parent
        memory = Path(getattr(self.store, "root", "/memory"))
        if parent is not None and can_use_tools(model) and has_writing_tools(parent):
            project = self.conversation.project
            tree = None if project is None else Tree(project, looks_secret)
            return scribe.fork(model, parent, len(self.new.messages), staging, memory, tree)
        return scribe.ask(model, self.talk, staging, (self.store,), self.now)

    def _place(self, wishes: Sequence[Wish], staging: Staging) -> tuple[Placed, ...]:
        return tuple(at for wish in wishes for at in place(wish, staging))

    def _find_own(self) -> list[str] | None:
        """The memories that somebody else wrote for this conversation meanwhile; None if nobody did."""
        root = getattr(self.store, "root", None)
        paths = () if root is None else self._find_paths(root)
        begun = next((message.at for message in self.talk if message.at), None)
        acts = [
            act
            for act in self.store.acts(limit=_RECENT_ACTS)
            if act.origin.session and act.origin.session == self.conversation.session
            if act.origin.who != WHO and act.verb != OUTSIDE and (begun is None or act.at >= begun)
        ]
        if not paths and not acts:
            return None
        names = [os.path.relpath(path, root) for path in paths if root is not None and os.path.isabs(path)]
        names += [change.path for act in acts for change in act.changes]
        return [name.removesuffix(".md") for name in dict.fromkeys(names)]

    def _find_paths(self, root: Path) -> tuple[str, ...]:
        places = (root, os.path.realpath(root))
        cwd = str(self.conversation.project or "")
        return find_written_memory(self.new.messages, places, cwd=cwd, home=self.conversation.home)

    def _read_texts(self, names: Iterable[str]) -> list[str]:
        known = {fold(header.name): header.name for header in self.store.scan()}
        return [self.store.read(known[fold(name)]).text for name in names if fold(name) in known]


@dataclass(frozen=True, slots=True)
class _Planned:
    """What a run would write, and what it sets aside for a person."""

    run: _Run
    staging: Staging
    placed: tuple[Placed, ...]
    doubts: tuple[Doubt, ...] = ()
    skipped: ExtractSkip | None = None
    by: str = ""
    ran: Ran | None = None
    error: str = ""

    @property
    def is_whole(self) -> bool:
        """Whether these messages are done with."""
        return self.skipped is not ExtractSkip.FAILED and not self.run.is_partial

    def preview(self, end: Cursor | None) -> Extracted:
        return self._tell(end, None)

    def commit(self, end: Cursor | None) -> Extracted:
        """The inbox first, then the act: a run killed between the two is repeated and finds its items there."""
        session = self.run.conversation.session
        start = make_cursor(self.run.new.messages, 0)
        if self.doubts:
            prefix = f"{VERB}:{session}:{start.key if start else ''}:"
            self.run.store.inbox_replace(prefix, [self._make_item(prefix, doubt) for doubt in self.doubts])
        mark = make_mark(session, end)
        if not self.is_whole:
            mark = f"asked:{mark}"  # the range is not done: only what was asked for in it
        edits = make_edits(self.staging.staged)
        changed = self.run.store.change(edits, verb=VERB, origin=self._make_origin(), mark=mark)
        return self._tell(end, changed.act, repeated=changed.repeated)

    def _tell(self, end: Cursor | None, act: int | None, *, repeated: bool = False) -> Extracted:
        staged = self.staging.staged
        skipped = self.skipped
        if repeated and skipped is None:
            skipped = ExtractSkip.REPEATED
        elif skipped is None and not staged and not self.doubts:
            skipped = ExtractSkip.NOTHING_FOUND
        return Extracted(
            written=() if repeated else tuple(at.name for at in staged if at.text is not None),
            forgotten=() if repeated else tuple(at.name for at in staged if at.text is None),
            waiting=tuple(doubt.staged.name for doubt in self.doubts),
            skipped=skipped,
            cursor=end if self.is_whole else None,
            by=self.by,
            messages=len(self.run.talk),
            act=act,
            ran=self.ran,
            error=self.error,
            reasons=tuple(self._give_reasons()),
        )

    def _give_reasons(self) -> Iterable[Reason]:
        texts = {at.name: at.text or "" for at in self.staging.staged}
        for at in self.placed:
            yield Reason(
                at.name, at.action, at.wish.why if at.wish else "by the model", at.quote, texts.get(at.name, "")
            )
        for doubt in self.doubts:
            yield Reason(doubt.staged.name, "wait", doubt.why, doubt.quote, doubt.staged.text or "")

    def _make_origin(self) -> Origin:
        ids = [message.id[:8] for message in self.run.talk if message.role == "user" and message.id]
        source = f", from {', '.join(ids[-5:])}" if ids else ""
        return Origin(WHO, f"by {self.by}{source}", self.run.conversation.session)

    def _make_item(self, prefix: str, doubt: Doubt) -> InboxItem:
        evidence = [doubt.quote] if doubt.quote else []
        return InboxItem(
            InboxKind.MEMORY,
            f"{_name_action(doubt.staged)} {doubt.staged.name}",
            doubt.why,
            self.run.now,
            key=f"{prefix}{doubt.staged.name}",
            name=doubt.staged.name,
            origin=self._make_origin(),
            payload={"edits": render_edits(make_edits([doubt.staged])), "evidence": evidence},
        )


def _leave_out_said(wishes: Sequence[Wish], texts: Sequence[str]) -> list[Wish]:
    """Wishes that none of these memories has answered."""
    return [wish for wish in wishes if not any(is_said(wish, text) for text in texts)]


def _name_action(staged: Staged) -> str:
    return "forget" if staged.text is None else "create" if staged.before is None else "update"
