"""Start one interface and import only that one.

Before a hook that ends a turn imports memdir's modules, it records the conversation: imports are slow on a busy machine, hosts
kill late hooks, and the turn must not be lost. The record is a small file in the user's state folder, without text of the
conversation. The hook removes it when the turn is in its project's queue; the next worker, in any project, queues the rest
(`interfaces/worker.py`).
"""

import gc
import os
import select
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

_ENDING = frozenset("stop sessionend beforecompact precompact afteragent precompress".split())  # letters of the events
_STDIN_SECONDS = 1.0  # for all input; the user waits for a prompt
_ENDING_SECONDS = 3.0  # the same at the end of a turn: a busy machine may stop a host in the middle of its input
_STDIN_BYTES = 67_108_864  # the result of a tool can be a whole file, twice
_OTHER_VALUES = tuple(b"%c" % letter for letter in b'["-0123456789tfn')  # how a JSON value that is not an object begins
_FIELD_CHARS = 8_192


def main() -> int:
    # A call takes a fraction of a second; garbage collection would take a tenth of that and find none.
    gc.disable()
    # Whatever it is set to, the user can read and write what memdir creates, and nobody else can write it.
    os.umask((os.umask(0o077) | 0o022) & ~0o700)
    if sys.getfilesystemencoding() != "utf-8":
        # Names of memories are UTF-8; in another encoding some cannot be read, and others are read as other names.
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])
    if sys.argv[1:2] == ["worker"]:
        _lower_priority()
    if sys.argv[1:2] == ["hook"] and sys.argv[2:] not in (["-h"], ["--help"]):
        is_ending = _is_ending(sys.argv[2:])
        table = read_input((_ENDING_SECONDS if is_ending else _STDIN_SECONDS) * _read_patience())
        record_path = keep_ended_turn(sys.argv[2:], table) if is_ending and table else ""
        # A hook runs at every prompt and must not load the command line's libraries.
        from memdir.interfaces.hooks import run_hook

        # Exit without waiting for late threads; no buffer needs flushing.
        os._exit(run_hook(sys.argv[2:], table, kept=record_path))
    from memdir.interfaces.cli import run

    def start(module: str, function: str, **fixed: Any) -> Callable[..., int]:
        return lambda **options: getattr(import_module(f"memdir.interfaces.{module}"), function)(**fixed, **options)

    interfaces = {"mcp": start("mcp", "serve"), "ui": start("web.app", "serve")}
    interfaces |= {"chat": start("chat", "chat", run_verb=run), "demo": start("chat_commands", "demo", run_verb=run)}
    code = run(sys.argv[1:], interfaces=interfaces)
    gc.freeze()
    return code


def _lower_priority() -> None:
    """Lower the priority, so that the hook that started this process and the user's programs come first."""
    try:
        os.nice(10)
        # Linux may share the processor by session first; then the number counts only within one session.
        with open("/proc/self/autogroup", "w", encoding="ascii") as file:
            file.write("10")
    except (OSError, AttributeError):
        pass


def _is_ending(argv: list[str]) -> bool:
    words = [word for argument in argv for word in argument.split("=", 1)]
    return any("".join(char for char in word.lower() if "a" <= char <= "z") in _ENDING for word in words)


def _read_patience() -> float:
    try:
        return min(max(1.0, float(os.environ.get("MEMDIR_HOOK_PATIENCE", ""))), 300.0)
    except ValueError:
        return 1.0


def read_input(limit: float) -> dict[str, Any] | None:
    """Return the JSON object on standard input, an empty one if there is no input, and None for any other text.

    Stops at a complete object, because a host may leave the pipe open, and after `limit` seconds.
    """
    import json

    def parse(data: bytes) -> dict[str, Any] | None:
        try:
            value = json.loads(data)
        except (ValueError, RecursionError):
            return None
        return value if isinstance(value, dict) else None

    chunks: list[bytes] = []
    size, end = 0, time.monotonic() + limit
    try:
        while sys.stdin is not None and (seconds := end - time.monotonic()) > 0:
            # Parse only when nothing more has arrived: an object of many megabytes comes in a thousand chunks.
            is_idle = bool(chunks) and not select.select([0], [], [], 0)[0]
            if is_idle and chunks[-1].rstrip().endswith(b"}") and (table := parse(b"".join(chunks))) is not None:
                return table
            if not select.select([0], [], [], seconds)[0] or not (chunk := os.read(0, 1_048_576)):
                break
            chunks.append(chunk)
            size += len(chunk)
            if size > _STDIN_BYTES or chunks[0].lstrip().startswith(_OTHER_VALUES):
                return None
    except (OSError, ValueError):
        pass  # closed or unreadable: use the bytes read so far
    return parse(b"".join(chunks)) if chunks else {}


def keep_ended_turn(argv: list[str], table: dict[str, Any]) -> str:
    """Record which turn ended and return the record's path, or "" if there is nothing to record.

    Never raises: the hook itself may still succeed.
    """
    words = [word for argument in argv for word in argument.split("=", 1)]
    env = os.environ
    if env.get("MEMDIR_INSIDE") or table.get("agent_id"):
        return ""
    import json

    try:
        session, transcript, cwd = (table.get(key) for key in ("session_id", "transcript_path", "cwd"))
        host = words[words.index("--host") + 1] if "--host" in words[:-1] else "claude-code"
        # The directory in which the conversation began, if the host provides it; one host may run inside another.
        start_directory = env.get("CLAUDE_PROJECT_DIR") or env.get("GEMINI_PROJECT_DIR") or ""
        start_directory = start_directory if host.startswith(("claude", "gemini")) else ""
        folders = [
            path for path in (start_directory, cwd, os.getcwd()) if isinstance(path, str) and os.path.isabs(path)
        ]
        texts = (session, transcript, *folders)
        if any(not isinstance(text, str) or not text or "\0" in text or len(text) > _FIELD_CHARS for text in texts):
            return ""
        size = os.path.getsize(str(transcript)) if os.path.isfile(str(transcript)) else None
        headless = host.startswith("claude") and env.get("CLAUDE_CODE_ENTRYPOINT", "").startswith("sdk")
        row = {"session": session, "transcript": transcript, "position": size, "headless": headless, "cwd": folders}
        home, state = env.get("HOME", ""), env.get("XDG_STATE_HOME", "")
        if not os.path.isabs(state):
            state = os.path.join(home, ".local", "state")
        if not os.path.isabs(state):
            return ""
        folder = os.path.join(state, "memdir", "ended")
        path = os.path.join(folder, f"{time.time_ns():020d}-{os.urandom(4).hex()}.json")
        _write_new(path, json.dumps({**row, "host": host}).encode("ascii") + b"\n")
        return path
    except (OSError, ValueError):
        return ""


def _write_new(path: str, data: bytes) -> None:
    # Not flushed to disk: a killed process loses no written bytes, and the queue's entry is flushed.
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | getattr(os, "O_NOFOLLOW", 0)
    try:
        handle = os.open(path, flags, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        handle = os.open(path, flags, 0o600)
    try:
        os.write(handle, data)
    finally:
        os.close(handle)


if __name__ == "__main__":
    sys.exit(main())
