"""The page as a real process, and a plain client for it."""

import http.client
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlencode

from memdir.frozen import dataclass
from memdir.store.open import Project


@dataclass(frozen=True, slots=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    text: str


class PageClient:
    """Sends what it is told to; `sign_in` shows the token once and keeps the cookie."""

    def __init__(self, address: str, pid: int = 0) -> None:
        self.address, self.pid = address, pid
        found = re.fullmatch(r"http://127\.0\.0\.1:(\d+)(/[0-9a-z]+)/open#(.+)", address)
        assert found, address
        self.port, self.root, self.token = int(found[1]), found[2], found[3]
        self.cookie = self._csrf = ""

    @property
    def own(self) -> str:
        return f"127.0.0.1:{self.port}"

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        seconds: float = 30,
    ) -> Answer:
        """One request as it stands, on a connection of its own; a Host header is given unless `headers` has one."""
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        try:
            given = {"host": self.own, **(headers or {})}
            link.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            for name, value in given.items():
                if value:
                    link.putheader(name, value)
            if body is not None:
                link.putheader("content-length", str(len(body)))
            link.endheaders(body)
            answer = link.getresponse()
            text = answer.read().decode("utf-8", "replace")
            return Answer(answer.status, {name.lower(): value for name, value in answer.getheaders()}, text)
        finally:
            link.close()

    def sign_in(self) -> "PageClient":
        answer = self.send("POST", f"{self.root}/open", self.token.encode(), {"origin": f"http://{self.own}"})
        assert answer.status == 204, answer
        self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return self

    def get(self, path: str, **headers: str) -> Answer:
        return self.send("GET", f"{self.root}{path}", None, {"cookie": self.cookie, **headers})

    def post(self, path: str, fields: Sequence[tuple[str, str]], **headers: str) -> Answer:
        if not self._csrf:  # the same for all forms of a session
            found = re.search(r'name="csrf" value="([^"]+)"', self.get("/memories").text)
            self._csrf = found[1] if found else ""
        body = urlencode([("csrf", self._csrf), *fields]).encode()
        form = {
            "content-type": "application/x-www-form-urlencoded",
            "origin": f"http://{self.own}",
            "cookie": self.cookie,
        }
        return self.send("POST", f"{self.root}{path}", body, {**form, **headers})


@contextmanager
def serving(project: Project, *options: str) -> Iterator[PageClient]:
    """`memdir ui` in a process of its own, until the block ends."""
    environ = {**os.environ, **dict(project.environment.inherited)}
    command = [sys.executable, "-m", "memdir", "ui", *options]
    root: Path = project.places.root.path
    process = subprocess.Popen(command, cwd=root, env=environ, stdout=subprocess.PIPE, encoding="utf-8")
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        yield PageClient(address, process.pid)
    finally:
        process.terminate()
        process.wait(timeout=120)
        if process.stdout is not None:
            process.stdout.close()
