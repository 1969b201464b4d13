"""The git program as memdir uses it: as a carrier of objects between its own bare copy and a remote, and nothing else.

Every call names that copy, so the person's repository, index, branches, stash and hooks are never even looked at. No
hook runs, nobody is asked anything, no transport is used but files, ssh and https, and every call ends: by itself, at
its deadline, or at the limit for what one file may hold. What comes is checked by git before it is believed, but odd
names in it are let through: they are for `arriving` to refuse one by one, or one bad entry would stop a whole team.

For ssh and https the person's own git configuration is read, because that is where the keys are. For a remote in the
file system it is not.
"""

import os
import re
import signal
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from time import monotonic
from typing import IO

from memdir.errors import MemdirError
from memdir.frozen import dataclass
from memdir.limits import TEAM_FETCH_BYTES
from memdir.settings import Environment
from memdir.text import one_line, shorten

_ENDED = "sh"  # `ulimit` is a part of the shell, and every system has one
_LIMITED = 'ulimit -f "$0" && exec "$@"'
_BLOCK = 512  # the unit of `ulimit -f` in a POSIX shell
_QUIET = (
    f"core.hooksPath={os.devnull}",
    "core.fsmonitor=false",
    "core.bigFileThreshold=1m",  # what is larger is streamed, never held in memory
    "core.fsync=all",
    "gc.auto=0",
    "maintenance.auto=false",
    "fetch.unpackLimit=1",  # one pack a fetch, so that the limit for a file is the limit for a fetch
    "fetch.writeCommitGraph=false",
    "transfer.fsckObjects=true",
    "transfer.credentialsInUrl=die",
    "submodule.recurse=false",
    "push.gpgSign=false",
    "push.pushOption=",  # a wish of the person's for his own pushes, which a remote may not know
    "credential.interactive=false",
    "http.followRedirects=false",
)
# Names that no checkout would survive. There is never a checkout, and each of them is refused when the tree is read.
_NAMES = """
    hasDot hasDotdot hasDotgit fullPathname emptyName zeroPaddedFilemode nullSha1
    gitmodulesMissing gitmodulesBlob gitmodulesName gitmodulesUrl gitmodulesPath gitmodulesUpdate gitmodulesParse
    gitmodulesLarge gitmodulesSymlink gitattributesMissing gitattributesLarge gitattributesLineLength
    gitattributesBlob gitattributesSymlink gitignoreSymlink mailmapSymlink
    missingEmail missingNameBeforeEmail missingSpaceBeforeEmail badEmail badName missingSpaceBeforeDate
    zeroPaddedDate badDateOverflow badTimezone
""".split()
_PROTOCOLS = "file:ssh:https"
_SAID = 4_000  # bytes of what git complains of; the end says what it was


class GitError(MemdirError):
    """A call of git that did not do what it was asked; `said` is what it wrote, on one line."""

    def __init__(self, message: str, *, said: str = "", is_late: bool = False, hint: str = "") -> None:
        super().__init__(message, hint=hint)
        self.said = said
        self.is_late = is_late


@dataclass(frozen=True, slots=True)
class Ran:
    """How a call ended: its exit code, its output, and what it complained of."""

    code: int
    out: bytes
    said: str


class Copy:
    """memdir's own copy of a team's branch. Every call is over at `deadline`, a time of the monotonic clock."""

    def __init__(self, path: Path, environment: Environment, *, deadline: float) -> None:
        self.path = path
        self._environment = environment
        self.deadline = deadline

    def run(
        self, *arguments: str, given: bytes = b"", remote: str = "", limit: int = TEAM_FETCH_BYTES, seconds: float = 0
    ) -> Ran:
        """One call; `remote` says where it goes, `limit` how large a file it may write. Its failure is no error."""
        command = _make_command(self.path, arguments, limit)
        left = seconds if seconds else self.deadline - monotonic()
        return _run(command, given, make_environ(self._environment, remote), left)

    def ask(self, *arguments: str, given: bytes = b"", seconds: float = 0) -> bytes:
        """The output of a call that has to work."""
        ran = self.run(*arguments, given=given, seconds=seconds)
        if ran.code != 0:
            raise make_error(arguments[0], ran)
        return ran.out


