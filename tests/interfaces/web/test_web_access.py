"""Attacks on the page of a person: other sites, other users of the machine, used and wrong tokens, large and slow requests."""

import hashlib
import socket
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from loads import ROOT
from memdir.interfaces.web.access import HEADERS
from memdir.interfaces.web.app import open_browser
from memdir.records import Draft, Kind
from memdir.store.open import open_project
from ui_server import PageClient, serving


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PageClient]:
    home = tmp_path_factory.mktemp("home")
    root = home / "work"
    (root / ".git").mkdir(parents=True)
    project = open_project(root, environ={"HOME": str(home), "PATH": "/usr/bin:/bin"})
    project.private.write(
        Draft(Kind.PROJECT, "Deploys", "Deploys happen on Tuesdays only", "The SECRET-WORD is here.", "deploys")
    )
    with serving(project) as client:
        yield client.sign_in()
    project.close()


def test_a_request_that_is_not_ours_is_refused_and_learns_nothing(page: PageClient) -> None:
    own, cookie, list_path = f"http://{page.own}", page.cookie, f"{page.root}/memories"
    act = f"{page.root}/m/private/deploys/do/forget"
    form = {"content-type": "application/x-www-form-urlencoded"}
    cases: list[tuple[str, int, str, str, bytes | None, dict[str, str]]] = [
        ("a foreign name that points here", 403, "GET", list_path, None, {"host": f"evil.example:{page.port}", "cookie": cookie}),
        ("no port in the name", 403, "GET", list_path, None, {"host": "127.0.0.1", "cookie": cookie}),
        ("another port", 403, "GET", list_path, None, {"host": "127.0.0.1:1", "cookie": cookie}),
        ("a name that only begins so", 403, "GET", list_path, None, {"host": f"127.0.0.1.evil:{page.port}", "cookie": cookie}),
        ("no cookie", 401, "GET", list_path, None, {}),
        ("no cookie, as JSON", 401, "GET", f"{page.root}/memories.json", None, {}),
        ("no cookie, events", 401, "GET", f"{page.root}/events", None, {}),
        ("a wrong cookie", 401, "GET", list_path, None, {"cookie": f"memdir_{page.port}=wrong"}),
        ("the cookie under another name", 401, "GET", list_path, None, {"cookie": cookie.replace("memdir_", "other_")}),
        ("another site reads", 403, "GET", list_path, None, {"cookie": cookie, "origin": "https://evil.example"}),
        ("another site embeds", 403, "GET", list_path, None, {"cookie": cookie, "sec-fetch-site": "cross-site"}),
        ("another port embeds", 403, "GET", list_path, None, {"cookie": cookie, "sec-fetch-site": "same-site"}),
        ("another site posts", 403, "POST", act, b"", {"cookie": cookie, "origin": "https://evil.example", **form}),
        ("another port posts", 403, "POST", act, b"", {"cookie": cookie, "origin": "http://127.0.0.1:1", **form}),
        ("the null origin posts", 403, "POST", act, b"", {"cookie": cookie, "origin": "null", **form}),
        ("no origin posts", 403, "POST", act, b"", {"cookie": cookie, **form}),
        ("a site posts with our origin made up", 403, "POST", act, b"",
         {"cookie": cookie, "origin": own, "sec-fetch-site": "cross-site", **form}),
        ("a form without its word", 403, "POST", act, b"csrf=", {"cookie": cookie, "origin": own, **form}),
        ("a form with a wrong word", 403, "POST", act, b"csrf=x", {"cookie": cookie, "origin": own, **form}),
        ("JSON instead of a form", 415, "POST", act, b"{}", {"cookie": cookie, "origin": own, "content-type": "application/json"}),
        ("plain text instead of a form", 415, "POST", act, b"a", {"cookie": cookie, "origin": own, "content-type": "text/plain"}),
        ("a preflight", 405, "OPTIONS", list_path, None, {"cookie": cookie}),
        ("another method", 405, "PUT", act, b"", {"cookie": cookie, "origin": own}),
        ("the token again", 403, "POST", f"{page.root}/open", page.token.encode(), {"origin": own}),
        ("a wrong token", 403, "POST", f"{page.root}/open", b"x" * 43, {"origin": own}),
        ("no token", 403, "POST", f"{page.root}/open", b"", {"origin": own}),
        ("a token from another site", 403, "POST", f"{page.root}/open", b"x", {"origin": "https://evil.example"}),
        ("a token that never ends", 403, "POST", f"{page.root}/open", b"x" * 100_000, {"origin": own}),
        ("without the path of this run", 401, "GET", "/memories", None, {}),
        ("the root", 401, "GET", "/", None, {}),
        ("out of the static folder", 404, "GET", f"{page.root}/static/../app.py", None, {"cookie": cookie}),
        ("out of it, encoded", 404, "GET", f"{page.root}/static/%2e%2e/app.py", None, {"cookie": cookie}),
        ("out of the memory", 422, "GET", f"{page.root}/m/private/%2e%2e/%2e%2e/secret", None, {"cookie": cookie}),
    ]  # fmt: skip
    failed = []
    for what, status, method, path, body, headers in cases:
        answer = page.send(method, path, body, headers)
        allowed = [name for name in answer.headers if name.startswith("access-control-")]
        if answer.status != status or "SECRET-WORD" in answer.text or "Tuesdays" in answer.text or allowed:
            failed.append((what, status, answer.status, answer.text[:80]))
    assert failed == []
    assert "Tuesdays" in page.get("/memories").text


