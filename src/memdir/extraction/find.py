"""What a conversation asks to remember or to forget, found by patterns in six languages, without a model.

    message --plain part--> sentences --rules of its languages--> matches --joined, worded--> requests

Precision comes first: a memory that nobody wanted costs more trust than one that is missing. A sentence must say it in the
right position, mean it for good and not for the task at hand; a question, a quotation, a supposition or a report asks
nothing. What was quoted or pasted is not read (`spans`), nor are lines of code and logs, a letter or a chat between
others, and a text that was handed over to be worked on. What memory already holds is not known here (`merge`).
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from memdir.errors import FormatError
from memdir.extraction.spans import split_message
from memdir.extraction.word import guess_request_kind, tidy, word_memory
from memdir.frozen import dataclass, replace
from memdir.language.dates import make_absolute
from memdir.language.ignore import IgnoreReach, find_ignoring
from memdir.language.requests import (
    RequestCategory,
    RequestLanguage,
    RequestRule,
    RuleNeed,
    compile_pattern,
    find_request_languages,
    find_starts,
    has,
    load_request_languages,
    may_fit,
    skip_interjections,
    starts,
)
from memdir.language.words import Sentence, compile_any, count_content, split_items, split_sentences
from memdir.records import Draft, Kind, Message
from memdir.store.inbox import MASK
from memdir.store.secrets import find_secrets
from memdir.text import shorten

SAVE = "save"
FORGET = "forget"
_HINT = 'say what is so, or what to do: "the staging db is reset every Sunday", "no emoji in commit messages"'
_REASONS = {
    RequestCategory.REQUEST: "asked for",
    RequestCategory.CORRECTION: "a correction of the way of working",
    RequestCategory.CONFIRMATION: "praise for a way of working",
    RequestCategory.IDENTITY: "who the user is",
    RequestCategory.DEADLINE: "a date to be kept",
    RequestCategory.DECISION: "a decision",
    RequestCategory.POINTER: "where to look outside the project",
    RequestCategory.FORGET: "asked to forget",
}
_WORKING = (RequestCategory.REQUEST, RequestCategory.CORRECTION, RequestCategory.CONFIRMATION, RequestCategory.IDENTITY)

_LEAD_LINES = 3
_CHAT = re.compile(
    r"\s*(?:\[?\d{1,2}:\d\d\]? ?)?(?!note|rule|remember|important)[a-z][\w.-]{1,15}:\s+\S", re.IGNORECASE
)
_LOG = re.compile(r"\s*(?:\[?(?:WARN|ERROR|INFO|DEBUG|FATAL|TRACE)\b|npm (?:WARN|ERR)|//|#include|#\s|\$ |Traceback)")
_TOKEN = re.compile(r"[!-~]{24,}")  # a key or an address: letters, but of no language
# What the code, its layout or its history say, or how something was fixed, is not worth keeping even if asked for.
_SOURCE = (
    r"(?:py|pyi|js|jsx|ts|tsx|mjs|go|rs|java|rb|c|cc|cpp|h|hpp|cs|php|kt|swift|scala|ex|toml|ya?ml|json|cfg|ini|lock|"
    r"css|scss|html|sql|sh)"
)
_DERIVABLE = re.compile(
    rf"(?<![\w/:.@-])(?:[\w.-]+/)*[\w-]+\.{_SOURCE}\b(?![/.]\w)|\bcommit [0-9a-f]{{7,40}}\b|\b\w+\(\)|"
    r"\b(?:PR|pull request|issue|ticket) #?\d+ (?:fixed|introduced|added|removed)\b|"
    r"\b(?:class|function|method|interface|struct|enum|module|component|hook)\b.{0,30}\b(?:inherits|extends|"
    r"implements|returns|takes|calls|wraps)\b|\b(?:[A-Z][a-z]+){2,}\b.{0,20}\b(?:inherits|extends|implements|returns|"
    r"is an? (?:singleton|subclass|interface|abstract|class|function|method))\b"
)
_RECORDED = re.compile(
    r"\bcommit [0-9a-f]{7,40}\b|\b(?:in|see|from) (?:the )?(?:package\.json|pyproject\.toml|cargo\.toml|go\.mod|"
    r"pom\.xml)\b",
    re.IGNORECASE,
)
_RECIPE = re.compile(r"(?:the )?(?:fix|solution|workaround)(?:\s*:| (?:is|was) to\b)", re.IGNORECASE)

_LONG = 1200  # a longer message is mostly material: only what asks for memory in so many words counts in it
_SENTENCE = 500  # a longer one was not typed as one
_CONTENT = 600
_SHORT = 60
_WORD_OR_TWO = 16  # "Always." after a sentence belongs to it
_POINTING = 6  # words of a sentence that says nothing without the one before it
_NEAR = 200  # characters of a sentence that another may point back to
_FOLLOWING = 160  # and of one that belongs to the correction before it
_SAYING = 3  # words of a sentence that says something
_ITEMS = 8  # of a list
_REQUESTS = 8  # of one message
_BEFORE = 240  # characters of the agent's message
_PRAISED = 4  # words beside the praise itself, to count as saying what for


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """One thing a person wants remembered or forgotten, worded as a memory, with their own words beside it."""

    category: RequestCategory
    action: str
    kind: Kind | None
    title: str
    description: str
    body: str
    quote: str
    message: str = ""
    at: datetime | None = None
    language: str = ""
    hides: str = ""  # what secret was removed from its words

    @property
    def is_explicit(self) -> bool:
        return self.category in (RequestCategory.REQUEST, RequestCategory.FORGET)

    @property
    def why(self) -> str:
        """For people."""
        return _REASONS[self.category]

    @property
    def target(self) -> str:
        """What is to be forgotten."""
        return self.body if self.action == FORGET else ""


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """A rule that fits a sentence: from sentence `first` to `last`, and the content as it was said.

    `points` says that it means the agent's message before it ("never do that again").
    """

    rule: RequestRule
    language: RequestLanguage
    first: int
    last: int
    content: str
    points: bool = False


@dataclass(frozen=True, slots=True)
class MessageContext:
    """What surrounds a message: an agent's message before it, whether it is mostly material, and its day."""

    answered: bool
    is_long: bool
    now: datetime


