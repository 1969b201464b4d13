"""What a person asks to remember or to forget, and plain statements worth keeping, found by patterns in six languages.

    message --typed part--> sentences --patterns of its languages--> matches --> requests

Precision comes first: a question, a quotation, a supposition, a report or the task at hand asks nothing. The sentence is
kept as it was said, with its reason; only relative dates become absolute where they are certain, and title and description
are taken from it. What memory already holds is not known here (`merge`).
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import takewhile

from memdir.conversation.typed import is_by_person, split_typed
from memdir.errors import FormatError
from memdir.format.frontmatter import check_description
from memdir.frozen import dataclass, replace
from memdir.language import compile_any, count_content
from memdir.language.dates import make_absolute
from memdir.language.requests import (
    IgnoreReach,
    RequestCategory,
    RequestLanguage,
    compile_pattern,
    find_ignoring,
    find_request_languages,
    find_starts,
    has,
    is_question,
    load_request_languages,
    starts,
)
from memdir.language.sentences import Sentence, split_items, split_sentences
from memdir.records import Draft, Kind, Message
from memdir.store.inbox import MASK
from memdir.store.secrets import find_secrets
from memdir.text import one_line, shorten

SAVE = "save"
FORGET = "forget"
_HINT = 'say what is so, or what to do: "the staging db is reset every Sunday", "no emoji in commit messages"'
SURPRISING = "what was surprising about it? Say that instead"
_EXPLICIT = (RequestCategory.FORGET, RequestCategory.REQUEST, RequestCategory.ORDER)
_WAYS = (RequestCategory.ORDER, RequestCategory.PREFERENCE)
_WHOLE = (RequestCategory.POINTER, RequestCategory.PLAN, RequestCategory.FACT)  # not in a later clause
_KINDS = {
    **dict.fromkeys(_WAYS, Kind.FEEDBACK),
    **dict.fromkeys((RequestCategory.PLAN, RequestCategory.FACT), Kind.PROJECT),
    RequestCategory.IDENTITY: Kind.USER,
    RequestCategory.POINTER: Kind.REFERENCE,
}
_SAID = "What the person said: "  # before a description of which one word is all there is to say: "I'm vegan"

_TOKEN = re.compile(r"[!-~]{24,}")  # a key or an address: letters, but of no language
_CODE = re.compile(r"[(（]|//|#|\$ |\[(?:WARN|ERROR|INFO)|Traceback")
_SENTENCE = 500  # a longer one was not typed as one
_NEAR = 200  # characters of a sentence that another may point back to
_ITEMS = 8  # of a list
_REQUESTS = 8  # of one message
_DESCRIPTION = 140
_TITLE_WORDS, _TITLE_CHARS, _TITLE_CJK = 5, 56, 24
_CLAUSE_END = re.compile(r"\s*(?:[,;—–(，、；：（。\n]|[:.](?=\s|$)|\s-\s)\s*")
_WORD = re.compile(r"[^\s,;!?()\[\]\"“”„«»「」『』]+")
_DATE = re.compile(r"\b\d{4}-(?:\d\d(?:-\d\d)?|Q[1-4])\b")


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """One thing a person wants remembered or forgotten, as a memory, with their own words beside it."""

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
        return self.category in _EXPLICIT

    @property
    def why(self) -> str:
        return "asked for" if self.is_explicit else f"said in passing ({self.category})"

    @property
    def target(self) -> str:
        """What is to be forgotten."""
        return self.body if self.action == FORGET else ""


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """A pattern that fits a sentence: the content as it was said, its subject, and the whole of what was said."""

    category: RequestCategory
    language: RequestLanguage
    content: str
    about: str
    quote: str


def find_requests(messages: Sequence[Message], *, now: datetime) -> tuple[MemoryRequest, ...]:
    """All that the user's messages ask for or state, in order. What holds a secret is left out."""
    return tuple(request for request in _read_messages(messages, now) if not request.hides)


def find_hidden_requests(messages: Sequence[Message], *, now: datetime) -> tuple[MemoryRequest, ...]:
    """What was plainly asked to be kept and holds a secret, in words without it: a person has to decide about those."""
    return tuple(at for at in _read_messages(messages, now) if at.hides and at.is_explicit and at.action == SAVE)


