"""Provenance: check that a model's memories are based on text the user typed.

The text a model reads can talk it into anything. So it sees as little untrusted text as possible (`by_model` renders the
conversation), and its writes are checked: each sentence that the user did not say literally goes into a second request,
which shows only the user's typed text. Sentences that do not follow from it are cut; if that is more than half, the
memory needs review.

`conversation.typed` decides what the user typed. Neither model sees sentences in which the agent repeats untrusted text.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime

from memdir.conversation.typed import TypedMessage
from memdir.errors import FormatError, ReplyError
from memdir.extraction.find import mask_values
from memdir.format import frontmatter
from memdir.format.document import MemoryDocument, PartKind, add_to_fact, drop_sentences, parse_document
from memdir.format.fields import FieldValue, FrontmatterFields
from memdir.format.frontmatter import check_description, make_slug
from memdir.frozen import dataclass, field, replace
from memdir.language import compile_any
from memdir.limits import OPINION_CHARS, OPINION_TOKENS
from memdir.models.prompts import render_prompt
from memdir.models.staged import StagedMemory, make_object
from memdir.records import Message, Model, Request, StopReason, Usage
from memdir.store.plan import Finder, WriteRules, is_shared, is_team
from memdir.store.secrets import find_new_secrets, find_secrets, mask, mask_model, render_findings
from memdir.text import find_json, fold_words, one_line, shorten

PURPOSE = "second-opinion"
SECRET = "it holds a secret"
SHARED = "a team shares it, and only a person may say so"
UNTYPED = "it does not follow from what you typed"
UNASKED = "nobody asked to forget it"
UNCHECKED = "it is not in your own words, and the second check failed"
_SCHEMA = make_object({"follow": {"type": "array", "items": {"type": "integer"}}})
_TITLE_CHARS = 60
_DESCRIPTION_CHARS = 140
_ALIKE = 0.6  # share of an old sentence's words that a new one must have to count as a rewording
_TALK_CHARS = 400  # a shorter message surely contains no paste
_STEM = 5  # letters that identify a word in a name
_TELLING = 5  # max characters of a secret at the end of a name: `ghp` reveals nothing

_QUESTION = re.compile(r"[?？]|(?:吗|か)[。\s]*\Z")
_ELLIPSIS = re.compile(r"\s*(?:\[?(?:…|\.\.\.)\]?|\n+)\s*")


@dataclass(frozen=True, slots=True)
class OpinionCase:
    """Sentences to check against `typed`; `advice` say how to apply the others, `phrases` are used for recall."""

    name: str
    sentences: tuple[str, ...]
    typed: str = ""
    before: str = ""
    advice: frozenset[str] = frozenset()
    phrases: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """The sentences that follow from the typed text, by memory name."""

    follows: Mapping[str, frozenset[str]]
    usage: Usage = Usage()
    requests: int = 0


@dataclass(frozen=True, slots=True)
class DoubtfulWrite:
    """A write that needs review, the reason, and the quote it is based on, if known."""

    staged: StagedMemory
    why: str
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """A run's writes to save, its writes that need review, and the cut sentences; `whole` has the texts before cuts."""

    kept: tuple[StagedMemory, ...] = ()
    doubts: tuple[DoubtfulWrite, ...] = ()
    trimmed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    opinion: SecondOpinion | None = None
    whole: Mapping[str, str] = field(default_factory=dict)


Opine = Callable[[Sequence[OpinionCase]], SecondOpinion | None]


def render_typed(typed: Sequence[TypedMessage]) -> str:
    """Return the conversation for the second check, or the newest messages if it is too long."""
    blocks: list[str] = []
    room = OPINION_CHARS
    for message in reversed(typed):
        day = f" ({message.at:%A, %Y-%m-%d})" if message.at else ""
        reply = f"The agent had written:\n{message.reply_to}\n\n" if message.reply_to else ""
        block = f"{reply}The person{day}:\n{message.shown or message.text}"
        room -= len(block)
        if room < 0 and blocks:
            break
        blocks.append(block)
    return "\n\n---\n\n".join(reversed(blocks))


# The second opinion


