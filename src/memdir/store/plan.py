"""Plan changes as bytes per file, before and after: saves, edits, deletions, undo and restore.

The planners read through a `StoreView` and write nothing; a store then applies a plan as one change. An `Overlay` is a view
in which planned changes have already happened.

`check_changes` and `find_doubt` examine the files of every change: files that others read may contain no secrets and no user
memories, and on a server a text that addresses an agent needs review.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from memdir.errors import ConflictError, DiskError, FormatError, NotFoundError, PathError, SecretError, SettingsError
from memdir.files import check_name, check_path
from memdir.format import frontmatter, index
from memdir.format.fields import NO_FIELDS, FieldValue, FrontmatterFields, check_fields, clean_fields, list_set
from memdir.format.frontmatter import check_description, decode, digest_of, encode, make_slug
from memdir.format.when import keep_enforce, render_when
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


# The origins of the user's own changes, including those synced from another machine and undos.
_PERSONAL = frozenset({"person", "outside", "sync"})
AGENT = "agent"  # the origin of memories an agent writes with tools, unlike those learned from conversations
_PLACED_POINTERS = 200  # up to this many missing index lines are placed next to similar lines
_DIALECT_SAMPLE = 16  # files read to find the dialect that most files of a directory use


class StoreView(Protocol):
    def read_bytes(self, path: str) -> bytes | None: ...
    def list_files(self, folder: str, *, alike: str = "", most: int | None = None) -> Iterable[str]:
        """Return the names of the files in a folder; with `alike`, at least those that differ from it only in case; with
        `most`, at least that many if there are."""
        ...


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file before and after a change; None means that the file does not exist."""

    path: str
    before: bytes | None
    after: bytes | None

    @property
    def is_index(self) -> bool:
        return is_index_path(self.path)


Planner = Callable[[StoreView], list[FileChange]]
Finder = Callable[[str], "Sequence[SecretFinding]"]


def list_folder(paths: Iterable[str], folder: str) -> list[str]:
    """Return the names of the files directly in a folder, given the paths of all files."""
    return [leaf for parent, _, leaf in (path.rpartition("/") for path in paths) if parent == folder]


def is_index_path(path: str) -> bool:
    return path == index.INDEX_FILE or path.endswith("/" + index.INDEX_FILE)


@lru_cache(maxsize=4)  # a batch decodes the same index, up to a megabyte, at every edit
def _decode_index(data: bytes) -> str:
    return decode(data)


def index_path(name: str) -> tuple[str, str]:
    """Return the path of the index that lists a memory, and the memory's name in that index."""
    folder, slash, rest = name.partition("/")
    if slash and folder == TEAM_FOLDER:
        return f"{TEAM_FOLDER}/{index.INDEX_FILE}", rest
    return index.INDEX_FILE, name


@dataclass(frozen=True, slots=True)
class WriteRules:
    """The rules a store applies to every write.

    `find` finds secrets, by default with the built-in rules. With `shared`, others read the whole store, otherwise only
    the team folder. With `review`, an agent's writes to shared files need review. `strict` is for a server, where others
    see what members send: secrets are refused everywhere, and text that addresses an agent needs review. With
    `renders_index` the store keeps an index line with each memory and renders MEMORY.md from these lines.
    """

    scope: Scope = Scope.PRIVATE
    skip_index: bool = False
    find: Finder | None = None
    shared: bool = False
    review: bool = True
    strict: bool = False
    renders_index: bool = False

    @property
    def plans_index(self) -> bool:
        return not (self.skip_index or self.renders_index)


def needs_review(changes: Sequence[FileChange], origin: Origin, rules: WriteRules) -> bool:
    """Return whether these are an agent's changes to shared files, which the user must approve."""
    return origin.who == AGENT and rules.review and any(is_shared(change.path, rules) for change in changes)


def find_doubt(changes: Iterable[FileChange], rules: WriteRules) -> str:
    """Return why the changed text needs review because it addresses an agent, or ""."""
    if not rules.strict:
        return ""
    # Imported here: only text sent to a server is searched.
    from memdir.language.instructions import find_instruction

    texts = (decode(change.after or b"") for change in changes if not change.is_index)
    return next(filter(None, map(find_instruction, texts)), "")


