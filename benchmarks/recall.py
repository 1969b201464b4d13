"""How well recall finds, on all public sets, beside what a user could pick instead, in one run.

    python benchmarks/recall.py [--sets a,b] [--bench FOLDER]

memdir goes through `bench_recall` (real files, the shipped path, the floor included). The baselines get the same rows
in the same groups and always answer: plain BM25 (lower-cased words, k1 1.2, b .75), SQLite FTS5 with its porter
stemmer, and, where they are installed, tantivy with its English stemmer and cosine over all-MiniLM-L6-v2 as Chroma and
mem0 use it (sentence-transformers with the model already on this machine: nothing is downloaded).
"""

import argparse
import importlib
import math
import os
import re
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import BenchRow, bench_recall, read_corpus, read_queries

SETS = (
    "locomo_observations", "locomo_sessions", "locomo_turns", "longmemeval_pooled", "longmemeval_s_lite",
    "prefeval_topics",
)  # fmt: skip
BENCH = Path(os.environ.get("MEMDIR_BENCH") or Path(__file__).resolve().parents[2] / "shared" / "bench")
NOW = datetime(2024, 1, 1, tzinfo=UTC)
Ask = Callable[[str], Sequence[int]]


def words_of(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def make_bm25(entries: Sequence[BenchRow]) -> Ask:
    docs = [Counter(words_of(f"{entry.text} {entry.description}")) for entry in entries]
    sizes = [sum(doc.values()) for doc in docs]
    average = sum(sizes) / len(sizes)
    df = Counter(word for doc in docs for word in doc)

    def score(doc: int, terms: Sequence[str]) -> float:
        damping = 1.2 * (0.25 + 0.75 * sizes[doc] / average)
        found = ((docs[doc][term], df[term]) for term in terms if term in docs[doc])
        return sum(math.log(1 + (len(docs) - n + 0.5) / (n + 0.5)) * tf * 2.2 / (tf + damping) for tf, n in found)

    def ask(text: str) -> Sequence[int]:
        terms = words_of(text)
        return sorted(range(len(docs)), key=lambda doc: (-score(doc, terms), doc))[:5]

    return ask


def make_fts5(entries: Sequence[BenchRow]) -> Ask:
    db = sqlite3.connect(":memory:")
    db.execute("CREATE VIRTUAL TABLE m USING fts5(x, tokenize = 'porter unicode61')")
    db.executemany(
        "INSERT INTO m(rowid, x) VALUES (?, ?)", [(n, f"{at.text} {at.description}") for n, at in enumerate(entries)]
    )

    def ask(text: str) -> Sequence[int]:
        terms = " OR ".join(f'"{word}"' for word in dict.fromkeys(words_of(text)))
        rows = (
            db.execute("SELECT rowid FROM m WHERE m MATCH ? ORDER BY bm25(m), rowid LIMIT 5", (terms,)) if terms else []
        )
        return [row[0] for row in rows]

    return ask


def find_tantivy() -> Callable[[Sequence[BenchRow]], Ask] | None:
    try:
        tantivy: Any = importlib.import_module("tantivy")
    except ImportError:
        return None

    def make(entries: Sequence[BenchRow]) -> Ask:
        builder = tantivy.SchemaBuilder()
        builder.add_text_field("x", tokenizer_name="en_stem")
        builder.add_integer_field("n", stored=True)
        index = tantivy.Index(builder.build())
        writer = index.writer()
        for number, entry in enumerate(entries):
            writer.add_document(tantivy.Document(x=f"{entry.text} {entry.description}", n=number))
        writer.commit()
        index.reload()
        searcher = index.searcher()

        def ask(text: str) -> Sequence[int]:
            query = index.parse_query(" ".join(words_of(text)), ["x"])
            return [searcher.doc(address)["n"][0] for _, address in searcher.search(query, 5).hits]

        return ask

    return make


def find_minilm() -> Callable[[Sequence[BenchRow]], Ask] | None:
    try:
        library: Any = importlib.import_module("sentence_transformers")
        model = library.SentenceTransformer("all-MiniLM-L6-v2", local_files_only=True)
    except (ImportError, OSError, ValueError):
        return None

    def make(entries: Sequence[BenchRow]) -> Ask:
        rows = model.encode([f"{at.text} {at.description}" for at in entries], normalize_embeddings=True)

        def ask(text: str) -> Sequence[int]:
            scores = rows @ model.encode(text, normalize_embeddings=True)
            return sorted(range(len(entries)), key=lambda at: -scores[at])[:5]

        return ask

    return make


def run_baseline(folder: Path, make: Callable[[Sequence[BenchRow]], Ask]) -> tuple[float, float, float]:
    groups = read_corpus(folder / "corpus.jsonl")
    asks = {group: make(entries) for group, entries in groups.items()}
    hits = anys = alls = count = 0
    for _, question in read_queries(folder / "queries.jsonl"):
        ids = [groups[question.group][at].id for at in asks[question.group](question.text)]
        count += 1
        hits += bool(ids) and ids[0] in question.gold
        anys += bool(set(ids) & question.gold)
        alls += question.gold <= set(ids)
    return anys / count, alls / count, hits / count


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--sets", default=",".join(SETS))
    options.add_argument("--bench", type=Path, default=BENCH)
    given = options.parse_args()
    baselines = {"plain BM25": make_bm25, "FTS5 porter": make_fts5, "tantivy": find_tantivy(), "MiniLM": find_minilm()}
    missing = [name for name, make in baselines.items() if make is None]
    print("any@5 / all@5 / hit@1; p50 and p95 of a query in ms, reading the memories included")
    print(f"left out, because not installed here: {', '.join(missing) or 'nothing'}\n")
    present = {name: make for name, make in baselines.items() if make is not None}
    print(f"| set | {' | '.join(present)} | memdir --no-semantic | memdir | p50 | p95 |")
    print("|---|" + "---|" * (len(present) + 4))
    for name in given.sets.split(","):
        folder = given.bench / name
        cells = [run_baseline(folder, make) for make in present.values()]
        reports = [
            bench_recall(folder / "corpus.jsonl", folder / "queries.jsonl", now=NOW, semantic=semantic)
            for semantic in (False, True)
        ]
        cells += [(at.all.any_at_k, at.all.all_at_k, at.all.hit_at_1) for at in reports]
        shown = " | ".join("/".join(f"{at:.3f}" for at in cell) for cell in cells)
        print(f"| {name} | {shown} | {reports[1].p50_ms:.0f} | {reports[1].p95_ms:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