def find_requests(messages: Sequence[Message], *, now: datetime) -> tuple[MemoryRequest, ...]:
    """All that the user's messages ask for, in order; the assistant's message before one gives a confirmation content.

    What holds a secret is left out.
    """
    return tuple(request for request in _read_messages(messages, now) if not request.hides)


def find_hidden_requests(messages: Sequence[Message], *, now: datetime) -> tuple[MemoryRequest, ...]:
    """What was plainly asked to be kept and holds a secret, in words without it: a person has to decide about those."""
    return tuple(at for at in _read_messages(messages, now) if at.hides and at.is_explicit and at.action == SAVE)


def compose_memory(text: str, *, now: datetime, kind: Kind | None = None, secrets: bool = False) -> Draft:
    """A draft of what somebody typed, with a cue ("remember that…") or without one; FormatError if it tells nothing.

    With `secrets` one that holds a secret is not refused, but the value stands in the body alone: titles and
    descriptions are shown in lists, and become the names of files.
    """
    if secrets and (values := _find_secret_values(text)):
        draft = _compose(mask_values(text, values), now, kind)
        return replace(draft, body=_compose(text, now, draft.kind).body)
    if holds_secret(text):
        raise FormatError(
            "this looks like a password or a key", field="body", hint="keep it in a password manager, remember where"
        )
    return _compose(text, now, kind)


def is_forgetting(text: str, *, now: datetime) -> bool:
    """Whether the text asks to forget something."""
    return any(request.action == FORGET for request in find_requests([Message("user", text)], now=now))


def is_question(text: str, language: RequestLanguage) -> bool:
    if has(language.tags, text) and not starts(language.questions, text):
        return False
    return text.rstrip(" )\"'”」").endswith(("?", "？")) or starts(language.questions, text)


