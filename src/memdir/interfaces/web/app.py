"""Routes, templates and error pages of the web interface.

`find_site` returns the stores of a request, and the caller checks access. Each page has a JSON version at the same URL with
`.json`. Every change is a POST of a form with the session's CSRF token.
"""

import asyncio
import gc
import hmac
import json
import re
import sys
import tempfile
import webbrowser
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlencode

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from memdir.errors import (
    BudgetError,
    ConflictError,
    DiskError,
    FormatError,
    LockedError,
    MemdirError,
    ModelError,
    NotFoundError,
    PathError,
    SecretError,
    SettingsError,
)
from memdir.frozen import list_fields
from memdir.interfaces.web import actions, overview, pages, review
from memdir.interfaces.web.access import ACTIONS, CSRF, MEMORY, OPEN, LoopbackGate, OneTimeToken
from memdir.interfaces.web.actions import ActionResult, Form, MergeNeeded
from memdir.interfaces.web.listen import HOST, App, AsgiScope, HttpLimits, HttpServer, Receive, Send, listen
from memdir.interfaces.web.pages import Params, Row
from memdir.interfaces.web.render import DiffLine, icon, kind, mark_code, plain
from memdir.interfaces.web.site import Site, Sites
from memdir.store.open import open_project

HERE = Path(__file__).parent
FindSite = Callable[[Request], Site]
_STATUS: Sequence[tuple[type[MemdirError], int]] = (
    (NotFoundError, 404),
    (ConflictError, 409),
    (FormatError, 422),
    (SecretError, 422),
    (PathError, 422),
    (SettingsError, 403),
    (LockedError, 503),
    (DiskError, 503),
    (BudgetError, 503),
    (ModelError, 502),
    (MemdirError, 500),
)
_PROJECT = "memdir.project"  # scope key: the key of a site
_PROJECT_PATH = re.compile(r"/p/(?P<key>[^/]+)(?=/)")
_PING_SECONDS = 20.0
_KEPT_NOTICES = 200
_CONNECTIONS = 300  # browsers keep several; each open tab uses one for events
_BODY_BYTES = 8_388_608  # a form with two escaped versions of the largest memory


def make_app(find_site: FindSite, *, on_end: Callable[[], None] = lambda: None) -> Starlette:
    """Return the ASGI application. The caller sets `memdir.csrf` in the scope of requests that may change something, and
    `memdir.actions` to restrict the actions."""
    pages_of = _Pages(find_site)

    @asynccontextmanager
    async def live(_: Starlette) -> AsyncIterator[None]:
        yield
        on_end()

    routes = [
        Route("/", lambda request: RedirectResponse(f"{_find_base_path(request)}/memories", 303)),
        *pages_of.page("/memories", "memories.html", pages.show_memories),
        *pages_of.page("/new", "new.html", pages.show_new),
        *pages_of.page("/inbox", "inbox.html", review.show_inbox),
        *pages_of.page("/dream", "dream.html", review.show_dream),
        *pages_of.page("/dream/{id}", "dream.html", lambda site, params: review.show_dream(site, params, params["id"])),
        *pages_of.page("/why", "why.html", overview.show_why),
        *pages_of.page("/timeline", "timeline.html", overview.show_timeline),
        *pages_of.page("/health", "health.html", overview.show_health),
        Route("/events", pages_of.events),
        Route(OPEN, pages_of.open),
        Route("/do/{action}", pages_of.act, methods=["POST"]),
        Route("/dream/{id}/apply", pages_of.apply, methods=["POST"]),
        Route("/m/{home}/{name:path}/do/{action}", pages_of.act_on_memory, methods=["POST"]),
        *pages_of.page(
            "/m/{home}/{name:path}",
            "memory.html",
            lambda site, params: pages.show_memory(site, params["home"], params["name"], params, params["base"]),
        ),
        Mount("/static", StaticFiles(directory=HERE / "static")),
    ]
    handlers: Any = {MemdirError: pages_of.show_error, HTTPException: pages_of.show_http_error}
    return Starlette(routes=routes, exception_handlers=handlers, lifespan=live)


def make_templates() -> Environment:
    loader = FileSystemLoader(HERE / "templates")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.globals |= {"name_who": pages.name_who, "urlencode": urlencode}
    environment.filters |= {"plain": plain, "icon": icon, "kind": kind, "code": mark_code}
    return environment


