"""Check that the memories a model writes are based on text that the user typed.

Untrusted text can manipulate a model that reads it. So the model sees as little of it as possible (see `by_model`), and its
writes are checked: all sentences that the user did not type literally go into a second request, which contains only the
user's typed text. Sentences that do not follow from it are removed. If these are more than half of a memory, it needs
review.

`conversation.typed` determines what the user typed. Neither model sees sentences in which the agent repeats untrusted text.
"""

import re
import unicodedata
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import cache

from memdir.conversation.typed import TypedMessage
from memdir.errors import FormatError, ReplyError
from memdir.extraction.find import mask_values
from memdir.format import frontmatter
from memdir.format.document import MemoryDocument, PartKind, add_to_fact, drop_sentences, parse_document
from memdir.format.fields import FIELDS, FieldValue, FrontmatterFields, keep_phrases, list_phrases
from memdir.format.frontmatter import check_description, make_slug
from memdir.format.shown import TextVoice, show_fenced, show_text
from memdir.format.when import PATTERN_KEYS, keep_valid, read_when, render_when
from memdir.frozen import dataclass, field, replace
from memdir.language import compile_any, read_file
from memdir.language.dates import load_date_languages
from memdir.language.requests import find_request_languages
from memdir.limits import OPINION_CHARS, OPINION_TOKENS
from memdir.models.prompts import render_prompt
from memdir.models.staged import StagedMemory, make_object
from memdir.records import Message, Model, Request, StopReason, Usage, When
from memdir.store.plan import Finder, is_team
from memdir.store.secrets import find_new_secrets, find_secrets, mask, mask_model, render_findings
from memdir.text import CJK, find_json, fold, fold_words, one_line, shorten

PURPOSE = "second-opinion"
SECRET = "it holds a secret"
SHARED = "others will read it; approve it if they may"
UNTYPED = "nothing you typed says it; approve it only if it is right"
UNASKED = "you did not ask to forget it; approve it if it is to go"
UNCHECKED = "the second check failed, and it is not in your own words; approve it if it is right"
_SCHEMA = make_object({"follow": {"type": "array", "items": {"type": "integer"}}})
_TITLE_CHARS = 60
_DESCRIPTION_CHARS = 140
_ALIKE = 0.6  # share of an old sentence's words that a new one must have to count as a rewording
_TALK_CHARS = 400  # a shorter message surely contains no paste
_STEM = 5  # letters that identify a word in a name
_TELLING_CHARS = 20  # min characters of a text that is recognised as part of another sentence
_TELLING = 5  # max characters of a secret at the end of a name: `ghp` reveals nothing

_DIGITS_MAX = 30  # a longer run of digits is not treated as a number
_TOKEN = re.compile(rf"(?:(?![{CJK}])[^\W_])(?:(?![{CJK}])[\w.@:/%+~'’-])*")
_ADDRESS = re.compile(r"@\w|://|\w{2,}\.(?!(?:js|ts|py|json|ya?ml|toml|sql|css|html)\b)[^\W\d]{2,}|\d\.\d+\.\d")
_DIGITS = re.compile(r"\d+")
_DATE = re.compile(
    r"\b\d{4}-(?:\d\d(?:-\d\d)?|Q[1-4])\b|\d{1,4}\s?[年月日号]|\b(?:20\d\d-?)?[QT][1-4]\b|\b\d{1,2}/\d{1,2}(?:/\d{2,4})?\b"
)
_START = re.compile(r"(?:^|[.!?:;…\n\"“„«(*–—-]\s*)$")  # before the first word of a sentence
_MOMENTS = {"paths": "in the files “{}”", "commands": "at the command “{}”", "content": "at the text “{}”"}

_QUESTION = re.compile(r"[?？]|(?:吗|か)[。\s]*\Z")
_ELLIPSIS = re.compile(r"\s*(?:\[?(?:…|\.\.\.)\]?|\n+)\s*")


@dataclass(frozen=True, slots=True)
class OpinionCase:
    """Sentences for a model to check against the typed text.

    `advice` says how to apply the other sentences, `phrases` are used for recall, and `labels` are file names.
    """

    name: str
    sentences: tuple[str, ...]
    typed: str = ""
    before: str = ""
    advice: frozenset[str] = frozenset()
    phrases: frozenset[str] = frozenset()
    labels: frozenset[str] = frozenset()
    message: str = ""


