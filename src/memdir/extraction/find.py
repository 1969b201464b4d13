"""Find requests to remember or forget, and statements worth saving, with built-in patterns in six languages.

    message --typed part--> sentences --patterns of its languages--> matches --> requests

Precision comes first: questions, quotations, suppositions, reports and the current task are not requests. A sentence is
saved as it was said, with its reason; only unambiguous relative dates become absolute. Title and description are taken
from it. `merge` compares requests with existing memories.
"""

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import datetime
from itertools import takewhile

from memdir.conversation.typed import PLAIN_DOUBT, is_by_person, split_typed
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
from memdir.language.statements import guess_kind, is_statement, is_unlikely
from memdir.records import Draft, Kind, Message
from memdir.store.inbox import MASK
from memdir.store.secrets import find_secrets
from memdir.text import one_line, shorten

SAVE = "save"
FORGET = "forget"
_HINT = 'say what is so, or what to do: "the staging db is reset every Sunday", "no emoji in commit messages"'
SURPRISING = "what was surprising about it? Say that instead"
_EXPLICIT = (RequestCategory.FORGET, RequestCategory.REQUEST, RequestCategory.ORDER)
_WHOLE = (RequestCategory.POINTER, RequestCategory.PLAN, RequestCategory.FACT)  # only at the start of a sentence
_DOUBTED = (RequestCategory.ORDER, RequestCategory.IDENTITY, *_WHOLE)  # seldom meant if little else says so
_KINDS = {
    **dict.fromkeys((RequestCategory.ORDER, RequestCategory.PREFERENCE), Kind.FEEDBACK),
    **dict.fromkeys((RequestCategory.PLAN, RequestCategory.FACT), Kind.PROJECT),
    RequestCategory.IDENTITY: Kind.USER,
    RequestCategory.POINTER: Kind.REFERENCE,
}
# Prefixes for a description that would be too short, such as "I'm vegan".
_SUBJECTS = {
    Kind.USER: "Who the person is, for advice and examples: ",
    Kind.FEEDBACK: "How the person wants work done here: ",
    Kind.PROJECT: "What holds for the work on this project: ",
    Kind.REFERENCE: "Where the person looks things up: ",
}

_TOKEN = re.compile(r"[!-~]{24,}")  # a key or a URL, which does not help to detect the language
_CODE = re.compile(r"[(（]|//|#|\$ |\[(?:WARN|ERROR|INFO)|Traceback")
_SENTENCE_CHARS = 500  # max characters; a longer sentence was not typed as one
_NEAR_CHARS = 200  # max characters of a sentence to which another may refer
_LIST_ITEMS = 8  # max items of a list
_REQUESTS = 8  # max requests per message
_DESCRIPTION = 140
_TITLE_WORDS, _TITLE_CHARS, _TITLE_CJK = 5, 56, 24
_CLAUSE_END = re.compile(r"\s*(?:[,;—–(，、；：（。\n]|[:.](?=\s|$)|\s-\s)\s*")
_WORD = re.compile(r"[^\s,;!?()\[\]\"“”„«»「」『』]+")
_DATE = re.compile(r"\b\d{4}-(?:\d\d(?:-\d\d)?|Q[1-4])\b")


@dataclass(frozen=True, slots=True)
class MemoryRequest:
    """A request to remember or forget something, with the sentence that contains it as a quote."""

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
    hides: str = ""  # the kind of secret that was removed from its text

    @property
    def is_explicit(self) -> bool:
        return self.category in _EXPLICIT

    @property
    def why(self) -> str:
        return "asked for" if self.is_explicit else f"said in passing ({self.category})"

    @property
    def target(self) -> str:
        """Return the text to forget, or ""."""
        return self.body if self.action == FORGET else ""


@dataclass(frozen=True, slots=True)
class RuleMatch:
    """A pattern match in a sentence, with the content to save, its subject and the full quote."""

    category: RequestCategory
    language: RequestLanguage
    content: str
    about: str
    quote: str


def find_requests(messages: Sequence[Message], *, now: datetime, uncertain: bool = False) -> tuple[MemoryRequest, ...]:
    """Return the requests and statements in the user's messages, except those that contain a secret.

    With `uncertain`, lines that may not be typed are read too, if nothing in their message looks like a paste.
    """
    return tuple(request for request in _read_messages(messages, now, uncertain) if not request.hides)


def find_hidden_requests(messages: Sequence[Message], *, now: datetime) -> tuple[MemoryRequest, ...]:
    """Return explicit requests that contain a secret, with the secret masked. They need review."""
    requests = (request for request in _read_messages(messages, now, False) if request.hides)
    return tuple(request for request in requests if request.is_explicit and request.action == SAVE)


