"""A host whose turn ends: says something into its transcript, queues the turn, and starts a worker.

    host.py MEMORY TRANSCRIPT NUMBER TEXT

It says `queued` when the turn is in the queue; whoever reads that may rely on it. Killed before, nothing is promised.
"""

import json
import os
import sys
from pathlib import Path

from memdir.files import start_detached
from memdir.store import sessions


def say(transcript: Path, number: int, text: str) -> None:
    """One turn at the transcript's end, in one write, as hosts do."""
    rows = (("user", text, f"u{number}"), ("assistant", "Noted.", f"a{number}"))
    made = b""
    parent = f"a{number - 1}" if number else None
    for role, said, uuid in rows:
        record = {
            "type": role,
            "uuid": uuid,
            "parentUuid": parent,
            "sessionId": "s1",
            "timestamp": "2026-03-05T12:00:00Z",
            "message": {"role": role, "content": said},
        }
        made += json.dumps(record).encode("ascii") + b"\n"
        parent = uuid
    handle = os.open(transcript, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(handle, made)
    os.fsync(handle)
    os.close(handle)


def main() -> None:
    memory, transcript, number, text = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    say(transcript, number, text)
    sessions.enqueue(memory / ".memdir", sessions.QueuedTurn("s1", str(transcript)))
    os.write(1, b"queued\n")
    os.write(1, b"%d\n" % start_detached(memory.parent, "--dir", str(memory), "worker"))


if __name__ == "__main__":
    main()