@dataclass(frozen=True, slots=True)
class SecondOpinion:
    """The sentences of each memory that follow from the typed text."""

    follows: Mapping[str, frozenset[str]]
    usage: Usage = Usage()
    requests: int = 0


@dataclass(frozen=True, slots=True)
class DoubtfulWrite:
    """A write that needs review, with the reason and the quote on which it is based."""

    staged: StagedMemory
    why: str
    quote: str = ""


@dataclass(frozen=True, slots=True)
class Judgement:
    """The checked writes. If sentences were removed, `trimmed` lists them, and `whole` has the text with them."""

    kept: tuple[StagedMemory, ...] = ()
    doubts: tuple[DoubtfulWrite, ...] = ()
    trimmed: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    opinion: SecondOpinion | None = None
    whole: Mapping[str, str] = field(default_factory=dict)


Opine = Callable[[Sequence[OpinionCase]], SecondOpinion | None]


def render_typed(typed: Sequence[TypedMessage]) -> str:
    """Render the conversation for the second check. If it is too long, only the newest messages are included."""
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
    """Ask a model which sentences follow from the typed text. Raises ModelError or ReplyError."""
    statements: list[tuple[str, str]] = []
    parts: list[str] = []
    for case in cases:
        blocks = []
        advice, phrases, labels = case.advice - case.phrases, case.phrases, case.labels - case.advice - case.phrases
        plain = frozenset(case.sentences) - advice - phrases - labels
        groups = (
            ("Statements", plain),
            ("How to apply them", advice),
            ("Search phrases", phrases),
            ("File name", labels),
        )
        for label, group in groups:
            numbered = []
            for sentence in dict.fromkeys(sentence for sentence in case.sentences if sentence in group):
                statements.append((case.name, sentence))
                numbered.append(f"{len(statements)}. {one_line(sentence)}")
            blocks += [f"{label}:\n" + "\n".join(numbered)] if numbered else []
        sources = [f"What they had said before, as it is remembered:\n{case.before.strip()}"] if case.before else []
        sources += [f"Also theirs:\n{case.typed.strip()}"] if case.typed else []
        # Quoted, because a message may have numbered lines too.
        said = show_text(case.message.strip(), TextVoice.SHARED)
        sources += [f"It was found in this message of theirs:\n{said}"] if said else []
        parts.append("\n\n".join([*sources, *blocks]))
    if not statements:
        return SecondOpinion({})
    shown, data = show_fenced(conversation) or "(nothing)", show_fenced("\n\n---\n\n".join(parts))
    content = render_prompt("opinion", today=render_today(now), conversation=shown, cases=data)
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
    """Render the date, weekday and time zone for a prompt."""
    local = now.astimezone() if now.tzinfo is None else now
    return f"{local:%A, %Y-%m-%d, %H:%M} (UTC{local:%z})"


# Names, addresses and numbers that the user did not type


@dataclass(frozen=True, slots=True)
class SaidWords:
    """The word stems, letters and numbers of the user's text, to look up names and numbers in."""

    stems: frozenset[str]
    letters: str
    numbers: frozenset[int]

    @staticmethod
    def read(text: str) -> "SaidWords":
        folded = fold_words(text)
        numbers = {int(digits) for digits in _DIGITS.findall(_join_digits(text)) if len(digits) < _DIGITS_MAX}
        words = set(folded.split())
        numbers |= {
            value for word, value in _load_numbers().items() if word in words or (word in folded and word > "\u2e80")
        }
        return SaidWords(frozenset(word[:_STEM] for word in words), folded.replace(" ", ""), frozenset(numbers))

    def add(self, text: str) -> "SaidWords":
        other = SaidWords.read(text)
        return SaidWords(self.stems | other.stems, f"{self.letters} {other.letters}", self.numbers | other.numbers)


