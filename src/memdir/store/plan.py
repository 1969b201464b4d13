"""What a change would do, file by file, before anything is done: saves, edits, deletions, undo and restore.

Pure: it reads through a `StoreView` and changes nothing. A draft becomes the bytes of its topic file and of its index, before
and after; a store then applies them as one change. An `Overlay` is a view in which planned changes have already happened.

`check_changes` and `find_doubt` examine the files of every change, however it was made: nothing secret and nothing about
a person may come into what others read, and on a server a text that addresses an agent needs review.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from memdir.errors import (
    ConflictError,
    DiskError,
    FormatError,
    NotFoundError,
    PathError,
    SecretError,
    SettingsError,
)
from memdir.files import check_name, check_path
from memdir.format import frontmatter, index
from memdir.format.frontmatter import FieldValue, check_description, decode, digest_of, encode, make_slug
from memdir.frozen import dataclass, replace
from memdir.limits import FILE_BYTES, INDEX_FILE_BYTES
from memdir.records import (
    TEAM_FOLDER,
    Change,
    ChangedFile,
    Dialect,
    Draft,
    Forget,
    Header,
    Kind,
    Origin,
    Put,
    Rewrite,
    Scope,
)
from memdir.text import check_text, find_forbidden, fold

if TYPE_CHECKING:
    from memdir.language.dates import ReplacedDate
    from memdir.store.secrets import SecretFinding


AGENT = "agent"  # the origin of what an agent writes by tools, as opposed to what is learned from conversations
_PLACED_POINTERS = 200  # missing ones that are each placed beside similar ones
_DIALECT_SAMPLE = 16  # neighbours that are looked at to learn which dialect a directory mostly uses


class StoreView(Protocol):
    def read_bytes(self, path: str) -> bytes | None: ...
    def list_files(self, folder: str) -> Iterable[str]: ...


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file before and after; None stands for "no file"."""

    path: str
    before: bytes | None
    after: bytes | None

    @property
    def is_index(self) -> bool:
        return is_index_path(self.path)


Planner = Callable[[StoreView], list[FileChange]]
Finder = Callable[[str], "Sequence[SecretFinding]"]


def is_index_path(path: str) -> bool:
    return path == index.INDEX_FILE or path.endswith("/" + index.INDEX_FILE)


@lru_cache(maxsize=4)  # a batch asks for the same megabyte at every edit, and then knows its lines already
def _decode_index(data: bytes) -> str:
    return decode(data)


def index_path(name: str) -> tuple[str, str]:
    """The index a memory belongs to, and its name as that index spells it."""
    folder, slash, rest = name.partition("/")
    if slash and folder == TEAM_FOLDER:
        return f"{TEAM_FOLDER}/{index.INDEX_FILE}", rest
    return index.INDEX_FILE, name


@dataclass(frozen=True, slots=True)
class WriteRules:
    """What a store requires of everything written into it. `find` looks for secrets, by default the built-in
    rules. `shared` says that others will read all of it; else others read only the team's folder. With `review` what
    an agent writes there needs review. `strict` is for a server, where others see what members send: secrets are
    refused everywhere, and text that addresses an agent needs review."""

    scope: Scope = Scope.PRIVATE
    skip_index: bool = False
    find: Finder | None = None
    shared: bool = False
    review: bool = True
    strict: bool = False


def needs_review(changes: Sequence[FileChange], origin: Origin, rules: WriteRules) -> bool:
    """Return whether an agent changes what a team shares, and a person has to approve that."""
    return origin.who == AGENT and rules.review and any(is_shared(change.path, rules) for change in changes)


def find_doubt(changes: Iterable[FileChange], rules: WriteRules) -> str:
    """Return how a text of the changes addresses the agent itself, where that needs review; else empty."""
    if not rules.strict:
        return ""
    # Imported here: only what is sent to a server is searched.
    from memdir.language.instructions import find_instruction

    texts = (decode(change.after or b"") for change in changes if not change.is_index)
    return next(filter(None, map(find_instruction, texts)), "")


def drop_agent_pins(changes: list[FileChange], origin: Origin) -> list[FileChange]:
    """Return the changes, those of an agent without new pins: only a person decides what comes first everywhere."""
    if origin.who != AGENT:
        return changes
    return [change if change.is_index else replace(change, after=_drop_pin(change)) for change in changes]