def drop_powers(changes: list[FileChange], origin: Origin) -> list[FileChange]:
    """Return the changes without fields only the user may set: agents cannot pin, programs cannot set `enforce`."""
    if origin.who in _PERSONAL:
        return changes
    return [change if change.is_index else replace(change, after=_drop_reserved(change, origin)) for change in changes]


def _drop_reserved(change: FileChange, origin: Origin) -> bytes | None:
    if change.after is None or (b"pinned" not in change.after and b"enforce" not in change.after):
        return change.after
    text = decode(change.after)
    before, after = frontmatter.parse_fields(decode(change.before or b"")), frontmatter.parse_fields(text)
    changes: dict[str, FieldValue] = {}
    if origin.who == AGENT and after.pinned and not before.pinned:
        changes["pinned"] = None
    if after.when.enforce and after.when.enforce != before.when.enforce:
        changes["when"] = render_when(keep_enforce(after.when, before.when))
    return encode(frontmatter.set_fields(text, changes)) if changes else change.after


def make_review_edits(changes: Iterable[FileChange], *, pins: bool = False) -> tuple[Put | Rewrite | Forget, ...]:
    """Return the changes as inbox edits, including new pins if `pins` is true. Approval adds the index lines."""
    edits: list[Put | Rewrite | Forget] = []
    for change in changes:
        if change.is_index or not change.path.endswith(".md"):
            continue
        name, before = change.path.removesuffix(".md"), None if change.before is None else digest_of(change.before)
        if change.after is None:
            edits.append(Forget(name, before))
        else:
            text = decode((change.after if pins else _drop_reserved(change, Origin(AGENT))) or b"")
            edits.append(Put(name, text) if before is None else Rewrite(name, text, before))
    return tuple(edits)


class Overlay:
    """A view in which planned changes have already happened. It reads each file once, so all plans see the same bytes."""

    def __init__(self, view: StoreView, changed: Mapping[str, bytes | None] | None = None) -> None:
        self._view = view
        self._read: dict[str, bytes | None] = {}
        self._listed: dict[tuple[str, str, int | None], tuple[str, ...]] = {}
        self.changed: dict[str, bytes | None] = dict(changed or {})

    def read_bytes(self, path: str) -> bytes | None:
        return self.changed[path] if path in self.changed else self.read_before(path)

    def read_before(self, path: str) -> bytes | None:
        """Return the current bytes of a file, without the planned changes."""
        if path not in self._read:
            self._read[path] = self._view.read_bytes(path)
        return self._read[path]

    def list_files(self, folder: str, *, alike: str = "", most: int | None = None) -> list[str]:
        key = folder, alike, most
        if key not in self._listed:
            self._listed[key] = tuple(self._view.list_files(folder, alike=alike, most=most))
        names = dict.fromkeys(self._listed[key])
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
                # Another process created the file after it was listed. An empty `found` means: plan again.
                raise ConflictError(f"{planned.path} changed while it was being written", hint="try again", found="")
        self.changed = {**self.changed, **{planned.path: planned.after for planned in changes}}

    def list_changes(self) -> Iterator[FileChange]:
        """Yield one change per changed file, memories before indexes."""
        for path in sorted(self.changed, key=is_index_path):
            before, after = self.read_before(path), self.changed[path]
            if before != after and not (before is None and not after):
                yield FileChange(path, before, after)


def plan_write(
    view: StoreView, draft: Draft, expect: str | None, now: datetime, rules: WriteRules
) -> tuple[str, list[FileChange]]:
    """Return the name for a draft and the changes that save it; there are none if the files already match."""
    draft = check_draft(draft, rules)
    name, current = find_write_target(view, draft)
    check_expected(name, current, expect)
    draft, _ = resolve_dates(draft, now, decode(current or b""))
    before = None if current is None else frontmatter.parse_fields(decode(current))
    if before is None or before.description != draft.description:
        check_description(draft.description, draft.kind)
    if current is None:
        fields: dict[str, FieldValue] = {
            "name": draft.title,
            "description": draft.description,
            "type": draft.kind.value,
            **{row.key: row.render(value) for row, value in list_set(draft)},
        }
        dialect = find_dialect(view, name.rpartition("/")[0])
        text = frontmatter.compose_file(fields, _clean_body(draft.body), dialect)
    else:
        text = render_over(decode(current), draft, now)
    data = _encode_checked(text)
    changes = [FileChange(f"{name}.md", current, data)] if data != current else []
    return name, changes + _plan_pointer(view, name, draft, before) if rules.plans_index else changes


