"""Fit the gate of recall and measure it: does a prompt get the right memory, and otherwise nothing?

    pip install numpy
    python benchmarks/gate.py [--prompts FOLDER …] [--by-author] [--hold FOLDER …] [--encoder FOLDER] [--write]

Each folder has `memories.jsonl` and `prompts.jsonl` as the README of the public `coding_prompts` describes them. Every
project of `--prompts` is measured with a gate fitted on the others (`--by-author`: on those of other folders), with cues
and without; then one gate is fitted on all of them and measured on the folders of `--hold`, which no fit has seen. `--write` writes that
gate to the package. With `--encoder`, the folder of a sentence encoder, the gate for that is fitted instead. What is counted: precision of what is shown, the share of prompts that get theirs, and the share of
short and of long prompts that need none and get none.

Three fits: which prompts need a memory at all (logistic regression over words, signs and direction), which memory
(conditional regression over the parts of a score), and whether the best one or two are shown (logistic regression over
the values of `select.SHOW`). The prompt's value in the last is always of a fit that has not seen its project. Standing
rules keep their place in the ranking and are neither right nor wrong; prompts that need one are left out.
"""

import argparse
import json
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from memdir.format.rules import find_rules
from memdir.limits import SHOWN
from memdir.recall import encode, select
from memdir.recall.index import Catalog, open_words
from memdir.recall.select import LocalSearch, PreparedQuery
from memdir.store.files import FileStore

BENCH = Path(os.environ.get("MEMDIR_BENCH") or Path(__file__).resolve().parents[2] / "shared" / "bench")
LEAST = 3  # prompts that a word must occur in
PROMPT_RIDGE, FIT_RIDGE, SHOW_RIDGE = 3.0, 1.0, 3.0
DIRECTION = 3.0  # a direction counts so much beside a word
FOLDS = 6  # of projects: a prompt is weighed by a fit on the other folds
FEW = 6  # each prompt is also put to a directory of at most so many memories, as a new user has
# The share of short and long prompts of a fit's own projects that get nothing; how much surer the second memory has to be than
# the fit says, and every memory in the end.
LEVELS, ENCODER_LEVELS = (0.94, 0.91, 1.0, 0.6), (0.96, 0.93, 1.0, 0.25)
FIT_SUM = 3.5  # the scale of a fit: about the sum of SEARCH
PLAIN = 0.45  # how much of what is shown without cues has to be right
GENERAL = Path(__file__).resolve().parents[1] / "tests" / "data" / "prompts" / "general" / "prompts.jsonl"
Direction = Callable[[str], Sequence[float]]
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
    rules: Array
    has_cues: bool


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
            standing = {header.file for header in find_rules(store.scan())}
            worth = (*select.SEARCH, *(() if encoder is None else (1.0,) * len(select.ENCODED_PARTS)))
            rows = {} if encoder is None else encode_all(encoder, store)
            known = {ids[file] for file in standing}
            for row in prompts:
                if known & set(row["gold"]):
                    continue  # the conversation has it from its start
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
                    np.array([at.path in standing for at in scored], dtype=bool),
                    variant != "plain" and not bare,
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
    """Newton's method; the first column is 1 and is not held down. By the rows where there are fewer of them."""
    held = np.full(values.shape[1], ridge, values.dtype)
    held[0] = 1e-2
    shares = np.ones(len(values)) if shares is None else shares
    weights, scaled = np.zeros(values.shape[1]), values / held
    product = scaled @ values.T if len(values) < len(held) else None
    for _ in range(8):
        likely = 1 / (1 + np.exp(-np.clip(values @ weights, -30, 30)))
        bend = np.maximum(shares * likely * (1 - likely), 1e-3)
        if product is not None:
            aim = values @ weights + shares * (wanted - likely) / bend
            weights = scaled.T @ np.linalg.solve(product + np.diag(1 / bend), aim)
        else:
            slope = values.T @ (shares * (likely - wanted)) + held * weights
            weights = weights - np.linalg.solve((values * bend[:, None]).T @ values + np.diag(held), slope)
    return weights


def make_direction(encoder: CachedEncoder | None, *, semantic: bool) -> Direction:
    """A prompt to its direction, by the encoder if there is one."""
    table = open_words() if semantic else None
    return cache(lambda text: encoder([text])[0] if encoder else select.measure_prompt(text, table)[2])


