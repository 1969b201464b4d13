"""Two memories made one without losing what either says: the wider text, both reasons, both descriptions.

Pure. It does not judge whether the two belong together; `duplicates` does.
"""

import re
from collections.abc import Iterator, Mapping

from memdir import frontmatter
from memdir.links import find_target
from memdir.records import Memory
from memdir.store.contract import read_time
from memdir.text import one_line
from memdir.tidy.facts import LABELS, Fact, find_shape, find_words, join_parts, make_exact
from memdir.tidy.shape import Shape, is_same
from memdir.tidy.tokens import parse_tokens
from memdir.tidy.words import NEGATIONS

_COMMENT = re.compile(r"^[ \t]*#[ \t]*(\S.*?)[ \t\r]*$", re.MULTILINE)
_DESCRIPTION = 300  # characters up to which descriptions are joined; beyond that the second goes into the body
_ORDERED = NEGATIONS | frozenset("before after until since than above below only".split())
# What tools note of a memory for themselves; all else in a head may be a fact.
_NOTED = frozenset("name description type pinned modified verified created updated node_type originsessionid".split())
_LINK = re.compile(r"(```.*?```|~~~.*?~~~|`[^`\n]*`)|\[\[([^\[\]\n|]{1,200})(\|[^\[\]\n]*)?\]\]", re.DOTALL)


def unite(kept: Fact, other: Fact, hooks: tuple[str, ...] = ()) -> str:
    """The text of `kept` with all that `other` says. `hooks` are what index lines say of the other."""
    newer, older = (kept, other) if _is_newer(kept, other) else (other, kept)
    main = choose_wider(newer.main, older.main) or newer.main
    parts = {label: _unite_part(newer.parts.get(label, ""), older.parts.get(label, "")) for label in LABELS}
    text = kept.memory.text
    if (main, parts) != (kept.main, {label: kept.parts.get(label, "") for label in LABELS}):
        text = frontmatter.replace_body(text, join_parts(main, parts))
    return _unite_heads(text, kept, other, hooks)


def choose_wider(one: str, other: str) -> str:
    """Of two texts that say the same the one that also says the other; empty if neither does."""
    if make_exact(one) == make_exact(other):
        return one
    first, second = find_shape(one), find_shape(other)
    if first is None or second is None:
        return ""
    if is_same(first, second) or is_within(second, first):
        return one
    return other if is_within(first, second) else ""


def is_within(inner: Shape, outer: Shape) -> bool:
    """Whether one text is the other with a clause added."""
    more = len(outer.keys) - len(inner.keys)
    return bool(inner.keys) and any(
        span[1] - span[0] == more and outer.leave_out(span) == inner.keys for span in outer.spans
    )


def has_own_fields(other: Fact, kept: Fact) -> bool:
    """Whether the head of one has a field or a remark that the other one's has not, and that a merge would drop."""
    own, theirs = (dict(_list_fields(frontmatter.parse_fields(at.memory.text).raw)) for at in (other, kept))
    remarks, known = (_COMMENT.findall(frontmatter.split(at.memory.text).head) for at in (other, kept))
    return any(theirs.get(key) != value for key, value in own.items()) or not set(remarks) <= set(known)


def _list_fields(raw: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    for key, value in raw.items():
        if key == "metadata" and isinstance(value, dict):
            yield from _list_fields(value)
        elif key.lower() not in _NOTED:
            yield key, value


def repoint(text: str, targets: Mapping[str, str], old: str, new: str) -> str:
    """The text with each link that means one memory leading to another; code is left alone."""

    def swap(match: re.Match[str]) -> str:
        if match[1] is not None or find_target(match[2].strip(), targets) != old:
            return match.group()
        return f"[[{new}{match[3] or ''}]]"

    return _LINK.sub(swap, text)


def _is_newer(one: Fact, other: Fact) -> bool:
    return (one.memory.header.modified, one.name) >= (other.memory.header.modified, other.name)


def _unite_part(newer: str, older: str) -> str:
    if not newer or not older:
        return newer or older
    # A list or a block of code ends with its line.
    between = "\n\n" if "\n" in newer + older else " "
    return choose_wider(newer, older) or f"{newer}{between}{older}"


def _unite_heads(text: str, kept: Fact, other: Fact, hooks: tuple[str, ...]) -> str:
    header, away = kept.memory.header, other.memory.header
    said = find_words(f"{header.title}. {text}")
    letters = make_exact(f"{text} {other.memory.body}").lower()
    added = []
    for phrase in (*away.description.split("; "), away.title, *hooks):
        if not (find_words(phrase) <= said and (_is_plain(phrase) or _strip(phrase).lower() in letters)):
            added.append(_strip(phrase))
            said |= find_words(phrase)
            letters += f" {_strip(phrase).lower()}"
    if added:
        text = _add_phrases(text, header.description.rstrip(" .;"), added)
    return _renew_time(text, kept.memory, other.memory)


def _is_plain(phrase: str) -> bool:
    """Whether a phrase says what its words say, in whatever order: "A before B" has the words of "B before A"."""
    return _ORDERED.isdisjoint(at.key for at in parse_tokens(phrase))


def _strip(phrase: str) -> str:
    return one_line(phrase).rstrip(" .;")


def _add_phrases(text: str, description: str, added: list[str]) -> str:
    joined = "; ".join([description, *added])
    if len(joined) <= _DESCRIPTION:
        return frontmatter.set_fields(text, {"description": joined})
    return add_to_main(text, ". ".join(added) + ".")


def add_to_main(text: str, sentence: str) -> str:
    """The text with one more paragraph behind its fact, before Why and How to apply."""
    body = frontmatter.split(text).body.replace("\r\n", "\n").strip("\n")
    found = re.search(r"^\*\*(?:why|how to apply):\*\*", body, re.IGNORECASE | re.MULTILINE)
    place = found.start() if found else len(body)
    pieces = (body[:place].strip("\n"), sentence, body[place:].strip("\n"))
    return frontmatter.replace_body(text, "\n\n".join(piece for piece in pieces if piece))


def _renew_time(text: str, kept: Memory, other: Memory) -> str:
    """What was said again later is as new as that."""
    before = frontmatter.parse_fields(text).modified
    written = read_time(before)
    if written is None or text == kept.text or other.header.modified <= written:
        return text
    return frontmatter.set_fields(text, {"modified": other.header.modified.isoformat(timespec="seconds")})
