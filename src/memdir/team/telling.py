"""What a sync leaves for people: things that wait in the inbox, who wrote what, and the news.

What waits is known by file and version: approved, it comes in as it is; rejected, it stays away until its author
writes another version. A clash waits as a notice: the merged file holds both sides already.
"""

from collections.abc import Mapping, Sequence

from memdir.authors import Author, read_authors, write_authors
from memdir.drafts import check_description
from memdir.errors import FormatError
from memdir.frontmatter import parse_fields, split
from memdir.records import Edit, Forget, InboxItem, InboxKind, InboxState, Origin, Put, Rewrite
from memdir.store.files import SYNC, FileStore
from memdir.store.payloads import render_edits
from memdir.store.plan import TEAM_FOLDER, digest_of
from memdir.team.ground import Approved, Local
from memdir.team.news import News
from memdir.team.objects import Commit
from memdir.team.receiving import Change, Waiting
from memdir.team.sending import Clash
from memdir.text import one_line, shorten

WAIT = "team:wait:"
CLASH = "team:clash:"
_SHOWN_CHARS = 20_000  # of each side of a clash; the rest is in history


def name_memory(path: str) -> str:
    return f"{TEAM_FOLDER}/{path.removesuffix('.md')}"


def make_approved(store: FileStore) -> Approved:
    """Whether a person has let a version of a file in."""
    items = {item.key for item in store.inbox(InboxState.APPROVED) if item.key.startswith(WAIT)}
    return lambda path, sha: f"{WAIT}{path}:{sha}" in items


def let_wait(store: FileStore, waiting: Sequence[Waiting], local: Local, authors: Mapping[str, Author]) -> None:
    """Put what needs a person's word into the inbox, and take out what has become of no matter."""
    now = store.clock()
    items = []
    for at in waiting:
        name, author = name_memory(at.path), authors.get(at.path)
        by = f" (by {author.name})" if author else ""
        edits = _make_edits(at, name, local)
        kind = InboxKind.MEMORY if edits else InboxKind.APPROVAL
        payload: dict[str, object] = {"edits": render_edits(edits)} if edits else {"text": at.text or ""}
        title = f"{name} {'taken away' if at.text is None else 'from the team'}{by}"
        origin = Origin(SYNC, f"by {author.name}" if author else "")
        items.append(InboxItem(kind, title, at.why, now, f"{WAIT}{at.path}:{at.sha}", name, origin, payload))
    if items:
        store.inbox_replace(WAIT, items)
    else:
        drop_waiting(store)


def drop_waiting(store: FileStore) -> None:
    """Take out what nobody has decided about."""
    if any(item.key.startswith(WAIT) for item in store.inbox()):
        store.inbox_replace(WAIT, [])


def tell_clashes(store: FileStore, clashes: Sequence[Clash]) -> None:
    now = store.clock()
    items = []
    for at in clashes:
        key = f"{CLASH}{at.path}:{digest_of((at.ours + chr(0) + at.theirs).encode('utf-8', 'replace'))[:16]}"
        payload = {"ours": at.ours[:_SHOWN_CHARS], "theirs": at.theirs[:_SHOWN_CHARS]}
        name = name_memory(at.path)
        why = shorten(one_line("; ".join(at.told)), 500)
        items.append(
            InboxItem(InboxKind.CONFLICT, f"{name}: both sides changed it", why, now, key, name, Origin(SYNC), payload)
        )
    store.inbox_add(items)


def find_authors(commits: Sequence[Commit]) -> dict[str, Author]:
    """Path -> who changed it last, by commits given newest first."""
    found: dict[str, Author] = {}
    for commit in commits:
        for path in commit.changes:
            found.setdefault(path, commit.author)
    return found


def keep_authors(store: FileStore, authors: Mapping[str, Author], paths: Sequence[str]) -> None:
    """Note who last changed each memory that is here; what the new commits do not tell is as it was."""
    before = read_authors(store.state)
    known = {name_memory(path): authors.get(path) or before.get(name_memory(path)) for path in paths}
    others = {name: at for name, at in before.items() if not name.startswith(f"{TEAM_FOLDER}/")}
    kept = {**others, **{name: at for name, at in known.items() if at is not None}}
    if kept != before:
        write_authors(store.state, kept)


def make_news(
    received: Mapping[str, Change], files: Mapping[str, bytes | None], authors: Mapping[str, Author]
) -> tuple[News, ...]:
    rows = []
    for path, change in sorted(received.items()):
        author = authors.get(path)
        line = _find_line((files.get(path) or b"").decode("utf-8", "replace"))
        rows.append(
            News(name_memory(path), change.value, author.name if author else "", line, author.when if author else None)
        )
    return tuple(rows)


def _find_line(text: str) -> str:
    """The description, else the first line of the body."""
    words = parse_fields(text).description or next((at for at in split(text).body.splitlines() if at.strip()), "")
    return shorten(one_line(words), 200)


def _make_edits(at: Waiting, name: str, local: Local) -> tuple[Edit, ...]:
    """What approving would do at once; nothing where only the next sync can."""
    before = local.files.get(at.path)
    if at.text is None:
        return (Forget(name, None if before is None else digest_of(before)),)
    if before is not None:
        return (Rewrite(name, at.text, digest_of(before)),)
    fields = parse_fields(at.text)
    try:
        check_description(fields.description, fields.kind)
    except FormatError:
        return ()
    return (Put(name, at.text),)