def _drop_pin(change: FileChange) -> bytes | None:
    if (
        change.after is None
        or b"pinned" not in change.after
        or frontmatter.parse_fields(decode(change.before or b"")).pinned
    ):
        return change.after
    text = decode(change.after)
    return (
        encode(frontmatter.set_fields(text, {"pinned": None}))
        if frontmatter.parse_fields(text).pinned
        else change.after
    )


def make_review_edits(changes: Iterable[FileChange], *, pins: bool = False) -> tuple[Put | Rewrite | Forget, ...]:
    """The same changes for the inbox, new pins only with `pins`; lines of the index follow when they are approved."""
    edits: list[Put | Rewrite | Forget] = []
    for at in changes:
        if at.is_index or not at.path.endswith(".md"):
            continue
        name, before = at.path.removesuffix(".md"), None if at.before is None else digest_of(at.before)
        if at.after is None:
            edits.append(Forget(name, before))
        else:
            text = decode((at.after if pins else _drop_pin(at)) or b"")
            edits.append(Put(name, text) if before is None else Rewrite(name, text, before))
    return tuple(edits)


class Overlay:
    """A view in which planned changes have already happened. Every file is read once, so that all plans see the same."""

    def __init__(self, view: StoreView, changed: Mapping[str, bytes | None] | None = None) -> None:
        self._view = view
        self._read: dict[str, bytes | None] = {}
        self._listed: dict[str, tuple[str, ...]] = {}
        self.changed: dict[str, bytes | None] = dict(changed or {})

    def read_bytes(self, path: str) -> bytes | None:
        return self.changed[path] if path in self.changed else self.read_before(path)

    def read_before(self, path: str) -> bytes | None:
        """The file without the planned changes."""
        if path not in self._read:
            self._read[path] = self._view.read_bytes(path)
        return self._read[path]

    def list_files(self, folder: str) -> list[str]:
        if folder not in self._listed:
            self._listed[folder] = tuple(self._view.list_files(folder))
        names = dict.fromkeys(self._listed[folder])
        for path, data in self.changed.items():
            parent, _, leaf = path.rpartition("/")
            if parent == folder and data is None:
                names.pop(leaf, None)
            elif parent == folder:
                names[leaf] = None
        return list(names)

    def put(self, changes: Sequence[FileChange]) -> None:
        for planned in changes:
            if planned.before != self.read_bytes(planned.path):
                # Listed as absent, read as there: somebody outside was quicker. An empty `found` means: plan anew.
                raise ConflictError(f"{planned.path} changed while it was being written", hint="try again", found="")
        self.changed = {**self.changed, **{planned.path: planned.after for planned in changes}}

    def list_changes(self) -> Iterator[FileChange]:
        """One change a file, memories before indexes, without those that came to nothing."""
        for path in sorted(self.changed, key=is_index_path):
            before, after = self.read_before(path), self.changed[path]
            if before != after and not (before is None and not after):
                yield FileChange(path, before, after)


def plan_write(
    view: StoreView, draft: Draft, expect: str | None, now: datetime, rules: WriteRules
) -> tuple[str, list[FileChange]]:
    """The name a draft is saved under, and the changes that save it; none when everything already reads so."""
    draft = check_draft(draft, rules)
    name, found = find_write_target(view, draft)
    check_expected(name, found, expect)
    draft, _ = resolve_dates(draft, now, decode(found or b""))
    before = None if found is None else frontmatter.parse_fields(decode(found))
    if before is None or before.description != draft.description:
        check_description(draft.description, draft.kind)
    if found is None:
        fields: dict[str, FieldValue] = {
            "name": draft.title,
            "description": draft.description,
            "type": draft.kind.value,
            "pinned": "true" if draft.pinned else None,
            "cues": draft.cues or None,
        }
        dialect = _find_dialect(view, name.rpartition("/")[0])
        text = frontmatter.compose_file(fields, _clean_body(draft.body), dialect)
    else:
        text = render_over(decode(found), draft, now)
    data = _encode_checked(text)
    changes = [FileChange(f"{name}.md", found, data)] if data != found else []
    return name, changes if rules.skip_index else changes + _plan_pointer(view, name, draft, before)


