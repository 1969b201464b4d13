"""How long notes are, what of them is over the limits, and what a reader is given when they must be shorter.

Pure. A cut takes whole lines: from the end of a section, but from the beginning where the newest stands last. It says
how many, and leaves no code fence open. If all sections together are too long, the longest give way first.
"""

from collections.abc import Callable, Mapping, Sequence

from memdir.frozen import dataclass, replace
from memdir.limits import NOTES_DIGEST_CHARS, NOTES_SECTION_TOKENS, NOTES_TOKENS
from memdir.notes.template import (
    Line,
    Notes,
    Section,
    find_open_fence,
    is_empty,
    render_notes,
    render_section,
    walk_lines,
)
from memdir.prompts import render_prompt
from memdir.text import shorten
from memdir.tokens import estimate_tokens

# Sections that grow at their end: of these the end is kept.
GROWING = frozenset(("worklog", "errors & corrections"))
# What a hook tells after a compaction, in this order.
_TOLD = ("Current State", "Task specification", "Errors & Corrections", "Worklog")
_LEAST = 40  # tokens or characters: less than that is no text any more

Measure = Callable[[str], int]


@dataclass(frozen=True, slots=True)
class Cut:
    """Notes within the limits, and how many lines each section lost, by name."""

    notes: Notes
    lost: Mapping[str, int]


def measure_section(section: Section) -> int:
    """In tokens, with its heading."""
    return estimate_tokens(render_section(section))


def measure_notes(notes: Notes) -> int:
    preamble = estimate_tokens(notes.preamble)
    return preamble + sum(map(measure_section, notes.sections))


def list_oversize(notes: Notes) -> tuple[str, ...]:
    """What is over the limits, in words; nothing if all is well."""
    rows = [
        f'"{at.name}" has about {size:,} tokens; {NOTES_SECTION_TOKENS:,} are allowed'
        for at in notes.sections
        if (size := measure_section(at)) > NOTES_SECTION_TOKENS
    ]
    total = measure_notes(notes)
    if total > NOTES_TOKENS:
        rows.append(f"all sections together have about {total:,} tokens; {NOTES_TOKENS:,} are allowed")
    return tuple(rows)


def cut_notes(notes: Notes, *, section: int = NOTES_SECTION_TOKENS, total: int = NOTES_TOKENS, where: str = "") -> Cut:
    """The notes within both limits; `where` is the file that holds what was cut, if any does."""
    sizes = [measure_section(at) for at in notes.sections]
    room = share_out([min(size, section) for size in sizes], total - estimate_tokens(notes.preamble))
    sections: list[Section] = []
    lost: dict[str, int] = {}
    for at, size, most in zip(notes.sections, sizes, room, strict=True):
        if size <= most:
            sections.append(at)
            continue
        head = estimate_tokens(render_section(replace(at, text="")))
        text, count = cut_text(at.text, max(most - head - 2, 0), estimate_tokens, is_end=is_growing(at), where=where)
        sections.append(replace(at, text=text))
        lost[at.name] = count
    return Cut(replace(notes, sections=tuple(sections)), lost)


def render_for_compaction(notes: Notes, *, path: str, template: Notes) -> str:
    """What a conversation begins with after it was compacted: every section, within the limits, and where the file is.

    Empty if the notes say no more than the template.
    """
    if is_empty(notes, template):
        return ""
    intro = render_prompt("notes/compacted", path=path)
    preamble = f"{intro}\n\n{notes.preamble}" if notes.preamble else intro
    return render_notes(cut_notes(replace(notes, preamble=preamble), where=path).notes)


def hook_digest(notes: Notes, *, path: str = "", chars: int = NOTES_DIGEST_CHARS) -> str:
    """The part of the notes that a hook may tell: where the work stands, what it is, what went wrong, what was last.

    A template that has none of these sections is told from its first on. Empty if there is nothing to tell.
    """
    known = [at for name in _TOLD if (at := notes.find(name)) and at.text]
    told = known or [at for at in notes.sections if at.text]
    if not told:
        return ""
    end = f"\n\nAll notes of this session: {path}" if path else ""
    frames = sum(len(at.name) + 5 for at in told) + len(end)
    room = share_out([len(at.text) for at in told], chars - frames)
    parts = []
    for at, most in zip(told, room, strict=True):
        text = at.text if len(at.text) <= most else cut_text(at.text, most, len, is_end=is_growing(at), where="")[0]
        if text:
            parts.append(f"## {at.name}\n{text}")
    return "\n\n".join(parts) + end if parts else ""


def share_out(sizes: Sequence[int], total: int) -> list[int]:
    """How much of each fits into the total: the small ones whole, the large ones alike."""
    rest, shares = max(total, 0), [0] * len(sizes)
    order = sorted(range(len(sizes)), key=lambda at: sizes[at])
    for done, at in enumerate(order):
        shares[at] = min(sizes[at], rest // (len(order) - done))
        rest -= shares[at]
    return shares


def cut_text(text: str, room: int, measure: Measure, *, is_end: bool, where: str) -> tuple[str, int]:
    """As many whole lines as there is room for, with a line that tells the rest; and how many were cut."""
    lines = list(walk_lines(text))
    if room < _LEAST:
        return "", len(lines)
    kept = _count_lines(lines, room, measure, is_end)
    while kept > 0:
        shown = _render_cut(lines, kept, is_end, where)
        if measure(shown) <= room:
            return shown, len(lines) - kept
        kept -= 1
    return _cut_line(lines[-1].text if is_end else lines[0].text, room, measure), len(lines)


def is_growing(section: Section) -> bool:
    return section.name.casefold() in GROWING


def _count_lines(lines: Sequence[Line], room: int, measure: Measure, is_end: bool) -> int:
    """About how many lines fit: measured one by one, which is exact enough to begin with."""
    used = kept = 0
    for line in reversed(lines) if is_end else lines:
        used += measure(line.text) + 1
        if used > room:
            break
        kept += 1
    return min(kept, len(lines) - 1)


def _render_cut(lines: Sequence[Line], kept: int, is_end: bool, where: str) -> str:
    chosen = lines[-kept:] if is_end else lines[:kept]
    texts = [line.text for line in chosen]
    # A cut inside a fence leaves it without its first or its last line.
    if (
        is_end
        and chosen[0].fence
        and lines[-kept - 1].fence == chosen[0].fence
        and find_open_fence(_join(lines[:-kept]))
    ):
        texts.insert(0, chosen[0].fence)
    if not is_end and (fence := find_open_fence(_join(chosen))):
        texts.append(fence)
    count = len(lines) - kept
    more = f"in {where}" if where else "cut"
    mark = f"[{count} {'earlier' if is_end else 'more'} {'line' if count == 1 else 'lines'} {more}]"
    # An empty line before it, because a line of text would take it in.
    return "\n".join([mark, "", *texts] if is_end else [*texts, "", mark]).strip("\n")


def _join(lines: Sequence[Line]) -> str:
    return "\n".join(line.text for line in lines)


def _cut_line(line: str, room: int, measure: Measure) -> str:
    """The beginning of a line that alone is too long."""
    low, high = 0, len(line)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if measure(shorten(line, middle)) <= room else (low, middle - 1)
    return shorten(line, low) if low else ""
