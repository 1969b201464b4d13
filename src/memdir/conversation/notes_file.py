"""Parse, check, shorten and render session notes without disk access.

A section begins at a heading of the template's level or above; headings inside code fences are code. Text before the first
heading is kept. An update replaces the texts of sections only; `check_notes` raises FormatError if such a text is broken or
adds a heading.

A cut removes complete lines: from the end of a section, or from the beginning of a section that grows at its end. It states
how many lines were cut and leaves no code fence open. If all sections together are too long, the longest are cut first.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence

from memdir.errors import FormatError
from memdir.format.shown import TextVoice, show_text
from memdir.frozen import dataclass, replace
from memdir.limits import NOTES_DIGEST_CHARS, NOTES_SECTION_TOKENS, NOTES_TOKENS
from memdir.models.prompts import render_prompt
from memdir.text import estimate_tokens, find_fences, find_forbidden, list_lines, one_line, shorten

# Sections that grow at their end. When they are cut, their end is kept.
GROWING = frozenset(("worklog", "errors & corrections"))
# The sections that a hook shows after a compaction, in this order.
_DIGESTED = ("Current State", "Task specification", "Errors & Corrections", "Worklog")
_MIN_SIZE = 40  # min tokens or characters of an excerpt that is worth showing
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+\S")
_DESCRIPTION = re.compile(r"\s*(?:_[^_].*_|\*[^*].*[^*]\*)\s*")

Measure = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class NotesSection:
    """A section with its heading, its fixed description, which may be empty, and its text."""

    heading: str
    description: str = ""
    text: str = ""

    @property
    def name(self) -> str:
        return self.heading.strip().lstrip("#").strip()


@dataclass(frozen=True, slots=True)
class Notes:
    """Parsed notes. `level` is the deepest heading level that starts a section."""

    sections: tuple[NotesSection, ...] = ()
    preamble: str = ""
    level: int = 1

    def find(self, name: str) -> NotesSection | None:
        return next((section for section in self.sections if section.name.casefold() == name.casefold()), None)

    def with_texts(self, texts: dict[str, str]) -> "Notes":
        """Return the notes with new texts under the given headings. If headings repeat, only the first is used."""
        new = {name.casefold(): text for name, text in texts.items()}
        sections = (replace(old, text=new.pop(old.name.casefold(), old.text).strip("\n")) for old in self.sections)
        return replace(self, sections=tuple(sections))


def make_template(custom: str = "") -> Notes:
    """Return the sections of the user's template, or ten built-in ones."""
    for text in (custom, render_prompt("notes/template")):
        levels = [len(match[1]) for line, fence in walk_lines(text) if not fence and (match := _HEADING.match(line))]
        if levels:
            return parse_notes(text, level=max(levels))
    raise FormatError("the notes template has no headings", field="template")


def open_notes(text: str | None, template: Notes) -> Notes:
    """Parse the text of a notes file. If it has no headings, the template is appended."""
    notes = parse_notes(text or "", level=template.level)
    return notes if notes.sections else replace(template, preamble=notes.preamble or template.preamble)


def parse_notes(text: str, *, level: int = 1) -> Notes:
    preamble: list[str] = []
    blocks: list[list[str]] = []
    for line, fence in walk_lines(text.removeprefix("\ufeff")):
        match = None if fence else _HEADING.match(line)
        if match and len(match[1]) <= level:
            blocks.append([line])
        else:
            (blocks[-1] if blocks else preamble).append(line)
    return Notes(tuple(_make_section(lines) for lines in blocks), _join(preamble), level)


def render_notes(notes: Notes) -> str:
    parts = [notes.preamble, *map(render_section, notes.sections)]
    return "\n\n".join(part for part in parts if part) + "\n"


def render_section(section: NotesSection) -> str:
    head = f"{section.heading}\n{section.description}" if section.description else section.heading
    return f"{head}\n\n{section.text}" if section.text else head


def check_notes(notes: Notes) -> None:
    """Raise FormatError if the notes would not parse as they are, as a text adds or hides a heading or is broken."""
    text = render_notes(notes)
    if forbidden := find_forbidden(text, lines=True):
        raise FormatError(f"the notes contain {forbidden}", field="text", hint="remove it")
    if find_open_fence(text):
        raise FormatError("a code block is not closed", field="text", hint="add a closing fence after its last line")
    before, after = (
        [section.heading for section in one.sections] for one in (notes, parse_notes(text, level=notes.level))
    )
    if before != after:
        added = next((heading for heading in after if after.count(heading) > before.count(heading)), "")
        what = f"the heading {shorten(one_line(added), 80)!r} was added" if added else "a code block hides a heading"
        hint = "write inside the sections that exist, with deeper headings if any"
        raise FormatError(what, field="heading", hint=hint)


def is_empty(notes: Notes, template: Notes) -> bool:
    defaults = {"", *(section.text for section in template.sections)}
    return all(section.text in defaults for section in notes.sections) and notes.preamble in ("", template.preamble)


