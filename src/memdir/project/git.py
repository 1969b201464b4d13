"""Which project a directory belongs to: the canonical git root, found from files alone.

All worktrees of one repository have one root, so that they share one memory. A `.git` file is a claim, and anybody can
put one into an archive; it is trusted only if the repository's own record of the worktree points back to this very
file. Otherwise the directory stands for itself: it can never use the memory of another project.

    .git is a directory              that directory's parent is the root
    .git file, worktree, trusted     the main work tree; for a bare repository the repository itself
    .git file, no `commondir`        a submodule, or --separate-git-dir: a project of its own
    .git file, not trusted           the directory itself, and a note that says why
    no .git on the way up            the working directory

A link named `.git` counts if it leads to a directory, and then only for the directory it is in. GIT_DIR and the like
are not read. Git itself is asked, with a time limit, only for the first commit and whether a file is tracked.
"""

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from memdir.files import read_small
from memdir.frozen import compile_late, dataclass
from memdir.project.settings import git_environ
from memdir.text import one_line

Kind = Literal["git", "worktree", "plain"]

_POINTER_BYTES = 4_096  # one path a file: no path is longer
CONFIG_BYTES = 262_144  # a repository's config with some hundred branches has 20 KB
_GIT_SECONDS = 2.0  # a person waits for `where`, not for the whole history of a large repository
_SECTION = compile_late(r'\[((?:[^"\]]|"(?:[^"\\]|\\.)*")*)\]\s*(.*)')
_REMOTE = compile_late(r'remote\s+"((?:[^"\\]|\\.)*)"', re.IGNORECASE)
_ADDRESS = compile_late(r"([A-Za-z][A-Za-z0-9+.-]*://)([^/?#]*@)?([^?#]*)")


@dataclass(frozen=True, slots=True)
class GitRoot:
    """A project's root. `kind` is `worktree` if the working directory is in a linked worktree."""

    path: Path
    kind: Kind
    note: str = ""


def find_root(cwd: Path, *, worktree: str = "shared") -> GitRoot:
    """Returns the root of the project that `cwd` is in; `worktree="own"` stays in the worktree. Never raises."""
    start = os.path.realpath(cwd)
    top = find_top(start)
    if top is None:
        return GitRoot(Path(start), "plain")
    kind, common, note = _read_repository(top)
    if kind != "worktree" or common is None or worktree == "own":
        return GitRoot(Path(top), kind, note)
    main = common.parent if common.name == ".git" else common
    return GitRoot(main, "worktree", f"{top} is a worktree of it")


def find_git_dir(root: Path) -> Path | None:
    """Returns the directory with the repository's config and history; None if there is none, or an untrusted one."""
    if os.path.lexists(root / ".git"):
        return _read_repository(os.path.realpath(root))[1]
    return root if (root / "HEAD").is_file() and (root / "objects").is_dir() else None


def find_remote(root: Path) -> str | None:
    """Returns the address of `origin`, else of the first remote, without any credentials."""
    address = find_address(root)
    return strip_credentials(address) if address else None


def find_address(root: Path) -> str | None:
    """The same as it is in the repository's config, with credentials: for use, not for storing."""
    common = find_git_dir(root)
    data = read_small(common / "config", CONFIG_BYTES).data if common else None
    addresses = _parse_remotes((data or b"").decode("utf-8", "replace"))
    return addresses.get("origin") or next(iter(addresses.values()), None)


def find_root_commit(root: Path, timeout: float = _GIT_SECONDS) -> str | None:
    """Returns the oldest commit without parents, which all clones share; None if git does not answer in time."""
    common = find_git_dir(root)
    if common is None or (common / "shallow").exists():  # a shallow clone ends somewhere in the middle
        return None
    code, output = run_git(root, ("rev-list", "--max-parents=0", "HEAD", "--"), timeout)
    commits = output.split()
    return commits[-1] if code == 0 and commits and re.fullmatch(r"[0-9a-f]{40,64}", commits[-1]) else None


def is_tracked(root: Path, name: str, timeout: float = _GIT_SECONDS) -> bool:
    """Whether a file below the root came with the repository. False only if git says so, or there is no repository."""
    top = os.path.realpath(root)
    if find_top(top) is None:
        return False
    if os.path.realpath(os.path.join(top, name)) != os.path.join(top, name):
        return True  # git knows nothing of files behind a link, and the link itself may be what came with the clone
    # Without regard to case: on many file systems `.Claude/` is the same folder, and git would not say so.
    code, _ = run_git(root, ("ls-files", "--error-unmatch", "--", f":(icase){name}"), timeout)
    return code != 1


