"""Secrets in text: found before it is kept, named by rule and place, never repeated.

    find_secrets(text)      what is in it and where
    mask(text, findings)    the text with the values taken out
    holds_token(text)       only whether there is a token or key that tells what it is by its shape

The rooms: records; folding makes the readings (NFKC, pieces put together, percent, base64); likeness judges values;
formats is the table of vendors' tokens, contexts and prose know secrets by what stands around them; scanning puts them
together; own reads a person's own rules. Nothing here touches a network, and nothing but `own` a file.

What it does not do: prove that a secret is alive, know one that looks like an ordinary word, or see through encryption,
two levels of encoding, letters of other alphabets that look alike, or pictures.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import cache

from memdir.secrets.records import Allow, Finding, Hit, Rule
from memdir.secrets.scanning import find_hits, keep_apart

__all__ = ["Allow", "Finding", "Rule", "find_secrets", "holds_token", "mask", "render_findings"]


def find_secrets(text: str, *, allow: Sequence[Allow] = (), extra: Sequence[Rule] = ()) -> tuple[Finding, ...]:
    """The secrets of a text, in its order. `extra` rules come before the built-in ones; what is allowed is left out."""
    if not text:
        return ()
    hits = keep_apart(find_hits(text, extra))
    breaks = [match.start() for match in _compile(r"\n").finditer(text)] if hits else []
    return tuple(
        Finding(hit.rule, hit.what, bisect_right(breaks, hit.start - 1) + 1, hit.start, hit.end)
        for hit in hits
        if not any(_allows(at, text, hit) for at in allow)
    )


def holds_token(text: str) -> bool:
    """Whether there is a key or token that tells what it is by its shape, whatever stands around it."""
    return next(find_hits(text, tokens_only=True), None) is not None


def mask(text: str, findings: Iterable[Finding]) -> str:
    """The text with `[masked: rule]` in the place of each value."""
    parts: list[str] = []
    at = 0
    for finding in sorted(findings, key=lambda finding: finding.start):
        if finding.end <= at:
            continue
        if finding.start >= at:
            parts += [text[at : finding.start], f"[masked: {finding.rule}]"]
        at = finding.end
    return "".join([*parts, text[at:]])


def render_findings(findings: Iterable[Finding], *, place: str = "") -> tuple[str, ...]:
    """Each finding in words, for people: what, by which rule, where."""
    where = f" of {place}" if place else ""
    return tuple(f"{at.what} ({at.rule}) in line {at.line}{where}" for at in findings)


def _allows(allow: Allow, text: str, hit: Hit) -> bool:
    if allow.rule and allow.rule != hit.rule:
        return False
    if not allow.on_line:
        return bool(_compile(allow.pattern).search(text[hit.start : hit.end]))
    start = text.rfind("\n", 0, hit.start) + 1
    end = text.find("\n", hit.start)
    return bool(_compile(allow.pattern).search(text[start : len(text) if end < 0 else end]))


@cache
def _compile(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)
