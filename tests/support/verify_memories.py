"""Memories as sentences from templates, so that it is known what each of them claims, and in which line."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from verify_data import Thing

HEAD = [
    "---",
    "name: A memory",
    "description: What the auditors and the finance team asked for",
    "type: reference",
    "---",
]

# How a thing is spoken of: the first half of each list in one set of memories, the second half in another.
SAID: dict[str, list[str]] = {
    "path": [
        "The limits are set in `{0}` and nowhere else.",
        "Start reading at {0} before touching the totals.",
        "- `{0}` — holds the rounding rules the auditors asked for",
        "See [the notes]({0}) for the reasons.",
        "Whoever edits `{0}` must tell the finance team (they mirror it).",
        "The odd case is handled around `{0}:2`, on purpose.",
        "Reviewers asked to keep {0} free of imports.",
        "**How to apply:** open `{0}`, then compare with the sheet.",
    ],
    "symbol": [
        "`{0}` rounds half to even because of a rule of the tax office.",
        "Never call {0}() twice within one request.",
        "The retries live in `{0}(data)`, not in the queue.",
        "- **Rule**: `{0}()` must stay synchronous",
        "Ask before changing the signature of `{0}`.",
        "Customers depend on what `{0}()` returns; the order matters.",
        "When totals differ, look at {0}() first.",
        "We decided that `{0}` keeps its old name.",
    ],
    "constant": [
        "`{0}` was chosen with the ops team; do not raise it.",
        "The value of {0} comes from a contract.",
        "Raising `{0}` needs a sign-off.",
        "Note that {0} is shared by two services.",
    ],
    "variable": [
        "Set `${0}` on every host that runs the nightly job.",
        "The environment variable `{0}` must be unset in tests.",
        "`{0}=1` turns the audit on.",
        "Hosts read {0} from the env at start.",
    ],
    "command": [
        "Run `{0}` before each release.",
        "`{0}` takes ten minutes; do not interrupt it.",
        "The runbook says to use `{0}` after a rollback.",
        "People forget that `{0}` also clears the queue.",
    ],
    "flag": [
        "Pass `{0}` when the export is run by hand.",
        "The {0} option exists for the auditors.",
        "Support uses `{0}` to reproduce tickets.",
        "Without {0} the job pages somebody.",
    ],
}  # fmt: skip
# Sentences that name nothing which could be looked up.
IDLE = [
    "The team meets in Node.js week and/or the week after; see https://example.com/a/b.html for the plan.",
    "As of 2026-01-05 the numbers were fine, 3/4 of them at least.",
    "GitHub and PostgreSQL are set up by the platform group, make sure to ask them.",
    "**Why:** the TCP/IP stack of the old vendor was slow, e.g. 1.5 s per call.",
    "Mail ops@example.com if the API returns 503s; versions v1.2.3 and 2.0 are both affected.",
    "The CEO prefers short answers -- no tables, no emojis.",
    "JavaScript people and TypeScript people disagree about this input/output question.",
    "Use the `main` idea of the paper, not its `terms`.",
]


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
