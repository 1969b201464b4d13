"""Claims and a project -> what came of each: present, moved, gone, passed, or not checkable.

All claims are looked up together: one listing, one pass over the files, and one over history for what was not found.
A thing is gone only if history shows that it was there; what was never there may be anything, and is not checkable.
A wrong alarm is worse than silence.
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import date

from memdir.frozen import dataclass
from memdir.limits import VERIFY_PAST_SECONDS
from memdir.verify.ground import Ground
from memdir.verify.path_lookup import PathLookup
from memdir.verify.project import Project
from memdir.verify.records import Checked, Claim, ClaimKind, Status
from memdir.verify.tool_lookup import ToolLookup
from memdir.verify.word_lookup import WordLookup


@dataclass(frozen=True, slots=True)
class Around:
    """What a claim is compared with beside the project: the day, and which memory a link means or meant."""

    today: date
    find_memory: Callable[[str], str | None] = lambda link: None
    had_memory: Callable[[str], bool] = lambda link: False


def check_claims(
    claims: Sequence[Claim], project: Project | None, around: Around, *, seconds: float = VERIFY_PAST_SECONDS
) -> tuple[Checked, ...]:
    """One answer a claim, in their order; without a project only dates and links can be checked."""
    look = _open_lookup([claim for claim in claims if not claim.reason], project, seconds)
    return tuple(_check_alone(claim, around) or look(claim) for claim in claims)


def drop_weak(checked: Iterable[Checked]) -> tuple[Checked, ...]:
    """Without the weak claims that the project knows nothing of: they were something else."""
    return tuple(at for at in checked if not (at.claim.is_weak and at.status is Status.UNKNOWN and not at.claim.reason))


def _check_alone(claim: Claim, around: Around) -> Checked | None:
    """What no project is needed for."""
    if claim.reason:
        return Checked(claim, Status.UNKNOWN, note=claim.reason)
    if claim.kind is ClaimKind.DATE:
        return Checked(claim, Status.PASSED if date.fromisoformat(claim.text) < around.today else Status.PRESENT)
    return _check_link(claim, around) if claim.kind is ClaimKind.LINK else None


def _check_link(claim: Claim, around: Around) -> Checked:
    name = around.find_memory(claim.text)
    if name is not None:
        return Checked(claim, Status.PRESENT, where=f"{name}.md")
    if around.had_memory(claim.text):
        return Checked(claim, Status.GONE, note="the memory it links to was forgotten")
    return Checked(claim, Status.UNKNOWN, note="no memory of that name")


def _open_lookup(claims: Sequence[Claim], project: Project | None, seconds: float) -> Callable[[Claim], Checked]:
    if project is None:
        return lambda claim: Checked(claim, Status.UNKNOWN, note="no project to look in")
    ground = Ground(project, claims, seconds)
    paths, words, tools = PathLookup(ground), WordLookup(ground), ToolLookup(ground)

    def check_command(claim: Claim) -> Checked:
        tool, _, name = claim.extra.partition(":")
        return paths.check_module(claim, name.replace(".", "/")) if tool == "module" else tools.check_script(claim)

    special = {
        ClaimKind.PATH: paths.check,
        ClaimKind.COMMAND: check_command,
        ClaimKind.PACKAGE: tools.check_package,
        ClaimKind.FLAG: tools.check_flag,
        ClaimKind.BRANCH: tools.check_branch,
    }
    return lambda claim: special.get(claim.kind, words.check)(claim)