def ask_second_opinion(
    model: Model, cases: Sequence[OpinionCase], *, now: datetime, conversation: str = ""
) -> SecondOpinion:
    """Ask in one request which sentences follow from typed text alone. Raises ModelError or ReplyError."""
    statements: list[tuple[str, str]] = []
    parts: list[str] = []
    for case in cases:
        blocks = []
        advice, phrases = case.advice - case.phrases, case.phrases
        plain = frozenset(case.sentences) - advice - phrases
        for label, group in (("Statements", plain), ("How to apply them", advice), ("Search phrases", phrases)):
            numbered = []
            for sentence in dict.fromkeys(sentence for sentence in case.sentences if sentence in group):
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
    reply = mask_model(model)(request)
    if reply.stop is StopReason.REFUSED:
        raise ReplyError("the model declined the second check")
    for value in find_json(reply.text):
        rows = value.get("follow") if isinstance(value, dict) else None
        if isinstance(rows, list):
            follows: dict[str, set[str]] = {case.name: set() for case in cases}
            for number in rows:
                if type(number) is int and 0 < number <= len(statements):
                    name, sentence = statements[number - 1]
                    follows[name].add(sentence)
            return SecondOpinion({name: frozenset(sentences) for name, sentences in follows.items()}, reply.usage, 1)
    raise ReplyError(f"the second check did not return a list of numbers: {shorten(one_line(reply.text), 60)!r}")


def render_today(now: datetime) -> str:
    """Return the date, weekday and time zone in the form that all prompts use."""
    local = now.astimezone() if now.tzinfo is None else now
    return f"{local:%A, %Y-%m-%d, %H:%M} (UTC{local:%z})"


# The writes of a run


def judge_staged(
    staged: Sequence[StagedMemory],
    evidence: Mapping[str, str],
    typed: Sequence[TypedMessage],
    opine: Opine,
    *,
    is_asked: Callable[[str], bool],
) -> Judgement:
    """Decide which of a run's writes to save. `is_asked` returns whether the user asked to forget a text."""
    source = _TypedText.read(typed)
    own = [memory for memory in staged if not is_team(memory.name)]
    written = {memory.name: _Writing.read(memory) for memory in own if memory.text is not None}
    gone = {memory.name: _render_gone(memory.before or "") for memory in own if memory.text is None}
    asking: list[OpinionCase] = []
    for memory in staged:
        if memory.name in written and (open_questions := written[memory.name].list_open()):
            if source.has_quote(evidence.get(memory.name)):
                advice = frozenset(written[memory.name].document.list_sentences(PartKind.HOW))
                phrases = frozenset((*written[memory.name].fields.cues, written[memory.name].name_words))
                asking.append(OpinionCase(memory.name, open_questions, "", memory.before or "", advice, phrases))
        elif memory.name in gone and not is_asked(memory.before or ""):
            asking.append(OpinionCase(memory.name, (gone[memory.name],)))
    opinion = opine(asking) if asking and typed else None
    kept: list[StagedMemory] = []
    doubts: list[DoubtfulWrite] = []
    trimmed: dict[str, tuple[str, ...]] = {}
    whole: dict[str, str] = {}
    for memory in staged:
        quote = evidence.get(memory.name, "")
        follows = opinion.follows.get(memory.name, frozenset()) if opinion else frozenset()
        if is_team(memory.name):
            doubts.append(DoubtfulWrite(memory, SHARED, quote))
        elif memory.name in gone:
            if gone[memory.name] in follows or is_asked(memory.before or ""):
                kept.append(memory)
            else:
                doubts.append(DoubtfulWrite(memory, UNASKED, quote))
        elif not source.has_quote(evidence.get(memory.name)):
            doubts.append(DoubtfulWrite(memory, UNTYPED, quote))
        else:
            writing = written[memory.name]
            is_judged = opinion is not None or not writing.list_open()
            verdict = writing.trim(follows) if is_judged else writing.keep_typed(quote, source)
            if verdict.staged is not None:
                kept.append(verdict.staged)
            if verdict.why:
                doubts.append(DoubtfulWrite(memory, verdict.why, quote))
            elif verdict.cut and verdict.staged is not None:
                trimmed[verdict.staged.name], whole[verdict.staged.name] = verdict.cut, memory.text or ""
    return Judgement(tuple(kept), tuple(doubts), trimmed, opinion, whole)


