"""Review a model's staged changes: safe changes become patches, the others inbox items.

A change is safe if every sentence that it removes is still in another memory or was superseded by a newer memory or log,
and if every sentence that it adds is in its sources. If sentences are not found literally, one request per run asks a
model, the judge, which sees only those texts. If this fails, the change needs review.

Related changes are applied together or not at all: a merged memory is deleted only if the one with its sentences is
written. If more than a fifth of the directory would be deleted, the best-supported changes are applied up to that share,
and the others need review. Memories merged word for word do not count, because nothing is lost.

The sources of a rule, or of a statement about the user, are other such memories, the daily log and the user's own messages,
but not facts about the project. A fact may be based on any memory of the user. Text from a team memory never becomes part
of a private memory and never supersedes one, whatever the judge answers. Changes to team memories need review. Changes to
pinned memories need review too, and are only proposed if newer text contradicts them. A model cannot pin a memory.
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
from memdir.dream.judge import JudgeAnswer, JudgeCase, JudgeSource, ask_judge, show_day
from memdir.dream.records import RENAME, WHO, Patch, make_key, read_memories, stamp
from memdir.errors import MemdirError
from memdir.extraction.provenance import (
    SHARED,
    DoubtfulWrite,
    doubt_credentials,
    list_moments,
    mask_doubt,
    mask_words,
    render_rule,
    trim_when,
)
from memdir.format import frontmatter
from memdir.format.document import parse_document
from memdir.format.fields import FIELDS, FieldValue, keep_phrases, list_phrases
from memdir.format.frontmatter import decode, digest_of
from memdir.format.when import render_when
from memdir.frozen import dataclass, replace
from memdir.language.dates import load_date_languages
from memdir.models.staged import StagedMemory, Staging, make_edits, parse_draft
from memdir.recall.terms import parse_terms
from memdir.records import Edit, InboxItem, InboxKind, Kind, Message, Model, Origin, Put, Rewrite
from memdir.store.batch import StoreOverlay, plan_batch
from memdir.store.inbox import InboxQuote, render_edits, render_evidence
from memdir.store.plan import is_shared, plan_write
from memdir.text import fold, fold_words, one_line, shorten

PINNED = "something newer contradicts this pinned memory, and only you can change it"
_REASON = "tidied by the model"
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[^\W\d_]+")
_NEAREST = 4  # memories shown in the second check of one change
_ALLOWED_KEYS = frozenset(
    ("name", "description", "type", "modified", "metadata", *(row.key for row in FIELDS if row.is_learned))
)
_SHARE = "one dream would delete more than a fifth of the memories, and other changes have better support"


class SentenceFate(IntEnum):
    """What happened to a removed sentence. A higher value means weaker support for removing it."""

    KEPT = 0  # another memory contains it word for word
    REWORDED = 1
    OVERTAKEN = 2
    LOST = 3


@dataclass(frozen=True, slots=True)
class RemovedSentence:
    """A removed sentence, and the memories that contain or supersede it."""

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
    """Return the patches to apply and the items to review.

    `notes` are log entries, and `ages` the time from which each memory's age is counted.
    """
    review = _Review(staging, overlay, run, (*notes, *run.shown), ages, now)
    removed = review.ask_judge(reader, review.find_removed(), review.find_added())
    patches: list[Patch] = []
    proposals: list[InboxItem] = []
    room = count_removable(len(review.before))
    for group in sorted(review.group_changes(removed), key=lambda group: group.weakest):
        # Changes that concern only pinned memories are proposed only if newer text contradicts them.
        is_fixed = all(_is_pinned(memory.before) for memory in group.staged)
        if is_fixed and all(sentence.fate is not SentenceFate.OVERTAKEN for sentence in group.removed):
            continue
        doubt = next(filter(None, map(review.find_doubt, group.staged)), "")
        if doubt or group.weakest is SentenceFate.LOST or group.emptied > room:
            proposals.append(review.make_item(group, doubt))
            continue
        try:
            patches.append(review.make_patch(group))
            room -= group.emptied
        except MemdirError as error:  # one invalid change does not stop the others
            proposals.append(review.make_item(group, one_line(str(error))))
    return patches, proposals


class SaidSentences:
    """An index from each sentence to the names of the texts that contain it."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._names: dict[str, list[str]] = defaultdict(list)
        for name, text in texts.items():
            for sentence in parse_document(text).list_sentences():
                self._names[fold_words(sentence, signs=True)].append(name)

    def trace(self, name: str, text: str) -> RemovedSentence:
        """Return whether a sentence of the memory `name` is kept or lost, with the texts that contain it."""
        where = self._names.get(folded := fold_words(text, signs=True), () if re.search(r"\w", folded) else (name,))
        return RemovedSentence(name, text, SentenceFate.KEPT if where else SentenceFate.LOST, tuple(where))


