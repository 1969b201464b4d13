"""Team memory over git: the files of `team/` kept in step with a branch that several people share.

    units, merging       two versions of one file made into one
    instructing, arriving  what may come in, and what may go out
    git, objects, remote   the git program as a carrier, in memdir's own bare copy
    membership, point      which remote; what the files were when both sides were the same
    ground, sending, receiving, looking   what each side did, planned without touching anything
    news, synced, telling  what people are told
    syncing              all of it in order
    reverting            taking back what one author wrote
    entering             into a team and out of it
    background           a sync that nobody waits for

The person's own repository is read for the address of its remote, and for nothing else. It proves nobody's identity:
an author is what a commit says.
"""

from memdir.team.background import start_sync
from memdir.team.entering import enter, leave, open_sync, read_head
from memdir.team.membership import BRANCH, Membership, read_membership
from memdir.team.news import News, mark_seen, read_news, render_news
from memdir.team.reverting import Reverted, revert_author
from memdir.team.synced import Outcome, Record, Refusal, Synced, is_due, read_record
from memdir.team.syncing import Sync, sync

__all__ = [
    "BRANCH",
    "Membership",
    "News",
    "Outcome",
    "Record",
    "Refusal",
    "Reverted",
    "Sync",
    "Synced",
    "enter",
    "is_due",
    "leave",
    "mark_seen",
    "open_sync",
    "read_head",
    "read_membership",
    "read_news",
    "read_record",
    "render_news",
    "revert_author",
    "start_sync",
    "sync",
]
