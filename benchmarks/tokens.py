"""How far the offline token estimate is from a real tokenizer (o200k, from the package bpe-openai).

    python benchmarks/tokens.py [TEXTS.jsonl]

The texts are ours and committed: 200 of them, prose, messages, memories, lists, code and JSON. Those whose SHA-256
begins with an even byte were used to fit the weights in `memdir.text`, the others are reported. Rows are
`{"lang", "form", "text"}`.
"""

import hashlib
import json
import statistics
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import bpe_openai  # type: ignore[import-untyped,import-not-found,unused-ignore]

from memdir.text import estimate_tokens

TEXTS = Path(__file__).resolve().parents[1] / "tests" / "data" / "token_texts.jsonl"

LANGUAGES = ("en", "de", "fr", "zh", "ja", "es", "ru")


@dataclass(frozen=True, slots=True)
class Sample:
    """One text: what the tokenizer counted and what was estimated."""

    lang: str
    form: str
    fitted: bool
    true: int
    guess: int

    @property
    def error(self) -> float:
        return abs(self.guess - self.true) / self.true


def read_samples(path: Path = TEXTS) -> list[Sample]:
    encoding = bpe_openai.get_encoding("o200k_base")
    samples = []
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        text = row["text"]
        fitted = hashlib.sha256(text.encode("utf-8")).digest()[0] % 2 == 0
        true = len(encoding.encode_ordinary(text))
        samples.append(Sample(row["lang"], row["form"], fitted, true, estimate_tokens(text)))
    return samples


def find_quantile(values: Iterable[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def measure_bias(samples: Sequence[Sample]) -> float:
    """How far the sum of all estimates is off, as a share; negative is too low."""
    return sum(at.guess for at in samples) / sum(at.true for at in samples) - 1


def print_table(samples: Sequence[Sample]) -> None:
    print("| texts | n | median error | 90th percentile | worst | all together |\n|---|---|---|---|---|---|")
    held = [at for at in samples if not at.fitted]
    groups = [(lang, [at for at in held if at.lang == lang]) for lang in LANGUAGES]
    groups += [(form, [at for at in held if at.form == form]) for form in sorted({at.form for at in samples})]
    groups += [("all, other half", held), ("all, fitted half", [at for at in samples if at.fitted])]
    for name, part in groups:
        errors = [at.error for at in part]
        tail, worst = find_quantile(errors, 0.9), max(errors)
        middle, bias = statistics.median(errors), measure_bias(part)
        print(f"| {name} | {len(part)} | {middle:.1%} | {tail:.1%} | {worst:.1%} | {bias:+.1%} |")


def measure_speed(path: Path = TEXTS) -> float:
    """Milliseconds for 100,000 characters of these texts, best of five."""
    text = "\n".join(json.loads(line)["text"] for line in path.read_text(encoding="utf-8").splitlines())
    text = (text * (100_000 // len(text) + 1))[:100_000]
    times = []
    for _ in range(5):
        start = time.perf_counter()
        estimate_tokens(text)
        times.append(time.perf_counter() - start)
    return min(times) * 1000


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else TEXTS
    print_table(read_samples(chosen))
    print(f"\n{measure_speed(chosen):.1f} ms for 100,000 characters")
