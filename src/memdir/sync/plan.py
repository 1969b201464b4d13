"""The inputs of a sync, and the plan of changes for either side; nothing is written here.

    SyncInputs      both sides of a part and their merge base (the point): the files when they were last in step
    plan_outgoing   plan the files of a new commit: local changes since the merge base, on top of the remote's tree
    plan_incoming   plan the local changes: files to import, to review and to refuse, and the next merge base

If only one side changed a file, that change is taken; if both did, they are merged. Files that may not be shared are
not sent and are listed in `withheld`. A refused file of the branch is left unchanged there, until a member writes a
file of that name. A local change that was not sent is never overwritten, but merged with the incoming file. Index lines
of others are not imported: local memories get index lines made from their titles and descriptions.

`.memdir-team.json` in the branch, {"review": true}, asks every member to review others' changes. Anyone with push
access can change it, so a member can also turn on review in their own settings.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from functools import cached_property
from urllib.parse import unquote

from memdir.errors import DiskError, FormatError, PathError
from memdir.files import check_name
from memdir.format import frontmatter, index
from memdir.format.frontmatter import decode, encode, parse_fields
from memdir.format.index import INDEX_FILE, merge_index, tidy_index
from memdir.frozen import dataclass, field, replace
from memdir.language.instructions import find_instruction
from memdir.limits import (
    DESCRIPTION_CHARS,
    FILE_BYTES,
    INDEX_FILE_BYTES,
    SYNC_BYTES,
    SYNC_ENTRIES,
    TEAM_BYTES,
    TEAM_ENTRIES,
    TITLE_CHARS,
)
from memdir.records import TEAM_FOLDER, Kind
from memdir.store.plan import Finder, is_team
from memdir.store.secrets import find_secrets, mask, render_findings
from memdir.sync import state
from memdir.sync.merge import merge_memory
from memdir.text import as_table, find_forbidden, fold, one_line, parse_json, shorten

_MODES = {
    "120000": "it is a symbolic link",
    "160000": "it is another repository",
    "040000": "it is a folder",
    "100755": "it is a program",
}
GONE = "gone"  # in place of an object, for a deleted file
_MANY = 3  # if at least this many files are all missing, they do not count as deleted
# Returns whether the user has approved this version of a file, by path and object.
Approved = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class AdmitVerdict:
    """The reason to refuse or to review an incoming file. Both are empty if it is accepted."""

    refused: str = ""
    held: str = ""


@dataclass(frozen=True, slots=True)
class SyncClash:
    """A file that both sides changed differently: the conflicts (`told`), both texts ("" if deleted), the result."""

    path: str
    told: tuple[str, ...]
    ours: str
    theirs: str
    merged: str


@dataclass(frozen=True, slots=True)
class OutgoingChanges:
    """The changes to send. `files` maps paths to new content, or None to delete; `moved` are local files to rename."""

    files: Mapping[str, bytes | None] = field(default_factory=dict)
    withheld: Mapping[str, str] = field(default_factory=dict)
    clashes: tuple[SyncClash, ...] = ()
    moved: Mapping[str, str] = field(default_factory=dict)


class ArrivedChange(StrEnum):
    ADDED = "added"
    CHANGED = "changed"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class WaitingChange:
    """A change that needs review, with its path, object (`gone` for a deletion), reason and text."""

    path: str
    sha: str
    why: str
    text: str | None


@dataclass(frozen=True, slots=True)
class IncomingChanges:
    """The changes to import. `files` maps paths to content, or None to delete; `received` has the changes by others."""

    files: Mapping[str, bytes | None]
    point: state.SyncPoint
    received: Mapping[str, ArrivedChange] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)
    waiting: tuple[WaitingChange, ...] = ()


class SyncInputs:
    """The local and remote state of a part. `common` replaces the merge base if the branch's history was rewritten.
    `seen` maps local files to objects that the branch has had since the merge base; later versions of them do not
    conflict."""

    def __init__(
        self,
        part: state.SyncPart,
        local: state.LocalTree,
        ours: Mapping[str, str],
        point: state.SyncPoint,
        theirs: Mapping[str, state.TreeEntry],
        *,
        common: Mapping[str, state.TreeEntry] | None = None,
    ) -> None:
        self.part, self.local, self.point, self.theirs, self.common = part, local, point, theirs, common
        self.ours = ours  # path -> object of the files here
        self.blobs: dict[str, bytes] = {}
        self.seen: Mapping[str, str] = {}
        self.find: Finder = part.store.rules.find or find_secrets
        self.has_index = not part.store.rules.skip_index
        self._verdicts: dict[tuple[str, str], AdmitVerdict] = {}

    @cached_property
    def _twins(self) -> Mapping[str, str]:
        return find_twins(self.theirs, self.local.files)

    def list_known(self) -> list[str]:
        """Return the files in the branch that are also in the merge base."""
        return [path for path in self.theirs if self.point.find(path) is not None]

    def find_base(self, path: str) -> str | None:
        """Return the object ID of a file in the merge base, or None if it is missing or unknown."""
        if path in self.seen:
            return self.seen[path]
        if self.common is None or self.point.find(path) is None:
            return self.point.find(path)
        entry = self.common.get(path)
        return entry.sha if entry else None

    def read(self, sha: str | None) -> str | None:
        """Return the text of an object, or None if it is None or missing."""
        data = None if sha is None else self.blobs.get(sha)
        return None if data is None else decode(data)

    def judge(self, path: str, entry: state.TreeEntry) -> AdmitVerdict:
        if (path, entry.sha) not in self._verdicts:
            self._verdicts[path, entry.sha] = self._judge(path, entry)
        return self._verdicts[path, entry.sha]

    def judge_own(self, path: str, data: bytes) -> str:
        """Return why a local file is not sent, or ""."""
        return self.judge_place(path, state.PLAIN_MODE, len(data)) or self._judge_text(path, data).refused

    def judge_place(self, path: str, mode: str, size: int) -> str:
        return judge_place(path, mode, size, folder=self.part.folder)

    def _judge_text(self, path: str, data: bytes) -> AdmitVerdict:
        return judge_text(path, data, self.find, is_shared=self.part.is_shared)

    def show(self, path: str) -> str:
        """Return a path with its secrets masked."""
        return mask(path, self.find(path))

    def _judge(self, path: str, entry: state.TreeEntry) -> AdmitVerdict:
        why = "" if entry.is_text else "its name is not UTF-8"
        why = why or self.judge_place(path, entry.mode, entry.size) or self.local.blocked.get(path, "")
        if not why and path in self._twins:
            why = f"its name is a case variant of {self._twins[path]}"
        if not why and entry.sha not in self.blobs:
            why = "it could not be read"
        limit = 2 * (
            TEAM_ENTRIES if self.part.is_shared else SYNC_ENTRIES
        )  # a line for each file, and headings; every line is checked
        if not why and path == INDEX_FILE and self.blobs[entry.sha].count(b"\n") > limit:
            why = f"it has more than {limit:,} lines"
        if why or path == INDEX_FILE:
            return AdmitVerdict(why)
        return self._judge_text(path, self.blobs[entry.sha])


def asks_review(branch: state.RemoteTree, inputs: SyncInputs) -> bool:
    """Return whether the team requires its members to review changes by others."""
    return as_table(parse_json(inputs.blobs.get(branch.mark, b"null"))).get("review") is True


def make_inputs(
    remote: state.Remote,
    part: state.SyncPart,
    local: state.LocalTree,
    point: state.SyncPoint,
    branch: state.RemoteTree,
    common: Mapping[str, state.TreeEntry] | None,
) -> SyncInputs:
    """Collect the inputs of planning; raises FormatError if the incoming files exceed the limits."""
    ours, theirs = (
        {path: remote.hash(data) for path, data in local.files.items()},
        state.cut_tree(branch.tree, part.prefix),
    )
    inputs = SyncInputs(
        part, local, ours, point, theirs, common=None if common is None else state.cut_tree(common, part.prefix)
    )
    inputs.local = replace(local, blocked={**local.blocked, **_find_blocked(inputs)})
    needed, limit = _find_needed(inputs), TEAM_BYTES if part.is_shared else SYNC_BYTES
    if sum(needed.values()) > limit:
        message = f"more than {limit // 1_048_576} MiB would be imported from the remote; no files were imported"
        raise FormatError(message, hint="`memdir team log` shows who wrote last")
    inputs.blobs |= remote.read([*needed, branch.mark])
    inputs.seen = _find_seen(remote, inputs, branch)
    return inputs


def _find_needed(inputs: SyncInputs) -> dict[str, int]:
    ours, theirs, common, point = inputs.ours, inputs.theirs, inputs.common, inputs.point
    needed: dict[str, int] = {}
    for path, entry in theirs.items():
        is_other = path == INDEX_FILE or (entry.sha != ours.get(path) and entry.is_text)
        if is_other and not inputs.judge_place(path, entry.mode, entry.size):
            needed[entry.sha] = entry.size
        if path not in ours and (base := point.find(path)) is not None:
            needed.setdefault(base, 0)
    for path, sha in ours.items():
        base = point.find(path)
        if base is not None and base != sha:
            needed.setdefault(base, 0)
        if common is not None and path in common:
            needed.setdefault(common[path].sha, 0)
    return needed


def restore_if_all_lost(local: state.LocalTree, point: state.SyncPoint) -> state.SyncPoint:
    """Return the merge base, but without files if all of them and the index are missing here, so that a folder deleted
    by hand or not mounted does not delete the memories of all members."""
    if local.files or local.index is not None or len(point.files) < _MANY:
        return point
    return replace(point, files={}, index=None)


def _find_seen(remote: state.Remote, inputs: SyncInputs, branch: state.RemoteTree) -> dict[str, str]:
    """Return path and object of local files that equal an earlier version in the remote since the merge base. For a new
    team member, only files still in the branch count, because all others are sent. Between a user's own machines, a
    file that the remote has deleted is an old copy, not a new memory."""
    point, prefix = inputs.point, inputs.part.prefix
    if inputs.common is not None or branch.head in ("", point.head):
        return {}
    there = {path: entry.sha for path, entry in inputs.theirs.items()}
    is_known = bool(point.head) or not inputs.part.is_shared
    ours = {path: sha for path, sha in inputs.ours.items() if is_known or path in there}
    changed = {path: sha for path, sha in ours.items() if sha not in (point.find(path), there.get(path))}
    if not changed:
        return {}
    versions = state.cut_tree(
        remote.find_versions(branch.head, point.head, [prefix + path for path in changed]), prefix
    )
    return {path: sha for path, sha in changed.items() if sha in versions.get(path, ())}


def _find_blocked(inputs: SyncInputs) -> dict[str, str]:
    """Return the remote's files that cannot be read here, with the reasons. They do not count as deleted."""
    blocked = {}
    for path, entry in inputs.theirs.items():
        if path not in inputs.local.files and not inputs.judge_place(path, entry.mode, entry.size):
            try:
                inputs.part.store.read_bytes(inputs.part.locate(path))
            except (PathError, DiskError) as error:
                blocked[path] = f"what is in its place here cannot be read ({one_line(str(error))})"
    return blocked


