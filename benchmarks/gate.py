"""Fit the gate of recall and measure it: does a prompt get the right memory, and otherwise nothing?

    pip install numpy
    python benchmarks/gate.py [--prompts FOLDER …] [--hold FOLDER …] [--encoder FOLDER] [--write]

Each folder has `memories.jsonl` and `prompts.jsonl` as the README of the public `coding_prompts` describes them. Every
project of `--prompts` is measured with a gate fitted on the others (leave one project out), with cues and without; then
one gate is fitted on all of them and measured on the folders of `--hold`, which no fit has seen. `--write` writes that
gate to the package. With `--encoder`, the folder of a sentence encoder, the gate for that is fitted instead. What is counted: precision of what is shown, the share of prompts that get theirs, and the share of
short and of long prompts that need none and get none.

Three fits: which prompts need a memory at all (logistic regression over words, signs and direction), which memory
(conditional regression over the parts of a score), and whether the best one or two are shown (logistic regression over
the values of `select.SHOW`). The prompt's value in the last is always of a fit that has not seen its project.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from memdir.limits import SHOWN
from memdir.recall import encode, select
from memdir.recall.index import Catalog, open_words
from memdir.recall.select import LocalSearch, PreparedQuery
from memdir.store.files import FileStore

BENCH = Path(os.environ.get("MEMDIR_BENCH") or Path(__file__).resolve().parents[2] / "shared" / "bench")
LEAST = 2  # prompts that a word must occur in
PROMPT_RIDGE, FIT_RIDGE, SHOW_RIDGE = 3.0, 1.0, 3.0
DIRECTION = 3.0  # a direction counts so much beside a word
FEW = 6  # each prompt is also put to a directory of at most so many memories, as a new user has
SILENT = (0.94, 0.91)  # short and long prompts of a fit's own projects that get nothing
Array = Any  # numpy is not installed where types are checked


@dataclass(frozen=True, slots=True)
class Case:
    """One prompt put to one directory: the parts of each candidate, which are right, which would do no harm."""

    project: str
    category: str
    text: str
    variant: str
    query: PreparedQuery
    parts: Array
    gold: Array
    fine: Array


def read_cases(folder: Path, *, semantic: bool = True, encoder: Any = None) -> Iterator[Case]:
    rows = {
        name: [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]
        for name in ("memories", "prompts")
    }
    for project in sorted({row["group"] for row in rows["memories"]}):
        memories = [row for row in rows["memories"] if row["group"] == project]
        prompts = [row for row in rows["prompts"] if row["group"] == project]
        for variant in ("cues", "plain"):
            yield from ask(memories, prompts, variant, semantic=semantic, encoder=encoder)
        pick = random.Random(project)
        for prompt in prompts:
            some = [row for row in memories if row["id"] in prompt["gold"]]
            size = max(0, pick.randint(1, FEW) - len(some))
            some += pick.sample([row for row in memories if row not in some], size)
            bare = pick.random() < 0.5
            yield from ask(some, [prompt], "few", bare=bare, semantic=semantic, encoder=encoder)


def ask(
    memories: list[Any], prompts: list[Any], variant: str, *, bare: bool = False, semantic: bool, encoder: Any = None
) -> Iterator[Case]:
    with tempfile.TemporaryDirectory(prefix="memdir-gate-") as folder:
        ids = {}
        for number, memory in enumerate(memories):
            ids[f"m{number}.md"] = memory["id"]
            head = {"name": memory["name"], "description": memory["description"], "type": memory["type"]}
            if variant != "plain" and not bare:
                head["cues"] = memory.get("cues", [])
            lines = "".join(f"{key}: {json.dumps(value)}\n" for key, value in head.items())
            (Path(folder) / f"m{number}.md").write_text(f"---\n{lines}---\n\n{memory['text']}\n", encoding="utf-8")
        with FileStore(Path(folder)) as store, LocalSearch((store,), semantic=semantic) as search:
            search.refresh()
            path = store.find_index_file()
            assert path is not None
            catalog = Catalog(path, open_words(), semantic=semantic)
            totals = catalog.read_totals()
            worth = (*select.SEARCH, *(() if encoder is None else (1.0,) * len(select.ENCODED_PARTS)))
            rows = {} if encoder is None else encode_all(encoder, store)
            for row in prompts:
                query, postings = select.prepare_query(catalog, row["query"], totals)
                encoded = {} if encoder is None else compare_all(encoder, rows, row["query"])
                scored = select.score_all(catalog, query, postings, totals, worth, encoded)
                names = [ids[at.path] for at in scored]
                yield Case(
                    row["group"],
                    row["category"],
                    row["query"],
                    variant,
                    query,
                    np.array([at.parts for at in scored]).reshape(len(scored), len(worth)),
                    np.array([name in row["gold"] for name in names], dtype=bool),
                    np.array([name in row["ok"] for name in names], dtype=bool),
                )
            catalog.close()


class CachedEncoder:
    """Each text once: a prompt is put to three directories, and so is a cue."""

    def __init__(self, folder: Path) -> None:
        self._encoder, self._known = encode.SentenceEncoder(folder), dict[str, Array]()

    def __call__(self, texts: Sequence[str]) -> Array:
        if new := [text for text in dict.fromkeys(texts) if text not in self._known]:
            self._known |= dict(zip(new, self._encoder(new), strict=True))
        return np.array([self._known[text] for text in texts])


def encode_all(encoder: CachedEncoder, store: FileStore) -> dict[str, tuple[int, bytes]]:
    found = {}
    for header in store.scan():
        cues, whole = encode.list_texts(store.read(header.name))
        found[header.file] = len(cues), encoder([*cues, whole]).astype(np.float32).tobytes()
    return found


def compare_all(encoder: CachedEncoder, rows: dict[str, tuple[int, bytes]], text: str) -> dict[str, Sequence[float]]:
    (query,) = encoder([text])
    return {path: encode.compare_rows(query, data, count) for path, (count, data) in rows.items()}


def fit_logistic(values: Array, wanted: Array, ridge: float, shares: Array | None = None) -> Array:
    """Newton's method; the first column is 1 and is not held down."""
    weights = np.zeros(values.shape[1])
    held = np.full(len(weights), ridge)
    held[0] = 1e-6
    shares = np.ones(len(values)) if shares is None else shares
    for _ in range(25):
        likely = 1 / (1 + np.exp(-np.clip(values @ weights, -30, 30)))
        slope = values.T @ (shares * (likely - wanted)) + held * weights
        bend = (values * (shares * likely * (1 - likely))[:, None]).T @ values + np.diag(held)
        weights -= np.linalg.solve(bend, slope)
    return weights


