"""Notes as text: sections with a heading and a line in italics that never change, and what is written below them.

Pure. A section begins at a heading of the template's own level or above; headings inside code fences are code. What
stands before the first heading is kept as it is. `check_update` proves that an update has left headings and
descriptions alone, in their order, and that the text is whole.

What it does not do: say how long a section may be (cutting), or where the file is (place).
"""

import re
from collections.abc import Iterator

from memdir.errors import FormatError
from memdir.frozen import dataclass, replace
from memdir.prompts import render_prompt
from memdir.text import find_forbidden, one_line, shorten

_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+\S")
_DESCRIPTION = re.compile(r"\s*(?:_[^_].*_|\*[^*].*[^*]\*)\s*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})(.*)")


@dataclass(frozen=True, slots=True)
class Section:
    """A heading as its whole line, the description below it (empty if there is none), and the text."""

    heading: str
    description: str = ""
    text: str = ""

    @property
    def name(self) -> str:
        return self.heading.strip().lstrip("#").strip()


@dataclass(frozen=True, slots=True)
class Notes:
    """`level` is how deep a heading may be that still begins a section."""

    sections: tuple[Section, ...] = ()
    preamble: str = ""
    level: int = 1

    def find(self, name: str) -> Section | None:
        return next((at for at in self.sections if at.name.casefold() == name.casefold()), None)

    def with_texts(self, texts: dict[str, str]) -> "Notes":
        """The same notes with other texts under some headings, by name; the first of a name counts."""
        wanted = {name.casefold(): text for name, text in texts.items()}
        sections = (replace(at, text=wanted.pop(at.name.casefold(), at.text).strip("\n")) for at in self.sections)
        return replace(self, sections=tuple(sections))


@dataclass(frozen=True, slots=True)
class Line:
    """A line, and the fence it stands in: its opening marks, empty outside."""

    text: str
    fence: str = ""


def make_template(custom: str = "") -> Notes:
    """The ten sections, or those of the person's own template if it has any."""
    for text in (custom, render_prompt("notes/template")):
        levels = [len(match[1]) for line in walk_lines(text) if not line.fence and (match := _HEADING.match(line.text))]
        if levels:
            return parse_notes(text, level=max(levels))
    raise FormatError("the template of the notes has no headings", field="template")


def open_notes(text: str | None, template: Notes) -> Notes:
    """The notes of a file. Its own headings count; a file without any keeps its text, and the template follows it."""
    notes = parse_notes(text or "", level=template.level)
    return notes if notes.sections else replace(template, preamble=notes.preamble or template.preamble)


def parse_notes(text: str, *, level: int = 1) -> Notes:
    """Sections of a text; never raises."""
    preamble: list[str] = []
    found: list[list[str]] = []
    for line in walk_lines(text.removeprefix("\ufeff")):
        match = None if line.fence else _HEADING.match(line.text)
        if match and len(match[1]) <= level:
            found.append([line.text])
        else:
            (found[-1] if found else preamble).append(line.text)
    return Notes(tuple(_make_section(lines) for lines in found), _join(preamble), level)


def render_notes(notes: Notes) -> str:
    """The text of a file, with one line end at its end."""
    parts = [notes.preamble, *map(render_section, notes.sections)]
    return "\n\n".join(part for part in parts if part) + "\n"


def render_section(section: Section) -> str:
    head = f"{section.heading}\n{section.description}" if section.description else section.heading
    return f"{head}\n\n{section.text}" if section.text else head


def check_update(before: Notes, after: str) -> Notes:
    """The notes an update came to; raises FormatError where it changed more than the texts, or left them broken."""
    if forbidden := find_forbidden(after, lines=True):
        raise FormatError(f"the notes hold {forbidden}", field="text", hint="leave it out")
    if find_open_fence(after):
        raise FormatError("a code fence is not closed", field="text", hint="close it below its last line")
    notes = parse_notes(after, level=before.level)
    if notes.preamble != before.preamble:
        raise FormatError("the text above the first heading was changed", field="heading", hint="leave it as it is")
    pairs = zip(before.sections, notes.sections, strict=False)
    sections = tuple(_check_section(old, new) for old, new in pairs)
    if len(notes.sections) > len(before.sections):
        added = _show(notes.sections[len(before.sections)].heading)
        hint = "write inside the sections that exist, with deeper headings if any"
        raise FormatError(f"the heading {added} was added", field="heading", hint=hint)
    if len(notes.sections) < len(before.sections):
        raise _make_gone(before.sections[len(notes.sections)])
    return replace(notes, sections=sections)


def is_empty(notes: Notes, template: Notes) -> bool:
    """Whether nothing was written that the template does not say."""
    own = {at.text for at in template.sections}
    return all(not at.text or at.text in own for at in notes.sections) and notes.preamble in ("", template.preamble)


def walk_lines(text: str) -> Iterator[Line]:
    """The lines of a text; those of a fence, its first and last included, with its marks."""
    fence = ""
    for line in text.replace("\r\n", "\n").split("\n"):
        match = _FENCE.match(line)
        if not fence:
            is_opening = match and not (match[1][0] == "`" and "`" in match[2])
            fence = match[1] if match and is_opening else ""
            yield Line(line, fence)
            continue
        yield Line(line, fence)
        if match and match[1].startswith(fence) and not match[2].strip():
            fence = ""


def find_open_fence(text: str) -> str:
    """The marks of a fence that is not closed at the end; empty if all are."""
    last = ""
    for line in walk_lines(f"{text}\n"):
        last = line.fence
    return last


def _make_section(lines: list[str]) -> Section:
    rest = lines[1:]
    first = next((at for at, line in enumerate(rest) if line.strip()), None)
    if first is not None and _DESCRIPTION.fullmatch(rest[first]):
        return Section(lines[0].rstrip(), rest[first].strip(), _join(rest[first + 1 :]))
    return Section(lines[0].rstrip(), "", _join(rest))


def _check_section(old: Section, new: Section) -> Section:
    if new.heading != old.heading:
        raise _make_gone(old)
    if not old.description and new.description:  # a text may well begin with a line in italics
        return Section(new.heading, "", f"{new.description}\n\n{new.text}".strip("\n"))
    if new.description != old.description:
        what = f"the line in italics below {_show(old.heading)} was changed"
        raise FormatError(what, field="description", hint=f"put it back: {old.description}")
    return new


def _make_gone(section: Section) -> FormatError:
    hint = f"put back, in its place: {section.heading}"
    return FormatError(f"the heading {_show(section.heading)} was changed, moved or lost", field="heading", hint=hint)


def _show(heading: str) -> str:
    return repr(shorten(one_line(heading), 80))


def _join(lines: list[str]) -> str:
    return "\n".join(line.rstrip() for line in lines).strip("\n")
