"""What may be kept of what a model staged: safe changes become patches, each other one an item of the inbox.

A change is safe if every sentence that it removes stands elsewhere afterwards or was overtaken by a newer memory or log,
and every sentence that it adds stands in the memories and logs it may be made of. What does not stand there to the letter
is put, for the whole run in one request, to a second reader who sees those texts only and says for each sentence whether
it follows; without one, such a change needs review. The reasons of a rule go with the rule.

Changes that belong together are kept together or not at all: a memory that was merged away goes only if the one that took
over its sentences is written. If more than a fifth of the directory would go, the best-founded changes are applied up to
that share, and the others need review. Memories merged word for word do not count: nothing is removed by them.

A rule, or a statement about the person, may be made of such memories, of the daily log and of the person's own words, but
not of facts about the project; a fact may be made of any memory. What a team shares is for a person to change. Nothing
pins itself. A rewritten memory is as old as the newest text it was made of.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from math import fsum

from memdir.conversation.typed import find_typed
from memdir.dream.by_model import ModelDream, count_removable
from memdir.dream.duplicates import find_hard
from memdir.dream.records import WHO, Patch, make_key, read_memories, stamp
from memdir.errors import BudgetError, MemdirError, ModelError
from memdir.extraction.provenance import (
    SHARED,
    DoubtfulWrite,
    OpinionCase,
    ask_second_opinion,
    doubt_credentials,
    mask_doubt,
    mask_words,
)
from memdir.format import frontmatter
from memdir.format.document import PartKind, parse_document
from memdir.format.frontmatter import decode, digest_of
from memdir.frozen import dataclass, replace
from memdir.limits import DREAM_OPINION_CHARS
from memdir.models.staged import StagedMemory, Staging, make_edits, parse_draft
from memdir.recall.terms import parse_terms
from memdir.records import Edit, InboxItem, InboxKind, Kind, Message, Model, Origin, Put, Rewrite
from memdir.store.batch import StoreOverlay, plan_batch
from memdir.store.inbox import InboxQuote, render_edits, render_evidence
from memdir.store.plan import is_shared, plan_write
from memdir.text import fold, fold_words, one_line, shorten

_REASON = "tidied by the model"
_NUMBER = re.compile(r"\d+")
_NEAREST = 4  # memories shown to the second reader for one change
_OWN_FIELDS = frozenset("name description type modified cues metadata".split())
_SUBJECT_TERMS = 1  # of a sentence, in something newer that overtakes it
_NO_LONGER = "This no longer holds: “{}”"
_LEFT, _OVER, _NEW = "left", "overtaken", "new"
_SHARE = "more than a fifth of the memory would go in one dream, and others are better founded"


class SentenceFate(IntEnum):
    """What becomes of a sentence that a memory no longer says; the best-founded first."""

    KEPT = 0  # to the letter
    REWORDED = 1
    OVERTAKEN = 2
    LOST = 3


@dataclass(frozen=True, slots=True)
class RemovedSentence:
    """A sentence that a memory no longer says, and the memories that say it, or say it anew."""

    name: str
    text: str
    fate: SentenceFate
    where: tuple[str, ...] = ()


def review_patches(
    staging: Staging,
    overlay: StoreOverlay,
    run: ModelDream,
    notes: Iterable[Message],
    *,
    ages: Mapping[str, datetime],
    reader: Model,
    now: datetime,
) -> tuple[list[Patch], list[InboxItem]]:
    """What is applied of what was staged, and what needs review.

    `notes` are the entries of the logs; `ages` says since when each memory says what it says.
    """
    review = _Review(staging, overlay, run, (*notes, *run.shown), ages, now)
    removed = review.ask(reader, review.find_removed(), review.find_added())
    patches: list[Patch] = []
    proposals: list[InboxItem] = []
    room = count_removable(len(review.before))
    for group in sorted(review.group(removed), key=lambda at: at.founded):
        doubt = next(filter(None, map(review.find_doubt, group.staged)), "")
        if doubt or group.founded is SentenceFate.LOST or group.gone > room:
            proposals.append(review.make_item(group, doubt))
            continue
        try:
            patches.append(review.make_patch(group))
            room -= group.gone
        except MemdirError as error:  # it cannot be written as it is: that stops no other change
            proposals.append(review.make_item(group, one_line(str(error))))
    return patches, proposals


class SaidSentences:
    """Which of some texts say a sentence."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._names: dict[str, list[str]] = defaultdict(list)
        for name, text in texts.items():
            for sentence in parse_document(text).list_sentences():
                self._names[fold_words(sentence, signs=True)].append(name)

    def judge(self, name: str, text: str) -> RemovedSentence:
        """The fate of a sentence that a memory no longer says, or says still."""
        where = self._names.get(folded := fold_words(text, signs=True), () if re.search(r"\w", folded) else (name,))
        return RemovedSentence(name, text, SentenceFate.KEPT if where else SentenceFate.LOST, tuple(where))