class _Pages:
    def __init__(self, find_site: FindSite) -> None:
        self._find_site = find_site
        self._notices: OrderedDict[tuple[object, str], ActionResult] = OrderedDict()  # by session and number
        self._templates = make_templates()

    def page(self, path: str, template: str, show: Callable[[Site, Params], Row]) -> list[Route]:
        def answer(request: Request) -> Response:
            site, params = self._find_site(request), _read_params(request)
            event_count = site.published  # taken before reading, so that later changes reload the page
            data = show(site, params)
            if request.url.path.endswith(".json") or "application/json" in request.headers.get("accept", ""):
                text = json.dumps(_make_plain(data), ensure_ascii=False)
                return Response(text, media_type="application/json")
            notice = self._notices.get((request.scope.get(CSRF), params.get("done", "")))
            return HTMLResponse(self._render(request, site, template, data | {"seen": event_count}, notice))

        return [Route(f"{path}.json", answer), Route(path, answer)]

    def _render(
        self, request: Request, site: Site, template: str, data: Row, notice: ActionResult | None = None
    ) -> str:
        frame = pages.make_frame(site, site.memories())
        twin = f"{request.url.path.removesuffix('.json')}.json"
        field = Markup('<input type="hidden" name="csrf" value="{}">').format(request.scope.get(CSRF, ""))
        context = {"seen": data.get("seen", site.published), "base": _find_base_path(request), "frame": frame}
        here = request.url.path.removeprefix(_find_base_path(request))
        params = dict(request.query_params)
        params.pop("done", None)
        query = f"?{urlencode(params)}" if params else ""
        return self._templates.get_template(template).render(
            data
            | context
            | {
                "csrf_field": field,
                "notice": notice,
                "twin": twin + query,
                "here": here,
                "query_string": query,
                "params": params,
            }
        )

    # Changes

    async def act(self, request: Request) -> Response:
        action = request.scope.get(ACTIONS, actions.SITE_ACTIONS).get(request.path_params["action"])
        if action is None:
            raise HTTPException(404)
        return await self._run(request, action)

    async def apply(self, request: Request) -> Response:
        if ACTIONS in request.scope:
            raise HTTPException(404)
        return await self._run(request, lambda site, form: actions.apply_dream(site, request.path_params["id"], form))

    async def act_on_memory(self, request: Request) -> Response:
        home, name, what = (request.path_params[key] for key in ("home", "name", "action"))
        allowed = request.scope.get(ACTIONS)
        action = actions.MEMORY_ACTIONS.get(what) if allowed is None else allowed.get(f"{MEMORY}{what}")
        if action is None:
            raise HTTPException(404)
        return await self._run(request, lambda site, form: action(site, home, name, form))

    async def _run(self, request: Request, action: Callable[[Site, Form], ActionResult]) -> Response:
        kind = request.headers.get("content-type", "").partition(";")[0]
        if kind != "application/x-www-form-urlencoded":
            raise HTTPException(415, "send a form")
        try:
            values = parse_qs((await request.body()).decode("utf-8"), keep_blank_values=True, max_num_fields=20_000)
        except ValueError:
            raise HTTPException(400, "invalid form") from None
        form, expected = Form(values), str(request.scope.get(CSRF, ""))
        if not expected or not hmac.compare_digest(expected.encode(), form["csrf"].encode("utf-8", "replace")):
            raise HTTPException(403, "this form is not from this page")
        site = self._find_site(request)
        try:
            result = await run_in_threadpool(action, site, form)
        except MergeNeeded as conflict:
            return await run_in_threadpool(self._show_conflict, request, site, conflict)
        await run_in_threadpool(site.refresh)
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse({"done": result.text, "to": result.to, "undo": list(result.undo)})
        return self._redirect(request, result)

    def _show_conflict(self, request: Request, site: Site, conflict: MergeNeeded) -> Response:
        if "application/json" in request.headers.get("accept", ""):
            return JSONResponse(_make_plain(conflict.data), 409)
        return HTMLResponse(self._render(request, site, "conflict.html", conflict.data), 409)

    def _redirect(self, request: Request, result: ActionResult) -> Response:
        path, _, anchor = result.to.partition("#")
        if result.text:
            number = f"{len(self._notices)}-{id(result):x}"
            self._notices[request.scope.get(CSRF), number] = result
            while len(self._notices) > _KEPT_NOTICES:
                self._notices.popitem(last=False)
            path += f"{'&' if '?' in path else '?'}done={number}"
        return RedirectResponse(f"{_find_base_path(request)}{path}{f'#{anchor}' if anchor else ''}", 303)

    # The rest

    async def events(self, request: Request) -> Response:
        """Stream server-sent events (hello, change, dream) with the number of events so far."""
        site = self._find_site(request)

        async def stream() -> AsyncIterator[str]:
            queue = site.open_tab()
            try:
                yield f"retry: 2000\nevent: hello\ndata: {site.published}\n\n"
                while True:
                    try:
                        event, number = await asyncio.wait_for(queue.get(), _PING_SECONDS)
                    except TimeoutError:
                        yield ": ping\n\n"
                        continue
                    if event == "end":
                        return
                    yield f"event: {event}\ndata: {number}\n\n"
            finally:
                site.close_tab(queue)

        return StreamingResponse(stream(), media_type="text/event-stream")

    def open(self, request: Request) -> Response:
        return HTMLResponse(self._templates.get_template("open.html").render(base=_find_base_path(request)))

    def show_error(self, request: Request, error: Exception) -> Response:
        status = getattr(error, "status", 0) or next((code for kind, code in _STATUS if isinstance(error, kind)), 500)
        return self._render_error(request, status, str(error), getattr(error, "hint", ""))

    def show_http_error(self, request: Request, error: Exception) -> Response:
        status = getattr(error, "status_code", 500)
        message = "page not found" if status == 404 else str(getattr(error, "detail", ""))
        return self._render_error(request, status, message, "")

    def _render_error(self, request: Request, status: int, message: str, hint: str) -> Response:
        if request.url.path.endswith(".json") or "application/json" in request.headers.get("accept", ""):
            return JSONResponse({"error": plain(message, 500), "hint": plain(hint, 300)}, status)
        data: Row = {"status": status, "message": plain(message, 500), "hint": plain(hint, 300)}
        try:
            return HTMLResponse(self._render(request, self._find_site(request), "error.html", data), status)
        except MemdirError:
            return HTMLResponse(f"<!doctype html><title>memdir</title><p>{escape(data['message'])}", status)