@dataclass(frozen=True, slots=True)
class _TypedText:
    """The words and sentences of typed talk, without messages that may contain an unmarked paste."""

    words: str
    sentences: Mapping[str, str]

    @staticmethod
    def read(typed: Sequence[TypedMessage]) -> "_TypedText":
        own = [message.text for message in typed if _is_talk(message.text)]
        sentences = [sentence for text in own for sentence in MemoryDocument(text).list_sentences()]
        lines = [line for text in own for line in text.splitlines()]
        words = " ¶ ".join(fold_words(message.shown or message.text) for message in typed)
        return _TypedText(f" {words} ", {key: text for text in (*lines, *sentences) if (key := fold_words(text))})

    def says(self, sentence: str) -> bool:
        return fold_words(sentence) in self.sentences

    def has_quote(self, quote: str | None) -> bool:
        """Return whether the text contains a quote, perhaps with gaps; for an empty quote, whether any text exists."""
        if not quote:
            return bool(self.words.strip())
        parts = [words for part in _ELLIPSIS.split(quote) if (words := fold_words(part))]
        return bool(parts) and all(f" {words} " in self.words for words in parts)

    def find_around(self, quote: str) -> list[str]:
        """Return the typed sentences that contain a quote, except questions."""
        parts = [words for part in _ELLIPSIS.split(quote) if (words := fold_words(part))]
        matches = [
            text
            for key, text in self.sentences.items()
            if any(f" {part} " in f" {key} " or f" {key} " in f" {part} " for part in parts)
        ]
        whole = [text for text in matches if not any(text is not other and text in other for other in matches)]
        return [one_line(text) for text in whole if not _QUESTION.search(text)]


@dataclass(frozen=True, slots=True)
class _Verdict:
    staged: StagedMemory | None
    cut: tuple[str, ...] = ()
    why: str = ""


@dataclass(frozen=True, slots=True)
class _Writing:
    """One memory that a run wrote, split into sentences."""

    staged: StagedMemory
    fields: FrontmatterFields
    document: MemoryDocument
    sentences: tuple[str, ...]
    old: frozenset[str]
    gone: tuple[str, ...]

    @staticmethod
    def read(staged: StagedMemory) -> "_Writing":
        text, before = staged.text or "", staged.before or ""
        fields, document = frontmatter.parse_fields(text), MemoryDocument(frontmatter.split_frontmatter(text).body)
        old_fields, old = frontmatter.parse_fields(before), parse_document(before).list_sentences()
        sentences = document.list_sentences()
        known = {fold_words(text) for text in (*old, old_fields.title, old_fields.description, *old_fields.cues)}
        gone = tuple(sentence for sentence in old if not any(_is_alike(sentence, new) for new in sentences))
        return _Writing(staged, fields, document, sentences, frozenset(known - {""}), gone)

    @property
    def name_words(self) -> str:
        """Return the words in a new memory's name, or "" if its title and text contain them all."""
        text = f"{self.fields.title} {self.fields.description} {self.document.text}"
        stems = {word[:_STEM] for word in fold_words(text).split()}
        words = fold_words(self.staged.name.rpartition("/")[2].replace("_", " ")).split()
        return "" if self.staged.before is not None or {word[:_STEM] for word in words} <= stems else " ".join(words)

    def list_open(self) -> tuple[str, ...]:
        """Return the memory's new sentences, and a statement for each sentence it lost."""
        head = (self.fields.title, self.fields.description, *self.fields.cues, self.name_words)
        new = [text for text in (*head, *self.sentences) if text and fold_words(text) not in self.old]
        return (*dict.fromkeys(new), *map(_render_dropped, self.gone))

    def trim(self, follows: Collection[str]) -> _Verdict:
        """Cut the unsupported sentences; rejects the memory if that is more than half of it."""

        def fits(text: str) -> bool:
            return not text or text in follows or fold_words(text) in self.old

        refused = [sentence for sentence in self.sentences if not fits(sentence)]
        first = [sentence for sentence in self.document.list_sentences(PartKind.FACT) if sentence not in refused]
        if len(refused) * 2 > len(self.sentences) or not first:
            return _Verdict(None, why=f"{UNTYPED}: “{shorten(one_line((refused or [self.document.text])[0]), 80)}”")
        back = [sentence for sentence in self.gone if _render_dropped(sentence) not in follows]
        body = _add_sentences(MemoryDocument(drop_sentences(self.document, refused)), back)
        title, description = self.fields.title, self.fields.description
        cut = [*refused, *(text for text in (title, description) if not fits(text))]
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
        """Keep only sentences that the user typed literally; the rest need review."""
        typed = [text for text in self.sentences if source.says(text) and fold_words(text) not in self.old]
        typed = list(dict.fromkeys((*typed, *source.find_around(quote))))
        if not typed or self.fields.kind is None:
            return _Verdict(None, why=UNCHECKED)
        try:
            if self.staged.before is not None:
                old = frontmatter.parse_fields(self.staged.before)
                body = _add_sentences(MemoryDocument(frontmatter.split_frontmatter(self.staged.before).body), typed)
                staged = self._write(self.staged.name, old.title, old.description, body, old.cues)
                return _Verdict(staged, (), UNCHECKED)
            title, line = shorten(_strip_end(typed[0]), _TITLE_CHARS), shorten(typed[0], _DESCRIPTION_CHARS)
            folder = self.staged.name[: self.staged.name.rfind("/") + 1]
            staged = self._write(folder + make_slug(title), title, line, " ".join(typed) + "\n", ())
            return _Verdict(staged, (), UNCHECKED)
        except FormatError:
            return _Verdict(None, why=UNCHECKED)

    def _write(self, name: str, title: str, description: str, body: str, cues: tuple[str, ...]) -> StagedMemory:
        """Return the memory with these fields, without any other new frontmatter fields."""
        if description != frontmatter.parse_fields(self.staged.before or "").description:
            check_description(description, self.fields.kind)
        values: dict[str, FieldValue] = {"name": title, "description": description, "cues": cues or None}
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
    """Return the text with the sentences it does not contain yet added to its fact."""
    known = {fold_words(sentence) for sentence in document.list_sentences()}
    new = [sentence for sentence in sentences if fold_words(sentence) not in known]
    return add_to_fact(document, " ".join(new)) if new else document.text


