"""The age of a memory as text, with a warning for an old memory, and `[[links]]` between memories.

Days are calendar days in the zone of `now`: a memory saved late last evening is from "yesterday" in the morning.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime

from memdir.frozen import compile_late
from memdir.limits import HALF_LIFE_FEEDBACK, HALF_LIFE_PROJECT, HALF_LIFE_REFERENCE, HALF_LIFE_USER
from memdir.records import Header, Kind
from memdir.text import blank_fences, fold_link

HalfLives = Mapping[Kind, float]
# Days until the weight of a memory of each type halves; 0: never.
HALF_LIVES: HalfLives = {
    Kind.PROJECT: HALF_LIFE_PROJECT,
    Kind.REFERENCE: HALF_LIFE_REFERENCE,
    Kind.USER: HALF_LIFE_USER,
    Kind.FEEDBACK: HALF_LIFE_FEEDBACK,
}


def find_half_life(kind: Kind | None, lives: HalfLives = HALF_LIVES) -> float:
    """Return the half-life of a memory type in days; a memory without a type counts as a reference."""
    return lives[kind or Kind.REFERENCE]


def weigh_age(modified: datetime, now: datetime, half_life: float) -> float:
    """Return 1 for a new memory, halved after each half-life in days; always 1 if the half-life is 0."""
    return 0.5 ** (days_old(modified, now) / half_life) if half_life > 0 else 1.0


def days_old(modified: datetime, now: datetime) -> int:
    """Return the number of calendar days from `modified` to `now`, in the zone of `now`; at least 0."""
    try:
        local = modified.astimezone(now.tzinfo)
    except OverflowError:  # within hours of the first or last day of the calendar
        local = modified
    return max(0, (now.date() - local.date()).days)


def render_age(modified: datetime, now: datetime) -> str:
    """Return "today", "yesterday" or "N days ago"."""
    days = days_old(modified, now)
    return ("today", "yesterday")[days] if days < 2 else f"{days} days ago"


def render_freshness(modified: datetime, now: datetime) -> str:
    """Return a warning that a memory may be outdated if it is older than yesterday, else ""."""
    days = days_old(modified, now)
    if days < 2:
        return ""
    return (
        f"This was noted {days} days ago and describes that moment, not the present: "
        "check it against the current state before you state it as fact."
    )


# --- links ----------------------------------------------------------------------------------------------------------

_LINK = compile_late(r"\[\[([^\[\]\n]{1,200})\]\]")
_CODE_SPAN = compile_late(r"`[^`\n]*`")


def find_links(text: str) -> Iterator[tuple[str, int]]:
    """Yield the target and line number of every `[[link]]` outside code."""
    if "[[" not in text:
        return
    blank = _CODE_SPAN.sub(lambda match: " " * len(match.group()), blank_fences(text))
    line, start = 1, 0
    for match in _LINK.finditer(blank):
        line, start = line + blank.count("\n", start, match.start()), match.start()
        yield match.group(1).partition("|")[0].strip(), line


def make_targets(headers: Sequence[Header]) -> dict[str, str]:
    """Return a dict from normalised link text to memory name; links match names, last parts of names, then titles.

    If a link matches several memories, it refers to the first one in `headers`.
    """
    targets: dict[str, str] = {}
    spellings = [(header.name, header.name.rpartition("/")[2], header.title) for header in headers]
    for column in zip(*spellings, strict=True):
        for header, spelling in zip(headers, column, strict=True):
            targets.setdefault(fold_link(spelling), header.name)
    return targets


def find_link_target(link: str, targets: Mapping[str, str]) -> str | None:
    return targets.get(fold_link(link.removesuffix(".md")))


def resolve_links(headers: Sequence[Header], texts: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Return a dict from memory name to the names it links to, without duplicates; memories without links are omitted.

    `texts` maps memory names to texts; a memory that is not in it has no links.
    """
    targets = make_targets(headers)
    links_by_name: dict[str, tuple[str, ...]] = {}
    for header in headers:
        linked_names = (find_link_target(link, targets) for link, _ in find_links(texts.get(header.name, "")))
        names = tuple(dict.fromkeys(name for name in linked_names if name is not None and name != header.name))
        if names:
            links_by_name[header.name] = names
    return links_by_name