def strip_credentials(address: str) -> str:
    """Returns a remote's address without user, password, query or fragment; `git@host:path` has no secret."""
    match = _ADDRESS.match(address)
    return one_line(match[1] + match[3] if match else address)


def find_top(start: str) -> str | None:
    """The nearest directory upwards with a `.git` that is a directory, a file or a link."""
    directory, below = start, ""
    while directory != below:
        try:
            mode = stat.S_IFMT(os.lstat(os.path.join(directory, ".git")).st_mode)
        except (OSError, ValueError):
            mode = 0
        if mode in (stat.S_IFDIR, stat.S_IFREG, stat.S_IFLNK):
            return directory
        directory, below = os.path.dirname(directory), directory
    return None


def _read_repository(top: str) -> tuple[Kind, Path | None, str]:
    """What the `.git` of a directory is, where config and history are if it is trusted, and why it is not."""
    dot_git = os.path.join(top, ".git")
    if os.path.isdir(dot_git):
        return "git", Path(os.path.realpath(dot_git)), ""
    if os.path.islink(dot_git):
        return "plain", None, f"{dot_git} is a link to no directory and is not followed"
    pointer = _read_line(dot_git)
    if not pointer.startswith("gitdir:"):
        return "plain", None, f"{dot_git} does not name a git directory"
    admin = os.path.realpath(os.path.join(top, pointer.removeprefix("gitdir:").strip()))
    if not os.path.isdir(admin):
        return "plain", None, f"{dot_git} names a git directory that is not there"
    link = _read_line(os.path.join(admin, "commondir"))
    if not link:
        return "git", Path(admin), ""
    common = os.path.realpath(os.path.join(admin, link))
    # The worktree's record must name this very file; the record may be relative to itself.
    back = _read_line(os.path.join(admin, "gitdir"))
    is_known = bool(back) and os.path.realpath(os.path.join(admin, back)) == os.path.realpath(dot_git)
    if os.path.dirname(admin) != os.path.join(common, "worktrees") or not is_known:
        return "plain", None, f"{dot_git} names a worktree of {common} that does not point back here"
    return "worktree", Path(common), ""


def _read_line(path: str) -> str:
    data = read_small(path, _POINTER_BYTES, follow=False).data or b""
    text = os.fsdecode(data).rstrip("\r\n")
    return "" if "\n" in text or "\0" in text else text


def _parse_remotes(config: str) -> dict[str, str]:
    """Each remote's first address, in the order of the file. Includes and rewritten addresses are not followed."""
    remotes: dict[str, str] = {}
    for section, key, value in _parse_lines(config):
        if key == "url" and value and (remote := _REMOTE.fullmatch(section)):
            remotes.setdefault(remote[1], value)
    return remotes


def parse_config(config: str, section: str) -> list[tuple[str, str]]:
    """Returns keys, in lower case, and values of a plain section such as [user], in the order of the file."""
    return [(key, value) for name, key, value in _parse_lines(config) if name.lower() == section]


def _parse_lines(config: str) -> Iterator[tuple[str, str, str]]:
    """Section, key in lower case and value of each line of a git config."""
    section = ""
    for line in config.splitlines():
        text = line.strip()
        if text.startswith("["):
            head = _SECTION.match(text)
            section, text = (head[1].strip(), head[2]) if head else ("", "")
        key, equals, value = text.partition("=")
        if equals:
            yield section, key.strip().lower(), _unquote(value)


def _unquote(value: str) -> str:
    """A config value without quotes, escapes and the comment after it."""
    plain, quoted, escaped = "", False, False
    for char in value.strip():
        if escaped:
            plain, escaped = plain + char, False
        elif char == "\\":
            escaped = True
        elif char == '"':
            quoted = not quoted
        elif char in "#;" and not quoted:
            break
        else:
            plain += char
    return plain.strip()


def run_git(root: Path, arguments: tuple[str, ...], timeout: float) -> tuple[int, str]:
    """Returns exit code and output; -1 if git is missing or took too long. Hooks and monitors are not run."""
    # Imported here: hooks need no git process, and subprocess costs milliseconds.
    import subprocess

    quiet = ("--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
    try:
        done = subprocess.run(
            ("git", "-C", str(root), *quiet, *arguments),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=git_environ(),
            timeout=timeout,
            check=False,
        )
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return -1, ""
    return done.returncode, done.stdout.decode("utf-8", "replace")
