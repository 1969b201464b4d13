"""What the messages of a conversation want remembered or forgotten.

    message --plain part--> sentences --rules of six languages--> heard --joined, worded--> wishes

It does not know what memory already holds.
"""

import re
from collections.abc import Iterator, Sequence
from datetime import datetime

from memdir.filler import count_content
from memdir.frozen import replace
from memdir.ignoring import Ignoring, find_ignoring
from memdir.records import Kind, Message
from memdir.rules.chinese import CHINESE
from memdir.rules.english import ENGLISH
from memdir.rules.french import FRENCH
from memdir.rules.german import GERMAN
from memdir.rules.hearing import Heard, Setting, hear_all, is_question
from memdir.rules.japanese import JAPANESE
from memdir.rules.joining import join_heard, strip_leads
from memdir.rules.naming import guess_kind, tidy, word_memory
from memdir.rules.passing import is_derivable, is_recorded
from memdir.rules.plain import find_plain, find_secret_values, holds_secret, name_secrets
from memdir.rules.records import FORGET, SAVE, Wish
from memdir.rules.sentences import Sentence, split_items, split_sentences
from memdir.rules.spanish import SPANISH
from memdir.rules.tongue import Category, Need, Tongue, compile_pattern, find_tongues, has, may_fit, starts
from memdir.store.payloads import MASK
from memdir.text import shorten

TONGUES: tuple[Tongue, ...] = (ENGLISH, GERMAN, FRENCH, SPANISH, CHINESE, JAPANESE)
_CLAUSE_END = re.compile(r"[,;，；、]\s*| (?:gesagt|erzählt|geschrieben) hab\w*|(?<=[^ ]) (?:- |– |— )")
_TOKEN = re.compile(r"[!-~]{24,}")  # a key or an address: letters, but of no language
_LONG = 1200  # a longer message is mostly material: only what asks for memory in so many words is heard in it
_BEFORE = 240  # of the agent's message
_PRAISED = 4  # words beside the praise itself, to count as saying what for
_MOST = 8  # wishes of one message


def find_wishes(messages: Sequence[Message], *, now: datetime) -> tuple[Wish, ...]:
    """All that the user's messages want, in order; the assistant's message before one gives a confirmation content.

    What holds a secret is left out.
    """
    return tuple(wish for wish in _hear_messages(messages, now) if not wish.hides)


def find_hidden_wishes(messages: Sequence[Message], *, now: datetime) -> tuple[Wish, ...]:
    """What was plainly asked to be kept and holds a secret, in words without it: a person has to decide about those."""
    found = _hear_messages(messages, now)
    return tuple(wish for wish in found if wish.hides and wish.is_explicit and wish.action == SAVE)


def _hear_messages(messages: Sequence[Message], now: datetime) -> list[Wish]:
    found: list[Wish] = []
    before: str | None = None
    for message in messages:
        if message.role == "assistant" and message.text.strip():
            before = message.text
        if message.role == "user" and not message.is_meta:
            found += _hear_message(message, before, message.at or now)
    return found


def _hear_message(message: Message, before: str | None, now: datetime) -> list[Wish]:
    tongues = find_tongues(_TOKEN.sub(" ", message.text), TONGUES)
    if not any(may_fit(tongue, at.hidden) for at in split_sentences(message.text) for tongue in tongues):
        return []
    if find_ignoring(message.text) in (Ignoring.TURN, Ignoring.CONVERSATION):
        return []
    sentences = split_sentences(find_plain(message.text))
    if any(has(tongue.refusals, at.hidden) for tongue in tongues for at in sentences):
        return []
    plays = any(starts(tongue.plays, at.hidden) for tongue in tongues for at in sentences)
    is_long = plays or sum(len(at.text) for at in sentences) > _LONG
    setting = Setting(before is not None, is_long, now)
    heard = join_heard(list(hear_all(sentences, tongues, setting)), sentences, setting.answered)
    wishes = [wish for at in heard for wish in _make_wishes(at, sentences, before or "", message, now)]
    parts = ([wish for wish in wishes if bool(wish.hides) is hides] for hides in (False, True))
    return [wish for part in parts for wish in _drop_repeated(part)[:_MOST]]


