"""What a finding is, and every kind of it with how grave it is. The list is closed; docs/doctor.md explains each."""

from collections import Counter
from collections.abc import Sequence

from memdir.frozen import dataclass

# In the order in which they are told. Above advice means that something does not work as it should.
LEVELS = {
    "broken_frontmatter": "error",
    "unknown_type": "warning",
    "bad_name": "warning",
    "special_file": "warning",
    "oversize_file": "warning",
    "duplicate": "warning",
    "dead_pointer": "warning",
    "orphan": "warning",
    "oversize_index": "warning",
    "slug_collision": "error",
    "unreadable_settings": "error",
    "setting": "warning",
    "history": "error",
    "out_of_step": "warning",
    "secret": "warning",
    "about_person": "warning",
    "dream_lock": "warning",
    "queue": "warning",
    "team_sync": "warning",
    "hooks_silent": "warning",
    "hook_problem": "warning",
    "stale": "warning",
    "partly_stale": "advice",
    "contradiction": "advice",
    "dead_setting": "advice",
    "never_recalled": "advice",
    "long_line": "advice",
    "unresolved_link": "advice",
}
_ORDER = {kind: number for number, kind in enumerate(LEVELS)}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: its kind, where, in words, and what to do. `fixable`: `--fix` does it."""

    kind: str
    where: str
    message: str
    fix: str
    line: int | None = None
    fixable: bool = False

    @property
    def level(self) -> str:
        return LEVELS[self.kind]


def count_kinds(findings: Sequence[Finding]) -> dict[str, int]:
    """Every kind with how often it was found, the absent ones too."""
    counts = Counter(finding.kind for finding in findings)
    return {kind: counts[kind] for kind in LEVELS}


def order(finding: Finding) -> tuple[int, str, int]:
    """By kind, then by place."""
    return _ORDER[finding.kind], finding.where, finding.line or 0
