"""Plots as SVG. Sizes are attributes, because the content security policy forbids inline styles; colours are classes."""

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import lru_cache
from html import escape

from markupsafe import Markup

from memdir.recall.terms import parse_terms


def _svg(width: float, height: float, inner: str, *, label: str = "", stretch: bool = False, name: str = "") -> Markup:
    role = f'role="img" aria-label="{escape(label)}"' if label else 'aria-hidden="true"'
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


def strip(counts: Sequence[int], most: int, label: str = "") -> Markup:
    """Draw a bar per week above a line."""
    width = 240 / max(1, len(counts))
    heights = [25 * count / most for count in counts]
    bars = (_rect(number * width, 27 - height, width - 1, height) for number, height in enumerate(heights) if height)
    return _svg(240, 28, f'{"".join(bars)}<path class="axis" d="M0 27.5H240"/>', label=label, stretch=True)


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


def find_words(texts: Iterable[str]) -> dict[str, str]:
    """Return the most common spelling of each term."""
    counters: dict[str, Counter[str]] = {}
    for text in texts:
        for word in dict.fromkeys(token.strip(".,;:!?()[]\"'`").lower() for token in text.split()):
            for term in parse_terms(word):
                counters.setdefault(term, Counter())[word] += 1
    return {term: counts.most_common(1)[0][0] for term, counts in counters.items()}
