"""Whose words a memory rests on.

A model that writes memories can be talked into anything by the text it reads. So it is shown as little foreign text as
possible (`by_model` renders the conversation), and what it writes is not believed because it says so: each sentence that
is not the person's own is put to a second request, which shows only what the person typed. What does not follow from
that is left out, and more than half left out needs review.

What the person typed is decided in `conversation.typed`; sentences in which the agent repeats foreign text are shown to
neither model.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from memdir.conversation.typed import TypedMessage
from memdir.errors import FormatError, ReplyError
from memdir.extraction.find import mask_values
from memdir.format import frontmatter
from memdir.format.document import MemoryDocument, PartKind, add_to_fact, drop_sentences, parse_document
from memdir.format.frontmatter import check_description, make_slug
from memdir.frozen import dataclass, field, replace
from memdir.language import compile_any
from memdir.limits import OPINION_CHARS, OPINION_TOKENS
from memdir.models.prompts import render_prompt
from memdir.models.staged import StagedMemory, make_object
from memdir.records import Message, Model, Request, StopReason, Usage
from memdir.store.plan import Finder, WriteRules, is_shared, is_team
from memdir.store.secrets import find_new_secrets, find_secrets, mask, render_findings
from memdir.text import find_json, fold_words, one_line, shorten

PURPOSE = "second-opinion"
SECRET = "it holds a secret"
SHARED = "a team shares it, and only a person may say so"
UNTYPED = "nothing the person typed carries it"
UNASKED = "nobody asked to forget it"
UNCHECKED = "it is not in the person's own words, and no second opinion was to be had"
_SCHEMA = make_object({"follow": {"type": "array", "items": {"type": "integer"}}})
_TITLE_CHARS = 60
_DESCRIPTION_CHARS = 140
_ALIKE = 0.6  # of an old sentence's words that a new one must have to count as the same, reworded
_TALK_CHARS = 400  # of a message that surely holds no paste
_STEM = 5  # letters by which a word in a name is known again
_TELLING = 5  # characters of a secret that may stand at the end of a name: `ghp` tells nothing

_QUESTION = re.compile(r"[?？]|(?:吗|か)[。\s]*\Z")
_ELLIPSIS = re.compile(r"\s*(?:\[?(?:…|\.\.\.)\]?|\n+)\s*")


@dataclass(frozen=True, slots=True)
class OpinionCase:
    """Sentences of one memory to be judged: by the conversation, by `typed`, and by what the memory said before.

    `advice` are those of them that say how to apply the others, `phrases` those by which they are to be found.
    """

    name: str
    sentences: tuple[str, ...]
    typed: str = ""
    before: str = ""
    advice: frozenset[str] = frozenset()
    phrases: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """By name, the sentences that follow from what was typed."""

    follows: Mapping[str, frozenset[str]]
    usage: Usage = Usage()
    requests: int = 0


@dataclass(frozen=True, slots=True)
class DoubtfulWrite:
    """A write that needs review, why, and the words it rests on as far as that is known."""

    staged: StagedMemory
    why: str
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """What became of a run's writes: those to be kept, as they may be kept, those that need review, and what was cut.

    `whole` are the texts of which something was cut, as they were written.
    """

    kept: tuple[StagedMemory, ...] = ()
    doubts: tuple[DoubtfulWrite, ...] = ()
    trimmed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    opinion: SecondOpinion | None = None
    whole: Mapping[str, str] = field(default_factory=dict)


Opine = Callable[[Sequence[OpinionCase]], SecondOpinion | None]


def render_typed(typed: Sequence[TypedMessage]) -> str:
    """The conversation as the second reader sees it, the newest messages if not all fit."""
    blocks: list[str] = []
    room = OPINION_CHARS
    for at in reversed(typed):
        day = f" ({at.at:%A, %Y-%m-%d})" if at.at else ""
        said = f"The agent had written:\n{at.reply_to}\n\n" if at.reply_to else ""
        block = f"{said}The person{day}:\n{at.text}"
        room -= len(block)
        if room < 0 and blocks:
            break
        blocks.append(block)
    return "\n\n---\n\n".join(reversed(blocks))


# The second opinion


def ask_second_opinion(
    model: Model, cases: Sequence[OpinionCase], *, now: datetime, conversation: str = ""
) -> SecondOpinion:
    """Ask which sentences follow from typed text alone; one request for all. Raises ModelError and ReplyError."""
    statements: list[tuple[str, str]] = []
    parts: list[str] = []
    for case in cases:
        blocks = []
        advice, phrases = case.advice - case.phrases, case.phrases
        plain = frozenset(case.sentences) - advice - phrases
        for label, group in (("Statements", plain), ("How to apply them", advice), ("Search phrases", phrases)):
            numbered = []
            for sentence in dict.fromkeys(at for at in case.sentences if at in group):
                statements.append((case.name, sentence))
                numbered.append(f"{len(statements)}. {one_line(sentence)}")
            blocks += [f"{label}:\n" + "\n".join(numbered)] if numbered else []
        sources = [f"What they had said before, as it is remembered:\n{case.before.strip()}"] if case.before else []
        sources += [f"Also theirs:\n{case.typed.strip()}"] if case.typed else []
        parts.append("\n\n".join([*sources, *blocks]))
    if not statements:
        return SecondOpinion({})
    content = render_prompt(
        "opinion", today=render_today(now), conversation=conversation or "(nothing)", cases="\n\n---\n\n".join(parts)
    )
    request = Request(
        render_prompt("opinion_system"), (Message("user", content),), OPINION_TOKENS, _SCHEMA, purpose=PURPOSE
    )
    reply = model(request)
    if reply.stop is StopReason.REFUSED:
        raise ReplyError("the second reader declined")
    for value in find_json(reply.text):
        rows = value.get("follow") if isinstance(value, dict) else None
        if isinstance(rows, list):
            follows: dict[str, set[str]] = {case.name: set() for case in cases}
            for number in rows:
                if type(number) is int and 0 < number <= len(statements):
                    name, sentence = statements[number - 1]
                    follows[name].add(sentence)
            return SecondOpinion({name: frozenset(found) for name, found in follows.items()}, reply.usage, 1)
    raise ReplyError(f"the second reader gave no list of numbers but {shorten(one_line(reply.text), 60)!r}")


def render_today(now: datetime) -> str:
    """Date, weekday and time zone, as every task carries them."""
    local = now.astimezone() if now.tzinfo is None else now
    return f"{local:%A, %Y-%m-%d, %H:%M} (UTC{local:%z})"


# Judging what a run wrote


def judge_staged(
    staged: Sequence[StagedMemory],
    evidence: Mapping[str, str],
    typed: Sequence[TypedMessage],
    opine: Opine,
    *,
    is_asked: Callable[[str], bool],
) -> Judgement:
    """Decide what of a run's writes may be kept; `is_asked` says whether patterns see a request to forget this text."""
    source = _TypedText.read(typed)
    written = {at.name: _Writing.read(at) for at in staged if at.text is not None and not is_team(at.name)}
    gone = {at.name: _render_gone(at.before or "") for at in staged if at.text is None and not is_team(at.name)}
    asking: list[OpinionCase] = []
    for at in staged:
        if at.name in written and (open_questions := written[at.name].list_open()):
            if source.has_quote(evidence.get(at.name)):
                advice = frozenset(written[at.name].document.list_sentences(PartKind.HOW))
                phrases = frozenset((*written[at.name].fields.cues, written[at.name].name_words))
                asking.append(OpinionCase(at.name, open_questions, "", at.before or "", advice, phrases))
        elif at.name in gone and not is_asked(at.before or ""):
            asking.append(OpinionCase(at.name, (gone[at.name],)))
    opinion = opine(asking) if asking and typed else None
    kept: list[StagedMemory] = []
    doubts: list[DoubtfulWrite] = []
    trimmed: dict[str, tuple[str, ...]] = {}
    whole: dict[str, str] = {}
    for at in staged:
        quote = evidence.get(at.name, "")
        follows = opinion.follows.get(at.name, frozenset()) if opinion else frozenset()
        if is_team(at.name):
            doubts.append(DoubtfulWrite(at, SHARED, quote))
        elif at.name in gone:
            if gone[at.name] in follows or is_asked(at.before or ""):
                kept.append(at)
            else:
                doubts.append(DoubtfulWrite(at, UNASKED, quote))
        elif not source.has_quote(evidence.get(at.name)):
            doubts.append(DoubtfulWrite(at, UNTYPED, quote))
        else:
            writing = written[at.name]
            is_judged = opinion is not None or not writing.list_open()
            verdict = writing.trim(follows) if is_judged else writing.keep_typed(quote, source)
            if verdict.staged is not None:
                kept.append(verdict.staged)
            if verdict.why:
                doubts.append(DoubtfulWrite(at, verdict.why, quote))
            elif verdict.cut and verdict.staged is not None:
                trimmed[verdict.staged.name], whole[verdict.staged.name] = verdict.cut, at.text or ""
    return Judgement(tuple(kept), tuple(doubts), trimmed, opinion, whole)


