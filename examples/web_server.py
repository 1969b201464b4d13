"""A web server with a memory for each of its users, on the standard library alone.

    python examples/web_server.py /srv/memories 8000
    curl -d '{"messages": [{"role": "user", "content": "Remember that I take my coffee black"}]}' \
        http://127.0.0.1:8000/users/17

A user's memory is a directory of their own, opened by its path: no environment variable or setting of the machine is
read, and nothing but the path decides whose memory it is. So the id in the address is checked to the letter, and a real
server takes it from its login instead. Every request opens the user's conversation anew; what must be known from one
request to the next is in its record on disk, so several such processes may serve the same users.

The answer is made of what is recalled. Put a model where `reply_to` is; the memory does not change by that. A framework
with an event loop makes the same calls through `asyncio.to_thread`.
"""

import json
import re
import signal
import sys
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import memdir
from memdir.session import RenderedReminders

USER = re.compile(r"/users/([a-z0-9-]{1,40})")
LARGEST = 1_000_000


def reply_to(messages: list[Any], found: RenderedReminders | None) -> str:
    if found is None:
        return "I know nothing about that yet."
    return "\n".join(excerpt.text for excerpt in found.recalled)


class Handler(BaseHTTPRequestHandler):
    root = Path()

    def do_POST(self) -> None:
        user, size = USER.fullmatch(self.path), int(self.headers.get("content-length") or 0)
        if user is None or not 0 < size <= LARGEST:
            self.send_error(404 if user is None else 413)
            return
        self.converse(user[1], json.loads(self.rfile.read(size))["messages"])

    def converse(self, user: str, messages: list[Any]) -> None:
        with (
            closing(memdir.FileStore(self.root / user / "memory")) as store,  # memory
            memdir.Session(store, id=f"web-{user}") as session,  # memory
        ):
            session.prompt_arrived(messages[-1]["content"])  # memory
            found = session.take_reminders(seconds=5)  # memory
            text = reply_to(messages, found)
            session.turn_ended([*messages, {"role": "assistant", "content": text}])  # memory
            self.answer({"text": text, "recalled": list(found.names) if found else []})

    def answer(self, table: dict[str, Any]) -> None:
        data = json.dumps(table).encode("utf-8")
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet: what people ask is nobody's business."""


class Server(ThreadingHTTPServer):
    daemon_threads = False  # leaving waits for every request, and so for what it is learning
    request_queue_size = 128


def serve(root: Path, port: int) -> None:
    Handler.root = root
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # to be told to end is no reason to lose anything
    with Server(("127.0.0.1", port), Handler) as server:
        print(server.server_address[1], flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            pass


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    serve(Path(sys.argv[1]), int(sys.argv[2]))
