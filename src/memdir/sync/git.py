"""Run git to transfer objects between memdir's own bare copy and a remote.

Every call names that copy, so the user's repository, index, branches, stash and hooks are never read. No hook runs,
nothing prompts, the only transports are files, ssh, https, and http to this machine, and every call has a deadline and a
file size limit. Git checks incoming objects but allows odd names: these are refused one by one, so that a bad entry does
not stop a team. The user's own git configuration is read for remotes on a network only, because it has the keys.

There is no working tree. A new commit changes only the files it adds or deletes. A push is never forced.
"""

import hashlib
import os
import re
import signal
import subprocess
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic

from memdir.errors import FormatError, SettingsError
from memdir.frozen import dataclass
from memdir.limits import FILE_BYTES, TEAM_ENTRIES, TEAM_FETCH_BYTES, TEAM_LOG
from memdir.project.settings import Environment
from memdir.store.history import MemorySource
from memdir.store.state import Author, make_author
from memdir.sync import state
from memdir.text import one_line, shorten

LATE, ABSENT = -1000, -1001  # our exit codes for a timeout and for a missing git
_HINT = "`memdir team status` shows the remote; your files are unchanged"
_LIMITED = 'ulimit -f "$0" && exec "$@"'
_BLOCK = 512  # the unit of `ulimit -f` in a POSIX shell
# Files above the threshold are streamed, never held in memory. A fetch writes one pack, so that the file size limit is
# the limit of a fetch. The user's push options are for their own pushes.
_QUIET = f"""
    core.hooksPath={os.devnull} core.fsmonitor=false core.bigFileThreshold=1m core.fsync=all gc.auto=0 maintenance.auto=false
    fetch.unpackLimit=1 fetch.writeCommitGraph=false transfer.fsckObjects=true transfer.credentialsInUrl=die
    submodule.recurse=false push.gpgSign=false push.pushOption= credential.interactive=false http.followRedirects=false
""".split()
# git's checks for odd names and dates, switched off: there is never a checkout, and bad names are refused one by one.
_NAMES = """
    hasDot hasDotdot hasDotgit fullPathname emptyName zeroPaddedFilemode nullSha1
    gitmodulesMissing gitmodulesBlob gitmodulesName gitmodulesUrl gitmodulesPath gitmodulesUpdate gitmodulesParse
    gitmodulesLarge gitmodulesSymlink gitattributesMissing gitattributesLarge gitattributesLineLength
    gitattributesBlob gitattributesSymlink gitignoreSymlink mailmapSymlink
    missingEmail missingNameBeforeEmail missingSpaceBeforeEmail badEmail badName missingSpaceBeforeDate
    zeroPaddedDate badDateOverflow badTimezone
""".split()
_SAID = 4_000  # bytes of git's error output; the reason is at the end
_UNSIGNED = str.maketrans(dict.fromkeys("<>\n\r\x00"))
_LISTING_BYTES = 16_777_216  # of the names in one tree
_SHA = re.compile(r"[0-9a-f]{40}")
_CHANGE = re.compile(rb":\d{6} \d{6} ([0-9a-f]{40}) ([0-9a-f]{40}) [A-Z]\d*\Z")
_NEXT = "refs/memdir/next"
_KEPT = "refs/memdir/kept"
_LOG = ("--first-parent", "--diff-merges=first-parent", "--root", "--no-renames", "-z")
_RECORD = "%H%x00%an%x00%ae%x00%at%x00"
_VERBS = {b"A": "added", b"D": "deleted"}
_MISSING = "couldn't find remote ref"
_QUICKER = re.compile(
    r"fetch first|non-fast-forward|stale info|cannot lock ref|failed to (?:update|lock)|incorrect old value|"
    r"reference already exists|but expected",
    re.IGNORECASE,
)
# A branch with a conflicting name exists, so trying again does not help.
_BLOCKED = re.compile(r"exists; cannot create|blocking reference", re.IGNORECASE)
_DENIED = re.compile(
    r"denied|forbidden|\b40[13]\b|not allowed|read[- ]only|insufficient permission|unable to create|write access|"
    r"unpacker error|protected|declined|prohibited|permission",
    re.IGNORECASE,
)


class GitError(state.RemoteError):
    """A git call failed."""


@dataclass(frozen=True, slots=True)
class GitResult:
    """The result of a git call: its exit code, its output, and the reason if it failed."""

    code: int
    out: bytes
    said: str