class PromptFit:
    """Which prompts need a memory, learned from those of the cases and from `others` that need none of any project."""

    def __init__(self, cases: Sequence[Case], others: Sequence[str], direction: Direction) -> None:
        self._direction = direction
        texts = dict.fromkeys(others, False) | {case.text: case.category == "should" for case in cases}
        measured = [self._measure(text) for text in texts]
        counted = Counter(word for words, _, _ in measured for word in words)
        self.words = sorted(word for word, count in counted.items() if count >= LEAST)
        values = np.array([self._row(at) for at in measured], np.float32)
        self.weights = fit_logistic(values, np.array(list(texts.values()), dtype=float), PROMPT_RIDGE)

    def __call__(self, text: str) -> float:
        return float(self._row(self._measure(text)) @ self.weights)

    def _measure(self, text: str) -> tuple[set[str], tuple[float, ...], Sequence[float]]:
        return *select.measure_prompt(text, None)[:2], self._direction(text)

    def _row(self, measured: tuple[set[str], tuple[float, ...], Sequence[float]]) -> Array:
        words, signs, direction = measured
        known = [float(word in words) for word in self.words]
        return np.array([1.0, *signs, *(DIRECTION * at for at in direction), *known])


def make_prompt_fits(
    cases: Sequence[Case], others: Sequence[str], direction: Direction
) -> Callable[[frozenset[str]], PromptFit]:
    """A fit for any set of projects, each made once."""
    return cache(lambda projects: PromptFit([at for at in cases if at.project in projects], others, direction))


def fit_parts(cases: Sequence[Case]) -> Array:
    """What each part of a score is worth: the right memory of a prompt against the others of its directory."""
    rows = [case for case in cases if case.gold.any() and case.variant != "few"]
    most, count = max(len(case.gold) for case in rows), rows[0].parts.shape[1]
    parts, gold, there = np.zeros((len(rows), most, count)), np.zeros((len(rows), most)), np.zeros((len(rows), most))
    for number, case in enumerate(rows):
        size = len(case.gold)
        parts[number, :size], gold[number, :size], there[number, :size] = case.parts, case.gold, 1
    weights = np.zeros(count)
    for _ in range(60):
        value = np.where(there > 0, parts @ weights, -99.0)
        likely = np.exp(value - value.max(1, keepdims=True)) * there
        likely /= likely.sum(1, keepdims=True)
        right = likely * gold
        right /= right.sum(1, keepdims=True)
        mean = np.einsum("nm,nmd->nd", likely, parts)
        slope = FIT_RIDGE * weights + (mean - np.einsum("nm,nmd->nd", right, parts)).sum(0)
        spread = np.einsum("nm,nmd,nme->de", likely, parts, parts, optimize=True) - mean.T @ mean
        step = np.linalg.solve(FIT_RIDGE * np.eye(count) + spread, slope)
        weights = np.maximum(0.0, weights - 0.5 * step)
        if np.abs(step).max() < 1e-3:
            break
    return weights * (FIT_SUM / weights.sum())


def measure_case(case: Case, fit: Array, prompt: float) -> list[tuple[int, Array]]:
    """The best memories with their values of SHOW."""
    values = case.parts @ fit
    order = np.argsort(-values, kind="stable")
    fits = [float(values[at]) for at in order]
    found = []
    for number, at in enumerate(order[:SHOWN]):
        if not case.parts[at][: len(select.WORD_PARTS)].any() and len(fit) == len(select.PARTS):
            continue  # no word of it matches: never shown
        found.append((int(at), np.array(select.measure_showing(fits, number, case.has_cues, prompt, case.query))))
    return found


def fit_gate(
    cases: Sequence[Case], fit_prompts: Callable[[frozenset[str]], PromptFit], levels: Sequence[float]
) -> dict[str, Any]:
    prompts: dict[str, float] = {}
    projects = frozenset(case.project for case in cases)
    for fold in (sorted(projects)[start::FOLDS] for start in range(min(FOLDS, len(projects)))):
        other = fit_prompts(projects - set(fold))
        prompts |= {text: other(text) for text in {case.text for case in cases if case.project in fold}}
    fit = fit_parts(cases)
    ranked = [(case, measure_case(case, fit, prompts[case.text])) for case in cases]
    rows = [
        (values, float(case.gold[at]), case.variant)
        for case, found in ranked
        for at, values in found
        if not case.rules[at] and (case.gold[at] or not case.fine[at])
    ]
    values = np.array([row[0] for row in rows])
    spread = values.std(axis=0)
    spread[0] = 1.0
    shares = np.array([{"cues": 1.0, "plain": 0.5, "few": 1.0}[row[2]] for row in rows])
    show = fit_logistic(values / spread, np.array([row[1] for row in rows]), SHOW_RIDGE, shares) / spread
    show[select.SHOW.index("second")] -= levels[2]
    set_levels(ranked, show, levels)
    show[0] -= levels[3]
    whole = fit_prompts(projects)
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