def plan_outgoing(inputs: SyncInputs) -> OutgoingChanges:
    plan = _OutgoingPlan(inputs)
    gone = {path for path in inputs.list_known() if path not in inputs.local.blocked}
    for path in sorted({*inputs.ours, *gone} - {INDEX_FILE}):
        plan.add(path)
    if inputs.has_index:
        plan.add_index()
    return OutgoingChanges(plan.files, plan.withheld, tuple(plan.clashes), plan.moved)


class _OutgoingPlan:
    def __init__(self, inputs: SyncInputs) -> None:
        self.inputs = inputs
        self.files: dict[str, bytes | None] = {}
        self.withheld: dict[str, str] = {}
        self.clashes: list[SyncClash] = []
        self.moved: dict[str, str] = {}
        self._revived: list[str] = []  # memories that one side deleted and the other changed
        self._spellings = {fold(path): path for path in sorted(inputs.theirs, reverse=True)}

    def add(self, path: str) -> None:
        """Plan the change of a file that exists or existed here."""
        inputs = self.inputs
        mine, base, entry = inputs.ours.get(path), inputs.find_base(path), inputs.theirs.get(path)
        if mine == base or mine == (entry.sha if entry else None):
            return
        data = inputs.local.files.get(path)
        if data is not None and (why := inputs.judge_own(path, data)):
            self.withheld[path] = why
            return
        target = path
        if entry is None and base is None:
            # The remote has this name in another case: it is the same memory, and keeps the remote's spelling.
            target = self._spellings.get(fold(path), path)
            entry = inputs.theirs.get(target)
            if target in inputs.ours and target != path:
                self.withheld[path] = f"its name is a case variant of {target}"
                return
        if entry is not None and entry.sha != base:
            self._merge(path, target, data)
        else:
            self.files[target] = data
            if entry is None and base is not None and data is not None:
                self._revived.append(path.removesuffix(".md"))
                reasons = ("the others took it away, and it was changed here: the change stays",)
                ours = data.decode("utf-8", "replace")
                self.clashes.append(SyncClash(path, reasons, ours, "", ours))

    def _merge(self, path: str, target: str, data: bytes | None) -> None:
        inputs, entry = self.inputs, self.inputs.theirs[target]
        if inputs.judge(target, entry).refused:
            if data is not None and target == path:
                self.files[path] = data
            elif data is not None:
                self.withheld[path] = f"{target}, another spelling of it, is refused here"
            return
        theirs = inputs.read(entry.sha) or ""
        ours = None if data is None else data.decode("utf-8", "replace")
        merge = merge_memory(inputs.read(inputs.find_base(path)), ours, theirs)
        merged = None if merge.text is None else merge.text.encode("utf-8", "replace")
        if merged is not None and inputs.judge_own(target, merged):
            # The merged text is too long or invalid, so each side keeps its own file.
            self.files[self._find_free(path)] = data
            merged = inputs.blobs.get(entry.sha)
        if target != path:
            self.moved[path] = target
        if data is None:
            self._revived.append(path.removesuffix(".md"))
        if merge.clashes:
            text = (merged or b"").decode("utf-8", "replace")
            self.clashes.append(SyncClash(target, merge.clashes, ours or "", theirs, text))
        if merged is not None and merged != inputs.blobs.get(entry.sha):
            self.files[target] = merged

    def _find_free(self, path: str) -> str:
        used = {fold(path) for path in (*self.inputs.theirs, *self.inputs.ours, *self.files)}
        stem = path.removesuffix(".md")
        stem = stem[:-6] if len(stem) > 90 else stem
        return next(free for n in range(2, 10_000) if fold(free := f"{stem}-{n}.md") not in used)

    def add_index(self) -> None:
        """Merge the index line by line, keeping only lines for files that will exist."""
        inputs = self.inputs
        ours, base = inputs.local.index or "", inputs.point.index or ""
        if ours == base and not self.files:
            return
        entry = inputs.theirs.get(INDEX_FILE)
        is_readable = entry is not None and not inputs.judge(INDEX_FILE, entry).refused
        there = inputs.read(entry.sha) if entry is not None and is_readable else None
        theirs = base if there is None else there
        secrets, forbidden = render_findings(inputs.find(ours)), find_forbidden(ours, lines=True)
        if forbidden or secrets:
            self.withheld[INDEX_FILE] = f"it holds {forbidden or f'a secret: {secrets[0]}'}"
            ours = base
        merged = merge_index(base, ours, theirs) if ours != base else theirs
        paths = {*inputs.theirs, *self.files}
        names = [path.removesuffix(".md") for path in paths if self.files.get(path, b"") is not None]
        tidied = tidy_index(merged, names, theirs, revived=self._revived, known=(base, ours, theirs))
        tidied = self._renew_lines(tidied)
        if why := judge_place(INDEX_FILE, state.PLAIN_MODE, len(data := encode(tidied))):
            self.withheld[INDEX_FILE] = why
        elif tidied != (there or ""):
            self.files[INDEX_FILE] = data

    def _renew_lines(self, text: str) -> str:
        """Replace lines that describe one side of a merge with a line for the merged memory."""
        inputs = self.inputs
        for path, data in self.files.items():
            name, entry = path.removesuffix(".md"), inputs.theirs.get(path)
            there = (inputs.read(inputs.find_base(path)), inputs.read(entry.sha if entry else None))
            for old in (*(None if text is None else encode(text) for text in there), inputs.local.files.get(path)):
                if data is not None and old not in (None, data):
                    text = index.replace_line(text, name, _render_line(name, old), _render_line(name, data))
        return text