def plan_text(
    view: StoreView, name: str, text: str, expect: str | None, now: datetime, rules: WriteRules
) -> list[FileChange]:
    """Return the changes that replace the full text of a memory, for example after it was edited in an editor."""
    current = _read_existing(view, name)
    check_expected(name, current, expect)
    old = decode(current)
    text = resolve_text(text, now, old)
    data = _encode_checked(text)
    if data == current:
        return []
    fields, before = frontmatter.parse_fields(text), frontmatter.parse_fields(old)
    check_file(fields, rules, before)
    if not find_forbidden(old, lines=True):
        check_text(text, "body")
    draft = Draft(fields.kind or Kind.PROJECT, fields.title or name, fields.description, "", name)
    pointers = _plan_pointer(view, name, draft, before) if rules.plans_index else []
    return [FileChange(f"{name}.md", current, data), *pointers]


def plan_put(view: StoreView, name: str, text: str, hook: str, now: datetime, rules: WriteRules) -> list[FileChange]:
    """Check a text and return the changes that create a file with it; only relative dates are replaced."""
    text = resolve_text(text, now)
    leaf = check_name(name)[-1]
    if (existing := find_alike(view, name)) is not None:
        hint = "read it first, then choose another name or merge by hand"
        raise ConflictError(
            f"{name} already exists", found=digest_of(view.read_bytes(f"{existing}.md") or b""), hint=hint
        )
    fields = frontmatter.parse_fields(text)
    check_file(fields, rules)
    check_text(text, "body")
    check_description(fields.description, fields.kind)
    data = _encode_checked(text)
    draft = Draft(fields.kind or Kind.PROJECT, fields.title or leaf, hook or fields.description, "", name)
    pointers = _plan_pointer(view, name, draft, None) if rules.plans_index else []
    return [FileChange(f"{name}.md", None, data), *pointers]


def plan_pin(view: StoreView, name: str, rules: WriteRules, *, pinned: bool) -> list[FileChange]:
    if pinned and (is_team(name) or rules.scope is Scope.PROJECT):
        hint = "`memdir demote` makes it a private memory, which can be pinned"
        whose = Scope.TEAM if is_team(name) else rules.scope
        raise FormatError(f"{whose} memories cannot be pinned", field="pinned", hint=hint)
    current = _read_existing(view, name)
    text = decode(current)
    if frontmatter.parse_fields(text).pinned == pinned:
        return []
    text = frontmatter.set_fields(text, {"pinned": "true" if pinned else None})
    return [FileChange(f"{name}.md", current, encode(text))]


def plan_delete(view: StoreView, name: str, expect: str | None, rules: WriteRules) -> list[FileChange]:
    current = _read_existing(view, name, is_written=False)
    if expect is not None:
        check_expected(name, current, expect)
    path, short = index_path(name)
    known = None if rules.renders_index else _find_index(view, path)
    lines = [] if known is None else _plan_index(path, known[0], index.drop_lines(known[1], short))
    return [FileChange(f"{name}.md", current, None), *lines]


def plan_pointers(view: StoreView, names: Iterable[str]) -> list[FileChange]:
    """Return the changes that add missing index lines, next to similar ones or, if there are many, at the end."""
    missing = list(names)
    if len(missing) > _PLACED_POINTERS:
        return _append_pointers(view, missing)

    def add(text: str, name: str, short: str) -> str:
        data = view.read_bytes(f"{name}.md")
        if data is None or index.find_lines(text, short):
            return text
        fields = frontmatter.parse_fields(decode(data))
        return _add_pointer(text, short, fields.kind or Kind.PROJECT, fields.title or short, fields.description)

    return _plan_indexes(view, missing, add)