def compose_memory(text: str, *, now: datetime, kind: Kind | None = None, secrets: bool = False) -> Draft:
    """A draft of what somebody typed, as they typed it, without a "remember that" at its beginning.

    Raises FormatError if it tells nothing, or is not to be kept (`find_unwanted`). With `secrets` one that holds a secret
    is not refused, but the value stands in the body alone: titles and descriptions are shown in lists.
    """
    values = _find_secret_values(text)
    if values and not secrets:
        hint = "keep it in a password manager, remember where"
        raise FormatError("this looks like a password or a key", field="body", hint=hint)
    if why := find_unwanted(text):
        raise FormatError(f"{why} is not kept", field="body", hint=SURPRISING)
    language = next(iter([*find_request_languages(text), load_request_languages()[0]]))
    content, about, found = _strip_cue(compile_any("reply").sub("", text.strip()), language, now)
    kind = kind or found or _guess_kind(about, language)
    worded = _word(mask_values(content, values), mask_values(about, values), language, kind, now)
    if worded is None:
        raise FormatError("there is nothing in it that recall could find again", field="body", hint=_HINT)
    return Draft(kind, *worded[:2], _set_dates(content, kind, now) + "\n")


def find_unwanted(text: str) -> str:
    """Why a text is not to be kept even if asked for, in words; empty if it may be."""
    hidden = " ".join(sentence.hidden for sentence in split_sentences(text))
    languages = find_request_languages(text)
    # A rule may name a source file; a fact that does is in the project already.
    is_rule = any(starts(at.directs, text.strip()) for at in languages)
    reasons = {
        "a list that is out of date tomorrow": compile_any("listing").search(hidden),
        "a judgement of a person": any(has(at.judgement, hidden) for at in languages),
        "how the work at hand stands": any(has(at.state, hidden) for at in languages),
        "what the code or its history says": not is_rule and compile_any("derivable").search(text),
    }
    return next((why for why, found in reasons.items() if found), "")


def find_forgetting(text: str, *, now: datetime) -> MemoryRequest | None:
    """What a text that is said to a memory asks to forget; there "forget the deploy day" is no figure of speech."""
    found = [at for at in find_requests([Message("user", text)], now=now) if at.action == FORGET]
    bare = (compile_pattern(at.forgets).match(text.strip()) for at in find_request_languages(text) if not found)
    for what in (at["what"].rstrip(" .!。！") for at in bare if at):
        found.append(MemoryRequest(RequestCategory.FORGET, FORGET, None, what, what, what, text))
    return next(iter(found), None)


def holds_secret(text: str) -> bool:
    return bool(_find_secret_values(text))


def mask_values(text: str, values: Sequence[str]) -> str:
    for value in values:
        text = text.replace(value, MASK)
    return text


def _find_secret_values(text: str) -> tuple[str, ...]:
    """What in a text may not be repeated, the longest first: a part of one may be another."""
    numbers = {at["value"] for at in compile_any("secret_number").finditer(text)}
    return tuple(sorted({text[at.start : at.end] for at in find_secrets(text)} | numbers, key=len, reverse=True))


def _read_messages(messages: Sequence[Message], now: datetime) -> Iterator[MemoryRequest]:
    for message in messages:
        if is_by_person(message):
            requests = {f"{at.action} {at.body.casefold()}": at for at in _read_message(message, message.at or now)}
            yield from list(requests.values())[:_REQUESTS]


def _read_message(message: Message, now: datetime) -> Iterator[MemoryRequest]:
    languages = find_request_languages(_TOKEN.sub(" ", message.text))
    # A quotation inside a line leaves a mark, a pasted block a line end.
    spans = ((at.text if at.plain else "\n" if "\n" in at.text else " … ") for at in split_typed(message))
    sentences = split_sentences("".join(spans))
    refused = any(has(language.refusals, at.hidden) for language in languages for at in sentences)
    if refused or find_ignoring(message.text) in (IgnoreReach.TURN, IgnoreReach.CONVERSATION):
        return
    for match in _join(sentences, languages, now):
        for part in split_items(match.content) if match.category is RequestCategory.REQUEST else [match.content]:
            about = match.about if part == match.content else part
            request = _make_request(replace(match, content=part, about=about), message, now)
            if request is not None:
                yield request