def find_unsaid(text: str, said: SaidWords, *, only_hosts: bool = False) -> list[str]:
    """Return the names, addresses and numbers in a text that the user did not mention, except dates.

    With `only_hosts`, return only addresses. This is used for search phrases, which make no claims.
    """
    is_dated = _compile_said("months").search(text) is not None
    plain = _DATE.sub(" ", text)
    is_title = sum(word[:1].isupper() for word in plain.split()) * 2 > len(plain.split())
    has_common_capitals = is_title or any(language.name == "de" for language in find_request_languages(plain))
    unsaid = []
    for match in _TOKEN.finditer(plain):
        token = match[0].rstrip(".:/-+~'’")
        letters = fold_words(token).replace(" ", "")
        if not letters or letters in said.letters:
            continue
        if _ADDRESS.search(token):
            unsaid.append(token)
        elif only_hosts:
            continue
        elif digits := _DIGITS.findall(_join_digits(token)):
            values = {int(digit) for digit in digits if len(digit) < _DIGITS_MAX}
            spare = said.numbers | {0, 1, 2} | (frozenset(range(32)) if is_dated else frozenset())
            spare |= {hour + 12 for hour in said.numbers} if ":" in token else set()
            is_year = len(digits) == 1 and len(digits[0]) == 4 and digits[0].startswith("20")
            if len(values) < len(set(digits)) or not (values <= spare or is_year):
                unsaid.append(token)
        elif not has_common_capitals and _is_name(plain, match.start(), token):
            parts = re.findall(r"[^\W_]+", token)
            unsaid += [part for part in parts if len(part) > 2 and fold_words(part)[:_STEM] not in said.stems]
    return unsaid


def _is_name(text: str, offset: int, token: str) -> bool:
    """Return whether a capitalised word is a name, judged by its position in the sentence."""
    if not token[0].isupper() or token.isupper() or _START.search(text, 0, offset):
        return False
    is_followed = text[offset + len(token) :].lstrip(" ")[:1].islower()
    return not (is_followed and _compile_said("qualifies").search(text[:offset]))


def _join_digits(text: str) -> str:
    """Remove thousands separators and write out "10k"."""
    text = re.sub(r"(?<=\d)[,.'\u202f\u00a0 ](?=\d{3}(?!\d))", "", unicodedata.normalize("NFKC", text))
    return re.sub(r"(?<=\d)k\b", "000", text, flags=re.IGNORECASE)


@cache
def _load_numbers() -> dict[str, int]:
    small = {
        word: value
        for language in load_date_languages()
        for value, words in enumerate(language.numbers, 1)
        for word in words.split()
    }
    large = {word: int(value) for value, words in read_file("said")["numbers"].items() for word in words.split()}
    return {fold_words(word): value for word, value in {**large, **small}.items()}


@cache
def _compile_said(name: str) -> re.Pattern[str]:
    return re.compile(read_file("said")["words"][name].replace("\n", ""))


# The writes of a run


def judge_staged(
    staged: Sequence[StagedMemory],
    evidence: Mapping[str, str],
    typed: Sequence[TypedMessage],
    opine: Opine,
    *,
    is_asked: Callable[[str], bool],
    requests: Sequence[OpinionCase] = (),
    shared: Collection[str] = (),
) -> Judgement:
    """Decide which of a run's writes to save. `is_asked` returns whether the user asked to forget a text.

    `opine` checks the doubtful sentences and `requests` together. `shared` are normalised sentences of shared memories.
    """
    source = _TypedText.read(typed)
    own = [memory for memory in staged if not is_team(memory.name)]
    written = {memory.name: _Writing.read(memory, source, shared) for memory in own if memory.text is not None}
    gone = {memory.name: render_gone(memory.before or "") for memory in own if memory.text is None}
    asking: list[OpinionCase] = list(requests)
    for memory in staged:
        if memory.name in written and written[memory.name].list_open():
            if written[memory.name].is_carried(evidence.get(memory.name)):
                asking.append(written[memory.name].make_case())
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
        elif not written[memory.name].is_carried(evidence.get(memory.name)):
            doubts.append(DoubtfulWrite(memory, UNTYPED, quote))
        else:
            writing = written[memory.name]
            is_judged = opinion is not None or not writing.list_open()
            verdict = writing.trim(follows, quote) if is_judged else writing.keep_typed(quote)
            if verdict.staged is not None:
                kept.append(verdict.staged)
            if verdict.why:
                doubts.append(DoubtfulWrite(memory, verdict.why, quote))
            elif verdict.cut and verdict.staged is not None:
                trimmed[verdict.staged.name], whole[verdict.staged.name] = verdict.cut, memory.text or ""
    return Judgement(tuple(kept), tuple(doubts), trimmed, opinion, whole)


