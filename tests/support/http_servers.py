"""The server for tests: the real application on a loopback socket, and a client that speaks HTTP."""

import http.client
import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from memdir.errors import MemdirError
from memdir.interfaces.server.access import OidcProvider, create_token
from memdir.interfaces.server.api import ServerContext
from memdir.interfaces.server.app import BODY_BYTES, build_app
from memdir.interfaces.server.page import COOKIE
from memdir.interfaces.web.listen import HttpLimits, HttpServer, listen
from memdir.postgres.database import PostgresDatabase
from memdir.store.contract import Clock, utc_now
from postgres import Postgres

TEXT = "---\nname: {title}\ndescription: {description}\ntype: project\n---\n{body}\n"


def memory(title: str = "Deploys", description: str = "Deploys happen on Tuesdays only", body: str = "Yes.") -> str:
    return TEXT.format(title=title, description=description, body=body)


@contextmanager
def serve(
    database: PostgresDatabase, oidc: OidcProvider | None = None, clock: Clock = utc_now, **options: Any
) -> Iterator[int]:
    """The port of a server that runs meanwhile."""
    # Earlier tests shared the address, whose failed logins all servers count together.
    with suppress(MemdirError):
        database.write(UUID(int=0), "DELETE FROM memdir.rates WHERE tenant = %(tenant)s")
    listener = listen(0)
    server = HttpServer(build_app(ServerContext(database, clock, oidc), **options), HttpLimits(body_bytes=BODY_BYTES))
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield listener.getsockname()[1]
    finally:
        server.should_exit = True
        thread.join(30)
        listener.close()  # a server that is stopped while it starts leaves it open


class Client:
    """One credential at one server."""

    def __init__(self, port: int, token: str = "", **headers: str) -> None:
        self.port, self.token, self.headers = port, token, headers

    def __call__(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
        status, data, _ = self.raw(method, path, body, **headers)
        return status, json.loads(data) if data else None

    def raw(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, bytes, dict[str, str]]:
        sent = {**({"Authorization": f"Bearer {self.token}"} if self.token else {}), **self.headers}
        sent |= {key.replace("_", "-"): value for key, value in headers.items()}
        data = None
        if body is not None:
            data = body if isinstance(body, bytes) else json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, data, sent)
            answer = connection.getresponse()
            return answer.status, answer.read(), {key.lower(): value for key, value in answer.getheaders()}
        finally:
            connection.close()


class Organisation:
    """A tenant with an admin's client, and other tokens on request."""

    def __init__(self, postgres: Postgres, port: int, name: str = "organisation") -> None:
        self.postgres, self.port = postgres, port
        self.tenant: UUID = postgres.tenant(name)
        self.admin = self.client("admin")

    def token(self, access: str, **options: Any) -> str:
        given = {"name": "t", "now": utc_now(), **options}
        return create_token(self.postgres.database, self.tenant, access=access, **given)[1]

    def client(self, access: str, **options: Any) -> Client:
        return Client(self.port, self.token(access, **options))


class Visitor:
    """A browser without one: keeps the cookie and sends what it is told to."""

    def __init__(self, port: int, token: str = "") -> None:
        self.port, self.own, self.cookie, self.set = port, f"http://127.0.0.1:{port}", "", ""
        if token:
            status, _, headers = self.send("POST", "/login", {"token": token})
            assert status == 303 and headers["location"] == "/", status
            self.set = headers["set-cookie"]
            self.cookie = f"{COOKIE}={SimpleCookie(self.set)[COOKIE].value}"

    def send(self, method: str, path: str, form: Any = None, **headers: str) -> tuple[int, str, dict[str, str]]:
        sent = {
            "cookie": self.cookie,
            **({"content-type": "application/x-www-form-urlencoded", "origin": self.own} if form is not None else {}),
        }
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        link = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            body = urlencode(form) if form is not None else None
            link.request(method, path, body, {name: value for name, value in sent.items() if value})
            answer = link.getresponse()
            text = answer.read().decode()
            found = {name.lower(): value for name, value in answer.getheaders()}
            cookies = "; ".join(answer.headers.get_all("set-cookie") or ())
            return answer.status, text, found | ({"set-cookie": cookies} if cookies else {})
        finally:
            link.close()

    def get(self, path: str) -> tuple[int, str]:
        return self.send("GET", path)[:2]

    def act(self, store: str, path: str, form: Any = (), **headers: str) -> tuple[int, str, dict[str, str]]:
        """Send a form that shows the word of the session, as the page has it."""
        word = re.search(r'name="csrf" value="([^"]+)"', self.get(f"{store}/memories")[1])
        return self.send("POST", f"{store}{path}", {"csrf": word[1] if word else "", **dict(form)}, **headers)

    def decide(self, store: str, what: str, item: int = 1, **headers: str) -> int:
        return self.act(store, "/do/decide", {"do": what, "item": f"team:{item}"}, **headers)[0]


def search(client: Client, store: str, query: str) -> Any:
    """Search when everything is indexed, which happens in the background."""
    while True:
        status, found = client("GET", f"{store}/search?{urlencode({'q': query})}")
        assert status == 200, found
        if found["complete"]:
            return found["memories"]


def ask_mcp(client: Client, method: str, **params: Any) -> Any:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
    }
    frame = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    more = {"Accept": "application/json, text/event-stream", "MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method}
    if "name" in params:
        more["Mcp_Name"] = params["name"]
    status, answer = client("POST", "/mcp", frame, **more)
    assert status == 200, answer
    return answer["result"]


def call_mcp(client: Client, tool: str, **arguments: Any) -> Any:
    found = ask_mcp(client, "tools/call", name=tool, arguments=arguments)
    text = found["content"][0]["text"]
    return {"refused": text} if found.get("isError") else json.loads(text)
