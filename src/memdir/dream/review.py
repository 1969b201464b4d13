"""What may be kept of what a model staged: patches that lose nothing and rest on trusted words; the rest needs review.

Each sentence that a change removes stands elsewhere, was replaced by a newer value, or is lost. Changes that belong
together are kept together or not at all: a memory that was merged away goes only if the one that took over its
sentences is written. A run that would remove a fifth of everything is refused as a whole.

A sentence stands elsewhere if another one says all of its words with the same numbers, days, names, limits and the same
negation: a rewording that is not recognised needs review, which is better than a lost fact. Titles are left out; of a
description only what it names counts.

A merge has the lowest trust of its parts. A rule, or a statement about the person, may be made of such memories, of the
daily log and of the person's own words, but not of facts about the project; a fact may be made of any memory. What a
tool, a file or a paste says is not trusted. What a team shares is for a person to change. Nothing pins itself.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from math import ceil

from memdir.dream.by_model import ModelDream
from memdir.dream.compare import Wording, says
from memdir.dream.records import WHO, Patch, read_memories
from memdir.errors import ReplyError
from memdir.extraction.provenance import (
    SHARED,
    DoubtfulWrite,
    JudgedSentence,
    SpeakerSources,
    Trust,
    doubt_credentials,
    find_keys,
    fold_sentence,
    judge_words,
    mask_doubt,
    mask_words,
    parse_claim,
    trace,
)
from memdir.format import frontmatter
from memdir.frozen import dataclass, replace
from memdir.language.words import split_text
from memdir.limits import DREAM_GONE_LEAST, DREAM_GONE_SHARE
from memdir.models.staged import StagedMemory, Staging, make_edits
from memdir.records import Edit, InboxItem, InboxKind, Kind, Memory, Message, Origin, Rewrite
from memdir.store.batch import StoreOverlay
from memdir.store.inbox import InboxQuote, render_edits, render_evidence
from memdir.store.plan import digest_of, is_shared, is_team
from memdir.text import fold, one_line, shorten

KEY = "dream:"
_REASON = "tidied by the model"
_LABEL = re.compile(r"\A\**(?:why|how to apply):\*\*\s*", re.IGNORECASE)
_MISSING_SHARE = 0.12  # of a sentence's words that another one may leave out; nothing below nine words
_SAME_SHARE = 0.7  # of its words that one with another value must have
_SMALL = 3  # words; a shorter sentence is compared to the letter
_FACT, _RULE, _TEAM = "fact", "rule", "team"


class SentenceFate(StrEnum):
    KEPT = "kept"
    OVERTAKEN = "overtaken"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class RemovedSentence:
    """A sentence that a memory no longer says, and the memories that say it, or say it anew."""

    name: str
    text: str
    fate: SentenceFate
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReviewedPatches:
    """What is applied, what needs review, and the sentences that are removed."""

    patches: tuple[Patch, ...] = ()
    proposals: tuple[InboxItem, ...] = ()
    removed: tuple[RemovedSentence, ...] = ()


def review_patches(
    staging: Staging, overlay: StoreOverlay, run: ModelDream, notes: Iterable[Message], *, now: datetime
) -> ReviewedPatches:
    """Sort what was staged; raises ReplyError if too much would be removed. `notes` are the entries of the logs."""
    staged = staging.staged
    if not staged:
        return ReviewedPatches()
    memories = read_memories(overlay)
    before = {name: memory.text for name, memory in memories.items()}
    ages = find_sentence_ages((at.text, at.header.modified.timestamp()) for at in memories.values())
    after = {name: text for name, text in before.items() if name not in {at.name for at in staged}}
    after |= {at.name: at.text for at in staged if at.text is not None}
    old = {at.name: at.before for at in staged if at.before is not None}
    removed = find_removed(old, RemainingSentences(after, ages))
    _check_share(staged, removed, before)
    trusted = _TrustedSources(memories, ages, tuple(notes), run)
    return _Sorter(overlay, run, before, now).sort(_group(staged, removed), removed, trusted)


def list_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a memory's body, without the labels of its parts."""
    found = (_LABEL.sub("", at) for at in split_text(frontmatter.split_frontmatter(text).body))
    return tuple(at for at in found if at)


