"""Checks of a draft before anything is written: description and title, the parts of its body, the name it gets.

Pure functions. Whether a name may be used at all is checked by the guard. Files already on disk are not checked here.
"""

import re
import unicodedata

from memdir import limits
from memdir.errors import FormatError
from memdir.frozen import compile_late
from memdir.records import Kind
from memdir.text import fold

WHY = "**Why:**"
HOW = "**How to apply:**"

_HINTS = {
    Kind.USER: 'say who the user is or what they know, as in "writes Go daily, new to React"',
    Kind.FEEDBACK: 'say what to do or to avoid, as in "no summary at the end of a reply"',
    Kind.PROJECT: 'say what is decided or due, as in "merge freeze from 2026-03-05 for the mobile release"',
    Kind.REFERENCE: 'say what is found where, as in "pipeline bugs are tracked in Linear, project INGEST"',
}
_HINT = "say in one line what recall should find it by: the subject and what is special about it"

# A part is present in bold, as a heading, or as a line that begins with the words and a colon.
_PART = (
    r"(?:^[ \t>]*#{{1,6}}[ \t]*[*_]*{words}\b|[*_]{{2}}[ \t]*{words}[ \t]*[:：?]?[ \t]*[*_]{{2}}|"
    r"^[ \t>*+-]*{words}[ \t]*[:：])"
)
_PARTS = {
    WHY: compile_late(_PART.format(words="why"), re.IGNORECASE | re.MULTILINE),
    HOW: compile_late(_PART.format(words=r"how[ \t]+to[ \t]+apply"), re.IGNORECASE | re.MULTILINE),
}
# The paragraph of a part as `compose_body` writes it: up to a blank line or the next bold word at the start of a line.
_PARAGRAPH = r"^{mark}.*(?:\n(?!\s*$|\*\*).*)*"

_DEVICES = compile_late(r"con|prn|aux|nul|(?:com|lpt)[1-9]")
_ENGLISH_ENDS = re.compile(r"(?<=\w)['’](?=(?:t|s|re|ve|ll|d|m)\b)")  # don't, it's: one word; l'air is two
# Letters and marks that show nothing (default-ignorable) may not be in a name.
_IGNORABLE = compile_late("[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0\U000e0000-\U000e0fff]")


def check_description(description: str, kind: Kind | None = None) -> None:
    """Raise FormatError for a description that is too vague for recall."""
    hint = _HINTS[kind] if kind is not None else _HINT
    _check_line(description, "description", limits.DESCRIPTION_CHARS, hint)
    # Imported here: reading memories needs no word lists, and every prompt hook would load them.
    from memdir.language.words import count_content

    count = count_content(description)
    if count.words < limits.DESCRIPTION_WORDS:
        few = f"fewer than {limits.DESCRIPTION_WORDS} words in it say what it is about"
        raise FormatError(f"the description is too vague: {few}", field="description", hint=hint)
    if not count.telling:
        raise FormatError("the description is too vague: it would fit any memory", field="description", hint=hint)


def check_title(title: str) -> None:
    """Raise FormatError for a title that is not one line of reasonable length."""
    _check_line(title, "title", limits.TITLE_CHARS, "a title is a few words on one line")


def find_missing_parts(kind: Kind, body: str) -> tuple[str, ...]:
    """Which of Why and How to apply a feedback or project body lacks."""
    if kind not in {Kind.FEEDBACK, Kind.PROJECT}:
        return ()
    return tuple(mark for mark, pattern in _PARTS.items() if not pattern.search(body))


def compose_body(body: str, why: str | None, how: str | None) -> str:
    """Returns the body with its Why and How to apply: an existing paragraph is replaced, a missing one is added."""
    if why and why.strip():
        body = _set_part(body, WHY, why.strip(), before=HOW)
    if how and how.strip():
        body = _set_part(body, HOW, how.strip(), before=None)
    return body


def make_slug(title: str) -> str:
    """Returns a file name for a title: lower-case letters of any script, digits, `-`, `_`; never empty or reserved."""
    lowered = _ENGLISH_ENDS.sub("", unicodedata.normalize("NFC", unicodedata.normalize("NFC", title).lower()))
    visible = "".join(char for char in lowered if not _IGNORABLE.match(char) and unicodedata.category(char) != "Cf")
    kept: list[str] = []
    for char in visible:
        kept.append(char if _is_kept(char, kept[-1] if kept else " ") else "-")
    slug = _cut(unicodedata.normalize("NFC", re.sub("-+", "-", "".join(kept)).strip("-")))
    if not any(char.isalnum() for char in slug):
        import hashlib  # here, because OpenSSL takes milliseconds to load and few titles need it

        return "memory-" + hashlib.sha256(title.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{slug}-memory" if fold(slug) == "memory" or _DEVICES.fullmatch(fold(slug)) else slug


def _check_line(text: str, field: str, most: int, hint: str) -> None:
    if not text.strip():
        raise FormatError(f"the {field} is empty", field=field, hint=hint)
    if len(text.strip().splitlines()) > 1:
        raise FormatError(f"the {field} has more than one line", field=field, hint=hint)
    if len(text) > most:
        raise FormatError(f"the {field} has {len(text):,} characters, {most:,} are allowed", field=field, hint=hint)


def _set_part(body: str, mark: str, text: str, before: str | None) -> str:
    paragraph = f"{mark} {text}"
    if found := _find_paragraph(body, mark):
        return body[: found.start()] + paragraph + body[found.end() :]
    if before and (later := _find_paragraph(body, before)):
        return f"{body[: later.start()]}{paragraph}\n\n{body[later.start() :]}"
    return f"{body.rstrip()}\n\n{paragraph}\n" if body.strip() else f"{paragraph}\n"


def _find_paragraph(body: str, mark: str) -> re.Match[str] | None:
    return re.search(_PARAGRAPH.format(mark=re.escape(mark)), body, re.IGNORECASE | re.MULTILINE)


def _is_kept(char: str, before: str) -> bool:
    """Letters, decimal digits, `-`, `_`, and marks that sit on a letter."""
    category = unicodedata.category(char)
    if char in "-_" or category[0] == "L" or category == "Nd":
        return True
    return category in {"Mn", "Mc"} and unicodedata.category(before)[0] in "LM"


def _cut(slug: str) -> str:
    """At most what a name may hold, at a word where that keeps more than half, never between a letter and its marks."""
    end = min(len(slug), limits.NAME_CHARS)
    while len(slug[:end].encode("utf-8")) > limits.NAME_BYTES:
        end -= 1
    if end == len(slug):
        return slug
    while end and unicodedata.category(slug[end])[0] == "M":
        end -= 1
    word = max(slug.rfind(mark, 0, end + 1) for mark in "-_")
    return slug[: word if word > end // 2 else end].strip("-_")
