"""Recall with everything in its place: the local index opened, the settings heard, the conversation found by its id.

For whoever has a store or a working directory and a question, and no wish to choose a selector. What recall does is
`recall`'s; what fits is `search`'s.
"""

from collections.abc import Callable, Sequence
from datetime import datetime

from memdir.aging import read_half_lives
from memdir.limits import SELECTED
from memdir.opening import Opened
from memdir.recall import Asked, Recalled, account, find_memories
from memdir.search.local import LocalSearch
from memdir.session import SessionFile, open_session
from memdir.store.contract import Store, utc_now


def recall(
    stores: Store | Sequence[Store],
    query: str,
    *,
    now: datetime | None = None,
    session: SessionFile | None = None,
    tools: Sequence[str] = (),
    limit: int = SELECTED,
    semantic: bool = True,
) -> Recalled:
    """The memories that fit a question, at most `limit` and possibly none; iterate over the answer.

    Of several stores, the project's comes first. With a `session` nothing is told twice in one conversation.
    """
    given = tuple(stores) if isinstance(stores, Sequence) else (stores,)
    with LocalSearch(given, semantic=semantic) as search:
        asked = Asked(given, query, search, now or utc_now(), session, tuple(tools), limit)
        return account(find_memories(asked), asked)


def recall_here(
    opened: Opened,
    query: str,
    *,
    session: str = "",
    tools: Sequence[str] = (),
    limit: int = SELECTED,
    semantic: bool = True,
    peek: bool = False,
    on_read: Callable[[int], None] = lambda count: None,
    on_found: Callable[[Recalled], None] = lambda found: None,
) -> Recalled:
    """As `recall`, where somebody works: by their settings, in the conversation of that id.

    To `peek` is to look without telling: nothing counts as surfaced. `on_read` hears of files read into the index,
    `on_found` of what was found before it is accounted for.
    """
    settings = opened.settings
    lives = read_half_lives(settings)
    with LocalSearch(opened.stores, semantic=semantic, half_lives=lives, on_read=on_read) as search:
        asked = Asked(
            opened.stores,
            query,
            search,
            opened.now(),
            open_session(opened.private.state, session) if session else None,
            tuple(tools),
            limit,
            on=opened.places.switch.on and settings.flag("recall"),
            paused=settings.flag("paused"),
        )
        found = find_memories(asked)
        on_found(found)
        return found if peek else account(found, asked)