def compose_memory(text: str, *, now: datetime, kind: Kind | None = None, secrets: bool = False) -> Draft:
    """Return a draft from typed text, without a leading "remember that".

    Raises FormatError if it is too vague or should not be saved (see `find_unwanted`). `secrets` allows a secret, but
    only in the body, because titles and descriptions are shown in lists.
    """
    values = find_secret_values(text)
    if values and not secrets:
        hint = "keep it in a password manager, and remember where"
        raise FormatError("this looks like a password or a key", field="body", hint=hint)
    if why := find_unwanted(text):
        raise FormatError(f"{why} is not saved", field="body", hint=SURPRISING)
    language = next(iter([*find_request_languages(text), load_request_languages()[0]]))
    content, about, stated_kind = _strip_cue(compile_any("reply").sub("", text.strip()), language, now)
    kind = kind or stated_kind or _guess_kind(about, language)
    # A title that said "masked" would claim that the file does not contain the secret.
    content_shown, about_shown = (mask_values(shown, values, "…") for shown in (content, about))
    parts = _describe(content_shown, about_shown, language, kind, now)
    if parts is None:
        raise FormatError("this text is too vague to recall", field="body", hint=_HINT)
    return Draft(kind, *parts[:2], _set_dates(content, kind, now) + "\n")


def find_unwanted(text: str) -> str:
    """Return why a text should not be saved even on request, or ""."""
    hidden = " ".join(sentence.hidden for sentence in split_sentences(text))
    languages = find_request_languages(text)
    # A rule may name a source file, but a fact that names one is already in the project.
    is_rule = any(starts(language.directs, text.strip()) for language in languages)
    reasons = {
        "a list that is out of date tomorrow": compile_any("listing").search(hidden),
        "a judgement of a person": any(has(language.judgement, hidden) for language in languages),
        "how the work at hand stands": any(has(language.state, hidden) for language in languages),
        "what the code or its history says": not is_rule and compile_any("derivable").search(text),
    }
    return next((why for why, matches in reasons.items() if matches), "")


def find_forgetting(text: str, *, now: datetime) -> MemoryRequest | None:
    """Return the request to forget something in a text that addresses the memory, or None."""
    for request in find_requests([Message("user", text)], now=now):
        if request.action == FORGET:
            return request
    for language in find_request_languages(text):
        if match := compile_pattern(language.forgets).match(text.strip()):
            what = match["what"].rstrip(" .!。！")
            return MemoryRequest(RequestCategory.FORGET, FORGET, None, what, what, what, text)
    return None


def mask_values(text: str, values: Sequence[str], mask: str = MASK) -> str:
    for value in values:
        text = text.replace(value, mask)
    return text


def find_secret_values(text: str) -> tuple[str, ...]:
    """Return the secrets in a text, longest first."""
    numbers = {match["value"] for match in compile_any("secret_number").finditer(text)}
    secrets = {text[secret.start : secret.end] for secret in find_secrets(text)}
    return tuple(sorted(secrets | numbers, key=len, reverse=True))


def _read_messages(messages: Sequence[Message], now: datetime, uncertain: bool) -> Iterator[MemoryRequest]:
    for message in messages:
        if is_by_person(message):
            requests = _read_message(message, message.at or now, uncertain)
            unique = {(request.action, request.body.casefold()): request for request in requests}
            yield from list(unique.values())[:_REQUESTS]


def _read_message(message: Message, now: datetime, uncertain: bool) -> Iterator[MemoryRequest]:
    languages = find_request_languages(_TOKEN.sub(" ", message.text))
    # An inline quotation becomes an ellipsis, a pasted block a line end.
    reasons = ("", PLAIN_DOUBT) if uncertain else ("",)
    spans = (
        (span.text if span.why in reasons else "\n" if "\n" in span.text else " … ") for span in split_typed(message)
    )
    sentences = split_sentences("".join(spans))
    refused = any(has(language.refusals, sentence.hidden) for language in languages for sentence in sentences)
    if (
        refused
        or compile_any("irony").search(message.text)
        or find_ignoring(message.text) in (IgnoreReach.TURN, IgnoreReach.CONVERSATION)
    ):
        return
    for match in _match_all(sentences, languages, now):
        for part in split_items(match.content) if match.category is RequestCategory.REQUEST else [match.content]:
            about = match.about if part == match.content else part
            request = _make_request(replace(match, content=part, about=about), message, now)
            if request is not None:
                yield request


