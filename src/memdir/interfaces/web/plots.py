"""Pictures as SVG. Sizes are attributes, since the content security policy forbids styles in the text; colours are classes."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from html import escape

from markupsafe import Markup

from memdir.recall.terms import parse_terms
from memdir.verify.records import VerifyState

OPEN_FROM = 200  # memories from which a subject is one disc until it is opened
_SUBJECTS, _LEAST = 12, 3  # subjects at most, and memories of the smallest
_DRAWN = 400  # links drawn at most
_TURN = math.pi * (3 - math.sqrt(5))  # of a sunflower: points that fill a disc evenly


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
    """The type of a memory, with its sign."""
    inner = " no type" if name == "none" else f"{icon(name)} {escape(name)}"
    return Markup(f'<span class="kind">{inner}</span>')


def _rect(x: float, y: float, width: float, height: float, name: str = "f-mid") -> str:
    return (
        f'<rect class="{name}" x="{x:.1f}" y="{y:.1f}" width="{max(0.0, width):.1f}" height="{max(0.0, height):.1f}"/>'
    )


def spark(counts: Sequence[int]) -> Markup:
    """Twelve thin bars beside a number."""
    most = max(counts, default=0) or 1
    bars = (_rect(4 * number, 16 - 16 * at / most, 3, 16 * at / most, "") for number, at in enumerate(counts) if at)
    return _svg(48, 16, "".join(bars), name="spark")


def strip(counts: Sequence[int], most: int) -> Markup:
    """Bars by week, over a line."""
    width = 240 / max(1, len(counts))
    bars = (_rect(n * width, 27 - 25 * at / most, width - 1, 25 * at / most) for n, at in enumerate(counts) if at)
    return _svg(240, 28, f'{"".join(bars)}<path class="axis" d="M0 27.5H240"/>', stretch=True)


def bar(value: float, most: float) -> Markup:
    return _svg(100, 28, _rect(0, 8, 100 * value / (most or 1), 12), stretch=True)


def score_bar(parts: Sequence[float], top: float) -> Markup:
    """Words, meaning and what was known before, one after the other."""
    made, x = "", 0.0
    for value, name in zip(parts, ("f-accent", "f-mid", "f-soft"), strict=False):
        width = max(0.0, value) / top * 190
        made += _rect(x, 19, width, 14, name)
        x += width
    words = ", ".join(f"{name} {value:.3f}" for name, value in zip(("words", "meaning", "age"), parts, strict=False))
    return _svg(200, 52, made, label=words, stretch=True)


def columns(counts: Sequence[int], names: Sequence[str]) -> Markup:
    """Columns with a scale at the left and some of the names below."""
    most = max(counts, default=0) or 1
    step = max(1, math.ceil(most / 3))
    top, base, width = step * 3, 120.0, 412 / max(1, len(counts))
    inner = "".join(
        f'<path class="axis" d="M28 {base - 100 * at / top:.1f}H440"/>'
        f'<text x="22" y="{base - 100 * at / top + 4:.1f}" text-anchor="end">{at}</text>'
        for at in range(0, top + 1, step)
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
    """One mark for each memory: full where it was verified, low where there is nothing to check, crossed where it is out of date."""
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
    """Keys by the word that most of the others share with them; what shares none with enough others comes last."""
    terms = {key: set(parse_terms(text)) for key, text in texts}
    words = _find_words(texts)
    left, found = dict(terms), dict[str, list[str]]()
    least, limit = (2, 6) if len(texts) < 40 else (_LEAST, len(texts) // 3)
    while left and len(found) < _SUBJECTS:
        counts = Counter(term for at in left.values() for term in at)
        best = next((term for term, count in counts.most_common(60) if least <= count <= limit and len(term) > 2), None)
        if best is None:
            break
        keys = [key for key, at in left.items() if best in at]
        found[words.get(best, best)] = keys
        for key in keys:
            del left[key]
    if left:
        found["other"] = [*found.get("other", []), *left]
    return found


def _find_words(texts: Iterable[tuple[str, str]]) -> dict[str, str]:
    """A word as people write it for each term."""
    found: dict[str, Counter[str]] = {}
    for _, text in texts:
        for word in {at.strip(".,;:!?()[]\"'`").lower() for at in text.split()}:
            for term in parse_terms(word):
                found.setdefault(term, Counter())[word] += 1
    return {term: counts.most_common(1)[0][0] for term, counts in found.items()}


def graph(
    subjects: Mapping[str, Sequence[str]],
    edges: Sequence[tuple[str, str]],
    marks: Mapping[str, str],
    titles: Mapping[str, str],
    *,
    opened: str = "",
    chosen: str = "",
) -> Markup:
    """Subjects as discs with a dot for each memory, links as lines; the links of the chosen memory are drawn strong."""
    if not subjects:
        return Markup("")
    is_many = sum(map(len, subjects.values())) >= OPEN_FROM
    across = min(4, len(subjects))
    wide, high, places, inner = 940 / across, 210.0, dict[str, tuple[float, float]](), ""
    for number, (subject, keys) in enumerate(subjects.items()):
        x, y = wide * (number % across + 0.5), high * (number // across + 0.5) + 12
        radius = min(84.0, 26 + 6.5 * math.sqrt(len(keys)))
        inner += f'<circle class="field" cx="{x:.1f}" cy="{y:.1f}" r="{radius:.1f}"/>'
        label = f"{escape(subject)} {len(keys)}"
        text = f'<text x="{x:.1f}" y="{y - radius - 6:.1f}" text-anchor="middle">{label}</text>'
        inner += f'<a href="?subject={escape(subject)}#graph">{text}</a>' if is_many else text
        if is_many and subject != opened:
            places |= dict.fromkeys(keys, (x, y))
            inner += f'<text class="t-on" x="{x:.1f}" y="{y + 4:.1f}" text-anchor="middle">{len(keys)}</text>'
            continue
        for at, key in enumerate(keys):
            reach, turn = (radius - 10) * math.sqrt((at + 0.5) / len(keys)), at * _TURN
            places[key] = x + reach * math.cos(turn), y + reach * math.sin(turn)
    lines, strong = "", ""
    seen: Counter[tuple[float, float, float, float]] = Counter()
    for one, other in edges[: _DRAWN * 10]:
        if one in places and other in places and places[one] != places[other]:
            (x1, y1), (x2, y2) = places[one], places[other]
            path = f'd="M{x1:.1f} {y1:.1f}Q{(x1 + x2) / 2:.1f} {(y1 + y2) / 2 - 24:.1f} {x2:.1f} {y2:.1f}"'
            seen[x1, y1, x2, y2] += 1
            if chosen in (one, other) and chosen:
                strong += f'<path class="lk-on" {path}/>'
            elif seen[x1, y1, x2, y2] == 1 and len(seen) <= _DRAWN:
                lines += f'<path class="lk" {path}/>'
    dots = ""
    for subject, keys in subjects.items():
        for key in keys if not is_many or subject == opened else ():
            x, y = places[key]
            name = "nd-on" if key == chosen else {"bad": "nd-bad", "ok": "nd"}.get(marks.get(key, ""), "nd-un")
            _, _, leaf = key.partition("/")
            title = f"<title>{escape(titles.get(key, leaf))}</title>"
            dots += f'<a href="?memory={escape(key)}#graph">{title}<circle class="{name}" cx="{x:.1f}" cy="{y:.1f}" r="5"/></a>'
    if chosen in places:
        x, y = places[chosen]
        dots += (
            f'<text class="t-on halo" x="{x:.1f}" y="{y - 10:.1f}" text-anchor="middle">{escape(titles[chosen])}</text>'
        )
    rows = math.ceil(len(subjects) / across)
    label = f"{len(subjects)} subjects, {sum(map(len, subjects.values()))} memories and {len(edges)} links"
    return _svg(940, high * rows + 12, inner + lines + strong + dots, label=label, role="group")