def plan_text(
    view: StoreView, name: str, text: str, expect: str | None, now: datetime, rules: WriteRules
) -> list[FileChange]:
    """The changes of a whole-file edit: the text as somebody left it in an editor."""
    found = _read_existing(view, name)
    check_expected(name, found, expect)
    old = decode(found)
    text = resolve_text(text, now, old)
    data = _encode_checked(text)
    if data == found:
        return []
    fields = frontmatter.parse_fields(text)
    check_kind(fields, rules)
    if not find_forbidden(old, lines=True):
        check_text(text, "body")
    draft = Draft(fields.kind or Kind.PROJECT, fields.title or name, fields.description, "", name)
    pointers = [] if rules.skip_index else _plan_pointer(view, name, draft, frontmatter.parse_fields(old))
    return [FileChange(f"{name}.md", found, data), *pointers]


def plan_put(view: StoreView, name: str, text: str, hook: str, now: datetime, rules: WriteRules) -> list[FileChange]:
    """The changes that lay a whole file where none is: it is checked as if it were new, and its bytes stay but for dates."""
    text = resolve_text(text, now)
    *folders, leaf = check_name(name)
    for at in view.list_files("/".join(folders)):
        if fold(at) == fold(f"{leaf}.md"):
            hint = "read it first, then choose another name or merge by hand"
            found = digest_of(view.read_bytes("/".join([*folders, at])) or b"")
            raise ConflictError(f"{name} exists already", found=found, hint=hint)
    fields = frontmatter.parse_fields(text)
    check_kind(fields, rules)
    check_text(text, "body")
    check_description(fields.description, fields.kind)
    data = _encode_checked(text)
    draft = Draft(fields.kind or Kind.PROJECT, fields.title or leaf, hook or fields.description, "", name)
    pointers = [] if rules.skip_index else _plan_pointer(view, name, draft, None)
    return [FileChange(f"{name}.md", None, data), *pointers]


def plan_pin(view: StoreView, name: str, *, pinned: bool) -> list[FileChange]:
    if pinned and is_team(name):
        hint = "`memdir demote` makes it a memory of your own, which can be pinned"
        raise FormatError(
            "what a team shares cannot be pinned: it would be so for everybody", field="pinned", hint=hint
        )
    found = _read_existing(view, name)
    text = decode(found)
    if frontmatter.parse_fields(text).pinned == pinned:
        return []
    text = frontmatter.set_fields(text, {"pinned": "true" if pinned else None})
    return [FileChange(f"{name}.md", found, encode(text))]


def plan_delete(view: StoreView, name: str, expect: str | None) -> list[FileChange]:
    found = _read_existing(view, name, is_written=False)
    if expect is not None:
        check_expected(name, found, expect)
    path, short = index_path(name)
    known = _find_index(view, path)
    lines = [] if known is None else _plan_index(path, known[0], index.drop_lines(known[1], short))
    return [FileChange(f"{name}.md", found, None), *lines]


def plan_pointers(view: StoreView, names: Iterable[str]) -> list[FileChange]:
    """Missing pointers added and nothing else: how a directory with orphans is fixed. Each goes beside similar ones;
    very many go to the end of the list."""
    wanted = list(names)
    if len(wanted) > _PLACED_POINTERS:
        return _append_pointers(view, wanted)

    def add(text: str, name: str, short: str) -> str:
        found = view.read_bytes(f"{name}.md")
        if found is None or index.find_lines(text, short):
            return text
        fields = frontmatter.parse_fields(decode(found))
        return _add_pointer(text, short, fields.kind or Kind.PROJECT, fields.title or short, fields.description)

    return _plan_indexes(view, wanted, add)


def _append_pointers(view: StoreView, names: Iterable[str]) -> list[FileChange]:
    added: dict[str, list[str]] = {}
    known: dict[str, set[str]] = {}
    for name in names:
        path, short = index_path(name)
        if path not in known:
            known[path] = {line.key for line in index.parse_index(_read_index(view, path)[1])}
        found = view.read_bytes(f"{name}.md") if fold(short) not in known[path] else None
        if found is not None:
            fields = frontmatter.parse_fields(decode(found))
            added.setdefault(path, []).append(index.render_line(fields.title or short, short, fields.description))
            known[path].add(fold(short))
    read = ((path, lines, *_read_index(view, path)) for path, lines in added.items())
    return [
        change
        for path, lines, old, text in read
        for change in _plan_index(path, old, index.append_pointer(text, "\n".join(lines)))
    ]


