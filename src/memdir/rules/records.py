"""What the local extractor hands on: a wish, and what became of it."""

from datetime import datetime

from memdir.frozen import dataclass
from memdir.records import Kind
from memdir.rules.tongue import Category

SAVE = "save"
FORGET = "forget"

_WHYS = {
    Category.REQUEST: "asked for",
    Category.CORRECTION: "a correction of the way of working",
    Category.CONFIRMATION: "praise for a way of working",
    Category.IDENTITY: "who the user is",
    Category.DEADLINE: "a date to be kept",
    Category.DECISION: "a decision",
    Category.POINTER: "where to look outside the project",
    Category.FORGET: "asked to forget",
}


@dataclass(frozen=True, slots=True)
class Wish:
    """One thing a person wants remembered or forgotten, worded as a memory, with their own words beside it."""

    category: Category
    action: str
    kind: Kind | None
    title: str
    description: str
    body: str
    quote: str
    message: str = ""
    at: datetime | None = None
    language: str = ""
    hides: str = ""  # what secret was taken out of its words

    @property
    def is_explicit(self) -> bool:
        return self.category in (Category.REQUEST, Category.FORGET)

    @property
    def why(self) -> str:
        """For people."""
        return _WHYS[self.category]

    @property
    def target(self) -> str:
        """What is to be forgotten."""
        return self.body if self.action == FORGET else ""


@dataclass(frozen=True, slots=True)
class Placed:
    """What a wish came to: create, update, forget, unchanged or unclear; the memory, if it is known."""

    name: str
    action: str
    wish: Wish | None
    quote: str = ""
