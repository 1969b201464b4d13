"""What may be kept of what a model staged: patches that lose nothing and rest on our own words, the rest as proposals.

Changes that belong together stand or fall together: a memory that was merged away goes only if the one that took over
its sentences is written. A change that would lose a sentence, or carries text from tools, files or pages, waits in the
inbox. A run that would take away a fifth of everything is not believed at all.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from math import ceil

from memdir.dream.by_model import ModelDream
from memdir.dream.compare import Wording, says
from memdir.dream.records import Patch
from memdir.errors import MemdirError, ReplyError
from memdir.extraction.provenance import (
    JudgedSentence,
    SpeakerSources,
    Trust,
    find_keys,
    fold_sentence,
    judge_words,
    parse_claim,
    split_judged,
    trace,
)
from memdir.extraction.word import SHARED, DoubtfulWrite, doubt_credentials, mask_doubt, mask_words
from memdir.format import frontmatter
from memdir.frozen import dataclass, replace
from memdir.limits import DREAM_GONE_LEAST, DREAM_GONE_SHARE
from memdir.models.staged import StagedMemory, Staging, make_edits
from memdir.records import Edit, Header, InboxItem, InboxKind, Kind, Message, Origin, Rewrite
from memdir.store.batch import StoreOverlay
from memdir.store.inbox import InboxQuote, render_edits, render_evidence
from memdir.store.plan import Finder, WriteRules, digest_of, is_shared, is_team
from memdir.text import fold, one_line, shorten

# --- losses ---
# What a change takes away, sentence by sentence: does it stand elsewhere, was it overtaken, or is it lost?
#
# A sentence stands elsewhere if another one says all of its words, or the same in other words, with the same numbers,
# days, names, limits and the same negation. It was overtaken if a newer one says the same of the same with another
# value.
# All else is lost. Read strictly: a rewording that is not seen as one waits for a person, which is better than a fact
# that nobody misses.
#
# Titles are labels and are left out; of a description only what it names counts. Pure; it decides nothing.

_LABEL = re.compile(r"\A\**(?:why|how to apply):\*\*\s*", re.IGNORECASE)
_MISSING_SHARE = 0.12  # of a sentence's words that another one may leave out; nothing below nine words
_SAME_SHARE = 0.7  # of its words that one with another value must have
_SMALL = 3  # words; a shorter sentence is compared to the letter


class SentenceFate(StrEnum):
    KEPT = "kept"
    OVERTAKEN = "overtaken"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class RemovedSentence:
    """One sentence that a memory no longer says, and the memories that say it, or say it anew."""

    name: str
    text: str
    fate: SentenceFate
    where: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Said:
    """One sentence of a memory as it will be, and since when it is said."""

    name: str
    claim: JudgedSentence
    folded: str
    since: float


def list_sentences(text: str) -> tuple[str, ...]:
    """The sentences of a memory's body, without the labels of its parts."""
    found = (_LABEL.sub("", at) for at in split_judged(frontmatter.split_frontmatter(text).body))
    return tuple(at for at in found if at)


def find_sentence_ages(texts: Iterable[tuple[str, float]]) -> dict[str, float]:
    """Every sentence of these texts, folded, with the newest time at which one of them says it."""
    ages: dict[str, float] = {}
    for text, at in texts:
        for sentence in list_sentences(text):
            folded = fold_sentence(sentence)
            ages[folded] = max(at, ages.get(folded, at))
    return ages