@dataclass(frozen=True, slots=True)
class _TypedText:
    """The words and sentences that the user typed, without messages that may contain an unmarked paste.

    `said` also includes messages of the agent that the user accepted.
    """

    words: str
    letters: str
    sentences: Mapping[str, str]
    said: SaidWords

    @staticmethod
    def read(typed: Sequence[TypedMessage]) -> "_TypedText":
        own = [message.text for message in typed if _is_talk(message.text)]
        sentences = [sentence for text in own for sentence in MemoryDocument(text).list_sentences()]
        lines = [line for text in own for line in text.splitlines()]
        words = " ¶ ".join(fold_words(message.shown or message.text) for message in typed)
        keys = {key: text for text in (*lines, *sentences) if (key := fold_words(text))}
        replies = [message.reply_to for message in typed if _compile_said("accepts").search(message.text)]
        said = SaidWords.read("\n".join((*(message.text for message in typed), *replies)))
        # A name may come from the agent, as in "the Compose screens", because a name alone makes no claim.
        named = SaidWords.read("\n".join(message.reply_to for message in typed))
        said = replace(said, stems=said.stems | named.stems)
        return _TypedText(f" {words} ", words.replace(" ", ""), keys, said)

    def says(self, sentence: str) -> bool:
        return fold_words(sentence) in self.sentences

    def has_quote(self, quote: str | None) -> bool:
        """Return whether the user typed a quote, which may have gaps. An empty quote matches any text."""
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
    """A memory that a run wrote. `barred` sentences are never accepted; `is_laundered`: it repeats a shared memory."""

    staged: StagedMemory
    source: _TypedText
    fields: FrontmatterFields
    document: MemoryDocument
    sentences: tuple[str, ...]
    old: frozenset[str]
    gone: tuple[str, ...]
    barred: frozenset[str] = frozenset()
    is_laundered: bool = False

    @staticmethod
    def read(staged: StagedMemory, source: _TypedText, shared: Collection[str]) -> "_Writing":
        text, before = staged.text or "", staged.before or ""
        fields, document = frontmatter.parse_fields(text), MemoryDocument(frontmatter.split_frontmatter(text).body)
        old_fields, old = frontmatter.parse_fields(before), parse_document(before).list_sentences()
        sentences = document.list_sentences()
        known = {
            fold_words(text) for text in (*old, old_fields.title, old_fields.description, *list_phrases(old_fields))
        }
        gone = tuple(sentence for sentence in old if not any(_is_alike(sentence, new) for new in sentences))
        writing = _Writing(staged, source, fields, document, sentences, frozenset(known - {""}), gone)
        said = source.said.add(before)
        texts = [text for text in (*writing._list_head(), *sentences) if fold_words(text) not in known]
        alike = (text for text in texts if _is_among(fold_words(text), shared))
        theirs = {text for text in alike if not any(_is_alike(text, typed) for typed in source.sentences.values())}
        phrases = list_phrases(fields)
        return replace(
            writing,
            barred=frozenset({text for text in texts if find_unsaid(text, said, only_hosts=text in phrases)} | theirs),
            is_laundered=not theirs.isdisjoint(sentences),
        )

    @property
    def name_words(self) -> str:
        """Return the words in a memory's new name, or "" if its title and text contain them all."""
        name = self.staged.name if self.staged.before is None else self.staged.renamed
        text = f"{self.fields.title} {self.fields.description} {self.document.text}"
        stems = {word[:_STEM] for word in fold_words(text).split()}
        words = re.findall(r"[^\W_]+", fold(name.rpartition("/")[2]))
        return "" if {fold_words(word)[:_STEM] for word in words} <= stems else " ".join(words)

    def _list_head(self) -> tuple[str, ...]:
        head = (self.fields.title, self.fields.description, *list_phrases(self.fields), self.name_words)
        return tuple(filter(None, head))

    def list_open(self) -> tuple[str, ...]:
        """Return the new sentences of the memory, and a statement for each removed sentence."""
        new = [text for text in (*self._list_head(), *self.sentences) if fold_words(text) not in self.old]
        moments, rule = list_moments(self.staged), render_rule(self.staged)
        return (*dict.fromkeys(new), *moments, *([rule] if rule else []), *map(_render_dropped, self.gone))

    def make_case(self) -> OpinionCase:
        advice = frozenset(self.document.list_sentences(PartKind.HOW))
        phrases, labels = (
            frozenset((*list_phrases(self.fields), *list_moments(self.staged))),
            frozenset({self.name_words} - {""}),
        )
        before = self.staged.before or ""
        return OpinionCase(
            self.staged.name, self.list_open(), before=before, advice=advice, phrases=phrases, labels=labels
        )

    def is_carried(self, quote: str | None) -> bool:
        """Return whether the user typed the quote on which the write is based, or one of the memory's sentences."""
        return self.source.has_quote(quote) or any(map(self.source.says, self.sentences))

    def trim(self, follows: Collection[str], quote: str) -> _Verdict:
        """Remove the unsupported sentences. The memory is rejected if they are more than half of it."""

        def fits(text: str) -> bool:
            return not text or fold_words(text) in self.old or (text in follows and text not in self.barred)

        refused = [sentence for sentence in self.sentences if not fits(sentence)]
        first = [sentence for sentence in self.document.list_sentences(PartKind.FACT) if sentence not in refused]
        body = drop_sentences(self.document, refused)
        if not first and len(refused) < len(self.sentences) and (first := self.source.find_around(quote)):
            body = _add_sentences(MemoryDocument(body), first)  # the rest explains a fact that the user typed
        if len(refused) * 2 > len(self.sentences) or not first:
            return _Verdict(None, why=f"{UNTYPED}: “{shorten(one_line((refused or [self.document.text])[0]), 80)}”")
        # Text from a team memory never replaces the user's own sentence.
        back = [text for text in self.gone if self.is_laundered or _render_dropped(text) not in follows]
        body = _add_sentences(MemoryDocument(body), back)
        title, description = self.fields.title, self.fields.description
        cut = [*refused, *(text for text in (title, description) if not fits(text))]
        if not fits(title):
            title = shorten(_strip_end(first[0]), _TITLE_CHARS)
        if not fits(description):
            description = shorten(first[0], _DESCRIPTION_CHARS)
        name, renamed = self.staged.name, self.staged.renamed
        if not fits(self.name_words) or (self.staged.before is None and not fits(self.fields.title)):
            name = name if renamed else name[: name.rfind("/") + 1] + make_slug(title)
            renamed = ""
        learned = keep_phrases(self.fields, fits) | {"when": render_when(trim_when(self.staged, follows))}
        try:
            staged = self._write(name, title, description, body, learned)
        except FormatError:
            return _Verdict(None, why=UNTYPED)
        return _Verdict(replace(staged, renamed=renamed), tuple(cut))

    def keep_typed(self, quote: str) -> _Verdict:
        """Keep only sentences that the user typed literally, as no model has checked the others, which need review."""
        source = self.source
        typed = [text for text in self.sentences if source.says(text) and fold_words(text) not in self.old]
        typed = list(dict.fromkeys((*typed, *source.find_around(quote))))
        if not typed or self.fields.kind is None:
            return _Verdict(None, why=UNCHECKED)
        try:
            if self.staged.before is not None:
                old = frontmatter.parse_fields(self.staged.before)
                body = _add_sentences(MemoryDocument(frontmatter.split_frontmatter(self.staged.before).body), typed)
                staged = self._write(self.staged.name, old.title, old.description, body, {})
                return _Verdict(staged, (), UNCHECKED)
            title, line = shorten(_strip_end(typed[0]), _TITLE_CHARS), shorten(typed[0], _DESCRIPTION_CHARS)
            folder = self.staged.name[: self.staged.name.rfind("/") + 1]
            staged = self._write(folder + make_slug(title), title, line, " ".join(typed) + "\n", {})
            return _Verdict(staged, (), UNCHECKED)
        except FormatError:
            return _Verdict(None, why=UNCHECKED)

    def _write(
        self, name: str, title: str, description: str, body: str, learned: Mapping[str, FieldValue]
    ) -> StagedMemory:
        """Return the memory with this text and these fields. Other optional fields are as they were before the run."""
        if description != frontmatter.parse_fields(self.staged.before or "").description:
            check_description(description, self.fields.kind)
        values: dict[str, FieldValue] = {"name": title, "description": description, **learned}
        if self.staged.before is None or not frontmatter.split_frontmatter(self.staged.before).opening:
            text = frontmatter.set_fields(
                self.staged.text or "", dict.fromkeys((row.key for row in FIELDS), None) | values
            )
        else:
            kind = self.fields.kind.value if self.fields.kind else None
            text = frontmatter.set_fields(self.staged.before, {**values, **({"type": kind} if kind else {})})
        return replace(self.staged, name=name, renamed="", text=frontmatter.replace_body(text, body))


