"""Fit the model that recognises plain statements, and measure it by author: `python benchmarks/statements.py [--write]`.

Sentences worth keeping come from `tests/data/plain` (`own.txt` by who fitted it, each other file by an author who had not
seen the code), the tuning parts of the extraction corpora, the sets of irony, the evidence of
recorded answers, and the memories of `tests/data/prompts`, which are written and not typed and so weigh less. All other
sentences of these messages and all prompts are the others. For each author the model is fitted without them; ordinary chat of the bench data is for others only.
"""

import json
import math
import os
import random
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from extraction_corpus import read_fresh, read_third, read_tuning  # noqa: E402
from linear import find_small_words, fit, write  # noqa: E402
from memdir.conversation.typed import find_typed  # noqa: E402
from memdir.frozen import replace  # noqa: E402
from memdir.language.sentences import split_sentences  # noqa: E402
from memdir.language.statements import LinearModel, list_features  # noqa: E402
from memdir.records import Kind, Message  # noqa: E402

DATA = ROOT / "tests" / "data"
BENCH = Path(os.environ.get("MEMDIR_BENCH") or ROOT.parent / "shared" / "bench")
LEVEL = 1.2  # one in 50 messages that hold nothing is kept
CHAT = 5_000  # lines
LEADS = (
    "remember: ", "for the record, ", "fyi ", "please keep track of this: ", "keep a mental note, ", "for later: ",
    "don't let this get lost: ", "before you ask again: ", "hey quick thing, ", "one thing to store: ", "hold on to this, ",
    "keep in mind that ", "And another thing, ", "just so you know, ", "I'd like you to remember, ", "let it be known that ",
)  # fmt: skip


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
    return {path.stem: read_json(path) for path in sorted((DATA / "plain").glob("*.jsonl"))}


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
            for text in said:
                yield Row(f"irony {path.stem}", text, is_part(text, row["keep"]))
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


def read_kinds() -> Iterator[tuple[str, str, Kind, float]]:
    """Author, statement, kind and weight. Half of the memories get words of a request before them, which say nothing of the kind."""
    chance = random.Random(1)
    for author, corpus in (("x", read_tuning()), ("y", read_fresh()[0]), ("t", read_third()[0])):
        for row in (row for row in corpus if row.lang == "en"):
            yield from ((author, row.text, want.kind, 1.0) for want in row.want if want.action == "save" and want.kind)
    for folder in sorted((DATA / "prompts").glob("?")):
        for row in read_json(folder / "memories.jsonl"):
            for text in list_sentences(row["text"])[:2]:
                lead = chance.choice(("", chance.choice(LEADS)))
                yield f"memories {folder.name}", lead + text, Kind(row["type"]), 0.3


def fit_kinds(rows: Iterable[tuple[str, str, Kind, float]], words: frozenset[str]) -> dict[str, LinearModel]:
    """Fit one model for each kind, against the others."""
    described = [(list_features(text, words), kind, weight) for _, text, kind, weight in rows]
    return {kind: fit([(at, kind is other, weight) for at, other, weight in described], words) for kind in Kind}


def fit_rows(rows: Sequence[Row], words: frozenset[str] | None = None) -> LinearModel:
    words = find_small_words(((row.author, row.text) for row in rows), least=8, authors=4) if words is None else words
    return fit([(list_features(row.text, words), row.is_yes, row.weight * (1 + row.is_yes)) for row in rows], words)


def accept(model: LinearModel, text: str) -> float:
    return model.score(list_features(text, model.words))


def score_messages(model: LinearModel, rows: Iterable[Any]) -> tuple[list[float], list[float]]:
    """Return the lowest score of what is to be kept of each message, and the highest score of each other message."""
    kept, others = [], []
    for row in rows:
        scores = {text: accept(model, text) for text in list_sentences(row["text"])}
        if row["kind"] == "other":
            others.append(max(scores.values(), default=-math.inf))
        else:
            kept.append(min((at for text, at in scores.items() if is_part(text, [row["keep"]])), default=-math.inf))
    return kept, others


def main(arguments: Sequence[str]) -> None:
    rows, plain = [*read_training(), *read_chat()], read_plain()
    for author, own in plain.items():
        rest = [row for row in rows if row.author not in (author, f"irony {author}")]
        kept, others = score_messages(fit_rows(rest), own)
        for share in (0.01, 0.02, 0.05):
            cut = float(np.quantile(others, 1 - share, method="higher"))
            print(
                f"without {author}: {np.mean(np.array(kept) > cut):.2f} kept with {share:.0%} of others, level {cut:.2f}"
            )
    kinds, statement = list(read_kinds()), replace(fit_rows(rows), level=LEVEL)
    words = frozenset(statement.words)
    for author in "xyt":
        models = fit_kinds((row for row in kinds if row[0] != author), words)
        right = [
            max(Kind, key=lambda kind: accept(models[kind], text)) is wanted
            for other, text, wanted, _ in kinds
            if other == author
        ]
        print(f"kinds without {author}: {np.mean(right):.2f} right")
    models = fit_kinds(kinds, words)
    print(f"{len(rows)} and {len(kinds)} sentences, {len(statement.weights)} features")
    if "--write" in arguments:
        write("statements", {"statement": statement, **models})


if __name__ == "__main__":
    main(sys.argv[1:])