def plan_incoming(
    inputs: SyncInputs,
    branch: Mapping[str, state.TreeEntry],
    sent: OutgoingChanges | None,
    *,
    head: str,
    review: bool,
    approved: Approved,
) -> IncomingChanges:
    """Plan the local changes that bring the files in line with the branch. `branch` is its tree after our changes."""
    plan = _IncomingPlan(inputs, branch, sent, review, approved)
    for path in sorted({*branch, *inputs.ours, *inputs.list_known()} - {INDEX_FILE}):
        plan.add(path)
    text = plan.add_index() if inputs.has_index else inputs.point.index
    point = state.SyncPoint(head, plan.point, text)
    return IncomingChanges(plan.files, point, plan.received, plan.refused, tuple(plan.waiting))


class _IncomingPlan:
    def __init__(
        self,
        inputs: SyncInputs,
        branch: Mapping[str, state.TreeEntry],
        sent: OutgoingChanges | None,
        review: bool,
        approved: Approved,
    ) -> None:
        self.inputs, self.branch, self.sent, self.review, self.approved = inputs, branch, sent, review, approved
        self.files: dict[str, bytes | None] = {}
        self.point: dict[str, str] = {}
        self.received: dict[str, ArrivedChange] = {}
        self.refused: dict[str, str] = {}
        self.waiting: list[WaitingChange] = []

    def add(self, path: str) -> None:
        entry, mine = self.branch.get(path), self.inputs.ours.get(path)
        if self.sent is not None and path in self.sent.moved:
            self.files[path] = None
        elif entry is None:
            self._add_absent(path, mine)
        elif entry.sha == mine:
            self.point[state.hash_path(path)] = entry.sha
        else:
            self._add_other(path, entry)

    def _add_absent(self, path: str, mine: str | None) -> None:
        base = self.inputs.find_base(path)
        if mine is None or base is None or self._is_unsent(path):
            return
        if self.review and not self.approved(path, GONE + base):
            self.waiting.append(WaitingChange(path, GONE + base, "deleted by a teammate", None))
            self._keep_point(path)
        else:
            self._write(path, None)

    def _add_other(self, path: str, entry: state.TreeEntry) -> None:
        verdict = self.inputs.judge(path, entry)
        if verdict.refused:
            self.refused[self.inputs.show(path)] = verdict.refused
            self._keep_point(path)
            return
        why = verdict.held or ("this team reviews changes by others" if self.review else "")
        is_known = entry.sha == self.inputs.point.find(path)  # imported before, and changed here since
        if why and not is_known and not self.approved(path, entry.sha):
            self.waiting.append(WaitingChange(path, entry.sha, why, self.inputs.read(entry.sha)))
            self._keep_point(path)
            return
        data: bytes | None = self.inputs.blobs[entry.sha]
        if self._is_unsent(path):
            ours = self.inputs.local.files.get(path)
            text = None if ours is None else ours.decode("utf-8", "surrogateescape")
            merged = merge_memory(self.inputs.read(self.inputs.find_base(path)), text, self.inputs.read(entry.sha)).text
            is_shared = self.inputs.part.is_shared
            if merged is not None and is_shared and parse_fields(merged).kind is Kind.USER:
                # It was made a user memory here, which a change to a shared directory may not write.
                self.refused[path] = "here it is about the user: demote it, and what others wrote comes in"
                self._keep_point(path)
                return
            data = None if merged is None else encode(merged)
        self._write(path, data)
        self.point[state.hash_path(path)] = entry.sha

    def _is_unsent(self, path: str) -> bool:
        """Return whether a local change to a file was not sent in this sync."""
        is_changed = self.inputs.ours.get(path) != self.inputs.find_base(path)
        return is_changed and (self.sent is None or path in self.sent.withheld)

    def _keep_point(self, path: str) -> None:
        base = self.inputs.seen.get(path) or self.inputs.point.find(path)
        if base is not None:
            self.point[state.hash_path(path)] = base

    def _write(self, path: str, data: bytes | None) -> None:
        before = self.inputs.local.files.get(path)
        if before != data:
            self.files[path] = data
            written = ArrivedChange.ADDED if before is None else ArrivedChange.CHANGED
            self.received[path] = ArrivedChange.DELETED if data is None else written

    def add_index(self) -> str | None:
        """Merge the local index and return the branch's index that it is based on."""
        inputs, entry = self.inputs, self.branch.get(INDEX_FILE)
        if entry is not None and (why := inputs.judge(INDEX_FILE, entry).refused):
            self.refused[INDEX_FILE] = why
        theirs = inputs.read(entry.sha) if entry is not None and INDEX_FILE not in self.refused else None
        ours, base = inputs.local.index or "", inputs.point.index or ""
        there = {path for path in inputs.ours if self.files.get(path, b"") is not None}
        there |= {path for path, data in self.files.items() if data is not None}
        names = [*(path.removesuffix(".md") for path in there), *self._find_unsynced(ours)]
        # If the local index is unchanged, lines that were moved in the branch keep their new position.
        # If the branch has no readable index, the merge base is used instead.
        updated = ours if ours == base and theirs is not None else self._update_lines(ours)
        branch_index = base if theirs is None else self._filter_index(theirs, updated, names)
        merged = merge_index(base, updated, branch_index)
        revived = [path.removesuffix(".md") for path, how in self.received.items() if how is ArrivedChange.ADDED]
        revived = [name for name in revived if inputs.find_base(f"{name}.md") is not None]
        new_index = tidy_index(merged, names, branch_index, revived=revived, known=(branch_index, base))
        why = judge_place(INDEX_FILE, state.PLAIN_MODE, len(encode(new_index)))
        if why and new_index != ours:
            self.refused[INDEX_FILE] = f"with ours {why}"
        if new_index != ours and (why or list(inputs.find(new_index))):
            # Lines that are harmless one by one can form a secret together: then keep only the local lines.
            new_index, branch_index = tidy_index(ours, names, ours), base
        if new_index != ours:
            self.files[INDEX_FILE] = encode(new_index)
        return branch_index

    def _find_unsynced(self, ours: str) -> list[str]:
        """Return the names in the local index of files that neither side has, because they are in another part or an
        agent is about to write them. A team's index lists only the team's files."""
        inputs = self.inputs
        if inputs.part.is_shared:
            return []
        keys = (line.key for line in index.parse_index(ours) if line.is_pointer)
        known = {fold(path) for path in (*inputs.theirs, *inputs.ours)}
        new = [key for key in keys if f"{key}.md" not in known and inputs.point.find(f"{key}.md") is None]
        return [*inputs.local.others, *new]

    def _filter_index(self, text: str, ours: str, names: list[str]) -> str:
        """Return the branch's index lines that we already have, and generated lines for other memories. Index lines are
        not reviewed, so a team's own lines, headings and prose are not imported."""
        mine = {line.text.rstrip("\r\n") for line in index.parse_index(ours)}
        alive = {fold(name): name for name in names}
        is_shared = self.inputs.part.is_shared
        lines: list[str] = []
        for line in index.parse_index(text):
            is_dead = line.is_pointer and line.key not in alive  # its memory is not here yet
            if line.text.rstrip("\r\n") in mine or not (is_shared or is_dead):
                lines.append(line.text)
            elif not line.text.strip():
                lines += [line.text] if lines and lines[-1].strip() else []
            elif is_shared and (why := judge_line(line.text, self.inputs.find)):
                self.refused[f"{INDEX_FILE} line {line.number + 1}"] = why
            elif line.is_pointer and not is_dead:
                lines.append(self._make_line(alive[line.key]))
        return "".join(lines)

    def _update_lines(self, ours: str) -> str:
        """Return the local index with updated lines for memories that others changed."""
        for path, how in self.received.items():
            if how is ArrivedChange.CHANGED:
                name, before = path.removesuffix(".md"), self.inputs.local.files[path]
                ours = index.replace_line(ours, name, _render_line(name, before), self._make_line(name).rstrip("\n"))
        return ours

    def _make_line(self, name: str) -> str:
        data = self.files.get(f"{name}.md") or self.inputs.local.files.get(f"{name}.md") or b""
        return _render_line(name, data) + "\n"


