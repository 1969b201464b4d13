"""Git's history as a stream: `git log` with settings nobody can change, cut at its commits, within a time.

Nothing of the repository is run to show a patch, and nobody's settings change what is parsed. It does not understand
what it streams.
"""

import os
import selectors
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from memdir.settings import git_environ

DONE = b"\x02"  # the last piece of a stream that was read to its end
_BLOCK = 1 << 20
_COMMIT_BYTES = 64 << 20  # of one commit's patch; a longer one is cut
_QUIET = (
    "--no-pager", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}",
    "-c", "core.quotePath=false",
)  # fmt: skip
# A first commit takes nothing away, and its patch is the whole project.
_LOG = (
    "log", "--min-parents=1", "--no-show-signature", "--no-diff-merges", "--no-ext-diff", "--no-textconv", "--no-color",
    "-M", "-l1000", "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", "--inter-hunk-context=0",
)  # fmt: skip


def stream_names(root: Path, ends: float) -> Iterator[bytes]:
    """What each commit added, deleted and renamed, as git writes it with -z, word by word."""
    arguments = (*_LOG, "--name-status", "-z", "--diff-filter=ADR", "--format=%x01%h", "HEAD", "--")
    return _split_stream(_stream(root, arguments, ends), b"\0")


def stream_patches(root: Path, ends: float, globs: tuple[str, ...] = ()) -> Iterator[bytes]:
    """Each commit's patch without context, its short name in the first line; with `globs` of such files alone."""
    wanted = tuple(f":(top,glob)**/{glob}" for glob in globs)
    return _split_stream(_stream(root, (*_LOG, "-p", "-U0", "--format=%x01%h", "HEAD", "--", *wanted), ends), b"\n\x01")


def find_commit(patch: bytes) -> str:
    return patch[: patch.find(b"\n")].lstrip(b"\x01\n").decode("ascii", "replace")


def decode_path(path: bytes) -> str:
    text = path.rstrip(b"\t\r").decode("utf-8", "replace")
    return text[1:-1] if text.startswith('"') and text.endswith('"') else text


def _stream(root: Path, arguments: tuple[str, ...], ends: float) -> Iterator[bytes]:
    """What git prints, block by block, until it is done or the time is over; an empty block says that it was done."""
    try:
        process = subprocess.Popen(
            ("git", "-C", str(root), *_QUIET, *arguments),
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=git_environ(),
        )  # fmt: skip
    except (OSError, ValueError):
        return
    with process, selectors.DefaultSelector() as waiting:
        assert process.stdout is not None
        waiting.register(process.stdout, selectors.EVENT_READ)
        is_done = False
        try:
            while waiting.select(max(0.0, ends - time.monotonic())):
                block = os.read(process.stdout.fileno(), _BLOCK)
                if not block:
                    is_done = process.wait(max(0.1, ends - time.monotonic())) == 0
                    break
                yield block
        except subprocess.TimeoutExpired:
            pass
        finally:
            process.kill()
    if is_done:
        yield b""


def _split_stream(blocks: Iterator[bytes], mark: bytes) -> Iterator[bytes]:
    """The pieces between marks; DONE after the last one says that all was read."""
    rest: list[bytes] = []
    size = 0
    tail = b""
    for block in blocks:
        if not block:
            yield b"".join(rest) + tail
            yield DONE
            return
        *whole, last = (tail + block).split(mark)
        for piece in whole:
            yield b"".join(rest) + piece
            rest, size = [], 0
        keep = len(mark) - 1
        tail = last[len(last) - keep :] if keep else b""
        body = last[: len(last) - keep] if keep else last
        if size < _COMMIT_BYTES:
            rest.append(body)
            size += len(body)