class PromptFit:
    """Which prompts need a memory."""

    def __init__(self, cases: Sequence[Case], *, semantic: bool) -> None:
        self._table = open_words() if semantic else None
        texts = {case.text: case.category == "should" for case in cases}
        measured = [select.measure_prompt(text, self._table) for text in texts]
        counted = Counter(word for words, _, _ in measured for word in words)
        self.words = sorted(word for word, count in counted.items() if count >= LEAST)
        values = np.array([self._row(at) for at in measured])
        self.weights = fit_logistic(values, np.array(list(texts.values()), dtype=float), PROMPT_RIDGE)

    def __call__(self, text: str) -> float:
        return float(self._row(select.measure_prompt(text, self._table)) @ self.weights)

    def _row(self, measured: tuple[set[str], tuple[float, ...], tuple[float, ...]]) -> Array:
        words, signs, direction = measured
        return np.array(
            [1.0, *signs, *(DIRECTION * at for at in direction), *(float(word in words) for word in self.words)]
        )


def fit_parts(cases: Sequence[Case]) -> Array:
    """What each part of a score is worth: the right memory of a prompt against the others of its directory."""
    rows = [case for case in cases if case.gold.any() and case.variant != "few"]
    weights = np.zeros(rows[0].parts.shape[1])
    for _ in range(300):
        slope = FIT_RIDGE * weights
        bend = FIT_RIDGE * np.eye(len(weights))
        for case in rows:
            value = case.parts @ weights
            likely = np.exp(value - value.max())
            likely /= likely.sum()
            right = likely * case.gold
            right /= right.sum()
            mean = likely @ case.parts
            slope += mean - right @ case.parts
            bend += (case.parts * likely[:, None]).T @ case.parts - np.outer(mean, mean)
        step = np.linalg.solve(bend, slope)
        weights = np.maximum(0.0, weights - 0.5 * step)
        if np.abs(step).max() < 1e-4:
            break
    scale = sum(select.SEARCH) / weights.sum()
    return weights * scale


def measure_case(case: Case, fit: Array, prompt: float) -> Iterator[tuple[int, Array]]:
    """The best memories with their values of SHOW."""
    values = case.parts @ fit
    order = np.argsort(-values, kind="stable")
    fits = [float(values[at]) for at in order]
    for number, at in enumerate(order[:SHOWN]):
        if not case.parts[at][:3].any() and len(fit) == len(select.PARTS):
            continue  # no word of it matches: never shown
        yield int(at), np.array(select.measure_showing(fits, number, prompt, case.query))