def _join(sentences: Sequence[Sentence], languages: Sequence[RequestLanguage], now: datetime) -> list[RuleMatch]:
    """The matches of all sentences, with the list or the sentence they point to; orders in a row are one."""
    joined: list[RuleMatch] = []
    last = -1  # the last sentence that belongs to one
    for number, sentence in enumerate(sentences):
        if number <= last:
            continue
        match = next(filter(None, (_match(sentence, language, now) for language in languages)), None)
        order = joined[-1] if last == number - 1 and joined and joined[-1].category in _WAYS else None
        if match is None:
            if order and _goes_on(sentence, order.language):
                joined[-1] = _put_after(order, sentence.text, sentence.text)
            continue
        rest, said = sentences[number + 1 :][:_ITEMS], sentences[number - 1].text if number - 1 > last else ""
        listed = rest if match.quote.endswith((":", "：")) else ()
        items = [*listed[:1], *takewhile(lambda at: at.bullet, listed[1:])]  # what is no list counts as one item
        if items:
            joined += [replace(match, content=at.text, about=at.text, quote=at.text) for at in items]
        elif match.content and not starts(match.language.pronouns, match.content):
            is_more = order and match.category in _WAYS
            joined.append(_put_after(joined.pop(), match.content, match.quote) if is_more else match)
        elif (
            match.category is RequestCategory.REQUEST
            and 0 < len(said) < _NEAR
            and not is_question(said, match.language)
        ):
            joined.append(replace(match, content=said, about=said, quote=f"{said} {sentence.text}"))
        else:
            continue
        last = number + len(items)
    return joined


def _put_after(match: RuleMatch, content: str, quote: str) -> RuleMatch:
    return replace(match, content=f"{match.content} {content}", quote=f"{match.quote} {quote}")


def _goes_on(sentence: Sentence, language: RequestLanguage) -> bool:
    """Whether a sentence after an order on the same line gives its reason or the rest of it, and is no task."""
    text, other = sentence.hidden, f"{language.orders}|{language.small_talk}"
    is_other = is_question(text, language) or has(language.tasks, text) or starts(other, text)
    return not is_other and not sentence.begins and len(text) < _NEAR


def _match(sentence: Sentence, language: RequestLanguage, now: datetime) -> RuleMatch | None:
    """The first pattern that fits a sentence that asks or states something for good."""
    text = sentence.hidden
    asks = is_question(text, language)
    if len(text) > _SENTENCE or _CODE.match(text) or (asks and not has(language.asks, text)):
        return None
    places = find_starts(text, language), find_starts(text, language, whole=True)
    for category, patterns in language.rules.items():
        if asks and category not in _EXPLICIT:
            break
        for pattern in patterns:
            tried = (compile_pattern(pattern).match(text, place) for place in places[category in _WHOLE])
            found = next((at for at in tried if at and not has(language.reported, text[: at.start()])), None)
            if not found:
                continue
            # A task before "and from now on" does not belong to it; anything else before it may be the reason.
            behind = compile_pattern(language.breaks).search(text)
            own = category in _EXPLICIT[:2] or (behind is not None and behind.end() <= found.start())
            start = found.start() if own else 0
            if _is_meant(category, language, text[start:], text[found.start() :], now):
                spans = {name: found.span(name) for name, said in found.groupdict().items() if said is not None}
                about = _tidy(sentence.text[slice(*spans.get("about", spans.get("what", found.span())))], language)
                content = _tidy(sentence.text[slice(*spans.get("what", (start, len(text))))], language)
                content = about if category is RequestCategory.FORGET else content
                return RuleMatch(category, language, content, about, sentence.text)
    return None


def _is_meant(category: RequestCategory, language: RequestLanguage, said: str, own: str, now: datetime) -> bool:
    """Whether a sentence is meant for good, and has its subject in it."""
    if category in _EXPLICIT[:2]:
        return True
    if category in _WHOLE:
        dated = category is not RequestCategory.PLAN or compile_any("date").search(said) or make_absolute(said, now)[1]
        return bool(dated) and not starts(language.orders, said) and not compile_any("private_life").search(said)
    return not has(language.tasks, said) and not starts(language.pronouns, own)