@dataclass(frozen=True, slots=True)
class _Group:
    """Changes that belong together, what they remove, and untouched memories that must stay for them to be right."""

    staged: tuple[StagedMemory, ...]
    removed: tuple[RemovedSentence, ...]
    leans: tuple[str, ...]

    @property
    def kind(self) -> str:
        if all(at.text is None for at in self.staged):
            return "overtaken" if self.founded is SentenceFate.OVERTAKEN else "merge" if self.leans else "forget"
        if any(at.text is None for at in self.staged):
            return "merge"
        return "create" if all(at.before is None for at in self.staged) else "update"

    @property
    def founded(self) -> SentenceFate:
        """How sure it is that nothing is lost, by the least sure sentence."""
        return max((at.fate for at in self.removed), default=SentenceFate.KEPT)

    @property
    def gone(self) -> int:
        """Memories of which nothing is left, unless others say all of it word for word."""
        unkept = {at.name for at in self.removed if at.fate is not SentenceFate.KEPT}
        left = {
            at.name: {*parse_document(at.before or "").list_sentences()}
            & {*parse_document(at.text or "").list_sentences()}
            for at in self.staged
        }
        return sum(not left[name] for name in unkept)


class _Review:
    """The changes of one run, with all that they are compared with."""

    def __init__(
        self,
        staging: Staging,
        overlay: StoreOverlay,
        run: ModelDream,
        said: Sequence[Message],
        ages: Mapping[str, datetime],
        now: datetime,
    ) -> None:
        self._staged, self._overlay, self._run, self._now = staging.staged, overlay, run, now
        self.before = {name: memory.text for name, memory in read_memories(overlay).items()}
        touched = {at.name for at in self._staged}
        self._after = {name: text for name, text in self.before.items() if name not in touched}
        self._after |= {at.name: at.text for at in self._staged if at.text is not None}
        self._ages = {name: ages.get(name, now).timestamp() for name in self.before}
        self._typed = [(at.at or now, text) for at in said if (text := find_typed(at))]
        rules = {name: text for name, text in self.before.items() if _is_rule(frontmatter.parse_fields(text).kind)}
        self._usable = {True: rules, False: self.before}  # what a rule may be made of, and what a fact
        self._unfounded: Mapping[str, tuple[str, ...]] = {}

    # --- what is removed, what is added -----------------------------------------------------------------------------

    def find_removed(self) -> list[RemovedSentence]:
        """Each sentence that its memory no longer says, and each description that names what nothing else does."""
        remaining = SaidSentences(self._after)
        things = frozenset[str]().union(*(find_hard(_flatten(text)) for text in self._after.values()))
        found = []
        for name, text in ((at.name, at.before) for at in self._staged if at.before is not None):
            judged = (remaining.judge(name, sentence) for sentence in parse_document(text).list_sentences())
            found += [at for at in judged if at.fate is not SentenceFate.KEPT or name not in at.where]
            if find_hard(description := frontmatter.parse_fields(text).description) - things:
                found.append(RemovedSentence(name, description, SentenceFate.LOST))
        return found

    def find_added(self) -> dict[str, tuple[str, ...]]:
        """By name the sentences, title, description and cues that no source has."""
        typed, added = self._list_typed(), {}
        said = {is_rule: SaidSentences({**texts, "": typed}) for is_rule, texts in self._usable.items()}
        for at in self._staged:
            if at.text is None or is_shared(at.name, self._overlay.rules):
                continue
            was, fields = frontmatter.parse_fields(at.before or ""), frontmatter.parse_fields(at.text)
            judged = (said[_is_rule(fields.kind)].judge("", text) for text in parse_document(at.text).list_sentences())
            new = [sentence.text for sentence in judged if sentence.fate is not SentenceFate.KEPT]
            body = frontmatter.split_frontmatter(at.text).body
            known = {*parse_terms(f"{body} {was.title} {was.description}")}
            cues = (cue for cue in fields.cues if cue not in was.cues)
            heads = (fields.title, fields.description, "" if at.before else at.name, *cues)
            new += [text for text in heads if not known.issuperset(parse_terms(text))]
            if new:
                added[at.name] = tuple(dict.fromkeys(new))
        return added

    def ask(
        self, reader: Model, removed: Sequence[RemovedSentence], added: Mapping[str, tuple[str, ...]]
    ) -> list[RemovedSentence]:
        """What is removed, after a second reader has seen what stands nowhere to the letter; keeps what is unfounded."""
        lost: dict[str, list[str]] = defaultdict(list)
        for at in removed:
            if at.fate is SentenceFate.LOST:
                lost[at.name].append(at.text)
        left = {name: self._find_near(name, self._after) for name in lost}
        newer = {name: self._find_near(name, self._list_newer(name)) for name in lost}
        cases: dict[tuple[str, str], OpinionCase] = {}
        for name, texts in lost.items():
            over, said = map(_NO_LONGER.format, texts), self._list_typed(self._ages[name])
            cases[_LEFT, name] = OpinionCase("", tuple(texts), before=self._join(left[name], self._after))
            cases[_OVER, name] = OpinionCase("", tuple(over), said, self._join(newer[name], self.before))
        for name, new in added.items():
            fields = frontmatter.parse_fields(self._after[name])
            usable = self._usable[_is_rule(fields.kind)]
            known = self._join(self._find_near(name, usable), usable)
            cases[_NEW, name] = OpinionCase("", new, self._list_typed(), known, phrases=frozenset(fields.cues))
        follows = _ask_reader(reader, cases, self._now)
        done = []
        for at in removed:
            numbers = set(_NUMBER.findall(at.text))
            is_left = at.text in follows[_LEFT, at.name]
            if is_left and numbers.issubset(_NUMBER.findall(cases[_LEFT, at.name].before)):
                done.append(replace(at, fate=SentenceFate.REWORDED, where=tuple(left[at.name])))
            elif _NO_LONGER.format(at.text) in follows[_OVER, at.name] and _shares_subject(
                at.text, cases[_OVER, at.name]
            ):
                done.append(replace(at, fate=SentenceFate.OVERTAKEN, where=tuple(newer[at.name])))
            else:
                done.append(at)
        self._unfounded = {
            name: tuple(at for at in new if at not in follows[_NEW, name]) for name, new in added.items()
        }
        return list(self._let_reasons_go(done))

    def _list_typed(self, since: float = 0.0) -> str:
        """What the person said after a moment, in logs and conversations."""
        return "\n\n".join(text for at, text in self._typed if at.timestamp() > since)

    def _list_newer(self, name: str) -> dict[str, str]:
        return {at: text for at, text in self.before.items() if self._ages[at] > self._ages[name]}

    def _find_near(self, name: str, texts: Mapping[str, str]) -> list[str]:
        """The memories that the model named for a change, then those with most of its rarer words."""
        given = fold(f"{self._run.evidence.get(fold(name), '')} {self._run.reasons.get(fold(name), '')}")
        own = {*parse_terms(_flatten(self.before.get(name, ""))), *parse_terms(_flatten(self._after.get(name, "")))}
        terms = {at: own & {*parse_terms(_flatten(text))} for at, text in texts.items()}
        counts = Counter(term for found in terms.values() for term in found)
        # `fsum` does not depend on the order of a set: the same directory gives the same request.
        scores = {at: fsum(1 / counts[term] for term in found) + 9 * (fold(at) in given) for at, found in terms.items()}
        return sorted((at for at in scores if scores[at]), key=lambda at: (-scores[at], at))[:_NEAREST]

    def _join(self, names: Iterable[str], texts: Mapping[str, str]) -> str:
        return "\n\n".join(f"{name}:\n{_flatten(texts[name])}" for name in names)[:DREAM_OPINION_CHARS]

    def _let_reasons_go(self, removed: Sequence[RemovedSentence]) -> Iterator[RemovedSentence]:
        """Why, how to apply and the description go with the rule when all of the rule has been overtaken."""
        fates = {(at.name, at.text): at.fate for at in removed}
        for at in removed:
            main = parse_document(self.before.get(at.name, "")).list_sentences(PartKind.FACT)
            ruled = [fates.get((at.name, text), SentenceFate.LOST) for text in main]
            fate = max(ruled, default=SentenceFate.LOST)
            is_over = SentenceFate.OVERTAKEN <= fate < SentenceFate.LOST
            yield replace(at, fate=fate) if at.fate is SentenceFate.LOST and is_over else at

    # --- patches and items ------------------------------------------------------------------------------------------

    def group(self, removed: Sequence[RemovedSentence]) -> list[_Group]:
        """Each change with those that took over its sentences."""
        mended = map(self._mend_head, self._staged)
        staged = {at.name: at for at in mended if at.text != at.before}
        heads = {name: name for name in staged}
        leans: dict[str, list[str]] = {name: [] for name in staged}

        def find(name: str) -> str:
            while heads[name] != name:
                name = heads[name]
            return name

        for at in (sentence for sentence in removed if sentence.name in staged):
            written = [name for name in at.where if name in staged and name != at.name]
            untouched = [name for name in at.where if name not in staged]
            if untouched and (at.fate is not SentenceFate.REWORDED or not written):
                leans[at.name].append(untouched[0])
            elif written and at.fate is not SentenceFate.OVERTAKEN:
                heads[find(at.name)] = find(written[0])
        groups: dict[str, list[StagedMemory]] = defaultdict(list)
        for one in staged.values():
            groups[find(one.name)].append(one)
        made = []
        for group in groups.values():
            own = {at.name for at in group}
            lean = dict.fromkeys(at for name in own for at in leans[name])
            made.append(_Group(tuple(group), tuple(at for at in removed if at.name in own), tuple(lean)))
        return made

    def _mend_head(self, staged: StagedMemory) -> StagedMemory:
        """What nothing supports is replaced in the head, and a cue left out: one odd field does not sink a memory."""
        unfounded = self._unfounded.get(staged.name, ())
        if staged.text is None or not unfounded:
            return staged
        was, fields = frontmatter.parse_fields(staged.before or ""), frontmatter.parse_fields(staged.text)
        said = " ".join(parse_document(staged.text).list_sentences())
        title, told = was.title or shorten(said, 60), was.description or shorten(said, 150)
        changes: dict[str, frontmatter.FieldValue] = {"name": title} if fields.title in unfounded else {}
        changes |= {"description": told} if fields.description in unfounded else {}
        if len(cues := tuple(at for at in fields.cues if at not in unfounded)) < len(fields.cues):
            changes["cues"] = cues or None
        return replace(staged, text=frontmatter.set_fields(staged.text, changes)) if changes else staged

    def find_doubt(self, staged: StagedMemory) -> str:
        """Why a new text may not be kept without review; empty if it may."""
        if is_shared(staged.name, self._overlay.rules):
            return SHARED
        if staged.text is None:
            return ""
        if secret := doubt_credentials(staged, self._overlay.rules.find):
            return secret.why
        was, fields = frontmatter.parse_fields(staged.before or ""), frontmatter.parse_fields(staged.text)
        if fields.pinned:  # a memory that was pinned before is never staged
            return "it would pin itself, and only a person does that"
        if staged.before is not None and {*fields.raw} - {*was.raw} - _OWN_FIELDS:
            return "it puts something into the head of the file that belongs nowhere"
        said = parse_document(staged.text).list_sentences()
        new = next((one_line(text) for text in self._unfounded.get(staged.name, ()) if text in said), "")
        return f"nothing that it was made of says so: “{shorten(new, 120)}”" if new else ""

    def make_patch(self, group: _Group) -> Patch:
        staged = [self._complete(at) for at in group.staged]
        edits = [edit for at in staged for edit in self._make_edits(group, at)]
        plan_batch(self._overlay, [edits], self._now, self._overlay.rules, drop_conflicts=True)
        over = (at.text for at in group.removed if at.fate is SentenceFate.OVERTAKEN)
        overtaken = (f"overtaken: {mask_words(text, self._overlay.rules.find)}" for text in over)
        names = sorted((at.text is None, at.name) for at in staged)
        leans = group.leans if all(gone for gone, _ in names) else ()
        evidence = (*self._list_shown(group, self._run.evidence), *overtaken)
        shown = (*leans, *(name for _, name in names))
        return Patch(group.kind, shown, (*edits, *self._make_guards(group)), self._find_reason(group), evidence)

    def _complete(self, staged: StagedMemory) -> StagedMemory:
        """With the digest of the file; a new name that has other words than its memory is made from the title."""
        if staged.digest is not None or staged.text is None:
            return replace(staged, digest=self._overlay.find_digest(staged.name))
        fields = frontmatter.parse_fields(staged.text)
        is_fit = staged.name not in self._unfounded.get(staged.name, ())
        return staged if is_fit else replace(staged, name=frontmatter.make_slug(fields.title) or staged.name)

    def _make_edits(self, group: _Group, staged: StagedMemory) -> Sequence[Edit]:
        """The edits of one memory, with the time from which its age counts: tidying makes nothing younger."""
        if staged.text is None:
            return make_edits([staged])
        known = SaidSentences(self.before)
        where = [known.judge("", at).where for at in parse_document(staged.text).list_sentences()]
        own = [self._ages[at.name] for at in group.staged if at.before is not None]
        is_new = not own or (bool(self._typed) and not all(where))
        times = [self._ages[name] for names in where for name in names if name] or own
        since = self._now if is_new else datetime.fromtimestamp(max(times), self._now.tzinfo)
        if staged.before is not None:
            return make_edits([replace(staged, text=stamp(staged.text, since))])
        if is_new:
            return make_edits([staged])
        draft = parse_draft(staged.name, staged.text)
        name, planned = plan_write(self._overlay, draft, None, self._now, self._overlay.rules)
        text = next(decode(at.after) for at in planned if at.path == f"{name}.md" and at.after is not None)
        return [Put(name, stamp(text, since))]

    def _make_guards(self, group: _Group) -> Iterator[Edit]:
        """Rewrites that change nothing: if such a memory has changed by then, what leans on it is left out."""
        headers = {header.name: header for header in self._overlay.scan()}
        for name in group.leans:
            is_plain = name in headers and not headers[name].pinned and not self._overlay.is_changed(name)
            text, digest = self.before[name], self._overlay.find_digest(name)
            # A text that is no valid UTF-8 would not be the same when it is written back.
            if is_plain and digest is not None and digest_of(text.encode("utf-8", "replace")) == digest:
                yield Rewrite(name, text, digest)

    def make_item(self, group: _Group, doubt: str) -> InboxItem:
        """An item with every credential in it masked."""
        find = self._overlay.rules.find
        given = ((at, self._run.evidence.get(fold(at.name), "")) for at in group.staged)
        masked = [mask_doubt(DoubtfulWrite(at, "", quote), find) for at, quote in given]
        edits = render_edits(make_edits(at.staged for at in masked))
        main = next((at.staged for at in masked if at.staged.text is not None), masked[0].staged)
        lost = next((one_line(at.text) for at in group.removed if at.fate is SentenceFate.LOST), "")
        loss = f"it would lose what stands nowhere else: “{shorten(lost, 120)}”" if lost else _SHARE
        quotes = dict.fromkeys(at.quote for at in masked if at.quote)
        evidence = render_evidence([InboxQuote(text, "what the model says it rests on") for text in quotes])
        return InboxItem(
            InboxKind.MEMORY if doubt else InboxKind.PROPOSAL,
            f"{group.kind} {main.name}",
            doubt or loss,
            self._now,
            key=make_key(edits),
            name=main.name,
            origin=Origin(WHO, f"by model: {self._find_reason(group)}"),
            payload={"edits": edits, "evidence": evidence},
        )

    def _find_reason(self, group: _Group) -> str:
        return "; ".join(self._list_shown(group, self._run.reasons)) or _REASON

    def _list_shown(self, group: _Group, given: Mapping[str, str]) -> list[str]:
        """What the model gave for the memories of a group, each once, without credentials."""
        texts = (mask_words(given.get(fold(at.name), ""), self._overlay.rules.find) for at in group.staged)
        return list(dict.fromkeys(text for text in texts if text))