def fit_gate(cases: Sequence[Case], *, semantic: bool) -> dict[str, Any]:
    prompts: dict[str, float] = {}
    for project in {case.project for case in cases}:
        other = PromptFit([case for case in cases if case.project != project], semantic=semantic)
        prompts |= {case.text: other(case.text) for case in cases if case.project == project}
    fit = fit_parts(cases)
    rows = [
        (values, float(case.gold[at]), case.variant)
        for case in cases
        for at, values in measure_case(case, fit, prompts[case.text])
        if case.gold[at] or not case.fine[at]
    ]
    values = np.array([row[0] for row in rows])
    spread = values.std(axis=0)
    spread[0] = 1.0
    shares = np.array([{"cues": 1.0, "plain": 0.5, "few": 1.0}[row[2]] for row in rows])
    show = fit_logistic(values / spread, np.array([row[1] for row in rows]), SHOW_RIDGE, shares) / spread
    show[0] -= find_level([case for case in cases if case.variant == "cues"], fit, show, prompts)
    whole = PromptFit(cases, semantic=semantic)
    first = 1 + len(select.SIGNS)
    last = len(whole.weights) - len(whole.words)
    return {
        "bias": whole.weights[0],
        "signs": list(whole.weights[1:first]),
        "vector": [DIRECTION * at for at in whole.weights[first:last]],
        "words": dict(zip(whole.words, whole.weights[last:], strict=True)),
        "fit": list(fit),
        "show": list(show),
    }


def find_level(cases: Sequence[Case], fit: Array, show: Array, prompts: dict[str, float]) -> float:
    """The lowest level at which enough of the prompts that need no memory get none."""
    tops: dict[str, list[float]] = {"silent": [], "silent_long": []}
    for case in cases:
        if case.category in tops:
            best = [float(values @ show) for _, values in measure_case(case, fit, prompts[case.text])]
            tops[case.category].append(max(best, default=-99.0))
    return max(float(np.quantile(tops[name], share)) for name, share in zip(tops, SILENT, strict=True))


def make_gate(found: dict[str, Any]) -> select.Gate:
    lists = {name: tuple(found[name]) for name in ("signs", "vector", "fit", "show")}
    return select.Gate(found["bias"], found["words"], **lists)


def measure(cases: Sequence[Case], gate: select.Gate, shift: float = 0.0) -> Counter[str]:
    sums: Counter[str] = Counter()
    for case in cases:
        prompt = select.weigh_prompt(gate, case.text)
        ranked = measure_case(case, np.array(gate.fit), prompt)
        shown = [at for at, values in ranked if values @ np.array(gate.show) > shift]
        sums["shown"] += sum(bool(case.gold[at] or not case.fine[at]) for at in shown)
        sums["right"] += sum(bool(case.gold[at]) for at in shown)
        sums[case.category] += 1
        if case.category == "should":
            sums["found"] += any(case.gold[at] for at in shown)
        else:
            sums[f"{case.category}_quiet"] += not shown
    return sums


def render(sums: Counter[str]) -> str:
    shares = (
        sums["right"] / max(1, sums["shown"]), sums["found"] / max(1, sums["should"]),
        sums["silent_quiet"] / max(1, sums["silent"]), sums["silent_long_quiet"] / max(1, sums["silent_long"]),
    )  # fmt: skip
    return " | ".join(f"{at:.3f}" for at in shares)


def print_figures(name: str, parts: Sequence[tuple[Sequence[Case], select.Gate]]) -> None:
    print(f"\n{name}\n\n| | precision | found | silent short | silent long |\n|---|---|---|---|---|")
    for variant in ("cues", "plain", "few"):
        mine = [([case for case in cases if case.variant == variant], gate) for cases, gate in parts]
        if variant == "cues":
            for cases, gate in mine:
                print(f"| {cases[0].project} | {render(measure(cases, gate))} |")
        for shift in np.arange(-2.0, 2.1, 0.5):
            total: Counter[str] = sum((measure(cases, gate, shift) for cases, gate in mine), Counter())
            print(f"| {variant}, level {shift:+.1f} | {render(total)} |")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, nargs="+", default=[BENCH / "coding_prompts"])
    parser.add_argument("--hold", type=Path, nargs="*", default=[])
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    written = {}
    encoder = CachedEncoder(given.encoder) if given.encoder else None
    for kind in (select.ENCODER,) if encoder else ("semantic", "plain"):
        semantic = kind != "plain"
        cases = [case for folder in given.prompts for case in read_cases(folder, semantic=semantic, encoder=encoder)]
        print(f"\n# {kind}")
        parts = []
        for project in sorted({case.project for case in cases}):
            gate = make_gate(fit_gate([case for case in cases if case.project != project], semantic=semantic))
            parts.append(([case for case in cases if case.project == project], gate))
        print_figures("Each project with a gate fitted on the others", parts)
        found = fit_gate(cases, semantic=semantic)
        for folder in given.hold:
            held = list(read_cases(folder, semantic=semantic, encoder=encoder))
            print_figures(f"{folder.name}, not seen by any fit", [(held, make_gate(found))])
        written[kind] = found
    if given.write:
        path = select.ENCODER_GATE if encoder else select.GATE
        path.write_text(json.dumps(round_all(written), separators=(",", ":")) + "\n", encoding="utf-8")
    return 0


def round_all(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: round_all(at) for key, at in value.items()}
    return [round_all(at) for at in value] if isinstance(value, list) else round(float(value), 3)


if __name__ == "__main__":
    sys.exit(main())