def _append_pointers(view: StoreView, names: Iterable[str]) -> list[FileChange]:
    added: dict[str, list[str]] = {}
    known: dict[str, set[str]] = {}
    for name in names:
        path, short = index_path(name)
        if path not in known:
            known[path] = {line.key for line in index.parse_index(_read_index(view, path)[1])}
        data = view.read_bytes(f"{name}.md") if fold(short) not in known[path] else None
        if data is not None:
            fields = frontmatter.parse_fields(decode(data))
            added.setdefault(path, []).append(index.render_line(fields.title or short, short, fields.description))
            known[path].add(fold(short))
    indexes = ((path, lines, *_read_index(view, path)) for path, lines in added.items())
    return [
        change
        for path, lines, old, text in indexes
        for change in _plan_index(path, old, index.append_pointer(text, "\n".join(lines)))
    ]


def plan_dead_pointers(view: StoreView, names: Iterable[str]) -> list[FileChange]:
    """Return the changes that remove the index lines of those memories whose files are missing."""

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
    """Return the changes that replace an index line. Raises ConflictError if the line is no longer `was`."""
    check_text(line, "title")
    path, short = index_path(name)
    old, text = _read_index(view, path)
    if not any(entry.text.strip() == was.strip() for entry in index.find_lines(text, short)):
        raise ConflictError(f"the index line of {name} changed", hint="read the index again and repeat the change")
    if not index.find_lines(line, short):
        raise FormatError(f"this line does not point to {name}", field="line", hint="use - [Title](file.md) — hook")
    return _plan_index(path, old, index.replace_line(text, short, was, line.strip()))


def plan_undo(view: StoreView, change: Change, contents: Callable[[str], bytes]) -> list[FileChange]:
    """Return the changes that undo a change.

    An index is restored byte for byte if nothing else changed it, otherwise line by line. Raises ConflictError if a
    memory was changed after that change.
    """
    changes = []
    for file in change.files:
        current = view.read_bytes(file.path)
        if not is_index_path(file.path):
            digest = digest_of(current) if current is not None else None
            if digest != file.after:
                name = file.path.removesuffix(".md")
                what = "was deleted" if digest is None else "exists again" if file.after is None else "was changed"
                hint = f"`memdir history {name}` shows by whom; undo that first, or `memdir restore {name}`"
                message = f"cannot undo: {name} {what} since then"
                raise ConflictError(message, expected=file.after, found=digest, hint=hint)
            after = contents(file.before) if file.before else None
        elif file.splice is None:
            continue
        else:
            offset, removed, inserted = file.splice
            inverse = ChangedFile(file.path, file.after, file.before, (offset, inserted, removed))
            after = redo_index(inverse, current)
        if after != current:
            changes.append(FileChange(file.path, current, after))
    return changes


def plan_version(
    view: StoreView,
    name: str,
    changes: tuple[Change, ...],
    change: int | None,
    contents: Callable[[str], bytes],
    rules: WriteRules,
) -> list[FileChange]:
    """Return the changes that restore the version written by a change, or the previous one, with its index line."""
    check_name(name)
    path = f"{name}.md"
    current = view.read_bytes(path)
    data = contents(_find_version(changes, name, change, None if current is None else digest_of(current)))
    restored = [FileChange(path, current, data)] if current != data else []
    return restored if rules.renders_index else restored + plan_pointers(Overlay(view, {path: data}), [name])


def _find_version(changes: tuple[Change, ...], name: str, change: int | None, current: str | None) -> str:
    """Return the digest of the version written by a change, or of the previous version."""
    path = f"{name}.md"
    files = [(step.id, file) for step in changes for file in step.files if file.path == path]
    if change is not None:
        for number, file in files:
            if number <= change:
                if file.after is None:
                    raise NotFoundError(f"{name} did not exist after change {change}", name=name)
                return file.after
        raise NotFoundError(f"{name} has no older version", name=name, hint=f"`memdir history {name}` lists them")
    for _, file in files:
        for digest in (file.after, file.before):
            if digest is not None and digest != current:
                return digest
    raise NotFoundError(f"no other version of {name} is in the history", name=name)