def holds_secret(text: str) -> bool:
    return bool(find_secrets(text)) or compile_any("secret_number").search(text) is not None


def _compose(text: str, now: datetime, kind: Kind | None) -> Draft:
    asked = [request for request in find_requests([Message("user", text)], now=now) if request.action == SAVE]
    sentences = split_sentences(text)
    if len(asked) == 1 and len(sentences) == 1 and asked[0].kind is not None:
        return Draft(kind or asked[0].kind, asked[0].title, asked[0].description, asked[0].body)
    language = next(iter([*find_request_languages(text), load_request_languages()[0]]))
    guess = kind or guess_request_kind(text, language, Kind.PROJECT)
    lines = "\n".join(sentence.text for sentence in sentences)
    worded = word_memory(lines, language, guess, now, asked=starts(language.prefers, text.strip()))
    if worded is None:
        raise FormatError("there is nothing in it that recall could find again", field="body", hint=_HINT)
    return Draft(guess, worded.title, worded.description, worded.body)


def _find_plain(text: str) -> str:
    """The person's own words; a quotation inside a line leaves a mark, a pasted block a line end."""
    spans = ((span.text if span.plain else "\n" if "\n" in span.text else " … ") for span in split_message(text))
    lines = _cut_letter("".join(spans).splitlines())
    kept: list[str] = []
    for number, line in enumerate(lines):
        if _LOG.match(line):
            continue
        more = not line.strip() and any(lines[number:]) and len(kept) <= _LEAD_LINES
        if more and _hands_over(" ".join(kept)):
            break
        kept.append(line)
    return "\n".join(kept)


def _cut_letter(lines: list[str]) -> list[str]:
    """Up to where a letter, or a chat between others, begins."""
    chat = [number for number, line in enumerate(lines) if _CHAT.match(line)]
    found = [number for number, line in enumerate(lines) if compile_any("greeting").match(line)]
    found += chat[:1] if len(chat) > 1 else []
    return lines[: min(found)] if found and min(found) > 0 else lines


def _hands_over(text: str) -> bool:
    """Whether a text asks to work on another that follows it."""
    named = text.rstrip().endswith((":", "：")) or compile_any("handed_text").search(text)
    return bool(named and compile_any("hands_over").search(text))


def _find_secret_values(text: str) -> tuple[str, ...]:
    """What in a text may not be repeated, the longest first: a part of one may be another."""
    numbers = {at["value"] for at in compile_any("secret_number").finditer(text)}
    return tuple(sorted({text[at.start : at.end] for at in find_secrets(text)} | numbers, key=len, reverse=True))


def mask_values(text: str, values: Sequence[str]) -> str:
    for value in values:
        text = text.replace(value, MASK)
    return text


def _match_rules(
    sentences: Sequence[Sentence], languages: Sequence[RequestLanguage], context: MessageContext
) -> Iterator[RuleMatch]:
    """What each sentence says, in the first language in which a rule matches."""
    for number, sentence in enumerate(sentences):
        following = sentences[number + 1].hidden if number + 1 < len(sentences) else ""
        for language in languages:
            found = list(_match_sentence(sentence, following, number, language, context))
            if found:
                yield from found
                break


def _match_sentence(
    sentence: Sentence, following: str, number: int, language: RequestLanguage, context: MessageContext
) -> Iterator[RuleMatch]:
    """The first rule that fits; after a date there may also be a pointer in a later clause."""
    text = sentence.hidden
    asks = is_question(text, language) and not starts(language.begs, text)
    unfit = text.startswith(("(", "（")) or len(sentence.text) > _SENTENCE or (asks and not has(language.asks, text))
    if unfit or not may_fit(language, text):
        return
    whole, places = find_starts(text, language)
    for rule in language.rules:
        if not _may_be_tried(rule, asks, context):
            continue
        found = _match(rule, text, [whole] if RuleNeed.WHOLE in rule.needs else places)
        if not found or has(language.reported, text[: found.start()]):
            continue
        content = _find_content(rule, language, sentence, found, whole, context)
        if not _is_meant(rule, language, sentence, content, following, context.now, found.start()):
            continue
        yield RuleMatch(rule, language, number, number, content[:_CONTENT])
        if rule.category is RequestCategory.DEADLINE:  # "…, findings go into Jira"
            for pointer in (at for at in language.rules if at.category is RequestCategory.POINTER):
                if later := _match(pointer, text, [at for at in places if at]):
                    yield RuleMatch(pointer, language, number, number, sentence.text[later.start() :].strip())
                    break
        return


