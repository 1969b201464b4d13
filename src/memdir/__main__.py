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
from typing import Any

_ENDING = frozenset("stop sessionend beforecompact precompact afteragent precompress".split())  # letters of the events
_STDIN_SECONDS = 2.0  # for a host that a busy machine stopped in the middle of its input
_STDIN_BYTES = 67_108_864
_FIELD_CHARS = 8_192


def main() -> int:
    # A call takes a fraction of a second; garbage collection would take a tenth of that and find none.
    gc.disable()
    if sys.argv[1:2] == ["worker"]:
        _lower_priority()
    if sys.argv[1:2] == ["hook"] and sys.argv[2:] not in (["-h"], ["--help"]):
        stdin_bytes, record_path = keep_ended_turn(sys.argv[2:])
        # A hook runs at every prompt and must not load the command line's libraries.
        from memdir.interfaces.hooks import run_hook

        # Exit without waiting for late threads; no buffer needs flushing.
        os._exit(run_hook(sys.argv[2:], given=stdin_bytes, kept=record_path))
    from memdir.interfaces.cli import run

    code = run(sys.argv[1:], interfaces={"mcp": _serve_mcp, "ui": _serve_ui, "chat": _chat, "demo": _demo})
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


def keep_ended_turn(argv: list[str]) -> tuple[bytes, str]:
    """Record which turn ended, if the event ends one. Return the bytes read from standard input and the record's path.

    Never raises: the hook itself may still succeed.
    """
    words = [word for argument in argv for word in argument.split("=", 1)]
    letters = ["".join(char for char in word.lower() if "a" <= char <= "z") for word in words]
    env = os.environ
    if not _ENDING.intersection(letters) or env.get("MEMDIR_INSIDE") or sys.stdin is None:
        return b"", ""
    import json

    data = b""
    try:
        data, table = _read_table()
        if table.get("agent_id"):
            return data, ""
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
            return data, ""
        size = os.path.getsize(str(transcript)) if os.path.isfile(str(transcript)) else None
        headless = host.startswith("claude") and env.get("CLAUDE_CODE_ENTRYPOINT", "").startswith("sdk")
        row = {"session": session, "transcript": transcript, "position": size, "headless": headless, "cwd": folders}
        home, state = env.get("HOME") or env.get("USERPROFILE") or "", env.get("XDG_STATE_HOME", "")
        if not os.path.isabs(state):
            state = os.path.join(home, ".local", "state")
        if not os.path.isabs(state):
            return data, ""
        folder = os.path.join(state, "memdir", "ended")
        path = os.path.join(folder, f"{time.time_ns():020d}-{os.urandom(4).hex()}.json")
        _write_new(path, json.dumps({**row, "host": host}).encode("ascii") + b"\n")
        return data, path
    except (OSError, ValueError):
        return data, ""


def _read_table() -> tuple[bytes, dict[str, Any]]:
    """Return standard input and its JSON object, which is empty for any other text.

    Stops at a complete object, at the end of the input, or after `_STDIN_SECONDS` without a byte.
    """
    import json

    data = b""
    try:
        while len(data) < _STDIN_BYTES and select.select([0], [], [], _STDIN_SECONDS)[0]:
            chunk = os.read(0, 1_048_576)
            data += chunk
            if not chunk or data.rstrip().endswith(b"}"):
                try:
                    value = json.loads(data)
                except (ValueError, RecursionError):
                    value = None
                if isinstance(value, dict):
                    return data, value
            if not chunk:
                break
    except (OSError, ValueError):
        pass  # closed or unreadable: use the bytes read so far
    return data, {}


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


def _chat(**options: Any) -> int:
    from memdir.interfaces.chat import chat
    from memdir.interfaces.cli import run

    return chat(run_verb=run, **options)


def _demo(**options: Any) -> int:
    from memdir.interfaces.chat import demo
    from memdir.interfaces.cli import run

    return demo(run_verb=run, **options)


def _serve_mcp(**options: Any) -> int:
    from memdir.interfaces.mcp import serve

    return serve(**options)


def _serve_ui(**options: Any) -> int:
    from memdir.interfaces.web.app import serve

    return serve(**options)


if __name__ == "__main__":
    sys.exit(main())