# New patterns in `when`


def list_moments(staged: StagedMemory) -> dict[str, tuple[str, str]]:
    """Return a phrase that describes each new pattern in `when`, with its key and pattern."""
    before, when = _read_whens(staged)
    new = ((key, one) for key in PATTERN_KEYS for one in getattr(when, key) if one not in getattr(before, key))
    return {_MOMENTS[key].format(one): (key, one) for key, one in new}


def render_rule(staged: StagedMemory) -> str:
    """Return the statement that a memory is a standing rule, or "" unless this write makes it one."""
    before, when = _read_whens(staged)
    rule = one_line(" ".join(parse_document(staged.text or "").list_sentences(PartKind.FACT)))
    return f"This holds always, not only for the task at hand: “{rule}”" if when.always and not before.always else ""


def trim_when(staged: StagedMemory, follows: Collection[str]) -> When:
    """Return the `when` field without unsupported new patterns, and with `enforce` as it was before."""
    before, when = _read_whens(staged)
    refused = {moment for phrase, moment in list_moments(staged).items() if phrase not in follows}
    lists = {key: [one for one in getattr(when, key) if (key, one) not in refused] for key in PATTERN_KEYS}
    always = when.always and (before.always or render_rule(staged) in follows)
    kept = keep_valid(read_when({"always": always, **lists})) or When()
    enforce = before.enforce if kept.commands or kept.content else None
    return replace(kept, always=False if before.always is False else kept.always, enforce=enforce)  # the user set False


