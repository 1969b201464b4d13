"""Memories that write themselves: the new messages of a conversation in, one act on the store out.

    messages --after the cursor--> slice --rules and model--> staging --judged--> one act, and what waits in the inbox

Everything a run keeps is written in one act with a mark that names the range, so a run that is killed, repeated or
delivered twice has happened once. The cursor moves on success only. What a person plainly asked to remember or forget
is found by rules, whatever the model does: it is kept when the model fails, and added when the model missed it.

When to run, and for which conversation, is decided by `learning`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from pathlib import Path

from memdir import frontmatter, scribe
from memdir.answered import find_own, leave_out_answered, leave_out_said
from memdir.cursor import Cursor, Slice, make_cursor, slice_after
from memdir.errors import BudgetError, ConflictError, FormatError, ModelError
from memdir.extract_gates import ExtractSkip
from memdir.extracted import NOWHERE, Conversation, Extracted, Reason
from memdir.fork import Ran
from memdir.frozen import dataclass, replace
from memdir.judging import (
    ECHO,
    SECRET,
    Doubt,
    doubt_credentials,
    doubt_shared,
    is_borrowed,
    judge_staged,
    mask_doubt,
)
from memdir.limits import EXTRACT_TRIES, EXTRACT_WINDOW
from memdir.models import can_use_tools
from memdir.project_files.secrecy import looks_secret
from memdir.records import InboxItem, InboxKind, Message, Model, Origin
from memdir.rules import Placed, Wish, find_hidden_wishes, find_wishes, place
from memdir.staging import Staged, Staging, make_edits
from memdir.store.contract import Verbs, utc_now
from memdir.store.payloads import render_edits
from memdir.taint import Sources, is_carried, split_sentences, strip_reminders, trace
from memdir.tools import has_writing_tools
from memdir.tree import Tree

WHO = "extractor"
VERB = "extract"
_ASKED = "asked:"
# What terminals and broken encodings leave in a message; what only serves to hide is left for `taint` to see.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff]")
_RETRIES = 3  # when somebody else changed the same memory between planning and writing


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
    earlier = messages[: new.start]
    new = replace(new, start=new.start + (start or 0))
    end = make_cursor(messages, before=start or 0)
    talk = clean(new.messages)
    if not any(message.role == "user" for message in talk):
        return Extracted(skipped=ExtractSkip.NOTHING_NEW, cursor=end)
    run = _Run(store, talk, new, earlier, at, conversation, model, explicit_only or is_partial, failures, is_partial)
    problem = ""
    for _ in range(_RETRIES):
        done = run.plan()
        try:
            return done.preview(end) if dry_run else done.commit(end)
        except ConflictError as error:
            problem = str(error)
        if done.ran is not None:
            run.give_up(done.ran, problem)
    return Extracted(skipped=ExtractSkip.FAILED, messages=len(talk), error=problem)


def clean(messages: Iterable[Message]) -> tuple[Message, ...]:
    """What people, the agent and tools said, without what hosts and memdir itself put between."""
    kept = []
    for message in messages:
        if message.is_meta:
            continue
        text = _CONTROLS.sub("", strip_reminders(message.text))
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
        earlier: Sequence[Message],
        now: datetime,
        conversation: Conversation,
        model: Model | None,
        explicit_only: bool,
        failures: int,
        is_partial: bool,
    ) -> None:
        self.store, self.talk, self.new, self.earlier, self.now = store, talk, new, earlier, now
        self.conversation = conversation
        self.model = None if failures >= EXTRACT_TRIES else model
        self.explicit_only, self.is_partial = explicit_only, is_partial
        self.ran: Ran | None = None
        self.problem = ""
        self.echoes: list[Wish] = []

    def give_up(self, ran: Ran, problem: str) -> None:
        """What the model wrote cannot be kept, and it is not asked twice for one run: only what was asked for is."""
        self.ran, self.problem = ran, problem
        self.explicit_only = self.is_partial = True

    def plan(self) -> "_Planned":
        """Everything that would be written, on a staging of its own, without credentials and what others share."""
        self.echoes = []
        planned = self._plan()
        rules = self.store.rules
        held = [
            doubt
            for at in planned.staging.staged
            if (doubt := doubt_credentials(at, rules.find) or doubt_shared(at, rules))
        ]
        for doubt in held:
            planned.staging.drop(doubt.staged.name)
        gone = {doubt.staged.name for doubt in held}
        echoes = [doubt for wish in self.echoes for doubt in self._doubt(wish, ECHO)]
        doubts = [mask_doubt(doubt, rules.find) for doubt in (*planned.doubts, *held, *echoes)]
        hidden = list(self._doubt_hidden())
        if sum(doubt.why.startswith(SECRET) for doubt in doubts) < len(hidden):
            doubts += hidden  # else the model has heard them too
        placed = tuple(at for at in planned.placed if at.name not in gone)
        return replace(planned, placed=placed, doubts=tuple(doubts))

    def _doubt_hidden(self) -> Iterator[Doubt]:
        """What was asked to be kept and holds a secret: it waits without the value, each as a memory of its own."""
        for wish in find_hidden_wishes(self.talk, now=self.now):
            yield from self._doubt(wish, f"{SECRET}: {wish.hides}")

    def _doubt(self, wish: Wish, why: str) -> Iterator[Doubt]:
        staging = Staging(self.store, now=self.now)
        self._place_one(wish, staging)
        yield from (Doubt(at, why, wish.quote) for at in staging.staged)

    def _plan(self) -> "_Planned":
        staging = Staging(self.store, now=self.now)
        wishes = self._leave_out_kept(find_wishes(self.talk, now=self.now))
        asked = [wish for wish in wishes if wish.is_explicit]
        own = find_own(self.store, self.new.messages, self.talk, self.conversation, but=WHO)
        if own is not None or self.explicit_only:
            placed = self._place(leave_out_answered(self.store, asked, own or ()), staging)
            skipped = ExtractSkip.FAILED if self.problem else None if own is None else ExtractSkip.OWN_WRITES
            return _Planned(self, staging, placed, skipped=skipped, by="rules", ran=self.ran, error=self.problem)
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
        doubts = judge_staged(staging.staged, self._trace(scribed), scribed.evidence, asked)
        for doubt in doubts:
            staging.drop(doubt.staged.name)
        texts = [at.text for at in staging.staged if at.text is not None]
        kept = tuple(
            Placed(at.name, _name_action(at), None, scribed.evidence.get(at.name, "")) for at in staging.staged
        )
        placed = (*kept, *self._place(leave_out_said(asked, texts), staging))
        return _Planned(self, staging, placed, doubts=doubts, by="model", ran=scribed.ran)

    def _trace(self, scribed: scribe.Scribed) -> Sources:
        """Whose words the model has seen: a fork sees the whole conversation, and what it looked up."""
        earlier = self.earlier if scribed.is_fork else ()
        return trace((*earlier, *self.new.messages, *scribed.foreign))

    def _scribe(self, model: Model, staging: Staging) -> scribe.Scribed:
        parent = self.conversation.parent
        memory = Path(getattr(self.store, "root", "/memory"))
        if parent is not None and can_use_tools(model) and has_writing_tools(parent):
            project = self.conversation.project
            tree = None if project is None else Tree(project, looks_secret)
            return scribe.fork(model, parent, len(self.new.messages), staging, memory, tree)
        return scribe.ask(model, self.talk, staging, (self.store,), self.now)

    def _place(self, wishes: Sequence[Wish], staging: Staging) -> tuple[Placed, ...]:
        """What is the person's own wish in words that foreign text put into the agent's mouth waits."""
        borrowed = [wish for wish in wishes if is_borrowed(wish)]
        sources = trace((*self.earlier, *self.new.messages)) if borrowed else None
        self.echoes = [wish for wish in borrowed if sources is not None and is_carried(wish.body, sources)]
        return tuple(at for wish in wishes if wish not in self.echoes for at in self._place_one(wish, staging))

    def _place_one(self, wish: Wish, staging: Staging) -> tuple[Placed, ...]:
        """One that cannot be written down does not keep the others waiting; what was said before is no correction."""
        before = staging.copy()
        try:
            placed = place(wish, staging)
        except FormatError:
            return (Placed("", "unclear", wish, wish.quote),)
        if any(_takes_away(staging, at.name) and self._is_newer(at.name, wish.at) for at in placed):
            staging.take_back(before)
            return tuple(Placed(at.name, "unchanged", wish, wish.quote) for at in placed)
        return placed

    def _is_newer(self, name: str, said: datetime | None) -> bool:
        """Whether a memory was changed after that was said, as in a transcript of long ago.

        An act from the time to come tells of a clock that was wrong, and of nothing else.
        """
        return said is not None and any(self.now >= act.at > said for act in self.store.acts(name, limit=1))

    def _leave_out_kept(self, wishes: Sequence[Wish]) -> list[Wish]:
        """Without what an unfinished run over these messages has kept: the person may have taken it back since."""
        if not any(wish.is_explicit for wish in wishes):
            return list(wishes)
        messages, session = self.new.messages, self.conversation.session
        for at in range(len(messages) - 1, -1, -1):
            mark = make_mark(session, make_cursor(messages, at, before=self.new.start))
            if mark and self.store.has_mark(_ASKED + mark):
                kept = [wish for wish in find_wishes(clean(messages[: at + 1]), now=self.now) if wish.is_explicit]
                return [wish for wish in wishes if wish not in kept]
        return list(wishes)


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
        start = make_cursor(self.run.new.messages, 0, before=self.run.new.start)
        if self.doubts:
            prefix = f"{VERB}:{session}:{start.key if start else ''}:"
            self.run.store.inbox_replace(prefix, [self._make_item(prefix, doubt) for doubt in self.doubts])
        mark = make_mark(session, end)
        if mark and not self.is_whole:
            mark = _ASKED + mark  # the range is not done: only what was asked for in it
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


def _takes_away(staging: Staging, name: str) -> bool:
    """Whether a memory says less than it did before."""
    at = next((staged for staged in staging.staged if staged.name == name), None)
    if at is None or at.before is None:
        return False
    kept = set(split_sentences(frontmatter.split(at.text or "").body))
    return any(sentence not in kept for sentence in split_sentences(frontmatter.split(at.before).body))


def _name_action(staged: Staged) -> str:
    return "forget" if staged.text is None else "create" if staged.before is None else "update"
