"""What `team` prints: how a sync went, how things stand, who wrote what."""

from datetime import datetime
from typing import Any

from memdir.doors.cli.columns import Column
from memdir.doors.cli.output import Output, Styled
from memdir.doors.cli.rows import Row, make_time
from memdir.errors import SettingsError
from memdir.index import INDEX_FILE
from memdir.opening import Opened
from memdir.records import InboxState
from memdir.team import Outcome, Refusal, Synced, read_membership, read_news, read_record
from memdir.team.looking import TEAM_FILE, read_local
from memdir.team.membership import resolve_remote
from memdir.team.news import render_row
from memdir.team.objects import Commit, hash_blob
from memdir.team.syncing import find_point
from memdir.team.telling import WAIT, name_memory

_LOG = (
    Column("WHEN", "dim"),
    Column("AUTHOR", "cyan", is_cut=True),
    Column("ADDRESS", "dim", is_cut=True),
    Column("CHANGE", "yellow"),
    Column("MEMORY", is_cut=True),
)
_WORDS = {
    Outcome.SYNCED: "in step with the team",
    Outcome.OFFLINE: "the remote could not be reached; what was changed here goes out with the next sync",
    Outcome.DENIED: "the remote takes nothing from you; what others wrote was taken",
    Outcome.BUSY: "another sync is under way",
    Outcome.FAILED: "the sync failed; nothing of yours is lost",
}


def make_sync_row(done: Synced | None) -> Row:
    """A sync, as `--json` prints it; None for one that was only begun."""
    if done is None:
        done, outcome = Synced(Outcome.BUSY), "started"
    else:
        outcome = done.outcome.value
    return {
        "outcome": outcome,
        "error": done.error or None,
        "sent": list(done.sent),
        "received": [render_row(at) for at in done.received],
        "clashes": list(done.clashes),
        "refused": [_make_refusal(at) for at in done.refused],
        "withheld": [_make_refusal(at) for at in done.withheld],
        "waiting": list(done.waiting),
        "notes": list(done.notes),
        "act": done.act,
        "commit": done.commit or None,
        "pid": None,
    }


def show_synced(out: Output, done: Synced) -> None:
    out.line(Styled(_WORDS[done.outcome], "bold"))
    for note in done.notes:
        out.warn(note)
    if done.error:
        out.warn(done.error)
    for name in done.sent:
        out.line("  sent      ", Styled(name, "cyan"))
    for at in done.received:
        by = f" by {at.author}" if at.author else ""
        out.line(f"  {at.change:<9} ", Styled(at.name, "cyan"), by)
    for name in done.clashes:
        out.line("  both kept ", Styled(name, "yellow"), ": `memdir inbox` shows the two sides")
    for name in done.waiting:
        out.line("  waits     ", Styled(name, "yellow"), ": `memdir inbox` shows it")
    _show_refusals(out, "refused ", done.refused)
    _show_refusals(out, "not sent", done.withheld)
    if done.act is not None:
        out.line(f"`memdir undo {done.act}` takes back what came")


def make_status_row(opened: Opened) -> Row:
    """How things stand, without asking the remote."""
    store = opened.private
    member, record = read_membership(store.state), read_record(store.state)
    try:
        address = resolve_remote(member, opened.places.root.path) if member else None
    except SettingsError:
        address = None
    waiting = [item for item in store.inbox(InboxState.WAITING) if item.key.startswith(WAIT)]
    return {
        "member": member is not None,
        "remote": address,
        "branch": member.branch if member else None,
        "read_only": bool(member and member.read_only),
        "review": bool(member and member.review),
        "last": _make_time(record.at),
        "last_good": _make_time(record.last_good),
        "outcome": record.outcome or None,
        "error": record.error or None,
        "unsent": _find_unsent(opened) if member else [],
        "waiting": len(waiting),
        "news": len(read_news(store.state)),
        "refused": [{"path": path, "why": why} for path, why in sorted(record.refused.items())],
        "withheld": [{"path": path, "why": why} for path, why in sorted(record.withheld.items())],
    }


def show_status(out: Output, row: Row) -> None:
    if not row["member"]:
        out.line("this project is in no team; `memdir team init` begins one, `memdir team join` takes part in one")
        return
    how = ", ".join(word for word, is_on in (("read-only", row["read_only"]), ("review", row["review"])) if is_on)
    facts: list[tuple[str, Any]] = [
        ("remote", row["remote"] or "none: this project has no git remote"),
        ("branch", row["branch"]),
        ("part", how),
        ("last sync", f"{row['outcome']}, {row['last']}" if row["last"] else "never"),
        ("error", row["error"]),
        ("in step", row["last_good"] if row["last_good"] != row["last"] else None),
        ("unsent", ", ".join(row["unsent"])),
        ("waiting", f"{row['waiting']} in `memdir inbox`" if row["waiting"] else None),
        ("news", f"{row['news']} since the last session" if row["news"] else None),
    ]
    for label, text in facts:
        if text:
            out.line(Styled(f"{label:<10}", "dim"), str(text))
    _show_refusals(out, "refused ", [Refusal(at["path"], at["why"]) for at in row["refused"]])
    _show_refusals(out, "not sent", [Refusal(at["path"], at["why"]) for at in row["withheld"]])


def make_commit_row(commit: Commit) -> Row:
    own = (INDEX_FILE, TEAM_FILE)
    changes = [{"path": path, "change": how} for path, how in sorted(commit.changes.items()) if path not in own]
    when = commit.author.when
    return {
        "commit": commit.sha,
        "at": None if when is None else make_time(when),
        "author": commit.author.name,
        "email": commit.author.email,
        "changes": changes,
    }


def show_log(out: Output, rows: list[Row]) -> None:
    cells = [
        [row["at"] or "", row["author"], row["email"], at["change"], name_memory(at["path"])]
        for row in rows
        for at in row["changes"]
    ]
    if cells:
        out.table(_LOG, cells)
    elif out.is_table:
        out.line("nobody has written anything yet")


def _find_unsent(opened: Opened) -> list[str]:
    """What differs from the last sync here."""
    point = find_point(opened.private)
    files = read_local(opened.private).files
    changed = [path for path, data in files.items() if point.find(path) != hash_blob(data)]
    return [name_memory(path) for path in sorted(changed)]


def _make_refusal(at: Refusal) -> Row:
    return {"path": at.path, "why": at.why, "new": at.is_new}


def _show_refusals(out: Output, label: str, refusals: Any) -> None:
    for at in refusals:
        out.line(f"  {label}  ", Styled(at.path, "yellow"), f": {at.why}")


def _make_time(when: datetime | None) -> str | None:
    return None if when is None else make_time(when)
