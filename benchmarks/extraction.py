"""The local extractor: how much it hears, how often wrongly, and how much it takes from ordinary chat.

    python benchmarks/extraction.py [--measured] [--sample N] [--seed S] [--bench FOLDER]

Precision and recall on the tuning part of the labelled corpus and on both halves of the two other sets, by language
and category, and with `--measured` on the part that nobody looks at, as counts only. Then the user turns of
`longmemeval_pooled`, which is ordinary chat: one memory per how many messages, and with `--sample` some of those
memories for a person to judge. The set keeps the turns of a session as lines of one text, so a line counts as a
message, and an agent's message is put before each.
"""

import argparse
import json
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from extraction_corpus import read_fresh, read_measured, read_third, read_tuning  # noqa: E402
from extraction_score import Score, score  # noqa: E402
from memdir.extraction.find import MemoryRequest, find_requests  # noqa: E402
from memdir.records import Message  # noqa: E402

BENCH = Path(os.environ.get("MEMDIR_BENCH") or ROOT.parent / "shared" / "bench")
LANGUAGES = ("en", "de", "fr", "es", "zh", "ja")
CATEGORIES = ("request", "correction", "confirmation", "identity", "deadline", "decision", "pointer", "forget")


def show_score(name: str, at: Score) -> None:
    print(f"## {name}: precision {at.precision:.3f}, recall {at.recall():.3f} ({at.count()})")
    asked = at.recall(["en"], ["request", "correction"])
    print(f"English requests and corrections {asked:.3f}; false by language {dict(at.false)}")
    print("| |", " | ".join(CATEGORIES), "|")
    for language in LANGUAGES:
        print(f"| {language} |", " | ".join(at.count([language], [category]) for category in CATEGORIES), "|")


def read_turns(bench: Path) -> Iterator[tuple[str, datetime]]:
    path = bench / "longmemeval_pooled" / "corpus.jsonl"
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        when = datetime.strptime(row["date"][:10], "%Y/%m/%d").replace(tzinfo=UTC)
        for line in row["text"].splitlines():
            if line.strip():
                yield line, when


def hear_chat(bench: Path) -> tuple[int, list[MemoryRequest], float, float]:
    """Messages, wishes, and the mean and the longest time of a message in milliseconds."""
    wishes: list[MemoryRequest] = []
    count, longest, whole = 0, 0.0, 0.0
    for text, when in read_turns(bench):
        begin = perf_counter()
        wishes += find_requests([Message("assistant", "Here it is."), Message("user", text, at=when)], now=when)
        took = 1000 * (perf_counter() - begin)
        count, longest, whole = count + 1, max(longest, took), whole + took
    return count, wishes, whole / max(count, 1), longest


def main() -> None:
    options = argparse.ArgumentParser()
    options.add_argument("--measured", action="store_true")
    options.add_argument("--sample", type=int, default=0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--bench", type=Path, default=BENCH)
    chosen = options.parse_args()
    show_score("tuning", score(read_tuning()))
    for name, (fitted, check) in (("fresh", read_fresh()), ("third", read_third())):
        show_score(f"{name}, fitted half", score(fitted))
        show_score(f"{name}, check half", score(check))
    if chosen.measured:
        show_score("measured", score(read_measured()))
    count, wishes, mean, longest = hear_chat(chosen.bench)
    kinds = dict(Counter(at.category.value for at in wishes))
    print(f"## chat: {len(wishes)} memories from {count} messages, one in {count / max(len(wishes), 1):.0f}; {kinds}")
    print(f"{mean:.2f} ms a message, at most {longest:.0f} ms")
    for wish in random.Random(chosen.seed).sample(wishes, min(chosen.sample, len(wishes))):
        print(f"\n[{wish.category}, {wish.kind}] {wish.title}\n  {wish.body.strip()}\n  said: {wish.quote}")


if __name__ == "__main__":
    main()