def make_error(verb: str, ran: Ran) -> GitError:
    """What went wrong, in words that name no path of the machine's more than git did."""
    if ran.code == LATE:
        return GitError(
            f"git {verb} took too long", said=ran.said, is_late=True, hint="try again, or give it --timeout"
        )
    if ran.code == ABSENT:
        return GitError("there is no git program", said=ran.said, hint="team memory needs git; install it")
    if "signal 25" in ran.said or ran.code == -signal.SIGXFSZ:
        size = TEAM_FETCH_BYTES // 1_048_576
        return GitError(f"the team's branch is larger than {size} MiB", said=ran.said, hint="nothing of it was taken")
    said = shorten(_find_words(ran.said), 300)
    return GitError(f"git {verb} failed: {said or f'exit code {ran.code}'}", said=ran.said, hint=_HINT)


def make_environ(environment: Environment, remote: str = "") -> dict[str, str]:
    """The surroundings of a git process: nothing that steers it elsewhere, nobody to ask, the person's keys for ssh
    and https only."""
    kept = {name: value for name, value in environment.inherited.items() if not name.startswith("GIT_")}
    env = kept | {
        "LC_ALL": "C",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
        "GCM_INTERACTIVE": "never",
        "GIT_SSH_COMMAND": "ssh -oBatchMode=yes -oConnectTimeout=15",
        "GIT_ALLOW_PROTOCOL": _PROTOCOLS,
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_ATTR_NOSYSTEM": "1",
    }
    if not _is_distant(remote):
        env |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
    return env


LATE, ABSENT = -1000, -1001
_HINT = "`memdir team status` shows the remote; nothing of yours is lost"


def _make_command(path: Path, arguments: Sequence[str], limit: int) -> list[str]:
    settings = [*_QUIET, *(f"fetch.fsck.{name}=ignore" for name in _NAMES)]
    options = [part for setting in settings for part in ("-c", setting)]
    git = ["git", f"--git-dir={path}", "--no-pager", "--no-replace-objects", *options, *arguments]
    return [_ENDED, "-c", _LIMITED, str(limit // _BLOCK), *git]


def _run(command: Sequence[str], given: bytes, env: Mapping[str, str], seconds: float) -> Ran:
    if seconds <= 0:
        return Ran(LATE, b"", "no time was left")
    # Into files and not into memory: the limit for a file then holds for whatever a remote has it say.
    with TemporaryFile() as out, TemporaryFile() as said:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=said,
                env=env,
                cwd="/",
                start_new_session=True,
                close_fds=True,
            )
        except OSError as error:
            return Ran(ABSENT, b"", str(error))
        code = _wait(process, given, seconds)
        return Ran(code, _read_file(out), one_line(_read_file(said, _SAID).decode("utf-8", "replace")))


def _wait(process: "subprocess.Popen[bytes]", given: bytes, seconds: float) -> int:
    """Its exit code; whatever happens, it has ended when this returns, and so has what it started."""
    try:
        process.communicate(given, timeout=seconds)
    except subprocess.TimeoutExpired:
        return LATE
    finally:
        if process.poll() is None:
            _end(process)
    return ABSENT if process.returncode == 127 else process.returncode


def _read_file(file: IO[bytes], last: int = 0) -> bytes:
    size = file.seek(0, os.SEEK_END)
    file.seek(max(size - last, 0) if last else 0)
    return file.read()


def _end(process: "subprocess.Popen[bytes]") -> None:
    """End a call and whatever it has started, such as ssh."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        process.kill()
    process.wait()


def _is_distant(remote: str) -> bool:
    return bool(remote) and not remote.startswith(("/", "file:"))


def _find_words(said: str) -> str:
    """What git says is wrong, without its remarks before and its advice after."""
    found = re.search(r"(?:fatal|error|ERROR|remote): (.*)", said)
    words = found.group(1) if found else said
    return re.split(r" (?:fatal|hint): | Please make sure ", words)[0].strip()