@dataclass(frozen=True, slots=True)
class _Group:
    """Changes that share sentences and must be applied together, with the sentences they remove.

    Unchanged memories in `containing` contain removed sentences; memories of other groups in `newer` supersede some.
    """

    staged: tuple[StagedMemory, ...]
    removed: tuple[RemovedSentence, ...]
    containing: tuple[str, ...]
    newer: tuple[str, ...] = ()

    @property
    def kind(self) -> str:
        if all(memory.text is None for memory in self.staged):
            return "overtaken" if self.weakest is SentenceFate.OVERTAKEN else "merge" if self.containing else "forget"
        if any(memory.text is None for memory in self.staged):
            return "merge"
        if len(self.staged) == 1 and self.staged[0].renamed:
            return RENAME
        return "create" if all(memory.before is None for memory in self.staged) else "update"

    @property
    def weakest(self) -> SentenceFate:
        """Return the weakest support among the removed sentences."""
        return max((sentence.fate for sentence in self.removed), default=SentenceFate.KEPT)

    @property
    def emptied(self) -> int:
        """Return how many memories lose all their sentences, except those that are kept word for word elsewhere."""
        reworded = {sentence.name for sentence in self.removed if sentence.fate is not SentenceFate.KEPT}
        remaining = {
            memory.name: {*parse_document(memory.before or "").list_sentences()}
            & {*parse_document(memory.text or "").list_sentences()}
            for memory in self.staged
        }
        return sum(not remaining[name] for name in reworded)


