"""Figures of the episodes: solved by arm with intervals, exact tests between arms, bytes and time, and when the decision was there."""

import json
import random
import re
import statistics
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import comb
from pathlib import Path
from typing import Any

_SAMPLES = 10_000
_BESIDE = ("index", "session-start")
_PAIRS = (("memdir", "nothing"), ("memdir", "bm25"), ("memdir", "decision"), ("memdir-select", "memdir"), ("rule-action", "rule-prompt"), ("rule-action", "nothing"), ("rule-prompt", "nothing"))  # fmt: skip


@dataclass(frozen=True)
class Row:
    """What an episode came to. `parts` are those of the decision that the agent had before it first changed the source,
    of `all_parts`; bytes are of what its arm added."""

    block: str
    task: str
    arm: str
    replay: int
    episode: int
    solved: bool
    tests: Mapping[str, bool]
    start_bytes: int
    prompt_bytes: int
    action_bytes: int
    actions: int
    shown: int
    calls: int
    seconds: float
    parts: int
    all_parts: int
    ms: Mapping[str, Sequence[float]]


def read_rows(states: Path, parts: Mapping[str, Sequence[str]]) -> list[Row]:
    return [read_row(state, parts) for state in sorted(states.iterdir()) if (state / "grade.json").exists()]


def read_row(state: Path, parts: Mapping[str, Sequence[str]]) -> Row:
    facts = json.loads((state / "episode.json").read_text(encoding="utf-8"))
    grade = json.loads((state / "grade.json").read_text(encoding="utf-8"))
    log = [json.loads(line) for line in (state / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    heard = [hook for row in log for hook in row["hooks"]]
    ms: dict[str, list[float]] = defaultdict(list)
    for hook in heard:
        if hook["event"] not in ("index", "added"):
            ms[hook["event"]].append(hook["ms"])
    wanted = parts.get(facts["task"]) or parts.get(f"{facts['task']}-001") or []
    before = "\n".join(list_shown(log))
    action = [hook for hook in heard if hook["event"] in ("before-tool", "after-tool", "tool-failure")]
    return Row(
        facts["block"],
        facts["task"],
        facts["arm"],
        facts["replay"],
        facts["episode"],
        grade["solved"],
        {kind: passed for kind, passed in grade.items() if isinstance(passed, bool) and kind != "solved"},
        sum(hook["bytes"] for hook in heard if hook["event"] in _BESIDE),
        sum(hook["bytes"] for hook in heard if hook["event"] in ("user-prompt", "added")),
        sum(hook["bytes"] for hook in action),
        sum(hook["event"] == "before-tool" for hook in heard),
        sum(bool(hook["bytes"]) for hook in action),
        len(log),
        round(log[-1]["at"] + log[-1]["seconds"] - log[0]["at"], 1),
        sum(bool(re.search(part, before, re.IGNORECASE)) for part in wanted),
        len(wanted),
        ms,
    )


def list_shown(log: Iterable[Mapping[str, Any]], *, to_end: bool = False) -> list[str]:
    """Return what an arm put before its agent up to the first change of the source, or to the end: texts of hooks, and
    memories or conversations that the agent opened."""
    shown = []
    for row in log:
        if row["source"] and not to_end:
            break
        shown += [hook["text"] for hook in row["hooks"]]
        opened = row["verb"] in ("run", "read") and re.search(
            r"/memory\b|conversations|\bhome/", " ".join(row["arguments"])
        )
        shown += [row["output"]] if opened else []
    return shown


def average(rows: Sequence[Row]) -> dict[str, float]:
    """Return for each task the share of its replays that were solved."""
    by_task: dict[str, list[bool]] = defaultdict(list)
    for row in rows:
        by_task[row.task].append(row.solved)
    return {task: sum(solved) / len(solved) for task, solved in by_task.items()}


def find_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % percentile interval of the mean over resampled tasks."""
    pick = random.Random(33)
    means = sorted(statistics.fmean(pick.choices(values, k=len(values))) for _ in range(_SAMPLES))
    return means[int(0.025 * _SAMPLES)], means[int(0.975 * _SAMPLES) - 1]


def test_pairs(rows: Sequence[Row], one: str, other: str, kind: str = "solved") -> tuple[int, int, float]:
    """Return gains and losses of `one` over `other` in the pairs of task and replay, and the exact two-sided p."""
    solved = {(row.arm, row.task, row.replay): row.solved if kind == "solved" else row.tests[kind] for row in rows}
    pairs = [(won, solved[other, task, replay]) for (arm, task, replay), won in solved.items() if arm == one and (other, task, replay) in solved]  # fmt: skip
    gains, losses = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
    total = gains + losses
    tail = sum(comb(total, number) for number in range(min(gains, losses) + 1)) / 2**total
    return gains, losses, min(1.0, 2 * tail)


def print_figures(states: Path, parts: Path | None, to_json: Path | None, picture: Path | None) -> None:
    wanted = json.loads(parts.read_text(encoding="utf-8")) if parts else {}
    rows = read_rows(states, wanted)
    blocks = list(dict.fromkeys(row.block for row in sorted(rows, key=lambda row: row.episode)))
    table: list[dict[str, Any]] = []
    for block in blocks:
        here = [row for row in rows if row.block == block]
        print(f"\n{block}")
        for arm in dict.fromkeys(row.arm for row in sorted(here, key=lambda row: row.arm)):
            mine = [row for row in here if row.arm == arm]
            shares = average(mine)
            low, high = find_interval(list(shares.values()))
            whole = sum(row.all_parts > 0 and row.parts == row.all_parts for row in mine)
            asked = sum(row.all_parts > 0 for row in mine)
            ms = {event: statistics.median(one for row in mine for one in row.ms.get(event, ())) for event in sorted({event for row in mine for event in row.ms})}  # fmt: skip
            line = {
                "block": block,
                "arm": arm,
                "tasks": len(shares),
                "episodes": len(mine),
                "solved": sum(row.solved for row in mine),
                "share": statistics.fmean(shares.values()),
                "low": low,
                "high": high,
                "decision before first edit": whole,
                "in part": sum(0 < row.parts < row.all_parts for row in mine),
                "asked": asked,
                "bytes at start": statistics.fmean(row.start_bytes for row in mine),
                "bytes at prompt": statistics.fmean(row.prompt_bytes for row in mine),
                "bytes at actions": statistics.fmean(row.action_bytes for row in mine),
                "shown at actions": sum(row.shown for row in mine),
                "actions": sum(row.actions for row in mine),
                "calls": statistics.fmean(row.calls for row in mine),
                "seconds": statistics.median(row.seconds for row in mine),
                "passed": {kind: sum(row.tests.get(kind, True) for row in mine) for kind in mine[0].tests},
                "ms": ms,
            }
            table.append(line)
            print(f"  {arm:14} {line['solved']:3} of {line['episodes']:3}  {line['share']:.2f} [{low:.2f}, {high:.2f}]  decision there {whole}/{asked} (part {line['in part']})  bytes {line['bytes at start']:.0f} + {line['bytes at prompt']:.0f} + {line['bytes at actions']:.0f}  calls {line['calls']:.1f}  shown at actions {line['shown at actions']}/{line['actions']}  {line['passed']}  ms {ms}")  # fmt: skip
        for one, other in _PAIRS:
            kinds = ["solved", *(["rule_kept"] if "rule_kept" in here[0].tests else [])]
            for kind in kinds if {one, other} <= {row.arm for row in here} else ():
                gains, losses, p = test_pairs(here, one, other, kind)
                print(f"  {one} over {other}, {kind}: {gains} gains, {losses} losses, exact p = {p:.4f}")
                table.append(
                    {"block": block, "pair": [one, other], "kind": kind, "gains": gains, "losses": losses, "p": p}
                )
        for row in sorted(here, key=lambda row: (row.task, row.arm, row.replay)):
            if not row.solved:
                failed = [kind for kind, passed in row.tests.items() if not passed]
                print(f"    not solved: {row.task} {row.arm} {row.replay} (episode {row.episode}): {failed}, decision {row.parts}/{row.all_parts}")  # fmt: skip
    if to_json is not None:
        episodes = [{key: getattr(row, key) for key in Row.__dataclass_fields__ if key != "ms"} for row in rows]
        to_json.write_text(json.dumps({"arms": table, "episodes": episodes}, indent=1), encoding="utf-8")
    if picture is not None:
        picture.write_text(draw(table), encoding="utf-8")


def draw(table: Sequence[Mapping[str, Any]]) -> str:
    """Draw solved by arm with intervals, and the bytes added beside each bar."""
    lines = [line for line in table if "arm" in line]
    blocks = list(dict.fromkeys(line["block"] for line in lines))
    y, out = 30, []
    for block in blocks:
        out.append(f'<text x="10" y="{y}" font-weight="bold">{block}</text>')
        y += 12
        for line in (line for line in lines if line["block"] == block):
            width, low, high = (280 * line[key] for key in ("share", "low", "high"))
            size = line["bytes at start"] + line["bytes at prompt"] + line["bytes at actions"]
            out += [
                f'<text x="130" y="{y + 13}" text-anchor="end">{line["arm"]}</text>',
                f'<rect x="140" y="{y + 2}" width="{width:.1f}" height="14" fill="{"#2b6cb0" if line["arm"].startswith(("memdir", "rule-a")) else "#a0aec0"}"/>',
                f'<path d="M{140 + low:.1f} {y + 9}H{140 + high:.1f}M{140 + low:.1f} {y + 5}v8M{140 + high:.1f} {y + 5}v8" stroke="#1a202c" fill="none"/>',
                f'<text x="440" y="{y + 13}">{line["solved"]} of {line["episodes"]}; {size:,.0f} bytes added</text>',
            ]
            y += 20
        y += 22
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 {y}" font-family="sans-serif" font-size="12" fill="#1a202c"><rect width="660" height="{y}" fill="#fff"/>{"".join(out)}</svg>\n'