def _merge_lines(text: str, removed: bytes, inserted: bytes) -> str:
    """Remove and insert lines in a text in which other lines may have changed since."""
    old, new = frontmatter.split_lines(decode(removed)), frontmatter.split_lines(decode(inserted))
    dropped = [line for line in old if line not in new]
    lines = [line for line in frontmatter.split_lines(text) if line not in dropped]
    text = "".join(lines)
    for line in new:
        if line in old or line in lines or not line.strip():
            continue
        parsed = index.parse_index(line)[0]
        if parsed.is_pointer and not index.find_lines(text, parsed.name):
            text = index.append_pointer(text, line.rstrip("\r\n"))
    return text


def redo_index(change: ChangedFile, current: bytes | None) -> bytes | None:
    digest = digest_of(current) if current is not None else None
    if digest == change.after or change.splice is None:
        return current
    if digest == change.before:
        after = index.apply_splice(current or b"", change.splice) if change.after is not None else None
        # If history is damaged, the index stays as it is, and `doctor` adds missing lines.
        return after if after is None or digest_of(after) == change.after else current
    return encode(_merge_lines(decode(current or b""), change.splice[1], change.splice[2]))


def resolve_dates(draft: Draft, now: datetime, old: str = "") -> tuple[Draft, "tuple[ReplacedDate, ...]"]:
    """Make the relative dates in a project draft absolute, based on `now`; return the draft and the replacements.

    Lines that are already in `old`, the previous file, are kept because their dates are relative to another day.
    """
    if draft.kind is not Kind.PROJECT or "\n" in draft.description:
        return draft, ()
    # Imported here: recall needs no dates, and most memories have another type.
    from memdir.language.dates import make_absolute

    known = {line.strip() for line in old.splitlines()} | {frontmatter.parse_fields(old).description}
    text, replaced = make_absolute(f"{draft.description}\n\n{draft.body}", now, known if old else ())
    description, _, body = text.partition("\n\n")
    return replace(draft, description=description, body=body), replaced


def resolve_text(text: str, now: datetime, old: str = "") -> str:
    """Make the relative dates in the file of a project memory absolute, as `resolve_dates` does."""
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
    """Return the draft with its type converted to a Kind. Raises FormatError if the draft is invalid."""
    frontmatter.check_title(draft.title)
    for field in ("title", "description", "body"):
        check_text(getattr(draft, field), field)
    draft = clean_fields(draft)
    check_fields(draft)
    if draft.kind not in list(Kind):
        raise FormatError(f"unknown type {draft.kind!r}", field="type", hint="use user, feedback, project or reference")
    draft = replace(draft, kind=Kind(draft.kind))
    _check_scope(draft.kind, rules.scope)
    if not draft.body.strip():
        raise FormatError("a memory needs a body", field="body", hint="pass the text to remember")
    return draft


def check_file(fields: FrontmatterFields, rules: WriteRules, before: FrontmatterFields = NO_FIELDS) -> None:
    """Raise FormatError if a file to be written lacks a type or description, or changes a field to an invalid value."""
    if fields.problem:
        hint = "add name, description and type (user, feedback, project or reference) between two --- lines"
        raise FormatError(f"this cannot be saved: {fields.problem}", field="frontmatter", hint=hint)
    if fields.kind is not None:
        _check_scope(fields.kind, rules.scope)
    if fields.title and fields.title != before.title:
        frontmatter.check_title(fields.title)
    check_fields(fields, before)


def check_expected(name: str, current: bytes | None, expect: str | None) -> None:
    """Raise ConflictError unless the current bytes have the digest the caller expects (compare and swap)."""
    digest = digest_of(current) if current is not None else None
    if current is not None and expect is None:
        hint = "read it first, then replace it or choose another name"
        raise ConflictError(f"{name} already exists", found=digest, hint=hint)
    if digest != expect:
        what = "has changed since you read it" if current is not None else "was deleted"
        raise ConflictError(f"{name} {what}", expected=expect, found=digest, hint="read it again and repeat the change")


def _check_scope(kind: Kind, scope: Scope) -> None:
    if scope is Scope.USER and kind not in (Kind.USER, Kind.FEEDBACK):
        hint = "save it without --scope user: it belongs to this project"
        raise FormatError(f"user memory accepts user and feedback memories, not {kind.value}", field="type", hint=hint)