class RemainingSentences:
    """All that is said after a change. `ages` says since when a sentence is said; one it does not know is new."""

    def __init__(self, texts: Mapping[str, str], ages: Mapping[str, float]) -> None:
        self._ages = ages
        self._said = [said for name, text in texts.items() for said in _list_said(name, text, ages)]
        self._words: dict[str, list[int]] = defaultdict(list)
        self._letters: dict[str, list[int]] = defaultdict(list)
        self._things = frozenset[str]().union(*(_list_things(said.claim) for said in self._said))
        for number, said in enumerate(self._said):
            if said.folded:
                self._letters[said.folded].append(number)
            for key in said.claim.keys:
                self._words[key].append(number)

    def judge(self, name: str, text: str) -> RemovedSentence:
        """What becomes of a sentence that a memory no longer says, or says still."""
        folded = fold_sentence(text)
        if same := self._letters.get(folded):
            return RemovedSentence(name, text, SentenceFate.KEPT, self._name(same))
        claim = parse_claim(text)
        if not claim.keys and not claim.numbers and not claim.exact:
            return RemovedSentence(name, text, SentenceFate.KEPT, (name,))  # it says nothing: a rule, a lone mark
        near = self._find_near(claim)
        if kept := [at for at in near if _says(self._said[at].claim, claim)]:
            return RemovedSentence(name, text, SentenceFate.KEPT, self._name(kept))
        since = self._ages.get(folded, 0.0)
        newer = [at for at in near if self._said[at].since > since and _overtakes(self._said[at].claim, claim)]
        return RemovedSentence(name, text, SentenceFate.OVERTAKEN if newer else SentenceFate.LOST, self._name(newer))

    def has(self, text: str) -> bool:
        """Whether a sentence is said, in these words or nearly."""
        return self.judge("", text).fate is SentenceFate.KEPT

    def has_things(self, text: str) -> bool:
        """Whether all that a line names is named somewhere."""
        claim = parse_claim(text)
        return _list_things(claim) <= self._things

    def _find_near(self, claim: JudgedSentence) -> list[int]:
        """Sentences that share most words; of the rarest few, one at least is in each of them."""
        if len(claim.keys) < _SMALL:
            return []
        least = ceil(_SAME_SHARE * len(claim.keys))
        rarest = sorted(claim.keys, key=lambda key: len(self._words.get(key, ())))[: len(claim.keys) - least + 1]
        found = {at for key in rarest for at in self._words.get(key, ())}
        return sorted(at for at in found if len(claim.keys & self._said[at].claim.keys) >= least)

    def _name(self, numbers: Iterable[int]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._said[at].name for at in numbers))


def find_removed(before: Mapping[str, str], remaining: RemainingSentences) -> tuple[RemovedSentence, ...]:
    """Every sentence of these memories as they were that its own memory says no longer, with what becomes of it."""
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


def _list_said(name: str, text: str, ages: Mapping[str, float]) -> Iterator[_Said]:
    """The description, and every sentence."""
    if description := frontmatter.parse_fields(text).description:
        yield _Said(name, parse_claim(description), "", 0.0)  # a label overtakes nothing
    for sentence in list_sentences(text):
        folded = fold_sentence(sentence)
        yield _Said(name, parse_claim(sentence), folded, ages.get(folded, float("inf")))


def _list_things(claim: JudgedSentence) -> frozenset[str]:
    return claim.exact | claim.numbers | claim.days


def _says(one: JudgedSentence, wanted: JudgedSentence) -> bool:
    """Whether one sentence holds another, by its words or by what the rules know of other words for them."""
    if one.negated is not wanted.negated or not set(Wording(wanted.text).signature) <= set(Wording(one.text).signature):
        return False
    if len(wanted.keys - one.keys) <= _MISSING_SHARE * len(wanted.keys) and _list_things(wanted) <= _list_things(one):
        return True
    return says(one.text, wanted.text)