def _may_be_tried(rule: RequestRule, asks: bool, context: MessageContext) -> bool:
    strong = RuleNeed.STRONG in rule.needs
    if (context.is_long and not strong) or (RuleNeed.ANSWERED in rule.needs and not context.answered):
        return False
    return not asks or strong or RuleNeed.LASTING in rule.needs


def _match(rule: RequestRule, text: str, places: Sequence[int]) -> re.Match[str] | None:
    pattern = compile_pattern(rule.pattern)
    return next((found for place in places if (found := pattern.match(text, place))), None)


def _find_content(
    rule: RequestRule,
    language: RequestLanguage,
    sentence: Sentence,
    found: re.Match[str],
    whole: int,
    context: MessageContext,
) -> str:
    text = sentence.hidden
    start, end = found.span("what") if found.re.groups else found.span()
    if rule.category is not RequestCategory.FORGET and start < end:
        # A cue that holds a negation is kept: to lose one is to keep the opposite.
        start = found.start() if _is_negative(text[found.start() : start], language) else start
        end = found.end() if _is_negative(text[end : found.end()], language) else end
    plain = RuleNeed.STRONG not in rule.needs
    feedback = Kind.FEEDBACK in (rule.kind, rule.default)
    if plain and starts(language.pronouns, text[start:]) and found.start() > whole:
        start = whole  # "I hate mocks, never use them": what "them" means stands before it
    # An order for good in a later clause of an answer: what is before it says what it is about.
    later = context.answered and plain and feedback and found.start() == start
    if rule.category is RequestCategory.CORRECTION or (later and 0 < start < _SHORT and "," in text[:start]):
        start = skip_interjections(text, language)
    elif feedback and found.start() > whole and compile_any("rule_scope").match(text[whole:]):
        start = whole  # "in commit messages, always…": where it holds belongs to it
    elif rule.kind is Kind.FEEDBACK and compile_any("condition").match(text[whole:]):
        start = whole  # "if you change the schema, always…": the condition belongs to it
    return sentence.text[start:end].strip()


def _is_negative(cue: str, language: RequestLanguage) -> bool:
    """ "Don't forget that" is the exception: its negation turns only the forgetting round."""
    return has(language.negates, cue) and compile_any("forgetting").search(cue) is None


def _is_meant(
    rule: RequestRule,
    language: RequestLanguage,
    sentence: Sentence,
    content: str,
    following: str,
    now: datetime,
    begin: int,
) -> bool:
    text, category = sentence.hidden, rule.category
    # "rename it, and from now on…": the task is not meant
    own = text[begin:] if RuleNeed.LASTING in rule.needs else text
    dated = category in (RequestCategory.DECISION, RequestCategory.DEADLINE)
    if (
        (not dated and category is not RequestCategory.POINTER and has(language.states, text))
        or (category in _WORKING and RuleNeed.STRONG not in rule.needs and _is_task(own, language))
        or ((dated or category is RequestCategory.CORRECTION) and compile_any("private_life").search(text))
        or compile_any("put_away").search(text)
        or (dated and compile_any("code_part").search(text))
        or (RuleNeed.LASTING in rule.needs and starts(language.idle, tidy(content, language)))
        or (RuleNeed.SOUND in rule.needs and has(language.ails, content))
        or (RuleNeed.GENERAL in rule.needs and not _is_general(text, following, language))
    ):
        return False
    has_date = RuleNeed.DATED not in rule.needs or compile_any("date").search(sentence.text)
    return bool(has_date or make_absolute(sentence.text, now)[1])