def set_levels(ranked: Sequence[tuple[Case, list[tuple[int, Array]]]], show: Array, levels: Sequence[float]) -> None:
    """Set the bias and the weight of `long` to the lowest levels at which enough of the short and of the long prompts that
    need no memory get none; then the weight of `uncued`, so that enough of what is shown without cues is right."""
    long, uncued = select.SHOW.index("long"), select.SHOW.index("uncued")
    tops: dict[str, list[tuple[float, float]]] = {"silent": [], "silent_long": []}
    for case, best in ranked:
        found = [(at, values) for at, values in best if not case.rules[at]]
        if case.variant == "cues" and case.category in tops and found:
            tops[case.category].append((max(float(values @ show) for _, values in found), float(found[0][1][long])))
    bias = more = 0.0
    for _ in range(20):
        bias = float(np.quantile([top - more * share for top, share in tops["silent"]], levels[0]))
        more = float(np.quantile([(top - bias) / max(share, 0.1) for top, share in tops["silent_long"]], levels[1]))
    show[0] -= bias
    show[long] -= more
    rows = [
        (case, at, values)
        for case, found in ranked
        if case.variant == "plain"
        for at, values in found
        if not case.rules[at]
    ]
    for _ in range(60):
        shown = [
            bool(case.gold[at])
            for case, at, values in rows
            if values @ show > 0 and (case.gold[at] or not case.fine[at])
        ]
        if sum(shown) >= PLAIN * len(shown):
            break
        show[uncued] -= 0.05


def make_gate(found: dict[str, Any]) -> select.Gate:
    lists = {name: tuple(found[name]) for name in ("signs", "vector", "fit", "show")}
    return select.Gate(found["bias"], found["words"], **lists)


def rank(cases: Sequence[Case], gate: select.Gate, direction: Direction) -> list[tuple[Case, list[tuple[int, float]]]]:
    """Each case with its best memories and how sure the gate is of them."""
    found = []
    for case in cases:
        prompt = select.weigh_prompt(gate, case.text, direction(case.text))
        ranked = measure_case(case, np.array(gate.fit), prompt)
        found.append((case, [(at, float(values @ np.array(gate.show))) for at, values in ranked]))
    return found


def measure(ranked: Sequence[tuple[Case, list[tuple[int, float]]]], shift: float = 0.0) -> Counter[str]:
    sums: Counter[str] = Counter()
    for case, best in ranked:
        shown = [at for at, sure in best if sure > shift and not case.rules[at]]
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


def print_figures(name: str, ranked: Sequence[tuple[Case, list[tuple[int, float]]]]) -> None:
    print(f"\n{name}\n\n| | precision | found | silent short | silent long |\n|---|---|---|---|---|")
    for variant in ("cues", "plain", "few"):
        mine = [at for at in ranked if at[0].variant == variant]
        if variant == "cues":
            for project in dict.fromkeys(case.project for case, _ in mine):
                print(f"| {project} | {render(measure([at for at in mine if at[0].project == project]))} |")
        for shift in np.arange(-2.0, 2.1, 0.25):
            print(f"| {variant}, level {shift:+.2f} | {render(measure(mine, shift))} |", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prompts", type=Path, nargs="+", default=[BENCH / "coding_prompts"])
    parser.add_argument("--hold", type=Path, nargs="*", default=[])
    parser.add_argument("--encoder", type=Path)
    parser.add_argument("--by-author", action="store_true", help="leave all projects of a folder out, not one")
    parser.add_argument("--write", action="store_true", help="fit on all projects and write the weights")
    parser.add_argument("--kind", choices=("semantic", "plain"), help="one of the two gates without an encoder")
    given = parser.parse_args()
    encoder = CachedEncoder(given.encoder) if given.encoder else None
    others = [json.loads(line)["query"] for line in GENERAL.read_text(encoding="utf-8").splitlines()]
    for kind in (select.ENCODER,) if encoder else (given.kind,) if given.kind else ("semantic", "plain"):
        semantic = kind != "plain"
        direction = make_direction(encoder, semantic=semantic)
        folders = [list(read_cases(folder, semantic=semantic, encoder=encoder)) for folder in given.prompts]
        cases = [case for folder in folders for case in folder]
        fit_prompts = make_prompt_fits(cases, others, direction)
        levels = ENCODER_LEVELS if encoder else LEVELS
        print(f"\n# {kind}")
        groups = [{case.project for case in folder} for folder in folders]
        if not given.by_author:
            groups = [{project} for project in sorted(set().union(*groups))]
        ranked = []
        for group in () if given.write else groups:
            gate = make_gate(fit_gate([case for case in cases if case.project not in group], fit_prompts, levels))
            ranked += rank([case for case in cases if case.project in group], gate, direction)
        if ranked:
            print_figures(f"Each {'author' if given.by_author else 'project'} with a gate fitted on the others", ranked)
        found = fit_gate(cases, fit_prompts, levels)
        for folder in given.hold:
            held = list(read_cases(folder, semantic=semantic, encoder=encoder))
            print_figures(f"{folder.name}, not seen by any fit", rank(held, make_gate(found), direction))
        if given.write:
            text = json.dumps(round_all(found), separators=(",", ":"))
            select.GATES[kind].write_text(text + "\n", encoding="utf-8")
    return 0


def round_all(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: round_all(at) for key, at in value.items()}
    return [round_all(at) for at in value] if isinstance(value, list) else round(float(value), 3)


if __name__ == "__main__":
    sys.exit(main())
