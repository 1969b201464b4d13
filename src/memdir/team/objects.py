"""What lies in memdir's copy of a team's branch: trees, files and commits, read and written through git's plumbing.

A tree is read as a list of names and never laid out on the disk. A new commit is another one with some files put in
or taken out: everything else in it, whatever it is, stays as it was to the byte.

It decides nothing about what it reads; `arriving` does.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from memdir.authors import Author, make_author
from memdir.errors import FormatError
from memdir.frozen import dataclass
from memdir.limits import FILE_BYTES, TEAM_ENTRIES, TEAM_LOG
from memdir.team.git import Copy, GitError, make_error

_LISTING_BYTES = 16_777_216  # of the names in one tree
_SHA = re.compile(r"[0-9a-f]{40}")
_CHANGE = re.compile(rb":\d{6} \d{6} ([0-9a-f]{40}) ([0-9a-f]{40}) [A-Z]\d*\Z")
_NEXT = "refs/memdir/next"
_KEPT = "refs/memdir/kept"
_RECORD = "%H%x00%an%x00%ae%x00%at%x00"


@dataclass(frozen=True, slots=True)
class Entry:
    """One name in a tree: how git files it, its object, its size. A name that is no UTF-8 is shown with escapes."""

    mode: str
    sha: str
    size: int
    is_text: bool = True  # whether the name is UTF-8


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit as it says of itself, and the names it changed: path -> added, changed or deleted."""

    sha: str
    author: Author
    changes: Mapping[str, str]


def open_copy(copy: Copy) -> Copy:
    """Make the repository if there is none, and take away what a killed git left locked in it."""
    if not (copy.path / "HEAD").is_file():
        copy.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        copy.ask("init", "--quiet", "--bare", "--template=", str(copy.path))
    for lock in [*copy.path.glob("*.lock"), *copy.path.glob("refs/**/*.lock")]:
        lock.unlink(missing_ok=True)
    return copy