def _read_whens(staged: StagedMemory) -> tuple[When, When]:
    return frontmatter.parse_fields(staged.before or "").when, frontmatter.parse_fields(staged.text or "").when


def render_gone(before: str, about: str = "") -> str:
    """Return the statement that a memory or a subject should be forgotten."""
    fields = frontmatter.parse_fields(before)
    about = about or ": ".join(part for part in (fields.title, fields.description) if part)
    return f"They want this forgotten, or say that it is no longer so: “{about}”"


def _render_dropped(sentence: str) -> str:
    return f"This is no longer so, or is to be left out: “{sentence}”"


def _add_sentences(document: MemoryDocument, sentences: Sequence[str]) -> str:
    """Return the text with the sentences added that it does not contain yet."""
    known = {fold_words(sentence) for sentence in document.list_sentences()}
    new = [sentence for sentence in sentences if fold_words(sentence) not in known]
    return add_to_fact(document, " ".join(new)) if new else document.text


def _is_alike(old: str, new: str) -> bool:
    """Return whether a new sentence contains most words of an old one."""
    mine, other = (set(fold_words(text).split()) for text in (old, new))
    return len(mine & other) >= _ALIKE * len(mine)


def _is_among(words: str, sentences: Collection[str]) -> bool:
    """Return whether a text equals, contains or is part of one of the sentences. Very short texts never match."""
    return words in sentences or any(
        min(len(words), len(one)) >= _TELLING_CHARS and (f" {one} " in f" {words} " or f" {words} " in f" {one} ")
        for one in sentences
    )


def _is_talk(text: str) -> bool:
    """Return whether a message cannot contain a paste, because it is short and does not ask for work on a text."""
    return len(text) < _TALK_CHARS and "\n" not in text and not compile_any("text_work").search(text)


def _strip_end(sentence: str) -> str:
    return sentence.rstrip(" .。!！;；:：")


# Secrets and shared memories


def doubt_credentials(staged: StagedMemory, find: Finder | None) -> DoubtfulWrite | None:
    """Return a doubt if a write adds a credential, otherwise None."""
    new = find_new_secrets(staged.text or "", staged.before or "", find)
    return DoubtfulWrite(staged, f"{SECRET}: {'; '.join(render_findings(new))}") if new else None


def mask_doubt(doubt: DoubtfulWrite, find: Finder | None) -> DoubtfulWrite:
    """Return a doubt with the credentials in its text, reason and quote masked."""
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
    """Mask the secrets in a file, keeping its frontmatter valid."""
    fields = frontmatter.parse_fields(text)
    if fields.problem:
        return mask_values(text, secrets)
    changes = {"name": mask_values(fields.title, secrets), "description": mask_values(fields.description, secrets)}
    body = mask_values(frontmatter.split_frontmatter(text).body, secrets)
    return mask_values(frontmatter.replace_body(frontmatter.set_fields(text, changes), body), secrets)


def _mask_name(name: str, secrets: Sequence[str]) -> str:
    folder, slash, leaf = name.rpartition("/")
    for slug in map(make_slug, secrets):
        leaf = re.sub(re.escape(slug), "masked", leaf, flags=re.IGNORECASE)
        # A long title may be cut in the middle of the secret.
        cut = next((end for end in range(len(slug), _TELLING, -1) if leaf.lower().endswith(slug[:end])), 0)
        leaf = f"{leaf[:-cut]}masked" if cut else leaf
    return folder + slash + leaf
