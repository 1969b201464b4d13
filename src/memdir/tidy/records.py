"""What tidying yields: patches, which the dream applies, and proposals, which wait for a person."""

from datetime import datetime
from enum import StrEnum

from memdir.frozen import dataclass
from memdir.records import Edit, InboxItem, InboxKind, Origin
from memdir.store.payloads import Quote, render_edits, render_evidence

KEY_PREFIX = "tidy:"


class PatchKind(StrEnum):
    DUPLICATE = "duplicate"
    REWORDING = "rewording"
    DATE = "date"
    LONG_LINE = "long_line"
    DEAD_POINTER = "dead_pointer"
    MISSING_POINTER = "missing_pointer"


class ProposalKind(StrEnum):
    EXPIRED = "expired"
    CONTRADICTION = "contradiction"


@dataclass(frozen=True, slots=True)
class Patch:
    """Edits that stand or fall together; `names` are the memories they concern, the one that stays first."""

    kind: PatchKind
    names: tuple[str, ...]
    edits: tuple[Edit, ...]
    reason: str
    evidence: str


@dataclass(frozen=True, slots=True)
class Proposal:
    """What a person should decide. `key` knows the texts, not the names: it is asked anew when they change."""

    kind: ProposalKind
    names: tuple[str, ...]
    title: str
    why: str
    edits: tuple[Edit, ...]
    evidence: tuple[Quote, ...]
    key: str


@dataclass(frozen=True, slots=True)
class Tidied:
    patches: tuple[Patch, ...] = ()
    proposals: tuple[Proposal, ...] = ()


def make_item(proposal: Proposal, *, at: datetime, origin: Origin) -> InboxItem:
    payload = {"edits": render_edits(proposal.edits), "evidence": render_evidence(proposal.evidence)}
    return InboxItem(
        kind=InboxKind.PROPOSAL,
        title=proposal.title,
        why=proposal.why,
        at=at,
        key=KEY_PREFIX + proposal.key,
        name=proposal.names[0],
        origin=origin,
        payload=payload,
    )