def _is_task(text: str, language: RequestLanguage) -> bool:
    """Whether only the work at hand is meant."""
    return has(language.tasks, compile_pattern(language.widens).sub(" ", text) if language.widens else text)


def _is_general(text: str, following: str, language: RequestLanguage) -> bool:
    """Whether it is meant for good, by its own words or by a short sentence after it: "Always.", "that's our rule"."""
    if has(language.general, text) or has(language.vouches, text):
        return True
    says_so = len(following) <= _WORD_OR_TWO and has(language.general, following)
    return says_so or (len(following) <= _SHORT and has(language.vouches, following))


def _join(matches: Sequence[RuleMatch], sentences: Sequence[Sentence], answered: bool) -> list[RuleMatch]:
    """Each match with all that belongs to it; what points at nothing is left out."""
    joined: list[RuleMatch] = []
    matched = {at.first for at in matches}
    for at in matches:
        last = joined[-1] if joined else None
        if last and last.last >= at.first and at.rule.category is not RequestCategory.POINTER:
            continue
        if last and _belongs_to(at, last):
            joined[-1] = replace(last, last=at.first, content=f"{last.content}\n{at.content}")
        elif last and _spans(at, last, sentences):
            between = sentences[at.first - 1].text
            joined[-1] = replace(last, last=at.first, content=f"{last.content}\n{between}")
        elif not _is_misplaced(at, sentences):
            whole = _complete(at, last, sentences, answered)
            joined += [_extend(whole, sentences, matched)] if whole else []
    return joined


def _belongs_to(at: RuleMatch, last: RuleMatch) -> bool:
    """Whether it only goes on with what matched in the sentence before."""
    if last.last != at.first - 1 or last.rule.category is RequestCategory.FORGET:
        return False
    if last.rule.category is RequestCategory.CORRECTION and at.rule.category is RequestCategory.CORRECTION:
        return True  # one correction, in as many sentences as it takes
    same = last.rule.category is at.rule.category and at.rule.kind is Kind.FEEDBACK
    return _points_back(at) or (same and has(at.language.refers, tidy(at.content, at.language)))


def _spans(at: RuleMatch, last: RuleMatch, sentences: Sequence[Sentence]) -> bool:
    """Whether it means all that was ordered before it: "ask first. don't guess. that goes for everything"."""
    follows = last.last == at.first - 2 and last.rule.category is not RequestCategory.FORGET
    return follows and _points_back(at) and _is_directing(sentences[at.first - 1], at.language)


def _is_misplaced(at: RuleMatch, sentences: Sequence[Sentence]) -> bool:
    if RuleNeed.ALONE in at.rule.needs and not has(at.language.lasts, sentences[at.first].hidden):
        # "keep in mind" may belong to an order: "write a story, keep in mind who reads it"
        others = [one.hidden for number, one in enumerate(sentences) if number != at.first]
        if any(starts(at.language.orders, one) or is_question(one, at.language) for one in others):
            return True
    directed = at.first and _is_directing(sentences[at.first - 1], at.language)
    return RuleNeed.DIRECTING in at.rule.needs and not directed


def _points_back(at: RuleMatch) -> bool:
    content = tidy(at.content, at.language)
    return at.rule.category is not RequestCategory.FORGET and (not content or starts(at.language.pronouns, content))


def _complete(at: RuleMatch, last: RuleMatch | None, sentences: Sequence[Sentence], answered: bool) -> RuleMatch | None:
    """What it points back to put before it; None if that is nothing, or the task at hand."""
    if not _points_back(at):
        return _lead_in(at, last, sentences)
    if last and last.last == at.first - 1:
        return replace(at, content=f"{tidy(last.content, last.language)}\n{at.content}")
    if at.rule.category is RequestCategory.CONFIRMATION:
        return at
    if at.first:
        previous = sentences[at.first - 1]
        passes = _is_task(previous.hidden, at.language) and RuleNeed.LASTING not in at.rule.needs
        if len(previous.text) >= _NEAR or passes:
            return None
        return replace(at, first=at.first - 1, content=f"{_strip_leads(previous, at.language)}\n{at.content}")
    if not 0 < len(tidy(at.content, at.language).split()) <= _POINTING:
        return at
    return replace(at, points=True) if answered else None