def walk_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield each line with the delimiter of the code fence that contains it, or "" outside of fences."""
    return ((line, fence.mark if fence else "") for line, fence in list_lines(text.replace("\r\n", "\n")))


def find_open_fence(text: str) -> str:
    """Return the delimiter of an unclosed code fence, or ""."""
    return next((fence.mark for fence in find_fences(text) if not fence.is_closed), "")


def _make_section(lines: list[str]) -> NotesSection:
    first = next((number for number, line in enumerate(lines[1:], 1) if line.strip()), 0)
    if first and _DESCRIPTION.fullmatch(lines[first]):
        return NotesSection(lines[0].rstrip(), lines[first].strip(), _join(lines[first + 1 :]))
    return NotesSection(lines[0].rstrip(), "", _join(lines[1:]))


def _join(lines: list[str]) -> str:
    return "\n".join(line.rstrip() for line in lines).strip("\n")


def measure_section(section: NotesSection) -> int:
    """Return the number of tokens in a section, including its heading."""
    return estimate_tokens(render_section(section))


def measure_notes(notes: Notes) -> int:
    return estimate_tokens(notes.preamble) + sum(map(measure_section, notes.sections))


def list_oversize(notes: Notes) -> tuple[str, ...]:
    rows = [
        f'"{section.name}" has about {size:,} tokens; {NOTES_SECTION_TOKENS:,} are allowed'
        for section in notes.sections
        if (size := measure_section(section)) > NOTES_SECTION_TOKENS
    ]
    if (total := measure_notes(notes)) > NOTES_TOKENS:
        rows.append(f"all sections together have about {total:,} tokens; {NOTES_TOKENS:,} are allowed")
    return tuple(rows)


def cut_notes(notes: Notes, *, where: str = "") -> tuple[Notes, dict[str, int]]:
    """Return the notes shortened to both limits, and the number of lines removed by section.

    `where` is the file that still contains the removed lines.
    """
    sizes = [measure_section(old) for old in notes.sections]
    room = share_out(
        [min(size, NOTES_SECTION_TOKENS) for size in sizes], NOTES_TOKENS - estimate_tokens(notes.preamble)
    )
    sections: list[NotesSection] = []
    lost: dict[str, int] = {}
    for old, size, limit in zip(notes.sections, sizes, room, strict=True):
        if size <= limit:
            sections.append(old)
            continue
        head = estimate_tokens(render_section(replace(old, text="")))
        text, count = cut_text(old.text, max(limit - head - 2, 0), estimate_tokens, is_end=is_growing(old), where=where)
        sections.append(replace(old, text=text))
        lost[old.name] = count
    return replace(notes, sections=tuple(sections)), lost


def render_for_compaction(notes: Notes, *, path: str, template: Notes) -> str:
    """Return the notes and their path for the start of a compacted conversation, or "" if there are none."""
    if is_empty(notes, template):
        return ""
    preamble = "\n\n".join(filter(None, (render_prompt("notes/compacted", path=path), notes.preamble)))
    return _make_safe(render_notes(cut_notes(replace(notes, preamble=preamble), where=path)[0]))


def hook_digest(notes: Notes, *, path: str = "") -> str:
    """Return an excerpt of the notes for a hook, or "" if there are none."""
    known = [section for name in _DIGESTED if (section := notes.find(name)) and section.text]
    sections = known or [section for section in notes.sections if section.text]
    end = f"\n\nAll notes of this session: {path}" if path else ""
    label = render_prompt("notes/digest")
    headings = sum(len(section.name) + 5 for section in sections) + len(end) + len(label) + 2
    room = share_out([len(section.text) for section in sections], NOTES_DIGEST_CHARS - headings)
    parts = []
    for section, limit in zip(sections, room, strict=True):
        text = section.text
        if len(text) > limit:
            text, _ = cut_text(text, limit, len, is_end=is_growing(section), where="")
        if text:
            parts.append(f"## {section.name}\n{text}")
    return _make_safe("\n\n".join([label, *parts]), end) if parts else ""


def _make_safe(text: str, end: str = "") -> str:
    """Return the notes without text that could end or imitate one of our blocks."""
    label, _, rest = text.partition("\n")
    return show_text(f"{label}\n{show_text(rest, TextVoice.OWN)}{end}", TextVoice.FILE)


def share_out(sizes: Sequence[int], total: int) -> list[int]:
    """Distribute `total` over the sizes: small ones fit completely, large ones get equal shares."""
    rest, shares = max(total, 0), [0] * len(sizes)
    order = sorted(range(len(sizes)), key=lambda number: sizes[number])
    for count, number in enumerate(order):
        shares[number] = min(sizes[number], rest // (len(order) - count))
        rest -= shares[number]
    return shares


def cut_text(text: str, room: int, measure: Measure, *, is_end: bool, where: str) -> tuple[str, int]:
    """Shorten a text to complete lines, and return it with the number of removed lines."""
    lines = list(walk_lines(text))
    if room < _MIN_SIZE:
        return "", len(lines)

    def render(count: int) -> str:
        return _render_cut(lines, count, is_end, where)

    if count := bisect_right(range(1, len(lines)), room, key=lambda count: measure(render(count))):
        return render(count), len(lines) - count
    line = lines[-1 if is_end else 0][0]
    size = bisect_right(range(1, len(line) + 1), room, key=lambda size: measure(shorten(line, size)))
    return shorten(line, size), len(lines)


def is_growing(section: NotesSection) -> bool:
    return section.name.casefold() in GROWING


def _render_cut(lines: Sequence[tuple[str, str]], kept_count: int, is_end: bool, where: str) -> str:
    chosen = lines[-kept_count:] if is_end else lines[:kept_count]
    texts = [line for line, _ in chosen]
    # A cut inside a fence removes its first or its last line.
    fence = find_open_fence("\n".join(line for line, _ in (lines[:-kept_count] if is_end else chosen)))
    if fence and is_end and chosen[0][1] and lines[-kept_count - 1][1] == chosen[0][1]:
        texts.insert(0, chosen[0][1])
    elif fence and not is_end:
        texts.append(fence)
    count = len(lines) - kept_count
    what = f"{'earlier' if is_end else 'more'} {'line' if count == 1 else 'lines'}"
    mark = f"[{count} {what} {f'in {where}' if where else 'cut'}]"
    # An empty line separates the mark from the paragraph.
    return "\n".join([mark, "", *texts] if is_end else [*texts, "", mark]).strip("\n")