def find_write_target(view: StoreView, draft: Draft) -> tuple[str, bytes | None]:
    """Return the name and bytes of the file with the same name or title as a draft, else a free name and None."""
    for wanted_name in number_names(draft.name if draft.name is not None else make_slug(draft.title)):
        if (name := find_alike(view, wanted_name)) is None:
            return wanted_name, None
        try:
            data = view.read_bytes(f"{name}.md")
        except (PathError, DiskError):
            if draft.name is not None:
                raise
            continue  # the caller did not ask for this name, so try the next one
        if data is None:
            raise PathError(name, "not a readable file")
        title = frontmatter.parse_fields(decode(data)).title
        if draft.name is not None or fold(title) == fold(draft.title):
            return name, data
    raise AssertionError("unreachable")


def find_free_name(view: StoreView, name: str) -> str:
    return next(free for free in number_names(name) if find_alike(view, free) is None)


def find_alike(view: StoreView, name: str) -> str | None:
    """Return the memory with this name, which may differ in case, or None."""
    *folders, leaf = check_name(name)
    files = view.list_files("/".join(folders), alike=f"{leaf}.md")
    same = [file for file in files if fold(file) == fold(f"{leaf}.md") and file.endswith(".md")]
    return "/".join([*folders, same[-1][:-3]]) if same else None


def number_names(name: str) -> Iterator[str]:
    """Yield a name, then the name with numbers appended. Raises ConflictError after a thousand."""
    yield name
    folder, slash, leaf = name.rpartition("/")
    yield from (f"{folder}{slash}{leaf[:90]}-{number}" for number in range(2, 1000))
    raise ConflictError("too many memories with this name", hint="pass another --name")


def _read_index(view: StoreView, path: str) -> tuple[bytes | None, str]:
    data = view.read_bytes(path)
    return data, _decode_index(data or b"")


def _find_index(view: StoreView, path: str) -> tuple[bytes | None, str] | None:
    """Return the bytes and text of an index, or None if it cannot be read.

    A memory is then saved without its index line, and `doctor` reports the index.
    """
    try:
        return _read_index(view, path)
    except (PathError, DiskError):
        return None


def _plan_index(path: str, listed: bytes | None, text: str) -> list[FileChange]:
    """Return the change to an index if its text differs. Raises FormatError if it would be too large to read."""
    if text == _decode_index(listed or b""):
        return []
    if len(data := encode(text)) > INDEX_FILE_BYTES:
        hint = "remove lines that are not index lines, or forget memories you no longer need"
        raise FormatError(f"{path} would be larger than {INDEX_FILE_BYTES:,} bytes", field="line", hint=hint)
    return [FileChange(path, listed, data)]


def render_over(text: str, draft: Draft, now: datetime) -> str:
    """Replace the fields and body of an existing file, keeping everything else."""
    before = frontmatter.parse_fields(text)
    changes: dict[str, FieldValue] = {"name": draft.title, "description": draft.description, "type": draft.kind.value}
    own = {row.key: row.render(value) for row, value in list_set(draft, before)}
    if before.dialect is None:
        return frontmatter.compose_file(changes | own, _clean_body(draft.body), Dialect.FLAT)
    changes |= reversed(own.items())  # each is inserted before the last one, which gives the order of a new file
    edited = frontmatter.replace_body(frontmatter.set_fields(text, changes), _clean_body(draft.body))
    if edited != text and before.modified:
        edited = frontmatter.set_fields(edited, {"modified": now.astimezone().isoformat(timespec="seconds")})
    return edited


def _encode_checked(text: str) -> bytes:
    data = encode(text)
    if len(data) > FILE_BYTES:
        raise FormatError(f"this memory has {len(data):,} bytes; the limit is {FILE_BYTES:,}", field="body")
    return data


def _read_existing(view: StoreView, name: str, *, is_written: bool = True) -> bytes:
    """Return the bytes of a memory. Unless `is_written`, its name may be invalid, as in a sync tool's conflict copy."""
    if is_written:
        check_name(name)
    else:
        check_path(f"{name}.md")
    data = view.read_bytes(f"{name}.md")
    if data is None:
        raise NotFoundError(f"no memory named {name}", name=name)
    return data


def _clean_body(body: str) -> str:
    return body.replace("\r\n", "\n").strip("\n") + "\n"