def _overtakes(one: JudgedSentence, old: JudgedSentence) -> bool:
    """The same of the same, with another value: a number, a day, a thing, a yes for a no, or one word for another."""
    if len(one.keys & old.keys) < _SAME_SHARE * len(old.keys) or len(one.keys - old.keys) > max(2, len(old.keys) // 2):
        return False
    values = (one.numbers, one.days, one.exact) != (old.numbers, old.days, old.exact)
    return values or one.negated is not old.negated or len(old.keys - one.keys) == 1


# --- believing ---
# May what a dreaming model wrote be kept as it is? By where its words came from, and by what they would become.
#
# A merge has the lowest trust of its parts. So a rule, or a portrait of the person, may be made of rules and
# portraits,
# of the daily log and of the person's own words, but not of facts about the project; a fact of anything that is
# remembered. What a tool, a file or a paste says is nobody's word. What a team shares is for a person to change.
# Nothing
# pins itself, and no credential is carried anywhere.
#
# It judges texts that are there (judging does so for a conversation's), and decides nothing about what is lost.

FACT, RULE, TEAM = "fact", "rule", "team"
_FACTS = (Kind.PROJECT, Kind.REFERENCE)


@dataclass(frozen=True, slots=True)
class _Ground:
    """What counts as said already, and whose words all the others are."""

    known: RemainingSentences
    sources: SpeakerSources


class TrustedSources:
    """What may be believed for which class of memory; made when it is first asked for."""

    def __init__(
        self,
        headers: Iterable[Header],
        texts: Mapping[str, str],
        ages: Mapping[str, float],
        notes: Sequence[Message],
        shown: Sequence[Message],
    ) -> None:
        self._classes = {header.name: find_class(header.name, header.kind) for header in headers}
        self._texts, self._ages = texts, ages
        self._notes, self._shown = notes, shown
        self._made: dict[str, _Ground] = {}

    def find(self, wanted: str) -> _Ground:
        if wanted not in self._made:
            own = {name: text for name, text in self._texts.items() if wanted in (FACT, self._classes.get(name, FACT))}
            others = [text for name, text in self._texts.items() if name not in own]
            heard = [*self._shown, *(Message("assistant", _flatten(text)) for text in others)]
            # The log is private: for the team it is no more than the agent's word.
            notes = [replace(at, role="assistant") for at in self._notes] if wanted == TEAM else self._notes
            sources = trace((*notes, *heard), [(name, _flatten(text)) for name, text in own.items()])
            self._made[wanted] = _Ground(RemainingSentences(own, self._ages), sources)
        return self._made[wanted]


def find_class(name: str, kind: Kind | None) -> str:
    if is_team(name):
        return TEAM
    return FACT if kind in _FACTS or kind is None else RULE


def find_doubts(
    staged: Sequence[StagedMemory], belief: TrustedSources, evidence: Mapping[str, str], rules: WriteRules
) -> dict[str, str]:
    """Name to why its new text may not be kept without a person."""
    found = ((at.name, _find_doubt(at, belief, evidence.get(fold(at.name), ""), rules)) for at in staged)
    return {name: why for name, why in found if why}


def _find_doubt(staged: StagedMemory, belief: TrustedSources, quote: str, rules: WriteRules) -> str:
    if is_shared(staged.name, rules):
        return SHARED
    if staged.text is None:
        return ""
    if secret := doubt_credentials(staged, rules.find):
        return secret.why
    fields = frontmatter.parse_fields(staged.text)
    if fields.pinned:  # one that was pinned before is never staged
        return "it would pin itself, and only a person does that"
    wanted = find_class(staged.name, fields.kind)
    ground = belief.find(wanted)
    if _is_known(staged, ground.known):
        return ""
    verdict = judge_words(_flatten(staged.text), quote, ground.sources)
    is_kept = verdict.trust is Trust.PERSON or (verdict.trust is Trust.AGENT and wanted == FACT)
    return "" if is_kept else verdict.why


def _is_known(staged: StagedMemory, known: RemainingSentences) -> bool:
    """Whether it says nothing new: every sentence stands somewhere, and its head has no word that its body has not."""
    text = staged.text or ""
    before, after = frontmatter.parse_fields(staged.before or ""), frontmatter.parse_fields(text)
    if not all(known.has(sentence) for sentence in list_sentences(text)):
        return False
    labels = find_keys(f"{after.title}\n{after.description}")
    return labels <= find_keys(frontmatter.split_frontmatter(text).body) | find_keys(
        f"{before.title}\n{before.description}"
    )


def _flatten(text: str) -> str:
    fields = frontmatter.parse_fields(text)
    return "\n".join((fields.title, fields.description, frontmatter.split_frontmatter(text).body))


# --- weighing ---

REASON = "tidied by the model"
WHO = "dream"
KEY = "dream:"


@dataclass(frozen=True, slots=True)
class ReviewedPatches:
    """What is applied and what waits; `removed` are the sentences that go, and where they stand."""

    patches: tuple[Patch, ...] = ()
    proposals: tuple[InboxItem, ...] = ()
    removed: tuple[RemovedSentence, ...] = ()


def review_patches(
    staging: Staging, ground: StoreOverlay, dreamt: ModelDream, notes: Iterable[Message], *, now: datetime
) -> ReviewedPatches:
    """Sort what was staged; raises ReplyError when too much would be gone. `notes` are the log's entries."""
    staged = staging.staged
    if not staged:
        return ReviewedPatches()
    before, ages = _read_all(ground)
    after = {name: text for name, text in before.items() if name not in {at.name for at in staged}}
    after |= {at.name: at.text for at in staged if at.text is not None}
    remaining = RemainingSentences(after, ages)
    removed = find_removed({at.name: at.before for at in staged if at.before is not None}, remaining)
    _check_gross(staged, removed, before)
    belief = TrustedSources(ground.scan(), before, ages, tuple(notes), dreamt.shown)
    doubts = find_doubts(staged, belief, dreamt.evidence, ground.rules)
    return _sort(_group(staged, removed), removed, doubts, ground, dreamt, before, now)


def _read_all(ground: StoreOverlay) -> tuple[dict[str, str], dict[str, float]]:
    texts: dict[str, str] = {}
    dated = []
    for header in ground.scan():
        try:
            texts[header.name] = ground.read(header.name).text
        except MemdirError:
            continue
        dated.append((texts[header.name], header.modified.timestamp()))
    return texts, find_sentence_ages(dated)


# --- too much -------------------------------------------------------------------------------------------------------


def _check_gross(staged: Sequence[StagedMemory], removed: Sequence[RemovedSentence], before: Mapping[str, str]) -> None:
    """Deletions that are no plain merges, and sentences that would be nowhere, counted over the whole run."""
    unkept = {at.name for at in removed if at.fate is not SentenceFate.KEPT}
    lost_of = Counter(at.name for at in removed if at.fate is SentenceFate.LOST)
    hollow = {at.name for at in staged if at.before and lost_of[at.name] >= len(list_sentences(at.before)) > 0}
    gone = sum(at.name in hollow or (at.text is None and at.name in unkept) for at in staged)
    lost = sum(at.fate is SentenceFate.LOST for at in removed)
    said = sum(len(list_sentences(text)) for text in before.values())
    if _is_gross(gone, len(before), DREAM_GONE_LEAST) or _is_gross(lost, said, 4 * DREAM_GONE_LEAST):
        raise ReplyError(
            f"the model would take away {gone} of {len(before)} memories and {lost} of {said} sentences",
            hint="nothing was changed; try another model, or `--model none`",
        )


def _is_gross(gone: int, total: int, least: int) -> bool:
    return gone > max(least, DREAM_GONE_SHARE * total) or gone == total > 1


# --- what belongs together ------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Group:
    """Changes that stand or fall together, and untouched memories that must stay for them to be right."""

    staged: tuple[StagedMemory, ...]
    leans: tuple[str, ...] = ()


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


def _sort(
    groups: Sequence[_Group],
    removed: Sequence[RemovedSentence],
    doubts: Mapping[str, str],
    ground: StoreOverlay,
    dreamt: ModelDream,
    before: Mapping[str, str],
    now: datetime,
) -> ReviewedPatches:
    patches, proposals = [], []
    kept: set[str] = set()
    for group in groups:
        names = [at.name for at in group.staged]
        lost = [at for at in removed if at.name in names and at.fate is SentenceFate.LOST]
        doubt = next((doubts[name] for name in names if name in doubts), "")
        if doubt or lost:
            proposals.append(_make_item(group, doubt, lost, dreamt, now, ground.rules.find))
        else:
            patches.append(_make_patch(group, removed, ground, dreamt, before))
            kept |= set(names)
    return ReviewedPatches(tuple(patches), tuple(proposals), tuple(at for at in removed if at.name in kept))


def _make_patch(
    group: _Group,
    removed: Sequence[RemovedSentence],
    ground: StoreOverlay,
    dreamt: ModelDream,
    before: Mapping[str, str],
) -> Patch:
    real = [replace(at, digest=ground.find_digest(at.name) if at.digest else None) for at in group.staged]
    edits = (*make_edits(real), *_make_guards(group, ground, before))
    overtaken = [
        at.text for at in removed if at.fate is SentenceFate.OVERTAKEN and at.name in {one.name for one in real}
    ]
    find = ground.rules.find
    evidence = (*_list_evidence(group, dreamt, find), *(f"overtaken: {mask_words(text, find)}" for text in overtaken))
    names = tuple(at.name for at in real)
    return Patch(_name_kind(group), names, edits, _give_reason(group, dreamt, find), evidence)


def _make_guards(group: _Group, ground: StoreOverlay, before: Mapping[str, str]) -> Iterator[Edit]:
    """Rewrites that change nothing: if such a memory is another by then, what leans on it is left out."""
    headers = {header.name: header for header in ground.scan()}
    for name in group.leans:
        is_plain = name in headers and not headers[name].pinned and not ground.is_changed(name)
        digest = ground.find_digest(name)
        # A text that is no valid UTF-8 would not be the same when it is written back.
        if is_plain and digest is not None and digest_of(before[name].encode("utf-8", "replace")) == digest:
            yield Rewrite(name, before[name], digest)


def _make_item(
    group: _Group, doubt: str, lost: Sequence[RemovedSentence], dreamt: ModelDream, now: datetime, find: Finder | None
) -> InboxItem:
    """What waits, as it may be kept: no credential is in it any more."""
    staged = [mask_doubt(DoubtfulWrite(at, ""), find).staged for at in group.staged]
    edits = render_edits(make_edits(staged))
    main = next((at for at in staged if at.text is not None), staged[0])
    why = doubt or f"it would lose what stands nowhere else: “{shorten(one_line(lost[0].text), 120)}”"
    told = [
        mask_doubt(DoubtfulWrite(at, "", text), find).quote
        for text in _list_evidence(group, dreamt, find)
        for at in group.staged
    ]
    quotes = [InboxQuote(text, "what the model says it rests on") for text in dict.fromkeys(told)]
    key = digest_of(repr(sorted(map(repr, edits))).encode("utf-8", "replace"))[:24]
    payload: dict[str, object] = {"edits": edits, "evidence": render_evidence(quotes)}
    return InboxItem(
        InboxKind.MEMORY if doubt else InboxKind.PROPOSAL,
        f"{_name_kind(group)} {main.name}",
        why,
        now,
        key=f"{KEY}{key}",
        name=main.name,
        origin=Origin(WHO, f"by model: {_give_reason(group, dreamt, find)}"),
        payload=payload,
    )


def _give_reason(group: _Group, dreamt: ModelDream, find: Finder | None) -> str:
    reasons = (mask_words(dreamt.reasons.get(fold(at.name), ""), find) for at in group.staged)
    return "; ".join(dict.fromkeys(reason for reason in reasons if reason)) or REASON


def _list_evidence(group: _Group, dreamt: ModelDream, find: Finder | None) -> list[str]:
    quotes = (mask_words(dreamt.evidence.get(fold(at.name), ""), find) for at in group.staged)
    return list(dict.fromkeys(quote for quote in quotes if quote))


def _name_kind(group: _Group) -> str:
    gone = any(at.text is None for at in group.staged)
    if gone:
        return "merge" if len(group.staged) > 1 or group.leans else "forget"
    return "create" if all(at.before is None for at in group.staged) else "update"