def _match_all(sentences: Sequence[Sentence], languages: Sequence[RequestLanguage], now: datetime) -> list[RuleMatch]:
    """Return the pattern matches in all sentences. Consecutive instructions become one match."""
    matches: list[RuleMatch] = []
    last = -1  # the last sentence that belongs to a match
    for number, sentence in enumerate(sentences):
        if number <= last:
            continue
        match = next(filter(None, (_find_match(sentence, language, now) for language in languages)), None)
        order = matches[-1] if last == number - 1 and matches and matches[-1].category not in _EXPLICIT[:2] else None
        if match is None and order and _continues_order(sentence, order.language):
            matches[-1] = _append(order, sentence.text, sentence.text)
            continue
        match = match or _match_statement(sentence, languages)
        if match is None:
            continue
        is_stated = matches and last == number - 1 and matches[-1].category is RequestCategory.STATEMENT
        previous = sentences[number - 1].text if number - 1 > last or is_stated else ""
        rest = sentences[number + 1 :][:_LIST_ITEMS]
        listed = rest if match.quote.endswith((":", "：")) else ()
        items = [*listed[:1], *takewhile(lambda sentence: sentence.bullet, listed[1:])]  # without bullets, one item
        if items:
            matches += [replace(match, content=item.text, about=item.text, quote=item.text) for item in items]
        elif match.content and not starts(match.language.pronouns, match.content):
            is_more = order and not sentence.begins and _KINDS.get(match.category) is _KINDS.get(order.category)
            matches.append(_append(matches.pop(), match.content, match.quote) if is_more else match)
        elif (
            match.category is RequestCategory.REQUEST
            and 0 < len(previous) < _NEAR_CHARS
            and not is_question(previous, match.language)
        ):
            matches = matches[:-1] if is_stated else matches
            matches.append(replace(match, content=previous, about=previous, quote=f"{previous} {sentence.text}"))
        else:
            continue
        last = number + len(items)
    return matches


def _append(match: RuleMatch, content: str, quote: str) -> RuleMatch:
    return replace(match, content=f"{match.content} {content}", quote=f"{match.quote} {quote}")


def _continues_order(sentence: Sentence, language: RequestLanguage) -> bool:
    """Return whether a sentence explains or completes the instruction before it on the same line."""
    text, other = sentence.hidden, f"{language.orders}|{language.small_talk}"
    is_other = is_question(text, language) or has(language.tasks, text) or starts(other, text)
    return not is_other and not sentence.begins and len(text) < _NEAR_CHARS


def _find_match(sentence: Sentence, language: RequestLanguage, now: datetime) -> RuleMatch | None:
    """Return the first match of a pattern in a sentence with a lasting request or statement, or None."""
    text = sentence.hidden
    asks = is_question(text, language)
    if len(text) > _SENTENCE_CHARS or _CODE.match(text) or (asks and not has(language.asks, text)):
        return None
    offsets = find_starts(text, language), find_starts(text, language, whole=True)
    for category, patterns in language.rules.items():
        if asks and category not in _EXPLICIT:
            break
        for pattern in [compile_pattern(pattern) for pattern in patterns]:
            tries = [pattern.match(text, offset) for offset in offsets[category in _WHOLE]]
            match = next((hit for hit in tries if hit and not has(language.reported, text[: hit.start()])), None)
            if not match:
                continue
            # A task before "and from now on" does not belong to it; anything else before it may be the reason.
            break_match = compile_pattern(language.breaks).search(text)
            own = category in _EXPLICIT[:2] or (break_match is not None and break_match.end() <= match.start())
            start = match.start() if own else 0
            if _is_permanent(category, language, text[start:], text[match.start() :], now):
                spans = {name: match.span(name) for name, group in match.groupdict().items() if group is not None}
                about = _clean(sentence.text[slice(*spans.get("about", spans.get("what", match.span())))], language)
                content = _clean(sentence.text[slice(*spans.get("what", (start, len(text))))], language)
                content = about if category is RequestCategory.FORGET else content
                return RuleMatch(category, language, content, about, sentence.text)
    return None


def _match_statement(sentence: Sentence, languages: Sequence[RequestLanguage]) -> RuleMatch | None:
    """Return a sentence in English that states something worth keeping, or None."""
    language, text = languages[0], sentence.hidden
    if language.name != "en" or len(text) > _SENTENCE_CHARS or _CODE.match(text) or is_question(text, language):
        return None
    if not is_statement(sentence.text):
        return None
    content = _clean(sentence.text, language)
    return RuleMatch(RequestCategory.STATEMENT, language, content, content, sentence.text)


def _is_permanent(category: RequestCategory, language: RequestLanguage, text: str, own: str, now: datetime) -> bool:
    """Return whether a sentence is meant to last and names its subject."""
    if category in _EXPLICIT[:2]:
        return True
    if category in _WHOLE:
        dated = category is not RequestCategory.PLAN or compile_any("date").search(text) or make_absolute(text, now)[1]
        return bool(dated) and not starts(language.orders, text) and not compile_any("private_life").search(text)
    return not has(language.tasks, text) and not starts(language.pronouns, own)