def _make_wishes(
    at: Heard, sentences: Sequence[Sentence], before: str, message: Message, now: datetime
) -> Iterator[Wish]:
    quote = " ".join(sentence.text for sentence in sentences[at.first : at.last + 1])
    content, praised = at.content, ""
    if at.rule.category is Category.CONFIRMATION:
        content, praised = _find_praised(at, sentences, before)
    elif at.points:
        praised = shorten(split_sentences(before)[0].text, _BEFORE)
    for part in split_items(content) if Need.STRONG in at.rule.needs else [content]:
        said = f"{quote}\n{part}\n{praised}"
        if holds_secret(said):
            yield from _hide(at, part, praised, quote, message, now)
            continue
        wish = _make_wish(at, part, praised, quote, message, now)
        if wish is not None and not holds_secret(wish.body):
            yield wish


def _hide(at: Heard, part: str, praised: str, quote: str, message: Message, now: datetime) -> Iterator[Wish]:
    """A wish without its secret; where nothing telling is left of a request, one that says so."""
    said = f"{quote}\n{part}\n{praised}"
    values, secrets = find_secret_values(said), name_secrets(said)
    part, praised, quote = (_mask(text, values) for text in (part, praised, quote))
    wish = _make_wish(at, part, praised, quote, message, now)
    if wish is not None:
        yield replace(wish, hides=secrets)
    elif at.rule.category is Category.REQUEST:
        about = f"Something that was to be remembered and held {secrets}"
        title = "A request with a secret"
        yield Wish(
            at.rule.category, SAVE, Kind.PROJECT, title, about, quote, quote, message.id, message.at, hides=secrets
        )


def _mask(text: str, values: Sequence[str]) -> str:
    for value in values:
        text = text.replace(value, MASK)
    return text


def _make_wish(at: Heard, content: str, praised: str, quote: str, message: Message, now: datetime) -> Wish | None:
    category, tongue = at.rule.category, at.tongue
    if category is Category.FORGET:
        return _make_forget(at, content, quote, message)
    kind = at.rule.kind or guess_kind(content, tongue, at.rule.default)
    said = tidy(content, tongue)
    if is_recorded(said) or (kind is not Kind.FEEDBACK and is_derivable(said)):
        return None
    worded = word_memory(content, tongue, kind, now, quote=quote, praised=praised, asked=Need.STRONG in at.rule.needs)
    if worded is None:
        return None
    return Wish(
        category, SAVE, kind, worded.title, worded.description, worded.body, quote, message.id, message.at, tongue.name
    )


def _make_forget(at: Heard, content: str, quote: str, message: Message) -> Wish | None:
    clause = _CLAUSE_END.split(tidy(content, at.tongue).split("\n")[0])[0]
    target = shorten(clause.rstrip(".!。！ "), 200)
    if len(target) < 2:
        return None
    kind = guess_kind(content, at.tongue, Kind.PROJECT)
    return Wish(
        at.rule.category,
        FORGET,
        kind,
        shorten(target, 60),
        target,
        target,
        quote,
        message.id,
        message.at,
        at.tongue.name,
    )


def _find_praised(at: Heard, sentences: Sequence[Sentence], before: str) -> tuple[str, str]:
    """What the praise is for: the person's own words if they name it,
    else the beginning of the agent's message too."""
    tongue = at.tongue
    said = [
        strip_leads(one, tongue)
        for one in sentences
        if not is_question(one.hidden, tongue) and not has(tongue.tasks, one.hidden)
    ]
    named = count_content(compile_pattern(tongue.praise).sub(" ", " ".join(said))).telling
    if named >= _PRAISED or not before.strip():
        return "\n".join(filter(None, said)), ""
    first = shorten(split_sentences(before)[0].text, _BEFORE)
    return ("\n".join(filter(None, said)) if named else at.content), first


def _drop_repeated(wishes: Sequence[Wish]) -> list[Wish]:
    seen: dict[str, Wish] = {}
    for wish in wishes:
        seen.setdefault(f"{wish.action} {wish.body.casefold()}", wish)
    return list(seen.values())