def _ask_reader(
    reader: Model, cases: Mapping[tuple[str, str], OpinionCase], now: datetime
) -> Mapping[tuple[str, str], frozenset[str]]:
    """For each case the sentences that follow; none where the reader fails, or where nothing could say so."""
    asked = {str(number): key for number, (key, at) in enumerate(cases.items()) if at.typed or at.before}
    try:
        found = ask_second_opinion(reader, [replace(cases[key], name=at) for at, key in asked.items()], now=now).follows
    except (ModelError, BudgetError):
        found = {}
    return defaultdict(frozenset, {asked[at]: follows for at, follows in found.items()})


def _shares_subject(sentence: str, case: OpinionCase) -> bool:
    """Whether something newer speaks of the same: a date that has passed overtakes nothing, a person is asked then."""
    terms = set(parse_terms(sentence))
    return len(terms & set(parse_terms(f"{case.typed} {case.before}"))) >= min(_SUBJECT_TERMS, len(terms))


def _flatten(text: str) -> str:
    fields = frontmatter.parse_fields(text)
    return "\n".join(filter(None, (fields.title, fields.description, frontmatter.split_frontmatter(text).body.strip())))


def _is_rule(kind: Kind | None) -> bool:
    return kind in (Kind.USER, Kind.FEEDBACK)