def find_sentence_ages(texts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Every sentence of these texts, folded, with the newest time at which one of them says it."""
    ages: dict[str, float] = {}
    for text, at in texts:
        for sentence in list_sentences(text):
            folded = fold_sentence(sentence)
            ages[folded] = max(at, ages.get(folded, at))
    return ages


def find_removed(before: Mapping[str, str], remaining: "RemainingSentences") -> tuple[RemovedSentence, ...]:
    """Every sentence of these memories as they were that its own memory no longer says, with its fate."""
    found = []
    for name, text in before.items():
        for sentence in list_sentences(text):
            judged = remaining.judge(name, sentence)
            if judged.fate is not SentenceFate.KEPT or name not in judged.where:
                found.append(judged)
        description = frontmatter.parse_fields(text).description
        if description and not remaining.has_things(description):
            found.append(RemovedSentence(name, description, SentenceFate.LOST))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Said:
    """A sentence of a memory as it will be, and since when it is said; `folded` is empty for a description."""

    name: str
    claim: JudgedSentence
    folded: str
    since: float


class RemainingSentences:
    """All that is said after a change. `ages` says since when a sentence is said; one it does not know is new."""

    def __init__(self, texts: Mapping[str, str], ages: Mapping[str, float]) -> None:
        self._ages = ages
        self._said = [said for name, text in texts.items() for said in self._list_said(name, text)]
        self._words: dict[str, list[int]] = defaultdict(list)
        self._letters: dict[str, list[int]] = defaultdict(list)
        self._things = frozenset[str]().union(*(_list_things(said.claim) for said in self._said))
        for number, said in enumerate(self._said):
            if said.folded:
                self._letters[said.folded].append(number)
            for key in said.claim.keys:
                self._words[key].append(number)

    def judge(self, name: str, text: str) -> RemovedSentence:
        """The fate of a sentence that a memory no longer says, or says still."""
        folded = fold_sentence(text)
        if same := self._letters.get(folded):
            return RemovedSentence(name, text, SentenceFate.KEPT, self._name(same))
        claim = parse_claim(text)
        if not claim.keys and not claim.numbers and not claim.exact:
            return RemovedSentence(name, text, SentenceFate.KEPT, (name,))  # it says nothing: a line, a lone mark
        near = self._find_near(claim)
        if kept := [at for at in near if _says(self._said[at].claim, claim)]:
            return RemovedSentence(name, text, SentenceFate.KEPT, self._name(kept))
        since = self._ages.get(folded, 0.0)
        newer = [at for at in near if self._said[at].since > since and _overtakes(self._said[at].claim, claim)]
        return RemovedSentence(name, text, SentenceFate.OVERTAKEN if newer else SentenceFate.LOST, self._name(newer))

    def has_things(self, text: str) -> bool:
        """Whether all that a line names is named somewhere."""
        return _list_things(parse_claim(text)) <= self._things

    def _list_said(self, name: str, text: str) -> Iterator[_Said]:
        if description := frontmatter.parse_fields(text).description:
            yield _Said(name, parse_claim(description), "", 0.0)  # it replaces no sentence
        for sentence in list_sentences(text):
            folded = fold_sentence(sentence)
            yield _Said(name, parse_claim(sentence), folded, self._ages.get(folded, float("inf")))

    def _find_near(self, claim: JudgedSentence) -> list[int]:
        """Sentences that share most words; each of them has at least one of the rarest few."""
        if len(claim.keys) < _SMALL:
            return []
        least = ceil(_SAME_SHARE * len(claim.keys))
        rarest = sorted(claim.keys, key=lambda key: len(self._words.get(key, ())))[: len(claim.keys) - least + 1]
        found = {at for key in rarest for at in self._words.get(key, ())}
        return sorted(at for at in found if len(claim.keys & self._said[at].claim.keys) >= least)

    def _name(self, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._said[at].name for at in numbers))


def _list_things(claim: JudgedSentence) -> frozenset[str]:
    return claim.exact | claim.numbers | claim.days


def _says(one: JudgedSentence, wanted: JudgedSentence) -> bool:
    """Whether one sentence holds another: nearly all of its words, or the same text with a clause more."""
    if one.negated is not wanted.negated or not set(Wording(wanted.text).signature) <= set(Wording(one.text).signature):
        return False
    if len(wanted.keys - one.keys) <= _MISSING_SHARE * len(wanted.keys) and _list_things(wanted) <= _list_things(one):
        return True
    return says(one.text, wanted.text)


def _overtakes(one: JudgedSentence, old: JudgedSentence) -> bool:
    """The same sentence with another value: a number, a day, a thing, a yes for a no, or one word for another."""
    if len(one.keys & old.keys) < _SAME_SHARE * len(old.keys) or len(one.keys - old.keys) > max(2, len(old.keys) // 2):
        return False
    values = (one.numbers, one.days, one.exact) != (old.numbers, old.days, old.exact)
    return values or one.negated is not old.negated or len(old.keys - one.keys) == 1


def _check_share(staged: Sequence[StagedMemory], removed: Sequence[RemovedSentence], before: Mapping[str, str]) -> None:
    """Raise if the run deletes too many memories that are no plain merges, or loses too many sentences."""
    unkept = {at.name for at in removed if at.fate is not SentenceFate.KEPT}
    lost_of = Counter(at.name for at in removed if at.fate is SentenceFate.LOST)
    emptied = {at.name for at in staged if at.before and lost_of[at.name] >= len(list_sentences(at.before)) > 0}
    gone = sum(at.name in emptied or (at.text is None and at.name in unkept) for at in staged)
    said = sum(len(list_sentences(text)) for text in before.values())
    counts = ((gone, len(before), DREAM_GONE_LEAST), (lost_of.total(), said, 4 * DREAM_GONE_LEAST))
    if any(count > max(least, DREAM_GONE_SHARE * total) or count == total > 1 for count, total, least in counts):
        raise ReplyError(
            f"the model would take away {gone} of {len(before)} memories and {lost_of.total()} of {said} sentences",
            hint="nothing was changed; try another model, or `--model none`",
        )


class _TrustedSources:
    """What may be believed for which class of memory; made on first use."""

    def __init__(
        self, memories: Mapping[str, Memory], ages: Mapping[str, float], notes: Sequence[Message], run: ModelDream
    ) -> None:
        self._memories, self._ages, self._notes, self._shown = memories, ages, notes, run.shown
        self._made: dict[str, tuple[RemainingSentences, SpeakerSources]] = {}

    def find_doubt(self, staged: StagedMemory, quote: str, overlay: StoreOverlay) -> str:
        """Why a new text may not be kept without review; empty if it may."""
        if is_shared(staged.name, overlay.rules):
            return SHARED
        if staged.text is None:
            return ""
        if secret := doubt_credentials(staged, overlay.rules.find):
            return secret.why
        fields = frontmatter.parse_fields(staged.text)
        if fields.pinned:  # a memory that was pinned before is never staged
            return "it would pin itself, and only a person does that"
        wanted = _find_class(staged.name, fields.kind)
        known, sources = self._find(wanted)
        if _is_known(staged, known):
            return ""
        verdict = judge_words(_flatten(staged.text), quote, sources)
        is_kept = verdict.trust is Trust.PERSON or (verdict.trust is Trust.AGENT and wanted == _FACT)
        return "" if is_kept else verdict.why

    def _find(self, wanted: str) -> tuple[RemainingSentences, SpeakerSources]:
        """What counts as said already, and whose words all others are."""
        if wanted not in self._made:
            classes = {name: _find_class(name, at.header.kind) for name, at in self._memories.items()}
            own = {name: at.text for name, at in self._memories.items() if wanted in (_FACT, classes[name])}
            others = (at.text for name, at in self._memories.items() if name not in own)
            foreign = [*self._shown, *(Message("assistant", _flatten(text)) for text in others)]
            # The log is private: for the team it counts as the agent's word.
            notes = [replace(at, role="assistant") for at in self._notes] if wanted == _TEAM else self._notes
            sources = trace((*notes, *foreign), [(name, _flatten(text)) for name, text in own.items()])
            self._made[wanted] = RemainingSentences(own, self._ages), sources
        return self._made[wanted]


def _find_class(name: str, kind: Kind | None) -> str:
    if is_team(name):
        return _TEAM
    return _FACT if kind in (Kind.PROJECT, Kind.REFERENCE, None) else _RULE


def _is_known(staged: StagedMemory, known: RemainingSentences) -> bool:
    """Whether it says nothing new: every sentence stands somewhere, and its head has no word that its body has not."""
    text = staged.text or ""
    before, after = frontmatter.parse_fields(staged.before or ""), frontmatter.parse_fields(text)
    if not all(known.judge("", sentence).fate is SentenceFate.KEPT for sentence in list_sentences(text)):
        return False
    said = f"{frontmatter.split_frontmatter(text).body}\n{before.title}\n{before.description}"
    return find_keys(f"{after.title}\n{after.description}") <= find_keys(said)


def _flatten(text: str) -> str:
    fields = frontmatter.parse_fields(text)
    return "\n".join((fields.title, fields.description, frontmatter.split_frontmatter(text).body))


@dataclass(frozen=True, slots=True)
class _Group:
    """Changes that belong together, and untouched memories that must stay for them to be right."""

    staged: tuple[StagedMemory, ...]
    leans: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        if any(at.text is None for at in self.staged):
            return "merge" if len(self.staged) > 1 or self.leans else "forget"
        return "create" if all(at.before is None for at in self.staged) else "update"


def _group(staged: Sequence[StagedMemory], removed: Sequence[RemovedSentence]) -> list[_Group]:
    names = {at.name for at in staged}
    heads = {name: name for name in names}
    leans: dict[str, list[str]] = {name: [] for name in names}

    def find(name: str) -> str:
        while heads[name] != name:
            name = heads[name]
        return name

    for at in removed:
        if at.fate is SentenceFate.LOST or not at.where or at.name in at.where:
            continue
        if untouched := next((name for name in at.where if name not in names), None):
            leans[at.name].append(untouched)
        else:
            heads[find(at.name)] = find(at.where[0])
    groups: dict[str, list[StagedMemory]] = {}
    for one in staged:
        groups.setdefault(find(one.name), []).append(one)
    return [
        _Group(tuple(group), tuple(dict.fromkeys(lean for one in group for lean in leans[one.name])))
        for group in groups.values()
    ]


class _Sorter:
    """Makes of each group a patch or an item for the inbox."""

    def __init__(self, overlay: StoreOverlay, run: ModelDream, before: Mapping[str, str], now: datetime) -> None:
        self._overlay, self._run, self._before, self._now = overlay, run, before, now
        self._find_secrets = overlay.rules.find

    def sort(
        self, groups: Sequence[_Group], every: Sequence[RemovedSentence], trusted: _TrustedSources
    ) -> ReviewedPatches:
        patches, proposals = [], []
        kept: set[str] = set()
        for group in groups:
            names = {at.name for at in group.staged}
            removed = [at for at in every if at.name in names]
            lost = [at for at in removed if at.fate is SentenceFate.LOST]
            quotes = ((at, self._run.evidence.get(fold(at.name), "")) for at in group.staged)
            doubts = (trusted.find_doubt(at, quote, self._overlay) for at, quote in quotes)
            if (doubt := next(filter(None, doubts), "")) or lost:
                proposals.append(self._make_item(group, doubt, lost))
            else:
                patches.append(self._make_patch(group, removed))
                kept |= names
        return ReviewedPatches(tuple(patches), tuple(proposals), tuple(at for at in every if at.name in kept))

    def _make_patch(self, group: _Group, removed: Sequence[RemovedSentence]) -> Patch:
        find_digest = self._overlay.find_digest
        staged = [replace(at, digest=find_digest(at.name) if at.digest else None) for at in group.staged]
        edits = (*make_edits(staged), *self._make_guards(group))
        overtaken = [mask_words(at.text, self._find_secrets) for at in removed if at.fate is SentenceFate.OVERTAKEN]
        evidence = (*self._list_shown(group, self._run.evidence), *(f"overtaken: {text}" for text in overtaken))
        return Patch(group.kind, tuple(at.name for at in staged), edits, self._find_reason(group), evidence)

    def _make_guards(self, group: _Group) -> Iterator[Edit]:
        """Rewrites that change nothing: if such a memory has changed by then, what leans on it is left out."""
        headers = {header.name: header for header in self._overlay.scan()}
        for name in group.leans:
            is_plain = name in headers and not headers[name].pinned and not self._overlay.is_changed(name)
            text, digest = self._before[name], self._overlay.find_digest(name)
            # A text that is no valid UTF-8 would not be the same when it is written back.
            if is_plain and digest is not None and digest_of(text.encode("utf-8", "replace")) == digest:
                yield Rewrite(name, text, digest)

    def _make_item(self, group: _Group, doubt: str, lost: Sequence[RemovedSentence]) -> InboxItem:
        """An item with every credential in it masked."""
        find = self._find_secrets
        staged = [mask_doubt(DoubtfulWrite(at, ""), find).staged for at in group.staged]
        edits = render_edits(make_edits(staged))
        main = next((at for at in staged if at.text is not None), staged[0])
        why = doubt or f"it would lose what stands nowhere else: “{shorten(one_line(lost[0].text), 120)}”"
        quotes = dict.fromkeys(
            mask_doubt(DoubtfulWrite(at, "", text), find).quote
            for text in self._list_shown(group, self._run.evidence)
            for at in group.staged
        )
        evidence = render_evidence([InboxQuote(text, "what the model says it rests on") for text in quotes])
        key = KEY + digest_of(repr(sorted(map(repr, edits))).encode("utf-8", "replace"))[:24]
        return InboxItem(
            InboxKind.MEMORY if doubt else InboxKind.PROPOSAL,
            f"{group.kind} {main.name}",
            why,
            self._now,
            key=key,
            name=main.name,
            origin=Origin(WHO, f"by model: {self._find_reason(group)}"),
            payload={"edits": edits, "evidence": evidence},
        )

    def _find_reason(self, group: _Group) -> str:
        return "; ".join(self._list_shown(group, self._run.reasons)) or _REASON

    def _list_shown(self, group: _Group, given: Mapping[str, str]) -> list[str]:
        """What the model gave for the memories of a group, each once, without credentials."""
        texts = (mask_words(given.get(fold(at.name), ""), self._find_secrets) for at in group.staged)
        return list(dict.fromkeys(text for text in texts if text))
