"""What a member of a team keeps: how they take part, and the point of the last sync.

`<state>/team.json` says where the team's memory is. Without an address of its own it is a branch of the project's own
remote, looked up anew at each sync. An address may be a path, `file://`, ssh or https; nothing that would start another
program, and no password in it: git has helpers for those.

`<state>/team-point.json` says what this member's files were when they were last in step with the branch; it moves only
after the files were written. Names are kept as digests, so it says nothing of a memory that was purged. A pending point
becomes the true one if the change with its mark has happened: the sync was killed.
"""

import os
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from urllib.parse import unquote, urlsplit

from memdir.errors import SettingsError
from memdir.frozen import dataclass, field
from memdir.project.git import find_address
from memdir.project.paths import MEMBERSHIP
from memdir.store.state import POINT, read_table, write_table
from memdir.text import one_line, printable

BRANCH = "memdir/team"
_SCHEMES = ("file", "ssh", "https")
_SCP = re.compile(r"(?:[\w.+-]+@)?\[?[A-Za-z0-9][\w.:-]*\]?:(?!//)[^\s:][^\n]*")
_BRANCH = re.compile(r"(?!.*(?:\.\.|//|@\{|\.lock(?:/|\Z)|/\.|/\Z|\.\Z))[\w][\w./+-]{0,200}")


@dataclass(frozen=True, slots=True)
class Membership:
    """`remote` empty: the project's own. `review`: what others write needs this member's approval."""

    remote: str = ""
    branch: str = BRANCH
    read_only: bool = False
    review: bool = False


def read_membership(state: Path) -> Membership | None:
    """How this member takes part; None if they are in no team, or the record is damaged."""
    table = read_table(state, MEMBERSHIP)
    remote, branch = table.get("remote"), table.get("branch")
    if not isinstance(remote, str) or not isinstance(branch, str):
        return None
    return Membership(remote, branch, table.get("read_only") is True, table.get("review") is True)


def write_membership(state: Path, member: Membership) -> None:
    fields = {"remote": member.remote, "branch": member.branch}
    write_table(state, MEMBERSHIP, {**fields, "read_only": member.read_only, "review": member.review})


def resolve_remote(member: Membership, root: Path) -> str:
    """The address of the remote; raises SettingsError if there is none that may be used."""
    if member.remote:
        return check_remote(member.remote, root)
    found = find_address(root)
    if not found:
        hint = "name one: `memdir team init --remote URL`"
        raise SettingsError("this project has no git remote", key="remote", hint=hint)
    # Without a password in the address, which may not be kept or shown: git's helpers have to know it.
    found = re.sub(r"\A(https://)[^/@]*@", r"\1", found)
    return check_remote(re.sub(r"\A(ssh://[^/@:]*):[^/@]*@", r"\1@", found), root)


def check_remote(address: str, root: Path) -> str:
    """An address that git may be given, a path made whole; raises SettingsError."""
    shown = one_line(address)
    if not address.strip() or printable(address) != address or address.startswith("-") or "\n" in address:
        raise _refuse(shown, "it is no address")
    try:
        parts = urlsplit(address)
    except ValueError:
        raise _refuse(shown, "it is no address") from None
    scheme = parts.scheme.lower() if "://" in address else ""
    if "::" in address.split("/", 1)[0] or (scheme and scheme not in _SCHEMES):
        raise _refuse(shown.split(":", 1)[0] + ":…", "only paths, file://, ssh and https are used")
    if scheme in ("ssh", "https"):
        if parts.password is not None or (scheme == "https" and parts.username):
            hint = "leave it out; git's credential helpers keep passwords"
            raise SettingsError("the remote's address holds a name or password", key="remote", hint=hint)
        if not parts.hostname or unquote(parts.hostname).startswith("-"):
            raise _refuse(shown, "it names no host")
        return address
    if scheme == "file" or (_SCP.fullmatch(address) and not os.path.exists(address)):
        return address
    return str((root / os.path.expanduser(address)).resolve())


def check_branch(branch: str) -> str:
    if not _BRANCH.fullmatch(branch) or branch.startswith("refs/") or branch == "HEAD":
        raise SettingsError(f"{one_line(branch)!r} is no name of a branch", key="branch", hint=f"for example {BRANCH}")
    return branch


def _refuse(shown: str, why: str) -> SettingsError:
    hint = "a path, file:///…, ssh://…, git@host:path or https://…"
    return SettingsError(f"the remote {shown!r} is refused: {why}", key="remote", hint=hint)


@dataclass(frozen=True, slots=True)
class SyncPoint:
    """`head` is the commit, `files` digest of a path -> object, `index` the index as it was, None if there was none."""

    head: str = ""
    files: Mapping[str, str] = field(default_factory=dict)
    index: str | None = None
    mark: str = ""

    def find(self, path: str) -> str | None:
        """The object a file was."""
        return self.files.get(hash_path(path))


def hash_path(path: str) -> str:
    return sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:32]


def read_point(state: Path) -> tuple[SyncPoint, SyncPoint | None]:
    """The point, and the pending one of a sync that has not ended."""
    table = read_table(state, POINT)
    pending = table.get("pending")
    return _parse(table), _parse(pending) if isinstance(pending, dict) else None


def write_point(state: Path, point: SyncPoint, pending: SyncPoint | None = None) -> None:
    more = {"pending": _render(pending)} if pending is not None else {}
    write_table(state, POINT, {**_render(point), **more})


def _parse(table: Mapping[str, object]) -> SyncPoint:
    files, head, index, mark = (table.get(key) for key in ("files", "head", "index", "mark"))
    rows = files.items() if isinstance(files, dict) else ()
    return SyncPoint(
        head if isinstance(head, str) else "",
        {key: value for key, value in rows if isinstance(value, str)},
        index if isinstance(index, str) else None,
        mark if isinstance(mark, str) else "",
    )


def _render(point: SyncPoint) -> dict[str, object]:
    return {"head": point.head, "files": dict(point.files), "index": point.index, "mark": point.mark}
