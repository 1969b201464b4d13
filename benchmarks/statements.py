"""Fit the model that recognises plain statements, and measure it by author: `python benchmarks/statements.py [--write]`.

Sentences worth keeping come from `tests/data/plain` (`own.txt` by who fitted it, each other file by an author who had not
seen the code; `HELD` is in no fit), the tuning parts of the extraction corpora, the sets of irony, the evidence of
recorded answers, and the memories of `tests/data/prompts`, which are written and not typed and so weigh less. All other
sentences of these messages and all prompts are the others. For each author the model is fitted without them; ordinary chat of the bench data is for others only.
"""

import json
import math
import os
import random
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from extraction_corpus import read_fresh, read_third, read_tuning  # noqa: E402
from memdir.conversation.typed import find_typed  # noqa: E402
from memdir.language.sentences import split_sentences  # noqa: E402
from memdir.language.statements import MODEL, SentenceModel, list_features, split_tokens  # noqa: E402
from memdir.records import Kind, Message  # noqa: E402

DATA = ROOT / "tests" / "data"
BENCH = Path(os.environ.get("MEMDIR_BENCH") or ROOT.parent / "shared" / "bench")
HELD = "B"
LEVEL = 1.0  # one in 100 messages that hold nothing is kept
CHAT = 5_000  # lines
SMALL, AUTHORS, LEAST = 8, 4, 3  # times and authors of a small word; times of a feature
PENALTY, STEPS, RATE = 0.1, 250, 0.15


class Row(NamedTuple):
    author: str
    text: str
    is_yes: bool
    weight: float = 1.0


def list_sentences(text: str) -> list[str]:
    return [sentence.text for sentence in split_sentences(find_typed(Message("user", text)))]


