"""Learn from all conversations of a benchmark through `memdir extract --all`, decoys included.

The conversations become transcripts of Claude Code in a home of their own. A turn without a time (`at`) gets one: the
conversations are held one a day, in a fixed random order in which those of one task keep theirs. The model is any that memdir knows. `RecordedAnswers` is one on this machine: it plays the answers of
`tests/data`, waits for a reader who works through a folder as with `answer_by_hand.py`, and counts tokens.
"""

import hashlib
import json
import os
import random
import shutil
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from memdir.records import Message, Request
from memdir.text import estimate_tokens
from opinions import list_statements, load_opinions
from proof.arms import Talk
from recorded_reader import load_answers, make_key

START = datetime(2026, 5, 4, 9, tzinfo=UTC)
REPO = "boltons"
_MARK = "\n==========\n"
_ASKED = " The message:\n\n"
_PATIENCE = 900.0


def read_conversations(tasks: Path, decoys: Path | None) -> list[tuple[str, Talk]]:
    """Return all conversations with their names, in the order in which they were held."""
    talks = {
        f"{task.name}-{path.stem}": json.loads(path.read_text(encoding="utf-8"))
        for task in sorted(tasks.iterdir())
        for path in sorted((task / "conversations").glob("*.json"))
    }
    if decoys is not None:
        rows = map(json.loads, decoys.read_text(encoding="utf-8").splitlines())
        talks |= {row["id"]: row["turns"] for row in rows}
    names = sorted(talks)
    random.Random(33).shuffle(names)
    # Those of one task stand in the places that were drawn for them, in their own order.
    places: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        task = name.rpartition("-")[0]
        places.setdefault(task if (tasks / task).is_dir() else name, []).append(place)
    for taken in places.values():
        for place, name in zip(taken, sorted(names[place] for place in taken), strict=True):
            names[place] = name
    return [(name, talks[name]) for name in names]


def write_transcripts(talks: Sequence[tuple[str, Talk]], home: Path, repo: Path) -> None:
    folder = home / ".claude" / "projects" / str(repo).replace("/", "-").replace(".", "-").replace("_", "-")
    folder.mkdir(parents=True)
    for day, (name, talk) in enumerate(talks):
        session, before, lines = str(uuid.uuid5(uuid.NAMESPACE_URL, name)), None, []
        for number, turn in enumerate(talk):
            now = START + timedelta(days=day, minutes=number)
            now = datetime.fromisoformat(turn["at"]) if "at" in turn else now
            id = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{name}/{number}"))
            content: object = turn["text"] if turn["role"] == "user" else [{"type": "text", "text": turn["text"]}]
            row = {
                "parentUuid": before,
                "isSidechain": False,
                "userType": "external",
                "cwd": str(repo),
                "sessionId": session,
                "version": "2.1.0",
                "type": turn["role"],
                "message": {"role": turn["role"], "content": content},
                "uuid": id,
                "timestamp": now.isoformat().replace("+00:00", "Z"),
            }
            lines.append(json.dumps(row, ensure_ascii=False))
            before = id
        path = folder / f"{session}.jsonl"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        os.utime(path, (now.timestamp(), now.timestamp()))


def learn(work: Path, tasks: Path, decoys: Path | None, memdir: Sequence[str], environment: Mapping[str, str]) -> None:
    """Learn in WORK/learned; run again to go on where a model failed."""
    home, repo = work / "learned" / "home", work / "learned" / REPO
    if not home.exists():
        talks = read_conversations(tasks, decoys)
        repo.mkdir(parents=True)
        subprocess.run(["git", "init", "-q", "."], cwd=repo, check=True)
        write_transcripts(talks, home, repo)
        order = [{"name": name, "turns": len(talk)} for name, talk in talks]
        (work / "learned" / "order.json").write_text(json.dumps(order, indent=1), encoding="utf-8")
    env = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", **environment}
    began = time.monotonic()
    done = subprocess.run(
        [*memdir, "extract", "--all", "--yes", "--json"], cwd=repo, env=env, capture_output=True, text=True, check=False
    )
    (work / "learned" / "extract.json").write_text(done.stdout, encoding="utf-8")
    print(done.stderr[-2000:], f"{time.monotonic() - began:.0f} s, exit code {done.returncode}")


def make_login(address: str) -> dict[str, str]:
    """Return the environment in which memdir asks a server of recorded answers."""
    key = {"ANTHROPIC_BASE_URL": address, "ANTHROPIC_API_KEY": "sk-test-1234567890"}
    return {**key, "MEMDIR_MODEL": "anthropic:any"}