def _find_base_path(request: Request) -> str:
    return str(request.scope.get("root_path", "")).rstrip("/")


def _read_params(request: Request) -> dict[str, str]:
    params = {**dict(request.query_params), **{key: str(value) for key, value in request.path_params.items()}}
    if "name" in params and request.url.path.endswith(".json"):
        params["name"] = params["name"].removesuffix(".json")
    return {**params, "base": _find_base_path(request)}


def _make_plain(value: Any) -> Any:
    """Return a value for JSON: times as text, without images and HTML."""
    if isinstance(value, Mapping):
        keys = (key for key in value if not str(key).startswith(("html", "svg")) and key not in ("cells",))
        return {str(key): _make_plain(value[key]) for key in keys}
    if isinstance(value, DiffLine):
        return {"number": value.number, "sign": value.sign, "text": Markup(value.html).striptags()}
    if isinstance(value, list | tuple | set | frozenset):
        return [_make_plain(item) for item in value]
    if isinstance(value, datetime):
        return value.isoformat()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    return {key: _make_plain(getattr(value, key)) for key in list_fields(value)}


def serve(
    *, cwd: Path, directory: Path | None, port: int, is_open: bool, variables: Mapping[str, str] | None = None
) -> int:
    """Serve a project's web interface on loopback until the process is stopped; return the exit code."""
    project = open_project(cwd, environ=variables, directory=directory)
    # Commands run without the garbage collector, but this process may run for days.
    gc.freeze()
    gc.enable()
    sites, token, listener = Sites(project, variables), OneTimeToken(), listen(port)
    own = listener.getsockname()[1]
    inner = make_app(lambda request: sites.find(request.scope.get(_PROJECT, "")), on_end=sites.close)
    gate = LoopbackGate(choose_project(inner), port=own, token=token)
    server = HttpServer(gate, HttpLimits(connections=_CONNECTIONS, body_bytes=_BODY_BYTES, shutdown=1))
    address = f"http://{HOST}:{own}{gate.root}{OPEN}#{token.value}"
    sys.stdout.write(f"{address}\n")
    sys.stdout.flush()
    with tempfile.TemporaryDirectory(prefix="memdir-ui-") as folder:
        if is_open:
            open_browser(Path(folder), address)
        try:
            server.run([listener])
        finally:
            sites.close()
            project.close()
    return 0


def choose_project(app: App) -> App:
    """Return an app that finds the key of a project in URLs that begin with `/p/KEY/`."""

    async def answer(scope: AsgiScope, receive: Receive, send: Send) -> None:
        root = scope.get("root_path", "")
        if match := _PROJECT_PATH.match(str(scope.get("path", "")).removeprefix(root)):
            scope = {**scope, "root_path": root + match[0], _PROJECT: match["key"]}
        await app(scope, receive, send)

    return answer


def open_browser(folder: Path, address: str) -> None:
    """Open the URL through a private file, because other users of the machine can see command lines."""
    page = folder / "memdir.html"
    page.touch(mode=0o600)
    page.write_text(
        f'<!doctype html><meta charset="utf-8"><meta http-equiv="refresh" content="0;url={escape(address)}">'
        f'<title>memdir</title><a href="{escape(address)}">memdir</a>',
        encoding="utf-8",
    )
    webbrowser.open(page.as_uri())