@dataclass(frozen=True, slots=True)
class _TypedText:
    """All typed text, as it is looked up: the words in a row, and each sentence by its words.

    Sentences only of messages that are plain talk: a longer one, or one that asks for work on a text, may hold a paste
    that nothing marks.
    """

    words: str
    sentences: Mapping[str, str]

    @staticmethod
    def read(typed: Sequence[TypedMessage]) -> "_TypedText":
        own = [at.text for at in typed if _is_talk(at.text)]
        found = [sentence for text in own for sentence in MemoryDocument(text).list_sentences()]
        lines = [line for text in own for line in text.splitlines()]
        words = " ¶ ".join(fold_words(at.text) for at in typed)
        return _TypedText(f" {words} ", {key: text for text in (*lines, *found) if (key := fold_words(text))})

    def says(self, sentence: str) -> bool:
        return fold_words(sentence) in self.sentences

    def has_quote(self, quote: str | None) -> bool:
        """Whether a quotation stands in it word for word, perhaps with gaps; without one, whether there is any text."""
        if not quote:
            return bool(self.words.strip())
        parts = [words for part in _ELLIPSIS.split(quote) if (words := fold_words(part))]
        return bool(parts) and all(f" {words} " in self.words for words in parts)

    def find_around(self, quote: str) -> list[str]:
        """The typed sentences that a quotation was taken from, without questions."""
        parts = [words for part in _ELLIPSIS.split(quote) if (words := fold_words(part))]
        found = [
            text
            for key, text in self.sentences.items()
            if any(f" {part} " in f" {key} " or f" {key} " in f" {part} " for part in parts)
        ]
        whole = [text for text in found if not any(text is not other and text in other for other in found)]
        return [one_line(text) for text in whole if not _QUESTION.search(text)]