def _make_request(match: RuleMatch, message: Message, now: datetime) -> MemoryRequest | None:
    category, language = match.category, match.language
    said, hides = f"{match.quote}\n{match.content}", ""
    values = _find_secret_values(said)
    content, about, quote = (mask_values(text, values) for text in (match.content, match.about, match.quote))
    kind = _KINDS.get(category) or _guess_kind(about, language)
    if category is RequestCategory.FORGET:
        target = shorten(compile_any("forget_end").split(content)[0].rstrip(".!。！ "), _NEAR)
        worded = (target, target, target) if len(target) > 1 else None
    elif category is not RequestCategory.ORDER and find_unwanted(quote):
        worded = None
    else:
        worded = _word(content, about, language, kind, now)
    if values:
        kinds = [f"{found.what} ({found.rule})" for found in find_secrets(said)] or ["a number that opens something"]
        hides = ", ".join(dict.fromkeys(kinds))
        worded = worded or ("A request with a secret", f"Something that was to be remembered and held {hides}", quote)
    action = FORGET if category is RequestCategory.FORGET else SAVE
    if worded is None:
        return None
    title, description, body = worded
    ends = quote, message.id, message.at, language.name, hides
    return MemoryRequest(category, action, kind, title, description, body, *ends)


def _strip_cue(text: str, language: RequestLanguage, now: datetime) -> tuple[str, str, Kind | None]:
    """A text as it was said, without a "remember that" at its beginning; its subject, and its kind if that is plain."""
    sentences = split_sentences(text)
    first = _match(sentences[0], language, now) if sentences else None
    if first is None or not first.content:
        return text, text, None
    start = text.find(first.content) if first.category is RequestCategory.REQUEST else -1
    asked = start > 0 and not _CLAUSE_END.search(text[:start].rstrip(" ,:;–—-"))
    return text[start:] if asked else text, first.about, _KINDS.get(first.category)


def _guess_kind(content: str, language: RequestLanguage) -> Kind:
    """What sort of thing this is, by how it begins."""
    directs = starts(language.directs, content)
    if has(language.places, content) and not directs:
        return Kind.REFERENCE
    return Kind.FEEDBACK if directs else Kind.USER if starts(language.about_me, content) else Kind.PROJECT


def _tidy(content: str, language: RequestLanguage) -> str:
    """The content on one line, without the "no," of a reply before it and politeness after it."""
    text = compile_any("reply").sub("", one_line(content))
    tail = compile_pattern(language.tail).search(text)
    return (text[: tail.start()] if tail and tail.start() else text).strip(" ,;–—-、，?？")


def _set_dates(text: str, kind: Kind, now: datetime) -> str:
    return make_absolute(text, now)[0] if kind is Kind.PROJECT else text


def _word(
    content: str, about: str, language: RequestLanguage, kind: Kind, now: datetime
) -> tuple[str, str, str] | None:
    """Title, description and body; None when no description could be made of it that recall could judge by."""
    body, about = _set_dates(content, kind, now), _set_dates(about, kind, now)
    title = _make_title(about, language)
    is_empty = compile_pattern(language.small_talk).fullmatch(content.strip(" .,!?")) or not count_content(body).telling
    if title and not is_empty and (not language.spaced or len(content.split()) > 1):
        for line in (body, _SAID + body):
            description = shorten(one_line(line), _DESCRIPTION).rstrip(".。")
            with suppress(FormatError):
                check_description(description, kind)
                return title, description, body + "\n"
    return None


def _make_title(text: str, language: RequestLanguage) -> str:
    """A few words that name the subject, of the first clause that says something; no date, which may change."""
    clauses = [part for part in _CLAUSE_END.split(_DATE.sub(",", text).rstrip(".!?。！？")) if part.strip()]
    if clauses and compile_any("title_condition").match(clauses[0]):
        if len(clauses) == 1:
            return clauses[0][:_TITLE_CHARS]  # "when in doubt ask": without its small words it says something else
        clauses = clauses[1:]
    if not language.spaced:
        first = next((part for part in clauses if len(part) >= _TITLE_WORDS), "".join(clauses))
        return compile_any("title_end").sub("", first[:_TITLE_CJK])
    kept: list[str] = []
    for clause in clauses:
        words = (found.strip(".'*`?!:") for found in _WORD.findall(clause))
        kept += [word for word in words if word and word.casefold() not in language.empty]
        if sum(word.casefold() not in language.links for word in kept) > 1:
            break
    told = [number for number, word in enumerate(kept) if word.casefold() not in language.links][:_TITLE_WORDS]
    title = " ".join(kept[told[0] : told[-1] + 1])[:_TITLE_CHARS] if told else ""
    return title[:1].upper() + title[1:] if title[:1].isascii() else title
