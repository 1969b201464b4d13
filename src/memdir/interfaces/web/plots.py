"""Plots as SVG. Sizes are attributes, because the content security policy forbids inline styles; colours are classes."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from html import escape
from urllib.parse import quote

from markupsafe import Markup

from memdir.recall.terms import parse_terms
from memdir.verify.records import VerifyState

OPEN_FROM = 200  # From this many memories, a subject is one disc until opened.
_SUBJECTS, _LEAST = 12, 3  # The maximum number of subjects, and the minimum memories of each.
_DRAWN, _NAMED = 400, 8  # The maximum number of drawn links and named memories.
_TURN = math.pi * (3 - math.sqrt(5))  # The golden angle spreads points evenly over a disc.


def _svg(
    width: float,
    height: float,
    inner: str,
    *,
    label: str = "",
    stretch: bool = False,
    name: str = "",
    role: str = "img",
) -> Markup:
    role = f'role="{role}" aria-label="{escape(label)}"' if label else 'aria-hidden="true"'
    ratio = ' preserveAspectRatio="none"' if stretch else ""
    kind = f' class="{name}"' if name else ""
    return Markup(f'<svg{kind} viewBox="0 0 {width:g} {height:g}"{ratio} {role}>{inner}</svg>')


@lru_cache(64)
def icon(name: str) -> Markup:
    return Markup(f'<svg class="i" aria-hidden="true"><use href="#{escape(name)}"/></svg>')


@lru_cache(64)
def kind(name: str) -> Markup:
    """Return a memory's type with its icon."""
    inner = " no type" if name == "none" else f"{icon(name)} {escape(name)}"
    return Markup(f'<span class="kind">{inner}</span>')


def _rect(x: float, y: float, width: float, height: float, name: str = "f-mid") -> str:
    return (
        f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{max(0.0, height):.1f}"/>'
    )


def spark(counts: Sequence[int]) -> Markup:
    """Draw twelve thin bars next to a number."""
    most = max(counts, default=0) or 1
    heights = [16 * count / most for count in counts]
    bars = (_rect(4 * number, 16 - height, 3, height, "") for number, height in enumerate(heights) if height)
    return _svg(48, 16, "".join(bars), name="spark")


def strip(counts: Sequence[int], most: int) -> Markup:
    """Draw a bar per week above a line."""
    width = 240 / max(1, len(counts))
    heights = [25 * count / most for count in counts]
    bars = (_rect(number * width, 27 - height, width - 1, height) for number, height in enumerate(heights) if height)
    return _svg(240, 28, f'{"".join(bars)}<path class="axis" d="M0 27.5H240"/>', stretch=True)


def bar(value: float, most: float) -> Markup:
    return _svg(100, 28, _rect(0, 8, 100 * value / (most or 1), 12), stretch=True)


def score_bar(parts: Sequence[float], top: float) -> Markup:
    """Draw the parts of a score (words, meaning, age) as one stacked bar."""
    inner, x = "", 0.0
    for value, name in zip(parts, ("f-accent", "f-mid", "f-soft"), strict=False):
        width = max(0.0, value) / top * 190
        inner += _rect(x, 19, width, 14, name)
        x += width
    words = ", ".join(f"{name} {value:.3f}" for name, value in zip(("words", "meaning", "age"), parts, strict=False))
    return _svg(200, 52, inner, label=words, stretch=True)


def columns(counts: Sequence[int], names: Sequence[str]) -> Markup:
    """Draw columns with a scale at the left and some of the names below."""
    most = max(counts, default=0) or 1
    step = max(1, math.ceil(most / 3))
    top, base, width = step * 3, 120.0, 412 / max(1, len(counts))
    inner = "".join(
        f'<path class="axis" d="M28 {base - 100 * tick / top:.1f}H440"/>'
        f'<text x="22" y="{base - 100 * tick / top + 4:.1f}" text-anchor="end">{tick}</text>'
        for tick in range(0, top + 1, step)
    )
    every = max(1, math.ceil(len(counts) / 5))
    for number, (count, name) in enumerate(zip(counts, names, strict=True)):
        x = 28 + number * width
        inner += _rect(x + 1, base - 100 * count / top, width - 3, 100 * count / top)
        if number % every == 0:
            inner += f'<text x="{x + 1:.1f}" y="138">{escape(name)}</text>'
    label = f"Memories shown by week: {', '.join(map(str, counts))}"
    return _svg(450, 148, inner, label=label)


