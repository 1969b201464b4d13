"""How well a message is split into typed and pasted text, by characters: `python benchmarks/typed.py FILE.jsonl… [--show]`.

`--fit` fits the model of lines to all files and measures each with a model fitted to the others; `--write` ships it. A row has `client`, `kind` and `segments` with `origin` (typed or pasted) and `text`; the message is their concatenation.
"""

import json
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from extraction_corpus import read_tuning
from linear import find_small_words, fit, write
from memdir.conversation import typed
from memdir.conversation.typed import MessageLine, SpanOrigin, describe_line, find_marks, read_lines, split_message
from memdir.language.statements import LinearModel

Row = Mapping[str, Any]
DATA = Path(__file__).resolve().parents[1] / "tests" / "data"
JOINED = 500
WEIGHTS = {"own": 3.0, "joined": 0.15}  # of lines, where not 1


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


def join_typed() -> list[Row]:
    """Messages of several lines, joined from typed ones of one line in six languages, so that short lines are known."""
    chance, texts = random.Random(1), dict[str, list[str]]()
    for labelled in read_tuning():
        texts.setdefault(labelled.lang, []).append(labelled.text)
    for path in (*sorted((DATA / "plain").glob("[oA]*.jsonl")), *sorted((DATA / "irony").glob("[oA]*.jsonl"))):
        for row in read_rows(path):
            said = [row["text"]] if "text" in row else [at["text"] for at in row["messages"] if at["role"] == "user"]
            texts.setdefault(row.get("lang", "en"), []).extend(said)
    joined: list[Row] = []
    for number in range(JOINED):
        chosen = [
            text for text in chance.choices(texts[chance.choice([*texts])], k=chance.randint(2, 5)) if "\n" not in text
        ]
        mark = chance.choice(("\n", "\n", "\n\n", "\n- "))
        joined.append({"id": str(number), "segments": [{"origin": "typed", "text": mark.join(chosen)}]})
    return joined


def fit_lines(sets: Mapping[str, Sequence[Row]]) -> LinearModel:
    """Fit the model to the lines of these sets, each weighted by its length."""
    messages = [
        (author, row, *split_row(row)) for author, rows in {**sets, "joined": join_typed()}.items() for row in rows
    ]
    texts = ((author, line.text) for author, _, _, lines in messages for line in lines if line is not None)
    words = find_small_words(texts, least=5, authors=2)
    rows = []
    for author, row, _, lines in messages:
        labels = [segment["origin"] for segment in row["segments"] for _ in segment["text"]]
        for number, line in enumerate(lines):
            if line is not None and not line.is_marked:
                pasted = labels[line.start : line.start + len(line.text)].count("pasted")
                weight = min(3, len(line.text) / 40 + 0.3) * WEIGHTS.get(author, 1)
                rows.append((describe_line(lines, number, words), 2 * pasted > len(line.text), weight))
    return fit(rows, words, penalty=0.3)


def split_row(row: Row) -> tuple[str, list[MessageLine | None]]:
    text = "".join(segment["text"] for segment in row["segments"])
    return text, read_lines(text, find_marks(text))


def measure_others(sets: Mapping[str, Sequence[Row]]) -> None:
    """Print the figures of each set with a model that has not seen it."""
    shipped = typed.load_typed_model
    for author, rows in sets.items():
        model = fit_lines({other: theirs for other, theirs in sets.items() if other != author})
        typed.load_typed_model = lambda model=model: model  # type: ignore[assignment]
        counts = count(rows)
        hidden, shown, unknown = find_shares(counts)
        doubted = 100 * counts["typed", "unknown"] / sum(counts["typed", origin.value] for origin in SpanOrigin)
        print(
            f"without {author}: hidden {hidden:.2f} %, shown {shown:.2f} %, unknown {unknown:.1f} %, of typed {doubted:.1f} %"
        )
    typed.load_typed_model = shipped


def main(arguments: Sequence[str]) -> None:
    paths = [Path(argument) for argument in arguments if not argument.startswith("-")]
    if "--fit" in arguments or "--write" in arguments:
        sets = {path.stem: read_rows(path) for path in paths}
        measure_others(sets)
        if "--write" in arguments:
            write("typed", {"origin": fit_lines(sets)})
            typed.load_typed_model.cache_clear()
    print(f"{'':34}{'rows':>5}{'typed':>8}{'pasted':>8}{'hidden %':>10}{'shown %':>9}{'unknown %':>11}")
    for path in paths:
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
