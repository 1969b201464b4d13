"""Endpoints that are like another one, but not quite: what one refuses is left out, once, and remembered.

Many servers speak the shape of a vendor and know only a part of it. Rather than a table of servers, the refusal itself
is read: if it names something that can be done without, the request goes out again without it.
"""

import re
from collections.abc import Callable, Mapping

from memdir.errors import UnreachableError
from memdir.frozen import dataclass, replace
from memdir.models.wire import add_usage
from memdir.records import Reply, Request

THINKS = "thinks"


@dataclass(frozen=True, slots=True)
class Heard:
    """A reply, and whether thinking left no room for it."""

    reply: Reply
    starved: bool = False


def ask_adapting(
    send: Callable[[Request, frozenset[str]], Heard],
    request: Request,
    quirks: set[str],
    cures: Mapping[str, re.Pattern[str]],
) -> Reply:
    """Send; of what is refused by name, note the quirk and send again. `quirks` is what is known of the endpoint."""
    spent = None
    while True:
        try:
            heard = send(request, frozenset(quirks))
        except UnreachableError as error:
            cure = _find_cure(error, quirks, cures)
            if cure is None:
                raise
            quirks.add(cure)
            continue
        usage = heard.reply.usage if spent is None else add_usage(spent, heard.reply.usage)
        if heard.starved and THINKS not in quirks:
            quirks.add(THINKS)
            spent = usage
            continue
        return replace(heard.reply, usage=usage)


def _find_cure(error: UnreachableError, quirks: set[str], cures: Mapping[str, re.Pattern[str]]) -> str | None:
    if error.reason != "refused":
        return None
    return next((name for name, words in cures.items() if name not in quirks and words.search(str(error))), None)