def _is_alike(old: str, new: str) -> bool:
    """Return whether a new sentence rewords an old one, that is, contains most of its words."""
    mine, other = (set(fold_words(text).split()) for text in (old, new))
    return len(mine & other) >= _ALIKE * len(mine)


def _is_talk(text: str) -> bool:
    """Return whether a message certainly contains no paste: a short line that does not ask for work on a text."""
    return len(text) < _TALK_CHARS and "\n" not in text and not compile_any("text_work").search(text)


def _strip_end(sentence: str) -> str:
    return sentence.rstrip(" .。!！;；:：")


# Secrets and shared memories


def doubt_shared(staged: StagedMemory, rules: WriteRules) -> DoubtfulWrite | None:
    """Return a doubt if other people read this memory, otherwise None."""
    return DoubtfulWrite(staged, SHARED) if is_shared(staged.name, rules) else None


def doubt_credentials(staged: StagedMemory, find: Finder | None) -> DoubtfulWrite | None:
    """Return a doubt if this write adds a credential, otherwise None."""
    new = find_new_secrets(staged.text or "", staged.before or "", find)
    return DoubtfulWrite(staged, f"{SECRET}: {'; '.join(render_findings(new))}") if new else None


def mask_doubt(doubt: DoubtfulWrite, find: Finder | None) -> DoubtfulWrite:
    """Return a doubt with credentials masked in its text, reason and quote."""
    text, before = doubt.staged.text or "", doubt.staged.before or ""
    secrets = [text[finding.start : finding.end] for finding in find_new_secrets(text, before, find)]
    staged = doubt.staged
    if secrets:
        name = staged.name if staged.before is not None else _mask_name(staged.name, secrets)
        staged = replace(staged, name=name, text=_mask_file(text, secrets))
    why, quote = (mask_words(mask_values(text, secrets), find) for text in (doubt.why, doubt.quote))
    return DoubtfulWrite(staged, why, quote)


def mask_words(text: str, find: Finder | None) -> str:
    """Return a reason or quote with its secrets masked."""
    return mask(text, (find or find_secrets)(text)) if text else ""


def _mask_file(text: str, secrets: Sequence[str]) -> str:
    """Mask secrets field by field, so that the frontmatter stays valid."""
    fields = frontmatter.parse_fields(text)
    if fields.problem:
        return mask_values(text, secrets)
    changes = {"name": mask_values(fields.title, secrets), "description": mask_values(fields.description, secrets)}
    body = mask_values(frontmatter.split_frontmatter(text).body, secrets)
    return mask_values(frontmatter.replace_body(frontmatter.set_fields(text, changes), body), secrets)


def _mask_name(name: str, secrets: Sequence[str]) -> str:
    """Mask secrets in a name, because names are shown everywhere."""
    folder, slash, leaf = name.rpartition("/")
    for slug in map(make_slug, secrets):
        leaf = re.sub(re.escape(slug), "masked", leaf, flags=re.IGNORECASE)
        # A long title may be cut in the middle of the secret.
        cut = next((end for end in range(len(slug), _TELLING, -1) if leaf.lower().endswith(slug[:end])), 0)
        leaf = f"{leaf[:-cut]}masked" if cut else leaf
    return folder + slash + leaf