def test_every_answer_has_the_headers(page: PageClient) -> None:
    for path in ("/memories", "/memories.json", "/static/ui.css", "/open", "/nothing", "/m/private/nothing"):
        answer = page.get(path)
        assert {name: answer.headers.get(name) for name in HEADERS} == dict(HEADERS), path
        assert "server" not in answer.headers


def test_the_cookie_is_bound_to_this_run_and_cannot_be_read_by_scripts(tmp_path: Path) -> None:
    (tmp_path / "work" / ".git").mkdir(parents=True)
    project = open_project(tmp_path / "work", environ={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"})
    with serving(project) as client:
        own = {"origin": f"http://{client.own}"}
        answer = client.send("POST", f"{client.root}/open", client.token.encode(), own)
        name, _, rest = answer.headers["set-cookie"].partition("=")
        assert name == f"memdir_{client.port}"
        assert rest.partition("; ")[2] == f"HttpOnly; SameSite=Strict; Path={client.root}/"
        assert len(rest.partition(";")[0]) >= 43 and client.token not in rest
        assert client.send("POST", f"{client.root}/open", client.token.encode(), own).status == 403
    project.close()


def test_too_large_a_form_is_refused(page: PageClient) -> None:
    form = {"content-type": "application/x-www-form-urlencoded", "origin": f"http://{page.own}", "cookie": page.cookie}
    path = f"{page.root}/m/private/deploys/do/save"
    announced = page.send("POST", path, None, {**form, "content-length": "99999999999"})
    assert announced.status == 413
    assert "Tuesdays" in page.get("/memories").text


@pytest.mark.slow
def test_connections_that_say_nothing_do_not_stop_it(page: PageClient) -> None:
    quiet = [socket.create_connection(("127.0.0.1", page.port)) for _ in range(150)]
    try:
        for at in quiet[:40]:
            at.sendall(b"GET / HTTP/1.1\r\nHost: ")
        assert page.get("/memories").status == 200
    finally:
        for at in quiet:
            at.close()


def test_the_browser_is_led_by_a_private_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)
    open_browser(tmp_path, "http://127.0.0.1:1/x/open#token")
    (file,) = tmp_path.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert opened == [file.as_uri()] and "token" not in opened[0] and "#token" in file.read_text(encoding="utf-8")


def test_vendored_files_are_what_notice_says() -> None:
    data = (ROOT / "src/memdir/interfaces/web/static/htmx.min.js").read_bytes()
    assert hashlib.sha256(data).hexdigest() in (ROOT / "NOTICE").read_text(encoding="utf-8")
    assert "Zero-Clause BSD" in (ROOT / "src/memdir/interfaces/web/static/htmx.LICENSE").read_text(encoding="utf-8")