def cells(rows: Sequence[tuple[datetime, VerifyState | None, bool]], now: datetime, most: int = 1_000) -> Markup:
    """Draw a mark per memory: full if verified, flat if there is nothing to check, crossed if out of date."""
    inner, across = "", 40
    counts = Counter(state for _, state, _ in rows)
    for number, (changed, state, is_broken) in enumerate(rows[:most]):
        x, y = number % across * 12.0, number // across * 12.0
        age = now - changed
        name = "f-accent" if age < timedelta(days=30) else "f-mid" if age < timedelta(days=91) else "f-soft"
        if state is VerifyState.STALE or is_broken:
            inner += _rect(x, y, 10, 10, "f-bad") + f'<path class="x" d="m{x + 3} {y + 3} 4 4m0-4-4 4"/>'
        elif state in (None, VerifyState.UNCHECKED):
            inner += _rect(x, y + 3.5, 10, 3, name)
        else:
            inner += _rect(x, y, 10, 10, name)
    height = 12 * math.ceil(max(1, min(len(rows), most)) / across)
    good = counts[VerifyState.VERIFIED] + counts[VerifyState.PARTLY]
    label = f"{len(rows)} memories: {good} hold at least in part, {counts[VerifyState.STALE]} are out of date"
    return _svg(480, height, inner, label=label)


