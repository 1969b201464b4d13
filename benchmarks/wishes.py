"""Fit the model that recognises "do not keep this", and measure it by author: `python benchmarks/wishes.py [-v]`; `--write` ships it.

Labelled clauses are in `tests/data/wishes` (`own.txt` by who fitted it: + asks, - does not; other files by authors who had
not seen the code). Of the conversations of `tests/data/irony` the clause that the model finds most likely counts. All other
messages of the test data, and ordinary chat of the bench data, are the others.
"""

import random
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from functools import cache
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "support"))

from extraction_corpus import read_fresh, read_third, read_tuning
from linear import fit, write
from memdir.conversation.typed import find_typed
from memdir.frozen import replace
from memdir.language.requests import find_request_languages
from memdir.language.sentences import find_sentences
from memdir.language.statements import LinearModel
from memdir.language.wishes import list_readings
from memdir.records import Message
from statements import BENCH, DATA, read_json

LEVEL, LEAST, ROUNDS, CHAT = 1.7, 12, 3, 4_000
LEVELS = (0.0, 0.5, 1.0, 1.5, 2.0)
Codes = tuple[str, ...]


class Row(NamedTuple):
    """Texts of one message, or of one conversation, that contain a wish or do not."""

    author: str
    texts: tuple[str, ...]
    codes: Codes
    is_yes: bool
    weight: float = 1.0


def find_codes(text: str) -> Codes:
    return tuple(language.name for language in find_request_languages(text))


def read_rows() -> Iterator[Row]:
    for line in (DATA / "wishes" / "own.txt").read_text(encoding="utf-8").splitlines():
        yield Row("own", (line[4:],), (line[1:3],), line.startswith("+"), 2.0 if line[0] == "+" else 1.0)
    for path in sorted((DATA / "wishes").glob("*.jsonl")):
        for row in read_json(path):
            is_yes = row["group"] == "confidential"
            yield Row(path.stem, (row["wish"] or row["text"],), (row["language"],), is_yes, 1.0 + is_yes)
    for path in sorted((DATA / "irony").glob("*.jsonl")):
        for row in read_json(path):
            said = tuple(at["text"] for at in row["messages"] if at["role"] == "user")
            is_yes = row["kind"] == "dont_keep"
            yield Row(f"irony {path.stem}", said, find_codes("\n".join(said)), is_yes, 2.0 if is_yes else 0.6)


def read_others(rows: Iterable[Row]) -> Iterator[Row]:
    """Messages of other test data that contain no labelled wish."""
    wishes = [text for row in rows if row.is_yes for text in row.texts]
    texts = [row.text for corpus in (read_tuning(), *read_fresh(), *read_third()) for row in corpus]
    texts += [row["text"] for path in sorted((DATA / "plain").glob("*.jsonl")) for row in read_json(path)]
    for path in sorted((DATA / "typed").glob("*.jsonl")):
        texts += ["".join(segment["text"] for segment in row["segments"]) for row in read_json(path)]
    for path in sorted((DATA / "conversations").glob("*.jsonl")):
        texts += [at["text"] for row in read_json(path) for at in row["messages"] if at["role"] == "user"]
    for path in sorted((DATA / "prompts").glob("*/*.jsonl")):
        texts += [row.get("query") or row.get("text", "") for row in read_json(path)]
    for text in texts:
        typed = find_typed(Message("user", text), uncertain=True)
        if typed and not any(wish in typed for wish in wishes):
            yield Row("others", (typed,), find_codes(typed), False, 0.6)


def read_chat() -> Iterator[Row]:
    path = BENCH / "longmemeval_pooled" / "corpus.jsonl"
    lines = [line for row in (read_json(path)[1::2] if path.exists() else []) for line in row["text"].splitlines()]
    lines = random.Random(1).sample(lines, min(CHAT, len(lines)))
    path = BENCH / "sde_bench" / "decoys.jsonl"
    for row in read_json(path) if path.exists() else []:
        lines += [at["text"] for at in row["turns"] if at["role"] == "user"]
    for line in lines:
        yield Row("chat", (line,), ("en",), False, 0.6)


@cache
def read_features(texts: Sequence[str], codes: Codes) -> tuple[tuple[str, Set[str]], ...]:
    """Return the clauses of texts with their features."""
    sentences = (text[start:end] for text in texts for start, end in find_sentences(text.replace("’", "'")))
    return tuple(
        (sentence[start:end], frozenset(features))
        for sentence in sentences
        for code in codes
        for start, end, features in list_readings(sentence, code)
    )


def find_best(model: LinearModel, row: Row) -> tuple[float, str]:
    readings = read_features(row.texts, row.codes)
    return max(((model.score(features), text) for text, features in readings), default=(-99.0, ""))


def fit_rows(rows: Sequence[Row]) -> LinearModel:
    """Fit to labelled clauses first, then also to the likeliest clause of each conversation with a wish."""
    others = [
        (at, False, row.weight) for row in rows if not row.is_yes for _, at in read_features(row.texts, row.codes)
    ]
    model: LinearModel | None = None
    for _ in range(ROUNDS):
        wishes = []
        for row in (row for row in rows if row.is_yes):
            readings = read_features(row.texts, row.codes)
            if model is not None:
                wishes.append((max((at for _, at in readings), key=model.score), True, row.weight))
            elif not row.author.startswith("irony"):
                wishes.append((max(readings, key=lambda reading: len(reading[0]))[1], True, row.weight))
        model = fit([*others, *wishes], frozenset(), least=LEAST)
    assert model is not None
    return replace(model, level=LEVEL)


def show(name: str, scored: Sequence[tuple[float, str]]) -> None:
    parts = (f"> {level}: {sum(score > level for score, _ in scored)}" for level in LEVELS)
    print(f"{name}, {len(scored)}: {', '.join(parts)}")


def main(arguments: Sequence[str]) -> None:
    rows = [row for row in read_rows() if read_features(row.texts, row.codes)]
    others, chat = list(read_others(rows)), list(read_chat())
    authors = dict.fromkeys(row.author for row in rows)
    folds: Mapping[str, Sequence[Row]] = {
        **{f"others {part}": others[part::3] for part in range(3)},
        **{author: [row for row in rows if row.author == author] for author in authors},
    }
    scored_others = []
    for name, left_out in folds.items() if "--write" not in arguments else ():
        excluded = set(left_out)
        model = fit_rows([row for row in (*rows, *others, *chat) if row not in excluded])
        scored = [(row, *find_best(model, row)) for row in left_out]
        if name.startswith("others"):
            scored_others += [(score, text) for _, score, text in scored]
            continue
        for is_yes in (True, False):
            show(
                f"without {name}, {'wishes' if is_yes else 'others'}",
                [at[1:] for at in scored if at[0].is_yes is is_yes],
            )
        if "-v" in arguments:
            wrong = [(round(score, 1), text, row.texts) for row, score, text in scored if (score > LEVEL) != row.is_yes]
            print(*sorted(wrong)[:40], sep="\n")
    show("others, each third left out", scored_others)
    print(*sorted(scored_others)[-12:], sep="\n")
    model = fit_rows([*rows, *others, *chat])
    print(f"{len(rows)} labelled, {len(others)} others, {len(model.weights)} features")
    if "--write" in arguments:
        write("wishes", {"wish": model})


if __name__ == "__main__":
    main(sys.argv[1:])
