"""May the model do that? A person is asked, once for a thing or once for all of its kind in this conversation.

Two kinds: to look (read and search files of the project, whose text goes to the model's provider) and to change (write
and edit them). Where nobody can be asked the answer is no, unless the caller has said yes beforehand.
"""

from collections.abc import Callable, Iterable

LOOK, CHANGE = "look", "change"
KINDS = (LOOK, CHANGE)
_WORDS = {LOOK: "look into", CHANGE: "change"}
_QUESTION = "  Allow it? [y]es, [a]lways in this conversation, [n]o: "


class StoppedAsking(Exception):
    """The person wants neither this nor what follows: Ctrl-C at the question."""


class Permissions:
    """`ask` puts a question and answers what was typed; None where nobody sits there."""

    def __init__(self, ask: Callable[[str], str] | None = None, allowed: Iterable[str] = ()) -> None:
        self._ask = ask
        self._allowed = set(allowed)

    def check(self, kind: str, what: str, show: Callable[[str], None]) -> bool:
        """Whether a thing of this kind may be done now; `what` says which, to the person."""
        if kind in self._allowed:
            return True
        if self._ask is None:
            return False
        show(f"The model wants to {_WORDS[kind]} {what}.")
        answer = self._ask(_QUESTION).strip().lower()
        if answer in ("a", "always"):
            self._allowed.add(kind)
        return answer in ("y", "yes", "a", "always")
