"""A draft from what somebody typed at `memdir remember`: with a cue ("remember that…") or without one."""

from datetime import datetime

from memdir.errors import FormatError
from memdir.frozen import replace
from memdir.records import Draft, Kind, Message
from memdir.rules.naming import guess_kind, word_memory
from memdir.rules.plain import find_secret_values, holds_secret
from memdir.rules.records import FORGET, SAVE
from memdir.rules.sentences import split_sentences
from memdir.rules.tongue import find_tongues, starts
from memdir.rules.wishing import TONGUES, find_wishes
from memdir.store.payloads import MASK

_HINT = 'say what is so, or what to do: "the staging db is reset every Sunday", "no emoji in commit messages"'


def compose(text: str, *, now: datetime, kind: Kind | None = None, secrets: bool = False) -> Draft:
    """A draft with a type, a title, a description and absolute dates; refused if nothing telling is in the text.

    With `secrets` one that holds a secret is not refused, but the value stands in the body alone: titles and
    descriptions are shown in lists, and become the names of files.
    """
    if secrets and (values := find_secret_values(text)):
        shown = text
        for value in values:
            shown = shown.replace(value, MASK)
        draft = _compose(shown, now, kind)
        return replace(draft, body=_compose(text, now, draft.kind).body)
    if holds_secret(text):
        raise FormatError(
            "this looks like a password or a key", field="body", hint="keep it in a password manager, remember where"
        )
    return _compose(text, now, kind)


def _compose(text: str, now: datetime, kind: Kind | None) -> Draft:
    asked = [wish for wish in find_wishes([Message("user", text)], now=now) if wish.action == SAVE]
    if len(asked) == 1 and len(split_sentences(text)) == 1 and asked[0].kind is not None:
        return Draft(kind or asked[0].kind, asked[0].title, asked[0].description, asked[0].body)
    tongue = next(iter([*find_tongues(text, TONGUES), TONGUES[0]]))
    guess = kind or guess_kind(text, tongue, Kind.PROJECT)
    lines = "\n".join(sentence.text for sentence in split_sentences(text))
    worded = word_memory(lines, tongue, guess, now, asked=starts(tongue.prefers, text.strip()))
    if worded is None:
        raise FormatError("there is nothing in it that recall could find again", field="body", hint=_HINT)
    return Draft(guess, worded.title, worded.description, worded.body)


def is_forgetting(text: str, *, now: datetime) -> bool:
    """Whether the text asks to forget something."""
    return any(wish.action == FORGET for wish in find_wishes([Message("user", text)], now=now))