def copy_memory(learned: Path, home: Path, repo: Path, memdir: Sequence[str], env: Mapping[str, str]) -> Path:
    """Copy the memories learned to where memdir has those of `repo`; what memdir keeps beside them is built again."""
    where = subprocess.run(
        [*memdir, "where", "--json"], cwd=repo, env=dict(env), capture_output=True, text=True, check=True
    )
    target = Path(json.loads(where.stdout)["private"]["path"])
    target.mkdir(parents=True, exist_ok=True)
    assert target.is_relative_to(home)
    for path in learned.glob("*.md"):
        shutil.copy(path, target / path.name)
    return target


class RecordedAnswers(ThreadingHTTPServer):
    """An endpoint of Anthropic's API. What has no recorded answer is written to `folder` as a request and waits for the
    file with the answer; without `waits` it is refused at once. A given answer is kept and played again."""

    daemon_threads = True

    def __init__(self, folder: Path, *, waits: bool, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), _Handler)
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.waits, self.lock = folder, waits, threading.Lock()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"

    def find_answer(self, request: Request) -> tuple[str, str | None]:
        """Return the key of a request and its answer, if there is one."""
        texts = [message.text for message in request.messages]
        if texts[0].count(_MARK) >= 5 or len(texts) > 1:
            key = make_key(texts)
            answer = load_answers().get(key)
        else:
            key = hashlib.sha256("\n".join((request.system, *texts)).encode()).hexdigest()[:16]
            answer = None
            if _ASKED in texts[0]:  # a selection: by what the person wrote
                key = hashlib.sha256(texts[0].rpartition(_ASKED)[2].strip().encode()).hexdigest()[:16]
            elif _MARK in texts[0]:
                known, statements = load_opinions(), list_statements(request)
                # Without the time of day that the request tells.
                key = hashlib.sha256("\n".join(name for _, _, name in statements).encode()).hexdigest()[:16]
                if all(statement in known for _, _, statement in statements):
                    answer = json.dumps({"follow": [number for number, _, name in statements if known[name]]})
        path = self.folder / f"{key}.answer"
        return key, path.read_text(encoding="utf-8") if path.exists() else answer

    def ask(self, request: Request) -> tuple[str, str, str]:
        """Return the key, the answer and where it came from; the answer is empty if there is none."""
        key, answer = self.find_answer(request)
        if answer is not None:
            return key, answer, "recorded"
        text = f"{request.system}\n\n" + "\n\n".join(f"[{one.role}]\n{one.text}" for one in request.messages)
        (self.folder / f"{key}.request").write_text(text, encoding="utf-8")
        end = time.monotonic() + _PATIENCE
        while self.waits and time.monotonic() < end:
            time.sleep(0.2)
            if (answer := self.find_answer(request)[1]) is not None:
                return key, answer, "asked"
        return key, "", "none"

    def note(self, row: Mapping[str, object]) -> None:
        with self.lock, (self.folder / "log.jsonl").open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


@contextmanager
def serve_answers(folder: Path, *, waits: bool = False) -> Iterator[RecordedAnswers]:
    server = RecordedAnswers(folder, waits=waits)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: RecordedAnswers

    def log_message(self, *_: object) -> None:
        pass

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        messages = tuple(Message(one["role"], _join(one["content"])) for one in body["messages"])
        request = Request(
            system=_join(body.get("system", "")), messages=messages, max_tokens=body["max_tokens"], purpose="recorded"
        )
        key, answer, source = self.server.ask(request)
        counts = {
            "input_tokens": sum(estimate_tokens(text) for text in (request.system, *(one.text for one in messages))),
            "output_tokens": estimate_tokens(answer),
        }
        self.server.note({"key": key, "source": source, **counts})
        if not answer:
            error = {"type": "error", "error": {"type": "invalid_request_error", "message": "no recorded answer"}}
            return self._send(400, error)
        message = {"id": f"msg_{key}", "type": "message", "role": "assistant", "model": body["model"], "usage": counts}
        content = [{"type": "text", "text": answer}]
        if body.get("stream"):
            return self._stream(message, answer)
        self._send(200, message | {"content": content, "stop_reason": "end_turn", "stop_sequence": None})

    def _send(self, status: int, table: Mapping[str, object]) -> None:
        data = json.dumps(table).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, message: dict[str, Any], answer: str) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        started = message | {"content": [], "stop_reason": None, "stop_sequence": None}
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": started},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
            {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": answer}},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": "end_turn", "stop_sequence": None},
                "usage": {"output_tokens": message["usage"]["output_tokens"]},
            },
            {"type": "message_stop"},
        ]
        for event in events:
            self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
        self.close_connection = True


def _join(content: object) -> str:
    if isinstance(content, list):
        return "".join(str(block.get("text", "")) for block in content)
    return str(content)


def find_memories(work: Path) -> Path | None:
    """Return the folder of the memories learned, if there is one."""
    return next((path.parent for path in (work / "learned" / "home").rglob("MEMORY.md")), None)
