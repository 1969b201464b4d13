"""What a conversation asked for and somebody has already seen to: the agent by its own tools, or a model's memories.

It only looks; what is left of the wishes is written by `extract`.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from pathlib import Path

from memdir.errors import NotFoundError
from memdir.extracted import Conversation
from memdir.judging import FORGET
from memdir.own_writes import find_written_memory
from memdir.records import Message
from memdir.rules import Wish, is_said
from memdir.store.contract import Verbs
from memdir.store.history import OUTSIDE
from memdir.store.plan import decode
from memdir.text import fold

_RECENT_ACTS = 200  # looked through for what the agent wrote by other ways
_PAST_ACTS = 3  # looked through for what a memory said before
_AFTER = timedelta(minutes=1)  # after the last message: a write that belongs to it


def find_own(
    store: Verbs, messages: Sequence[Message], talk: Sequence[Message], conversation: Conversation, *, but: str
) -> list[str] | None:
    """The memories that somebody but this one wrote while the talk of these messages went on; None if nobody did."""
    root = getattr(store, "root", None)
    paths = () if root is None else _find_paths(root, messages, conversation)
    times = [message.at for message in talk if message.at]
    acts = [
        act
        for act in store.acts(limit=_RECENT_ACTS)
        if act.origin.session and act.origin.session == conversation.session
        if act.origin.who != but and act.verb != OUTSIDE
        if not times or min(times) <= act.at <= max(times) + _AFTER
    ]
    if not paths and not acts:
        return None
    names = [os.path.relpath(path, root) for path in paths if root is not None and os.path.isabs(path)]
    names += [change.path for act in acts for change in act.changes]
    return [name.removesuffix(".md") for name in dict.fromkeys(names)]


def leave_out_answered(store: Verbs, wishes: Sequence[Wish], own: Sequence[str]) -> list[Wish]:
    """Wishes that these memories do not answer: what was to be kept stands in one, what was to go once stood."""
    known = {fold(header.name): header.name for header in store.scan()}
    now = [store.read(known[fold(name)]).text for name in own if fold(name) in known]
    once = list(_read_past(store, own)) if any(wish.action == FORGET for wish in wishes) else []
    gone = [text for text in once if text not in now]
    return [wish for wish in wishes if not any(is_said(wish, at) for at in (gone if wish.action == FORGET else now))]


def leave_out_said(wishes: Sequence[Wish], texts: Sequence[str]) -> list[Wish]:
    """Wishes that none of these texts has answered."""
    return [wish for wish in wishes if not any(is_said(wish, text) for text in texts)]


def _find_paths(root: Path, messages: Sequence[Message], conversation: Conversation) -> tuple[str, ...]:
    places = (root, os.path.realpath(root))
    cwd = str(conversation.project or "")
    return find_written_memory(messages, places, cwd=cwd, home=conversation.home)


def _read_past(store: Verbs, names: Iterable[str]) -> Iterator[str]:
    """What memories said before their last changes."""
    for name in names:
        changes = [change for act in store.acts(name, limit=_PAST_ACTS) for change in act.changes]
        for change in changes:
            if change.before is not None and change.splice is None:
                try:
                    yield decode(store.read_content(change.before))
                except NotFoundError:
                    continue  # purged