class _Review:
    """Compare the changes of a run with the texts they are based on."""

    def __init__(
        self,
        staging: Staging,
        overlay: StoreOverlay,
        run: ModelDream,
        messages: Sequence[Message],
        ages: Mapping[str, datetime],
        now: datetime,
    ) -> None:
        self._staged, self._overlay, self._run, self._now = staging.staged, overlay, run, now
        self.before = {name: memory.text for name, memory in read_memories(overlay).items()}
        touched = {memory.name for memory in self._staged}
        self._after = {name: text for name, text in self.before.items() if name not in touched}
        self._after |= {memory.name: memory.text for memory in self._staged if memory.text is not None}
        self._days = {name: ages.get(name, now) for name in self.before}
        self._ages = {name: at.timestamp() for name, at in self._days.items()}
        self._typed = [(message.at or now, text) for message in messages if (text := find_typed(message))]
        # Only private memories can support or supersede a private memory. Changes to shared memories need review.
        self._own = {name: text for name, text in self.before.items() if not is_shared(name, overlay.rules)}
        self._own_after = {name: text for name, text in self._after.items() if not is_shared(name, overlay.rules)}
        self._shared_index = SaidSentences({name: text for name, text in self.before.items() if name not in self._own})
        self._own_index = SaidSentences(self._own)
        rules = {name: text for name, text in self._own.items() if _is_rule(frontmatter.parse_fields(text).kind)}
        self._usable = {True: rules, False: self._own}  # the sources of a rule, and of a fact
        self._unsupported: Mapping[str, tuple[str, ...]] = {}

    # --- removed and added sentences --------------------------------------------------------------------------------

    def find_removed(self) -> list[RemovedSentence]:
        """Return the sentences that are removed from memories and from their descriptions."""
        remaining = SaidSentences(self._own_after)
        things = frozenset[str]().union(*(find_hard(_flatten(text)) for text in self._own_after.values()))
        removed = []
        for name, text in ((memory.name, memory.before) for memory in self._staged if memory.before is not None):
            fates = (remaining.trace(name, sentence) for sentence in parse_document(text).list_sentences())
            removed += [fate for fate in fates if fate.fate is not SentenceFate.KEPT or name not in fate.where]
            if find_hard(description := frontmatter.parse_fields(text).description) - things:
                removed.append(RemovedSentence(name, description, SentenceFate.LOST))
        return removed

    def find_added(self) -> dict[str, tuple[str, ...]]:
        """Return, by memory name, the added sentences, titles, descriptions and cues that no source contains."""
        typed, added = [text for _, text in self._typed], {}
        sources = {is_rule: SaidSentences({**texts, "": "\n\n".join(typed)}) for is_rule, texts in self._usable.items()}
        for memory in self._staged:
            if memory.text is None or is_shared(memory.name, self._overlay.rules):
                continue
            old_fields, fields = frontmatter.parse_fields(memory.before or ""), frontmatter.parse_fields(memory.text)
            source, texts = sources[_is_rule(fields.kind)], parse_document(memory.text).list_sentences()
            old = parse_document(memory.before or "").list_sentences()
            new = [
                text
                for text in texts
                if source.trace("", text).fate is not SentenceFate.KEPT or (text not in old and self._is_theirs(text))
            ]
            body = frontmatter.split_frontmatter(memory.text).body
            known = {*parse_terms(f"{body} {old_fields.title} {old_fields.description}")}
            phrases = (text for text in list_phrases(fields) if text not in list_phrases(old_fields))
            name = memory.name if memory.before is None else memory.renamed
            new += [
                text
                for text in (fields.title, fields.description, name, *phrases)
                if not known.issuperset(parse_terms(text))
            ]
            new += [*list_moments(memory), *filter(None, [render_rule(memory)])]
            if new:
                added[memory.name] = tuple(dict.fromkeys(new))
        return added

    def ask_judge(
        self, reader: Model, removed: Sequence[RemovedSentence], added: Mapping[str, tuple[str, ...]]
    ) -> list[RemovedSentence]:
        """Ask the judge about these sentences. Store the unsupported additions and return the removed sentences."""
        lost: dict[str, list[str]] = defaultdict(list)
        for sentence in removed:
            if sentence.fate is SentenceFate.LOST:
                lost[sentence.name].append(sentence.text)
        left = {name: self._list_sources(name, self._own_after, " as it will read") for name in lost}
        newer = {name: self._list_overtaking(name) for name in lost}
        cases = [
            JudgeCase(
                name,
                f"Taken out of {name}, written on {show_day(self._days[name])}",
                tuple(dict.fromkeys(texts)),
                tuple(dict.fromkeys((*left[name], *newer[name]))),
                is_removal=True,
            )
            for name, texts in lost.items()
        ]
        staged = {memory.name: memory for memory in self._staged}
        for name, new in added.items():
            fields = frontmatter.parse_fields(self._after[name])
            phrases = {*list_phrases(fields), *list_moments(staged[name])}
            usable, cues = self._usable[_is_rule(fields.kind)], tuple(text for text in new if text in phrases)
            own = {name: usable[name]} if name in usable and len(cues) == len(new) else usable
            sources = (*self._list_sources(name, own), *(self._list_typed() if own is usable else ()))
            cases.append(JudgeCase(name, f"New in {name}", tuple(text for text in new if text not in cues), sources))
            cases.append(JudgeCase(name, f"New search phrases of {name}", cues, sources))
        judged = ask_judge(reader, cases, now=self._now)
        numbers = {name: number for number, name in enumerate(lost)}
        fates = []
        for sentence in removed:
            key = numbers.get(sentence.name, -1), sentence.text
            answer, source = judged.removed.get(key, (JudgeAnswer.NEITHER, None))
            where = (source.name,) if source is not None and source.name else ()
            if source is None or sentence.fate is not SentenceFate.LOST:
                fates.append(sentence)
            elif answer is JudgeAnswer.ELSEWHERE and source in left[sentence.name]:
                known = _list_numbers("\n".join(one.text for one in left[sentence.name]))
                is_said = set(_NUMBER.findall(sentence.text)) <= known
                fates.append(replace(sentence, fate=SentenceFate.REWORDED, where=where) if is_said else sentence)
            elif answer is JudgeAnswer.OVERTAKEN and source in newer[sentence.name]:
                # It must have the same subject, because a past date alone does not supersede a memory.
                is_other = {*parse_terms(_flatten(self.before[sentence.name]))}.isdisjoint(parse_terms(source.text))
                fates.append(sentence if is_other else replace(sentence, fate=SentenceFate.OVERTAKEN, where=where))
            else:
                fates.append(sentence)
        by_name: dict[str, set[str]] = defaultdict(set)
        for number, text in judged.follows:
            by_name[cases[number].name].add(text)
        self._unsupported = {
            name: tuple(text for text in new if text not in by_name[name] or self._is_theirs(text))
            for name, new in added.items()
        }
        return fates

    def _is_theirs(self, text: str) -> bool:
        """Return whether a team memory contained this sentence before any private memory, so that it may be a copy."""
        theirs = [self._ages[name] for name in self._shared_index.trace("", text).where if name]
        own = [self._ages[name] for name in self._own_index.trace("", text).where if name]
        return bool(theirs) and (not own or min(theirs) <= min(own))

    def _list_typed(self, since: float = 0.0) -> list[JudgeSource]:
        """Return what the user typed after `since`, in logs and conversations, with the day of each text."""
        texts: dict[datetime, list[str]] = defaultdict(list)
        for time, text in self._typed:
            if time.timestamp() > since:
                texts[time].append(text)
        return [JudgeSource("", f"typed by the person on {show_day(at)}", "\n".join(texts[at])) for at in sorted(texts)]

    def _list_overtaking(self, name: str) -> list[JudgeSource]:
        """Return the newer memories and messages that may supersede a memory."""
        newer = {other: text for other, text in self._own.items() if self._ages[other] > self._ages[name]}
        return [*self._list_sources(name, newer), *self._list_typed(self._ages[name])]

    def _list_sources(self, name: str, texts: Mapping[str, str], changed: str = "") -> list[JudgeSource]:
        """Return the memories closest to a changed one as sources for the judge."""
        sources = []
        for other in self._find_near(name, texts):
            text, old = _flatten(texts[other]), self.before.get(other)
            day = f", written on {show_day(self._days[other])}" if old is not None else ""
            is_old = old is not None and text == _flatten(old)
            sources.append(JudgeSource(other, f"{other}{day}" if is_old else f"{other}{changed}", text))
        return sources

    def _find_near(self, name: str, texts: Mapping[str, str]) -> list[str]:
        """Return the memories that the model named for a change, then those that share its rare words."""
        quoted = fold(f"{self._run.evidence.get(fold(name), '')} {self._run.reasons.get(fold(name), '')}")
        own = {*parse_terms(_flatten(self.before.get(name, ""))), *parse_terms(_flatten(self._after.get(name, "")))}
        terms = {other: own & {*parse_terms(_flatten(text))} for other, text in texts.items()}
        counts = Counter(term for shared in terms.values() for term in shared)
        # `fsum` does not depend on the order of a set, so the same directory gives the same request.
        scores = {key: fsum(1 / counts[term] for term in terms[key]) + 9 * _is_named(key, quoted) for key in terms}
        return sorted(filter(scores.get, scores), key=lambda key: (-scores[key], key))[:_NEAREST]

    # --- patches and items ------------------------------------------------------------------------------------------

    def group_changes(self, removed: Sequence[RemovedSentence]) -> list[_Group]:
        """Group the changes whose sentences appear in each other."""
        repaired = map(self._repair_frontmatter, self._staged)
        staged = {memory.name: memory for memory in repaired if memory.is_changed}
        heads = {name: name for name in staged}
        containing, newer = ({name: list[str]() for name in staged} for _ in range(2))

        def find(name: str) -> str:
            while heads[name] != name:
                name = heads[name]
            return name

        for sentence in (sentence for sentence in removed if sentence.name in staged):
            written = [name for name in sentence.where if name in staged and name != sentence.name]
            untouched = [name for name in sentence.where if name not in staged]
            if untouched and (sentence.fate is not SentenceFate.REWORDED or not written):
                containing[sentence.name].append(untouched[0])
            elif written and sentence.fate is SentenceFate.OVERTAKEN:
                newer[sentence.name].append(written[0])
            elif written:
                heads[find(sentence.name)] = find(written[0])
        groups: dict[str, list[StagedMemory]] = defaultdict(list)
        for memory in staged.values():
            groups[find(memory.name)].append(memory)
        result = []
        for group in groups.values():
            own = {memory.name for memory in group}
            lean, over = (tuple(dict.fromkeys(x for name in own for x in by[name])) for by in (containing, newer))
            lost = tuple(sentence for sentence in removed if sentence.name in own)
            result.append(_Group(tuple(group), lost, lean, over))
        return result

    def _repair_frontmatter(self, staged: StagedMemory) -> StagedMemory:
        """Replace an unsupported title or description and drop unsupported cues, moments and new names."""
        unsupported = self._unsupported.get(staged.name, ())
        if staged.text is None:
            return staged
        old_fields, fields = frontmatter.parse_fields(staged.before or ""), frontmatter.parse_fields(staged.text)
        text = " ".join(parse_document(staged.text).list_sentences())
        title, description = old_fields.title or shorten(text, 60), old_fields.description or shorten(text, 150)
        changes: dict[str, FieldValue] = {"name": title} if fields.title in unsupported else {}
        changes |= {"description": description} if fields.description in unsupported else {}
        if not {*unsupported}.isdisjoint(list_phrases(fields)):
            changes |= keep_phrases(fields, lambda text: text not in unsupported)
        if fields.when != old_fields.when:
            changes["when"] = render_when(
                trim_when(staged, {*list_moments(staged), render_rule(staged)} - {*unsupported})
            )
        staged = replace(staged, renamed="" if staged.renamed in unsupported else staged.renamed)
        return replace(staged, text=frontmatter.set_fields(staged.text or "", changes)) if changes else staged

    def find_doubt(self, staged: StagedMemory) -> str:
        """Return why a new text needs review, or ""."""
        if is_shared(staged.name, self._overlay.rules):
            return SHARED
        if _is_pinned(staged.before):
            return PINNED
        if staged.text is None:
            return ""
        if secret := doubt_credentials(staged, self._overlay.rules.find):
            return secret.why
        old_fields, fields = frontmatter.parse_fields(staged.before or ""), frontmatter.parse_fields(staged.text)
        if fields.pinned:
            return "it would pin itself, and only you can do that"
        if staged.before is not None and {*fields.raw} - {*old_fields.raw} - _ALLOWED_KEYS:
            return "it adds an unknown field to the frontmatter"
        sentences = parse_document(staged.text).list_sentences()
        new = next((text for text in self._unsupported.get(staged.name, ()) if text in sentences), "")
        source = "only the team's memory says" if self._is_theirs(new) else "none of its sources says"
        return f"{source} this: “{shorten(one_line(new), 120)}”" if new else ""

    def make_patch(self, group: _Group) -> Patch:
        staged = [self._complete(memory) for memory in group.staged]
        edits = [edit for memory in staged for edit in self._make_edits(group, memory)]
        plan_batch(self._overlay, [edits], self._now, self._overlay.rules, drop_conflicts=True)
        over = (sentence.text for sentence in group.removed if sentence.fate is SentenceFate.OVERTAKEN)
        overtaken = (f"overtaken: {mask_words(text, self._overlay.rules.find)}" for text in over)
        # The memory that received most of the sentences comes first, because reports name the first one.
        received = Counter(name for sentence in group.removed for name in sentence.where[:1])
        names = sorted((memory.text is None, -received[memory.name], memory.new_name) for memory in staged)
        sources = (*group.containing, *group.newer) if all(gone for gone, _, _ in names) else ()
        evidence = (*self._list_shown(group, self._run.evidence), *overtaken)
        renamed = (memory.name for memory in staged if memory.renamed)
        all_names = (*sources, *(name for _, _, name in names), *renamed)
        return Patch(group.kind, all_names, (*edits, *self._make_guards(group)), self._find_reason(group), evidence)

    def _complete(self, staged: StagedMemory) -> StagedMemory:
        """Set the digest of an existing memory. A new one gets a name from its title if its own is unsupported."""
        if staged.digest is not None or staged.text is None:
            return replace(staged, digest=self._overlay.find_digest(staged.name))
        fields = frontmatter.parse_fields(staged.text)
        is_fit = staged.name not in self._unsupported.get(staged.name, ())
        return staged if is_fit else replace(staged, name=frontmatter.make_slug(fields.title) or staged.name)

    def _make_edits(self, group: _Group, staged: StagedMemory) -> Sequence[Edit]:
        """Return the edits of one memory. They keep its age, because tidying does not make a memory newer."""
        if staged.text is None:
            return make_edits([staged])
        where = [self._own_index.trace("", text).where for text in parse_document(staged.text).list_sentences()]
        own = [self._ages[memory.name] for memory in group.staged if memory.before is not None]
        is_new = not own or (bool(self._typed) and not all(where))
        times = [self._ages[name] for names in where for name in names if name] or own
        since = self._now if is_new else datetime.fromtimestamp(max(times), self._now.tzinfo)
        if staged.before is not None:
            return make_edits([replace(staged, text=stamp(staged.text, since))], self._overlay)
        if is_new:
            return make_edits([staged])
        draft = parse_draft(staged.name, staged.text)
        name, planned = plan_write(self._overlay, draft, None, self._now, self._overlay.rules)
        text = next(decode(file.after) for file in planned if file.path == f"{name}.md" and file.after is not None)
        return [Put(name, stamp(text, since))]

    def _make_guards(self, group: _Group) -> Iterator[Edit]:
        """Yield rewrites that leave a memory as it is, but fail if a memory on which the group depends has changed."""
        headers = {header.name: header for header in self._overlay.scan()}
        for name in group.containing:
            is_plain = name in headers and not headers[name].pinned and not self._overlay.is_changed(name)
            text, digest = self.before[name], self._overlay.find_digest(name)
            # Writing invalid UTF-8 back would change it.
            if is_plain and digest is not None and digest_of(text.encode("utf-8", "replace")) == digest:
                yield Rewrite(name, text, digest)

    def make_item(self, group: _Group, doubt: str) -> InboxItem:
        """Return an inbox item for a group, with all credentials masked."""
        find = self._overlay.rules.find
        quotes = ((memory, self._run.evidence.get(fold(memory.name), "")) for memory in group.staged)
        masked = [mask_doubt(DoubtfulWrite(memory, "", quote), find) for memory, quote in quotes]
        edits = render_edits(make_edits(doubt.staged for doubt in masked))
        main = next((doubt.staged for doubt in masked if doubt.staged.text is not None), masked[0].staged)
        lost = next((one_line(sentence.text) for sentence in group.removed if sentence.fate is SentenceFate.LOST), "")
        loss = f"this sentence would be lost: “{shorten(lost, 120)}”" if lost else _SHARE
        evidence_texts = dict.fromkeys(doubt.quote for doubt in masked if doubt.quote)
        evidence = render_evidence([InboxQuote(text, "the model's evidence") for text in evidence_texts])
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

    def _list_shown(self, group: _Group, texts: Mapping[str, str]) -> list[str]:
        """Return the model's texts for the memories of a group, with credentials masked and without duplicates."""
        masked = (mask_words(texts.get(fold(memory.name), ""), self._overlay.rules.find) for memory in group.staged)
        return list(dict.fromkeys(text for text in masked if text))


def _list_numbers(text: str) -> set[str]:
    """Return the numbers in a text as digits. Number words are converted, except "one"."""
    values = {
        word: str(value)
        for language in load_date_languages()
        for value, words in enumerate(language.numbers[1:], 2)
        for word in words.split()
    }
    return {*_NUMBER.findall(text), *(values[word] for word in _WORD.findall(text.lower()) if word in values)}


def _is_named(name: str, text: str) -> bool:
    return re.search(rf"(?<![\w-]){re.escape(fold(name))}(?:\.md)?(?![\w-])", text) is not None


def _flatten(text: str) -> str:
    fields = frontmatter.parse_fields(text)
    return "\n".join(filter(None, (fields.title, fields.description, frontmatter.split_frontmatter(text).body.strip())))


def _is_pinned(text: str | None) -> bool:
    return text is not None and frontmatter.parse_fields(text).pinned


def _is_rule(kind: Kind | None) -> bool:
    return kind in (Kind.USER, Kind.FEEDBACK)