def _lead_in(at: RuleMatch, last: RuleMatch | None, sentences: Sequence[Sentence]) -> RuleMatch:
    """A correction with the complaint before it, which says what it is about: "no more mocks. They lie." """
    if at.rule.category is not RequestCategory.CORRECTION or at.first <= (last.last + 1 if last else 0):
        return at
    previous = sentences[at.first - 1]
    said = _strip_leads(previous, at.language)
    refers = has(at.language.refers, tidy(at.content, at.language)) or starts(at.language.negates, said)
    passes = is_question(previous.hidden, at.language) or _is_task(previous.hidden, at.language)
    if passes or not refers or len(said) > _FOLLOWING or len(said.split()) < _SAYING:
        return at
    return replace(at, first=at.first - 1, content=f"{said}\n{at.content}")


def _is_directing(sentence: Sentence, language: RequestLanguage) -> bool:
    text = sentence.hidden
    places = (skip_interjections(text, language), find_starts(text, language)[0])
    passes = _is_task(text, language) or is_question(text, language)
    return not passes and any(starts(language.directs, text[place:]) for place in places)


def _extend(at: RuleMatch, sentences: Sequence[Sentence], matched: set[int]) -> RuleMatch:
    """With the list or the sentence after it, if that belongs to it."""
    after = at.last + 1
    corrects = at.rule.category is RequestCategory.CORRECTION
    if after >= len(sentences) or (after in matched and not corrects):
        return at
    if at.content.rstrip().endswith((":", "：")) or not tidy(at.content, at.language):
        items = [sentences[after].text]
        for sentence in sentences[after + 1 : after + _ITEMS]:
            if not sentence.bullet:
                break
            items.append(sentence.text)
        numbered = " ".join(f"{number}) {item}" for number, item in enumerate(items, 1))
        return replace(at, last=at.last + len(items), content=numbered if len(items) > 1 else items[0])
    following = sentences[after]
    if not corrects or len(following.text) > _FOLLOWING or is_question(following.hidden, at.language):
        return at
    if _is_task(following.hidden, at.language) or not starts(at.language.goes_on, following.hidden):
        return at
    return replace(at, last=after, content=f"{at.content}\n{following.text}")


def _strip_leads(sentence: Sentence, language: RequestLanguage) -> str:
    """The sentence without the interjections before it: only those that a comma or the like sets apart."""
    return sentence.text[skip_interjections(sentence.hidden, language) :].strip(" .!,。！，、")


def _read_messages(messages: Sequence[Message], now: datetime) -> list[MemoryRequest]:
    found: list[MemoryRequest] = []
    before: str | None = None
    for message in messages:
        if message.role == "assistant" and message.text.strip():
            before = message.text
        if message.role == "user" and not message.is_meta:
            found += _read_message(message, before, message.at or now)
    return found


def _read_message(message: Message, before: str | None, now: datetime) -> list[MemoryRequest]:
    languages = find_request_languages(_TOKEN.sub(" ", message.text))
    if not any(may_fit(language, at.hidden) for at in split_sentences(message.text) for language in languages):
        return []
    if find_ignoring(message.text) in (IgnoreReach.TURN, IgnoreReach.CONVERSATION):
        return []
    sentences = split_sentences(_find_plain(message.text))
    if any(has(language.refusals, at.hidden) for language in languages for at in sentences):
        return []
    plays = any(starts(language.plays, at.hidden) for language in languages for at in sentences)
    context = MessageContext(before is not None, plays or sum(len(at.text) for at in sentences) > _LONG, now)
    matches = _join(list(_match_rules(sentences, languages, context)), sentences, context.answered)
    requests: dict[tuple[bool, str], MemoryRequest] = {}
    for at in matches:
        for request in _make_requests(at, sentences, before or "", message, now):
            requests.setdefault((bool(request.hides), f"{request.action} {request.body.casefold()}"), request)
    parts = ([at for (hides, _), at in requests.items() if hides is wanted] for wanted in (False, True))
    return [request for part in parts for request in part[:_REQUESTS]]