def plan_dead_pointers(view: StoreView, names: Iterable[str]) -> list[FileChange]:
    """Pointers to these removed, where the file really is not there."""

    def drop(text: str, name: str, short: str) -> str:
        return text if view.read_bytes(f"{name}.md") is not None else index.drop_lines(text, short)

    return _plan_indexes(view, names, drop)


def _plan_indexes(view: StoreView, names: Iterable[str], step: Callable[[str, str, str], str]) -> list[FileChange]:
    texts: dict[str, tuple[bytes | None, str]] = {}
    for name in names:
        path, short = index_path(name)
        if (known := texts.get(path) or _find_index(view, path)) is not None:
            texts[path] = known[0], step(known[1], name, short)
    return [change for path, (old, text) in texts.items() for change in _plan_index(path, old, text)]


def plan_line(view: StoreView, name: str, was: str, line: str) -> list[FileChange]:
    """One pointer written in another way; a line that no longer reads as it was seen is a conflict."""
    check_text(line, "title")
    path, short = index_path(name)
    old, text = _read_index(view, path)
    if not any(at.text.strip() == was.strip() for at in index.find_lines(text, short)):
        raise ConflictError(f"the index line of {name} changed", hint="read the index again and redo the change")
    if not index.find_lines(line, short):
        raise FormatError(f"this line does not point to {name}", field="line", hint="- [Title](file.md) — hook")
    return _plan_index(path, old, index.replace_line(text, short, was, line.strip()))


def plan_undo(view: StoreView, change: Change, contents: Callable[[str], bytes]) -> list[FileChange]:
    """The changes that take a change back; ConflictError if a topic file is not what the change left behind. An
    index goes back byte for byte if nothing else touched it, and line by line if something did."""
    changes = []
    for file in change.files:
        current = view.read_bytes(file.path)
        if not is_index_path(file.path):
            found = digest_of(current) if current is not None else None
            if found != file.after:
                name = file.path.removesuffix(".md")
                what = "is gone" if found is None else "exists again" if file.after is None else "was changed"
                hint = f"`memdir history {name}` shows by whom; undo that first, or `memdir restore {name}`"
                message = f"cannot undo: {name} {what} since then"
                raise ConflictError(message, expected=file.after, found=found, hint=hint)
            after = contents(file.before) if file.before else None
        elif file.splice is None:
            continue
        else:
            at, removed, inserted = file.splice
            back = ChangedFile(file.path, file.after, file.before, (at, inserted, removed))
            after = redo_index(back, current)
        if after != current:
            changes.append(FileChange(file.path, current, after))
    return changes


def plan_restore(view: StoreView, name: str, data: bytes) -> list[FileChange]:
    """One memory as it was in some earlier version, with a pointer if it has none."""
    check_name(name)
    path = f"{name}.md"
    current = view.read_bytes(path)
    changes = [FileChange(path, current, data)] if current != data else []
    return changes + plan_pointers(Overlay(view, {path: data}), [name])


def plan_version(
    view: StoreView, name: str, changes: tuple[Change, ...], change: int | None, contents: Callable[[str], bytes]
) -> list[FileChange]:
    """Plan to bring back the version that a change left, or the one before the present one."""
    current = view.read_bytes(f"{name}.md")
    digest = find_version(changes, name, change, None if current is None else digest_of(current))
    return plan_restore(view, name, contents(digest))


def find_version(changes: tuple[Change, ...], name: str, change: int | None, current: str | None) -> str:
    """The digest to restore: what the file was after that change, else the version before the present one."""
    path = f"{name}.md"
    files = [(step.id, file) for step in changes for file in step.files if file.path == path]
    if change is not None:
        for number, file in files:
            if number <= change:
                if file.after is None:
                    raise NotFoundError(f"{name} did not exist after change {change}", name=name)
                return file.after
        raise NotFoundError(f"{name} has no version that old", name=name, hint=f"`memdir history {name}` lists them")
    for _, file in files:
        for digest in (file.after, file.before):
            if digest is not None and digest != current:
                return digest
    raise NotFoundError(f"no other version of {name} is in the history", name=name)