def group_subjects(texts: Sequence[tuple[str, str]]) -> dict[str, list[str]]:
    """Group keys by their most common shared word; keys without enough shared words come last."""
    terms = {key: dict.fromkeys(parse_terms(text)) for key, text in texts}
    words = find_words(text for _, text in texts)
    left, subjects = dict(terms), dict[str, list[str]]()
    least, limit = (2, 6) if len(texts) < 40 else (_LEAST, len(texts) // 3)
    while left and len(subjects) < _SUBJECTS:
        counts = Counter(term for own_terms in left.values() for term in own_terms)
        best = next((term for term, count in counts.most_common(60) if least <= count <= limit and len(term) > 2), None)
        if best is None:
            break
        keys = [key for key, own_terms in left.items() if best in own_terms]
        subjects[words.get(best, best)] = keys
        for key in keys:
            del left[key]
    if left:
        subjects["other"] = [*subjects.get("other", []), *left]
    return subjects


def find_words(texts: Iterable[str]) -> dict[str, str]:
    """Return the most common spelling of each term."""
    counters: dict[str, Counter[str]] = {}
    for text in texts:
        for word in dict.fromkeys(token.strip(".,;:!?()[]\"'`").lower() for token in text.split()):
            for term in parse_terms(word):
                counters.setdefault(term, Counter())[word] += 1
    return {term: counts.most_common(1)[0][0] for term, counts in counters.items()}


def graph(
    subjects: Mapping[str, Sequence[str]],
    edges: Sequence[tuple[str, str]],
    marks: Mapping[str, str],
    titles: Mapping[str, str],
    *,
    opened: str = "",
    chosen: str = "",
    is_narrow: bool = False,
) -> Markup:
    """Draw subjects as discs, memories as dots and links as lines; highlights the links of the chosen memory.

    If there are many memories, each subject is one disc sized by its share. Only the opened subject shows its dots, with
    one line to each linked subject, wider for more links.
    """
    if not subjects:
        return Markup("")
    width = 420.0 if is_narrow else 940.0
    is_many = sum(map(len, subjects.values())) >= OPEN_FROM
    discs, height = _place_discs(subjects, opened if is_many else "", width, is_many=is_many)
    closed = {subject for subject in subjects if is_many and subject != opened}
    of = {key: subject for subject, keys in subjects.items() for key in keys}
    dots: dict[str, tuple[float, float]] = {}
    for subject, keys in subjects.items():
        x, y, radius = discs[subject]
        for number, key in enumerate(keys if subject not in closed else ()):
            reach, turn = (radius - 10) * math.sqrt((number + 0.5) / len(keys)), number * _TURN
            dots[key] = x + reach * math.cos(turn), y + reach * math.sin(turn)
    between: Counter[tuple[str, str]] = Counter()
    lines, strong, near = list[str](), "", dict.fromkeys([chosen] if chosen in dots else [])
    for one, other in edges:
        if one in dots and other in dots and chosen in (one, other):
            strong += _curve("lk-on", dots[one], dots[other])
            near |= dict.fromkeys((one, other))
        elif one in dots and other in dots and len(lines) < _DRAWN:
            lines.append(_curve("lk", dots[one], dots[other]))
        elif one in of and other in of and of[one] != of[other] and (not opened or opened in (of[one], of[other])):
            between[min(of[one], of[other]), max(of[one], of[other])] += 1
            if chosen in (one, other):
                x, y, radius = discs[of[other if one == chosen else one]]
                strong += _curve("lk-on", dots[chosen], (x, y - radius))
    thick = (
        _curve("lk", discs[one][:2], discs[other][:2], 1 + math.log2(count)) for (one, other), count in between.items()
    )
    fields, words = "", ""
    for subject, keys in subjects.items():
        x, y, radius = discs[subject]
        disc = f'<circle class="field" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>'
        if subject not in closed:
            fields += disc
            words += _label(f"{subject} {len(keys)}", x, y - radius - 6)
            continue
        stale = sum(marks.get(key) == "bad" for key in keys)
        inside = _label(subject, x, y - 2, "t-on") + _label(f"{len(keys):,}", x, y + 15)
        inside += _label(f"{stale} out of date", x, y + 32, "t-bad") if stale else ""
        fields += f'<a href="?subject={quote(subject)}#graph">{disc}{inside}</a>'
    circles = ""
    for key, (x, y) in dots.items():
        name = "nd-on" if key == chosen else {"bad": "nd-bad", "ok": "nd"}.get(marks.get(key, ""), "nd-un")
        title = f"<title>{escape(titles.get(key, key))}</title>"
        circles += (
            f'<a href="?memory={quote(key)}#graph">{title}<circle class="{name}" cx="{x:.1f}" cy="{y:.1f}" r="5"/></a>'
        )
    for key in list(near)[:_NAMED]:
        x, y = dots[key]
        side = "start" if x < width / 3 else "end" if x > width * 2 / 3 else "middle"
        words += _label(titles[key], x, y - 10, "t-on" if key == chosen else "", side)
    label = f"{len(subjects)} subjects, {len(of)} memories and {len(edges)} links"
    inner = "".join((*thick, fields, *lines, strong, circles, words))
    return _svg(width, height, inner, label=label, name="narrow" if is_narrow else "broad", role="group")


def _place_discs(
    subjects: Mapping[str, Sequence[str]], opened: str, width: float, *, is_many: bool
) -> tuple[dict[str, tuple[float, float, float]], float]:
    """Return the centre and radius of each subject's disc, and the total height; the opened one is large and first."""
    places, top, most = dict[str, tuple[float, float, float]](), 0.0, max(map(len, subjects.values()))
    if opened in subjects:
        radius = min(width / 2 - 40, max(90.0, 14 * math.sqrt(len(subjects[opened]))))
        places[opened] = width / 2, radius + 28, radius
        top = 2 * radius + 48
    others = [subject for subject in subjects if subject != opened]
    rows = math.ceil(len(others) / int(width // (140 if places else 210)))
    across = math.ceil(len(others) / max(1, rows)) or 1
    wide = width / across
    largest = min(84.0, wide / 2 - 8)
    high = 2 * largest + 44
    for number, subject in enumerate(others):
        count = len(subjects[subject])
        radius = max(40.0, largest * math.sqrt(count / most)) if is_many else min(largest, 26 + 6.5 * math.sqrt(count))
        places[subject] = wide * (number % across + 0.5), top + high * (number // across + 0.5) + 8, radius
    return places, top + high * rows + 12


def _curve(name: str, one: tuple[float, float], other: tuple[float, float], width: float = 0.0) -> str:
    (x1, y1), (x2, y2) = one, other
    bend = f"Q{(x1 + x2) / 2:.1f} {(y1 + y2) / 2 - 24:.1f} {x2:.1f} {y2:.1f}"
    thick = f' stroke-width="{width:.1f}"' if width else ""
    return f'<path class="{name}"{thick} d="M{x1:.1f} {y1:.1f}{bend}"/>'


def _label(text: str, x: float, y: float, name: str = "", side: str = "middle") -> str:
    kind = f"halo {name}".strip()
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{side}">{escape(text)}</text>'