def hash_blob(data: bytes) -> str:
    """The name git gives to this content."""
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def read_tree(copy: Copy, commit: str) -> dict[str, Entry]:
    """Every name in a commit's tree, folders left out; raises FormatError if there are too many."""
    ran = copy.run("ls-tree", "-r", "-t", "-z", "-l", "--full-tree", commit, limit=_LISTING_BYTES)
    rows = ran.out.split(b"\0")
    if len(rows) > TEAM_ENTRIES or (ran.code != 0 and len(ran.out) > _LISTING_BYTES // 2):
        raise FormatError(
            f"the team's branch holds more than {TEAM_ENTRIES:,} entries: nothing of it was taken",
            hint="`memdir team log` shows who wrote last",
        )
    if ran.code != 0:
        raise make_error("ls-tree", ran)
    found: dict[str, Entry] = {}
    for row in rows:
        facts, tab, name = row.partition(b"\t")
        if tab:
            mode, kind, sha, size = facts.decode("ascii", "replace").split()
            if kind != "tree":
                path, is_text = _read_name(name)
                found[path] = Entry(mode, sha, int(size) if size.isdigit() else 0, is_text)
    return found


def read_blobs(copy: Copy, shas: Iterable[str]) -> dict[str, bytes]:
    """The contents by name of object; what is not there, or is no file, is left out."""
    wanted = sorted({sha for sha in shas if _SHA.fullmatch(sha)})
    if not wanted:
        return {}
    out = copy.ask("cat-file", "--batch", given="".join(f"{sha}\n" for sha in wanted).encode("ascii"))
    found: dict[str, bytes] = {}
    at = 0
    for sha in wanted:
        end = out.index(b"\n", at)
        facts = out[at:end].split()
        at = end + 1
        if len(facts) == 3:
            size = int(facts[2])
            if facts[1] == b"blob":
                found[sha] = out[at : at + size]
            at += size + 1
    return found


def read_versions(copy: Copy, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """Texts by commit and path; a file that is not there, is no file or is too large is left out."""
    if not wanted:
        return {}
    given = "".join(f"{commit}:{path}\n" for commit, path in wanted).encode("utf-8")
    rows = copy.ask("cat-file", "--batch-check", given=given).decode("utf-8", "replace").splitlines()
    found: dict[tuple[str, str], str] = {}
    for spec, row in zip(wanted, rows, strict=True):
        facts = row.split(" ")
        if len(facts) == 3 and facts[1] == "blob" and int(facts[2]) <= FILE_BYTES:
            found[spec] = facts[0]
    blobs = read_blobs(copy, found.values())
    return {spec: blobs[sha].decode("utf-8", "surrogateescape") for spec, sha in found.items() if sha in blobs}


def find_kept(copy: Copy, commit: str) -> bool:
    """Whether the copy holds this commit."""
    return bool(_SHA.fullmatch(commit)) and copy.run("cat-file", "-e", f"{commit}^{{commit}}").code == 0


def is_ancestor(copy: Copy, old: str, new: str) -> bool:
    return copy.run("merge-base", "--is-ancestor", old, new).code == 0


def find_common(copy: Copy, one: str, other: str) -> str | None:
    """The newest commit that both come from; None if there is none."""
    ran = copy.run("merge-base", one, other)
    found = ran.out.decode("ascii", "replace").strip()
    return found if ran.code == 0 and _SHA.fullmatch(found) else None


def write_commit(
    copy: Copy, parent: str | None, files: Mapping[str, bytes | None], author: Author, now: datetime, words: str
) -> str:
    """A commit on top of another with these files put in, None for taken out; answers its name."""
    name = author.name.translate(_UNSIGNED).strip() or "unknown"
    when = f"{int(now.timestamp())} +0000"
    signature = f"{name} <{author.email.translate(_UNSIGNED).strip()}> {when}"
    said = words.encode("utf-8", "replace")
    stream = [f"commit {_NEXT}\nmark :1\nauthor {signature}\ncommitter {signature}\ndata {len(said)}\n".encode(), said]
    if parent:
        stream.append(f"\nfrom {parent}".encode())
    for path, data in sorted(files.items(), key=lambda at: (at[1] is not None, at[0])):
        if data is None:
            stream.append(f"\nD {path}".encode())
        else:
            stream += [f"\nM 100644 inline {path}\ndata {len(data)}\n".encode(), data]
    stream.append(b"\n\nget-mark :1\ndone\n")
    out = copy.ask("fast-import", "--force", "--quiet", "--done", given=b"".join(stream))
    sha = out.decode("ascii", "replace").strip()
    if not _SHA.fullmatch(sha):
        raise GitError("git fast-import did not say what it wrote", said=sha)
    return sha


def keep_commit(copy: Copy, commit: str) -> None:
    """Let git know what is still needed, so that tidying up takes nothing of it away."""
    copy.ask("update-ref", _KEPT, commit)


def tidy_copy(copy: Copy, *, packs: int = 50, loose: int = 40) -> None:
    """One pack instead of many; best effort, and only when there are many."""
    folders = list(copy.path.glob("objects/??"))
    if len(list(copy.path.glob("objects/pack/*.pack"))) > packs or len(folders) > loose * 4:
        copy.run("update-ref", "-d", _NEXT)
        copy.run("gc", "--quiet", "--prune=now")


def read_log(copy: Copy, head: str, *, after: str = "", limit: int = TEAM_LOG) -> tuple[Commit, ...]:
    """Commits with what each changed, newest first; only those that `after` does not know."""
    mark = os.urandom(12).hex()  # nobody can have written it into a name
    span = f"{after}..{head}" if after else head
    options = ["--first-parent", "--diff-merges=first-parent", "--root", "--no-renames", "--name-status", "-z"]
    out = copy.ask("log", *options, "-n", str(limit), f"--format={mark}%x00{_RECORD}", span, "--")
    return tuple(_parse_commit(part) for part in out.split(mark.encode("ascii"))[1:])


def find_versions(copy: Copy, head: str, *, after: str = "") -> dict[str, set[str]]:
    """Path -> the objects it was, before and after each of the commits that `after` does not know; best effort."""
    span = f"{after}..{head}" if after else head
    options = ["--first-parent", "--diff-merges=first-parent", "--root", "--no-renames", "--raw", "--no-abbrev", "-z"]
    ran = copy.run("log", *options, "-n", str(TEAM_LOG), "--format=", span, "--")
    words = iter(ran.out.split(b"\0") if ran.code == 0 else ())
    found: dict[str, set[str]] = {}
    for word in words:
        if match := _CHANGE.search(word):
            path, is_text = _read_name(next(words, b""))
            if is_text:
                found.setdefault(path, set()).update(sha.decode("ascii") for sha in match.groups())
    return found


def _parse_commit(part: bytes) -> Commit:
    sha, name, email, at, *rest = part.removeprefix(b"\0").split(b"\0")
    changes: dict[str, str] = {}
    words = [word.strip(b"\n") for word in rest if word.strip(b"\n")]
    for letter, path in zip(words[::2], words[1::2], strict=False):
        verb = {b"A": "added", b"D": "deleted"}.get(letter[:1], "changed")
        changes[_read_name(path)[0]] = verb
    author = make_author(name.decode("utf-8", "replace"), email.decode("utf-8", "replace"), _read_time(at))
    return Commit(sha.decode("ascii", "replace"), author, changes)


def _read_time(text: bytes) -> datetime | None:
    try:
        return datetime.fromtimestamp(int(text), UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _read_name(name: bytes) -> tuple[str, bool]:
    try:
        return name.decode("utf-8"), True
    except UnicodeDecodeError:
        return name.decode("utf-8", "backslashreplace"), False


_UNSIGNED = str.maketrans(dict.fromkeys("<>\n\r\x00"))