def _render_line(name: str, data: bytes) -> str:
    fields = parse_fields(data.decode("utf-8", "replace"))
    return index.render_line(fields.title or name, name, fields.description)


# --- whether a file may be imported or sent ---------------------------------------------------------------------------
# A refused file stays unchanged on both sides. Text that addresses the agent needs review, even from a teammate, whose
# machine may be compromised. Files are checked one by one, so that a refused one does not stop the others.


def judge_place(path: str, mode: str, size: int, *, folder: str = TEAM_FOLDER) -> str:
    """Return why this file cannot be a memory in `folder`, or "". Checks name, mode and size; the index is separate."""
    if mode != state.PLAIN_MODE:
        return _MODES.get(mode, "not a regular file")
    if not path.endswith(".md"):
        return "not a memory: the name does not end in .md"
    if size > (limit := INDEX_FILE_BYTES if path == INDEX_FILE else FILE_BYTES):
        return f"it is larger than {limit:,} bytes"
    if path == INDEX_FILE:
        return ""
    try:
        check_name(f"{folder}/{path}".removeprefix("/").removesuffix(".md"))
    except PathError as error:
        return error.reason
    return "" if folder or not is_team(path) else "it is in the team's folder"


def judge_text(path: str, data: bytes, find: Finder, *, is_shared: bool = True) -> AdmitVerdict:
    """Decide from its content whether a memory file can be imported. Files from the user's own machines may be user
    memories, may lack frontmatter, and are not searched for instructions. Files with secrets are never sent."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError:
        return AdmitVerdict("it is not UTF-8")
    forbidden = find_forbidden(text, lines=True)
    if why := f"it holds {forbidden}" if forbidden else _find_problem(path, text) if is_shared else "":
        return AdmitVerdict(why)
    if secrets := (*render_findings(find(text)), *render_findings(find(path.removesuffix(".md")), place="its name")):
        return AdmitVerdict(f"it contains a secret: {', '.join(secrets[:3])}")
    return AdmitVerdict(held=find_instruction(text) if is_shared else "")


def judge_line(line: str, find: Finder) -> str:
    """Return why a line of another member's index is omitted, or ""."""
    if forbidden := find_forbidden(line, lines=True):
        return f"it contains {forbidden}"
    if _leads_outside(line):
        return "it links to a file outside the team folder"
    if secrets := render_findings(find(line)):
        return f"it contains a secret: {secrets[0]}"
    return find_instruction(line)


