"""Memories as sentences from templates, so that it is known what each of them claims, and in which line."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tables import read_rows
from verify_data import Thing

HEAD = [
    "---",
    "name: A memory",
    "description: What the auditors and the finance team asked for",
    "type: reference",
    "---",
]

# How a thing is spoken of: the first half of each list in one set of memories, the second half in another.
ROWS = read_rows("claim_sentences")
SAID: dict[str, list[str]] = ROWS["SAID"]
# Sentences that name nothing which could be looked up.
IDLE = ROWS["IDLE"]


@dataclass(frozen=True)
class Written:
    """A memory's text, and the things it names with the line each stands in."""

    name: str
    text: str
    named: tuple[tuple[Thing, int], ...]


def write_memories(things: Sequence[Thing], count: int, *, seed: int = 11, held_out: bool = False) -> list[Written]:
    rng = random.Random(seed)
    made = []
    for number in range(count):
        lines = [*HEAD, ""]
        named: list[tuple[Thing, int]] = []
        for thing in rng.sample(list(things), rng.randint(2, 4)):
            forms = SAID[thing.kind]
            half = len(forms) // 2
            said = rng.choice(forms[half:] if held_out else forms[:half])
            if thing.kind == "path" and thing.text.endswith("/"):
                said = "Everything below `{0}` belongs to another team."
            lines += [said.replace("{0}", thing.text), ""]
            named.append((thing, len(lines) - 1))
            if rng.random() < 0.6:
                lines += [rng.choice(IDLE), ""]
        made.append(Written(f"m{number}", "\n".join(lines), tuple(named)))
    return made
