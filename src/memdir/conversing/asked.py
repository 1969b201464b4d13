"""What a person asks of memory in so many words: remember this, forget that. By rules, at once, without a model.

`remember` words a text as a memory and lets it meet what is there; `forget` takes a memory's name, or says what it is
about. Both are one act each, which `memdir undo` takes back.
"""

from collections.abc import Sequence
from datetime import datetime

from memdir.errors import ConflictError, NotFoundError
from memdir.extract import WHO
from memdir.extracted import Extracted, Reason
from memdir.records import Message, Origin
from memdir.rules import Category, Placed, Wish, compose, find_wishes, place
from memdir.rules.records import FORGET, SAVE
from memdir.staging import Staging, make_edits
from memdir.store.files import FileStore
from memdir.store.lookup import find_header

REMEMBER = "remember"
_ASKED = "asked for by the person"
_BY = "rules"
_RETRIES = 3  # when somebody else changed the same memory between planning and writing


def remember(store: FileStore, text: str, *, now: datetime, session: str) -> Extracted:
    """Keep what somebody says; raises FormatError for what recall could not find again, or what looks like a secret."""
    draft = compose(text, now=now)
    wish = Wish(Category.REQUEST, SAVE, draft.kind, draft.title, draft.description, draft.body, text)
    return _carry_out(store, wish, REMEMBER, now, session)


def forget(stores: Sequence[FileStore], text: str, *, now: datetime, session: str) -> Extracted:
    """Forget the memory of that name, or the one that is meant; raises NotFoundError where none clearly is."""
    for store in stores:
        try:
            name = find_header(store.scan(), text).name
        except NotFoundError:
            continue
        store.delete(name, origin=_make_origin(session))
        act = store.acts(name, limit=1)[0].id
        return Extracted(forgotten=(name,), by=_BY, act=act, reasons=(Reason(name, FORGET, _ASKED, text),))
    wish = _make_forget(text, now)
    for store in stores:
        done = _carry_out(store, wish, FORGET, now, session)
        if done.act is not None:
            return done
    raise NotFoundError("it is not clear which memory is meant", name=text, hint="say its name")


def _make_forget(text: str, now: datetime) -> Wish:
    """The wish in a sentence that has one, else the whole text as what is to go."""
    said = find_wishes([Message("user", text)], now=now)
    found = next((wish for wish in said if wish.action == FORGET), None)
    return found or Wish(Category.FORGET, FORGET, None, text, text, text, text)


def _carry_out(store: FileStore, wish: Wish, verb: str, now: datetime, session: str) -> Extracted:
    for _ in range(_RETRIES):
        try:
            return _try_once(store, wish, verb, now, session)
        except ConflictError:
            continue
    return _try_once(store, wish, verb, now, session)


def _try_once(store: FileStore, wish: Wish, verb: str, now: datetime, session: str) -> Extracted:
    staging = Staging(store, now=now)
    placed = place(wish, staging)
    staged = staging.staged
    changed = store.change(make_edits(staged), verb=verb, origin=_make_origin(session)) if staged else None
    texts = {at.name: at.text or "" for at in staged}
    return Extracted(
        written=tuple(at.name for at in staged if at.text is not None),
        forgotten=tuple(at.name for at in staged if at.text is None),
        by=_BY,
        act=None if changed is None else changed.act,
        reasons=tuple(_make_reason(at, texts.get(at.name, "")) for at in placed),
    )


def _make_reason(placed: Placed, text: str) -> Reason:
    return Reason(placed.name, placed.action, _ASKED, placed.quote, text)


def _make_origin(session: str) -> Origin:
    """Not as another's write: the rest of the turn is still to be learned from."""
    return Origin(WHO, _ASKED, session)