def find_twins(paths: Iterable[str], ours: Iterable[str]) -> dict[str, str]:
    """Map paths that are case variants of an existing path to that path; ours first, then alphabetically."""
    mine = set(ours)
    first_of: dict[str, str] = {}
    ordered = sorted(paths, key=lambda path: (path not in mine, path))
    firsts = {path: first_of.setdefault(fold(path), path) for path in ordered}
    return {path: first for path, first in firsts.items() if first != path}


def _find_problem(path: str, text: str) -> str:
    fields = frontmatter.parse_fields(text)
    if fields.problem:
        return shorten(one_line(fields.problem), 200)
    if fields.kind is None:
        return "its type is missing or unknown"
    if fields.kind is Kind.USER:
        return "it is a `user` memory, which is never shared"
    if not fields.description or len(fields.description) > DESCRIPTION_CHARS or len(fields.title) > TITLE_CHARS:
        return "its title or description is missing or too long"
    if find_forbidden(fields.title + fields.description, lines=False):
        return "its title or description contains a control character"
    return "" if path != INDEX_FILE else "it is the index"


def _leads_outside(line: str) -> bool:
    """Return whether a list item links to a file that is not below the index."""
    for part in line.split("](")[1:]:
        target = unquote(unquote(part.split(")", 1)[0].strip().strip("<>").split("#", 1)[0]))
        folded = fold(target).replace("\\", "/")
        if ".." in folded.split("/") or folded.startswith(("/", "~", "file:")) or folded[1:3] == ":/":
            return True
        is_file = folded.endswith(".md") and "://" not in folded
        if is_file and not index.parse_index(f"- [x]({target})")[0].is_pointer:
            return True
    return False