@dataclass(frozen=True, slots=True)
class _Verdict:
    staged: StagedMemory | None
    cut: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Writing:
    """One memory as a run left it, sentence by sentence."""

    staged: StagedMemory
    fields: frontmatter.FrontmatterFields
    document: MemoryDocument
    sentences: tuple[str, ...]
    old: frozenset[str]
    gone: tuple[str, ...]

    @staticmethod
    def read(staged: StagedMemory) -> "_Writing":
        text, before = staged.text or "", staged.before or ""
        fields, document = frontmatter.parse_fields(text), MemoryDocument(frontmatter.split_frontmatter(text).body)
        was, old = frontmatter.parse_fields(before), parse_document(before).list_sentences()
        sentences = document.list_sentences()
        known = {fold_words(at) for at in (*old, was.title, was.description, *was.cues)}
        gone = tuple(at for at in old if not any(_is_alike(at, new) for new in sentences))
        return _Writing(staged, fields, document, sentences, frozenset(known - {""}), gone)

    @property
    def name_words(self) -> str:
        """The name as words, of a new memory whose title and text do not hold them all."""
        text = f"{self.fields.title} {self.fields.description} {self.document.text}"
        said = {word[:_STEM] for word in fold_words(text).split()}
        words = fold_words(self.staged.name.rpartition("/")[2].replace("_", " ")).split()
        return "" if self.staged.before is not None or {word[:_STEM] for word in words} <= said else " ".join(words)

    def list_open(self) -> tuple[str, ...]:
        """What the memory did not say before, and what it no longer says."""
        head = (self.fields.title, self.fields.description, *self.fields.cues, self.name_words)
        found = [at for at in (*head, *self.sentences) if at and fold_words(at) not in self.old]
        return (*dict.fromkeys(found), *map(_render_dropped, self.gone))

    def trim(self, follows: Collection[str]) -> _Verdict:
        """The memory without what does not follow; nothing of it if that is more than half."""

        def fits(at: str) -> bool:
            return not at or at in follows or fold_words(at) in self.old

        refused = [at for at in self.sentences if not fits(at)]
        first = [at for at in self.document.list_sentences(PartKind.FACT) if at not in refused]
        if len(refused) * 2 > len(self.sentences) or not first:
            return _Verdict(None, why=f"{UNTYPED}: “{shorten(one_line((refused or [self.document.text])[0]), 80)}”")
        back = [at for at in self.gone if _render_dropped(at) not in follows]
        body = _add_sentences(MemoryDocument(drop_sentences(self.document, refused)), back)
        title, description = self.fields.title, self.fields.description
        cut = [*refused, *(at for at in (title, description) if not fits(at))]
        if not fits(title):
            title = shorten(_strip_end(first[0]), _TITLE_CHARS)
        if not fits(description):
            description = shorten(first[0], _DESCRIPTION_CHARS)
        name = self.staged.name
        if not fits(self.name_words) or (self.staged.before is None and not fits(self.fields.title)):
            name = name[: name.rfind("/") + 1] + make_slug(title)
        cues = tuple(cue for cue in self.fields.cues if fits(cue))
        try:
            return _Verdict(self._write(name, title, description, body, cues), tuple(cut))
        except FormatError:
            return _Verdict(None, why=UNTYPED)

    def keep_typed(self, quote: str, source: _TypedText) -> _Verdict:
        """Only what the person said in these words; the rest needs review."""
        typed = [at for at in self.sentences if source.says(at) and fold_words(at) not in self.old]
        typed = list(dict.fromkeys((*typed, *source.find_around(quote))))
        if not typed or self.fields.kind is None:
            return _Verdict(None, why=UNCHECKED)
        try:
            if self.staged.before is not None:
                was = frontmatter.parse_fields(self.staged.before)
                body = _add_sentences(MemoryDocument(frontmatter.split_frontmatter(self.staged.before).body), typed)
                return _Verdict(
                    self._write(self.staged.name, was.title, was.description, body, was.cues), (), UNCHECKED
                )
            title, line = shorten(_strip_end(typed[0]), _TITLE_CHARS), shorten(typed[0], _DESCRIPTION_CHARS)
            folder = self.staged.name[: self.staged.name.rfind("/") + 1]
            made = self._write(folder + make_slug(title), title, line, " ".join(typed) + "\n", ())
            return _Verdict(made, (), UNCHECKED)
        except FormatError:
            return _Verdict(None, why=UNCHECKED)

    def _write(self, name: str, title: str, description: str, body: str, cues: tuple[str, ...]) -> StagedMemory:
        """The memory with these fields, and nothing in its head that was not there before and is none of them."""
        if description != frontmatter.parse_fields(self.staged.before or "").description:
            check_description(description, self.fields.kind)
        values: dict[str, frontmatter.FieldValue] = {"name": title, "description": description, "cues": cues or None}
        if self.staged.before is None or not frontmatter.split_frontmatter(self.staged.before).opening:
            text = frontmatter.set_fields(self.staged.text or "", {**values, "pinned": None})
        else:
            kind = self.fields.kind.value if self.fields.kind else None
            text = frontmatter.set_fields(self.staged.before, {**values, **({"type": kind} if kind else {})})
        return replace(self.staged, name=name, text=frontmatter.replace_body(text, body))