def _make_requests(
    at: RuleMatch, sentences: Sequence[Sentence], before: str, message: Message, now: datetime
) -> Iterator[MemoryRequest]:
    quote = " ".join(sentence.text for sentence in sentences[at.first : at.last + 1])
    content, praised = at.content, ""
    if at.rule.category is RequestCategory.CONFIRMATION:
        content, praised = _find_praised(at, sentences, before)
    elif at.points:
        praised = shorten(split_sentences(before)[0].text, _BEFORE)
    for part in split_items(content) if RuleNeed.STRONG in at.rule.needs else [content]:
        if holds_secret(f"{quote}\n{part}\n{praised}"):
            yield from _hide(at, part, praised, quote, message, now)
            continue
        request = _make_request(at, part, praised, quote, message, now)
        if request is not None and not holds_secret(request.body):
            yield request


def _hide(
    at: RuleMatch, part: str, praised: str, quote: str, message: Message, now: datetime
) -> Iterator[MemoryRequest]:
    """A request without its secret; where nothing telling is left of one, a request that says so."""
    said = f"{quote}\n{part}\n{praised}"
    kinds = [f"{found.what} ({found.rule})" for found in find_secrets(said)] or ["a number that opens something"]
    secrets, values = ", ".join(dict.fromkeys(kinds)), _find_secret_values(said)
    part, praised, quote = (mask_values(text, values) for text in (part, praised, quote))
    request = _make_request(at, part, praised, quote, message, now)
    if request is not None:
        yield replace(request, hides=secrets)
    elif at.rule.category is RequestCategory.REQUEST:
        title, about = "A request with a secret", f"Something that was to be remembered and held {secrets}"
        ends = quote, quote, message.id, message.at
        yield MemoryRequest(at.rule.category, SAVE, Kind.PROJECT, title, about, *ends, hides=secrets)


def _make_request(
    at: RuleMatch, content: str, praised: str, quote: str, message: Message, now: datetime
) -> MemoryRequest | None:
    category, language = at.rule.category, at.language
    said = tidy(content, language)
    ends = quote, message.id, message.at, language.name
    if category is RequestCategory.FORGET:
        target = shorten(compile_any("forget_end").split(said.split("\n")[0])[0].rstrip(".!。！ "), 200)
        kind = guess_request_kind(content, language, Kind.PROJECT)
        title = shorten(target, 60)
        return MemoryRequest(category, FORGET, kind, title, target, target, *ends) if len(target) > 1 else None
    kind = at.rule.kind or guess_request_kind(content, language, at.rule.default)
    # A rule may name a source file; a fact that does is in the project already.
    derivable = kind is not Kind.FEEDBACK and (_DERIVABLE.search(said) or _RECIPE.match(said))
    if derivable or _RECORDED.search(said):
        return None
    asked = RuleNeed.STRONG in at.rule.needs
    worded = word_memory(content, language, kind, now, quote=quote, praised=praised, asked=asked)
    if worded is None:
        return None
    return MemoryRequest(category, SAVE, kind, worded.title, worded.description, worded.body, *ends)


def _find_praised(at: RuleMatch, sentences: Sequence[Sentence], before: str) -> tuple[str, str]:
    """What the praise is for: the person's own words if they name it, else the start of the agent's message too."""
    language = at.language
    said = "\n".join(
        stripped
        for one in sentences
        if not is_question(one.hidden, language) and not has(language.tasks, one.hidden)
        if (stripped := _strip_leads(one, language))
    )
    named = count_content(compile_pattern(language.praise).sub(" ", said.replace("\n", " "))).telling
    if named >= _PRAISED or not before.strip():
        return said, ""
    return (said if named else at.content), shorten(split_sentences(before)[0].text, _BEFORE)
