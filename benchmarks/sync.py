"""What a sync costs beside git itself: a person's memories, plain and encrypted, and a team's, with a remote over HTTP on loopback.

    python benchmarks/sync.py [--sizes 100,10000] [--runs 7] [--only plain,encrypted,team]

Processor time is that of the process and of all processes it starts, beyond that of `memdir sync --help`, without the
server; medians of interleaved runs. Sent is what the server receives in the bodies of requests. Opened are the files that
all processes of a sync without a change open below the memory directory (strace). The goals are those of issue 30: no
change at most 3 × `git ls-remote`, as many files opened at every size, one change under 20 KB, encrypted under 40 KB. The
exit code is 1 if one is missed.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from memdir.format.frontmatter import parse_fields
from memdir.format.index import render_line
from sentences import make_texts

FORMS = {"plain": ("sync",), "encrypted": ("sync",), "team": ("team", "sync")}
MEMDIR = (sys.executable, "-P", "-m", "memdir")
received = 0  # bytes in bodies of requests


class GitServer(BaseHTTPRequestHandler):
    """git's own HTTP server, `git http-backend`, for one folder of repositories."""

    protocol_version = "HTTP/1.1"
    root = ""

    def do_GET(self) -> None:
        self.answer(b"")

    def do_POST(self) -> None:
        global received
        if self.headers.get("Transfer-Encoding") == "chunked":
            body = b""
            while size := int(self.rfile.readline(), 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        received += len(body)
        self.answer(body)

    def answer(self, body: bytes) -> None:
        path, _, query = self.path.partition("?")
        env = {
            "PATH": os.environ["PATH"], "GIT_PROJECT_ROOT": self.root, "GIT_HTTP_EXPORT_ALL": "1", "PATH_INFO": path,
            "QUERY_STRING": query, "REQUEST_METHOD": self.command, "REMOTE_USER": "me", "REMOTE_ADDR": "127.0.0.1",
            "CONTENT_TYPE": self.headers.get("Content-Type", ""), "CONTENT_LENGTH": str(len(body)),
            "HTTP_CONTENT_ENCODING": self.headers.get("Content-Encoding", ""),
            "GIT_PROTOCOL": self.headers.get("Git-Protocol", ""), "GIT_CONFIG_NOSYSTEM": "1", "HOME": self.root,
        }  # fmt: skip
        done = subprocess.run(["git", "http-backend"], input=body, env=env, capture_output=True, check=True)
        head, _, data = done.stdout.partition(b"\r\n\r\n")
        rows = [line.split(": ", 1) for line in head.decode().splitlines()]
        status = next((int(value[:3]) for name, value in rows if name == "Status"), 200)
        self.send_response(status)
        for name, value in rows:
            if name != "Status":
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: object) -> None:
        return