def _merge_lines(text: str, removed: bytes, inserted: bytes) -> str:
    """Line by line: remove the lines that left, add the ones that came, wherever the rest now is."""
    old, new = frontmatter.split_lines(decode(removed)), frontmatter.split_lines(decode(inserted))
    gone = [line for line in old if line not in new]
    lines = [line for line in frontmatter.split_lines(text) if line not in gone]
    text = "".join(lines)
    for line in new:
        if line in old or line in lines or not line.strip():
            continue
        parsed = index.parse_index(line)[0]
        if parsed.is_pointer and not index.find_lines(text, parsed.name):
            text = index.append_pointer(text, line.rstrip("\r\n"))
    return text


def redo_index(change: ChangedFile, current: bytes | None) -> bytes | None:
    """An index as a change meant to leave it, starting from what it is now."""
    found = digest_of(current) if current is not None else None
    if found == change.after or change.splice is None:
        return current
    if found == change.before:
        after = index.apply_splice(current or b"", change.splice) if change.after is not None else None
        # What history says of the lines may be damaged: then the index stays, and `doctor` adds what is missing.
        return after if after is None or digest_of(after) == change.after else current
    return encode(_merge_lines(decode(current or b""), change.splice[1], change.splice[2]))


def resolve_dates(draft: Draft, now: datetime, old: str = "") -> tuple[Draft, "tuple[ReplacedDate, ...]"]:
    """A project draft with its relative dates absolute, seen from `now` in its zone, and what was replaced. Lines
    that `old`, the file before, has already stay: they were said on another day."""
    if draft.kind is not Kind.PROJECT or "\n" in draft.description:
        return draft, ()
    # Imported here: recalling needs no dates, and most memories are of another type.
    from memdir.language.dates import make_absolute

    known = {line.strip() for line in old.splitlines()} | {frontmatter.parse_fields(old).description}
    text, replaced = make_absolute(f"{draft.description}\n\n{draft.body}", now, known if old else ())
    description, _, body = text.partition("\n\n")
    return replace(draft, description=description, body=body), replaced


def resolve_text(text: str, now: datetime, old: str = "") -> str:
    """A whole file with the relative dates of a project memory absolute, as `resolve_dates`."""
    fields = frontmatter.parse_fields(text)
    if fields.kind is not Kind.PROJECT or fields.problem:
        return text
    body = frontmatter.split_frontmatter(text).body
    dated, replaced = resolve_dates(Draft(fields.kind, fields.title, fields.description, body), now, old)
    if not replaced:
        return text
    try:
        return frontmatter.replace_body(frontmatter.set_fields(text, {"description": dated.description}), dated.body)
    except FormatError:
        return text


def check_draft(draft: Draft, rules: WriteRules) -> Draft:
    """Returns the draft, its type an enum also if it was given as text; raises FormatError."""
    frontmatter.check_title(draft.title)
    for field in ("title", "description", "body"):
        check_text(getattr(draft, field), field)
    frontmatter.check_cues(draft.cues or ())
    if draft.kind not in list(Kind):
        raise FormatError(f"unknown type {draft.kind!r}", field="type", hint="user, feedback, project or reference")
    draft = replace(draft, kind=Kind(draft.kind))
    _check_scope(draft.kind, rules.scope)
    if not draft.body.strip():
        raise FormatError("a memory needs a body", field="body", hint="say what is to be remembered")
    return draft


def check_kind(fields: frontmatter.FrontmatterFields, rules: WriteRules) -> None:
    """A file that is written must say its name, type and description, whatever it said before."""
    if fields.problem:
        hint = "it needs name, description and type (user, feedback, project or reference) between two --- lines"
        raise FormatError(f"this cannot be saved: {fields.problem}", field="frontmatter", hint=hint)
    if fields.kind is not None:
        _check_scope(fields.kind, rules.scope)


def check_expected(name: str, found: bytes | None, expect: str | None) -> None:
    """Compare and swap: what is there must be what the caller has seen."""
    digest = digest_of(found) if found is not None else None
    if found is not None and expect is None:
        hint = "read it first, then replace it or choose another name"
        raise ConflictError(f"{name} exists already", found=digest, hint=hint)
    if digest != expect:
        what = "changed since you read it" if found is not None else "is gone"
        raise ConflictError(f"{name} {what}", expected=expect, found=digest, hint="read it again and redo the change")