class TeamClone:
    """memdir's own bare clone of a team's branch. All calls must end by `deadline`, a monotonic time."""

    def __init__(self, path: Path, environment: Environment, *, deadline: float) -> None:
        self.path, self._environment, self.deadline = path, environment, deadline

    def prepare(self) -> None:
        """Create the repository if it is missing, and remove lock files of killed git processes."""
        if not os.path.isfile(self.path / "HEAD"):
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.ask("init", "--quiet", "--bare", "--template=", str(self.path))
        for lock in [*self.path.glob("*.lock"), *self.path.glob("refs/**/*.lock")]:
            lock.unlink(missing_ok=True)

    def run(
        self, *arguments: str, stdin: bytes = b"", remote: str = "", limit: int = TEAM_FETCH_BYTES, seconds: float = 0
    ) -> GitResult:
        """Run git once and return the result, even if git fails. `limit` is the maximum size of the files it writes, if it
        writes any."""
        settings = [*_QUIET, *(f"fetch.fsck.{name}=ignore" for name in _NAMES)]
        options = [part for setting in settings for part in ("-c", setting)]
        git = ["git", f"--git-dir={self.path}", "--no-pager", "--no-replace-objects", *options, *arguments]
        command = ["sh", "-c", _LIMITED, str(limit // _BLOCK), *git] if limit else git
        environ = make_git_environ(self._environment, remote)
        return _run(command, stdin, environ, seconds or self.deadline - monotonic())

    def ask(self, *arguments: str, stdin: bytes = b"") -> bytes:
        result = self.run(*arguments, stdin=stdin)
        if result.code != 0:
            raise make_git_error(arguments[0], result)
        return result.out


def make_git_error(command: str, result: GitResult) -> GitError:
    """Return the error to raise for a failed git call."""
    if result.code == LATE:
        hint = "retry with a longer --timeout"
        return GitError(f"git {command} timed out", hint=hint)
    if result.code == ABSENT:
        return GitError("git is not installed", hint="install git, which team memory needs")
    if "signal 25" in result.said or result.code == -signal.SIGXFSZ:
        size = TEAM_FETCH_BYTES // 1_048_576
        return GitError(f"the team's branch is larger than {size} MiB", hint="no files were imported")
    error_line = re.search(r"(?:fatal|error|ERROR|remote): (.*)", result.said)
    # Keep only git's error line.
    reason = re.split(r" (?:fatal|hint): | Please make sure ", error_line.group(1) if error_line else result.said)[0]
    reason = shorten(reason.strip(), 300)
    return GitError(f"git {command} failed: {reason or f'exit code {result.code}'}", hint=_HINT)


def make_git_environ(environment: Environment, remote: str = "") -> dict[str, str]:
    """Return the environment for a git process, without redirections and prompts but with the user's credentials."""
    inherited = {name: value for name, value in environment.inherited.items() if not name.startswith("GIT_")}
    env = inherited | dict.fromkeys(("GIT_ASKPASS", "SSH_ASKPASS"), "")
    env |= dict.fromkeys(("GIT_TERMINAL_PROMPT", "GIT_OPTIONAL_LOCKS"), "0")
    env |= dict.fromkeys(("GIT_NO_LAZY_FETCH", "GIT_NO_REPLACE_OBJECTS", "GIT_ATTR_NOSYSTEM"), "1")
    env |= dict.fromkeys(("SSH_ASKPASS_REQUIRE", "GCM_INTERACTIVE"), "never")
    env |= {"LC_ALL": "C", "GIT_ALLOW_PROTOCOL": "file:ssh:https" + (":http" if state.is_loopback(remote) else "")}
    env["GIT_SSH_COMMAND"] = "ssh -oBatchMode=yes -oConnectTimeout=15"
    if not remote or remote.startswith(("/", "file:")):
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    return env


def _run(command: Sequence[str], stdin: bytes, env: Mapping[str, str], seconds: float) -> GitResult:
    if seconds <= 0:
        return GitResult(LATE, b"", "no time was left")
    # Write the output to files, so that the file size limit also applies to messages of the remote.
    with TemporaryFile() as out, TemporaryFile() as stderr:
        try:
            process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=out, stderr=stderr, env=env, cwd="/", start_new_session=True
            )
        except OSError as error:
            return GitResult(ABSENT, b"", str(error))
        code = _wait(process, stdin, seconds)
        out.seek(0)
        if code == 0:
            return GitResult(code, out.read(), "")
        stderr.seek(max(stderr.seek(0, os.SEEK_END) - _SAID, 0))
        return GitResult(code, out.read(), one_line(stderr.read().decode("utf-8", "replace")))


def _wait(process: "subprocess.Popen[bytes]", stdin: bytes, seconds: float) -> int:
    """Wait until the process and its children, such as ssh, have ended; return the exit code."""
    try:
        process.communicate(stdin, timeout=seconds)
    except subprocess.TimeoutExpired:
        return LATE
    finally:
        if process.poll() is None:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                process.kill()
            process.wait()
    return ABSENT if process.returncode == 127 else process.returncode


def hash_blob(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


# --- a branch as a remote ---------------------------------------------------------------------------------------------

TEAM_FILE = ".memdir-team.json"
_MARK_BYTES = 65_536


class GitRemote:
    """A branch of a git remote, read through memdir's own clone; without a URL, only that clone. `mark` is the file
    that identifies memdir's branches, `most` the maximum number of files in it."""

    def __init__(
        self, copy: TeamClone, address: str, branch: str, *, mark: str = TEAM_FILE, most: int = TEAM_ENTRIES
    ) -> None:
        self._copy, self.address, self.branch, self.mark, self.most = copy, address, branch, mark, most
        copy.prepare()

    def hash(self, data: bytes) -> str:
        return hash_blob(data)

    def find_head(self) -> str:
        result = self._copy.run("ls-remote", self.address, f"refs/heads/{self.branch}", remote=self.address, limit=0)
        if result.code != 0:
            raise make_git_error("ls-remote", result)
        return result.out.decode("ascii", "replace").partition("\t")[0]

    def fetch(self) -> state.RemoteTree:
        head = self.fetch_head() if self.address else None
        if head is not None:
            return self.look_at(head)
        last_head = self._copy.run("rev-parse", "--verify", "--quiet", _KEPT).out.decode("ascii", "replace").strip()
        return self.look_at(last_head, is_gone=True) if self._has(last_head) else state.RemoteTree()

    def fetch_head(self) -> str | None:
        """Fetch the branch and return its commit, or None if the remote has no such branch. Raises GitError."""
        fetch_head = self._copy.path / "FETCH_HEAD"
        fetch_head.unlink(missing_ok=True)
        options = ["--quiet", "--no-tags", "--no-recurse-submodules", "--no-auto-gc", "--no-auto-maintenance"]
        result = self._copy.run("fetch", *options, self.address, f"refs/heads/{self.branch}", remote=self.address)
        if result.code != 0:
            if _MISSING in result.said:
                return None
            raise make_git_error("fetch", result)
        commit = re.match(r"[0-9a-f]{40}(?=\s)", fetch_head.read_text(encoding="utf-8", errors="replace"))
        if commit is None:
            hint = "use a repository with SHA-1 objects"
            raise GitError("git fetch did not report the fetched commit", hint=hint)
        return commit.group()

    def look_at(self, head: str, *, is_gone: bool = False) -> state.RemoteTree:
        tree = self._read_tree(head)
        mark = tree.pop(self.mark, None)
        is_plain = mark is not None and mark.mode == state.PLAIN_MODE and mark.size <= _MARK_BYTES
        return state.RemoteTree(
            head, tree, mark.sha if mark is not None and is_plain else "", is_gone, mark is not None
        )

    def check_ours(self, branch: state.RemoteTree) -> None:
        """Raise SettingsError if the branch contains other files, because memdir must not add to it."""
        if branch.head and not branch.is_ours:
            what = "a team's memory" if self.mark == TEAM_FILE else "a memory of your machines"
            hint = f"choose another with --branch, such as {state.BRANCH}; memdir's own branch contains {self.mark}"
            message = f"the branch {self.branch} is not {what}: it contains other files"
            raise SettingsError(message, key="branch", hint=hint)

    def find_common(self, known: str, head: str) -> Mapping[str, state.TreeEntry] | None:
        if known in ("", head) or self._copy.run("merge-base", "--is-ancestor", known, head).code == 0:
            return None
        result = self._copy.run("merge-base", known, head) if self._has(known) else None
        ancestor = result.out.decode("ascii", "replace").strip() if result and result.code == 0 else ""
        return self._read_tree(ancestor) if _SHA.fullmatch(ancestor) else {}

    def read(self, shas: Iterable[str]) -> dict[str, bytes]:
        names = sorted({sha for sha in shas if _SHA.fullmatch(sha)})
        if not names:
            return {}
        out = self._copy.ask("cat-file", "--batch", stdin="".join(f"{sha}\n" for sha in names).encode("ascii"))
        blobs: dict[str, bytes] = {}
        offset = 0
        for sha in names:
            end = out.index(b"\n", offset)
            facts = out[offset:end].split()
            offset = end + 1
            if len(facts) == 3:
                size = int(facts[2])
                if facts[1] == b"blob":
                    blobs[sha] = out[offset : offset + size]
                offset += size + 1
        return blobs

    def push(
        self, tree: state.RemoteTree, files: Mapping[str, bytes | None], author: Author, now: datetime, message: str
    ) -> tuple[str, state.PushState]:
        head = self._write_commit(tree.head, files, author, now, message) if files else tree.head
        pushed = self._push_commit(head)
        return (head if pushed.answer is state.PushResult.DONE else tree.head), pushed

    def find_versions(self, head: str, after: str, paths: Collection[str]) -> dict[str, set[str]]:
        """Return the objects of these paths before and after each commit since `after`, or {} if git fails."""
        result = self._copy.run("log", *_LOG, "--raw", "--no-abbrev", "--format=", *_make_span(head, after))
        words = iter(result.out.split(b"\0") if result.code == 0 else ())
        versions: dict[str, set[str]] = {}
        for word in words:
            if match := _CHANGE.search(word):
                path, is_text = _read_name(next(words, b""))
                if is_text and path in paths:
                    versions.setdefault(path, set()).update(sha.decode("ascii") for sha in match.groups())
        return versions

    def find_authors(self, head: str, after: str) -> dict[str, Author]:
        return {path: commit.author for commit in reversed(self.read_log(head, after)) for path in commit.changes}

    def find_sources(self, head: str, after: str) -> dict[str, MemorySource]:
        return {
            path: row for text in self.read_date_lines(head, after) for path, row in state.parse_sources(text).items()
        }

    def read_date_lines(self, head: str, after: str) -> list[str]:
        """Return the date lines in the commit messages since `after`, oldest first."""
        result = self._copy.run("log", "--first-parent", "--reverse", "--format=%B", *_make_span(head, after))
        lines = result.out.decode("utf-8", "replace").splitlines() if result.code == 0 and head else []
        return [line.removeprefix(state.DATES) for line in lines if line.startswith(state.DATES)]

    def read_log(self, head: str, after: str = "") -> tuple[state.TeamCommit, ...]:
        """Return the commits since `after` with their changes, newest first."""
        mark = os.urandom(12).hex()  # random, so no name can contain it
        row = f"--format={mark}%x00{_RECORD}"
        out = self._copy.ask("log", *_LOG, "--name-status", row, *_make_span(head, after))
        return tuple(_parse_commit(part) for part in out.split(mark.encode("ascii"))[1:])

    def read_texts(self, wanted: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
        """Return texts by commit and path, omitting files that are missing, too large or not regular."""
        stdin = "".join(f"{commit}:{path}\n" for commit, path in wanted).encode("utf-8")
        rows = self._copy.ask("cat-file", "--batch-check", stdin=stdin).decode("utf-8", "replace").splitlines()
        objects: dict[tuple[str, str], str] = {}
        for spec, row in zip(wanted, rows, strict=True):
            facts = row.split(" ")
            if len(facts) == 3 and facts[1] == "blob" and int(facts[2]) <= FILE_BYTES:
                objects[spec] = facts[0]
        blobs = self.read(objects.values())
        return {spec: blobs[sha].decode("utf-8", "surrogateescape") for spec, sha in objects.items() if sha in blobs}

    def keep(self, head: str) -> None:
        if not head:
            return
        self._copy.ask("update-ref", _KEPT, head)  # so that `git gc` keeps its objects
        patterns = ("objects/pack/*.pack", "objects/??")
        packs, loose = (len(list(self._copy.path.glob(pattern))) for pattern in patterns)
        if packs > 50 or loose > 160:
            self._copy.run("update-ref", "-d", _NEXT)
            self._copy.run("gc", "--quiet", "--prune=now")

    def _has(self, commit: str) -> bool:
        return bool(_SHA.fullmatch(commit)) and self._copy.run("cat-file", "-e", f"{commit}^{{commit}}").code == 0

    def _read_tree(self, commit: str) -> dict[str, state.TreeEntry]:
        """Return all entries of a commit's tree except folders. Raises FormatError if there are too many."""
        result = self._copy.run("ls-tree", "-r", "-t", "-z", "-l", "--full-tree", commit, limit=_LISTING_BYTES)
        rows = result.out.split(b"\0")
        if len(rows) > self.most or (result.code != 0 and len(result.out) > _LISTING_BYTES // 2):
            message = f"the branch contains more than {self.most:,} entries; no files were imported"
            raise FormatError(message, hint="`memdir team log` shows who wrote last")
        if result.code != 0:
            raise make_git_error("ls-tree", result)
        entries: dict[str, state.TreeEntry] = {}
        for row in rows:
            facts, tab, name = row.partition(b"\t")
            if tab:
                mode, kind, sha, size = facts.decode("ascii", "replace").split()
                if kind != "tree":
                    path, is_text = _read_name(name)
                    entries[path] = state.TreeEntry(mode, sha, int(size) if size.isdigit() else 0, is_text)
        return entries

    def _write_commit(
        self, parent: str, files: Mapping[str, bytes | None], author: Author, now: datetime, message: str
    ) -> str:
        """Commit these files on top of another commit (None removes a file) and return the new commit's name."""
        name = author.name.translate(_UNSIGNED).strip() or "unknown"
        signature = f"{name} <{author.email.translate(_UNSIGNED).strip()}> {int(now.timestamp())} +0000"
        text = message.encode("utf-8", "replace")
        opening = f"commit {_NEXT}\nmark :1\nauthor {signature}\ncommitter {signature}\ndata {len(text)}\n"
        stream = [opening.encode(), text, f"\nfrom {parent}".encode() if parent else b""]
        for path, data in sorted(files.items(), key=lambda item: (item[1] is not None, item[0])):
            if data is None:
                stream.append(f"\nD {path}".encode())
            else:
                stream += [f"\nM 100644 inline {path}\ndata {len(data)}\n".encode(), data]
        stream.append(b"\n\nget-mark :1\ndone\n")
        out = self._copy.ask("fast-import", "--force", "--quiet", "--done", stdin=b"".join(stream))
        sha = out.decode("ascii", "replace").strip()
        if not _SHA.fullmatch(sha):
            raise GitError("git fast-import did not report the new commit")
        return sha

    def _push_commit(self, commit: str) -> state.PushState:
        """Push a commit as the head of the branch; does not raise if the remote rejects it."""
        remote, ref = self.address, f"refs/heads/{self.branch}"
        options = ["--porcelain", "--no-verify", "--no-follow-tags", "--no-signed", "--recurse-submodules=no"]
        # With a higher threshold, git sends a long index as its difference from the remote's.
        command = ["-c", "core.bigFileThreshold=64m", "push", *options]
        result = self._copy.run(*command, remote, f"{commit}:{ref}", remote=remote)
        if result.code == 0:
            return state.PushState(state.PushResult.DONE)
        if result.code in (LATE, ABSENT):
            return state.PushState(state.PushResult.SILENT, str(make_git_error("push", result)))
        pushed = _read_refusal(result)
        # If the connection is lost during a push, git's error looks like a refusal.
        is_denied = pushed.answer is state.PushResult.DENIED
        if is_denied and self._copy.run("ls-remote", "--quiet", remote, ref, remote=remote).code != 0:
            return state.PushState(state.PushResult.SILENT, pushed.said)
        return pushed


def _make_span(head: str, after: str) -> tuple[str, ...]:
    """Return the arguments of `git log` for the newest commits that `after` does not contain."""
    return "-n", str(TEAM_LOG), f"{after}..{head}" if after else head, "--"


def _parse_commit(part: bytes) -> state.TeamCommit:
    sha, name, email, timestamp, *rest = part.removeprefix(b"\0").split(b"\0")
    words = [word.strip(b"\n") for word in rest if word.strip(b"\n")]
    pairs = zip(words[::2], words[1::2], strict=False)
    changes = {_read_name(path)[0]: _VERBS.get(letter[:1], "changed") for letter, path in pairs}
    try:
        when = datetime.fromtimestamp(int(timestamp), UTC)
    except (ValueError, OverflowError, OSError):
        when = None
    author = make_author(name.decode("utf-8", "replace"), email.decode("utf-8", "replace"), when)
    return state.TeamCommit(sha.decode("ascii", "replace"), author, changes)


def _read_name(name: bytes) -> tuple[str, bool]:
    try:
        return name.decode("utf-8"), True
    except UnicodeDecodeError:
        return name.decode("utf-8", "backslashreplace"), False


def _read_refusal(result: GitResult) -> state.PushState:
    rows = [row for row in result.out.decode("utf-8", "replace").splitlines() if row.startswith("!")]
    rejection = " ".join(rows) or result.said
    error = str(make_git_error("push", result))
    if _BLOCKED.search(f"{rejection} {result.said}"):
        reason = "the remote has a branch whose name is in the way; choose another with --branch"
        return state.PushState(state.PushResult.DENIED, reason)
    if _QUICKER.search(rejection):
        return state.PushState(state.PushResult.QUICKER, error)
    if rows or _DENIED.search(result.said):
        cause = re.search(r"\(([^()]*)\)\s*$", rejection)
        return state.PushState(
            state.PushResult.DENIED, f"the remote refused: {cause.group(1)}" if rows and cause else error
        )
    return state.PushState(state.PushResult.SILENT, error)