def _render_gone(before: str) -> str:
    fields = frontmatter.parse_fields(before)
    about = ": ".join(part for part in (fields.title, fields.description) if part)
    return f"They want this forgotten, or say that it is no longer so: “{about}”"


def _render_dropped(sentence: str) -> str:
    return f"This is no longer so, or is to be left out: “{sentence}”"


def _add_sentences(document: MemoryDocument, sentences: Sequence[str]) -> str:
    """Return the text with those of the sentences in its fact that it does not say yet."""
    known = {fold_words(sentence) for sentence in document.list_sentences()}
    new = [sentence for sentence in sentences if fold_words(sentence) not in known]
    return add_to_fact(document, " ".join(new)) if new else document.text


def _is_alike(old: str, new: str) -> bool:
    """Whether a sentence says again what another said: most of its words are there."""
    mine, other = (set(fold_words(at).split()) for at in (old, new))
    return len(mine & other) >= _ALIKE * len(mine)


def _is_talk(text: str) -> bool:
    """Whether a message surely holds no paste: one line, not long, and no request to work on a text."""
    return len(text) < _TALK_CHARS and "\n" not in text and not compile_any("text_work").search(text)


def _strip_end(sentence: str) -> str:
    return sentence.rstrip(" .。!！;；:：")


# Secrets and what others share