def read_json(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def is_part(sentence: str, passages: Iterable[str]) -> bool:
    mine = sentence.lower().strip(" .")
    return any(mine in (other := passage.lower().strip(" .")) or other in mine for passage in passages if passage)


def read_plain() -> dict[str, list[Any]]:
    return {path.stem: read_json(path) for path in sorted((DATA / "plain").glob("*.jsonl")) if path.stem != HELD}


def read_training() -> Iterator[Row]:
    for line in (DATA / "plain" / "own.txt").read_text(encoding="utf-8").splitlines():
        yield Row("own", line[2:], line.startswith("+"))
    for author, rows in read_plain().items():
        for row in rows:
            yield from (Row(author, text, is_part(text, [row["keep"]])) for text in list_sentences(row["text"]))
    for author, corpus in (("x", read_tuning()), ("y", read_fresh()[0]), ("t", read_third()[0])):
        for row in (row for row in corpus if row.lang == "en"):
            musts = [way for want in row.want if want.action == "save" for must in want.must for way in must.split("|")]
            texts = list_sentences(row.text)
            for text in texts:
                is_kept = any(must.lower() in text.lower() for must in musts)
                if is_kept or not row.want or (musts and len(texts) == 1):
                    yield Row(author, text, bool(musts))
    for path in sorted((DATA / "irony").glob("*.jsonl")):
        for row in (row for row in read_json(path) if row["lang"] == "en" and row["kind"] != "dont_keep"):
            said = [text for at in row["messages"] if at["role"] == "user" for text in list_sentences(at["text"])]
            for text in said if path.stem != HELD else ():
                yield Row(f"irony {path.stem}", text, any(word.lower() in text.lower() for word in row["keep"]))
    for path in sorted((DATA / "conversations").glob("*.jsonl")):
        for row in read_json(path):
            quotes = [operation["evidence"] for operation in row["operations"]]
            quoted = (at["text"] for at in row["messages"] if at["role"] == "user")
            yield from (Row(path.stem, text, is_part(text, quotes)) for one in quoted for text in list_sentences(one))
    for folder in sorted((DATA / "prompts").iterdir()):
        for row in read_json(folder / "prompts.jsonl") if folder.is_dir() else []:
            yield from (Row(f"prompts {folder.name}", text, False, 0.5) for text in list_sentences(row["query"]))
        for row in read_json(folder / "memories.jsonl") if (folder / "memories.jsonl").exists() else []:
            yield from (Row(f"memories {folder.name}", text, True, 0.25) for text in list_sentences(row["text"])[:2])


def read_chat() -> Iterator[Row]:
    """Every other session of ordinary chat of the bench data, if it is there; tests measure the others."""
    path = BENCH / "longmemeval_pooled" / "corpus.jsonl"
    lines = [line for row in (read_json(path)[1::2] if path.exists() else []) for line in row["text"].splitlines()]
    for line in random.Random(1).sample(lines, min(CHAT, len(lines))):
        yield from (Row("chat", text, False, 0.3) for text in list_sentences(line))


def read_kinds() -> Iterator[Row]:
    """Statements that are rules of how to work, and others."""
    for author, corpus in (("x", read_tuning()), ("y", read_fresh()[0]), ("t", read_third()[0])):
        for row in (row for row in corpus if row.lang == "en"):
            for want in (want for want in row.want if want.action == "save"):
                yield Row(author, row.text, want.kind is Kind.FEEDBACK)
    for folder in sorted((DATA / "prompts").glob("?")):
        for row in read_json(folder / "memories.jsonl"):
            for text in list_sentences(row["text"])[:2]:
                yield Row(f"memories {folder.name}", text, row["type"] == Kind.FEEDBACK, 0.3)


def find_small_words(rows: Sequence[Row]) -> frozenset[str]:
    counts, authors = Counter[str](), dict[str, set[str]]()
    for row in rows:
        for token in {token.lower() for token in split_tokens(row.text)}:
            counts[token] += 1
            authors.setdefault(token, set()).add(row.author)
    return frozenset(word for word, count in counts.items() if count >= SMALL and len(authors[word]) >= AUTHORS)


def fit(rows: Sequence[Row], words: frozenset[str]) -> SentenceModel:
    """Fit by gradient descent with Adam, which takes seconds."""
    features = [sorted(list_features(row.text, words)) for row in rows]
    often = Counter(name for names in features for name in names)
    index = {name: number for number, name in enumerate(sorted(name for name in often if often[name] >= LEAST))}
    pairs = [(row, index[name]) for row, names in enumerate(features) for name in names if name in index]
    at, column = np.array(pairs).T
    scale = 1 / np.sqrt(np.maximum(np.bincount(at, minlength=len(rows)), 1))
    wanted = np.array([float(row.is_yes) for row in rows])
    shares = np.array([row.weight * (1 + row.is_yes) for row in rows])
    values = np.zeros(len(index) + 1)
    mean, square = np.zeros_like(values), np.zeros_like(values)
    for step in range(1, STEPS + 1):
        scores = np.bincount(at, values[column] * scale[at], len(rows)) + values[-1]
        error = shares * (1 / (1 + np.exp(-scores)) - wanted)
        slope = np.append(np.bincount(column, (error * scale)[at], len(index)) + PENALTY * values[:-1], error.sum())
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        values -= RATE * (mean / (1 - 0.9**step)) / (np.sqrt(square / (1 - 0.999**step)) + 1e-6)
    weights = {name: round(float(values[number]), 2) for name, number in index.items()}
    return SentenceModel(words, weights, round(float(values[-1]), 3))


def score_messages(model: SentenceModel, rows: Iterable[Any]) -> tuple[list[float], list[float]]:
    """Return the lowest score of what is to be kept of each message, and the highest score of each other message."""
    kept, others = [], []
    for row in rows:
        scores = {text: model.score(text) for text in list_sentences(row["text"])}
        if row["kind"] == "other":
            others.append(max(scores.values(), default=-math.inf))
        else:
            kept.append(min((at for text, at in scores.items() if is_part(text, [row["keep"]])), default=-math.inf))
    return kept, others


def main(arguments: Sequence[str]) -> None:
    rows, plain = [*read_training(), *read_chat()], read_plain()
    for author, own in plain.items():
        rest = [row for row in rows if row.author != author]
        kept, others = score_messages(fit(rest, find_small_words(rest)), own)
        for share in (0.01, 0.02, 0.05):
            cut = float(np.quantile(others, 1 - share, method="higher"))
            print(
                f"without {author}: {np.mean(np.array(kept) > cut):.2f} kept with {share:.0%} of others, level {cut:.2f}"
            )
    kinds, words = list(read_kinds()), find_small_words(rows)
    for author in "xyt":
        model = fit([row for row in kinds if row.author != author], words)
        right = [model.accepts(row.text) == row.is_yes for row in kinds if row.author == author]
        print(f"rules without {author}: {np.mean(right):.2f} right")
    table: dict[str, Any] = {"words": sorted(words)}
    for name, chosen, level in (("statement", rows, LEVEL), ("rule", kinds, 0.0)):
        model = fit(chosen, words)
        weights = {key: at for key, at in sorted(model.weights.items()) if abs(at) >= 0.05}
        table[name] = {"level": level, "bias": model.bias, "weights": weights}
        print(f"{name}: {len(chosen)} sentences, {len(weights)} features, {len(words)} words")
    if "--write" in arguments:
        Path(MODEL).write_text(json.dumps(table, ensure_ascii=False, indent=0) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
