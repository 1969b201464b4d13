"""The cases the secret scanner is measured on: public ones, our own sentences, and ordinary memories without secrets.

A public text that carries both labels is left out, and so is the plugin that looks for addresses. A clean case that is
another rule's leak does not count either: it only says that one rule leaves it to another. Whether it is one, the
public rule file that lies beside the cases says (read here, never copied into memdir), not our own rules.
"""

import base64
import json
import math
import random
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROSE = Path(__file__).resolve().parents[1] / "data" / "secrets_prose.jsonl"
KINDS = PROSE.with_name("secret_kinds.jsonl")
FILES = (("detect-secrets/plugin_cases.b64.jsonl", "plugin"), ("gitleaks/rule_cases.b64.jsonl", "rule"))
MARK, OPEN, CLOSE = "¦", "⟦", "⟧"
SENTENCES = ("locomo_observations", "locomo_turns", "longmemeval_pooled", "prefeval_topics")


@dataclass(frozen=True, slots=True)
class Case:
    rule: str
    is_leak: bool
    text: str


@dataclass(frozen=True, slots=True)
class Told:
    """A sentence of our own with the values in it; of the half called `measured` no miss was ever looked at."""

    lang: str
    kind: str
    is_measured: bool
    text: str
    values: tuple[str, ...]


def read_cases(folder: Path) -> list[Case]:
    """The public cases that count for either figure, before other rules' leaks are left out."""
    rows = [
        Case(row[key], row["label"] == "leak", base64.b64decode(row["text_b64"]).decode("utf-8"))
        for name, key in FILES
        for row in map(json.loads, (folder / name).read_text(encoding="utf-8").splitlines())
    ]
    labels: dict[str, set[bool]] = {}
    for row in rows:
        labels.setdefault(row.text, set()).add(row.is_leak)
    return [row for row in rows if row.rule != "ip_public" and len(labels[row.text]) == 1]


def read_kinds() -> list[Case]:
    """A hundred kinds by the formats their vendors document, written without a look at the rules, and clean sentences."""
    rows = map(json.loads, KINDS.read_text(encoding="utf-8").splitlines())
    return [Case(row["kind"], row["secret"], row["text"]) for row in rows]


def find_others(cases: list[Case], folder: Path) -> set[str]:
    """Clean texts that are another rule's leak."""
    rules = tomllib.loads((folder / "gitleaks" / "gitleaks.toml").read_text(encoding="utf-8"))
    return {
        case.text
        for case in cases
        if not case.is_leak and any(_finds(row, rules, case.text) for row in rules["rules"] if row["id"] != case.rule)
    }


def _finds(row: Mapping[str, Any], rules: Mapping[str, Any], text: str) -> bool:
    """Whether a rule of the public file finds something, its entropy and its exceptions heeded."""
    pattern = _compile(row.get("regex", ""))
    if pattern is None or not any(word in text.lower() for word in row.get("keywords", [])):
        return False
    for match in pattern.finditer(text):
        group = row.get("secretGroup") or next((n for n in range(1, pattern.groups + 1) if match[n]), 0)
        secret = match[group] or match[0]
        allowed = (*row.get("allowlists", []), rules["allowlist"])
        if _bits(secret) > row.get("entropy", 0) and not any(_allows(at, secret, match[0], text) for at in allowed):
            return True
    return False


def _allows(row: Mapping[str, Any], secret: str, match: str, text: str) -> bool:
    target = {"match": match, "line": text}.get(row.get("regexTarget", ""), secret)
    patterns = [_compile(at) for at in row.get("regexes", [])]
    return any(at is not None and at.search(target) for at in patterns) or any(
        word.lower() in secret.lower() for word in row.get("stopwords", [])
    )


def _compile(pattern: str) -> re.Pattern[str] | None:
    """A pattern of the public file in Python's dialect; None for the few that cannot be."""
    text = pattern.replace(r"\z", r"\Z").replace("[[:alnum:]]", "[0-9A-Za-z]")
    lead = "(?i)" if "(?i)" in text else ""
    try:
        return re.compile(lead + text.replace("(?i)", "")) if text else None
    except re.error:
        return None


def _bits(text: str) -> float:
    return -sum(n / len(text) * math.log2(n / len(text)) for n in Counter(text).values()) if text else 0.0


def read_told() -> list[Told]:
    """Our own sentences. Values are stored with marks in them, so that no hosting site takes them for real."""
    rows = []
    for line in PROSE.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        text = row["text"].replace(MARK, "")
        values = tuple(re.findall(f"{OPEN}(.*?){CLOSE}", text, re.DOTALL))
        plain = text.replace(OPEN, "").replace(CLOSE, "")
        rows.append(Told(row["lang"], row["kind"], row["part"] == "measured", plain, values))
    return rows


def read_sentences(bench: Path, count: int = 2_000) -> list[str]:
    """Ordinary sentences of the public sets, the same ones every time."""
    found = [text for name in SENTENCES for text in _split(bench / name / "corpus.jsonl")]
    found += [text for path in sorted((bench / "realworld_memory" / "memory").glob("*.md")) for text in _cut(path)]
    return random.Random(11).sample(sorted(set(found)), count)


def _split(path: Path) -> Iterator[str]:
    for line in path.read_text(encoding="utf-8").splitlines():
        yield from _sentences(json.loads(line)["text"])


def _cut(path: Path) -> Iterator[str]:
    return _sentences(path.read_text(encoding="utf-8"))


def _sentences(text: str) -> Iterator[str]:
    return (at for at in re.split(r"(?<=[.!?])\s+|\n", text) if len(at) > 20)