def doubt_shared(staged: StagedMemory, rules: WriteRules) -> DoubtfulWrite | None:
    """Why a write to what others read needs review, whoever said it; None for any other."""
    return DoubtfulWrite(staged, SHARED) if is_shared(staged.name, rules) else None


def doubt_credentials(staged: StagedMemory, find: Finder | None) -> DoubtfulWrite | None:
    """Why a write with a credential in it needs review; None for one without."""
    new = find_new_secrets(staged.text or "", staged.before or "", find)
    return DoubtfulWrite(staged, f"{SECRET}: {'; '.join(render_findings(new))}") if new else None


def mask_doubt(doubt: DoubtfulWrite, find: Finder | None) -> DoubtfulWrite:
    """A doubt as it may be kept: the credentials removed from the text, the reason and the quotation."""
    text, before = doubt.staged.text or "", doubt.staged.before or ""
    secrets = [text[finding.start : finding.end] for finding in find_new_secrets(text, before, find)]
    masked = doubt.staged
    if secrets:
        name = masked.name if masked.before is not None else _mask_name(masked.name, secrets)
        masked = replace(masked, name=name, text=_mask_file(text, secrets))
    why, quote = (mask_words(mask_values(words, secrets), find) for words in (doubt.why, doubt.quote))
    return DoubtfulWrite(masked, why, quote)


def mask_words(text: str, find: Finder | None) -> str:
    """A reason or a quotation as it may be kept."""
    return mask(text, (find or find_secrets)(text)) if text else ""


def _mask_file(text: str, secrets: Sequence[str]) -> str:
    """Field by field, so that the head can still be read."""
    fields = frontmatter.parse_fields(text)
    if fields.problem:
        return mask_values(text, secrets)
    changes = {"name": mask_values(fields.title, secrets), "description": mask_values(fields.description, secrets)}
    body = mask_values(frontmatter.split_frontmatter(text).body, secrets)
    return mask_values(frontmatter.replace_body(frontmatter.set_fields(text, changes), body), secrets)


def _mask_name(name: str, secrets: Sequence[str]) -> str:
    """A name without a secret that became part of it: names are shown everywhere."""
    folder, slash, leaf = name.rpartition("/")
    for slug in map(make_slug, secrets):
        leaf = re.sub(re.escape(slug), "masked", leaf, flags=re.IGNORECASE)
        # A long title is cut, perhaps in the middle of the secret.
        cut = next((end for end in range(len(slug), _TELLING, -1) if leaf.lower().endswith(slug[:end])), 0)
        leaf = f"{leaf[:-cut]}masked" if cut else leaf
    return folder + slash + leaf
