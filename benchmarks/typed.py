"""How well a message is split into typed and pasted text, by characters: `python benchmarks/typed.py FILE.jsonl… [--show]`.

A row has `client`, `kind` and `segments` with `origin` (typed or pasted) and `text`; the message is their concatenation.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from memdir.conversation.typed import SpanOrigin, split_message

Row = Mapping[str, Any]


def read_rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]


def find_parts(row: Row) -> Iterator[tuple[str, SpanOrigin, str, str]]:
    """Yield (author's label, origin found, why, text) of each passage of a row, without white space at its ends."""
    text = "".join(segment["text"] for segment in row["segments"])
    labels = [segment["origin"] for segment in row["segments"] for _ in segment["text"]]
    for span in split_message(text):
        start = span.start
        while start < span.end:
            end = next((i for i in range(start, span.end) if labels[i] != labels[start]), span.end)
            if text[start:end].strip():
                yield labels[start], span.origin, span.why, text[start:end].strip()
            start = end


def count(rows: Sequence[Row]) -> Counter[tuple[str, str]]:
    """Return the number of characters by label and origin."""
    counts: Counter[tuple[str, str]] = Counter()
    for row in rows:
        for label, origin, _, text in find_parts(row):
            counts[label, origin.value] += len(text)
    return counts


def find_shares(counts: Counter[tuple[str, str]]) -> tuple[float, float, float]:
    """Return in per cent: typed text hidden, pasted text shown as typed, text of unknown origin."""
    typed, pasted = (sum(counts[label, origin.value] for origin in SpanOrigin) for label in ("typed", "pasted"))
    unknown = counts["typed", "unknown"] + counts["pasted", "unknown"]
    hidden, shown = counts["typed", "foreign"], counts["pasted", "typed"]
    return tuple(
        100 * part / max(1, whole) for part, whole in ((hidden, typed), (shown, pasted), (unknown, typed + pasted))
    )  # type: ignore[return-value]


def main(arguments: Sequence[str]) -> None:
    print(f"{'':34}{'rows':>5}{'typed':>8}{'pasted':>8}{'hidden %':>10}{'shown %':>9}{'unknown %':>11}")
    for path in (Path(argument) for argument in arguments if not argument.startswith("-")):
        rows = read_rows(path)
        for kind in ("", *dict.fromkeys(row["kind"] for row in rows)):
            chosen = [row for row in rows if kind in ("", row["kind"])]
            counts = count(chosen)
            sizes = [sum(counts[label, origin.value] for origin in SpanOrigin) for label in ("typed", "pasted")]
            shares = "".join(
                f"{share:{width}.2f}" for share, width in zip(find_shares(counts), (10, 9, 11), strict=True)
            )
            print(f"{path.stem + ' ' + kind:34}{len(chosen):5}{sizes[0]:8}{sizes[1]:8}{shares}")
        if "--show" in arguments:
            for row in rows:
                for label, origin, why, text in find_parts(row):
                    if label != {"foreign": "pasted"}.get(origin.value, origin.value):
                        print(f"  {row['id']} {label} as {origin.value} ({why}): {text[:160]!r} {len(text)}")


if __name__ == "__main__":
    main(sys.argv[1:])