def _make_request(match: RuleMatch, message: Message, now: datetime) -> MemoryRequest | None:
    category, language = match.category, match.language
    full_text, hides = f"{match.quote}\n{match.content}", ""
    values = find_secret_values(full_text)
    content, about, quote = (mask_values(text, values) for text in (match.content, match.about, match.quote))
    if category in _DOUBTED and language.name == "en" and is_unlikely(at.text for at in split_sentences(quote)):
        return None
    kind = _KINDS.get(category) or _guess_kind(about, language)
    if category is RequestCategory.STATEMENT and kind is not Kind.FEEDBACK:
        kind = guess_kind(about)
    if category is RequestCategory.FORGET:
        target = shorten(compile_any("forget_end").split(content)[0].rstrip(".!。！ "), _NEAR_CHARS)
        parts = (target, target, target) if len(target) > 1 else None
    elif category is not RequestCategory.ORDER and find_unwanted(quote):
        parts = None
    else:
        parts = _describe(content, about, language, kind, now)
    if values:
        kinds = [f"{secret.what} ({secret.rule})" for secret in find_secrets(full_text)]
        hides = ", ".join(dict.fromkeys(kinds or ["a number that opens something"]))
        parts = parts or ("A request with a secret", f"Something that was to be remembered and held {hides}", quote)
    action = FORGET if category is RequestCategory.FORGET else SAVE
    if parts is None:
        return None
    title, description, body = parts
    ends = quote, message.id, message.at, language.name, hides
    return MemoryRequest(category, action, kind, title, description, body, *ends)


def _strip_cue(text: str, language: RequestLanguage, now: datetime) -> tuple[str, str, Kind | None]:
    """Return a text without a leading "remember that", its subject, and its kind if a pattern determines it."""
    sentences = split_sentences(text)
    first = _find_match(sentences[0], language, now) if sentences else None
    if first is None or not first.content:
        return text, text, None
    start = text.find(first.content) if first.category is RequestCategory.REQUEST else -1
    asked = start > 0 and not _CLAUSE_END.search(text[:start].rstrip(" ,:;–—-"))
    return text[start:] if asked else text, first.about, _KINDS.get(first.category)


def _guess_kind(content: str, language: RequestLanguage) -> Kind:
    """Guess the kind of a memory from the start of its content."""
    directs = starts(language.directs, content)
    if has(language.places, content) and not directs:
        return Kind.REFERENCE
    return Kind.FEEDBACK if directs else Kind.USER if starts(language.about_me, content) else Kind.PROJECT


def _clean(content: str, language: RequestLanguage) -> str:
    """Return the content on one line, without a leading "no," or polite phrases at the end."""
    text = compile_any("reply").sub("", one_line(content))
    tail = compile_pattern(language.tail).search(text)
    return (text[: tail.start()] if tail and tail.start() else text).strip(" ,;–—-、，?？")


def _set_dates(text: str, kind: Kind, now: datetime) -> str:
    return make_absolute(text, now)[0] if kind is Kind.PROJECT else text


def _describe(
    content: str, about: str, language: RequestLanguage, kind: Kind, now: datetime
) -> tuple[str, str, str] | None:
    """Return the title, description and body, or None if the content is too vague to describe."""
    body, about = _set_dates(content, kind, now), _set_dates(about, kind, now)
    title = _make_title(about, language)
    is_empty = compile_pattern(language.small_talk).fullmatch(content.strip(" .,!?")) or not count_content(body).telling
    if title and not is_empty and (not language.spaced or len(content.split()) > 1):
        for line in (body, _SUBJECTS[kind] + body):
            description = shorten(one_line(line), _DESCRIPTION).rstrip(".。")
            with suppress(FormatError):
                check_description(description, kind)
                return title, description, body + "\n"
    return None


def _make_title(text: str, language: RequestLanguage) -> str:
    """Return a short title from the first meaningful clause, without dates."""
    clauses = [part for part in _CLAUSE_END.split(_DATE.sub(",", text).rstrip(".!?。！？")) if part.strip()]
    if clauses and compile_any("title_condition").match(clauses[0]):
        if len(clauses) == 1:
            return clauses[0][:_TITLE_CHARS]  # keep the small words in titles such as "when in doubt ask"
        clauses = clauses[1:]
    if not language.spaced:
        first = next((part for part in clauses if len(part) >= _TITLE_WORDS), "".join(clauses))
        return compile_any("title_end").sub("", first[:_TITLE_CJK])
    words: list[str] = []
    for clause in clauses:
        stripped = (word.strip(".'*`?!:") for word in _WORD.findall(clause))
        words += [word for word in stripped if word and word.casefold() not in language.empty]
        if sum(word.casefold() not in language.links for word in words) > 1:
            break
    telling = [index for index, word in enumerate(words) if word.casefold() not in language.links][:_TITLE_WORDS]
    title = " ".join(words[telling[0] : telling[-1] + 1])[:_TITLE_CHARS] if telling else ""
    return title[:1].upper() + title[1:] if title[:1].isascii() else title