def _check_scope(kind: Kind, scope: Scope) -> None:
    if scope is Scope.USER and kind not in (Kind.USER, Kind.FEEDBACK):
        hint = "save it without --scope user: it belongs to this project"
        raise FormatError(f"user memory holds user and feedback memories, not {kind.value}", field="type", hint=hint)


def find_write_target(view: StoreView, draft: Draft) -> tuple[str, bytes | None]:
    """Where a draft goes: the file of the same name or title, else a free name."""
    wanted = draft.name if draft.name is not None else make_slug(draft.title)
    segments = check_name(wanted)
    folder = "/".join(segments[:-1])
    taken = {fold(name[:-3]): name for name in view.list_files(folder) if name.endswith(".md")}
    for number in range(1, 1000):
        leaf = segments[-1] if number == 1 else f"{segments[-1][:90]}-{number}"
        existing = taken.get(fold(leaf), f"{leaf}.md")
        name = f"{folder}/{existing[:-3]}" if folder else existing[:-3]
        if fold(leaf) not in taken:
            return name, None
        try:
            found = view.read_bytes(f"{name}.md")
        except (PathError, DiskError):
            if draft.name is not None:
                raise
            continue  # nobody asked for this name: the next one is free, or a memory
        if found is None:
            raise PathError(name, "something that is not a readable file is there")
        title = frontmatter.parse_fields(decode(found)).title
        if draft.name is not None or fold(title) == fold(draft.title):
            return name, found
    raise ConflictError("a thousand memories have this name", hint="give it a name of its own with --name")


def _read_index(view: StoreView, path: str) -> tuple[bytes | None, str]:
    data = view.read_bytes(path)
    return data, _decode_index(data or b"")


def _find_index(view: StoreView, path: str) -> tuple[bytes | None, str] | None:
    """As `_read_index`; None where the index may not be read. Then a memory is saved without its line: the file is what
    counts, and `doctor` names the index."""
    try:
        return _read_index(view, path)
    except (PathError, DiskError):
        return None


def _plan_index(path: str, listed: bytes | None, text: str) -> list[FileChange]:
    """An index with another text, if it is another; one that could not be read again is not written."""
    if text == _decode_index(listed or b""):
        return []
    if len(data := encode(text)) > INDEX_FILE_BYTES:
        hint = "take out what is no pointer, or forget what is of no use any more"
        raise FormatError(f"{path} would be larger than {INDEX_FILE_BYTES:,} bytes", field="line", hint=hint)
    return [FileChange(path, listed, data)]


def render_over(text: str, draft: Draft, now: datetime) -> str:
    """Return an existing file with the draft's fields and body; everything else stays."""
    before = frontmatter.parse_fields(text)
    changes: dict[str, FieldValue] = {"name": draft.title, "description": draft.description, "type": draft.kind.value}
    if draft.cues is not None:
        changes["cues"] = draft.cues or None
    if before.dialect is None:
        return frontmatter.compose_file(changes, _clean_body(draft.body), Dialect.FLAT)
    if draft.pinned is not None and draft.pinned != before.pinned:
        changes["pinned"] = "true" if draft.pinned else None
    edited = frontmatter.replace_body(frontmatter.set_fields(text, changes), _clean_body(draft.body))
    if edited != text and before.modified:
        edited = frontmatter.set_fields(edited, {"modified": now.astimezone().isoformat(timespec="seconds")})
    return edited


def _encode_checked(text: str) -> bytes:
    data = encode(text)
    if len(data) > FILE_BYTES:
        raise FormatError(f"a memory may hold {FILE_BYTES:,} bytes, this one has {len(data):,}", field="body")
    return data


def _read_existing(view: StoreView, name: str, *, is_written: bool = True) -> bytes:
    """The bytes of a memory; one that is not written may have a name that no memory gets, such as a conflict copy's."""
    if is_written:
        check_name(name)
    else:
        check_path(f"{name}.md")
    found = view.read_bytes(f"{name}.md")
    if found is None:
        raise NotFoundError(f"no memory named {name}", name=name)
    return found


def _clean_body(body: str) -> str:
    return body.replace("\r\n", "\n").strip("\n") + "\n"


