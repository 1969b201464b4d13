"""Plain text as a memory: what an agent writes without frontmatter is kept to the letter, below a head of memdir's.

Such a file says `plain: true` in its head; whoever reads it through the memory tool sees the text alone, everybody else
a memory like any other. The description is made from how the text begins, and made anew when the text changes, unless
somebody has given it another. Pure.
"""

from memdir import frontmatter
from memdir.doors.adapters.paths import RefusedError
from memdir.drafts import check_description
from memdir.errors import FormatError
from memdir.frozen import dataclass
from memdir.records import Dialect, Kind, Scope
from memdir.text import find_forbidden, one_line, shorten

_MARK = "plain"
_DESCRIPTION_CHARS = 140


@dataclass(frozen=True, slots=True)
class Page:
    """A file in two parts: the head that is not shown, empty if all of it is, and the text."""

    head: str
    text: str


def open_page(text: str) -> Page:
    parts = frontmatter.split(text)
    if frontmatter.parse_fields(text).raw.get(_MARK) != "true":
        return Page("", text)
    body = parts.body.removeprefix("\n")
    return Page(text[: len(text) - len(body)], body)


def has_head(text: str) -> bool:
    """Whether the text brings frontmatter of its own."""
    return bool(frontmatter.split(text).opening)


def compose_page(leaf: str, text: str, *, scope: Scope, dialect: Dialect) -> str:
    """The file of a plain text. Its type is one whose words are kept as they are: a reference, or about the user."""
    kind = Kind.USER if scope is Scope.USER else Kind.REFERENCE
    fields = {"name": leaf, "description": describe(leaf, text), "type": kind.value, _MARK: "true"}
    return frontmatter.compose(fields, "", dialect) + text


def change_page(page: Page, leaf: str, text: str, *, scope: Scope, new_leaf: str = "") -> str:
    """The file with another text, or under another name; one that has no head at all gets one."""
    new_leaf = new_leaf or leaf
    if not page.head:
        return (
            text
            if has_head(text) or has_head(page.text)
            else compose_page(new_leaf, text, scope=scope, dialect=Dialect.FLAT)
        )
    changed, fields = page.head + text, frontmatter.parse_fields(page.head)
    if fields.title == leaf != new_leaf:
        changed = frontmatter.set_fields(changed, {"name": new_leaf})
    if fields.description == describe(leaf, page.text):
        changed = frontmatter.set_fields(changed, {"description": describe(new_leaf, text)})
    return changed


def describe(leaf: str, text: str) -> str:
    """One line by which recall can judge a text: how it begins, after its name if that alone says too little."""
    begins = shorten(one_line(text[:2000]).lstrip("#-*> "), _DESCRIPTION_CHARS)
    named = f"What an agent wrote down in {leaf}"
    return next((line for line in (begins, f"{named}: {begins}") if begins and _is_telling(line)), named)


def fit_line_ends(said: str, text: str) -> str:
    """What a model says with the line ends of the text it is for: a view does not show which those are."""
    return said.replace("\n", "\r\n") if "\r\n" in text and "\r" not in said else said


def find_once(text: str, old: str, path: str) -> int:
    """Where the old text stands; raises RefusedError unless that is one place."""
    at = text.find(old) if old else -1
    if at < 0:
        raise RefusedError(f"No replacement was performed, old_str `{old}` did not appear verbatim in {path}.")
    places = [at]
    while (more := text.find(old, places[-1] + 1)) >= 0:
        places.append(more)
    if len(places) > 1:
        lines = ", ".join(str(text.count("\n", 0, place) + 1) for place in places[:100])
        raise RefusedError(
            f"No replacement was performed. Multiple occurrences of old_str `{old}` in lines: {lines}. "
            "Please ensure it is unique"
        )
    return at


def _is_telling(line: str) -> bool:
    try:
        check_description(line)
    except FormatError:
        return False
    return not find_forbidden(line, lines=False)