def find_dialect(view: StoreView, folder: str) -> Dialect:
    """Return the most common dialect among the folder's first memories."""
    files = view.list_files(folder, most=2 * _DIALECT_SAMPLE)
    leaves = (leaf for leaf in files if leaf.endswith(".md") and not is_index_path(leaf))
    heads = (frontmatter.take_head(_read_neighbour(view, f"{folder}/{leaf}" if folder else leaf)) for leaf in leaves)
    known = (dialect for head in heads if (dialect := _read_dialect(head)) is not None)
    sample = list(islice(known, _DIALECT_SAMPLE))
    return Dialect.NESTED if sample.count(Dialect.NESTED) * 2 > len(sample) else Dialect.FLAT


@lru_cache(maxsize=1_024)  # consecutive saves have the same neighbours
def _read_dialect(head: bytes) -> Dialect | None:
    return frontmatter.parse_fields(decode(head)).dialect


def _read_neighbour(view: StoreView, path: str) -> bytes:
    """Return the bytes of a file that the change does not touch, or b"" if it cannot be read."""
    try:
        return view.read_bytes(path) or b""
    except (PathError, DiskError):
        return b""


def _plan_pointer(view: StoreView, name: str, draft: Draft, before: FrontmatterFields | None) -> list[FileChange]:
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
    """Check changes to shared files and return all. Raises SecretError for new secrets, FormatError for user memories.

    Existing secrets do not block a change, so that an index that contains one can still be repaired.
    """
    for planned in changes:
        is_read = is_shared(planned.path, rules)
        if planned.after is None or not (is_read or rules.strict):
            continue
        name, text = planned.path.removesuffix(".md"), decode(planned.after)
        if is_read and not planned.is_index and frontmatter.parse_fields(text).kind is Kind.USER:
            message = f"{name} is a user memory, and shared directories cannot contain user memories"
            hint = "keep it private, or save the part the team needs as feedback or project"
            raise FormatError(message, field="type", hint=hint)
        if rules.strict and planned.is_index:
            _check_lines(text, decode(planned.before or b""))
        check_secrets(name, "", "its name", rules)
        check_secrets(text, decode(planned.before or b""), planned.path, rules)
    return changes


def _check_lines(text: str, before: str) -> None:
    """Raise FormatError if a new line of an index addresses an agent: it would be loaded without a memory's frame."""
    # Imported here: only text sent to a server is searched.
    from memdir.language.instructions import find_instruction

    known = set(before.splitlines())
    for line in text.splitlines():
        if line not in known and (why := find_instruction(line)):
            raise FormatError(f"an index line cannot be saved: {why}", field="line", hint="describe the memory instead")


def is_shared(path: str, rules: WriteRules) -> bool:
    """Return whether others will read this file, or the memory with this name."""
    return rules.shared or rules.scope is Scope.TEAM or is_team(path)


def is_team(path: str) -> bool:
    """Return whether a path or memory name is in the team folder."""
    # Case is folded because `Team/` is the same folder on case-insensitive file systems.
    folder, slash, _ = path.partition("/")
    return bool(slash and fold(folder) == TEAM_FOLDER)


def find_unfit(header: Header, rules: WriteRules) -> str:
    """Return why a shared index cannot list this memory, or ""."""
    if not is_shared(header.file, rules):
        return ""
    if header.kind is Kind.USER:
        return "it is about the user"
    try:
        check_secrets(f"{header.title} {header.description}", "", header.file, rules)
    except SecretError:
        return "its frontmatter contains a secret"
    except SettingsError:
        return "cannot scan for secrets"
    return ""


def check_secrets(text: str, before: str, place: str, rules: WriteRules, subject: str = "team memories") -> None:
    """Raise SecretError for a secret that the text did not contain before."""
    # Imported here: only shared files are scanned.
    from memdir.store.secrets import find_new_secrets, render_findings

    if findings := find_new_secrets(text, before, rules.find):
        lines = render_findings(findings, place=place)
        more = f" and {len(lines) - 3} more" if len(lines) > 3 else ""
        hint = "say where the secret is stored instead; docs/secrets.md shows how to allow a harmless match"
        message = f"{subject} cannot contain secrets: {', '.join(lines[:3])}{more}"
        raise SecretError(message, findings=lines, hint=hint)