def _find_dialect(view: StoreView, folder: str) -> Dialect:
    leaves = (leaf for leaf in view.list_files(folder) if leaf.endswith(".md") and not is_index_path(leaf))
    heads = (frontmatter.take_head(_read_neighbour(view, f"{folder}/{leaf}" if folder else leaf)) for leaf in leaves)
    known = (at for head in heads if (at := _read_dialect(head)) is not None)
    found = list(islice(known, _DIALECT_SAMPLE))
    return Dialect.NESTED if found.count(Dialect.NESTED) * 2 > len(found) else Dialect.FLAT


@lru_cache(maxsize=1_024)  # the neighbours of one save are those of the next
def _read_dialect(head: bytes) -> Dialect | None:
    return frontmatter.parse_fields(decode(head)).dialect


def _read_neighbour(view: StoreView, path: str) -> bytes:
    """The bytes of a file that the change is not about; none if it may not be read."""
    try:
        return view.read_bytes(path) or b""
    except (PathError, DiskError):
        return b""


def _plan_pointer(
    view: StoreView, name: str, draft: Draft, before: frontmatter.FrontmatterFields | None
) -> list[FileChange]:
    path, short = index_path(name)
    if (known := _find_index(view, path)) is None:
        return []
    listed, text = known
    if not index.find_lines(text, short):
        text = _add_pointer(text, short, draft.kind, draft.title, draft.description)
    elif before is not None:
        old = index.render_line(before.title, short, before.description)
        text = index.replace_line(text, short, old, index.render_line(draft.title, short, draft.description))
    return _plan_index(path, listed, text)


def _add_pointer(text: str, short: str, kind: Kind, title: str, description: str) -> str:
    line = index.render_line(title, short, description)
    return index.add_line(text, line, kind=kind, words=f"{title} {description} {short}")


def check_changes(changes: list[FileChange], rules: WriteRules) -> list[FileChange]:
    """Return the changes. Raise for a secret that would come into what others read, or for a `user` memory there.

    A secret that was there already is not a reason to refuse another change: the index must still be fixed.
    """
    for planned in changes:
        is_read = is_shared(planned.path, rules)
        if planned.after is None or not (is_read or rules.strict):
            continue
        name, text = planned.path.removesuffix(".md"), decode(planned.after)
        if is_read and not planned.is_index and frontmatter.parse_fields(text).kind is Kind.USER:
            message = f"{name} is about a person, and what others share may hold no user memory"
            hint = "keep it private, or save what the team needs of it as feedback or project"
            raise FormatError(message, field="type", hint=hint)
        check_secrets(name, "", "its name", rules)
        check_secrets(text, decode(planned.before or b""), planned.path, rules)
    return changes


def is_shared(path: str, rules: WriteRules) -> bool:
    """Whether others will read this file, or the memory of this name."""
    return rules.shared or rules.scope in (Scope.TEAM, Scope.PROJECT) or is_team(path)


def is_team(path: str) -> bool:
    """Whether a file, or a memory by its name, lies in the team's folder."""
    # Folded: where the file system knows no case, `Team/` is the same folder.
    folder, slash, _ = path.partition("/")
    return bool(slash and fold(folder) == TEAM_FOLDER)


def find_unfit(header: Header, rules: WriteRules) -> str:
    """Why an index that others read may have no line for a memory that lies there; empty where it may."""
    if not is_shared(header.file, rules):
        return ""
    if header.kind is Kind.USER:
        return "it is about a person"
    try:
        check_secrets(f"{header.title} {header.description}", "", header.file, rules)
    except SecretError:
        return "its head holds a secret"
    except SettingsError:
        return "secrets cannot be looked for"
    return ""


def check_secrets(text: str, before: str, place: str, rules: WriteRules) -> None:
    # Imported here: only what a team shares is searched.
    from memdir.store.secrets import find_new_secrets, render_findings

    if new := find_new_secrets(text, before, rules.find):
        said = render_findings(new, place=place)
        more = f" and {len(said) - 3} more" if len(said) > 3 else ""
        hint = "say where it is kept instead; docs/secrets.md tells how to allow what is none"
        raise SecretError(f"team memory may not hold secrets: {', '.join(said[:3])}{more}", findings=said, hint=hint)