class Machine:
    """One machine of a person or one member of a team, with a home of its own and the project `app`."""

    def __init__(self, folder: Path, form: str, remote: str) -> None:
        self.form, self.remote, self.home = form, remote, folder / "home"
        self.project = folder / "app"
        self.project.mkdir(parents=True)
        self.home.mkdir()
        self.env = {"PATH": os.environ["PATH"], "HOME": str(self.home), "MEMDIR_AUTHOR": "Me <me@example.org>"}
        if "PYTHONPATH" in os.environ:
            self.env["PYTHONPATH"] = os.environ["PYTHONPATH"]
        git = ("git", "-C", str(self.project))
        author = ("-c", "user.name=Me", "-c", "user.email=me@example.org")
        origin = ("remote", "add", "origin", "https://git.example.org/me/app.git")
        for command in (("init", "-q"), origin, (*author, "commit", "-q", "--allow-empty", "-m", "Begin")):
            subprocess.run([*git, *command], env=self.env, check=True)
        self.memory = Path(json.loads(self.run("where", "--json"))["private"]["path"])
        self.folder = self.memory / "team" if form == "team" else self.memory

    def run(self, *arguments: str) -> str:
        command = [*MEMDIR, *arguments]
        return subprocess.run(
            command, env=self.env, cwd=self.project, check=True, capture_output=True, text=True
        ).stdout

    def fill(self, count: int) -> None:
        """Memories with a line each in the index. A team has no memories about the person."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lines = []
        for file, text in make_texts(count):
            name = file.replace("password", "lantern")
            text = text.replace("password", "lantern")  # a line with a password is not sent, and no index with it
            text = text.replace("type: user", "type: project") if self.form == "team" else text
            (self.folder / name).write_text(text, encoding="utf-8")
            fields = parse_fields(text)
            lines.append(render_line(fields.title, name.removesuffix(".md"), fields.description) + "\n")
        (self.folder / "MEMORY.md").write_text("".join(lines), encoding="utf-8")

    def start(self) -> None:
        if self.form == "team":
            self.run("team", "init", "--remote", self.remote, "--no-review", "--timeout", "600")
        else:
            self.run("sync", "init", self.remote, "--timeout", "600", *["--encrypt"] * (self.form == "encrypted"))

    def sync(self) -> dict[str, object]:
        table = json.loads(self.run(*FORMS[self.form], "--json"))
        assert isinstance(table, dict) and table["outcome"] == "synced" and not table["withheld"], table
        return table

    def change(self, number: int) -> None:
        name = f"note-{number}"
        scope = ["--scope", "team"] if self.form == "team" else []
        words = ["--description", f"Deploys of round {number} happen on Tuesdays only", "--body", "Because of support."]
        self.run("save", "--type", "feedback", "--name", name, *words, *scope)


def measure(command: Sequence[str], machine: Machine) -> float:
    """Milliseconds of the processor, of the process and all it waits for."""
    process = subprocess.Popen(command, env=machine.env, cwd=machine.project, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, command
    return (usage.ru_utime + usage.ru_stime) * 1000


def count_opened(command: Sequence[str], machine: Machine, folder: Path) -> int:
    """How often a file below the memory directory or the copies of the branch is opened; folders do not count."""
    log = folder / "strace.log"
    trace = ["strace", "-f", "-qq", "-o", str(log), "-e", "trace=open,openat"]
    subprocess.run([*trace, *command], env=machine.env, cwd=machine.project, stdout=subprocess.DEVNULL, check=True)
    rows = log.read_text(encoding="utf-8", errors="replace").splitlines()
    opened = [row for row in rows if " = -1 " not in row and "O_DIRECTORY" not in row and "/usr/" not in row]
    return sum(bool(re.search(r'\.md"|\.memdir|memdir/sync|/\.claude/|sync\.git', row)) for row in opened)


def play(form: str, count: int, runs: int, root: Path, port: int) -> dict[str, float]:
    global received
    folder = root / f"{form}-{count}"
    folder.mkdir()
    name = f"{form}-{count}.git"
    subprocess.run(["git", "init", "-q", "--bare", str(root / name)], check=True)
    subprocess.run(["git", "-C", str(root / name), "config", "http.receivepack", "true"], check=True)
    address = f"http://127.0.0.1:{port}/{name}"
    machine = Machine(folder, form, address)
    machine.fill(count)
    machine.change(-1)  # memdir records whose directory it is when it first writes
    machine.start()
    machine.sync()
    machine.sync()
    command = (*MEMDIR, *FORMS[form], "--json")
    ask = ("git", "ls-remote", address)
    times: dict[str, list[float]] = {"start": [], "same": [], "git": []}
    for _ in range(runs):
        times["start"].append(measure((*MEMDIR, *FORMS[form], "--help"), machine))
        times["git"].append(measure(ask, machine))
        times["same"].append(measure(command, machine))
    row = {key: statistics.median(values) for key, values in times.items()}
    row["beyond"] = row["same"] - row["start"]
    row["ratio"] = row["beyond"] / row["git"]
    row["opened"] = count_opened(command, machine, folder) if shutil.which("strace") else -1
    sent, changes = [], []
    for number in range(3):
        machine.change(number)
        received = 0
        changes.append(measure(command, machine))
        sent.append(received)
    row["change"] = statistics.median(changes) - row["start"]
    row["sent"] = max(sent)
    return row


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="100,10000")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--only", default=",".join(FORMS))
    given = parser.parse_args()
    sizes = [int(size) for size in given.sizes.split(",")]
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        GitServer.root = folder
        server = ThreadingHTTPServer(("127.0.0.1", 0), GitServer)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            print("Milliseconds of the processor, beyond start-up\n")
            print("| form | memories | no change | git ls-remote | ratio | files opened | one change | bytes sent |")
            print("|---|---|---|---|---|---|---|---|", flush=True)
            missed = False
            for form in given.only.split(","):
                opened = set()
                for size in sizes:
                    count = min(size, 4_000) if form == "team" else size  # a team has at most 5,000 files
                    row = play(form, count, given.runs, Path(folder), server.server_port)
                    opened.add(row["opened"])
                    cells = ["beyond", "git", "ratio", "opened", "change", "sent"]
                    shown = [f"{row[key]:.1f}" if key == "ratio" else f"{row[key]:,.0f}" for key in cells]
                    print(f"| {form} | {count:,} | {' | '.join(shown)} |", flush=True)
                    limit = 40_000 if form == "encrypted" else 20_000
                    missed = missed or row["ratio"] > 3 or row["sent"] >= limit
                missed = missed or len(opened) > 1
        finally:
            server.shutdown()
            thread.join()
            server.server_close()
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
